//! New method bodies, made with a model of a module's metadata.

mod direct;
mod helpers;
mod hostile;
mod injection;
mod model;
mod recorded;
mod refusals;
mod repairs;
mod shapes;
mod support;
mod types;
