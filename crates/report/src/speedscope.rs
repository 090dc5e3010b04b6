use std::{collections::BTreeMap, io::Write};

use profile::{
    Profile, SeriesKind, Unit,
    session::{StackId, ThreadId},
};
use serde::Serialize;

use crate::{Exporter, Options, ReportError, format, kinds, one_kind};

pub const EXPORTER: Exporter = Exporter {
    id: "speedscope",
    extension: "speedscope.json",
    summary: "for speedscope.app: every thread, in time order",
    binary: false,
    single_samples: true,
    snapshots: false,
    render,
};

/// More single samples than this are no use in speedscope and make it run out of memory: sums are
/// written instead.
const MOST_SAMPLES: usize = 500_000;

// The types of https://www.speedscope.app/file-format-schema.json.

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct File<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    exporter: String,
    name: String,
    active_profile_index: usize,
    shared: Shared,
    profiles: Vec<Sampled<'a>>,
}

#[derive(Serialize)]
struct Shared {
    frames: Vec<Frame>,
}

#[derive(Serialize)]
struct Frame {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Sampled<'a> {
    #[serde(rename = "type")]
    ty: &'static str,
    name: String,
    unit: &'static str,
    start_value: u64,
    end_value: u64,
    samples: Vec<Path<'a>>,
    weights: Vec<u64>,
}

/// A stack that is written root first without being kept so.
struct Path<'a> {
    profile: &'a Profile,
    frames: &'a [u32],
    stack: StackId,
}

impl Serialize for Path<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut path: Vec<u32> =
            self.profile.tables.walk(self.stack).map(|frame| self.frames[frame.index()]).collect();
        path.reverse();
        path.serialize(serializer)
    }
}

fn render(profile: &Profile, options: &Options, out: &mut dyn Write) -> Result<(), ReportError> {
    one_kind(profile, options)?;
    let tables = &profile.tables;
    // Frames that read the same are the same.
    let (mut frames, mut ids) = (Vec::new(), std::collections::HashMap::new());
    let frame_ids: Vec<u32> = tables
        .frames
        .iter()
        .map(|frame| {
            let line = frame.line.filter(|_| options.lines);
            *ids.entry((frame.function, line)).or_insert_with(|| {
                frames.push(Frame {
                    name: tables.function_name(frame.function, options.names),
                    file: line.map(|line| tables.file(line.file).to_owned()),
                    line: line.map(|line| line.line),
                });
                frames.len() as u32 - 1
            })
        })
        .collect();
    let mut profiles = Vec::new();
    for kind in kinds(profile, options) {
        for (thread, rows) in by_thread(profile, kind) {
            let weights: Vec<u64> = rows.iter().map(|row| row.1).collect();
            let unit = match kind.value_type().unit {
                Unit::Nanoseconds => "nanoseconds",
                Unit::Bytes => "bytes",
                Unit::Count => "none",
            };
            profiles.push(Sampled {
                ty: "sampled",
                name: format!("{} · {}", kind.id(), tables.thread_name(thread)),
                unit,
                start_value: 0,
                end_value: weights.iter().fold(0, |sum, weight| sum.saturating_add(*weight)),
                samples: rows
                    .iter()
                    .map(|row| Path { profile, frames: &frame_ids, stack: row.0 })
                    .collect(),
                weights,
            });
        }
    }
    // The busiest thread of the first kind is what a reader wants to see first.
    let first = profiles
        .first()
        .map(|profile| profile.name.split(' ').next().unwrap_or_default().to_owned());
    let active = (0..profiles.len())
        .filter(|index| first.as_deref() == profiles[*index].name.split(' ').next())
        .max_by_key(|index| (profiles[*index].end_value, std::cmp::Reverse(*index)));
    let file = File {
        schema: "https://www.speedscope.app/file-format-schema.json",
        exporter: format!("clrscope {}", profile.info.tool_version),
        name: format::process(&profile.info),
        active_profile_index: active.unwrap_or_default(),
        shared: Shared { frames },
        profiles,
    };
    document::plain::write_json(out, &file)?;
    Ok(())
}

/// Stack and weight of all samples of each thread: in the order of time where they were kept, sums
/// otherwise.
fn by_thread(profile: &Profile, kind: SeriesKind) -> BTreeMap<ThreadId, Vec<(StackId, u64)>> {
    let series = profile.series(kind);
    let mut threads: BTreeMap<ThreadId, Vec<(StackId, u64)>> = BTreeMap::new();
    match (&series.samples, kind) {
        (Some(table), _) if table.len() <= MOST_SAMPLES => {
            for row in 0..table.len() {
                threads
                    .entry(table.thread[row])
                    .or_default()
                    .push((table.stack[row], table.weight[row]));
            }
        }
        (_, SeriesKind::Exceptions) => {
            for sample in &profile.exceptions.samples {
                threads.entry(sample.thread).or_default().push((sample.stack, sample.weight));
            }
        }
        _ => {
            for cell in &series.cells {
                threads.entry(cell.thread).or_default().push((cell.stack, cell.weight));
            }
        }
    }
    threads
}
