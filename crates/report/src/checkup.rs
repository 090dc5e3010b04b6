//! The findings of a check-up, as text, JSON, Markdown or one page of HTML.

use crate::{ReportError, html, json::schema_of};
use diagnose::{Finding, RULES, Severity};
use document::{
    Cell, Document, Section, Table, markdown, plain,
    text::{self, Style},
};
use schemars::{JsonSchema, Schema};
use serde::Serialize;
use std::io::Write;

/// A process and what was found about it.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "clrscope check-up")]
pub struct Checkup<'a> {
    /// The process.
    pub target: Target<'a>,
    /// What is wrong with it, worst first.
    pub findings: &'a [Finding],
    /// What could not be checked, and why.
    pub notes: &'a [String],
}

/// The process that was observed.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Target<'a> {
    /// Process id.
    pub pid: u32,
    /// Name, as `clrscope ps` shows it.
    pub name: &'a str,
    /// Version of its runtime.
    pub runtime: &'a str,
    /// For how long it was observed, seconds.
    #[serde(rename = "observed_seconds")]
    pub looked_for_seconds: f64,
}

/// How to write a check-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckupFormat {
    /// For a terminal.
    Text,
    /// For programs.
    Json,
    /// For issues and chats.
    Markdown,
    /// One page that needs nothing else.
    Html,
}

impl CheckupFormat {
    /// All formats and their words on the command line.
    pub const ALL: [(Self, &'static str); 4] = [
        (Self::Text, "text"),
        (Self::Json, "json"),
        (Self::Markdown, "markdown"),
        (Self::Html, "html"),
    ];
}

/// The JSON Schema of a check-up in [`CheckupFormat::Json`].
pub fn schema() -> Schema {
    schema_of::<Checkup<'_>>()
}

/// What is said where nothing is wrong.
const HEALTHY: &str = "Nothing was found to be wrong.";

impl Checkup<'_> {
    /// Writes it; text in this style.
    ///
    /// # Errors
    /// When the output fails.
    pub fn write(
        &self,
        format: CheckupFormat,
        style: Style,
        out: &mut dyn Write,
    ) -> Result<(), ReportError> {
        match format {
            CheckupFormat::Text => text::write(&self.document(), style, out)?,
            CheckupFormat::Json => writeln!(out, "{}", plain::json_pretty(self)?)?,
            CheckupFormat::Markdown => markdown::write(&self.document(), out)?,
            CheckupFormat::Html => self.html(out)?,
        }
        Ok(())
    }

    fn title(&self) -> String {
        let Target { pid, name, runtime, looked_for_seconds } = &self.target;
        format!("{name} (pid {pid}, .NET {runtime}), observed for {looked_for_seconds:.1} s")
    }

    /// For people.
    fn document(&self) -> Document {
        let mut head = Section::new(self.title());
        if self.findings.is_empty() {
            head.say(HEALTHY);
        }
        let findings = self.findings.iter().map(section);
        let mut notes = Section::new("Notes");
        notes.lead = self.notes.to_vec();
        let notes = Some(notes).filter(|notes| !notes.lead.is_empty());
        Document { sections: std::iter::once(head).chain(findings).chain(notes).collect() }
    }

    fn html(&self, out: &mut dyn Write) -> Result<(), ReportError> {
        let (title, document) = (self.title(), self.document());
        html::write_page("checkup", &title, self.target.name, &document, out)
    }
}

fn section(finding: &Finding) -> Section {
    let mut section = Section::new(finding.title.as_str());
    section.badge = Some(word(finding.severity));
    let mut facts: Vec<(&str, Cell)> = Vec::new();
    facts.extend(finding.culprit.as_deref().map(|culprit| ("culprit", Cell::name(culprit))));
    for (index, evidence) in finding.evidence.iter().enumerate() {
        facts.push((if index == 0 { "evidence" } else { "" }, Cell::text(evidence)));
    }
    facts.push(("next", Cell::text(&finding.next)));
    let (id, sure) = (finding.id, finding.confidence * 100.0);
    let summary = RULES.iter().find(|rule| rule.id == id).map_or("", |rule| rule.summary);
    facts.push(("finding", Cell::text(format!("{id}: {summary}; {sure:.0} % sure"))));
    section.add(Table::facts(facts));
    section.extend(finding.figures.iter().cloned());
    section
}

/// A severity in a word.
fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Low => "low",
        Severity::Medium => "medium",
        Severity::High => "high",
        Severity::Critical => "critical",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(findings: &[Finding], format: CheckupFormat) -> String {
        let target =
            Target { pid: 12, name: "Shop<1>", runtime: "9.0.5", looked_for_seconds: 10.04 };
        let mut out = Vec::new();
        let notes = ["no heap snapshot was taken".to_owned()];
        Checkup { target, findings, notes: &notes }
            .write(format, Style::default(), &mut out)
            .unwrap();
        String::from_utf8(out).unwrap()
    }

    fn finding() -> Finding {
        Finding {
            id: "hot-lock",
            severity: Severity::High,
            confidence: 0.95,
            title: "2.0 threads wait for one lock".into(),
            culprit: Some("Shop.Stock<T>.Take()".into()),
            evidence: vec!["40 waits | 3 s\n<script>".into(), "held by *worker*".into()],
            next: "split it".into(),
            figures: vec![document::Figure::graph("held <script>", document::Graph::default())],
        }
    }

    #[test]
    fn all_forms_say_all_there_is_to_say_and_nothing_in_it_acts() {
        for (format, word) in CheckupFormat::ALL {
            let text = written(&[finding()], format);
            for part in [
                "hot-lock",
                "no heap snapshot was taken",
                "2.0 threads wait for one lock",
                "40 waits",
                "split it",
                "95",
                "9.0.5",
            ] {
                let part = if format == CheckupFormat::Json {
                    part.replace("95", "0.95")
                } else {
                    part.to_owned()
                };
                assert!(text.contains(&part), "{word} lacks {part}: {text}");
            }
            assert!(
                format == CheckupFormat::Json || !text.contains("s\n<script>"),
                "{word}: {text}"
            );
        }
        let page = written(&[finding()], CheckupFormat::Html);
        let scripts = page.matches("<script").count();
        assert!(scripts == 2 && page.contains("held \\u003cscript>"), "{scripts}: {page}");
        assert!(written(&[finding()], CheckupFormat::Markdown).contains("held by \\*worker\\*"));
        let json: serde_json::Value =
            serde_json::from_str(&written(&[finding()], CheckupFormat::Json)).unwrap();
        assert_eq!(json["findings"][0]["severity"], "high");
        assert_eq!(json["target"]["name"], "Shop<1>");
    }

    #[test]
    fn of_a_healthy_process_it_is_said() {
        for format in [CheckupFormat::Text, CheckupFormat::Markdown, CheckupFormat::Html] {
            assert!(written(&[], format).contains(HEALTHY));
        }
    }
}
