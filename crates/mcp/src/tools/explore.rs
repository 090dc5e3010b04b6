//! `explore`: a session, step by step. Handles are stable: `f12` is a function, `s34` a call path,
//! both by their numbers in the session.

mod views;

use super::Ask;
use crate::{
    answer::Answer,
    call::{Call, Failure, session},
};
use profile::{BuildOptions, Filter, Profile, SeriesKind, session::FunctionId, session::StackId};
use report::Options;
use schemars::JsonSchema;
use serde::Deserialize;
use server::SessionId;

/// What is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum View {
    Overview,
    Functions,
    Callers,
    Callees,
    Tree,
    Section,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Explore {
    /// Session of a call.
    session: String,
    /// overview (default), functions (default with a series: ranked by own weight), callers and
    /// callees of a function, tree (calls below a call path), section (a numbered one of the
    /// overview).
    view: Option<View>,
    /// cpu, wall, allocations, exceptions, locks, threads, threadpool, calls, jit, loads; those in
    /// the overview have samples.
    series: Option<String>,
    /// Handle of an answer: f12 (function), s34 (call path); for section its number.
    of: Option<String>,
    /// Only samples from this second on.
    from: Option<f64>,
    /// Only samples up to this second.
    to: Option<f64>,
    /// Only this thread: part of its name, or its id.
    thread: Option<String>,
    /// Only stacks with this part of a method name.
    matching: Option<String>,
}

/// What `of` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Handle {
    Function(FunctionId),
    Path(StackId),
    Section(usize),
}

impl Handle {
    fn parse(text: &str) -> Result<Self, Failure> {
        let number = |digits: &str| digits.parse::<u32>().ok();
        let handle = match (text.strip_prefix('f'), text.strip_prefix('s')) {
            (Some(digits), _) => number(digits).map(|own| Self::Function(FunctionId(own))),
            (_, Some(digits)) => number(digits).map(|own| Self::Path(StackId(own))),
            _ => number(text).map(|own| Self::Section(own as usize)),
        };
        let wrong = "`of` is a handle of an answer, such as f12, s34 or 3";
        handle.ok_or_else(|| Failure::Arguments(wrong.to_owned()))
    }
}

impl Ask for Explore {
    const NAME: &'static str = "explore";
    const ABOUT: &'static str = "Reads a session step by step: overview, functions by weight, callers \
        and callees of a function, call tree below a node, narrowed by time, thread or method. Costs \
        the process nothing. Use it to find where time, waiting, allocations or exceptions come from.";

    async fn answer(self, call: Call) -> Result<Answer, Failure> {
        let id = session(&self.session)?;
        let asked = Asked::of(&self)?;
        call.reading(move |work| match asked.view {
            View::Overview | View::Section => {
                let profile = read(work, &id, &asked.filter)?;
                // It is narrowed down already.
                let options = Options { rows: 12, ..Options::default() };
                let document = report::document_of(&profile, &options, |_| Vec::new());
                let document = document.map_err(|error| Failure::Failed(error.to_string()))?;
                match asked.handle {
                    Some(Handle::Section(number)) => views::section(&document, number),
                    _ => Ok(views::overview(&profile, &document, &self.session)),
                }
            }
            _ => {
                let profile = read(work, &id, &asked.filter)?;
                let kind = asked.series(&profile)?;
                answer(&profile, kind, &asked, &self.session)
            }
        })
        .await
    }
}

fn answer(
    profile: &Profile,
    kind: SeriesKind,
    asked: &Asked,
    session: &str,
) -> Result<Answer, Failure> {
    match (asked.view, asked.handle) {
        (View::Callers, Some(Handle::Function(of))) => views::callers(profile, kind, of, session),
        (View::Callees, Some(Handle::Function(of))) => views::callees(profile, kind, of),
        (View::Callers | View::Callees, _) => {
            Err(Failure::Arguments("this view needs `of`, a function such as f12".to_owned()))
        }
        (View::Tree, None) => views::tree(profile, kind, None),
        (View::Tree, Some(Handle::Path(of))) => views::tree(profile, kind, Some(of)),
        (View::Tree, _) => {
            Err(Failure::Arguments("`of` of a tree is a call path such as s34".to_owned()))
        }
        _ => Ok(views::functions(profile, kind, session)),
    }
}

/// Reads a session, and narrows it down.
fn read(work: &server::Workspace, id: &SessionId, filter: &Filter) -> Result<Profile, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::Failed(error.to_string());
    // What a time is picked from is read as single samples.
    let options = BuildOptions { time: filter.time.clone(), ..BuildOptions::default() };
    let profile = Profile::read(work.read(id)?, options).map_err(|error| failed(&error))?;
    let filter = Filter { time: None, ..filter.clone() };
    match filter == Filter::default() {
        true => Ok(profile),
        false => profile.filtered(&filter).map_err(|error| failed(&error)),
    }
}

/// The arguments, checked.
struct Asked {
    view: View,
    series: Option<SeriesKind>,
    handle: Option<Handle>,
    filter: Filter,
}

impl Asked {
    fn of(arguments: &Explore) -> Result<Self, Failure> {
        let series = arguments.series.as_deref().map(|id| {
            let found = SeriesKind::ALL.into_iter().find(|kind| kind.id() == id);
            found.ok_or_else(|| {
                let known = SeriesKind::ALL.map(SeriesKind::id).join(", ");
                Failure::Arguments(format!("`series` is one of {known}"))
            })
        });
        let series = series.transpose()?;
        let handle = arguments.of.as_deref().map(Handle::parse).transpose()?;
        let view = arguments.view.unwrap_or(match (handle, series) {
            (Some(Handle::Function(_)), _) => View::Callers,
            (Some(Handle::Path(_)), _) => View::Tree,
            (Some(Handle::Section(_)), _) => View::Section,
            (None, Some(_)) => View::Functions,
            (None, None) => View::Overview,
        });
        if view == View::Section && !matches!(handle, Some(Handle::Section(_))) {
            let cause = "`of` of a section is its number in the overview";
            return Err(Failure::Arguments(cause.to_owned()));
        }
        let filter = Filter {
            time: time(arguments.from, arguments.to)?,
            thread: arguments.thread.clone(),
            states: None,
            text: arguments.matching.clone(),
        };
        Ok(Self { view, series, handle, filter })
    }

    /// The series: the one that was named, or the first that has samples.
    fn series(&self, profile: &Profile) -> Result<SeriesKind, Failure> {
        let has = |kind: &SeriesKind| !profile.series(*kind).is_empty();
        let with: Vec<SeriesKind> = SeriesKind::ALL.into_iter().filter(has).collect();
        let known = with.iter().map(|kind| kind.id()).collect::<Vec<_>>().join(", ");
        match self.series {
            Some(kind) if with.contains(&kind) => Ok(kind),
            Some(kind) => Err(Failure::Arguments(format!(
                "there are no samples of {} here; there are some of: {known}",
                kind.id()
            ))),
            None => with.first().copied().ok_or_else(|| {
                Failure::Arguments("there are no samples here; see the overview".to_owned())
            }),
        }
    }
}

/// A range of time in nanoseconds.
fn time(from: Option<f64>, to: Option<f64>) -> Result<Option<std::ops::Range<u64>>, Failure> {
    if from.is_none() && to.is_none() {
        return Ok(None);
    }
    let nanos = |seconds: f64| (seconds * 1e9) as u64;
    let (from, to) = (from.unwrap_or(0.0), to.unwrap_or(f64::INFINITY));
    match from >= 0.0 && from < to {
        true => Ok(Some(nanos(from)..nanos(to))),
        false => Err(Failure::Arguments("`from` is at least 0 and less than `to`".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(json: &str) -> Result<Asked, Failure> {
        Asked::of(&serde_json::from_str(json).unwrap())
    }

    #[test]
    fn the_view_follows_from_the_handle() {
        for (json, view) in [
            (r#"{"session":"s"}"#, View::Overview),
            (r#"{"session":"s","series":"cpu"}"#, View::Functions),
            (r#"{"session":"s","of":"f1"}"#, View::Callers),
            (r#"{"session":"s","of":"s1"}"#, View::Tree),
            (r#"{"session":"s","of":"2"}"#, View::Section),
            (r#"{"session":"s","of":"f1","view":"callees"}"#, View::Callees),
        ] {
            assert_eq!(asked(json).unwrap().view, view, "{json}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (json, part) in [
            (r#"{"session":"s","series":"x"}"#, "allocations"),
            (r#"{"session":"s","of":"x1"}"#, "f12"),
            (r#"{"session":"s","of":"f-1"}"#, "f12"),
            (r#"{"session":"s","of":"f99999999999"}"#, "f12"),
            (r#"{"session":"s","view":"section"}"#, "number"),
            (r#"{"session":"s","from":2,"to":1}"#, "from"),
        ] {
            match asked(json) {
                Err(Failure::Arguments(cause)) => assert!(cause.contains(part), "{json}: {cause}"),
                _ => panic!("{json}"),
            }
        }
    }
}
