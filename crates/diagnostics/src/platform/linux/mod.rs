pub mod discovery;
mod executable;
pub(crate) mod memory;
pub mod proc;
pub mod transport;
