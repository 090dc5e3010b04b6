//! Names and texts of others, made safe to show. Every renderer uses these.
//!
//! Names of types, threads, processes and files come from the recorded program, and nobody has
//! checked them. Control characters steer terminals (C0, C1), and format characters turn the
//! direction of text around or hide parts of it ("Trojan Source", CVE-2021-42574). In text they
//! become visible escapes such as `\u{202e}`; in JSON, escapes that every parser turns back.

use serde::Serialize;
use serde_json::ser::{CharEscape, CompactFormatter, Formatter, PrettyFormatter, Serializer};
use std::{
    borrow::Cow,
    fmt::Write as _,
    io::{self, Write},
};

/// Whether a character acts on what is around it instead of being shown: control characters
/// (Unicode category Cc), format characters (Cf), and separators of lines and paragraphs.
pub fn is_hostile(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{890}'..='\u{891}' | '\u{8e2}'
            | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0001}' | '\u{e0020}'..='\u{e007f}')
}

/// A name or text of one line with visible escapes.
pub fn visible(text: &str) -> Cow<'_, str> {
    escaped(text, is_hostile)
}

/// The same of a text of several lines, which keeps line feeds and tabs.
pub fn visible_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |letter| is_hostile(letter) && !matches!(letter, '\n' | '\t'))
}

fn escaped(text: &str, hostile: impl Fn(char) -> bool + Copy) -> Cow<'_, str> {
    if !text.contains(hostile) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        match hostile(letter) {
            true => _ = write!(shown, "\\u{{{:x}}}", u32::from(letter)),
            false => shown.push(letter),
        }
    }
    Cow::Owned(shown)
}

/// A value as JSON in one line.
///
/// # Errors
/// When the value cannot be serialized.
pub fn json(value: &(impl Serialize + ?Sized)) -> serde_json::Result<String> {
    written(|out| write_json(out, value))
}

/// A value as indented JSON.
///
/// # Errors
/// When the value cannot be serialized.
pub fn json_pretty(value: &(impl Serialize + ?Sized)) -> serde_json::Result<String> {
    written(|out| {
        value.serialize(&mut Serializer::with_formatter(out, Plain(PrettyFormatter::new())))
    })
}

/// Writes a value as JSON in one line.
///
/// # Errors
/// When the output fails, or the value cannot be serialized.
pub fn write_json(out: impl Write, value: &(impl Serialize + ?Sized)) -> serde_json::Result<()> {
    value.serialize(&mut Serializer::with_formatter(out, Plain(CompactFormatter)))
}

/// Writes a value as JSON whose texts have visible escapes, for a page that shows them as they are.
///
/// # Errors
/// As [`write_json`].
pub fn write_visible_json(
    out: impl Write,
    value: &(impl Serialize + ?Sized),
) -> serde_json::Result<()> {
    value.serialize(&mut Serializer::with_formatter(out, Visible))
}

fn written(
    write: impl FnOnce(&mut Vec<u8>) -> serde_json::Result<()>,
) -> serde_json::Result<String> {
    let mut bytes = Vec::new();
    write(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// JSON in which hostile characters are escaped.
struct Plain<F>(F);

impl<F: Formatter> Formatter for Plain<F> {
    fn write_string_fragment<W: Write + ?Sized>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        fragment_with(out, fragment, |out, letter| {
            let mut units = [0; 2];
            letter.encode_utf16(&mut units).iter().try_for_each(|unit| write!(out, "\\u{unit:04x}"))
        })
    }

    fn begin_array<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_array(out)
    }

    fn end_array<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_array(out)
    }

    fn begin_array_value<W: Write + ?Sized>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_array_value(out, first)
    }

    fn end_array_value<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_array_value(out)
    }

    fn begin_object<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_object(out)
    }

    fn end_object<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_object(out)
    }

    fn begin_object_key<W: Write + ?Sized>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_object_key(out, first)
    }

    fn begin_object_value<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_object_value(out)
    }

    fn end_object_value<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_object_value(out)
    }
}

/// JSON whose texts have visible escapes instead of hostile characters. Line feeds and tabs stay.
struct Visible;

impl Formatter for Visible {
    fn write_string_fragment<W: Write + ?Sized>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        fragment_with(out, fragment, |out, letter| write!(out, "\\\\u{{{:x}}}", u32::from(letter)))
    }

    fn write_char_escape<W: Write + ?Sized>(
        &mut self,
        out: &mut W,
        escape: CharEscape,
    ) -> io::Result<()> {
        match escape {
            CharEscape::AsciiControl(byte) => write!(out, "\\\\u{{{byte:x}}}"),
            CharEscape::Backspace => out.write_all(b"\\\\u{8}"),
            CharEscape::FormFeed => out.write_all(b"\\\\u{c}"),
            CharEscape::CarriageReturn => out.write_all(b"\\\\u{d}"),
            other => CompactFormatter.write_char_escape(out, other),
        }
    }
}

fn fragment_with<W: Write + ?Sized>(
    out: &mut W,
    fragment: &str,
    escape: impl Fn(&mut W, char) -> io::Result<()>,
) -> io::Result<()> {
    let mut rest = fragment;
    while let Some((at, letter)) = rest.char_indices().find(|(_, letter)| is_hostile(*letter)) {
        let (before, after) = rest.split_at(at);
        out.write_all(before.as_bytes())?;
        escape(out, letter)?;
        rest = after.get(letter.len_utf8()..).unwrap_or_default();
    }
    out.write_all(rest.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const HOSTILE: &str = "a\u{1b}[31m\u{9b}2J\u{202e}b\u{e0041}\n\u{200b}\u{7f}c";

    #[test]
    fn what_acts_becomes_visible_and_the_rest_stays() {
        assert_eq!(
            visible(HOSTILE),
            "a\\u{1b}[31m\\u{9b}2J\\u{202e}b\\u{e0041}\\u{a}\\u{200b}\\u{7f}c"
        );
        assert_eq!(visible_lines("a\n\tb\u{85}"), "a\n\tb\\u{85}");
        for harmless in ["", "Größe<Ünïcode, 文字>", "emoji 🦀 é", "back\\slash"] {
            assert!(
                matches!(visible(harmless), Cow::Borrowed(same) if same == harmless),
                "{harmless}"
            );
        }
    }

    #[test]
    fn json_is_ascii_where_it_must_be_and_means_the_same() {
        let value = json!({"name": HOSTILE, HOSTILE: [1, null, "文字"], "empty": {}, "list": []});
        for text in [json(&value).unwrap(), json_pretty(&value).unwrap().replace('\n', "")] {
            assert!(!text.contains(is_hostile), "{text}");
            assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        }
        assert_eq!(
            json_pretty(&json!({"a": [1]})).unwrap(),
            serde_json::to_string_pretty(&json!({"a": [1]})).unwrap()
        );
    }

    #[test]
    fn pages_get_visible_escapes() {
        let mut out = Vec::new();
        write_visible_json(&mut out, &json!(HOSTILE)).unwrap();
        let shown: String = serde_json::from_slice(&out).unwrap();
        assert_eq!(shown, visible_lines(HOSTILE));
    }
}
