//! The library in real runtimes: programs run under it with a managed agent that prints each
//! tracer.
#![cfg(target_os = "linux")]

mod broken;
mod live;
mod methods;
mod process;
mod scenario;
mod start;
mod support;
