//! `counters`: values over time.

use profile::{
    Counter, Profile,
    profilers::counters::{CounterDef, CounterKind},
    rows::Words,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::{Cell, Section, Table, Unit, View, json_part, left, right};
use crate::{Options, format, json::values::PointJson};

pub const VIEW: View = View {
    section,
    json: Some(json_part!("counters", Vec<CounterJson<'_>>, json)),
    tab: ("counters", "Counters"),
    tile: None,
    rows_of: None,
};

fn section(profile: &Profile, options: &Options) -> Option<Section> {
    // Those of the thread pool are in its section.
    let own = profile.run("counters").is_some()
        || profile.run("threadpool").is_none() && !profile.counters.is_empty();
    let is_shown = options.series.is_none() && own;
    is_shown.then(|| counters(profile, options))
}

/// Counters that are shown even where fewer rows of other things are.
const MOST_COUNTERS: usize = 100;

fn counters(profile: &Profile, options: &Options) -> Section {
    let mut section = Section::new("Counters");
    let known = profile.counters.iter().filter_map(|counter| Some((counter, counter.summary()?)));
    let mut known: Vec<_> = known.collect();
    if known.is_empty() {
        section.say("No values: recordings shorter than the interval have none.".to_owned());
        return section;
    }
    order::sort_by(&mut known, |(one, _), (other, _)| {
        one.def.source.cmp(&other.def.source).then(one.def.title.cmp(&other.def.title))
    });
    // A program has some dozens; with tags it may have any number.
    let most = options.rows.max(MOST_COUNTERS);
    if known.len() > most {
        let (all, rest) =
            (format::count(known.len() as u64), format::count((known.len() - most) as u64));
        section.say(format!("{all} counters; the last {rest} by name are left out here."));
        known.truncate(most);
    }
    let rows = known.iter().map(|(counter, summary)| {
        let CounterDef { title, unit, tags, kind, source, .. } = &counter.def;
        let per = if *kind == CounterKind::Rate { "/s" } else { "" };
        let values: Vec<&str> = tags
            .split(',')
            .map(|tag| tag.split_once('=').map_or(tag, |(_, value)| value))
            .collect();
        let in_brackets =
            |text: &str| if text.is_empty() { String::new() } else { format!(" [{text}]") };
        let (tags, values) = (in_brackets(tags), in_brackets(&values.join(", ")));
        let mut cells: Vec<Cell> = [summary.last, summary.mean, summary.min, summary.max]
            .map(|value| Cell::quantity(value, Unit::Number))
            .into();
        cells.push(Cell::text(format!("{unit}{per}")));
        cells.push(Cell::Line(counter.values.iter().map(|(_, value)| *value).collect()));
        let forms = vec![
            format!("{title}{tags}  {source}"),
            format!("{title}{tags}"),
            format!("{title}{values}"),
        ];
        cells.push(Cell::Name { forms, place: None });
        cells
    });
    let columns = vec![
        right("last"),
        right("mean"),
        right("min"),
        right("max"),
        left("unit"),
        left("over time"),
        left("counter"),
    ];
    section.add(Table::new(columns, rows));
    section
}

/// A counter of the process.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Counter")]
struct CounterJson<'a> {
    /// The EventSource or meter.
    source: &'a str,
    name: &'a str,
    /// Name for people.
    title: &'a str,
    /// Unit of the values; may be empty.
    unit: &'a str,
    /// Pairs of name and value, separated by commas; may be empty.
    tags: &'a str,
    /// `level`: values are means over the interval, or the last value; `rate`: they are increases
    /// per second.
    #[schemars(extend("enum" = ["level", "rate"]))]
    kind: &'static str,
    /// By time.
    values: Vec<PointJson>,
}

fn json(profile: &Profile) -> Vec<CounterJson<'_>> {
    profile.counters.iter().map(|counter| self::counter(profile, counter)).collect()
}

fn counter<'a>(profile: &Profile, counter: &'a Counter) -> CounterJson<'a> {
    let CounterDef { source, name, title, unit, tags, kind, .. } = &counter.def;
    let values = counter.values.iter();
    CounterJson {
        source,
        name,
        title,
        unit,
        tags,
        kind: kind.word(),
        values: values.map(|(time, value)| PointJson::of(profile, *time, *value)).collect(),
    }
}
