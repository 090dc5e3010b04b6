use std::{
    collections::VecDeque,
    io::{Read, Seek},
    ops::Range,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use profile::{BuildOptions, CallTree, Filter, Profile, ProfileError, SeriesKind, TreeOptions};
use session::{Nanos, SampleBatch, SessionError, SessionReader, SessionRecord};

use crate::{
    Lanes, Tree,
    stable::{FirstStacks, Numbers},
};

/// Nodes of a tree of callers. It has a node for each frame of each stack, where that of callees
/// shares most of them.
const ENOUGH: usize = 1_000_000;

/// Bytes that trees may take which are kept for the next answer.
const TREES: usize = 128 << 20;

/// Which samples, put together to which tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// Samples of this kind.
    pub kind: SeriesKind,
    /// Only these. A time has no effect: it is chosen when a session is opened.
    pub filter: Filter,
    /// From the leaf to the root: who called it.
    pub inverted: bool,
    /// A function that calls itself is one node, however deep.
    pub merge_recursion: bool,
    /// Numbers of nodes in answers stay the same while the session is written. Has no effect on
    /// trees that are inverted or whose recursion is merged.
    pub stable: bool,
}

/// A part of the time of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// From one time to another: nanoseconds since its start.
    Time(Range<Nanos>),
    /// The last nanoseconds of what it has so far.
    Last(Nanos),
}

impl Part {
    /// From when to when it is: nanoseconds since the start of the session, which is read from its
    /// beginning.
    fn of(&self, mut input: impl Read + Seek) -> Result<Range<Nanos>, ProfileError> {
        match self {
            Self::Time(time) => Ok(time.clone()),
            Self::Last(length) => {
                let recorded = SessionReader::new(&mut input)?.recorded()?;
                input.rewind().map_err(SessionError::from)?;
                Ok(recorded.saturating_sub(*length)..Nanos::MAX)
            }
        }
    }
}

/// A session that is open, or a part of its time: ready for any number of questions.
#[derive(Debug)]
pub struct Explored {
    /// What was recorded.
    pub profile: Profile,
    /// Heap snapshots that the session has, whatever part of its time this is.
    pub heap_snapshots: u32,
    /// What threads did on processors.
    cpu: Lanes,
    /// What threads did, running or waiting.
    wall: Lanes,
    /// Trees of the latest questions, the latest first.
    trees: Mutex<VecDeque<(Selection, Arc<Tree>)>>,
    /// There once numbers were asked for that stay the same.
    first_stacks: OnceLock<FirstStacks>,
}

impl Explored {
    /// Reads a session, or a part of it.
    ///
    /// # Errors
    /// Those of [`Profile::read`].
    pub fn open(mut input: impl Read + Seek, part: Option<&Part>) -> Result<Self, ProfileError> {
        let time = part.map(|part| part.of(&mut input)).transpose()?;
        Self::read(input, time)
    }

    /// Reads a session, or what happened in a part of it: nanoseconds since its start.
    ///
    /// # Errors
    /// Those of [`Profile::read`].
    pub fn read(input: impl Read, time: Option<Range<Nanos>>) -> Result<Self, ProfileError> {
        let mut lanes: Option<(Range<Nanos>, Lanes, Lanes)> = None;
        let mut heap_snapshots = 0_u32;
        let options = BuildOptions { time: time.clone(), ..BuildOptions::default() };
        let profile = Profile::read_and_show(input, options, |record| {
            let add = |lanes: &mut Lanes, wanted: &Range<Nanos>, batch: &SampleBatch| {
                lanes.add_batch(batch, |time| wanted.contains(&time));
            };
            match (record, &mut lanes) {
                (SessionRecord::Info(info), None) => {
                    let window = time.clone().unwrap_or(0..Nanos::MAX);
                    let start = info.start.saturating_add(window.start);
                    let wanted = start..info.start.saturating_add(window.end);
                    lanes = Some((wanted, Lanes::new(start), Lanes::new(start)));
                }
                (SessionRecord::CpuSamples(batch), Some((wanted, cpu, _))) => {
                    add(cpu, wanted, batch);
                }
                (SessionRecord::WallSamples(batch), Some((wanted, _, wall))) => {
                    add(wall, wanted, batch);
                }
                (SessionRecord::HeapBegin { .. }, _) => {
                    heap_snapshots = heap_snapshots.saturating_add(1);
                }
                _ => {}
            }
        })?;
        let (cpu, wall) = match lanes {
            Some((_, cpu, wall)) => (cpu, wall),
            None => (Lanes::new(profile.start), Lanes::new(profile.start)),
        };
        Ok(Self {
            profile,
            heap_snapshots,
            cpu,
            wall,
            trees: Mutex::default(),
            first_stacks: OnceLock::new(),
        })
    }

    /// Lanes for samples of a kind: its own, or those of the most telling profiler that ran.
    pub fn lanes(&self, kind: SeriesKind) -> &Lanes {
        match kind {
            SeriesKind::Cpu if !self.cpu.is_empty() => &self.cpu,
            _ if self.wall.is_empty() => &self.cpu,
            _ => &self.wall,
        }
    }

    /// The tree of a selection.
    pub fn tree(&self, selection: &Selection) -> Arc<Tree> {
        let known = {
            let mut trees = self.trees.lock().unwrap_or_else(PoisonError::into_inner);
            let at = trees.iter().position(|(known, _)| known == selection);
            at.and_then(|at| trees.remove(at)).inspect(|(selection, tree)| {
                trees.push_front((selection.clone(), Arc::clone(tree)));
            })
        };
        if let Some((_, tree)) = known {
            return tree;
        }
        let own = self.profile.stack_sums(selection.kind, &selection.filter);
        let options = TreeOptions {
            inverted: selection.inverted,
            merge_recursion: selection.merge_recursion,
            enough: selection.inverted.then_some(ENOUGH),
            ..TreeOptions::default()
        };
        let tree = Arc::new(Tree::new(CallTree::of_sums(&self.profile.tables, &own, options)));
        let mut trees = self.trees.lock().unwrap_or_else(PoisonError::into_inner);
        trees.push_front((selection.clone(), Arc::clone(&tree)));
        let mut sum = 0;
        trees.retain(|(_, kept)| {
            sum += kept.size();
            sum <= TREES || Arc::ptr_eq(kept, &tree)
        });
        tree
    }

    /// How the nodes of the tree of a selection are numbered in answers.
    pub(crate) fn numbers(&self, selection: &Selection, tree: &Tree) -> Numbers<'_> {
        if !selection.stable || selection.inverted || selection.merge_recursion {
            return Numbers::Places;
        }
        let first = self.first_stacks.get_or_init(|| FirstStacks::new(&self.profile.tables));
        Numbers::of_stacks(tree, first)
    }

    /// Bytes of memory that it takes, about.
    pub fn size(&self) -> usize {
        let first = self.first_stacks.get().map_or(0, FirstStacks::size);
        let trees = self.trees.lock().unwrap_or_else(PoisonError::into_inner);
        let trees: usize = trees.iter().map(|(_, tree)| tree.size()).sum();
        self.profile.size() as usize + self.cpu.size() + self.wall.size() + trees + first
    }
}
