//! How findings speak of what they found.

pub use profile::format::{duration, percent};

use profile::{
    CallSite, NameStyle, Profile, SeriesKind, format,
    session::{FunctionId, StackId},
};

/// A number of bytes that was computed; one below zero is none.
pub fn bytes(bytes: f64) -> String {
    format::bytes(bytes.max(0.0) as u64)
}

/// How an object is held, from the root on.
pub fn path(path: &heap::PathRow) -> String {
    let steps = path.steps.iter().map(|step| {
        let field = step.field.as_ref().filter(|field| *field != "[]");
        let field = field.map_or_else(String::new, |field| format!(".{field}"));
        match step.times {
            0 | 1 => format!("{}{field}", step.name),
            times => format!("{} ({times} times) {field}", step.name).trim_end().to_owned(),
        }
    });
    std::iter::once(path.root_text()).chain(steps).collect::<Vec<_>>().join(" → ")
}

/// Full name of a method.
pub fn method(profile: &Profile, function: FunctionId) -> String {
    profile.tables.function_name(function, NameStyle::FULL)
}

/// A method, with its line where that is known.
pub fn place(profile: &Profile, place: &CallSite) -> String {
    let name = method(profile, place.function);
    match place.line {
        Some(line) => format!("{name} ({}:{})", profile.tables.file(line.file), line.line),
        None => name,
    }
}

/// Most methods of a call path.
const STEPS: usize = 6;

/// The methods on a stack, the called one first: `GC.Collect ← Shop.Cache.Trim ← …`.
pub fn call_path(profile: &Profile, stack: StackId) -> String {
    let tables = &profile.tables;
    let functions = tables.walk(stack).map(|frame| tables.frame(frame).function);
    let managed: Vec<_> = functions.filter(|function| tables.is_managed(*function)).collect();
    let names = managed.iter().take(STEPS).map(|function| method(profile, *function));
    let mut path = names.collect::<Vec<_>>().join(" ← ");
    if managed.len() > STEPS {
        path.push_str(" ← …");
    }
    path
}

/// How many processors or threads a weight in nanoseconds is on average.
pub fn average(profile: &Profile, weight: u64) -> f64 {
    weight as f64 / profile.duration().max(1) as f64
}

/// Method of the program in which most of the weight of the samples is that `wanted` picks; with
/// that weight.
pub fn heaviest_place(
    profile: &Profile,
    kind: SeriesKind,
    wanted: impl Fn(&profile::Cell) -> bool,
) -> Option<(CallSite, u64)> {
    let mut weights: std::collections::HashMap<CallSite, u64> = std::collections::HashMap::new();
    for cell in profile.series(kind).cells.iter().filter(|cell| wanted(cell)) {
        *weights.entry(profile.tables.place(cell.stack)).or_default() += cell.weight;
    }
    weights.into_iter().max_by(|a, b| a.1.cmp(&b.1).then_with(|| b.0.cmp(&a.0)))
}
