//! Where time goes, on logical stacks: what the thread pool calls when it resumes a method is
//! replaced by the methods that await it.

use super::report::method;
use ::heap::{Tasks, is_link};
use profile::{Profile, Series, Tables};
use schemars::JsonSchema;
use serde::Serialize;
use session::{FunctionDef, FunctionId, FunctionKind, StackId, StateMachine};
use std::collections::{BTreeMap, HashMap};

/// Logical callers of one method that are distinguished; the others count as one.
const MOST_CALLERS: usize = 5;
/// Methods of a logical stack that are shown.
const MOST_FRAMES: usize = 64;

/// Where time went.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Hot {
    /// CPU time of all samples.
    pub cpu_seconds: f64,
    /// CPU time of those within asynchronous methods.
    pub async_cpu_seconds: f64,
    /// Wall time within asynchronous methods: of threads that ran or blocked there.
    pub async_wall_seconds: f64,
    /// The stacks, most CPU time first.
    pub paths: Vec<HotPath>,
}

/// A logical stack with time on it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct HotPath {
    pub cpu_seconds: f64,
    /// Share in the CPU time of all samples.
    pub cpu_share: f64,
    pub wall_seconds: f64,
    /// Whether the callers are from the snapshots: what awaits methods of this kind, in proportion,
    /// where several do.
    pub estimated: bool,
    /// Whether it was resumed and no snapshot has seen who awaits it: the stack may continue.
    pub open: bool,
    /// Methods, from the one that ran to the one that no other awaits.
    pub frames: Vec<String>,
    /// What ran or blocked in the first of them most: the function at the leaf.
    pub hottest: Option<String>,
}

/// What a function is on the way from a method to who called it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// An asynchronous method or an iterator, which cannot be distinguished.
    Machine,
    /// Starts a method: the beginning of its code runs on its caller's stack.
    Start,
    /// The box of a method, which resumes it.
    Resume,
    /// Says nothing.
    Between,
    /// Any other.
    Other,
}

fn role(function: &FunctionDef) -> Role {
    let is_machine =
        matches!(function.state_machine, Some(StateMachine::Async | StateMachine::AsyncOrIterator));
    let ty = function.type_name.as_str();
    match function.kind {
        FunctionKind::Managed if is_machine => Role::Machine,
        FunctionKind::Managed if ty.contains("StateMachineBox<") => Role::Resume,
        // Of .NET Core 3.1, where somebody listens to what continues what.
        FunctionKind::Managed if ty.contains("AsyncMethodBuilderCore+ContinuationWrapper") => {
            Role::Resume
        }
        FunctionKind::Managed
            if ty.starts_with("System.Runtime.CompilerServices.")
                && ty.contains("MethodBuilder") =>
        {
            Role::Start
        }
        FunctionKind::Managed if ty.starts_with("System.Threading.ExecutionContext") => {
            Role::Between
        }
        FunctionKind::Managed | FunctionKind::Dynamic => Role::Other,
        _ => Role::Between,
    }
}

/// A name without generic arguments and line, by which a method of a sample and one of a heap
/// snapshot are the same: samples do not tell the arguments of shared code, and snapshots do not
/// tell where a lambda begins.
fn key(name: &str) -> String {
    let (mut depth, mut in_line) = (0_u32, false);
    let mut key = String::with_capacity(name.len());
    for letter in name.chars() {
        in_line = letter == ':' || (in_line && letter.is_ascii_digit());
        match letter {
            _ if in_line => {}
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            _ if depth == 0 => key.push(letter),
            _ => {}
        }
    }
    key
}

/// The asynchronous part of a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Logical {
    /// Methods, from the one that ran.
    methods: Vec<FunctionId>,
    /// The last of them was resumed: who awaits it is not on the stack.
    resumed: bool,
    /// The function at the leaf.
    leaf: FunctionId,
}

/// Finds the asynchronous methods on a stack, up to where the thread pool (or who completed a task)
/// resumed one. What stands behind that is who happened to run it, not who awaits it.
fn logical(tables: &Tables, roles: &[Role], stack: StackId) -> Option<Logical> {
    let frames: Vec<FunctionId> =
        tables.walk(stack).map(|frame| tables.frame(frame).function).collect();
    let mut methods = Vec::new();
    let mut at = 0;
    while at < frames.len() {
        if roles[frames[at].index()] != Role::Machine {
            at += 1;
            continue;
        }
        let called_by =
            frames[at + 1..].iter().find(|caller| roles[caller.index()] != Role::Between);
        match called_by.map(|caller| roles[caller.index()]) {
            Some(Role::Resume) => {
                methods.push(frames[at]);
                return Some(Logical { methods, resumed: true, leaf: frames[0] });
            }
            Some(Role::Start) => methods.push(frames[at]),
            // An iterator.
            _ => {}
        }
        at += 1;
    }
    (!methods.is_empty()).then(|| Logical { methods, resumed: false, leaf: frames[0] })
}

/// Who awaits methods of one kind, from near to far, and how many there are of each.
type Callers = Vec<(Vec<String>, u64)>;

/// Who awaits whom in the last snapshot, by the method that is awaited.
fn callers(tasks: &Tasks) -> HashMap<String, Callers> {
    let mut all: HashMap<String, BTreeMap<Vec<String>, u64>> = HashMap::new();
    for stack in &tasks.stacks {
        let names: Vec<String> = stack.machines.iter().map(|machine| shown(machine)).collect();
        for (at, name) in names.iter().enumerate() {
            // Of a method that calls itself, the innermost one.
            if names[..at].contains(name) {
                continue;
            }
            let above: Vec<String> = names[at + 1..].iter().take(MOST_FRAMES).cloned().collect();
            *all.entry(key(name)).or_default().entry(above).or_default() += stack.count;
        }
    }
    let sorted = |callers: BTreeMap<Vec<String>, u64>| {
        let mut callers: Callers = callers.into_iter().collect();
        order::sort_by_key(&mut callers, |(_, count)| std::cmp::Reverse(*count));
        callers.truncate(MOST_CALLERS);
        callers
    };
    all.into_iter().map(|(name, callers)| (name, sorted(callers))).collect()
}

fn shown(machine: &str) -> String {
    if is_link(machine) { "(other tasks)".to_owned() } else { method(machine) }
}

/// Sums of one logical stack.
#[derive(Default)]
struct Sums {
    cpu: f64,
    wall: f64,
    leaves: HashMap<FunctionId, f64>,
}

/// What makes two logical stacks the same: methods, whether their callers are from snapshots,
/// whether they may continue.
type Path = (Vec<String>, bool, bool);

/// Puts samples onto logical stacks.
pub fn of(profile: &Profile, tasks: &Tasks, top: usize) -> Option<Hot> {
    if profile.cpu.is_empty() && profile.wall.is_empty() {
        return None;
    }
    let tables = &profile.tables;
    let roles: Vec<Role> = tables.functions.iter().map(role).collect();
    let callers = callers(tasks);
    let mut sums: HashMap<Path, Sums> = HashMap::new();
    let mut add = |series: &Series, to: fn(&mut Sums) -> &mut f64| {
        let mut all = 0.0;
        for cell in &series.cells {
            let Some(logical) = logical(tables, &roles, cell.stack) else { continue };
            let seconds = cell.weight as f64 / 1e9;
            all += seconds;
            for (path, share) in paths(tables, &callers, &logical) {
                let sums = sums.entry(path).or_default();
                *to(sums) += seconds * share;
                *sums.leaves.entry(logical.leaf).or_default() += seconds * share;
            }
        }
        all
    };
    let async_cpu_seconds = add(&profile.cpu, |sums| &mut sums.cpu);
    let async_wall_seconds = add(&profile.wall, |sums| &mut sums.wall);
    let cpu_seconds = profile.cpu.totals.weight as f64 / 1e9;
    let mut paths: Vec<HotPath> = sums
        .into_iter()
        .map(|((frames, estimated, open), sums)| {
            let hottest = sums
                .leaves
                .iter()
                .max_by(|one, other| one.1.total_cmp(other.1).then(other.0.cmp(one.0)));
            HotPath {
                cpu_seconds: sums.cpu,
                cpu_share: if cpu_seconds > 0.0 { sums.cpu / cpu_seconds } else { 0.0 },
                wall_seconds: sums.wall,
                estimated,
                open,
                frames,
                hottest: hottest
                    .map(|(leaf, _)| tables.function_name(*leaf, profile::NameStyle::PLAIN)),
            }
        })
        .collect();
    order::sort_by(&mut paths, |one, other| {
        let time = |path: &HotPath| (path.cpu_seconds, path.wall_seconds);
        time(other)
            .partial_cmp(&time(one))
            .unwrap_or(std::cmp::Ordering::Equal)
            .then_with(|| one.frames.cmp(&other.frames))
    });
    paths.truncate(top);
    Some(Hot { cpu_seconds, async_cpu_seconds, async_wall_seconds, paths })
}

/// The logical stacks that a sample may be of, each with its share.
fn paths(
    tables: &Tables,
    callers: &HashMap<String, Callers>,
    logical: &Logical,
) -> Vec<(Path, f64)> {
    let name = |id: &FunctionId| tables.function_name(*id, profile::NameStyle::PLAIN);
    let methods: Vec<String> = logical.methods.iter().map(name).take(MOST_FRAMES).collect();
    let known = methods.last().filter(|_| logical.resumed).and_then(|last| callers.get(&key(last)));
    match known {
        Some(callers) => {
            let all: u64 = callers.iter().map(|(_, count)| count).sum();
            let path = |(above, count): &(Vec<String>, u64)| {
                let frames = methods.iter().chain(above).cloned().collect();
                ((frames, true, false), *count as f64 / all.max(1) as f64)
            };
            callers.iter().map(path).collect()
        }
        None => vec![((methods, false, logical.resumed), 1.0)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::heap::{AsyncStack, Cause};

    fn stack(machines: &[&str], count: u64) -> AsyncStack {
        AsyncStack {
            machines: machines.iter().map(|name| format!("Shop+<{name}>d__1")).collect(),
            states: vec![None; machines.len()],
            awaits: None,
            cause: Cause::Running,
            count,
            old: 0,
            for_task: false,
            since_first: 0,
            cut: false,
        }
    }

    #[test]
    fn callers_are_those_of_the_looks_in_proportion() {
        let tasks = Tasks {
            stacks: vec![stack(&["Burn", "Middle", "Outer"], 3), stack(&["Burn", "Other"], 1)],
            ..Tasks::default()
        };
        let callers = callers(&tasks);
        let of =
            |names: &[&str]| names.iter().map(|name| format!("Shop.{name}")).collect::<Vec<_>>();
        assert_eq!(callers["Shop.Burn"], [(of(&["Middle", "Outer"]), 3), (of(&["Other"]), 1)]);
        assert_eq!(callers["Shop.Outer"], [(vec![], 3)]);
        assert_eq!(key("Shop<T>.Load<A<B>>"), "Shop.Load");
        assert_eq!(key("Program.Main.lambda#3:42"), key("Program.Main.lambda#3"));
        assert_eq!(key("Program.Main.Add#3:42<A>"), "Program.Main.Add#3");
    }
}
