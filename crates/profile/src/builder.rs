use std::{io::Read, ops::Range, sync::Arc};

use session::{
    ModelError, Nanos, SessionError, SessionInfo, SessionReader, SessionRecord, Sink, Validator,
};

use document::format::{bytes, duration};

use crate::{
    Allocations, Exceptions, Imported, Jit, Loads, Locks, Pool, Profile, Series, SeriesKind,
    Tables, Threads, Traced, series::Keep,
};

mod taking;

use taking::Taking;

/// What to keep of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildOptions {
    /// Keep every single CPU and wall sample with its time, not only the sums. Needs about 26 bytes
    /// for each.
    pub keep_samples: bool,
    /// Keep how the samples are spread over time, in slices ([`Series::slices`]): how much of each
    /// stack there is varies from slice to slice.
    pub slices: bool,
    /// Only what happened in this time, nanoseconds since the start of the recording.
    pub time: Option<Range<Nanos>>,
    /// Bytes of memory that a profile may take which is read from a session, about. What comes
    /// after that is not read, and [`Profile::damage`] says so.
    pub memory: u64,
}

impl Default for BuildOptions {
    fn default() -> Self {
        Self { keep_samples: false, slices: false, time: None, memory: MOST_MEMORY }
    }
}

/// As many single samples as a recording of a day has on 8 busy processors, and far more sums than
/// any.
const MOST_MEMORY: u64 = 2 << 30;

/// Bytes of the records of a session, unpacked. It bounds the time for a small file that unpacks to
/// a very large one.
const MOST_UNPACKED: u64 = 128 << 30;

/// Profilers that a session can say that ran.
const MOST_PROFILERS: usize = 256;

impl BuildOptions {
    fn keep(&self) -> Keep {
        Keep { samples: self.keep_samples, slices: self.slices }
    }
}

/// Why there is no profile.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The session could not be opened.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The session has no first record.
    #[error("nothing was recorded: the session ends before its first record; record again")]
    Empty,
}

/// Makes a profile of the records of a session, saved or live.
#[derive(Debug, Default)]
pub struct ProfileBuilder {
    options: BuildOptions,
    validator: Validator,
    tables: Arc<Tables>,
    /// There from the first record on.
    profile: Option<Box<Profile>>,
    /// Latest time that a record has.
    latest: Nanos,
}

impl ProfileBuilder {
    /// A builder that has seen nothing yet.
    pub fn new(options: BuildOptions) -> Self {
        Self { options, ..Self::default() }
    }

    /// Takes the next record.
    ///
    /// # Errors
    /// When the record does not fit those before it; it is then left out.
    pub fn add(&mut self, record: &SessionRecord) -> Result<(), ModelError> {
        self.validator.check(record)?;
        self.take(record, 0);
        Ok(())
    }

    /// Takes a record that has been checked, and has this many bytes in the session.
    fn take(&mut self, record: &SessionRecord, bytes: usize) {
        if let SessionRecord::Info(info) = record {
            self.begin(info);
            return;
        }
        let Some(profile) = self.profile.as_deref_mut() else { return };
        let start = profile.info.start;
        let time = self
            .options
            .time
            .as_ref()
            .map(|time| start.saturating_add(time.start)..start.saturating_add(time.end));
        let keep_samples = self.options.keep_samples;
        let times = Times { wanted: Wanted(time), latest: &mut self.latest };
        Taking { tables: &mut self.tables, profile, times, keep_samples, bytes }.take(record);
    }

    /// Why no more is read, if the session is too large.
    fn too_large(&self, unpacked: u64) -> Option<String> {
        let Some(profile) = &self.profile else { return None };
        let tables = (self.tables.size() + self.tables.copies) as u64;
        let limit = if tables + profile.size() > self.options.memory {
            format!("{} of memory", bytes(self.options.memory))
        } else if unpacked > MOST_UNPACKED {
            format!("{} of records", bytes(MOST_UNPACKED))
        } else {
            return None;
        };
        let end = duration(self.latest.saturating_sub(profile.info.start));
        Some(format!(
            "the session is too large to read all of it: it needs more than {limit}; what was \
             recorded in the first {end} is here. Choose a part of its time (--from, --to)"
        ))
    }

    fn begin(&mut self, info: &SessionInfo) {
        let window = self.options.time.clone();
        let start = info.start.saturating_add(window.map_or(0, |time| time.start));
        self.latest = info.start;
        let keep = self.options.keep();
        let sums = Keep { samples: false, ..keep };
        let profilers = info.profilers.iter().take(MOST_PROFILERS).cloned().collect();
        self.profile = Some(Box::new(Profile {
            info: SessionInfo { profilers, ..info.clone() },
            tables: Arc::default(),
            start,
            stop: start,
            cpu: Series::new(SeriesKind::Cpu, start, keep),
            wall: Series::new(SeriesKind::Wall, start, keep),
            exceptions: Exceptions::new(start, keep),
            allocations: Allocations::new(start, keep),
            locks: Locks::new(start, keep),
            // Never singly: there are too many of them.
            calls: Series::new(SeriesKind::Calls, start, sums),
            transitions: Series::new(SeriesKind::Transitions, start, sums),
            traced: Traced::new(keep.samples),
            jit: Jit::new(start, keep),
            loads: Loads::new(start, keep),
            imported: Imported::new(start, sums),
            counters: Vec::new(),
            threads: Threads::new(start),
            pool: Pool::new(start, keep),
            gcs: Vec::new(),
            inductions: Vec::new(),
            other_tables: Vec::new(),
            pauses: Vec::new(),
            survivors: Vec::new(),
            observer: Vec::new(),
            processors: Vec::new(),
            rates: Vec::new(),
            resources: Vec::new(),
            notes: Vec::new(),
            end: None,
            cut_short: false,
            damage: None,
            filtered: None,
            inner: 0,
        }));
    }

    /// The profile of what has come so far; `None` before the first record. Cheap enough for every
    /// second: tables are shared until the next definition comes.
    pub fn snapshot(&self) -> Option<Profile> {
        let mut profile = (**self.profile.as_ref()?).clone();
        self.complete(&mut profile);
        Some(profile)
    }

    /// Forgets samples, events and notes, and keeps definitions: the next [`Self::snapshot`] shows
    /// what came since.
    pub fn clear(&mut self) {
        let Some(mut old) = self.profile.take() else { return };
        let latest = self.latest;
        let keep = self.options.keep();
        let sums = Keep { samples: false, ..keep };
        self.begin(&old.info);
        if let Some(profile) = self.profile.as_deref_mut() {
            profile.start = latest;
            profile.cpu = Series::new(SeriesKind::Cpu, latest, keep);
            profile.wall = Series::new(SeriesKind::Wall, latest, keep);
            profile.exceptions = Exceptions::new(latest, keep);
            profile.allocations = Allocations::new(latest, keep);
            profile.locks = Locks::new(latest, keep);
            profile.threads = Threads::new(latest);
            profile.pool = Pool::new(latest, keep);
            profile.calls = Series::new(SeriesKind::Calls, latest, sums);
            profile.transitions = Series::new(SeriesKind::Transitions, latest, sums);
            profile.traced = std::mem::take(&mut old.traced);
            profile.traced.forget_calls();
            profile.jit = Jit::new(latest, keep);
            profile.loads = Loads::new(latest, keep);
            profile.imported = Imported::new(latest, sums);
            profile.counters = std::mem::take(&mut old.counters);
            profile.counters.iter_mut().for_each(|counter| counter.values.clear());
            profile.end = old.end.take();
            // The costs of the observer count from the start, so that the last one stays true.
            profile.observer.extend(old.observer.pop());
            profile.resources = std::mem::take(&mut old.resources);
            profile.rates = std::mem::take(&mut old.rates);
            profile.other_tables = std::mem::take(&mut old.other_tables);
            profile.other_tables.iter_mut().for_each(|table| table.batches.clear());
        }
        self.latest = latest;
    }

    /// The profile of all; `None` if not even the first record came. `cut_short` as
    /// [`SessionReader::cut_short`] says.
    pub fn finish(mut self, cut_short: bool) -> Option<Profile> {
        let mut profile = *self.profile.take()?;
        profile.cut_short = cut_short;
        self.complete(&mut profile);
        Some(profile)
    }

    fn complete(&self, profile: &mut Profile) {
        profile.cpu.settle();
        profile.wall.settle();
        profile.exceptions.series.settle();
        profile.allocations.series.settle();
        profile.locks.series.settle();
        profile.threads.settle(profile.start);
        profile.pool.series.settle();
        profile.calls.settle();
        profile.transitions.settle();
        profile.jit.series.settle();
        profile.loads.series.settle();
        profile.imported.settle();
        profile.tables = Arc::clone(&self.tables);
        // The report of the cost comes after the end.
        let last = profile.end.as_ref().map_or(self.latest, |end| end.time).max(profile.start);
        let limit =
            self.options.time.as_ref().map(|time| profile.info.start.saturating_add(time.end));
        profile.stop = limit.map_or(last, |limit| limit.min(last).max(profile.start));
    }
}

/// The time that is wanted, on the clock of the recording; `None` for all.
struct Wanted(Option<Range<Nanos>>);

impl Wanted {
    fn holds(&self, time: Nanos) -> bool {
        self.0.as_ref().is_none_or(|wanted| wanted.contains(&time))
    }
}

/// What the times of records are compared with.
struct Times<'a> {
    wanted: Wanted,
    latest: &'a mut Nanos,
}

impl Times<'_> {
    /// A record has this time.
    fn see(&mut self, time: Nanos) {
        *self.latest = (*self.latest).max(time);
    }

    /// A record has this time. Tells whether it is wanted.
    fn take(&mut self, time: Nanos) -> bool {
        self.see(time);
        self.wanted.holds(time)
    }

    /// A batch has these times. Says of each time whether it is wanted.
    fn of_batch(&mut self, start: Nanos, deltas: &[u64]) -> impl Fn(Nanos) -> bool + use<'_> {
        self.see(end_of(start, deltas));
        let wanted = &self.wanted;
        move |time| wanted.holds(time)
    }
}

/// Time of the last row of a batch.
fn end_of(start: Nanos, deltas: &[u64]) -> Nanos {
    deltas.iter().fold(start, |time, delta| time.wrapping_add(*delta))
}

impl Sink for ProfileBuilder {
    fn record(&mut self, record: &SessionRecord) -> Result<(), SessionError> {
        Ok(self.add(record)?)
    }
}

impl Profile {
    /// Reads a whole session. A damaged session gives the profile of what came before the
    /// damage, which [`Profile::damage`] then names.
    ///
    /// # Errors
    /// When the session cannot be opened or holds not even its first record.
    pub fn read(input: impl Read, options: BuildOptions) -> Result<Self, ProfileError> {
        Self::read_and_show(input, options, |_| {})
    }

    /// As [`Self::read`]; `see` gets each record, in the order of the session.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_and_show(
        input: impl Read,
        options: BuildOptions,
        mut see: impl FnMut(&SessionRecord),
    ) -> Result<Self, ProfileError> {
        let mut reader = SessionReader::new(input)?;
        let mut builder = ProfileBuilder::new(options);
        let (mut damage, mut too_large) = (None, None);
        let mut before = 0;
        while let Some(record) = reader.next() {
            let bytes = reader.unpacked() - before;
            before = reader.unpacked();
            match record {
                // The reader has checked it.
                Ok(record) => {
                    builder.take(&record, bytes as usize);
                    see(&record);
                }
                Err(error) => damage = Some(error),
            }
            too_large = builder.too_large(before);
            if too_large.is_some() {
                break;
            }
        }
        let cut_short = reader.cut_short();
        match (builder.finish(cut_short), damage) {
            (Some(mut profile), damage) => {
                profile.damage = damage.map(|error| error.to_string()).or(too_large);
                Ok(profile)
            }
            (None, Some(damage)) => Err(damage.into()),
            (None, None) => Err(ProfileError::Empty),
        }
    }
}
