pub mod discovery;
pub mod transport;
