//! One file per command. Each has its `Args`, whose comments are the command's help, and a `run`.

pub mod checkup;
pub mod compare;
pub mod completions;
pub mod deadlocks;
pub mod heap;
pub mod il;
pub mod launch;
pub mod leaks;
pub mod man;
pub mod mcp;
pub mod newrelic;
pub mod profilers;
pub mod ps;
pub mod record;
pub mod report;
pub mod schema;
pub mod serve;
pub mod stacks;
pub mod tasks;
pub mod top;
pub mod trace;
pub mod ui;
pub mod validate;
