//! What cannot be compared, and what could make a difference beside the program itself.

use document::format::counted;
use profile::{Profile, session::ProfilerRun};

use crate::{Options, Recording, estimate::FEWEST_SLICES, grid::Grid};

/// Drops below this share of all samples are not worth a word.
const FEW_DROPS: f64 = 0.01;

/// Why nothing can be claimed of what a profiler has recorded; none if both recordings measured it
/// in the same way.
pub fn why_not(profiles: [&Profile; 2], profiler: &str) -> Option<String> {
    let [before, after] = profiles.map(|profile| profile.run(profiler));
    let (before, after) = (before?, after?);
    if before.engine != after.engine {
        return Some(format!(
            "recorded in different ways: {} before, {} after; the way of sampling changes what is \
             seen",
            engine(before),
            engine(after)
        ));
    }
    let (one, other) = (params(before), params(after));
    (one != other)
        .then(|| format!("recorded with different parameters: {one} before, {other} after"))
}

fn engine(run: &ProfilerRun) -> &str {
    if run.engine.is_empty() { "unknown" } else { &run.engine }
}

/// Parameters without those that the weights of samples make up for.
fn params(run: &ProfilerRun) -> String {
    let others = run.params.iter().filter(|(name, _)| name != "rate");
    let mut params: Vec<String> = others.map(|(name, value)| format!("{name}={value}")).collect();
    params.sort_unstable();
    if params.is_empty() { "the defaults".to_owned() } else { params.join(":") }
}

/// All notes.
pub fn of(before: &Recording, after: &Recording, options: &Options) -> Vec<String> {
    let profiles = [&before.profile, &after.profile];
    let mut notes = Vec::new();
    of_program(profiles, &mut notes);
    of_profilers(profiles, options, &mut notes);
    for (recording, which) in [(before, "before"), (after, "after")] {
        of_quality(&recording.profile, which, &mut notes);
    }
    match (&before.heap, &after.heap) {
        (Some(_), None) => notes.push("only the recording before has a heap snapshot".to_owned()),
        (None, Some(_)) => notes.push("only the recording after has a heap snapshot".to_owned()),
        (Some(before), Some(after)) if !(before.complete && after.complete) => {
            notes.push("a heap snapshot lacks objects".to_owned());
        }
        _ => {}
    }
    notes
}

/// What is not the same about program and machine.
fn of_program(profiles: [&Profile; 2], notes: &mut Vec<String>) {
    let [before, after] = profiles.map(|profile| &profile.info);
    let mut differ = |what: &str, one: &str, other: &str| {
        // Files of other tools may not say it.
        let is_known = !one.is_empty() && !other.is_empty();
        if one != other && is_known {
            notes.push(format!("{what} differs: {one} before, {other} after"));
        }
    };
    differ("the process", &before.process_name, &after.process_name);
    differ("the runtime", &before.runtime, &after.runtime);
    differ("the platform", &before.platform, &after.platform);
    let cpus = |info: &profile::session::SessionInfo| match info.cpus {
        0 => String::new(),
        cpus => counted(cpus.into(), "processor"),
    };
    differ("the machine", &cpus(before), &cpus(after));
    let filters = profiles.map(|profile| profile.filtered.as_deref().unwrap_or("nothing"));
    if filters[0] != "nothing" {
        notes.push(format!("only a part is compared: {}", filters[0]));
    }
}

/// What the profilers did not do in the same way.
fn of_profilers(profiles: [&Profile; 2], options: &Options, notes: &mut Vec<String>) {
    let wanted = |id: &str| options.series.is_none_or(|kind| kind.id() == id);
    for (own, other, which) in
        [(profiles[0], profiles[1], "before"), (profiles[1], profiles[0], "after")]
    {
        let only = own.info.profilers.iter().filter(|run| other.run(&run.id).is_none());
        let only: Vec<&str> = only.map(|run| run.id.as_str()).filter(|id| wanted(id)).collect();
        if !only.is_empty() {
            notes.push(format!("recorded {which} only, and not compared: {}", only.join(", ")));
        }
    }
    for run in profiles[0].info.profilers.iter().filter(|run| wanted(&run.id)) {
        let why = why_not(profiles, &run.id);
        notes.extend(why.map(|why| format!("`{}` cannot be compared: {why}", run.id)));
        let rates = profiles.map(|profile| profile.rate_hz(&run.id));
        if let [Some(before), Some(after)] = rates
            && (before - after).abs() > 0.05 * before.max(after)
        {
            notes.push(format!(
                "`{}` took {before:.0} samples per second before, {after:.0} after; the weights of \
                 samples make up for it",
                run.id
            ));
        }
    }
}

/// What makes one of the recordings say less.
fn of_quality(profile: &Profile, which: &str, notes: &mut Vec<String>) {
    let seconds = profile.duration() as f64 / 1e9;
    if Grid::of(profile).len() < FEWEST_SLICES {
        notes.push(format!(
            "the recording {which} is too short to say how certain anything is: {seconds:.1} s; \
             record for at least 3 s, better 30 s"
        ));
    }
    if let Some(damage) = &profile.damage {
        notes.push(format!("the recording {which} is damaged: {damage}"));
    } else if profile.cut_short {
        notes.push(format!("the recording {which} was cut short"));
    }
    let samples: u64 =
        profile::SeriesKind::ALL.iter().map(|kind| profile.series(*kind).totals.samples).sum();
    let dropped = profile.dropped();
    if dropped as f64 > FEW_DROPS * samples as f64 {
        let dropped = counted(dropped, "sample");
        notes.push(format!("the recording {which} has dropped {dropped}"));
    }
}
