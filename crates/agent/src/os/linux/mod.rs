//! Linux.

pub mod alternate;
pub mod blocked;
pub mod clock;
pub mod connection;
pub mod descriptors;
pub mod editing;
pub mod load;
pub mod map;
pub mod maps;
pub mod memory;
pub mod neighbors;
pub mod reattach;
pub mod sandbox;
pub mod signals;
pub mod tasks;
pub mod threads;
#[cfg(target_arch = "x86_64")]
pub mod tls;
pub mod turn;

/// Thread-local storage by the loader.
#[cfg(not(target_arch = "x86_64"))]
pub mod tls {
    /// Whether threads can have storage.
    pub fn is_ready() -> bool {
        true
    }

    /// An instance that the runtime has of us.
    #[derive(Debug)]
    pub struct Used(());

    impl Used {
        /// Counts an instance.
        pub fn count() -> Self {
            Self(())
        }
    }
}
