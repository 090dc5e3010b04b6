//! What the observation cost the process, and whether something is left in it.

use profile::{Profile, session::ResourceUse};
use serde_json::{Value, json};

use crate::format;
use document::Section;

pub fn section(profile: &Profile) -> Option<Section> {
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
    Some(Section { lead, ..Section::new("Cost of the observation") })
}

/// What a user has to know of what the agent held in the process: whether something is left, and
/// what it would have needed more of. The rest is in the JSON report and on the HTML page.
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
    let mut said = Vec::new();
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

pub fn page(profile: &Profile) -> Value {
    let Some(status) = profile.observer_total() else { return Value::Null };
    json!({
        "memory": status.target_memory,
        "cpu": status.target_cpu as f64 / 1e3,
        "stopped": status.target_stopped as f64 / 1e3,
        "own": status.own_cpu as f64 / 1e3,
        "since": profile.stop.saturating_sub(profile.info.start) as f64 / 1e3,
        "dropped": status.dropped.iter().filter(|(_, count)| *count > 0).collect::<Vec<_>>(),
        "counters": status.counters.iter().filter(|(_, count)| *count > 0).collect::<Vec<_>>(),
        "held": profile.resources.iter().map(|used| json!([
            used.name, used.unit == "bytes", used.highest, used.budget, used.refused, used.left,
        ])).collect::<Vec<_>>(),
    })
}
