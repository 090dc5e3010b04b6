//! `calls`: every call of chosen methods, exactly.

use crate::{Collector, ParamKind, ParamSpec, ProfilerSpec, Settings, Tables, ValueSpec};
use rows::Row;

/// What it is.
pub const SPEC: ProfilerSpec = ProfilerSpec {
    id: "calls",
    summary: "Every call of chosen methods: exact counts, times and call tree",
    overhead: "50 to 65 ns for each call of a method that matches.",
    description: "Makes the runtime call a hook whenever a method that matches the filter is \
        entered or left, and keeps the call tree of each thread with exact counts and times. \
        Methods that do not match have no hooks and are not in the tree. Methods with hooks are \
        not inlined, and no precompiled code is used, so the program is slower: choose a narrow \
        filter. Only for programs started by clrscope launch, in the main profiler slot. The hooks \
        stay in the process until it ends, and do nothing once the recording has ended. x86-64 \
        only.",
    values: &[
        ValueSpec { kind: "calls", unit: "count" },
        ValueSpec { kind: "time", unit: "nanoseconds" },
    ],
    params: &[ParamSpec {
        name: "filter",
        help: "Methods as Namespace.Type.Method with * and ?; put + between several, and - before \
            those to leave out",
        default: Filter::DEFAULT,
        kind: ParamKind::Names,
    }],
    // ENTERLEAVE; JIT_COMPILATION, to forbid that methods are inlined; EXCEPTIONS, which leave
    // methods too; THREADS; DYNAMIC_FUNCTION_UNLOADS.
    events: (0x1000 | 0x20 | 0x40 | 0x200, 0x4),
    event_pipe: &[],
    since: 3,
    too_old: "",
    attach: false,
    engine: |_| "enter and leave hooks, every call".to_owned(),
    ..ProfilerSpec::PLAIN
};

/// Its tables.
pub(crate) const TABLES: Tables = &[Calls::table];

/// The hooks are no callbacks: the agent sees to them by itself.
pub(crate) fn create(_settings: &Settings) -> Option<Box<dyn Collector>> {
    None
}

/// Which methods are to be hooked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    takes: Vec<String>,
    leaves: Vec<String>,
}

impl Filter {
    /// Everything but what comes with .NET.
    pub const DEFAULT: &str = "*+-System.*+-Microsoft.*+-Internal.*+-Interop*";

    /// Reads the value of the parameter `filter`. One that only leaves out takes everything else.
    pub fn parse(text: &str) -> Self {
        let (mut takes, mut leaves) = (Vec::new(), Vec::new());
        for glob in text.split('+').map(str::trim).filter(|glob| !glob.is_empty()) {
            match glob.strip_prefix('-') {
                Some(glob) => leaves.push(glob.to_owned()),
                None => takes.push(glob.to_owned()),
            }
        }
        if takes.is_empty() {
            takes.push("*".to_owned());
        }
        Self { takes, leaves }
    }

    /// Whether a method fits: its type with namespace and nesting, and its name. Generic arguments
    /// do not count, and nesting is a point like all others.
    pub fn fits(&self, type_name: &str, method: &str) -> bool {
        let mut name = plain(type_name);
        if !name.is_empty() {
            name.push('.');
        }
        name.push_str(&plain(method));
        let any =
            |globs: &[String]| globs.iter().any(|glob| matches(glob.as_bytes(), name.as_bytes()));
        any(&self.takes) && !any(&self.leaves)
    }
}

/// A name without generic arguments. Names of the compiler begin with a bracket, which is none of
/// these.
fn plain(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let (mut depth, mut before) = (0_usize, '.');
    for letter in name.chars() {
        match letter {
            '<' if depth > 0 || !matches!(before, '.' | '+') => depth += 1,
            '>' if depth > 0 => depth -= 1,
            _ if depth > 0 => {}
            '+' => out.push('.'),
            letter => out.push(letter),
        }
        before = letter;
    }
    out
}

/// Whether a text fits a pattern of letters, `?` for any one and `*` for any number of them.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut pos) = (0, 0);
    // Where to continue when it does not fit: behind the last star, one letter later each time.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        match (pattern.get(at), text.get(pos)) {
            (None, None) => return true,
            (Some(b'*'), _) => {
                retry = Some((at + 1, pos));
                at += 1;
                continue;
            }
            (Some(wanted), Some(letter)) if *wanted == b'?' || wanted == letter => {
                (at, pos) = (at + 1, pos + 1);
                continue;
            }
            _ => {}
        }
        match retry {
            Some((behind, from)) if from < text.len() => {
                retry = Some((behind, from + 1));
                (at, pos) = (behind, from + 1);
            }
            _ => return false,
        }
    }
}

rows::rows! {
    /// Calls of methods with enter and leave hooks, or with probes of `trace`: those that a thread
    /// has made since its last row with the same stack. Exact: nothing of it is sampled.
    #[derive(Copy, Eq)]
    pub struct Calls in "calls", "calls" {
        /// When they were counted.
        time: rows::Time,
        /// Thread that made them.
        thread: rows::Thread,
        /// Which calls: the path from the leaf, which is the method that was called. Only what is
        /// counted is on it.
        stack: rows::Stack,
        /// How many; 0 where a call from before has gone on.
        count: rows::Count,
        /// Time in the leaf and in nothing that it called of what is counted.
        own: rows::Duration,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_as_a_shell_does() {
        for (pattern, text, fits) in [
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("Shop.*", "Shop.Cart.Add", true),
            ("Shop.*", "Shopper.Cart.Add", false),
            ("*.Add", "Shop.Cart.Add", true),
            ("*.Add", "Shop.Cart.AddAll", false),
            ("*Cart*A?d", "Shop.Cart.Cart.And", true),
            ("*ab*ab", "abxab", true),
            ("*ab*ab", "ab", false),
            ("?", "", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), fits, "{pattern} and {text}");
        }
    }

    #[test]
    fn the_default_leaves_out_what_comes_with_dotnet() {
        let filter = Filter::parse(Filter::DEFAULT);
        assert!(filter.fits("Shop.Cart", "Add"));
        assert!(filter.fits("Systematic.Thing", "Run"));
        assert!(!filter.fits("System.Collections.Generic.List<Shop.Cart>", "Add"));
        assert!(!filter.fits("Microsoft.Win32.SafeHandles.SafeFileHandle", "Open"));
        assert!(!filter.fits("Interop+Sys", "Read"));
        assert!(Filter::parse("-Shop.*").fits("Other", "Run"));
        assert!(!Filter::parse("-Shop.*").fits("Shop.Cart", "Run"));
    }

    #[test]
    fn generic_arguments_do_not_count_and_names_of_the_compiler_stay() {
        let filter = Filter::parse("Shop.Cart.Lines.Map + *b__*");
        assert!(filter.fits("Shop.Cart<int>+Lines<System.String, List<int>>", "Map<object>"));
        assert!(!filter.fits("Shop.Cart<int>", "Lines"));
        assert!(filter.fits("Shop.Cart+<>c", "<Run>b__0_1"));
        assert_eq!(plain("Shop.<>c__2<int>"), "Shop.<>c__2");
    }
}
