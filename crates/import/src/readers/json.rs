//! JSON: speedscope, or the Firefox Profiler. Which one is known when it has been read.

use super::{firefox, speedscope};
use crate::{ImportError, limits, out::Out, unpack::Limited};
use serde::{Deserialize, Deserializer, de};
use std::{cell::Cell, fmt, io::BufRead, marker::PhantomData, ops::Deref};

thread_local! {
    /// Bytes that lists of the file that is being read may still take.
    static LEFT: Cell<usize> = const { Cell::new(0) };
}

/// A list whose memory counts against [`limits::LISTS`]: two bytes of JSON can be 24 in memory.
#[derive(Debug, Clone)]
pub struct List<T>(Vec<T>);

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Deref for List<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Elements<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> de::Visitor<'de> for Elements<T> {
            type Value = List<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_unit<E>(self) -> Result<List<T>, E> {
                Ok(List::default())
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, mut list: A) -> Result<List<T>, A::Error> {
                let mut elements = Vec::new();
                let mut counted = 0;
                while let Some(element) = list.next_element()? {
                    elements.push(element);
                    // A vector grows by doubling.
                    if elements.capacity() > counted {
                        let more = (elements.capacity() - counted).saturating_mul(size_of::<T>());
                        let left = LEFT.get().checked_sub(more);
                        LEFT.set(left.ok_or_else(|| <A::Error as de::Error>::custom(TOO_MUCH))?);
                        counted = elements.capacity();
                    }
                }
                elements.shrink_to_fit();
                let back = (counted - elements.capacity()).saturating_mul(size_of::<T>());
                LEFT.set(LEFT.get().saturating_add(back));
                Ok(List(elements))
            }
        }

        deserializer.deserialize_any(Elements(PhantomData))
    }
}

/// What the error of a list says when there is no memory left for it.
const TOO_MUCH: &str = "its lists take more memory than clrscope gives them";

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
    LEFT.set(limits::LISTS);
    let input = std::io::BufReader::new(Limited::new(input, limits::TEXT));
    let file: File = serde_json::from_reader(input).map_err(|error| {
        let text = error.to_string();
        if error.is_io() {
            return std::io::Error::from(error).into();
        }
        match text.contains(TOO_MUCH) {
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
