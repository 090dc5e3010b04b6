pub mod discovery;
mod executable;
pub mod proc;
pub mod transport;
