//! What the samples in the HTML page have in common: the numbers of functions and files.

use profile::{NONE, NameStyle, Profile, session::FunctionId};
use serde::Serialize;

/// Most rows of a table of the page.
pub(crate) const MOST_ROWS: usize = 500;

/// Columns of functions, by their number in the page.
#[derive(Default, Serialize)]
pub(crate) struct Functions {
    name: Vec<String>,
    short: Vec<String>,
    kind: Vec<u8>,
    /// Number of the module plus one; 0 where there is none.
    module: Vec<u32>,
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
        let tables = &self.profile.tables;
        self.functions.name.push(tables.function_name(id, NameStyle::FULL));
        self.functions.short.push(tables.function_name(id, NameStyle::SHORT));
        self.functions.kind.push(tables.frame_kind(id));
        let module = tables.function(id).module;
        self.functions.module.push(module.map_or(0, |module| module.0 + 1));
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
