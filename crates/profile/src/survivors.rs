use std::{cmp::Reverse, collections::HashMap};

use session::{SurvivorHolder, TypeId};

use crate::{Profile, Totals, without_namespaces};

/// The oldest generation whose objects are young: what survives it has survived a collection or
/// two.
const YOUNG: u8 = 1;
/// Words for generations, by their number.
const GENERATIONS: [&str; 5] = ["gen 0", "gen 1", "gen 2", "large objects", "pinned objects"];

/// What survived of a generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GenerationSurvival {
    /// Collections of it that were looked at.
    pub collections: u64,
    /// Bytes in use before them, with what was free in between.
    pub before: u64,
    /// Objects that survived, and their bytes.
    pub survived: Totals,
}

impl GenerationSurvival {
    /// Share of the bytes in use that survived; `None` where there was nothing.
    pub fn rate(&self) -> Option<f64> {
        (self.before > 0).then(|| self.survived.weight as f64 / self.before as f64)
    }
}

/// Survivors of a type; weights are bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SurvivorRow {
    /// The type.
    pub ty: TypeId,
    /// All of it.
    pub totals: Totals,
    /// Young ones: those that were in generation 0 or 1.
    pub young: Totals,
    /// By generation before and after, in that order.
    pub moves: Vec<((u8, u8), Totals)>,
}

/// Young survivors of a type that were held in the same way; weights are bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SurvivorChain {
    /// Where the chain begins.
    pub holder: SurvivorHolder,
    /// Types along it, the survivors' own last.
    pub path: Vec<TypeId>,
    /// How many, in all collections that were looked at.
    pub totals: Totals,
    /// In how many of these there were any.
    pub collections: u64,
}

impl SurvivorChain {
    /// The type of the survivors.
    pub fn ty(&self) -> Option<TypeId> {
        self.path.last().copied()
    }
}

/// Sums of all collections that were looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SurvivorSummary {
    /// Collections that were looked at, by the oldest generation that was collected.
    pub collections: [u64; 3],
    /// Of them those in which not every survivor was seen. They count in nothing below but the
    /// times.
    pub incomplete: u64,
    /// Those that were induced.
    pub induced: u64,
    /// How long the runtime was suspended for them, nanoseconds.
    pub paused: u64,
    /// How much of it the snapshots took.
    pub telling: u64,
    /// The longest of that.
    pub longest: u64,
    /// Objects that the runtime reported for them, survivors or not.
    pub objects: u64,
    /// Bytes that these collections moved.
    pub moved: u64,
    /// Generations 0, 1, 2, large and pinned objects.
    pub generations: [GenerationSurvival; 5],
    /// By type; most bytes of young ones first, then most bytes.
    pub types: Vec<SurvivorRow>,
    /// By what retains young ones, most bytes first.
    pub chains: Vec<SurvivorChain>,
}

/// Word for a generation by its number.
pub fn generation_word(generation: u8) -> &'static str {
    GENERATIONS.get(usize::from(generation)).copied().unwrap_or("elsewhere")
}

impl Profile {
    /// Sums of what survived.
    pub fn survivor_summary(&self) -> SurvivorSummary {
        let mut summary = SurvivorSummary::default();
        let mut types: HashMap<TypeId, HashMap<(u8, u8), Totals>> = HashMap::new();
        let mut chains: HashMap<(&SurvivorHolder, &[TypeId]), (Totals, u64)> = HashMap::new();
        for snapshot in &self.survivors {
            let collection = &snapshot.collection;
            if let Some(collections) =
                summary.collections.get_mut(usize::from(collection.generation))
            {
                *collections += 1;
            }
            summary.induced += u64::from(collection.induced);
            summary.paused = summary.paused.saturating_add(collection.paused);
            summary.telling = summary.telling.saturating_add(collection.telling);
            summary.longest = summary.longest.max(collection.telling);
            summary.objects = summary.objects.saturating_add(collection.objects);
            if !collection.complete {
                summary.incomplete += 1;
                continue;
            }
            summary.moved = summary.moved.saturating_add(collection.moved);
            for (index, (generation, before)) in
                summary.generations.iter_mut().zip(collection.before).enumerate()
            {
                // Large and pinned objects are collected with generation 2.
                generation.collections += u64::from(
                    index <= usize::from(collection.generation) || collection.generation >= 2,
                );
                generation.before = generation.before.saturating_add(before);
            }
            for count in &snapshot.counts {
                let by_moves = types.entry(count.ty).or_default();
                by_moves
                    .entry((count.before, count.after))
                    .or_default()
                    .add(count.objects, count.bytes);
                if let Some(generation) = summary.generations.get_mut(usize::from(count.before)) {
                    generation.survived.add(count.objects, count.bytes);
                }
            }
            // Paths of classes that have one name may be equal within a snapshot.
            let mut of_snapshot: HashMap<(&SurvivorHolder, &[TypeId]), Totals> = HashMap::new();
            for held in &snapshot.held {
                of_snapshot
                    .entry((&held.holder, held.path.as_slice()))
                    .or_default()
                    .add(held.objects, held.bytes);
            }
            for (way, totals) in of_snapshot {
                let (all, collections) = chains.entry(way).or_default();
                all.add(totals.samples, totals.weight);
                *collections += 1;
            }
        }
        summary.types = types.into_iter().map(|(ty, moves)| SurvivorRow::new(ty, moves)).collect();
        order::sort_by_key(&mut summary.types, |row| {
            (Reverse(row.young.weight), Reverse(row.totals.weight), row.ty)
        });
        summary.chains = chains
            .into_iter()
            .map(|((holder, path), (totals, collections))| SurvivorChain {
                holder: holder.clone(),
                path: path.to_vec(),
                totals,
                collections,
            })
            .collect();
        order::sort_by(&mut summary.chains, |a, b| {
            b.totals
                .weight
                .cmp(&a.totals.weight)
                .then_with(|| (&a.holder, &a.path).cmp(&(&b.holder, &b.path)))
        });
        summary
    }

    /// A chain in words, from its holder to what survived; `short` leaves out namespaces of types.
    pub fn chain_text(&self, chain: &SurvivorChain, short: bool) -> String {
        let of = |[full, without]: [String; 2]| if short { without } else { full };
        let parts = self.chain_steps(chain).into_iter().map(of);
        parts.collect::<Vec<_>>().join(" → ")
    }

    /// The steps of a chain, from its holder to what survived, each as names of one thing: the
    /// longest first, and then the one without namespaces, if that is another one.
    pub fn chain_parts(&self, chain: &SurvivorChain) -> Vec<Vec<String>> {
        let forms = |names: [String; 2]| {
            let mut forms = names.to_vec();
            forms.dedup();
            forms
        };
        self.chain_steps(chain).into_iter().map(forms).collect()
    }

    /// The steps of a chain, each with and without namespaces of types.
    fn chain_steps(&self, chain: &SurvivorChain) -> Vec<[String; 2]> {
        let name = |ty: &TypeId| {
            let name = &self.tables.ty(*ty).name;
            [name.clone(), without_namespaces(name)]
        };
        let mut types = chain.path.iter().map(name);
        let start = match &chain.holder {
            SurvivorHolder::Older(generation) => {
                let holder = types.next().unwrap_or_default();
                let word = generation_word(*generation);
                let steps = holder.map(|holder| format!("older object {holder} ({word})"));
                return std::iter::once(steps).chain(types).collect();
            }
            SurvivorHolder::Handle => "handle or static".to_owned(),
            SurvivorHolder::Stack(method) if method.is_empty() => {
                "variable of the runtime's own".to_owned()
            }
            SurvivorHolder::Stack(method) => format!("variable of {method}"),
            SurvivorHolder::Dependent => "ConditionalWeakTable".to_owned(),
            SurvivorHolder::Other => "the runtime".to_owned(),
            SurvivorHolder::Finalizer => "finalizer queue".to_owned(),
            SurvivorHolder::Unknown => "not known".to_owned(),
        };
        std::iter::once([start.clone(), start]).chain(types).collect()
    }
}

impl SurvivorRow {
    fn new(ty: TypeId, moves: HashMap<(u8, u8), Totals>) -> Self {
        let mut moves: Vec<_> = moves.into_iter().collect();
        order::sort_by_key(&mut moves, |(generations, _)| *generations);
        let (mut totals, mut young) = (Totals::default(), Totals::default());
        for ((before, _), of) in &moves {
            totals.add(of.samples, of.weight);
            if *before <= YOUNG {
                young.add(of.samples, of.weight);
            }
        }
        Self { ty, totals, young, moves }
    }

    /// Those that were in one generation and are in another.
    pub fn between(&self, before: u8, after: u8) -> Totals {
        let found = self.moves.iter().find(|(generations, _)| *generations == (before, after));
        found.map_or(Totals::default(), |(_, totals)| *totals)
    }
}
