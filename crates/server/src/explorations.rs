//! Sessions that viewers look at: they are read once, and kept in memory for the next question.

use crate::{
    problem::Problem,
    store::{SessionId, Store},
};
use explore::Explored;
use session::Nanos;
use std::{
    collections::VecDeque,
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

/// Bytes that sessions may take which are kept. The one that was asked for last is kept in any
/// case.
const MOST_BYTES: usize = 256 << 20;

/// Sessions that are kept.
const MOST: usize = 8;

/// A session as it was, or a part of its time.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    id: SessionId,
    bytes: u64,
    changed: Option<SystemTime>,
    time: Option<Range<Nanos>>,
}

/// Whoever comes first reads the session; the others wait for it.
type Slot = Arc<Mutex<Option<Arc<Explored>>>>;

/// Open sessions, the one that was asked for last first.
#[derive(Debug, Default)]
pub struct Explorations(Mutex<VecDeque<(Key, Slot)>>);

impl Explorations {
    /// A session, or a part of its time: nanoseconds since its start.
    pub fn open(
        &self,
        store: &Store,
        id: &SessionId,
        time: Option<Range<Nanos>>,
    ) -> Result<Arc<Explored>, Problem> {
        let file = store.read(id)?;
        let found = file.metadata();
        let found =
            found.map_err(|error| Problem::internal(format!("cannot read {id}: {error}")))?;
        let key = Key { id: id.clone(), bytes: found.len(), changed: found.modified().ok(), time };
        let slot = self.slot(&key);
        let mut explored = slot.lock().unwrap_or_else(PoisonError::into_inner);
        let opened = match &*explored {
            Some(known) => Arc::clone(known),
            None => {
                let read = Explored::read(file, key.time.clone());
                let read = Arc::new(read.map_err(report::ReportError::from)?);
                *explored = Some(Arc::clone(&read));
                read
            }
        };
        drop(explored);
        Ok(opened)
    }

    fn slot(&self, key: &Key) -> Slot {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A file that has become longer or another one is not asked for any more.
        let is_current = |known: &Key| {
            known.id != key.id || (known.bytes, known.changed) == (key.bytes, key.changed)
        };
        open.retain(|(known, _)| is_current(known));
        let known = open.iter().position(|(known, _)| known == key);
        let entry = known.and_then(|at| open.remove(at));
        let (_, slot) = entry.unwrap_or_else(|| (key.clone(), Slot::default()));
        open.push_front((key.clone(), Arc::clone(&slot)));
        slot
    }

    /// Forgets what was not asked for lately, as much as the limits say.
    pub fn tidy(&self) {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut bytes, mut count) = (0, 0);
        open.retain(|(_, slot)| {
            // What is being read has its place.
            let size = slot.try_lock().ok().and_then(|slot| slot.as_ref().map(|own| own.size()));
            bytes += size.unwrap_or_default();
            count += 1;
            count == 1 || (bytes <= MOST_BYTES && count <= MOST)
        });
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
        assert!(open.0.lock().unwrap().len() <= MOST);
        assert!(!Arc::ptr_eq(&first, &part(1)));
    }
}
