//! Connections without a request that was let in.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::sync::Notify;

/// Connections without a request that was let in. Beyond that, the oldest one is closed when
/// another one comes: whoever has no token cannot take the place of those who have one.
const MOST: usize = 256;

/// All of them, the oldest first.
#[derive(Clone, Debug, Default)]
pub struct Strangers(Arc<Mutex<VecDeque<Arc<Place>>>>);

/// The place of a connection, until it is known or has ended.
#[derive(Debug, Default)]
struct Place {
    /// Woken when the connection has to go.
    leave: Notify,
}

/// A connection.
#[derive(Debug)]
pub struct Stranger {
    all: Strangers,
    place: Arc<Place>,
    is_known: AtomicBool,
}

impl Strangers {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<Place>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection that has just come.
    pub fn add(&self) -> Arc<Stranger> {
        let place = Arc::new(Place::default());
        let mut all = self.lock();
        all.push_back(Arc::clone(&place));
        let oldest = if all.len() > MOST { all.pop_front() } else { None };
        drop(all);
        if let Some(oldest) = oldest {
            oldest.leave.notify_one();
        }
        Arc::new(Stranger { all: self.clone(), place, is_known: AtomicBool::new(false) })
    }
}

impl Stranger {
    /// A request of it was let in: from now on it stays.
    pub fn welcome(&self) {
        if !self.is_known.swap(true, Ordering::Relaxed) {
            self.forget();
        }
    }

    /// Waits until it has to go.
    pub async fn leave(&self) {
        self.place.leave.notified().await;
    }

    fn forget(&self) {
        self.all.lock().retain(|place| !Arc::ptr_eq(place, &self.place));
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        if !*self.is_known.get_mut() {
            self.forget();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::time::timeout;

    #[tokio::test]
    async fn the_oldest_stranger_leaves_and_who_is_known_stays() {
        let strangers = Strangers::default();
        let known = strangers.add();
        known.welcome();
        let mut all: Vec<_> = (0..MOST).map(|_| strangers.add()).collect();
        let leaves = async |one: &Arc<Stranger>| {
            timeout(Duration::from_millis(20), one.leave()).await.is_ok()
        };
        assert!(!leaves(&all[0]).await);
        all.push(strangers.add());
        assert!(leaves(&all[0]).await && !leaves(&all[1]).await && !leaves(&known).await);
        all.drain(..10);
        assert_eq!(strangers.lock().len(), MOST - 9);
        all.push(strangers.add());
        assert!(!leaves(&all[0]).await);
    }
}
