//! Sessions that viewers look at: they are read once, and kept in memory for the next question.

use crate::{
    kept::Kept,
    problem::Problem,
    store::{SessionId, Store},
};
use ::compare::viewed::Viewed;
use explore::{Explored, HeapView};
use session::Nanos;
use std::{fs::File, ops::Range, sync::Arc, time::SystemTime};

/// Bytes that sessions may take which are kept. The one that was asked for last is kept in any
/// case.
const MOST_BYTES: usize = 256 << 20;

/// Sessions that are kept.
const MOST: usize = 8;

/// Comparisons that are kept.
const MOST_COMPARISONS: usize = 2;

/// Bytes of heap snapshots that are kept. One is kept in any case.
const MOST_HEAP: usize = 512 << 20;

/// A session file as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp {
    id: SessionId,
    bytes: u64,
    changed: Option<SystemTime>,
}

impl Stamp {
    /// That of a file as it is now.
    pub fn of(id: &SessionId, file: &File) -> Result<Self, Problem> {
        let found = file.metadata();
        let found =
            found.map_err(|error| Problem::internal(format!("cannot read {id}: {error}")))?;
        Ok(Self { id: id.clone(), bytes: found.len(), changed: found.modified().ok() })
    }

    /// Whether the other one is of another session, or of the same file as it is now. A file that
    /// has become longer or another one is not asked for any more.
    fn allows(&self, known: &Self) -> bool {
        known.id != self.id || known == self
    }
}

/// Open sessions, comparisons and heaps.
#[derive(Debug, Default)]
pub struct Explorations {
    sessions: Kept<(Stamp, Option<Range<Nanos>>), Explored>,
    /// By the two sessions and how they were compared.
    comparisons: Kept<([Stamp; 2], String), Viewed>,
    /// By the session and the number of the snapshot.
    heaps: Kept<(Stamp, Option<u32>), HeapView>,
}

impl Explorations {
    /// A session, or a part of its time: nanoseconds since its start.
    pub fn open(
        &self,
        store: &Store,
        id: &SessionId,
        time: Option<Range<Nanos>>,
    ) -> Result<Arc<Explored>, Problem> {
        let file = store.read(id)?;
        let stamp = Stamp::of(id, &file)?;
        let read = || Ok(Explored::read(file, time.clone()).map_err(report::ReportError::from)?);
        let key = (stamp.clone(), time.clone());
        self.sessions.open(key, |(known, _)| stamp.allows(known), read)
    }

    /// A comparison of two sessions; `how` says in which way.
    pub fn compare(
        &self,
        stamps: [Stamp; 2],
        how: String,
        read: impl FnOnce() -> Result<Viewed, Problem>,
    ) -> Result<Arc<Viewed>, Problem> {
        let current = stamps.clone();
        let is_current = |(known, _): &([Stamp; 2], String)| {
            known.iter().all(|known| current.iter().all(|stamp| stamp.allows(known)))
        };
        let opened = self.comparisons.open((stamps, how), is_current, read);
        self.comparisons.tidy(usize::MAX, MOST_COMPARISONS, |_| 0);
        opened
    }

    /// A heap snapshot of a session: its number from 1 on, or the last one.
    pub fn heap(
        &self,
        stamp: Stamp,
        number: Option<u32>,
        read: impl FnOnce() -> Result<HeapView, Problem>,
    ) -> Result<Arc<HeapView>, Problem> {
        let current = stamp.clone();
        let opened = self.heaps.open((stamp, number), |(known, _)| current.allows(known), read);
        self.heaps.tidy(MOST_HEAP, MOST, HeapView::size);
        opened
    }

    /// Forgets what was not asked for lately, as much as the limits say.
    pub fn tidy(&self) {
        self.sessions.tidy(MOST_BYTES, MOST, Explored::size);
    }
}

#[cfg(test)]
#[path = "../../profile/tests/shop/mod.rs"]
mod shop;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Retention;

    #[test]
    fn a_session_is_read_once_until_it_changes() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path(), Retention::default()).unwrap();
        let open = Explorations::default();
        let id = SessionId::parse("shop").unwrap();
        assert!(open.open(&store, &id, None).is_err());
        std::fs::write(store.path(&id), shop::file()).unwrap();
        let first = open.open(&store, &id, None).unwrap();
        assert!(Arc::ptr_eq(&first, &open.open(&store, &id, None).unwrap()));
        let part = open.open(&store, &id, Some(0..1_000_000_000)).unwrap();
        assert!(part.profile.cpu.totals.samples < first.profile.cpu.totals.samples);
        assert!(Arc::ptr_eq(&first, &open.open(&store, &id, None).unwrap()));
        let later = SystemTime::now() + std::time::Duration::from_secs(2);
        std::fs::File::options()
            .write(true)
            .open(store.path(&id))
            .unwrap()
            .set_modified(later)
            .unwrap();
        assert!(!Arc::ptr_eq(&first, &open.open(&store, &id, None).unwrap()));
        std::fs::write(store.path(&id), b"no session").unwrap();
        assert!(open.open(&store, &id, None).is_err());
    }

    #[test]
    fn only_so_many_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path(), Retention::default()).unwrap();
        let open = Explorations::default();
        let id = SessionId::parse("shop").unwrap();
        std::fs::write(store.path(&id), shop::file()).unwrap();
        let part = |seconds: u64| open.open(&store, &id, Some(0..seconds * 1_000_000_000)).unwrap();
        let first = part(1);
        for seconds in 2..30 {
            part(seconds);
            open.tidy();
        }
        assert!(open.sessions.len() <= MOST);
        assert!(!Arc::ptr_eq(&first, &part(1)));
    }
}
