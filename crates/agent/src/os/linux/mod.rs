//! Linux.

pub mod alternate;
pub mod clock;
pub mod connection;
pub mod descriptors;
pub mod door;
pub mod map;
pub mod maps;
pub mod memory;
pub mod sandbox;
pub mod signals;
pub mod tasks;
pub mod threads;
pub mod turn;
