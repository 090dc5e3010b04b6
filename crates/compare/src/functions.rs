use std::{borrow::Cow, collections::HashMap};

use profile::{
    NameStyle, Profile, kind_id,
    session::{FunctionId, FunctionKind},
};
use schemars::JsonSchema;
use serde::Serialize;

/// A function of either recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Function {
    /// Full name; that of the later recording, if both have it.
    pub name: String,
    /// The same without parameters and namespaces.
    pub short_name: String,
    /// Type with namespace, as far as known.
    pub type_name: String,
    /// `managed`, `dynamic`, `stub`, `native`, `runtime`, `gc`, `jit`, `kernel` or `unknown`.
    pub kind: &'static str,
    /// The module that it is from, where known.
    pub module: Option<String>,
    /// Source file, where known.
    pub file: Option<String>,
    /// Line in that file, from 1: the one with most weight.
    pub line: Option<u32>,
    /// What kind of code it is for a reader: an index into [`profile::FRAME_KINDS`].
    #[serde(skip)]
    pub frame_kind: u8,
}

/// Functions of two recordings. Those that have the same name in both are one.
#[derive(Clone, Debug, Default)]
pub struct Functions {
    /// All of them.
    pub all: Vec<Function>,
    /// Index in `all` of each function of the recording before and of the one after.
    of: [Vec<u32>; 2],
}

/// What makes two functions the same one. Paths of modules, tokens and addresses differ from build
/// to build, and so do the lines at which lambdas begin.
#[derive(PartialEq, Eq, Hash)]
struct Key<'a> {
    kind: FunctionKind,
    module: &'a str,
    type_name: Cow<'a, str>,
    name: Cow<'a, str>,
    parameters: &'a str,
}

/// Which of two recordings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The first one.
    Before,
    /// The second one.
    After,
}

impl Functions {
    /// Matches the functions of two recordings.
    pub fn of(before: &Profile, after: &Profile) -> Self {
        let mut ids: HashMap<Key<'_>, u32> = HashMap::new();
        let mut functions = Self::default();
        // Names are those of the later one.
        for (side, profile) in [(Side::After, after), (Side::Before, before)] {
            for function in &profile.tables.functions {
                let next = functions.all.len() as u32;
                let id = *ids.entry(key(profile, function.id)).or_insert(next);
                if id == next {
                    functions.all.push(described(profile, function.id));
                }
                functions.of[side as usize].push(id);
            }
        }
        functions
    }

    /// The index of a function of one of the recordings in [`Self::all`].
    pub fn index(&self, side: Side, function: FunctionId) -> usize {
        self.of[side as usize][function.index()] as usize
    }
}

fn key(profile: &Profile, id: FunctionId) -> Key<'_> {
    let function = profile.tables.function(id);
    Key {
        kind: function.kind,
        module: profile.tables.function_module(id).unwrap_or_default(),
        type_name: without_lines(&function.type_name),
        name: match is_address(&function.name) {
            true => Cow::Borrowed(""),
            false => without_lines(&function.name),
        },
        parameters: &function.parameters,
    }
}

fn described(profile: &Profile, id: FunctionId) -> Function {
    let (tables, function) = (&profile.tables, profile.tables.function(id));
    let module = tables.function_module(id).map(str::to_owned);
    let nameless = is_address(&function.name) || function.name.is_empty();
    let name = |style| match (&module, nameless && function.type_name.is_empty()) {
        (Some(module), true) => format!("[{module}]"),
        _ => tables.function_name(id, style),
    };
    Function {
        name: name(NameStyle::FULL),
        short_name: name(NameStyle::SHORT),
        type_name: function.type_name.clone(),
        kind: kind_id(function.kind),
        module,
        file: None,
        line: None,
        frame_kind: tables.frame_kind(id),
    }
}

/// Whether a name is an address in native code without symbols: another build has others, so all
/// such code of a module is compared as one.
fn is_address(name: &str) -> bool {
    name.starts_with("0x") || name.starts_with('+')
}

/// Leaves out the lines in names of lambdas and local functions: `Main.lambda#3:42` is
/// `Main.lambda#3`.
fn without_lines(name: &str) -> Cow<'_, str> {
    if !name.contains('#') {
        return Cow::Borrowed(name);
    }
    let mut kept = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(at) = rest.find('#') {
        let digits =
            |text: &str| text.find(|letter: char| !letter.is_ascii_digit() && letter != '_');
        let (head, tail) = rest.split_at(at + 1);
        let (number, tail) = tail.split_at(digits(tail).unwrap_or(tail.len()));
        kept.push_str(head);
        kept.push_str(number);
        rest = match tail.strip_prefix(':').filter(|_| !number.is_empty()) {
            Some(line) => line.trim_start_matches(|letter: char| letter.is_ascii_digit()),
            None => tail,
        };
    }
    kept.push_str(rest);
    Cow::Owned(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lambdas_are_the_same_at_another_line() {
        assert_eq!(without_lines("Main.lambda#3:42"), "Main.lambda#3");
        assert_eq!(without_lines("Main.lambda#3:42 [GET /a:1]"), "Main.lambda#3 [GET /a:1]");
        assert_eq!(without_lines("A.lambda#5_0"), "A.lambda#5_0");
        assert_eq!(without_lines("A.Check#1:17.lambda#2:18"), "A.Check#1.lambda#2");
        assert_eq!(without_lines("operator:1"), "operator:1");
        assert_eq!(without_lines("#:1"), "#:1");
    }
}
