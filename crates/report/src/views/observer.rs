//! What the observation cost the process, and whether something is left in it.

use profile::{Profile, session::ResourceUse};

use super::Tile;
use crate::{Options, format};
use document::{Cell, Section, Table, left, right};

pub fn section(profile: &Profile, options: &Options) -> Option<Section> {
    let status = profile.observer_total()?;
    let seconds = (profile.stop.saturating_sub(profile.info.start)).max(1) as f64;
    let share = |nanos: u64| format::percent(nanos as f64 / seconds);
    let mut lead = vec![format!(
        "In the process: {} of processor time ({} of one processor), {} of memory, the runtime \
         suspended for {} ({}). clrscope itself: {} of processor time.",
        format::duration(status.target_cpu),
        share(status.target_cpu),
        format::bytes(status.target_memory),
        format::duration(status.target_stopped),
        share(status.target_stopped),
        format::duration(status.own_cpu),
    )];
    let named = |pairs: &[(String, u64)]| {
        let pairs: Vec<_> = pairs
            .iter()
            .filter(|(_, n)| *n > 0)
            .map(|(name, n)| format!("{name} {}", format::count(*n)))
            .collect();
        pairs.join(", ")
    };
    let dropped = named(&status.dropped);
    if !dropped.is_empty() {
        lead.push(format!("Dropped: {dropped}."));
    }
    lead.extend(held(profile));
    let mut section = Section { lead, ..Section::new("Cost of the observation") };
    if options.drawn {
        section.extend(details(profile));
    }
    Some(section)
}

/// What the agent held in the process: the most of each resource, whether something is left, and
/// what it would have needed more of. The budgets are in [`details`] and in the JSON report.
fn held(profile: &Profile) -> Vec<String> {
    let amount = |used: &ResourceUse, amount: u64| {
        let bytes = used.unit == "bytes";
        let amount = if bytes { format::bytes(amount) } else { format::count(amount) };
        format!("{} {amount}", used.name)
    };
    let list = |parts: Vec<String>| parts.join(", ");
    let left = |used: &&ResourceUse| used.left.is_some_and(|left| left > 0);
    let left = profile.resources.iter().filter(left);
    let left = list(left.map(|used| amount(used, used.left.unwrap_or_default())).collect());
    let refused = profile.resources.iter().filter(|used| used.refused > 0);
    let refused = list(refused.map(|used| amount(used, used.budget)).collect());
    let highest = profile.resources.iter().filter(|used| used.highest > 0);
    let highest = list(highest.map(|used| amount(used, used.highest)).collect());
    let mut said = Vec::new();
    if !highest.is_empty() {
        said.push(format!("Held in the process at most: {highest}."));
    }
    if !left.is_empty() {
        said.push(format!("Left in the process: {left}."));
    } else if profile.resources.iter().any(|used| used.left.is_some()) {
        said.push("Nothing is left in the process.".to_owned());
    }
    if !refused.is_empty() {
        said.push(format!("More was needed than the agent allows itself: {refused}."));
    }
    said
}

/// What the observation cost, in a figure.
pub fn tile(profile: &Profile) -> Option<Tile> {
    let status = profile.observer_total()?;
    let time = profile.stop.saturating_sub(profile.info.start).max(1) as f64;
    let tile = Tile::new("Cost of observing", format::percent(status.target_cpu as f64 / time));
    let (memory, stopped) =
        (format::bytes(status.target_memory), format::duration(status.target_stopped));
    Some(tile.more("of a processor").note(format!("{memory}, suspended {stopped}")))
}

/// What only developers of clrscope want to know: what was held, and counts of its own.
fn details(profile: &Profile) -> impl Iterator<Item = Table> {
    let cell = |used: &ResourceUse, amount: u64| match used.unit.as_str() {
        "bytes" => Cell::bytes(amount),
        _ => Cell::count(amount),
    };
    let held = profile.resources.iter().map(|used| {
        vec![
            Cell::text(used.name.as_str()),
            cell(used, used.highest),
            cell(used, used.budget),
            Cell::count(used.refused),
            used.left.map_or(Cell::Nothing, |left| cell(used, left)),
        ]
    });
    let columns = vec![
        left("Held in the process"),
        right("highest"),
        right("budget"),
        right("refused"),
        right("left after"),
    ];
    let counters = profile.observer_total().map(|status| status.counters.as_slice());
    let counters = counters.unwrap_or_default().iter().filter(|(_, count)| *count > 0);
    let counters = counters.map(|(name, count)| vec![Cell::text(name), Cell::count(*count)]);
    let names = vec![left("counted by clrscope"), right("number")];
    [Table::of(columns, held), Table::of(names, counters)].into_iter().flatten()
}
