//! `exceptions`: which are thrown, where, and who catches them.

use profile::{CallSite, ExceptionRow, NameStyle, Profile, Recent, SeriesKind};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    Cell, Section, Table, Tile, View,
    cells::{type_name, with_place},
    json_part, left, right,
};
use crate::{
    Options, format,
    json::values::{DistributionJson, PlaceJson, since},
    pane::{Detail, Pane, PaneContent, PaneOptions, ThreadChoice},
};

pub const VIEW: View = View {
    section,
    json: Some(json_part!("exceptions", Json<'_>, json)),
    tab: ("exceptions", "Exceptions"),
    tile: Some(tile),
    rows_of: None,
};

pub const PANE: Pane = Pane {
    title: "Exceptions",
    headline: |recent| vec![("exceptions", Cell::per_second(recent.exceptions_per_second))],
    color: Some(1),
    legend: &[],
    thread_choice: ThreadChoice::None,
    content,
};

fn content(recent: &Recent, options: &PaneOptions) -> PaneContent {
    let profile = &recent.profile;
    let mut content = PaneContent::default();
    for row in &recent.exceptions {
        let name = &profile.tables.ty(row.ty).name;
        content.table.rows.push(vec![
            Cell::per_second(row.per_second),
            Cell::count(row.count),
            match options.names.namespaces {
                true => type_name(profile, row.ty),
                false => Cell::name(profile::without_namespaces(name)),
            },
            Cell::text(row.message.as_deref().unwrap_or_default()).weak(),
        ]);
        let text = match row.thrown_at {
            Some((function, _)) => {
                let place = profile.tables.function_name(function, NameStyle::PLAIN);
                format!("{name} thrown in {place}")
            }
            None => name.clone(),
        };
        content.details.push(Detail { text, thread: None });
    }
    if content.table.rows.is_empty() {
        content.section.say("No exception was thrown yet.");
        return content;
    }
    content.table.columns =
        vec![right("rate").at_least(9), right("count").at_least(7), left("type"), left("message")];
    content
}

fn tile(profile: &Profile) -> Option<Tile> {
    let total = profile.exceptions.total();
    if total == 0 && profile.run("exceptions").is_none() {
        return None;
    }
    let tile = Tile::new("Exceptions", format::count(total));
    if total == 0 {
        return Some(tile.note("none was thrown"));
    }
    let seconds = profile.duration().max(1) as f64 / 1e9;
    let types = format::counted(profile.exception_rows().len() as u64, "type");
    let how = if profile.exceptions.exact() { "counted exactly" } else { "estimated" };
    Some(tile.more(format::rate(total as f64 / seconds)).note(format!("{types}, {how}")))
}

fn section(profile: &Profile, options: &Options) -> Option<Section> {
    let is_shown = options.series.is_none_or(|series| series == SeriesKind::Exceptions)
        && (profile.exceptions.total() > 0 || profile.run("exceptions").is_some());
    is_shown.then(|| exceptions(profile, options))
}

fn exceptions(profile: &Profile, options: &Options) -> Section {
    let rows = profile.exception_rows();
    let total = profile.exceptions.total();
    let seconds = profile.duration().max(1) as f64 / 1e9;
    let how = if profile.exceptions.exact() { "counted exactly" } else { "estimated from samples" };
    let mut section = Section {
        title: "Exceptions".to_owned(),
        lead: vec![match total {
            0 => "None were thrown.".to_owned(),
            _ => format!(
                "{} of {} thrown ({how}), {}; {} kept with message and stack.",
                format::counted(total, "exception"),
                format::counted(rows.len() as u64, "type"),
                format::rate(total as f64 / seconds),
                format::count(profile.exceptions.samples.len() as u64)
            ),
        }],
        ..Section::default()
    };
    if rows.is_empty() {
        return section;
    }
    let types = rows.iter().take(options.rows).map(|row| {
        let message = row.message.as_deref().unwrap_or("");
        let mut message: String =
            message.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        if row.messages > 1 {
            message.push_str(&format!(" (+{} other)", row.messages - 1));
        }
        let caught = (row.time_to_catch.count > 0).then_some(row.time_to_catch.p50);
        vec![
            Cell::count(row.count),
            Cell::per_second(row.per_second),
            caught.map_or(Cell::Nothing, Cell::nanoseconds),
            type_name(profile, row.ty),
            Cell::name(message),
        ]
    });
    let columns = vec![
        right("count"),
        right("rate"),
        right("to catch p50"),
        left("type"),
        left("most frequent message"),
    ];
    section.add(Table::new(columns, types));
    let place = |function| {
        let forms = [NameStyle::PLAIN, NameStyle::SHORT]
            .map(|style| profile.tables.function_name(function, style));
        Cell::Name { forms: forms.to_vec(), place: None }
    };
    let places = rows.iter().take(options.rows).filter_map(|row| {
        let (function, line) = row.thrown_at?;
        let thrown = with_place(place(function), profile, options, line);
        Some(vec![
            type_name(profile, row.ty),
            thrown,
            row.caught_by.map_or(Cell::text("not known"), place),
        ])
    });
    let columns = vec![left("type"), left("mostly thrown at"), left("mostly caught by")];
    section.extend(Table::of(columns, places));
    section
}

/// Exceptions that were thrown.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Exceptions")]
struct Json<'a> {
    /// Number of exceptions.
    total: u64,
    /// Whether numbers are counted, not estimated.
    exact: bool,
    /// Most frequent first.
    types: Vec<TypeJson<'a>>,
    /// Exceptions that were kept with message and stack.
    samples: Vec<SampleJson<'a>>,
}

/// Exceptions of a type.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ExceptionType")]
struct TypeJson<'a> {
    /// Index in `types` of the report.
    r#type: u32,
    type_name: &'a str,
    /// Number of exceptions.
    count: u64,
    per_second: f64,
    /// How many of them were kept.
    samples: u64,
    /// The most frequent message, where there is one.
    message: Option<String>,
    /// Number of different messages.
    messages: u64,
    /// Where most of them were thrown, where known.
    thrown_at: Option<PlaceJson>,
    /// The method that caught most of them, where known: index in `functions`.
    caught_by: Option<u32>,
    /// From the throw to the entry of the catch block, nanoseconds.
    time_to_catch_ns: DistributionJson,
}

/// An exception that was kept.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ExceptionSample")]
struct SampleJson<'a> {
    /// When it was thrown, nanoseconds since the start of the recording.
    time_ns: u64,
    /// Index in `threads`.
    thread: u32,
    /// Index in `types` of the report.
    r#type: u32,
    message: Option<&'a str>,
    /// Where it was thrown: index in `stacks`.
    stack: u32,
    /// How many exceptions of its type it stands for.
    weight: u64,
    /// The method that caught it, where known: index in `functions`.
    caught_by: Option<u32>,
    /// From the throw to the entry of the catch block, nanoseconds, where known.
    time_to_catch_ns: Option<u64>,
}

fn json(profile: &Profile) -> Json<'_> {
    let samples = profile.exceptions.samples.iter().map(|sample| SampleJson {
        time_ns: since(profile, sample.time),
        thread: sample.thread.0,
        r#type: sample.ty.0,
        message: sample.message.as_deref(),
        stack: sample.stack.0,
        weight: sample.weight,
        caught_by: sample.caught_by.map(|function| function.0),
        time_to_catch_ns: sample.time_to_catch,
    });
    Json {
        total: profile.exceptions.total(),
        exact: profile.exceptions.exact(),
        types: profile.exception_rows().into_iter().map(|row| type_json(profile, row)).collect(),
        samples: samples.collect(),
    }
}

fn type_json(profile: &Profile, row: ExceptionRow) -> TypeJson<'_> {
    TypeJson {
        r#type: row.ty.0,
        type_name: &profile.tables.ty(row.ty).name,
        count: row.count,
        per_second: row.per_second,
        samples: row.samples,
        message: row.message,
        messages: row.messages,
        thrown_at: row.thrown_at.map(|(function, line)| (&CallSite { function, line }).into()),
        caught_by: row.caught_by.map(|function| function.0),
        time_to_catch_ns: (&row.time_to_catch).into(),
    }
}
