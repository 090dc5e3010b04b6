//! The report for people.

use super::{
    assembly::{AssemblyReport, MethodReport, Outcome, Source, Unmatched},
    home::{HomeSource, PointsFile},
    report::{ModulesReport, Report},
};
use document::{Block, Cell, Document, Section, Table, Tree, left, right};
use std::fmt::Write as _;

/// Lines of a list; the JSON has all.
const ROWS: usize = 20;

impl Report {
    /// The report for people.
    pub fn document(&self) -> Document {
        let mut page = Page::default();
        self.headline(&mut page);
        page.section("");
        self.home(&mut page);
        self.library(&mut page);
        self.configuration(&mut page);
        self.points(&mut page);
        if let Some(modules) = &self.modules {
            modules.show(&mut page, self.process.is_some());
        }
        self.environment(&mut page);
        if !self.notes.is_empty() {
            page.section("Notes");
            self.notes.iter().for_each(|note| page.say(format!("{note}.")));
        }
        page.0
    }

    fn headline(&self, page: &mut Page) {
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
            [reason] => page.section(format!("{head}: {}", reason.trim_end_matches('.'))),
            reasons => {
                page.section(head);
                reasons.iter().for_each(|reason| page.line(0, reason));
            }
        }
    }

    fn home(&self, page: &mut Page) {
        let source = match self.home.source {
            HomeSource::Argument => "named on the command line",
            HomeSource::Process => "from the environment of the process",
            HomeSource::Clrscope => "from the environment of clrscope",
        };
        page.row("Home folder", format!("{} ({source})", self.home.path));
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
                page.row("Managed agent", format!("{path}{loaded}"));
            }
            None => {
                page.row("Managed agent", "NewRelic.Agent.Core.dll was not found at");
                agent.looked_at.iter().for_each(|place| page.row("", place));
            }
        }
        let source = match agent.shape_source {
            "file" => "determined from its members",
            "variable" => "set by NEW_RELIC_CLRSCOPE_AGENT_SHAPE",
            _ => "assumed",
        };
        page.row("Agent shape", format!("{} ({source})", agent.shape));
        if let Some(problem) = &agent.problem {
            page.row("", problem);
        }
        let calls = match (self.library.is_clrscope, agent.direct) {
            (Some(false), _) => agent.strategy.clone(),
            (_, true) => format!(
                "delegate in each module (mode {}); in mode strict: {}",
                agent.mode, agent.strategy
            ),
            (_, false) => format!("{} (mode {})", agent.strategy, agent.mode),
        };
        page.row("Calls", &calls);
    }

    fn library(&self, page: &mut Page) {
        let library = &self.library;
        let Some(path) = &library.path else {
            page.row("Native library", "no variable names one");
            return self.profiling(page);
        };
        let source = library.variable.unwrap_or("in the home folder");
        page.row("Native library", format!("{path} ({source})"));
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
        page.row("", facts.join(", "));
        library.problems.iter().for_each(|problem| page.row("", problem));
        self.profiling(page);
    }

    fn profiling(&self, page: &mut Page) {
        let Some(profiling) = &self.profiling else { return };
        match profiling.problems.is_empty() {
            true => page.row("Profiling", "switched on in the environment of the process"),
            false => page.row("Profiling", "switched off"),
        }
        profiling.problems.iter().for_each(|problem| page.row("", problem));
    }

    fn configuration(&self, page: &mut Page) {
        let configuration = &self.configuration;
        let mut label = "Configuration";
        for file in &configuration.files {
            let problem =
                file.problem.as_deref().map_or_else(String::new, |problem| format!(": {problem}"));
            page.row(label, format!("{} ({}, {}{problem})", file.path, file.kind, file.state));
            label = "";
        }
        configuration.problem.iter().for_each(|problem| page.row("", problem));
        configuration.messages.iter().for_each(|message| page.row("", message));
        let enabled = match (configuration.agent_enabled, self.agent_enabled_counts) {
            (true, _) => "yes",
            (false, true) => "no, which counts because of NEW_RELIC_CLRSCOPE_DETACH_IF_DISABLED",
            (false, false) => {
                "no, which does not count on .NET: the profiler starts all the same. With the \
                 library of clrscope, NEW_RELIC_CLRSCOPE_DETACH_IF_DISABLED=true makes it count"
            }
        };
        page.row("Agent enabled", enabled);
        let log = &configuration.log;
        page.row(
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
            page.row(
                "Included",
                format!("{} (counts for .NET Framework only)", listed(&configuration.included)),
            );
        }
        if !configuration.excluded.is_empty() {
            page.row("Excluded", listed(&configuration.excluded));
        }
        let mut label = "Ignored";
        for ignored in configuration.ignored.iter().take(ROWS) {
            let class = ignored.class.as_deref().unwrap_or("all classes");
            page.row(label, format!("{}: {class}", ignored.assembly));
            label = "";
        }
        page.more(configuration.ignored.len());
        if let Some(decision) = &self.decision {
            let verb = if decision.instrument { "instrument" } else { "do not instrument" };
            page.row("Decision", format!("{verb}: {}", decision.reason));
            page.row(
                "",
                format!("of {} {}", decision.executable, decision.command_line.trim_end()),
            );
        }
    }

    fn points(&self, page: &mut Page) {
        let points = &self.points;
        let read = points.files.iter().filter(|file| file.state == "read").count();
        let counts = format!(
            "{} for {}, from {}",
            counted(points.total, "point", "points"),
            counted(points.assemblies.len(), "assembly", "assemblies"),
            counted(read, "file", "files")
        );
        page.row("Points", &counts);
        if let Some(handler) = &points.lambda {
            page.row("", format!("one of them is the Lambda handler {handler}"));
        }
        points.problems.iter().for_each(|problem| page.row("", problem));
        let has_problem = |file: &&PointsFile| file.state != "read" || !file.messages.is_empty();
        let wrong: Vec<&PointsFile> = points.files.iter().filter(has_problem).collect();
        for file in wrong.iter().take(ROWS) {
            for message in file.messages.iter().take(ROWS) {
                match message.contains(&file.path) {
                    true => page.row("", message),
                    false => page.row("", format!("{}: {message}", file.path)),
                }
            }
        }
        page.more(wrong.len());
        if points.invalid_files > 0 {
            let files = counted(points.invalid_files, "file is", "files are");
            page.row(
                "",
                format!(
                    "{files} invalid: repair or remove them, without which live changes are refused"
                ),
            );
        }
        if self.modules.is_none() && !points.assemblies.is_empty() {
            page.section("Points by assembly");
            let rows = points.assemblies.iter();
            let rows = rows.map(|of| vec![Cell::count(of.points), Cell::text(&of.name)]);
            page.add(Table::new(vec![right("points"), left("assembly")], rows));
        }
    }

    fn environment(&self, page: &mut Page) {
        if self.variables.is_empty() {
            page.section("No environment variable that counts is set.");
            return;
        }
        page.section("Environment variables that count");
        for variable in &self.variables {
            let (name, value) = (&variable.name, &variable.value);
            page.line(0, format!("{name}={value}  ({})", variable.purpose));
            for other in &variable.overrides {
                page.line(1, format!("wins over {}={}", other.name, other.value));
            }
        }
    }
}

impl ModulesReport {
    fn show(&self, page: &mut Page, is_process: bool) {
        page.section("Assemblies");
        if self.single_file {
            page.say(
                "The program is a single-file application: its assemblies are inside of the \
                 executable, and which of them are loaded cannot be seen from outside.",
            );
        }
        match (self.assemblies.is_empty(), is_process) {
            (true, true) if self.seen == 0 => {
                page.say(
                    "The process has loaded no assembly from a file yet: it may still be starting.",
                );
            }
            (true, true) => page.say(format!(
                "No point is about any of the {} that the process has loaded.",
                counted(self.seen, "assembly", "assemblies")
            )),
            (true, false) => page.say("No point is about any assembly of it."),
            (false, _) => {}
        }
        if let Some(others) = self.not_loaded.filter(|others| *others > 0) {
            let have = if others == 1 { "assembly has" } else { "assemblies have" };
            page.say(format!("{others} more {have} points and are not loaded, or not yet."));
        }
        self.problems
            .iter()
            .for_each(|problem| page.say(format!("Not everything was checked: {problem}.")));
        for assembly in &self.assemblies {
            assembly.show(page, is_process || self.single_file);
        }
    }
}

impl AssemblyReport {
    /// One of several is shown without the methods that go well and the points that lead nowhere.
    fn show(&self, page: &mut Page, is_one_of_many: bool) {
        let counts = format!(
            "{}, {} instrumented, {} refused",
            counted(self.points, "point", "points"),
            counted(self.instrumented, "method", "methods"),
            self.refused
        );
        page.section(format!("{} {} ({counts}): {}", self.name, self.version, self.path));
        if let Some(problem) = &self.problem {
            page.say(format!("cannot be read: {problem}"));
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
                page.row(label, method.shown());
            }
            page.more_of(self.with(outcome).count(), limit);
        }
        if is_one_of_many {
            let unmatched = self.missing_classes.len() + self.missing_methods.len();
            if unmatched > 0 {
                let counts = unmatched_counts(self);
                page.row("not there", format!("{counts} that points name; --json lists them"));
            }
            return;
        }
        for class in &self.missing_classes {
            page.row("no such class", class);
        }
        for point in &self.missing_methods {
            page.row("no such method", point.shown());
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

/// A document in the making.
#[derive(Default)]
struct Page(Document);

impl Page {
    fn section(&mut self, title: impl Into<String>) {
        self.0.sections.push(Section::new(title));
    }

    fn current(&mut self) -> &mut Section {
        let sections = &mut self.0.sections;
        if sections.is_empty() {
            sections.push(Section::default());
        }
        let last = sections.len() - 1;
        &mut sections[last]
    }

    fn say(&mut self, sentence: impl Into<String>) {
        self.current().say(sentence);
    }

    fn add(&mut self, block: impl Into<Block>) {
        self.current().add(block);
    }

    /// A line of a list.
    fn line(&mut self, depth: usize, line: impl Into<String>) {
        if !matches!(self.current().blocks.last(), Some(Block::Tree(_))) {
            self.add(Tree::default());
        }
        if let Some(Block::Tree(tree)) = self.current().blocks.last_mut() {
            tree.push(depth, [Cell::text(line)]);
        }
    }

    /// A fact.
    fn row(&mut self, label: &str, value: impl Into<String>) {
        if !matches!(self.current().blocks.last(), Some(Block::Table(_))) {
            self.add(Table::facts::<&str>([]));
        }
        if let Some(Block::Table(table)) = self.current().blocks.last_mut() {
            table.rows.push(vec![Cell::text(label), Cell::text(value)]);
        }
    }

    /// Says how many entries of a list are left out.
    fn more(&mut self, all: usize) {
        self.more_of(all, ROWS);
    }

    fn more_of(&mut self, all: usize, limit: usize) {
        if all > limit {
            self.row("", format!("and {} more; --json lists them", all - limit));
        }
    }
}
