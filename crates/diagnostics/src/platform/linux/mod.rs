pub mod discovery;
mod executable;
pub mod limits;
pub(crate) mod memory;
pub mod overload;
pub mod proc;
pub mod processors;
pub mod transport;
