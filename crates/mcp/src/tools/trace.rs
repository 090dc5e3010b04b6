//! `trace`: calls of chosen methods, counted and timed. Adds code to the methods while it runs.

use super::{
    Ask, Need,
    checkup::{duration, name},
    next,
    record::cost,
};
use crate::{
    answer::Answer,
    call::{Call, Failure, Target},
    foreign::{NAME, clean},
    observe::observe,
};
use document::format::{count, counted, duration as shown};
use profile::{BuildOptions, NameStyle, Profile, TracedMethod, session::InstrumentState};
use recorder::{EngineChoice, RecordOptions};
use rules::{MethodPattern, Request, RuleSet};
use schemars::JsonSchema;
use serde::Deserialize;
use server::{Plan, Work};

/// Seconds if none are named.
const SECONDS: f64 = 5.0;

/// Calls after which the methods of a pattern are reverted, if nothing is said.
const CALLS: u64 = 100_000;

/// CPU samples per second beside it.
const RATE: u32 = 100;

/// Methods of each kind that are named.
const NAMED: usize = 12;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// Process id. Give this or `process`.
    pid: Option<u32>,
    /// Process name.
    process: Option<String>,
    /// Methods, such as MyApp.Orders.*.{Load,Save}* or MyApp.Service.Load(string,int).
    patterns: Vec<String>,
    /// How long; 5 if left out.
    seconds: Option<f64>,
    /// Revert after this many calls; 100000 if left out.
    calls: Option<u64>,
    /// Only list which methods match; changes none.
    dry_run: Option<bool>,
}

impl Ask for Trace {
    const NAME: &'static str = "trace";
    const ABOUT: &'static str = "Counts and times every call of methods that match patterns: calls, \
        errors, latencies. Rewrites these methods while it runs, and reverts them; the agent remains \
        in the process until that ends. Costs some 100 ns per call. Use it with few patterns, first \
        with dry_run. Needs --allow-trace.";
    const NEEDS: Need = Need::Trace;

    async fn answer(self, call: Call) -> Result<Answer, Failure> {
        let rules = self.rules()?;
        let dry_run = self.dry_run.unwrap_or(false);
        let params = ["dry"].into_iter().filter(|_| dry_run);
        let profiler = profilers::trace::selection(params);
        let profiler = profiler.map_err(|error| Failure::Failed(error.to_string()))?;
        let options = RecordOptions {
            profilers: vec![profiler],
            rate_hz: RATE,
            engine: EngineChoice::Auto,
            duration: Some(duration(self.seconds.unwrap_or(SECONDS))?),
            output: None,
            instrument: Some(rules),
            live: false,
            sdk_tools: false,
            agent: call.work().agent(),
        };
        let target = Target { pid: self.pid, process: self.process.clone() };
        let process = call.process(&target).await?;
        let name = Some(name("trace", process.pid)?);
        let plan = Plan { process, name, work: Work::Record(options), warnings: Vec::new() };
        let observed = observe(&call, plan).await?;
        let mut answer = Answer::default();
        cost(&mut answer, &observed)?;
        let id = observed.entry.id.clone();
        let profile = call.reading(move |work| {
            let profile = Profile::read(work.read(&id)?, BuildOptions::default());
            profile.map_err(|error| Failure::Failed(error.to_string()))
        });
        add(&mut answer, &profile.await?, dry_run);
        answer.fact("session", observed.session());
        answer.next(format!(
            "explore {{\"session\":{},\"series\":\"calls\"}} for who called whom",
            next::named(&observed.session())
        ));
        Ok(answer)
    }
}

impl Trace {
    fn rules(&self) -> Result<RuleSet, Failure> {
        if self.calls == Some(0) {
            return Err(Failure::Arguments("`calls` is at least 1".to_owned()));
        }
        let is_unspecific =
            |text: &&String| text.parse().is_ok_and(|one: MethodPattern| one.is_unspecific());
        if let Some(pattern) = self.patterns.iter().find(is_unspecific) {
            return Err(Failure::Arguments(format!(
                "`{pattern}` fits nearly every method: name a namespace, a type or a method"
            )));
        }
        // Not every method of every assembly, no arguments of calls, and no rules that do more.
        let request = Request {
            patterns: self.patterns.clone(),
            exclude: Vec::new(),
            file: None,
            count: false,
            arguments: false,
            redact: Vec::new(),
            calls: Some(self.calls.unwrap_or(CALLS)),
            one_in: 1,
            everything: false,
        };
        let rules = request.rules();
        rules.map(|(rules, _)| rules).map_err(|error| Failure::Arguments(error.to_string()))
    }
}

fn add(answer: &mut Answer, profile: &Profile, dry_run: bool) {
    let name = |method: &TracedMethod| {
        clean(&profile.tables.function_name(method.function, NameStyle::FULL), NAME)
    };
    let called = profile.traced.called();
    let (mut idle, mut refused) = (Vec::new(), Vec::new());
    for method in profile.traced.methods() {
        match &method.state {
            InstrumentState::Refused(why) => refused.push((name(method), clean(why, NAME))),
            _ if method.calls.calls == 0 => idle.push(name(method)),
            _ => {}
        }
    }
    if !dry_run {
        let is_back =
            profile.traced.methods().all(|method| method.state != InstrumentState::Requested);
        answer.say(match is_back {
            true => "All methods have their original code again. The agent remains, idle.",
            false => "Not all methods have their original code again yet. The agent remains.",
        });
        answer.say(format!(
            "{} called, {} not called, {} refused.",
            counted(called.len() as u64, "method"),
            idle.len(),
            refused.len()
        ));
    } else {
        let methods = counted(idle.len() as u64, "method");
        answer.say(format!("{methods} would be traced, {} refused.", refused.len()));
    }
    for method in called {
        answer.add(format!("{}: {}", name(method), times(method)));
    }
    let title = if dry_run { "would be traced" } else { "not called" };
    idle.sort();
    idle.iter().take(NAMED).for_each(|name| answer.add(format!("{title}: {name}")));
    order::sort_by(&mut refused, Ord::cmp);
    for (name, why) in refused.iter().take(NAMED) {
        answer.add(format!("refused: {name}: {why}"));
    }
}

/// How many calls there were, and how long they took.
fn times(method: &TracedMethod) -> String {
    let calls = &method.calls;
    let nanos = |time: Option<f64>| time.map_or("?".to_owned(), |time| shown(time as u64));
    let errors = match calls.failed {
        0 => String::new(),
        failed => format!(", {} with an exception", count(failed)),
    };
    format!(
        "{} calls{errors}, total {}, mean {}, p50 {}, p99 {}, max {}",
        count(calls.calls),
        shown(calls.total as u64),
        nanos(calls.mean()),
        nanos(calls.quantile(0.5)),
        nanos(calls.quantile(0.99)),
        nanos((calls.timed > 0).then_some(calls.longest)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_patterns_are_named() {
        for (json, part) in [
            (r#"{"pid":1,"patterns":[]}"#, "no rule"),
            (r#"{"pid":1,"patterns":["a.{b"]}"#, "a.{b"),
            (r#"{"pid":1,"patterns":["**"]}"#, "**"),
            (r#"{"pid":1,"patterns":["a.b","?*.?*"]}"#, "?*.?*"),
            (r#"{"pid":1,"patterns":["a.b"],"calls":0}"#, "calls"),
        ] {
            let request: Trace = serde_json::from_str(json).unwrap();
            let Err(Failure::Arguments(cause)) = request.rules() else { panic!("{json}") };
            assert!(cause.contains(part), "{json}: {cause}");
        }
        assert!(serde_json::from_str::<Trace>(r#"{"pid":1,"pattern":"a"}"#).is_err());
    }
}
