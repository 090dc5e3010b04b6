//! `allocations` and `exact-allocations`: which types are allocated, and where.

use std::collections::BTreeMap;

use profile::{
    AllocationRow, Amount, CallSite, NameStyle, OBJECT_HEAPS, Profile, SeriesKind,
    profilers::allocations::{AllocationHeap, AllocationSampling},
    rows::Words,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    Cell, Section, Table, Tile, Unit, View,
    cells::{amount, estimate, methods, type_name, with_place},
    is_wanted, json_part, left, right,
};
use crate::{
    Options, format,
    json::values::{PlaceJson, ShareJson},
};

pub const VIEW: View = View {
    section,
    json: Some(json_part!("allocations", Json<'_>, json)),
    tab: ("allocations", "Allocations"),
    tile: Some(tile),
    rows_of: None,
};

fn tile(profile: &Profile) -> Option<Tile> {
    let allocations = &profile.allocations;
    let is_sampled = profile.run("allocations").is_some() || !allocations.samples.is_empty();
    if is_sampled {
        let bytes = allocations.bytes();
        let seconds = profile.duration().max(1) as f64 / 1e9;
        let tile = Tile::new("Allocated", format::bytes(bytes.value as u64));
        let margin = format::bytes(bytes.margin as u64);
        let samples = format::counted(allocations.samples.len() as u64, "sample");
        let rate = format!("{}/s", format::bytes((bytes.value / seconds) as u64));
        return Some(tile.more(rate).note(format!("± {margin}, {samples}")));
    }
    if allocations.exact.is_empty() && profile.run("exact-allocations").is_none() {
        return None;
    }
    let total = allocations.exact_total();
    let note = format!("{}, every one counted", format::bytes(total.bytes));
    Some(Tile::new("Objects", format::count(total.objects)).note(note))
}

fn section(profile: &Profile, options: &Options) -> Option<Section> {
    let is_shown = is_wanted(profile, options, SeriesKind::Allocations)
        || options.series.is_none_or(|series| series == SeriesKind::Allocations)
            && (!profile.allocations.exact.is_empty()
                || profile.run("exact-allocations").is_some());
    is_shown.then(|| allocations(profile, options))
}

fn allocations(profile: &Profile, options: &Options) -> Section {
    let mut section = Section::new("Allocations");
    let allocations = &profile.allocations;
    let seconds = profile.duration().max(1) as f64 / 1e9;
    exact_section(profile, options, seconds, &mut section);
    if allocations.samples.is_empty() {
        if profile.run("allocations").is_some() || profile.run("exact-allocations").is_none() {
            section.say("No samples: fewer than about 100 KB were allocated.".to_owned());
        }
        return section;
    }
    let bytes = allocations.bytes();
    let objects = allocations
        .objects()
        .map(|objects| format!(" in {} objects", format::amount(&objects, format::count)));
    section.say(format!(
        "{} allocated{}, {}/s; estimated from {}. ± is the 95 % interval.",
        format::amount(&bytes, format::bytes),
        objects.unwrap_or_default(),
        format::bytes((bytes.value / seconds) as u64),
        format::counted(allocations.samples.len() as u64, "sample"),
    ));
    if !allocations.windows.is_empty() {
        section.say(format!(
            "Allocations were recorded in windows (duty cycle {}), so that the program was not \
             slowed down more; the rest is estimated from them, and the intervals include that.",
            format::percent(allocations.followed(profile.duration())),
        ));
    }
    if allocations.sampling == Some(AllocationSampling::Tick) {
        section.say(
            "This runtime reports the object that fills up each 100 KB of a heap: shares are \
             biased where a program allocates in a regular pattern. From .NET 10 on allocations \
             are randomly sampled."
                .to_owned(),
        );
    }
    let heaps: Vec<String> = (OBJECT_HEAPS.iter().zip(allocations.heaps()))
        .filter(|(_, bytes)| bytes.value > 0.0)
        .map(|(heap, bytes)| {
            format!("{} {}", heap_word(*heap), format::amount(&bytes, format::bytes))
        })
        .collect();
    section.say(format!("By heap: {}.", heaps.join(", ")));

    let place = |place: &CallSite| {
        let forms = [NameStyle::PLAIN, NameStyle::SHORT]
            .map(|style| profile.tables.function_name(place.function, style));
        with_place(Cell::Name { forms: forms.to_vec(), place: None }, profile, options, place.line)
    };
    let rows = profile.allocation_rows();
    let types = rows.iter().take(options.rows).map(|row| {
        vec![
            amount(&row.bytes, Unit::Bytes),
            estimate(&row.share),
            row.objects.map_or(Cell::Nothing, |objects| amount(&objects, Unit::Count)),
            type_name(profile, row.ty),
            row.allocated_at.as_ref().map_or(Cell::text("not known"), place),
        ]
    });
    let columns = vec![
        right("bytes"),
        right("share"),
        right("objects"),
        left("type"),
        left("mostly allocated at"),
    ];
    section.add(Table::new(columns, types));
    let functions = profile.top_functions(SeriesKind::Allocations);
    section.add(methods(profile, options, &profile.allocations.series, &functions));
    section
}

/// What is known of every object, where all were counted.
fn exact_section(profile: &Profile, options: &Options, seconds: f64, section: &mut Section) {
    let types = profile.allocations.exact_types();
    if types.is_empty() {
        if profile.run("exact-allocations").is_some() {
            let filtered = if profile.filtered.is_some() {
                ", or none is known to match the filter"
            } else {
                ""
            };
            section.say(format!("No object was counted{filtered}."));
        }
        return;
    }
    let total = profile.allocations.exact_total();
    section.say(format!(
        "{} allocated in {} of {}, {}/s; every one counted.",
        format::bytes(total.bytes),
        format::counted(total.objects, "object"),
        format::counted(types.len() as u64, "type"),
        format::bytes((total.bytes as f64 / seconds) as u64),
    ));
    let rows = types.iter().take(options.rows).map(|(ty, count)| {
        vec![
            Cell::bytes(count.bytes),
            Cell::share(count.bytes as f64 / total.bytes.max(1) as f64),
            Cell::count(count.objects),
            type_name(profile, *ty),
        ]
    });
    let columns = vec![right("bytes"), right("share"), right("objects"), left("type")];
    section.add(Table::new(columns, rows));
}

/// Word for a heap of objects.
pub fn heap_word(heap: AllocationHeap) -> &'static str {
    match heap {
        AllocationHeap::Small => "small objects",
        AllocationHeap::Large => "large objects",
        AllocationHeap::Pinned => "pinned objects",
    }
}

/// Which types are allocated, and where.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Allocations")]
struct Json<'a> {
    /// Number of samples.
    samples: usize,
    /// `random` (randomly sampled, unbiased) or `tick` (the object that fills up each 100 KB of a
    /// heap); null without samples.
    #[schemars(extend("enum" = ["random", "tick", null]))]
    sampling: Option<&'static str>,
    /// Share of the time in which allocations were recorded, 0 to 1; the rest is estimated from
    /// that.
    duty_cycle: f64,
    /// What was counted, object by object; null without `exact-allocations`.
    exact: Option<ExactJson<'a>>,
    /// Allocated bytes.
    bytes: AmountJson,
    /// Allocated objects; null where the runtime does not report sizes (.NET Core 3.1).
    objects: Option<AmountJson>,
    /// Allocated bytes by heap: `small_objects`, `large_objects` and `pinned_objects`.
    heaps: BTreeMap<String, AmountJson>,
    /// Most bytes first.
    types: Vec<TypeJson<'a>>,
}

/// An estimate: `value` ± `margin` is its 95 % interval.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Amount")]
struct AmountJson {
    value: f64,
    margin: f64,
}

impl From<&Amount> for AmountJson {
    fn from(&Amount { value, margin }: &Amount) -> Self {
        Self { value, margin }
    }
}

/// Allocations of a type.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "AllocatedType")]
struct TypeJson<'a> {
    /// Index in `types` of the report.
    r#type: u32,
    type_name: &'a str,
    /// Number of samples.
    samples: u64,
    bytes: AmountJson,
    /// Null where the runtime does not report sizes (.NET Core 3.1).
    objects: Option<AmountJson>,
    /// Share in all allocated bytes.
    share: ShareJson,
    /// Bytes by heap: `small_objects`, `large_objects` and `pinned_objects`.
    heaps: BTreeMap<String, u64>,
    /// Where most of its bytes were allocated: the innermost method of the program, or otherwise
    /// of .NET; null where not known.
    allocated_at: Option<PlaceJson>,
}

/// Allocations where every object is counted.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ExactAllocations")]
struct ExactJson<'a> {
    objects: u64,
    bytes: u64,
    /// Most bytes first.
    types: Vec<ExactTypeJson<'a>>,
    threads: Vec<ExactThreadJson>,
}

/// Counted allocations of a type.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ExactAllocationsOfType")]
struct ExactTypeJson<'a> {
    /// Index in `types` of the report.
    r#type: u32,
    type_name: &'a str,
    objects: u64,
    bytes: u64,
}

/// Counted allocations of a thread.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ExactAllocationsOfThread")]
struct ExactThreadJson {
    /// Index in `threads`.
    thread: u32,
    objects: u64,
    bytes: u64,
}

fn json(profile: &Profile) -> Json<'_> {
    let allocations = &profile.allocations;
    let heaps = OBJECT_HEAPS.iter().zip(allocations.heaps());
    Json {
        samples: allocations.samples.len(),
        sampling: allocations.sampling.map(AllocationSampling::word),
        duty_cycle: allocations.followed(profile.duration()),
        exact: exact_json(profile),
        bytes: (&allocations.bytes()).into(),
        objects: allocations.objects().as_ref().map(Into::into),
        heaps: heaps.map(|(heap, bytes)| (heap_key(*heap), (&bytes).into())).collect(),
        types: profile.allocation_rows().iter().map(|row| type_json(profile, row)).collect(),
    }
}

fn heap_key(heap: AllocationHeap) -> String {
    heap_word(heap).replace(' ', "_")
}

fn type_json<'a>(profile: &'a Profile, row: &AllocationRow) -> TypeJson<'a> {
    let heaps = OBJECT_HEAPS.iter().zip(row.heaps);
    TypeJson {
        r#type: row.ty.0,
        type_name: &profile.tables.ty(row.ty).name,
        samples: row.samples,
        bytes: (&row.bytes).into(),
        objects: row.objects.as_ref().map(Into::into),
        share: (&row.share).into(),
        heaps: heaps.map(|(heap, bytes)| (heap_key(*heap), bytes)).collect(),
        allocated_at: row.allocated_at.as_ref().map(Into::into),
    }
}

fn exact_json(profile: &Profile) -> Option<ExactJson<'_>> {
    let allocations = &profile.allocations;
    if allocations.exact.is_empty() && profile.run("exact-allocations").is_none() {
        return None;
    }
    let total = allocations.exact_total();
    let types = allocations.exact_types().into_iter().map(|(ty, count)| ExactTypeJson {
        r#type: ty.0,
        type_name: &profile.tables.ty(ty).name,
        objects: count.objects,
        bytes: count.bytes,
    });
    let threads = allocations.exact_threads().into_iter().map(|(thread, count)| ExactThreadJson {
        thread: thread.0,
        objects: count.objects,
        bytes: count.bytes,
    });
    Some(ExactJson {
        objects: total.objects,
        bytes: total.bytes,
        types: types.collect(),
        threads: threads.collect(),
    })
}
