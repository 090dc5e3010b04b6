//! Sessions that viewers look at: they are read once, and kept in memory for the next question.

use crate::{
    Workspace,
    problem::Problem,
    store::{SessionId, Store},
};
use explore::Explored;
use session::Nanos;
use std::{
    collections::VecDeque,
    fs::File,
    ops::Range,
    sync::{Arc, PoisonError},
    time::{Duration, SystemTime},
};
use tokio::{sync::Mutex, time::timeout};

/// How long a request waits for a session that another one reads.
const WAIT: Duration = Duration::from_secs(60);

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
pub struct Explorations(std::sync::Mutex<VecDeque<(Key, Slot)>>);

impl Explorations {
    /// A session, or a part of its time: nanoseconds since its start. Only who reads it takes a
    /// turn of `work`; those who wait for it leave the turns to others.
    pub async fn open(
        &self,
        work: &Arc<Workspace>,
        id: &SessionId,
        time: Option<Range<Nanos>>,
    ) -> Result<Arc<Explored>, Problem> {
        let found = {
            let id = id.clone();
            work.light(move |work| key(&work.store, id, time)).await?
        };
        let (file, key) = found;
        let slot = self.slot(&key);
        let waiting = timeout(WAIT, slot.lock_owned()).await;
        let mut explored = waiting.map_err(|_| Problem::busy("the session is still being read"))?;
        if let Some(known) = &*explored {
            return Ok(Arc::clone(known));
        }
        // It keeps the slot until it has been read, also if nobody waits for it any more.
        let time = key.time.clone();
        let opened = work.heavy(move |_| {
            let read = Explored::read(file, time).map_err(report::ReportError::from)?;
            Ok(Arc::clone(explored.insert(Arc::new(read))))
        });
        let opened = opened.await;
        if opened.is_err() {
            self.forget(&key);
        }
        opened
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

    /// Forgets a session that could not be read.
    fn forget(&self, key: &Key) {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|(known, _)| known != key);
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

/// What a session is now, to tell whether it is the one that was read.
fn key(store: &Store, id: SessionId, time: Option<Range<Nanos>>) -> Result<(File, Key), Problem> {
    let file = store.read(&id)?;
    let found = file.metadata();
    let found = found.map_err(|error| Problem::internal(format!("cannot read {id}: {error}")))?;
    let key = Key { id, bytes: found.len(), changed: found.modified().ok(), time };
    Ok((file, key))
}

#[cfg(test)]
#[path = "../../profile/tests/shop/mod.rs"]
mod shop;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Program, store::Retention};
    use std::{path::Path, sync::atomic::Ordering};

    /// A program that has no agent.
    struct Bare;

    impl Program for Bare {
        fn agent(&self) -> recorder::AgentFile {
            recorder::AgentFile::Embedded(&[])
        }

        fn snapshots(
            &self,
            _: &Path,
            _: &profile::Profile,
            _: usize,
        ) -> Vec<report::SnapshotSection> {
            Vec::new()
        }

        fn heap_summary(
            &self,
            _: &Path,
            _: &profile::Profile,
        ) -> Option<heap::growth::SnapshotSummary> {
            None
        }

        fn check_up(
            &self,
            _: &crate::CheckupPlan,
            _: &dyn crate::Control,
        ) -> Result<(recorder::Summary, serde_json::Value), String> {
            Err("it has no agent".to_owned())
        }
    }

    fn workspace(folder: &Path) -> Arc<Workspace> {
        Workspace::open(folder, Retention::default(), Arc::new(Bare)).unwrap()
    }

    #[tokio::test]
    async fn a_session_is_read_once_until_it_changes() {
        let folder = tempfile::tempdir().unwrap();
        let work = workspace(folder.path());
        let open = Explorations::default();
        let id = SessionId::parse("shop").unwrap();
        assert!(open.open(&work, &id, None).await.is_err());
        let path = work.path(&id);
        std::fs::write(&path, shop::file()).unwrap();
        let first = open.open(&work, &id, None).await.unwrap();
        assert!(Arc::ptr_eq(&first, &open.open(&work, &id, None).await.unwrap()));
        let part = open.open(&work, &id, Some(0..1_000_000_000)).await.unwrap();
        assert!(part.profile.cpu.totals.samples < first.profile.cpu.totals.samples);
        assert!(Arc::ptr_eq(&first, &open.open(&work, &id, None).await.unwrap()));
        let later = SystemTime::now() + std::time::Duration::from_secs(2);
        let file = File::options().write(true).open(&path).unwrap();
        file.set_modified(later).unwrap();
        assert!(!Arc::ptr_eq(&first, &open.open(&work, &id, None).await.unwrap()));
        std::fs::write(&path, b"no session").unwrap();
        assert!(open.open(&work, &id, None).await.is_err());
        // What cannot be read takes no place.
        assert!(open.0.lock().unwrap().is_empty());
    }

    #[tokio::test]
    async fn only_so_many_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let work = workspace(folder.path());
        let open = Explorations::default();
        let id = SessionId::parse("shop").unwrap();
        std::fs::write(work.path(&id), shop::file()).unwrap();
        let part = async |seconds: u64| {
            open.open(&work, &id, Some(0..seconds * 1_000_000_000)).await.unwrap()
        };
        let first = part(1).await;
        for seconds in 2..30 {
            part(seconds).await;
            open.tidy();
        }
        assert!(open.0.lock().unwrap().len() <= MOST);
        assert!(!Arc::ptr_eq(&first, &part(1).await));
    }

    #[tokio::test]
    async fn who_waits_for_a_session_leaves_the_turns_to_others() {
        let folder = tempfile::tempdir().unwrap();
        let work = workspace(folder.path());
        let open = Arc::new(Explorations::default());
        let id = SessionId::parse("shop").unwrap();
        std::fs::write(work.path(&id), shop::file()).unwrap();
        // Another request reads it and is not ready.
        let (_, own) = key(&work.store, id.clone(), None).unwrap();
        let slot = open.slot(&own);
        let reading = slot.lock().await;
        let asked = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let waiting: Vec<_> = (0..8)
            .map(|_| {
                let (work, open, id) = (Arc::clone(&work), Arc::clone(&open), id.clone());
                let asked = Arc::clone(&asked);
                tokio::spawn(async move {
                    asked.fetch_add(1, Ordering::Relaxed);
                    open.open(&work, &id, None).await.map(drop)
                })
            })
            .collect();
        while asked.load(Ordering::Relaxed) < waiting.len() {
            tokio::task::yield_now().await;
        }
        let others = timeout(Duration::from_secs(30), work.heavy(|_| Ok(1))).await;
        assert_eq!(others.unwrap().unwrap(), 1);
        drop(reading);
        for one in waiting {
            one.await.unwrap().unwrap();
        }
    }
}
