//! One page that needs no network: the data as JSON within the page, and a program that draws it.

use std::{collections::BTreeMap, io::Write};

use document::{
    Document,
    html::{self, escape},
};
use profile::{FRAME_KINDS, Profile};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    Exporter, Options, ReportError, format, kinds,
    page::{Functions, Interner, micros},
    views,
};

pub const EXPORTER: Exporter = Exporter {
    id: "html",
    extension: "html",
    summary: "one page with flame graph, tables and timelines that needs no network",
    binary: false,
    single_samples: false,
    snapshots: true,
    render,
};

mod series;

use series::{PageSeries, page_series};

const TEMPLATE: &str = include_str!("html/template.html");
pub(crate) const STYLE: &str = include_str!("html/style.css");
const PROGRAM: &str = include_str!("html/app.js");

#[derive(Serialize)]
struct Page {
    meta: Value,
    kinds: [&'static str; 10],
    functions: Functions,
    files: Vec<String>,
    modules: Vec<String>,
    threads: Vec<Value>,
    series: Vec<PageSeries>,
    /// What the views say, by their keys.
    #[serde(flatten)]
    views: BTreeMap<&'static str, Value>,
    observer: Value,
    notes: Vec<(f64, String)>,
    /// Id and title of what is shown as it is; the page has a template for each.
    documents: Vec<(&'static str, &'static str)>,
}

fn meta(profile: &Profile) -> Value {
    let info = &profile.info;
    json!({
        "tool": info.tool_version,
        "process": info.process_name,
        "pid": info.pid,
        "command": info.command_line,
        "runtime": info.runtime,
        "platform": info.platform,
        "cpus": info.cpus,
        "entry": format::entry(info.entry),
        "started": format::utc(info.start_unix_ms),
        "duration": profile.duration() as f64 / 1e3,
        "ending": format::ending(profile),
        "warn": profile.cut_short || profile.damage.is_some(),
        "filtered": profile.filtered,
        "dropped": profile.dropped(),
        "profilers": info.profilers.iter().map(|run| json!({
            "id": run.id, "engine": run.engine, "rate": profile.rate_hz(&run.id), "asked": run.rate_hz,
            "achieved": profile.sampling_rate(&run.id).map(ToString::to_string),
            "params": run.params.iter().map(|(name, value)| format!("{name} = {value}")).collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
    })
}

/// Writes JSON into a script element: nothing in it may end the element or begin a comment (HTML,
/// "restrictions for contents of script elements"), and JSON allows every character of a string as
/// an escape.
struct Embedded<'a>(&'a mut dyn Write);

impl Write for Embedded<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        for part in bytes.split_inclusive(|byte| *byte == b'<') {
            match part.split_last() {
                Some((b'<', rest)) => {
                    self.0.write_all(rest)?;
                    self.0.write_all(b"\\u003c")?;
                }
                _ => self.0.write_all(part)?,
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

/// What the page shows as it is, with an id and a title: what heap snapshots say, sections about the
/// rows of profilers, and tables of profilers that are not known here.
fn documents(profile: &Profile, options: &Options) -> Vec<(&'static str, &'static str, Document)> {
    let snapshots = options.snapshots.iter();
    let snapshots = snapshots.map(|part| (part.id, part.title, part.document.clone()));
    let tabs = views::tabs(profile, options);
    let tabs = tabs.map(|(id, title, section)| (id, title, Document { sections: vec![section] }));
    let snapshots = snapshots.chain(tabs);
    let others = Document { sections: views::others::sections(profile, options) };
    let others = Some(("tables", "Other tables", others));
    snapshots.chain(others.filter(|(.., other)| !other.sections.is_empty())).collect()
}

/// Writes each document into a template.
fn write_documents(
    documents: &[(&'static str, &'static str, Document)],
    out: &mut dyn Write,
) -> std::io::Result<()> {
    for (id, _, document) in documents {
        writeln!(out, "<template id=\"document-{}\">", escape(id))?;
        html::write(document, out)?;
        writeln!(out, "</template>")?;
    }
    Ok(())
}

fn render(profile: &Profile, options: &Options, out: &mut dyn Write) -> Result<(), ReportError> {
    let mut interner = Interner::new(profile);
    let series = kinds(profile, options)
        .into_iter()
        .map(|kind| page_series(profile, kind, &mut interner, options))
        .collect();
    let views = views::page(profile, &mut interner, options);
    let documents = documents(profile, options);
    let page = Page {
        meta: meta(profile),
        kinds: FRAME_KINDS,
        series,
        views,
        observer: views::observer::page(profile),
        documents: documents.iter().map(|(id, title, _)| (*id, *title)).collect(),
        notes: profile
            .notes
            .iter()
            .map(|(time, note)| (micros(profile, *time), note.clone()))
            .collect(),
        threads: profile
            .tables
            .threads
            .iter()
            .map(|thread| json!([profile.tables.thread_name(thread.id), thread.managed]))
            .collect(),
        modules: profile.tables.modules.iter().map(|module| module.name.clone()).collect(),
        functions: interner.functions,
        files: interner.files,
    };
    // The template's parts come in a fixed order; a part is never searched for within what was put
    // in.
    let mut rest = TEMPLATE;
    let parts = ["{{title}}", "{{style}}", "{{data}}", "{{documents}}", "{{program}}"];
    for (part, mark) in parts.into_iter().enumerate() {
        let (before, after) = rest.split_once(mark).unwrap_or((rest, ""));
        out.write_all(before.as_bytes())?;
        match part {
            0 => out.write_all(
                escape(&format!("{} – clrscope", profile.info.process_name)).as_bytes(),
            )?,
            1 => out.write_all(STYLE.as_bytes())?,
            2 => document::plain::write_visible_json(Embedded(out), &page)?,
            3 => write_documents(&documents, out)?,
            _ => out.write_all(PROGRAM.as_bytes())?,
        }
        rest = after;
    }
    out.write_all(rest.as_bytes())?;
    Ok(())
}
