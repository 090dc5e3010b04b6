//! JSON: speedscope, or the Firefox Profiler. Which one is known when it has been read.

use super::{
    firefox,
    list::{self, List},
    speedscope,
};
use crate::{ImportError, limits, out::Out, unpack::Limited};
use serde::{Deserialize, de};
use std::io::BufRead;

/// Both formats. They share a key with different content.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    exporter: Option<String>,
    #[serde(default)]
    profiles: Option<List<speedscope::Profile>>,
    #[serde(default)]
    meta: Option<firefox::Meta>,
    #[serde(default)]
    threads: Option<List<firefox::Thread>>,
    #[serde(default)]
    shared: firefox::Shared,
    /// Of the Chrome trace event format and of V8's profiles, to name these.
    #[serde(default)]
    trace_events: Option<de::IgnoredAny>,
    #[serde(default)]
    nodes: Option<de::IgnoredAny>,
}

const OTHERS: &str = "export it as speedscope, for the Firefox Profiler, or as pprof";

pub fn read(input: impl BufRead, out: &mut Out<'_>) -> Result<(), ImportError> {
    list::begin(limits::LISTS);
    let input = std::io::BufReader::new(Limited::new(input, limits::TEXT));
    let file: File = serde_json::from_reader(input).map_err(|error| {
        let text = error.to_string();
        if error.is_io() {
            return std::io::Error::from(error).into();
        }
        match text.contains(list::TOO_MUCH) {
            true => ImportError::TooLarge { what: "bytes in lists", limit: limits::LISTS as u64 },
            false => out.damaged(text),
        }
    })?;
    match (file.profiles, file.meta, file.threads) {
        (Some(profiles), ..) => {
            let head = speedscope::Head {
                name: file.name.unwrap_or_default(),
                exporter: file.exporter.unwrap_or_default(),
                frames: file.shared.frames,
            };
            speedscope::read(head, &profiles, out)
        }
        (None, Some(meta), Some(threads)) => firefox::read(&meta, &threads, &file.shared, out),
        _ if file.trace_events.is_some() => Err(ImportError::Unsupported(format!(
            "the file is a trace of events (Chrome, Perfetto), which clrscope does not import; {OTHERS}"
        ))),
        _ if file.nodes.is_some() => Err(ImportError::Unsupported(format!(
            "the file is a profile of V8, which clrscope does not import; {OTHERS}"
        ))),
        _ => Err(ImportError::Unsupported(format!(
            "the file is JSON, and neither of speedscope nor of the Firefox Profiler; {OTHERS}"
        ))),
    }
}
