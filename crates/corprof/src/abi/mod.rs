//! The profiling API as the runtime's headers define it (`corprof.idl`): interfaces, structures,
//! enumerations.
//!
//! Names here are the header's, and every method takes bare pointers. Everything above this module
//! is safe; come here for what the safe interface does not lift, or to implement the runtime's side
//! (as `corprof-mock` does).
//!
//! Each interface is stated once, as a table of methods in vtable order; see
//! [`com::com_interface`].
#![allow(non_camel_case_types, non_snake_case)]

mod callback;
mod helpers;
mod info;
mod types;

pub use callback::*;
pub use helpers::*;
pub use info::*;
pub use types::*;

#[cfg(test)]
mod tests;
