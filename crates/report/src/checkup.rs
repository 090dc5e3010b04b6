//! The findings of a check-up, as text, JSON, Markdown or one page of HTML.

use crate::{ReportError, html, json::schema_of, markdown, plain, text::clean};
use diagnose::{Finding, RULES, Severity};
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
    /// Writes it.
    ///
    /// # Errors
    /// When the output fails.
    pub fn write(&self, format: CheckupFormat, out: &mut dyn Write) -> Result<(), ReportError> {
        match format {
            CheckupFormat::Text => self.text(out),
            CheckupFormat::Json => Ok(writeln!(out, "{}", plain::json_pretty(self)?)?),
            CheckupFormat::Markdown => self.markdown(out),
            CheckupFormat::Html => self.html(out),
        }
    }

    fn title(&self) -> String {
        let Target { pid, name, runtime, looked_for_seconds } = &self.target;
        format!("{name} (pid {pid}, .NET {runtime}), observed for {looked_for_seconds:.1} s")
    }

    fn text(&self, out: &mut dyn Write) -> Result<(), ReportError> {
        writeln!(out, "{}", clean(&self.title()))?;
        if self.findings.is_empty() {
            writeln!(out, "\n{HEALTHY}")?;
        }
        for (index, finding) in self.findings.iter().enumerate() {
            let severity = word(finding.severity).to_uppercase();
            writeln!(out, "\n{}. {severity}  {}", index + 1, clean(&finding.title))?;
            if let Some(culprit) = &finding.culprit {
                writeln!(out, "   culprit   {}", clean(culprit))?;
            }
            for (line, evidence) in finding.evidence.iter().enumerate() {
                writeln!(
                    out,
                    "   {:<8}  {}",
                    if line == 0 { "evidence" } else { "" },
                    clean(evidence)
                )?;
            }
            writeln!(out, "   next      {}", clean(&finding.next))?;
            writeln!(out, "   finding   {}, {:.0} % sure", finding.id, finding.confidence * 100.0)?;
        }
        for (index, note) in self.notes.iter().enumerate() {
            writeln!(out, "{}note: {}", if index == 0 { "\n" } else { "" }, clean(note))?;
        }
        Ok(())
    }

    fn markdown(&self, out: &mut dyn Write) -> Result<(), ReportError> {
        let escape = markdown::escape;
        writeln!(out, "# Check-up of {}", escape(&self.title()))?;
        if self.findings.is_empty() {
            writeln!(out, "\n{HEALTHY}")?;
        }
        for (index, finding) in self.findings.iter().enumerate() {
            writeln!(
                out,
                "\n## {}. {} ({})",
                index + 1,
                escape(&finding.title),
                word(finding.severity)
            )?;
            writeln!(out)?;
            if let Some(culprit) = &finding.culprit {
                writeln!(out, "- Culprit: {}", markdown::code(culprit))?;
            }
            for evidence in &finding.evidence {
                writeln!(out, "- {}", escape(evidence))?;
            }
            writeln!(out, "- Next: {}", escape(&finding.next))?;
            writeln!(
                out,
                "- Finding {}, {:.0} % sure",
                markdown::code(finding.id),
                finding.confidence * 100.0
            )?;
        }
        for note in self.notes {
            writeln!(out, "\nNote: {}", escape(note))?;
        }
        Ok(())
    }

    fn html(&self, out: &mut dyn Write) -> Result<(), ReportError> {
        let escape = html::escape;
        let title = escape(&self.title());
        write!(
            out,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
            <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
            <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
            <title>{title} – clrscope</title>\n<style>\n{}\n{STYLE}</style>\n</head>\n<body>\n\
            <div class=\"page\">\n\
            <header><div><div class=\"brand\">clrscope checkup</div><h1>{}</h1><div class=\"facts\">{title}</div></div></header>\n",
            html::STYLE,
            escape(self.target.name),
        )?;
        if self.findings.is_empty() {
            writeln!(out, "<p class=\"well\">{HEALTHY}</p>")?;
        }
        for finding in self.findings {
            let severity = word(finding.severity);
            writeln!(out, "<section class=\"finding {severity}\">")?;
            writeln!(
                out,
                "<h2><span class=\"severity\">{severity}</span> {}</h2>",
                escape(&finding.title)
            )?;
            if let Some(culprit) = &finding.culprit {
                writeln!(out, "<p class=\"culprit\"><code>{}</code></p>", escape(culprit))?;
            }
            writeln!(out, "<ul>")?;
            for evidence in &finding.evidence {
                writeln!(out, "<li>{}</li>", escape(evidence))?;
            }
            writeln!(out, "</ul>\n<p class=\"next\"><b>Next:</b> {}</p>", escape(&finding.next))?;
            let summary =
                RULES.iter().find(|rule| rule.id == finding.id).map_or("", |rule| rule.summary);
            let sure = finding.confidence * 100.0;
            writeln!(
                out,
                "<p class=\"about\">{}: {}; {sure:.0} % sure</p>\n</section>",
                finding.id,
                escape(summary)
            )?;
        }
        for note in self.notes {
            writeln!(out, "<p class=\"about\">Note: {}</p>", escape(note))?;
        }
        writeln!(out, "</div>\n</body>\n</html>")?;
        Ok(())
    }
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

/// What a page of findings has beside the style of reports.
const STYLE: &str = "\
.finding { background: var(--card); border: 1px solid var(--line); border-left: 5px solid var(--faint); border-radius: 9px; padding: 10px 16px; margin-bottom: 12px; box-shadow: var(--shadow); }
.finding.medium { border-left-color: #d9a520; } .finding.high { border-left-color: #d9662c; } .finding.critical { border-left-color: #c62828; }
.finding h2 { font-size: 16px; margin: 2px 0 6px; } .finding p { margin: 4px 0; } .finding ul { margin: 4px 0; padding-left: 20px; }
.severity { font-size: 11px; text-transform: uppercase; letter-spacing: .06em; color: var(--soft); border: 1px solid var(--line); border-radius: 5px; padding: 1px 6px; vertical-align: 2px; }
.culprit code { font-family: var(--mono); overflow-wrap: anywhere; } .about { color: var(--faint); font-size: 12px; } .well { font-size: 16px; }
";

#[cfg(test)]
mod tests {
    use super::*;

    fn written(findings: &[Finding], format: CheckupFormat) -> String {
        let target =
            Target { pid: 12, name: "Shop<1>", runtime: "9.0.5", looked_for_seconds: 10.04 };
        let mut out = Vec::new();
        let notes = ["no heap snapshot was taken".to_owned()];
        Checkup { target, findings, notes: &notes }.write(format, &mut out).unwrap();
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
        assert!(!written(&[finding()], CheckupFormat::Html).contains("<script>"));
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
