//! What the parts of the HTML page have in common: the numbers of functions and files, times, and how
//! much of anything is shown.

use profile::{
    CallSite, NONE, NameStyle, Profile,
    session::{FunctionId, Nanos},
    state_machine_id,
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::Options;

/// Most points of a line of a counter.
pub(crate) const MOST_POINTS: usize = 300;

/// Most rows of the tables of types, of locks and of counters.
pub(crate) const MOST_ROWS: usize = 500;

/// Columns of functions, by their number in the page.
#[derive(Default, Serialize)]
pub(crate) struct Functions {
    name: Vec<String>,
    short: Vec<String>,
    /// Where the parameters begin in the name, in UTF-16 units as JavaScript counts.
    plain: Vec<usize>,
    kind: Vec<u8>,
    /// Number of the module plus one; 0 where there is none.
    module: Vec<u32>,
    /// What the compiler made of it; empty for plain methods.
    machine: Vec<&'static str>,
}

/// Numbers of things in the page: only what is used is in it.
pub(crate) struct Interner<'a> {
    profile: &'a Profile,
    /// Functions that are used.
    pub functions: Functions,
    function_of: Vec<u32>,
    /// Paths of source files.
    pub files: Vec<String>,
    file_of: Vec<u32>,
}

impl<'a> Interner<'a> {
    pub fn new(profile: &'a Profile) -> Self {
        Self {
            profile,
            functions: Functions::default(),
            function_of: vec![NONE; profile.tables.functions.len()],
            files: Vec::new(),
            file_of: vec![NONE; profile.tables.files.len()],
        }
    }

    /// The number of a function.
    pub fn function(&mut self, id: FunctionId) -> u32 {
        let known = self.function_of[id.index()];
        if known != NONE {
            return known;
        }
        let next = self.functions.name.len() as u32;
        self.function_of[id.index()] = next;
        let function = self.profile.tables.function(id);
        self.functions.name.push(self.profile.tables.function_name(id, NameStyle::FULL));
        self.functions.short.push(self.profile.tables.function_name(id, NameStyle::SHORT));
        let plain = self.profile.tables.function_name(id, NameStyle::PLAIN);
        self.functions.plain.push(plain.encode_utf16().count());
        self.functions.kind.push(self.profile.tables.frame_kind(id));
        self.functions.module.push(function.module.map_or(0, |module| module.0 + 1));
        self.functions.machine.push(function.state_machine.map_or("", state_machine_id));
        next
    }

    /// The number of a file plus one, and the line in it; 0 and 0 where there is none.
    pub fn line(&mut self, line: Option<profile::Line>) -> (u32, u32) {
        let Some(line) = line else { return (0, 0) };
        let file = &mut self.file_of[line.file.0 as usize];
        if *file == NONE {
            self.files.push(self.profile.tables.file(line.file).to_owned());
            *file = self.files.len() as u32;
        }
        (*file, line.line)
    }
}

/// Microseconds since the start of what the profile shows.
pub(crate) fn micros(profile: &Profile, time: Nanos) -> f64 {
    (time as f64 - profile.start as f64) / 1e3
}

/// Where something is, as number of the function, of the file and of the line.
pub(crate) fn at(interner: &mut Interner<'_>, place: &CallSite, options: &Options) -> Value {
    let (file, line) = interner.line(place.line.filter(|_| options.lines));
    json!([interner.function(place.function), file, line])
}
