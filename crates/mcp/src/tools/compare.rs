//! `compare`: what differs between two sessions, and how certain that is. The verdicts are those of
//! `clrscope compare`.

use super::{Ask, next};
use crate::{
    answer::Answer,
    call::{Call, Failure, session},
    foreign::{NAME, SENTENCE, clean},
};
use ::compare::{
    Basis, Comparison, Finding, FindingKind, Functions, HeapComparison, Options, Recorded,
    Recording, Side, compare, word,
};
use document::format::{bytes, count, duration};
use profile::{Filter, session::FunctionId};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// Functions and measures of each verdict.
const ROWS: usize = 8;

/// Callers of what changed, of each verdict.
const CALLERS: usize = 4;

/// Types of objects.
const TYPES: usize = 6;

/// Changes that are facts as well.
const MOST_FACTS: usize = 4;

/// Seconds of a recording that shows smaller differences.
const SECONDS: u64 = 30;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Compare {
    /// Session to compare with.
    before: String,
    /// Session that is compared.
    after: String,
    /// What amounts are related to; total (all samples) if the load differs.
    #[schemars(extend("enum" = ["second", "run", "total"]))]
    per: Option<String>,
}

impl Ask for Compare {
    const NAME: &'static str = "compare";
    const ABOUT: &'static str = "What got slower or faster between two sessions, also of two builds: \
        functions, pauses, exceptions, allocations, heap, and how certain that is. Costs nothing. \
        Use it to verify a fix or an upgrade.";

    async fn answer(self, call: Call) -> Result<Answer, Failure> {
        let (before, after) = (session(&self.before)?, session(&self.after)?);
        let options = self.options()?;
        let longest = call.shared.config.limits.call.as_secs();
        let made = call.reading(move |work| {
            let read = |id| work.recording(id, &Filter::default());
            let (before, after) = (read(&before)?, read(&after)?);
            let comparison = compare(&before, &after, &options);
            let compared = Compared { comparison, handles: Handles::of(&before, &after) };
            Ok(compared.answer(longest))
        });
        made.await
    }
}

impl Compare {
    fn options(&self) -> Result<Options, Failure> {
        let basis = self.per.as_deref().map(|word| {
            let wrong = || Failure::Arguments("`per` is second, run or total".to_owned());
            Basis::by_name(word).ok_or_else(wrong)
        });
        Ok(Options { basis: basis.transpose()?, ..Options::default() })
    }
}

/// Functions of both sessions by their index in the comparison, as `explore` names them.
struct Handles {
    of: [Vec<Option<FunctionId>>; 2],
}

impl Handles {
    fn of(before: &Recording, after: &Recording) -> Self {
        let functions = Functions::of(&before.profile, &after.profile);
        let of = [(Side::Before, before), (Side::After, after)].map(|(side, recording)| {
            let mut handles = vec![None; functions.all.len()];
            for function in &recording.profile.tables.functions {
                if let Some(handle) = handles.get_mut(functions.index(side, function.id)) {
                    // Another instance of a generic method has the same name: the first one is it.
                    handle.get_or_insert(function.id);
                }
            }
            handles
        });
        Self { of }
    }

    fn find(&self, side: Side, function: u32) -> Option<FunctionId> {
        self.of.get(side as usize)?.get(function as usize).copied().flatten()
    }
}

/// A comparison, and how `explore` names its functions.
struct Compared {
    comparison: Comparison,
    handles: Handles,
}

impl Compared {
    /// `longest` is the longest observation of a call, in seconds.
    fn answer(&self, longest: u64) -> Answer {
        let Comparison { before, after, changes, .. } = &self.comparison;
        let mut answer = Answer::new(self.comparison.verdict());
        answer.add(about("before", before));
        answer.add(about("after", after));
        let is_caller = |finding: &&Finding| finding.kind == FindingKind::Total;
        let verdicts = [(Some(true), "worse"), (Some(false), "better"), (None, "changed")];
        for (worse, word) in verdicts {
            let of = changes.iter().filter(|one| one.worse == worse && !is_caller(one));
            of.take(ROWS).for_each(|one| answer.add(self.line(word, one)));
        }
        for finding in self.comparison.sums().iter().filter(|one| !one.change.is_certain()) {
            answer.add(self.line(word(&finding.change), finding));
        }
        let notes = self.comparison.notes.iter();
        notes.for_each(|note| answer.add(format!("note: {}", clean(note, NAME))));
        if let Some(heap) = &self.comparison.heap {
            heap_lines(&mut answer, heap);
        }
        for (worse, word) in verdicts {
            let of = changes.iter().filter(|one| one.worse == worse && is_caller(one));
            of.take(CALLERS).for_each(|one| answer.add(self.line(word, one)));
        }
        self.steps(&mut answer, longest);
        answer.fact("certain", changes.len());
        answer.fact("changes", changes.iter().take(MOST_FACTS).map(fact).collect::<Vec<_>>());
        answer
    }

    fn line(&self, verdict: &str, finding: &Finding) -> String {
        let handle = finding.function.and_then(|function| {
            let find = |(side, word)| Some((self.handles.find(side, function)?, word));
            [(Side::After, ""), (Side::Before, " of before")].into_iter().find_map(find)
        });
        let handle = handle.map_or_else(String::new, |(id, word)| format!("f{}{word}: ", id.0));
        let sentence = clean(&self.comparison.sentence(finding), SENTENCE);
        format!("{verdict}: {handle}{sentence}")
    }

    /// What to ask next: about what changed most, on the side that has more of it.
    fn steps(&self, answer: &mut Answer, longest: u64) {
        let Comparison { before, after, changes, heap, .. } = &self.comparison;
        let itself = |finding: &&Finding| finding.kind == FindingKind::Own;
        if let Some(finding) = changes.iter().find(itself) {
            let sides = [(Side::After, &after.name), (Side::Before, &before.name)];
            let more_after = finding.change.difference() > 0.0;
            let ordered = if more_after { sides } else { [sides[1], sides[0]] };
            for (side, session) in ordered {
                if let Some(id) = finding.function.and_then(|own| self.handles.find(side, own)) {
                    answer.next(next::function(session, finding.profiler, id.0));
                }
            }
        }
        if heap.as_ref().is_some_and(|heap| !heap.types.is_empty()) {
            let session = &after.name;
            answer.next(format!("heap {{\"session\":\"{session}\",\"type\":…}} for a type"));
        }
        if changes.is_empty() {
            let (pid, seconds) = (after.pid, SECONDS.min(longest));
            answer.next(format!(
                "checkup {{\"pid\":{pid},\"seconds\":{seconds}}} before and after: longer sessions \
                 under the same load show smaller differences"
            ));
        }
    }
}

fn about(side: &str, recorded: &Recorded) -> String {
    let Recorded { name, process, pid, runtime, duration_seconds, .. } = recorded;
    let (name, process) = (clean(name, NAME), clean(process, NAME / 2));
    let time = duration((duration_seconds * 1e9) as u64);
    format!("{side}: {name}: {process} (pid {pid}), .NET {}, {time}", clean(runtime, NAME / 4))
}

fn heap_lines(answer: &mut Answer, heap: &HeapComparison) {
    let line = |of: &::compare::HeapCounts| {
        format!(
            "{} → {}, {} → {} objects",
            bytes(of.before_bytes),
            bytes(of.after_bytes),
            count(of.before_count),
            count(of.after_count)
        )
    };
    answer.add(format!("heap in the last snapshots (no certainty): {}", line(&heap.total)));
    for of in heap.types.iter().take(TYPES) {
        answer.add(format!("  {}: {}", clean(&of.name, NAME), line(&of.counts)));
    }
}

fn fact(finding: &Finding) -> Value {
    json!({
        "profiler": finding.profiler,
        "name": clean(&finding.name, NAME / 2),
        "worse": finding.worse,
        "relative": finding.change.relative.map(|share| (share * 1e4).round() / 1e4),
    })
}
