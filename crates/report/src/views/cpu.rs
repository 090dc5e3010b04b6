//! `cpu`: where processor time goes.

use profile::{Profile, SeriesKind, session::FunctionKind};

use super::{
    Section, View,
    cells::{hot_paths, methods},
    is_wanted,
};
use crate::{Options, format};

pub const VIEW: View = View { section, json: None, page: None, rows_of: None };

fn section(profile: &Profile, options: &Options) -> Option<Section> {
    let is_shown = is_wanted(profile, options, SeriesKind::Cpu);
    is_shown.then(|| cpu(profile, options))
}

fn cpu(profile: &Profile, options: &Options) -> Section {
    let series = &profile.cpu;
    let busy = series.totals.weight as f64 / profile.duration().max(1) as f64;
    let mut section = Section {
        title: "CPU".to_owned(),
        lead: vec![format!(
            "{} of processor time: {busy:.2} of {} busy. ± is the 95 % interval in points.",
            format::duration(series.totals.weight),
            format::counted(profile.info.cpus.into(), "processor"),
        )],
        ..Section::default()
    };
    if series.is_empty() {
        section.lead = vec!["No samples: no thread was seen on a processor.".to_owned()];
        return section;
    }
    let functions = profile.top_functions(SeriesKind::Cpu);
    section.add(methods(profile, options, SeriesKind::Cpu, &functions));

    let kinds = by_kind(profile, &functions);
    if kinds.len() > 1 {
        let text: Vec<_> = kinds
            .iter()
            .map(|(word, share)| format!("{} {word}", format::percent(*share)))
            .collect();
        section.say(format!("By kind: {}.", text.join(", ")));
    }
    section.add(hot_paths(profile, options, SeriesKind::Cpu));
    section
}

/// Shares of the kinds of functions by their own weight, greatest first.
fn by_kind(profile: &Profile, functions: &[profile::FunctionTotals]) -> Vec<(&'static str, f64)> {
    let mut kinds: Vec<(&'static str, f64)> = Vec::new();
    for row in functions {
        let word = match profile.tables.function(row.function).kind {
            FunctionKind::Managed => "managed code",
            FunctionKind::Dynamic => "code made at run time",
            FunctionKind::Stub => "stubs",
            FunctionKind::Native => "native code",
            FunctionKind::Runtime => "the runtime",
            FunctionKind::Gc => "garbage collection",
            FunctionKind::Jit => "compilation",
            FunctionKind::Kernel => "the kernel",
            FunctionKind::Unknown => "unknown code",
        };
        match kinds.iter_mut().find(|(known, _)| *known == word) {
            Some((_, share)) => *share += row.own_share.share,
            None => kinds.push((word, row.own_share.share)),
        }
    }
    kinds.retain(|(_, share)| *share >= 0.0005);
    kinds.sort_by(|a, b| b.1.total_cmp(&a.1));
    kinds
}
