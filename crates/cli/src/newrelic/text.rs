//! The report as text.

use super::{
    assembly::{AssemblyReport, MethodReport, Outcome, Source, Unmatched},
    home::{HomeSource, PointsFile},
    report::{ModulesReport, Report},
};
use crate::console::printable;
use std::fmt::Write as _;

/// Lines of a list; the JSON has all.
const ROWS: usize = 20;
/// Width of the labels.
const LABEL: usize = 16;

impl Report {
    /// The report as text.
    pub fn text(&self) -> String {
        let mut text = Text::default();
        self.headline(&mut text);
        self.home(&mut text);
        self.library(&mut text);
        self.configuration(&mut text);
        self.points(&mut text);
        if let Some(modules) = &self.modules {
            modules.show(&mut text, self.process.is_some());
        }
        self.environment(&mut text);
        for note in &self.notes {
            text.line("");
            text.line(&format!("Note: {note}."));
        }
        text.0
    }

    fn headline(&self, text: &mut Text) {
        let (Some(process), Some(verdict)) = (&self.process, &self.verdict) else { return };
        let runtime = process
            .runtime
            .as_deref()
            .map_or_else(String::new, |version| format!(", .NET {version}"));
        let state = match (verdict.instrumented, self.library.mapped) {
            (true, Some(true)) => "is instrumented",
            (true, _) => "would be instrumented",
            (false, _) => "is not instrumented",
        };
        let head = format!("{} ({}){runtime} {state}", process.name, process.pid);
        match verdict.reasons.as_slice() {
            [reason] => text.line(&format!("{head}: {}", reason.trim_end_matches('.'))),
            reasons => {
                text.line(&format!("{head}:"));
                reasons.iter().for_each(|reason| text.line(&format!("  - {reason}")));
            }
        }
        text.line("");
    }

    fn home(&self, text: &mut Text) {
        let source = match self.home.source {
            HomeSource::Argument => "named on the command line",
            HomeSource::Process => "from the environment of the process",
            HomeSource::Clrscope => "from the environment of clrscope",
        };
        text.row("Home folder", &format!("{} ({source})", self.home.path));
        let agent = &self.agent;
        match &agent.path {
            Some(path) => {
                let loaded = match agent.mapped {
                    Some(true) => "; loaded in the process",
                    Some(false) => {
                        "; not loaded in the process, which happens with the first instrumented \
                            call"
                    }
                    None => "",
                };
                text.row("Managed agent", &format!("{path}{loaded}"));
            }
            None => {
                text.row("Managed agent", "NewRelic.Agent.Core.dll was not found at");
                agent.looked_at.iter().for_each(|place| text.row("", place));
            }
        }
        let source = match agent.shape_source {
            "file" => "determined from its members",
            "variable" => "set by NEW_RELIC_CLRSCOPE_AGENT_SHAPE",
            _ => "assumed",
        };
        text.row("Agent shape", &format!("{} ({source})", agent.shape));
        if let Some(problem) = &agent.problem {
            text.row("", problem);
        }
        let calls = match (self.library.is_clrscope, agent.direct) {
            (Some(false), _) => agent.strategy.clone(),
            (_, true) => format!(
                "delegate in each module (mode {}); in mode strict: {}",
                agent.mode, agent.strategy
            ),
            (_, false) => format!("{} (mode {})", agent.strategy, agent.mode),
        };
        text.row("Calls", &calls);
    }

    fn library(&self, text: &mut Text) {
        let library = &self.library;
        let Some(path) = &library.path else {
            text.row("Native library", "no variable names one");
            return self.profiling(text);
        };
        let source = library.variable.unwrap_or("in the home folder");
        text.row("Native library", &format!("{path} ({source})"));
        let mut facts = Vec::new();
        match library.is_clrscope {
            Some(true) => facts.push("that of clrscope".to_owned()),
            Some(false) => facts.push("not that of clrscope".to_owned()),
            None => {}
        }
        facts.extend(library.machine.clone());
        facts.extend(match (&library.needs_glibc, library.c_library) {
            (Some(version), _) => {
                Some(format!("needs glibc {}", version.trim_start_matches("GLIBC_")))
            }
            (None, built_for) => built_for.map(|name| format!("built for {name}")),
        });
        facts.push(match library.loadable {
            Some(true) => "can be loaded".to_owned(),
            Some(false) => "cannot be loaded".to_owned(),
            None => "whether it can be loaded is not known".to_owned(),
        });
        facts.extend(library.mapped.map(|mapped| {
            let is = if mapped { "is" } else { "is not" };
            format!("{is} loaded in the process")
        }));
        text.row("", &facts.join(", "));
        library.problems.iter().for_each(|problem| text.row("", problem));
        self.profiling(text);
    }

    fn profiling(&self, text: &mut Text) {
        let Some(profiling) = &self.profiling else { return };
        match profiling.problems.is_empty() {
            true => text.row("Profiling", "switched on in the environment of the process"),
            false => text.row("Profiling", "switched off"),
        }
        profiling.problems.iter().for_each(|problem| text.row("", problem));
    }

    fn configuration(&self, text: &mut Text) {
        let configuration = &self.configuration;
        let mut label = "Configuration";
        for file in &configuration.files {
            let problem =
                file.problem.as_deref().map_or_else(String::new, |problem| format!(": {problem}"));
            text.row(label, &format!("{} ({}, {}{problem})", file.path, file.kind, file.state));
            label = "";
        }
        configuration.problem.iter().for_each(|problem| text.row("", problem));
        configuration.messages.iter().for_each(|message| text.row("", message));
        let enabled = match (configuration.agent_enabled, self.agent_enabled_counts) {
            (true, _) => "yes",
            (false, true) => "no, which counts because of NEW_RELIC_CLRSCOPE_DETACH_IF_DISABLED",
            (false, false) => {
                "no, which does not count on .NET: the profiler starts all the same. With the \
                 library of clrscope, NEW_RELIC_CLRSCOPE_DETACH_IF_DISABLED=true makes it count"
            }
        };
        text.row("Agent enabled", enabled);
        let log = &configuration.log;
        text.row(
            "Log",
            &match (log.enabled, log.console) {
                (false, _) => "none".to_owned(),
                (true, true) => format!("standard output, level {}", log.level),
                (true, false) => {
                    let file = log.file.as_deref().unwrap_or("NewRelic.Profiler.<pid>.log");
                    format!("{}/{file}, level {}", log.folder.trim_end_matches('/'), log.level)
                }
            },
        );
        let listed = |names: &[String]| names.join(", ");
        if !configuration.included.is_empty() {
            text.row(
                "Included",
                &format!("{} (counts for .NET Framework only)", listed(&configuration.included)),
            );
        }
        if !configuration.excluded.is_empty() {
            text.row("Excluded", &listed(&configuration.excluded));
        }
        let mut label = "Ignored";
        for ignored in configuration.ignored.iter().take(ROWS) {
            let class = ignored.class.as_deref().unwrap_or("all classes");
            text.row(label, &format!("{}: {class}", ignored.assembly));
            label = "";
        }
        text.more(configuration.ignored.len());
        if let Some(decision) = &self.decision {
            let verb = if decision.instrument { "instrument" } else { "do not instrument" };
            text.row("Decision", &format!("{verb}: {}", decision.reason));
            text.row(
                "",
                &format!("of {} {}", decision.executable, decision.command_line.trim_end()),
            );
        }
    }

    fn points(&self, text: &mut Text) {
        let points = &self.points;
        let read = points.files.iter().filter(|file| file.state == "read").count();
        let counts = format!(
            "{} for {}, from {}",
            counted(points.total, "point", "points"),
            counted(points.assemblies.len(), "assembly", "assemblies"),
            counted(read, "file", "files")
        );
        text.row("Points", &counts);
        if let Some(handler) = &points.lambda {
            text.row("", &format!("one of them is the Lambda handler {handler}"));
        }
        points.problems.iter().for_each(|problem| text.row("", problem));
        let has_problem = |file: &&PointsFile| file.state != "read" || !file.messages.is_empty();
        let wrong: Vec<&PointsFile> = points.files.iter().filter(has_problem).collect();
        for file in wrong.iter().take(ROWS) {
            for message in file.messages.iter().take(ROWS) {
                match message.contains(&file.path) {
                    true => text.row("", message),
                    false => text.row("", &format!("{}: {message}", file.path)),
                }
            }
        }
        text.more(wrong.len());
        if points.invalid_files > 0 {
            let files = counted(points.invalid_files, "file is", "files are");
            text.row(
                "",
                &format!(
                    "{files} invalid: repair or remove them, without which live changes are refused"
                ),
            );
        }
        if self.modules.is_none() && !points.assemblies.is_empty() {
            text.line("");
            let rows =
                points.assemblies.iter().map(|assembly| (assembly.points, assembly.name.as_str()));
            text.line("Points by assembly");
            for (points, name) in rows {
                text.line(&format!("{points:>6}  {name}"));
            }
        }
    }

    fn environment(&self, text: &mut Text) {
        text.line("");
        if self.variables.is_empty() {
            text.line("No environment variable that counts is set.");
            return;
        }
        text.line("Environment variables that count");
        for variable in &self.variables {
            text.line(&format!("  {}={}  ({})", variable.name, variable.value, variable.purpose));
            for other in &variable.overrides {
                text.line(&format!("    wins over {}={}", other.name, other.value));
            }
        }
    }
}

impl ModulesReport {
    fn show(&self, text: &mut Text, is_process: bool) {
        text.line("");
        if self.single_file {
            text.line(
                "The program is a single-file application: its assemblies are inside of the \
                 executable, and which of them are loaded cannot be seen from outside.",
            );
        }
        match (self.assemblies.is_empty(), is_process) {
            (true, true) if self.seen == 0 => {
                text.line(
                    "The process has loaded no assembly from a file yet: it may still be starting.",
                );
            }
            (true, true) => text.line(&format!(
                "No point is about any of the {} that the process has loaded.",
                counted(self.seen, "assembly", "assemblies")
            )),
            (true, false) => text.line("No point is about any assembly of it."),
            (false, _) => {}
        }
        for assembly in &self.assemblies {
            assembly.show(text, is_process || self.single_file);
        }
        if let Some(others) = self.not_loaded.filter(|others| *others > 0) {
            let have = if others == 1 { "assembly has" } else { "assemblies have" };
            text.line(&format!("{others} more {have} points and are not loaded, or not yet."));
        }
        self.problems
            .iter()
            .for_each(|problem| text.line(&format!("Not everything was checked: {problem}.")));
    }
}

impl AssemblyReport {
    /// One of several is shown without the methods that go well and the points that lead nowhere.
    fn show(&self, text: &mut Text, is_one_of_many: bool) {
        let counts = format!(
            "{}, {} instrumented, {} refused",
            counted(self.points, "point", "points"),
            counted(self.instrumented, "method", "methods"),
            self.refused
        );
        text.line(&format!("{} {} ({counts}): {}", self.name, self.version, self.path));
        if let Some(problem) = &self.problem {
            text.line(&format!("  cannot be read: {problem}"));
            return;
        }
        let outcomes = [
            (Outcome::Instrumented, "instrumented"),
            (Outcome::Refused, "refused"),
            (Outcome::OtherVersion, "other version"),
            (Outcome::OtherParameters, "other overload"),
        ];
        for (outcome, label) in outcomes {
            if is_one_of_many && matches!(outcome, Outcome::Instrumented | Outcome::OtherParameters)
            {
                continue;
            }
            let limit = if is_one_of_many { ROWS } else { usize::MAX };
            for method in self.with(outcome).take(limit) {
                text.line(&format!("  {label:<LABEL$}{}", method.shown()));
            }
            text.more_of(self.with(outcome).count(), limit);
        }
        if is_one_of_many {
            let unmatched = self.missing_classes.len() + self.missing_methods.len();
            if unmatched > 0 {
                text.line(&format!(
                    "  not there: {} that points name; --json lists them",
                    unmatched_counts(self)
                ));
            }
            return;
        }
        self.missing_classes
            .iter()
            .for_each(|class| text.line(&format!("  {:<LABEL$}{class}", "no such class")));
        for point in &self.missing_methods {
            text.line(&format!("  {:<LABEL$}{}", "no such method", point.shown()));
        }
    }
}

fn unmatched_counts(assembly: &AssemblyReport) -> String {
    let classes = counted(assembly.missing_classes.len(), "class", "classes");
    let methods = counted(assembly.missing_methods.len(), "method", "methods");
    match (assembly.missing_classes.len(), assembly.missing_methods.len()) {
        (_, 0) => classes,
        (0, _) => methods,
        _ => format!("{classes} and {methods}"),
    }
}

impl MethodReport {
    fn shown(&self) -> String {
        let parameters = self.parameters.as_deref().unwrap_or("?");
        let mut shown = format!("{}.{}({parameters})", self.class, self.method);
        let source = match self.source {
            Some(Source::Attribute) => " [by attribute]",
            Some(Source::PointAndAttribute) => " [by point and attribute]",
            Some(Source::Api) => " [API of the agent]",
            Some(Source::Point) | None => "",
        };
        shown.push_str(source);
        if self.is_async {
            shown.push_str(" [async]");
        }
        if let Some(reason) = &self.reason {
            let _ = write!(shown, ": {reason}");
        }
        shown
    }
}

impl Unmatched {
    fn shown(&self) -> String {
        let Some(parameters) = &self.parameters else {
            return format!("{}.{}", self.class, self.method);
        };
        let there = match self.overloads.as_slice() {
            [] => String::new(),
            overloads => format!("; there is ({})", overloads.join("), (")),
        };
        format!("{}.{}({parameters}){there}", self.class, self.method)
    }
}

fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Lines, without what could steer a terminal.
#[derive(Default)]
struct Text(String);

impl Text {
    fn line(&mut self, line: &str) {
        self.0.push_str(&printable(line));
        self.0.push('\n');
    }

    fn row(&mut self, label: &str, value: &str) {
        self.line(&format!("{label:<LABEL$}{value}"));
    }

    /// Says how many entries of a list are left out.
    fn more(&mut self, all: usize) {
        if all > ROWS {
            self.row("", &format!("and {} more; --json lists them", all - ROWS));
        }
    }

    fn more_of(&mut self, all: usize, limit: usize) {
        if all > limit {
            self.line(&format!("  and {} more; --json lists them", all - limit));
        }
    }
}
