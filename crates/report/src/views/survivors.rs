//! `survivors`: what survives a collection, and what retains it.

mod figures;

use std::collections::BTreeMap;

use profile::{
    Profile, SurvivorChain, SurvivorRow, SurvivorSummary, Totals, generation_word,
    session::{SurvivorHolder, SurvivorSnapshot},
};
use schemars::JsonSchema;
use serde::Serialize;

use super::{Cell, Section, Table, Tile, View, cells::type_name, json_part, left, right};
use crate::{Options, format, json::values::since};

pub const VIEW: View = View {
    section,
    json: Some(json_part!("survivors", Json<'_>, json)),
    tab: ("survivors", "Survivors"),
    tile: Some(tile),
    rows_of: None,
};

fn tile(profile: &Profile) -> Option<Tile> {
    if profile.survivors.is_empty() && profile.run("survivors").is_none() {
        return None;
    }
    let summary = profile.survivor_summary();
    let youngest = summary.generations.first().filter(|generation| generation.before > 0);
    let rate = youngest.and_then(|generation| generation.rate());
    let tile = Tile::new("Survived gen 0", rate.map_or("·".to_owned(), format::percent));
    let most = summary.types.iter().find(|row| row.young.samples > 0);
    Some(tile.note(match most {
        Some(row) => {
            format!("most: {}", profile::without_namespaces(&profile.tables.ty(row.ty).name))
        }
        None => "no young survivor".to_owned(),
    }))
}

fn section(profile: &Profile, options: &Options) -> Option<Section> {
    let is_shown = options.series.is_none()
        && (!profile.survivors.is_empty() || profile.run("survivors").is_some());
    is_shown.then(|| survivors(profile, options))
}

/// Ways in which a type is retained that are shown.
const MOST_CHAINS: usize = 3;

fn survivors(profile: &Profile, options: &Options) -> Section {
    let mut section = Section::new("Survivors");
    let summary = profile.survivor_summary();
    let snapshots: u64 = summary.collections.iter().sum();
    if snapshots == 0 {
        section.say("There was no collection to take a snapshot of.".to_owned());
        return section;
    }
    let by_generation = (summary.collections.iter().enumerate())
        .filter(|(_, count)| **count > 0)
        .map(|(generation, count)| format!("gen {generation}: {}", format::count(*count)));
    section.say(format!(
        "{} with a snapshot ({}); {} in their GC pauses, {} of it for the snapshots ({} at most).",
        format::counted(snapshots, "collection"),
        by_generation.collect::<Vec<_>>().join(", "),
        format::duration(summary.paused),
        format::duration(summary.telling),
        format::duration(summary.longest),
    ));
    if summary.incomplete > 0 {
        section.say(format!(
            "In {} of them some survivors are missing; they are left out below{}.",
            format::count(summary.incomplete),
            profile
                .survivors
                .iter()
                .map(|snapshot| &snapshot.collection)
                .find_map(|collection| collection.reason.as_ref().filter(|_| !collection.complete))
                .map(|reason| format!(" ({reason})"))
                .unwrap_or_default(),
        ));
    }
    section.extend(figures::figures(profile, &summary));
    section.add(generations(&summary));
    section.extend(types(profile, options, &summary));
    section.extend(chains(profile, options, &summary));
    section
}

fn generations(summary: &SurvivorSummary) -> Table {
    let rows = (summary.generations.iter().enumerate())
        .filter(|(_, generation)| generation.collections > 0 && generation.before > 0)
        .map(|(index, generation)| {
            vec![
                Cell::text(generation_word(index as u8)),
                Cell::count(generation.collections),
                Cell::bytes(generation.before),
                Cell::bytes(generation.survived.weight),
                generation.rate().map_or(Cell::Nothing, Cell::share),
                Cell::count(generation.survived.samples),
            ]
        });
    let columns = vec![
        left("generation"),
        right("collected"),
        right("in use before"),
        right("survived"),
        right("share"),
        right("objects"),
    ];
    Table::new(columns, rows)
}

/// The types of which young objects survived.
fn young<'a>(
    summary: &'a SurvivorSummary,
    options: &Options,
) -> impl Iterator<Item = &'a SurvivorRow> {
    summary.types.iter().filter(|row| row.young.samples > 0).take(options.rows)
}

fn types(profile: &Profile, options: &Options, summary: &SurvivorSummary) -> Option<Table> {
    let bytes_and_objects = |totals: Totals| match totals.samples {
        0 => Cell::Nothing,
        objects => {
            Cell::text(format!("{} ({})", format::bytes(totals.weight), format::count(objects)))
        }
    };
    let rows = young(summary, options).map(|row| {
        let others = row.moves.iter().filter(|((before, after), _)| {
            *before <= 1 && ![(0, 0), (0, 1), (1, 2)].contains(&(*before, *after))
        });
        let others = others.fold(Totals::default(), |sum, (_, of)| Totals {
            samples: sum.samples + of.samples,
            weight: sum.weight + of.weight,
        });
        vec![
            Cell::bytes(row.young.weight),
            Cell::count(row.young.samples),
            bytes_and_objects(row.between(0, 0)),
            bytes_and_objects(row.between(0, 1)),
            bytes_and_objects(row.between(1, 2)),
            bytes_and_objects(others),
            type_name(profile, row.ty),
        ]
    });
    let columns = vec![
        right("young survivors"),
        right("objects"),
        right("left in gen 0"),
        right("gen 0→1"),
        right("gen 1→2"),
        right("otherwise"),
        left("type"),
    ];
    Table::of(columns, rows)
}

/// Of each of the heaviest types the ways in which most of it is retained.
fn chains(profile: &Profile, options: &Options, summary: &SurvivorSummary) -> Option<Table> {
    let chains = young(summary, options).flat_map(|row| {
        summary.chains.iter().filter(|chain| chain.ty() == Some(row.ty)).take(MOST_CHAINS)
    });
    let rows = chains.map(|chain| {
        vec![
            Cell::bytes(chain.totals.weight),
            Cell::count(chain.totals.samples),
            Cell::count(chain.collections),
            Cell::Name {
                forms: [false, true].map(|short| profile.chain_text(chain, short)).to_vec(),
                place: None,
            },
        ]
    });
    let columns = vec![
        right("retained"),
        right("objects"),
        right("in collections"),
        left("by, shortest path"),
    ];
    Table::of(columns, rows)
}

/// What survives collections, and what retains it. Sums are of complete snapshots.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Survivors")]
struct Json<'a> {
    /// Collections with a snapshot, by the oldest generation collected: 0, 1, 2.
    collections: [u64; 3],
    /// Incomplete ones, which count only in times.
    incomplete: u64,
    /// Induced ones.
    induced: u64,
    /// Time in which the program was paused for these collections, nanoseconds.
    paused_ns: u64,
    /// The part of it that the snapshots took, nanoseconds.
    snapshot_ns: u64,
    /// The longest such part, nanoseconds.
    longest_snapshot_ns: u64,
    /// Objects that the runtime reported.
    objects_reported: u64,
    /// Bytes that the collections moved.
    moved: u64,
    /// Sums by generation: `gen_0`, `gen_1`, `gen_2`, `large_objects` and `pinned_objects`.
    generations: BTreeMap<String, GenerationJson>,
    /// Most bytes of young survivors first.
    types: Vec<TypeJson<'a>>,
    /// What retains young survivors, most bytes first.
    held: Vec<ChainJson>,
    /// All snapshots, in order.
    snapshots: Vec<SnapshotJson<'a>>,
}

/// What survived of a generation.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "GenerationSurvival")]
struct GenerationJson {
    /// Collections of this generation.
    collections: u64,
    /// Bytes in use before these collections.
    before: u64,
    /// Bytes that survived.
    survived: u64,
    /// Objects that survived.
    objects: u64,
    /// Share that survived, 0 to 1; null where nothing was there.
    rate: Option<f64>,
}

/// Objects and their bytes.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SurvivorSums")]
struct SumsJson {
    objects: u64,
    bytes: u64,
}

/// Survivors of a type.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SurvivorType")]
struct TypeJson<'a> {
    /// Index in `types` of the report.
    r#type: u32,
    type_name: &'a str,
    objects: u64,
    bytes: u64,
    /// Those that were in generation 0 or 1.
    young: SumsJson,
    /// Survivors by generation before and after the collection.
    moves: Vec<MoveJson>,
}

/// Survivors that were in one generation before the collection and in one after it: 0, 1, 2; 3 are
/// large objects, 4 pinned ones.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SurvivorMove")]
struct MoveJson {
    /// Generation before the collection.
    before: u8,
    /// Generation after it; null where unknown.
    after: Option<u8>,
    objects: u64,
    bytes: u64,
}

/// Young survivors that are retained in one way.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SurvivorChain")]
struct ChainJson {
    #[schemars(extend("enum" = [
        "older_object", "handle", "variable", "conditional_weak_table", "runtime",
        "finalizer_queue", "unknown"
    ]))]
    holder: &'static str,
    /// Generation of an older object, where known.
    generation: Option<u8>,
    /// Method of a variable, where known.
    method: Option<String>,
    /// Types along the shortest chain, as indices in `types` of the report: that of an older object
    /// first, that of the survivors last.
    path: Vec<u32>,
    /// The same in words.
    text: String,
    objects: u64,
    bytes: u64,
    /// Collections with any of these survivors.
    collections: u64,
}

/// What survived one collection.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SurvivorSnapshot")]
struct SnapshotJson<'a> {
    /// Nanoseconds since the start of the recording.
    time_ns: u64,
    /// The oldest generation that was collected: 0, 1 or 2.
    generation: u8,
    /// Whether the collection was induced.
    induced: bool,
    /// How long the program was paused for the collection with the snapshot, nanoseconds; 0 where
    /// not known.
    paused_ns: u64,
    /// The part of it that the snapshot took, nanoseconds.
    snapshot_ns: u64,
    /// Bytes in use before in generations 0, 1, 2, large and pinned objects; 0 for those that were
    /// not collected.
    before: [u64; 5],
    /// Bytes that the collection moved.
    moved: u64,
    /// Objects that the runtime reported.
    objects_reported: u64,
    /// Bytes that survived.
    survived: u64,
    /// Whether all survivors were seen.
    complete: bool,
    /// Why not; also, in a complete one, what else is missing.
    reason: Option<&'a str>,
}

fn json(profile: &Profile) -> Json<'_> {
    let summary = profile.survivor_summary();
    let generations = (0..).map(generation_word).zip(&summary.generations);
    let generations = generations.map(|(name, generation)| {
        let of = GenerationJson {
            collections: generation.collections,
            before: generation.before,
            survived: generation.survived.weight,
            objects: generation.survived.samples,
            rate: generation.rate(),
        };
        (name.replace(' ', "_"), of)
    });
    Json {
        collections: summary.collections,
        incomplete: summary.incomplete,
        induced: summary.induced,
        paused_ns: summary.paused,
        snapshot_ns: summary.telling,
        longest_snapshot_ns: summary.longest,
        objects_reported: summary.objects,
        moved: summary.moved,
        generations: generations.collect(),
        types: summary.types.iter().map(|row| type_json(profile, row)).collect(),
        held: summary.chains.iter().map(|chain| chain_json(profile, chain)).collect(),
        snapshots: profile.survivors.iter().map(|of| snapshot_json(profile, of)).collect(),
    }
}

fn type_json<'a>(profile: &'a Profile, row: &SurvivorRow) -> TypeJson<'a> {
    let moves = row.moves.iter().map(|((before, after), totals)| MoveJson {
        before: *before,
        after: Some(*after).filter(|after| *after != u8::MAX),
        objects: totals.samples,
        bytes: totals.weight,
    });
    TypeJson {
        r#type: row.ty.0,
        type_name: &profile.tables.ty(row.ty).name,
        objects: row.totals.samples,
        bytes: row.totals.weight,
        young: SumsJson { objects: row.young.samples, bytes: row.young.weight },
        moves: moves.collect(),
    }
}

fn chain_json(profile: &Profile, chain: &SurvivorChain) -> ChainJson {
    ChainJson {
        holder: match &chain.holder {
            SurvivorHolder::Older(_) => "older_object",
            SurvivorHolder::Handle => "handle",
            SurvivorHolder::Stack(_) => "variable",
            SurvivorHolder::Dependent => "conditional_weak_table",
            SurvivorHolder::Other => "runtime",
            SurvivorHolder::Finalizer => "finalizer_queue",
            SurvivorHolder::Unknown => "unknown",
        },
        generation: match &chain.holder {
            SurvivorHolder::Older(generation) if *generation != u8::MAX => Some(*generation),
            _ => None,
        },
        method: match &chain.holder {
            SurvivorHolder::Stack(method) if !method.is_empty() => Some(method.clone()),
            _ => None,
        },
        path: chain.path.iter().map(|ty| ty.0).collect(),
        text: profile.chain_text(chain, false),
        objects: chain.totals.samples,
        bytes: chain.totals.weight,
        collections: chain.collections,
    }
}

fn snapshot_json<'a>(profile: &Profile, snapshot: &'a SurvivorSnapshot) -> SnapshotJson<'a> {
    let counts = snapshot.counts.iter();
    let collection = &snapshot.collection;
    SnapshotJson {
        time_ns: since(profile, collection.time),
        generation: collection.generation,
        induced: collection.induced,
        paused_ns: collection.paused,
        snapshot_ns: collection.telling,
        before: collection.before,
        moved: collection.moved,
        objects_reported: collection.objects,
        survived: counts.fold(0_u64, |sum, count| sum.saturating_add(count.bytes)),
        complete: collection.complete,
        reason: collection.reason.as_deref(),
    }
}
