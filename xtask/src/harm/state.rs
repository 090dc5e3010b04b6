//! What of a process can be counted from outside: what an observer leaves behind shows there.

use super::memory;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::Path;

/// A process at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Number of threads.
    pub threads: usize,
    /// Names of threads of clrscope's.
    pub own_threads: Vec<String>,
    /// Descriptors by kind: `socket`, `pipe`, `memfd:…`, `anon_inode:…`, `program` for its own
    /// executable, `file`.
    pub descriptors: BTreeMap<String, usize>,
    /// Mapped libraries of clrscope's, by inode.
    pub libraries: BTreeSet<u64>,
    /// Anonymous mappings by protection and size: alternate stacks, guard pages and tables of
    /// threads among them. Executable ones are the runtime's: nothing of clrscope's in a target is
    /// executable but its library. .NET Core 3.1 has 26 to 49 of them for dynamic methods alone,
    /// more or less after each collection.
    pub mappings: BTreeMap<(String, u64), usize>,
    /// Where anonymous memory is that can be read and written, without stacks of threads.
    pub writable: Vec<Range<u64>>,
    /// Mappings of the memory in which samples are handed over.
    pub rings: usize,
    /// All mappings.
    pub all_mappings: usize,
    /// POSIX timers.
    pub timers: usize,
    /// Signals that are caught and ignored.
    pub signals: (u64, u64),
    /// Abstract sockets that the process holds and whose name is clrscope's.
    pub sockets: BTreeSet<String>,
    /// Files in its folder for temporary files and in `/dev/shm` whose names are clrscope's.
    pub files: BTreeSet<String>,
    /// Resident memory, in bytes.
    pub resident: u64,
}

/// Larger ones are heaps and stacks of threads, and are not searched for what is in them.
const SMALL: u64 = 256 << 10;

/// Sizes of larger ones that are counted all the same: tables of threads. What lies between are
/// parts of the collector's regions of 4 MB, and above are heaps of the runtime and of `malloc`:
/// those come and go.
const LARGE: Range<u64> = 4 << 20..32 << 20;

/// The name of the memory in which samples are handed over.
const RING: &str = "memfd:clrscope-ring";

/// Protection of ordinary memory.
const WRITABLE: &str = "rw-p";

/// Descriptors of the program's own executable, and of assemblies. A program in a single file opens
/// it once more for each assembly that it loads, also seconds after its start, and .NET Core 3.1
/// keeps the files of assemblies open. The agent opens neither.
const PROGRAM: &str = "program";

/// How names of clrscope's begin, or begin after `lib`.
const OURS: &str = "clrscope";

impl State {
    /// The state of a process, whose temporary folder is `tmp`; `None` when it is gone.
    pub fn of(pid: u32, tmp: &Path) -> Option<State> {
        let proc = Path::new("/proc").join(pid.to_string());
        let mut state = State::default();
        for task in fs::read_dir(proc.join("task")).ok()?.flatten() {
            state.threads += 1;
            let name = fs::read_to_string(task.path().join("comm")).unwrap_or_default();
            if name.starts_with(OURS) {
                state.own_threads.push(name.trim().to_owned());
            }
        }
        let program = fs::read_link(proc.join("exe")).unwrap_or_default();
        let mut inodes = BTreeSet::new();
        for descriptor in fs::read_dir(proc.join("fd")).ok()?.flatten() {
            let Ok(link) = fs::read_link(descriptor.path()) else { continue };
            if link == program || link.extension().is_some_and(|extension| extension == "dll") {
                *state.descriptors.entry(PROGRAM.to_owned()).or_insert(0) += 1;
                continue;
            }
            let link = link.to_string_lossy().into_owned();
            if let Some(inode) = link.strip_prefix("socket:[") {
                inodes.insert(inode.trim_end_matches(']').to_owned());
            }
            let kind = match link.split_once(":[") {
                Some((kind, _)) => kind.to_owned(),
                None if link.starts_with("anon_inode:")
                    || link.contains("memfd:")
                    || is_ours(&link) =>
                {
                    link
                }
                None => "file".to_owned(),
            };
            *state.descriptors.entry(kind).or_insert(0) += 1;
        }
        state.read_mappings(&fs::read_to_string(proc.join("maps")).ok()?);
        let timers = fs::read_to_string(proc.join("timers")).unwrap_or_default();
        state.timers = timers.lines().filter(|line| line.starts_with("ID:")).count();
        let status = fs::read_to_string(proc.join("status")).ok()?;
        let field =
            |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let mask = |name: &str| {
            field(name)
                .and_then(|text| u64::from_str_radix(text.trim(), 16).ok())
                .unwrap_or_default()
        };
        state.signals = (mask("SigCgt"), mask("SigIgn"));
        let kilobytes =
            field("VmRSS").and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
        state.resident = kilobytes.unwrap_or_default() << 10;
        for line in fs::read_to_string(proc.join("net/unix")).unwrap_or_default().lines() {
            let fields: Vec<&str> = line.split_whitespace().collect();
            if let (Some(inode), Some(name)) = (fields.get(6), fields.get(7))
                && name.starts_with('@')
                && name.contains(OURS)
                && inodes.contains(*inode)
            {
                state.sockets.insert((*name).to_owned());
            }
        }
        let number = format!("-{pid}");
        state.files = files_of_ours(tmp);
        state.files.extend(
            files_of_ours(Path::new("/dev/shm")).into_iter().filter(|name| name.contains(&number)),
        );
        Some(state)
    }

    fn read_mappings(&mut self, maps: &str) {
        let mut guarded = 0;
        for line in maps.lines() {
            self.all_mappings += 1;
            let mut fields = line.split_whitespace();
            let (range, protection) =
                (fields.next().unwrap_or_default(), fields.next().unwrap_or_default());
            let (inode, path) =
                (fields.nth(2).unwrap_or_default(), fields.next().unwrap_or_default());
            if path.contains("libclrscope") {
                self.libraries.insert(inode.parse().unwrap_or_default());
            }
            self.rings += usize::from(path.contains(RING));
            let Some((low, high)) = range.split_once('-') else { continue };
            let range = hexadecimal(low)..hexadecimal(high);
            let size = range.end.saturating_sub(range.start);
            if !path.is_empty() {
                continue;
            }
            if (size <= SMALL || LARGE.contains(&size)) && !protection.contains('x') {
                *self.mappings.entry((protection.to_owned(), size)).or_insert(0) += 1;
            }
            // Behind a guard there is a stack.
            if protection == WRITABLE && (size <= SMALL || range.start != guarded) {
                self.writable.push(range);
            } else if protection == "---p" {
                guarded = range.end;
            }
        }
    }

    /// Number of descriptors, but for those of the program itself.
    pub fn all_descriptors(&self) -> usize {
        self.descriptors.iter().filter(|(kind, _)| *kind != PROGRAM).map(|(_, count)| count).sum()
    }

    /// Takes away the small mappings that are known by what is in them: blocks of `malloc`, and, if
    /// clrscope `traced`, what living threads may keep of that.
    pub fn without_known(mut self, pid: u32, traced: bool) -> State {
        let Some(memory) = memory::Memory::of(pid) else { return self };
        let tables = if traced { memory.tables(&self.writable) } else { BTreeSet::new() };
        if traced {
            // Threads that live keep their tables of single calls.
            self.mappings.retain(|(_, size), _| !LARGE.contains(size));
        }
        for range in &self.writable {
            let size = range.end.saturating_sub(range.start);
            if size <= SMALL
                && (memory.is_malloc(range)
                    || memory::pages(range).all(|page| tables.contains(&page)))
                && let Some(count) = self.mappings.get_mut(&(WRITABLE.to_owned(), size))
            {
                *count = count.saturating_sub(1);
            }
        }
        self
    }
}

/// Whether the last part of a path is a name of clrscope's, which folders of the tests may hold as
/// well.
fn is_ours(path: &str) -> bool {
    let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
    ["", "lib", "memfd:"]
        .iter()
        .any(|before| name.strip_prefix(before).is_some_and(|rest| rest.starts_with(OURS)))
}

fn hexadecimal(text: &str) -> u64 {
    u64::from_str_radix(text, 16).unwrap_or_default()
}

/// Names in a folder that begin as those of clrscope's files do.
pub fn files_of_ours(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with(OURS) || name.starts_with("libclrscope")).collect()
}

/// What may stay where an agent is resident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Threads of clrscope's.
    pub threads: usize,
    /// Descriptors more than before.
    pub descriptors: usize,
    /// Mapped libraries.
    pub libraries: usize,
    /// Abstract sockets.
    pub sockets: usize,
    /// Files in the temporary folder: a launch keeps its library there for further processes, until
    /// it ends.
    pub files: usize,
}

impl Budget {
    /// Nothing of ours; the runtime may keep pipes of its own.
    pub const NONE: Budget =
        Budget { threads: 0, descriptors: 4, libraries: 1, sockets: 0, files: 0 };
    /// One agent that waits for the next session, and an idle library.
    pub const RESIDENT: Budget =
        Budget { threads: 1, descriptors: 8, libraries: 2, sockets: 2, files: 0 };
}

/// How many mappings of one kind may be more than before: what the runtime itself does by the way,
/// with small ones, and with its heap.
const MAPPINGS_OF_A_KIND: usize = 16;
const LARGE_MAPPINGS_OF_A_KIND: usize = 64;

/// How many threads may be more than before.
const THREADS: usize = 12;

/// Something of which there is more than there may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// What it is, without details.
    pub what: String,
    /// What there is now, in words.
    pub shown: String,
    /// How many there are.
    pub is: usize,
    /// How many there may be.
    pub may: usize,
}

impl Leftover {
    /// Whether it is about mappings, which may be known by what is in them.
    pub fn is_mapping(&self) -> bool {
        self.what.starts_with("mappings")
    }

    /// Whether it is no more than what the target grows by itself, beside what there may be.
    pub fn is_explained(&self, growth: &Growth) -> bool {
        self.is <= self.may + growth.get(&self.what).copied().unwrap_or_default()
    }
}

impl std::fmt::Display for Leftover {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "left: {}: {} instead of {}", self.shown, self.is, self.may)
    }
}

/// By how much a target grows by itself: names of what it has more of, as in [`Leftover::what`].
pub type Growth = BTreeMap<String, usize>;

/// The states before an action: the most of each.
#[derive(Clone)]
pub struct Before {
    states: Vec<State>,
    /// Whether they are of another process that did the same.
    of_another: bool,
}

impl Before {
    /// Several states of the undisturbed process.
    pub fn new(states: Vec<State>) -> Before {
        Before { states, of_another: false }
    }

    /// The same, for processes like this one.
    pub fn of_others(self) -> Before {
        Before { of_another: true, ..self }
    }

    fn most(&self, of: impl Fn(&State) -> usize) -> usize {
        self.states.iter().map(of).max().unwrap_or_default()
    }

    /// What is left over in `after`. `foreign` are signals whose handlers others install meanwhile.
    pub fn leftovers(&self, after: &State, budget: Budget, foreign: u64) -> Vec<Leftover> {
        let mut found = Vec::new();
        let mut more = |what: &str, details: String, is: usize, may: usize| {
            if is > may {
                found.push(Leftover {
                    what: what.to_owned(),
                    shown: format!("{what}{details}"),
                    is,
                    may,
                });
            }
        };
        more(
            "threads",
            format!(" {:?}", after.own_threads),
            after.own_threads.len(),
            budget.threads,
        );
        more(
            "libraries",
            format!(" {:?}", after.libraries),
            after.libraries.len(),
            budget.libraries,
        );
        more(
            "abstract sockets",
            format!(" {:?}", after.sockets),
            after.sockets.len(),
            budget.sockets,
        );
        let files = self.most(|state| state.files.len()) + budget.files;
        more("files", format!(" {:?}", after.files), after.files.len(), files);
        more("sample rings", String::new(), after.rings, 0);
        more("timers", String::new(), after.timers, self.most(|state| state.timers));
        let ours = |state: &State| {
            let of_ours = state.descriptors.iter().filter(|(kind, _)| is_ours(kind));
            of_ours.map(|(_, count)| count).sum::<usize>()
        };
        let may = if budget.threads == 0 { 0 } else { budget.descriptors };
        more("descriptors of clrscope's", String::new(), ours(after), may);
        // There is none of a process that ended before it could be looked at.
        let Some(before) = self.states.last() else { return found };
        more(
            DESCRIPTORS,
            format!(" {:?}, before {:?}", after.descriptors, before.descriptors),
            after.all_descriptors(),
            self.most(State::all_descriptors) + budget.descriptors,
        );
        let threads = self.most(|state| state.threads) + THREADS + budget.threads;
        more("all threads", String::new(), after.threads, threads);
        for (kind, count) in &after.mappings {
            let before = self.most_mappings(kind);
            let new = if kind.1 > SMALL { LARGE_MAPPINGS_OF_A_KIND } else { MAPPINGS_OF_A_KIND };
            // No two processes map the same.
            let varies = if self.of_another { before } else { before / 10 };
            more(&mappings(kind), String::new(), *count, before + new + varies);
        }
        let signals = |state: &State| (state.signals.0 & !foreign, state.signals.1 & !foreign);
        let (was, is) = (signals(before), signals(after));
        if was != is {
            let shown = format!("signals caught and ignored {is:x?}, before {was:x?}");
            found.push(Leftover { what: "signals".into(), shown, is: 1, may: 0 });
        }
        found
    }

    fn most_mappings(&self, kind: &(String, u64)) -> usize {
        self.most(|state| state.mappings.get(kind).copied().unwrap_or_default())
    }

    /// By how much a target has grown that nobody looks at: only in what a program has of itself.
    pub fn growth(&self, after: &State, growth: &mut Growth) {
        let mut grown = |what: &str, by: usize| {
            let most = growth.entry(what.to_owned()).or_default();
            *most = by.max(*most);
        };
        let kinds = after.descriptors.iter().filter(|(kind, _)| *kind != PROGRAM && !is_ours(kind));
        let descriptors = kinds.map(|(kind, count)| {
            count.saturating_sub(
                self.most(|state| state.descriptors.get(kind).copied().unwrap_or_default()),
            )
        });
        grown(DESCRIPTORS, descriptors.sum());
        grown("all threads", after.threads.saturating_sub(self.most(|state| state.threads)));
        for (kind, count) in &after.mappings {
            grown(&mappings(kind), count.saturating_sub(self.most_mappings(kind)));
        }
    }
}

/// Names of kinds of leftovers that grow by themselves.
const DESCRIPTORS: &str = "descriptors";

fn mappings((protection, size): &(String, u64)) -> String {
    format!("mappings {protection} of {} KB", size >> 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_are_counted_by_kind() {
        let mut state = State::default();
        state.read_mappings(
            "7f0000000000-7f0000018000 rw-p 00000000 00:00 0 \n\
             7f0000018000-7f0000019000 ---p 00000000 00:00 0 \n\
             7f0000020000-7f0000038000 rw-p 00000000 00:00 0\n\
             7f0000040000-7f000007f000 rwxp 00000000 00:00 0\n\
             7f0100000000-7f0100d00000 rw-p 00000000 00:00 0\n\
             7f0200000000-7f0300000000 rw-p 00000000 00:00 0\n\
             7f0310000000-7f0310080000 rw-p 00000000 00:00 0\n\
             7f0400000000-7f0400c00000 rw-s 00000000 00:01 9 /memfd:clrscope-ring (deleted)\n\
             7f1000000000-7f1000018000 r-xp 00000000 fe:00 77 /tmp/clrscope-x/libclrscope-1.so (deleted)\n",
        );
        assert_eq!((state.all_mappings, state.rings), (9, 1));
        assert_eq!(state.mappings[&("rw-p".to_owned(), 13 << 20)], 1);
        assert_eq!(state.mappings.len(), 3, "no heaps: {:?}", state.mappings);
        assert!(
            state.mappings.keys().all(|(protection, _)| !protection.contains('x')),
            "{:?}",
            state.mappings
        );
        assert_eq!(state.mappings[&("rw-p".to_owned(), 96 << 10)], 2);
        assert_eq!(state.libraries, BTreeSet::from([77]));
    }

    #[test]
    fn what_is_left_is_named() {
        let before = Before::new(vec![State { threads: 10, ..State::default() }]);
        let clean = State { threads: 11, ..State::default() };
        assert_eq!(before.leftovers(&clean, Budget::NONE, 0), []);
        let dirty = State {
            timers: 2,
            own_threads: vec!["clrscope-agent".into()],
            signals: (1 << 26, 0),
            ..clean
        };
        assert_eq!(before.leftovers(&dirty, Budget::NONE, 0).len(), 3);
        assert_eq!(before.leftovers(&dirty, Budget::RESIDENT, 1 << 26).len(), 1);
    }

    #[test]
    fn this_process_has_a_state() {
        let state = State::of(std::process::id(), Path::new("/nowhere")).unwrap();
        assert!(
            state.threads >= 1
                && state.all_descriptors() >= 3
                && state.all_mappings > 10
                && state.resident > 0
        );
    }
}
