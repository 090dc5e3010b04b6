//! One page that needs no network: the data as JSON within the page, and a program that draws it.

use std::io::Write;

use document::{Document, html::escape};
use explore::{Description, MarkerKind, describe, markers};
use profile::Profile;
use serde::Serialize;

use crate::{
    Exporter, Options, ReportError, format, kinds,
    page::{Functions, Interner, MOST_ROWS},
    views::{self, Tile},
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

/// Pixels for which markers are put together: more than most screens have.
const MARKER_PIXELS: usize = 2000;

/// What `web/src/report/main.tsx` reads.
#[derive(Serialize)]
struct Page<'a, C> {
    /// What made the page, behind the name of clrscope: its version, or a command.
    tool: &'a str,
    heading: &'a str,
    facts: Vec<String>,
    banners: Vec<String>,
    tiles: Vec<Tile>,
    /// Left out where the page is of no single recording.
    samples: Option<Samples>,
    documents: Vec<Tab<'a>>,
    /// What `web/src/data/embedded-comparison.ts` reads; left out where nothing is compared.
    comparison: Option<C>,
}

#[derive(Serialize)]
struct Tab<'a> {
    id: &'static str,
    title: &'static str,
    document: std::borrow::Cow<'a, Document>,
}

/// What `web/src/data/embedded-source.ts` reads.
#[derive(Serialize)]
struct Samples {
    description: Description,
    /// Ids in the operating system, by the numbers of threads in cells.
    threads: Vec<u32>,
    functions: Functions,
    modules: Vec<String>,
    files: Vec<String>,
    series: Vec<PageSeries>,
    markers: Markers,
}

/// Columns of what happened.
#[derive(Default, Serialize)]
struct Markers {
    kinds: Vec<&'static str>,
    /// Nanoseconds since the start of the recording.
    time: Vec<u64>,
    length: Vec<u64>,
    kind: Vec<u8>,
    count: Vec<u64>,
    text: Vec<String>,
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

/// What happened, to whichever thread.
fn marked(profile: &Profile) -> Markers {
    let mut columns =
        Markers { kinds: MarkerKind::ALL.map(MarkerKind::title).to_vec(), ..Markers::default() };
    let time = profile.start..profile.stop;
    for marker in markers(profile, time, MARKER_PIXELS, |_| Some(None)) {
        columns.time.push(marker.time.saturating_sub(profile.info.start));
        columns.length.push(marker.length);
        columns.kind.push(marker.kind as u8);
        columns.count.push(marker.count);
        columns.text.push(marker.text);
    }
    columns
}

fn samples(profile: &Profile, options: &Options) -> Samples {
    let mut interner = Interner::new(profile);
    let kinds = kinds(profile, options);
    let series =
        kinds.iter().map(|kind| page_series(profile, *kind, &mut interner, options)).collect();
    let tables = &profile.tables;
    Samples {
        description: describe(profile, &kinds),
        threads: tables.threads.iter().map(|thread| thread.os_tid).collect(),
        modules: tables.modules.iter().map(|module| module.name.clone()).collect(),
        series,
        functions: interner.functions,
        files: interner.files,
        markers: marked(profile),
    }
}

fn banners(profile: &Profile) -> Vec<String> {
    let mut banners = Vec::new();
    if profile.cut_short || profile.damage.is_some() {
        banners.push(format!("The recording is incomplete: {}.", format::ending(profile)));
    }
    if let Some(status) = profile.observer_total().filter(|_| profile.dropped() > 0) {
        let dropped = status.dropped.iter().filter(|(_, count)| *count > 0);
        let dropped: Vec<_> =
            dropped.map(|(name, count)| format!("{name} {}", format::count(*count))).collect();
        let sum = format::counted(profile.dropped(), "sample");
        banners.push(format!("{sum} were dropped: {}.", dropped.join(", ")));
    }
    if let Some(filtered) = &profile.filtered {
        banners.push(format!("Only a part is shown: {filtered}."));
    }
    banners
}

fn render(profile: &Profile, options: &Options, out: &mut dyn Write) -> Result<(), ReportError> {
    let info = &profile.info;
    let drawn = Options { drawn: true, rows: MOST_ROWS, ..options.clone() };
    let documents = views::tabs(profile, &drawn);
    let tab =
        |(id, title, document)| Tab { id, title, document: std::borrow::Cow::Owned(document) };
    let page = Page::<()> {
        facts: vec![
            format!(".NET {}", info.runtime),
            info.platform.clone(),
            format!("pid {}", info.pid),
            format::utc(info.start_unix_ms),
        ],
        banners: banners(profile),
        tiles: views::tiles(profile),
        samples: Some(samples(profile, options)),
        documents: documents.into_iter().map(tab).collect(),
        ..Page::of(&info.tool_version, &info.process_name)
    };
    write(&info.process_name, &page, out)
}

/// Writes a document as one page that needs nothing else: `command` says which command of clrscope
/// made it, `title` is for the window and `heading` for the top of the page.
///
/// # Errors
/// When the output fails.
pub fn write_page(
    command: &str,
    title: &str,
    heading: &str,
    document: &Document,
    out: &mut dyn Write,
) -> Result<(), ReportError> {
    let document = std::borrow::Cow::Borrowed(document);
    let documents = vec![Tab { id: "document", title: "Report", document }];
    write(title, &Page::<()> { documents, ..Page::of(command, heading) }, out)
}

/// Writes a comparison as one page that needs nothing else: `title` is for the window, `heading`
/// for the top of the page.
///
/// # Errors
/// When the output fails.
pub fn write_comparison(
    title: &str,
    heading: &str,
    comparison: &impl Serialize,
    out: &mut dyn Write,
) -> Result<(), ReportError> {
    write(title, &Page { comparison: Some(comparison), ..Page::of("compare", heading) }, out)
}

impl<'a, C> Page<'a, C> {
    fn of(tool: &'a str, heading: &'a str) -> Self {
        Self {
            tool,
            heading,
            facts: Vec::new(),
            banners: Vec::new(),
            tiles: Vec::new(),
            samples: None,
            documents: Vec::new(),
            comparison: None,
        }
    }
}

fn write(title: &str, page: &impl Serialize, out: &mut dyn Write) -> Result<(), ReportError> {
    // The template's parts come in a fixed order; a part is never searched for within what was put
    // in.
    let mut rest = TEMPLATE;
    let parts = ["{{title}}", "{{style}}", "{{data}}", "{{program}}"];
    for (part, mark) in parts.into_iter().enumerate() {
        let (before, after) = rest.split_once(mark).unwrap_or((rest, ""));
        out.write_all(before.as_bytes())?;
        match part {
            0 => out.write_all(escape(&format!("{title} – clrscope")).as_bytes())?,
            1 => out.write_all(&web::report_style()?)?,
            2 => document::plain::write_visible_json(Embedded(out), page)?,
            _ => out.write_all(&web::report_program()?)?,
        }
        rest = after;
    }
    out.write_all(rest.as_bytes())?;
    Ok(())
}
