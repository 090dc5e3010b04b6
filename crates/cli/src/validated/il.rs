//! The methods of an assembly, as things to compare.

use super::log::{Event, Kind};
use crate::{
    commands::il,
    exit::{Code, failure},
};
use anyhow::Context as _;
use metadata::{Assembly, Method};
use std::path::Path;

/// What a method of an assembly is in place of an event.
pub const METHOD: Kind = Kind { id: "method", fields: &["declaration"], is_certain: true };

/// All methods of an assembly, by what code calls them: names in place of tokens.
///
/// # Errors
/// The file cannot be read, or is no assembly.
pub fn read(path: &Path) -> anyhow::Result<Vec<Event>> {
    let shown = || path.display().to_string();
    let bytes = il::read(path).with_context(shown)?;
    let assembly = Assembly::parse(&bytes)
        .map_err(|error| failure(Code::File, format!("{}: {error}", shown())))?;
    Ok(assembly.methods().map(|method| of(&method)).collect())
}

fn of(method: &Method<'_, '_>) -> Event {
    let text = il::disassembly(method);
    // The declaration, a brace, the token, the body, and a brace.
    let mut lines: Vec<String> = text
        .lines()
        .skip(3)
        .map(|line| line.strip_prefix("  ").unwrap_or(line).to_owned())
        .collect();
    lines.pop();
    Event {
        kind: &METHOD,
        name: method.reference().unwrap_or_else(|| method.full_name()),
        time: None,
        fields: vec![Some(method.declaration())],
        code: vec![("body", lines)],
        bytes: Vec::new(),
        slot: None,
        left_out: None,
    }
}
