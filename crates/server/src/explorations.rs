//! Sessions that viewers look at: they are read once, and kept in memory for the next question.

use crate::{Workspace, kept::Kept, problem::Problem, store::SessionId};
use ::compare::viewed::Viewed;
use explore::{Explored, GrowthView, HeapView, Part};
use std::{
    collections::HashMap,
    fs::File,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};

/// Bytes that sessions may take which are kept. The one that was asked for last is kept in any
/// case.
const MOST_BYTES: usize = 256 << 20;

/// Sessions that are kept.
const MOST: usize = 8;

/// Comparisons that are kept.
const MOST_COMPARISONS: usize = 2;

/// Bytes that the growth over heap snapshots may take, of all sessions of which it is kept. That of
/// one session is kept in any case.
const MOST_GROWTH: usize = 64 << 20;

/// Bytes of heap snapshots that are kept. One is kept in any case.
const MOST_HEAP: usize = 512 << 20;

/// How long answers about a session that is being written may be of what was read: its file becomes
/// longer all the time, and each view makes several requests.
const FRESH: Duration = Duration::from_secs(2);

/// A session file as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp {
    id: SessionId,
    bytes: u64,
    changed: Option<SystemTime>,
}

impl Stamp {
    /// That of a file as it is now.
    fn of(id: &SessionId, file: &File) -> Result<Self, Problem> {
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
    sessions: Kept<(Stamp, Option<Part>), Explored>,
    /// By the two sessions and how they were compared.
    comparisons: Kept<([Stamp; 2], String), Viewed>,
    /// By the session and the number of the snapshot.
    heaps: Kept<(Stamp, Option<u32>), HeapView>,
    growths: Kept<Stamp, GrowthView>,
    /// Sessions that are being written: when they were read, and what they were then.
    written: Mutex<HashMap<SessionId, (Instant, Stamp)>>,
}

impl Explorations {
    /// A session, or a part of its time.
    pub async fn open(
        &self,
        work: &Arc<Workspace>,
        id: &SessionId,
        part: Option<Part>,
    ) -> Result<Arc<Explored>, Problem> {
        let own = id.clone();
        let found = work.light(move |work| {
            let file = work.read(&own)?;
            Ok((Stamp::of(&own, &file)?, file, work.store.is_written(&own)))
        });
        let (stamp, file, is_written) = found.await?;
        let stamp = self.lately(stamp, is_written);
        let key = (stamp.clone(), part.clone());
        let read = move |_: &Workspace| {
            Ok(Explored::open(file, part.as_ref()).map_err(report::ReportError::from)?)
        };
        self.sessions.open(work, key, |(known, _)| stamp.allows(known), read).await
    }

    /// The stamp of what was read lately of a session that is being written; else the current one.
    fn lately(&self, current: Stamp, is_written: bool) -> Stamp {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        written.retain(|_, (read, _)| read.elapsed() < FRESH);
        if !is_written {
            written.remove(&current.id);
            return current;
        }
        match written.get(&current.id) {
            // A shorter file is another one of the same name.
            Some((_, known)) if known.bytes <= current.bytes => known.clone(),
            _ => {
                written.insert(current.id.clone(), (Instant::now(), current.clone()));
                current
            }
        }
    }

    /// A comparison of two sessions; `how` says in which way.
    pub async fn compare(
        &self,
        work: &Arc<Workspace>,
        [before, after]: [SessionId; 2],
        how: String,
        read: impl FnOnce(&Workspace) -> Result<Viewed, Problem> + Send + 'static,
    ) -> Result<Arc<Viewed>, Problem> {
        let found = work.light(move |work| {
            Ok([Stamp::of(&before, &work.read(&before)?)?, Stamp::of(&after, &work.read(&after)?)?])
        });
        let stamps = found.await?;
        let current = stamps.clone();
        let is_current = |(known, _): &([Stamp; 2], String)| {
            known.iter().all(|known| current.iter().all(|stamp| stamp.allows(known)))
        };
        let opened = self.comparisons.open(work, (stamps, how), is_current, read).await;
        self.comparisons.tidy(usize::MAX, MOST_COMPARISONS, |_| 0);
        opened
    }

    /// A heap snapshot of a session: its number from 1 on, or the last one.
    pub async fn heap(
        &self,
        work: &Arc<Workspace>,
        id: SessionId,
        number: Option<u32>,
        read: impl FnOnce(&Workspace) -> Result<HeapView, Problem> + Send + 'static,
    ) -> Result<Arc<HeapView>, Problem> {
        let stamp = work.light(move |work| Stamp::of(&id, &work.read(&id)?)).await?;
        let current = stamp.clone();
        let is_current = |(known, _): &(Stamp, Option<u32>)| current.allows(known);
        let opened = self.heaps.open(work, (stamp, number), is_current, read).await;
        self.heaps.tidy(MOST_HEAP, MOST, HeapView::size);
        opened
    }

    /// What grew over the heap snapshots of a session.
    pub async fn growth(
        &self,
        work: &Arc<Workspace>,
        id: SessionId,
        read: impl FnOnce(&Workspace) -> Result<GrowthView, Problem> + Send + 'static,
    ) -> Result<Arc<GrowthView>, Problem> {
        let stamp = work.light(move |work| Stamp::of(&id, &work.read(&id)?)).await?;
        let current = stamp.clone();
        let opened = self.growths.open(work, stamp, |known| current.allows(known), read).await;
        self.growths.tidy(MOST_GROWTH, MOST, GrowthView::size);
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
    use crate::{Program, store::Retention};
    use std::{path::Path, sync::atomic::Ordering};
    use tokio::time::timeout;

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

        fn heap_snapshot(&self, _: &Path, _: Option<u32>) -> Result<heap::Snapshot, String> {
            Err("it reads no snapshots".to_owned())
        }

        fn heap_summaries(&self, _: &Path) -> Result<Vec<heap::growth::SnapshotSummary>, String> {
            Err("it reads no snapshots".to_owned())
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
        let part = open.open(&work, &id, Some(Part::Time(0..1_000_000_000))).await.unwrap();
        assert!(part.profile.cpu.totals.samples < first.profile.cpu.totals.samples);
        assert!(Arc::ptr_eq(&first, &open.open(&work, &id, None).await.unwrap()));
        let later = SystemTime::now() + Duration::from_secs(2);
        let file = File::options().write(true).open(&path).unwrap();
        file.set_modified(later).unwrap();
        assert!(!Arc::ptr_eq(&first, &open.open(&work, &id, None).await.unwrap()));
        std::fs::write(&path, b"no session").unwrap();
        assert!(open.open(&work, &id, None).await.is_err());
        // What cannot be read takes no place.
        assert_eq!(open.sessions.len(), 0);
    }

    #[tokio::test]
    async fn a_session_that_is_being_written_is_not_read_for_each_request() {
        let folder = tempfile::tempdir().unwrap();
        let work = workspace(folder.path());
        let open = Explorations::default();
        let writing = work.store.create("shop").unwrap();
        let id = writing.id.clone();
        assert!(open.open(&work, &id, None).await.is_err());
        let path = work.path(&id);
        std::fs::write(&path, shop::file()).unwrap();
        let first = open.open(&work, &id, None).await.unwrap();
        let longer = || {
            let file = File::options().append(true).open(&path).unwrap();
            file.set_modified(SystemTime::now() + Duration::from_secs(2)).unwrap();
        };
        longer();
        assert!(Arc::ptr_eq(&first, &open.open(&work, &id, None).await.unwrap()));
        let last = Some(Part::Last(1_000_000_000));
        let latest = open.open(&work, &id, last.clone()).await.unwrap();
        assert!(Arc::ptr_eq(&latest, &open.open(&work, &id, last.clone()).await.unwrap()));
        let (read, _) = open.written.lock().unwrap()[&id].clone();
        open.written.lock().unwrap().get_mut(&id).unwrap().0 = read.checked_sub(FRESH).unwrap();
        let second = open.open(&work, &id, None).await.unwrap();
        assert!(!Arc::ptr_eq(&first, &second));
        // What was read before is forgotten, parts as well: a long recording takes no more memory.
        assert_eq!(open.sessions.len(), 1);
        assert!(!Arc::ptr_eq(&latest, &open.open(&work, &id, last).await.unwrap()));
        // Once it is complete, it is read as it is.
        drop(writing);
        assert!(Arc::ptr_eq(&second, &open.open(&work, &id, None).await.unwrap()));
        std::fs::write(&path, shop::file()).unwrap();
        assert!(!Arc::ptr_eq(&second, &open.open(&work, &id, None).await.unwrap()));
    }

    #[tokio::test]
    async fn only_so_many_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let work = workspace(folder.path());
        let open = Explorations::default();
        let id = SessionId::parse("shop").unwrap();
        std::fs::write(work.path(&id), shop::file()).unwrap();
        let part = async |seconds: u64| {
            let part =
                if seconds.is_multiple_of(2) { Part::Last } else { |end| Part::Time(0..end) };
            open.open(&work, &id, Some(part(seconds * 1_000_000_000))).await.unwrap()
        };
        let first = part(1).await;
        for seconds in 2..30 {
            part(seconds).await;
            open.tidy();
        }
        assert!(open.sessions.len() <= MOST);
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
        let stamp = Stamp::of(&id, &work.read(&id).unwrap()).unwrap();
        let slot = open.sessions.slot((stamp, None), |_| true);
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
