//! Linux.

pub mod clock;
pub mod connection;
pub mod door;
pub mod map;
pub mod maps;
pub mod memory;
pub mod signals;
pub mod tasks;
pub mod threads;
pub mod turn;
