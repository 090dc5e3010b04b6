//! The registry as JSON, made by the compiler: what loads the agent's library can read it without
//! running anything that allocates.

use crate::{PROFILERS, ParamKind, ProfilerSpec};

/// How long it is.
const LENGTH: usize = json::<0>().length;

static JSON: [u8; LENGTH] = json::<LENGTH>().bytes;

/// All profilers as a list in JSON with a NUL behind it, of the same form as that of `clrscope
/// profilers --json`.
pub static CATALOGUE: &[u8] = &JSON;

/// A text that is written twice: first to see how long it is.
struct Text<const N: usize> {
    bytes: [u8; N],
    length: usize,
    last: u8,
}

impl<const N: usize> Text<N> {
    const fn push(&mut self, byte: u8) {
        if let Some((_, rest)) = self.bytes.split_at_mut_checked(self.length)
            && let Some(place) = rest.first_mut()
        {
            *place = byte;
        }
        self.length += 1;
        self.last = byte;
    }

    const fn raw(&mut self, text: &str) {
        let mut rest = text.as_bytes();
        while let Some((byte, more)) = rest.split_first() {
            self.push(*byte);
            rest = more;
        }
    }

    const fn string(&mut self, text: &str) {
        self.push(b'"');
        let mut rest = text.as_bytes();
        while let Some((byte, more)) = rest.split_first() {
            match *byte {
                b'"' | b'\\' => {
                    self.push(b'\\');
                    self.push(*byte);
                }
                b'\n' => self.raw("\\n"),
                // Texts of the registry have no other control characters.
                byte => self.push(byte),
            }
            rest = more;
        }
        self.push(b'"');
    }

    const fn number(&mut self, number: u64) {
        let mut unit = 1;
        while number / unit >= 10 {
            unit *= 10;
        }
        while unit > 0 {
            self.push(b'0' + (number / unit % 10) as u8);
            unit /= 10;
        }
    }

    /// The key of a member of an object; the first of them has no comma before it.
    const fn key(&mut self, key: &str) {
        if self.last != b'{' {
            self.push(b',');
        }
        self.string(key);
        self.push(b':');
    }

    /// Begins an item of a list; the first has no comma before it.
    const fn item(&mut self) {
        if self.last != b'[' {
            self.push(b',');
        }
    }

    const fn member(&mut self, key: &str, text: &str) {
        self.key(key);
        self.string(text);
    }

    const fn flag(&mut self, key: &str, is_so: bool) {
        self.key(key);
        self.raw(if is_so { "true" } else { "false" });
    }

    const fn words(&mut self, key: &str, words: &[&str]) {
        self.key(key);
        self.push(b'[');
        let mut rest = words;
        while let Some((word, more)) = rest.split_first() {
            self.item();
            self.string(word);
            rest = more;
        }
        self.push(b']');
    }

    const fn profiler(&mut self, spec: &ProfilerSpec) {
        self.push(b'{');
        self.member("id", spec.id);
        self.member("summary", spec.summary);
        self.member("description", spec.description);
        self.member("overhead", spec.overhead);
        self.key("since");
        self.raw(if spec.since == 3 { "\".NET Core 3.1" } else { "\".NET " });
        if spec.since != 3 {
            self.number(spec.since as u64);
        }
        self.push(b'"');
        self.flag("attach", spec.attach);
        self.words("commands", spec.commands());
        self.flag("needs_main_slot", spec.needs_main_slot());
        self.flag("resident_agent", spec.is_irreversible());
        self.values(spec);
        self.params(spec);
        self.push(b'}');
    }

    const fn values(&mut self, spec: &ProfilerSpec) {
        self.key("values");
        self.push(b'[');
        let mut rest = spec.values;
        while let Some((value, more)) = rest.split_first() {
            self.item();
            self.push(b'{');
            self.member("kind", value.kind);
            self.member("unit", value.unit);
            self.push(b'}');
            rest = more;
        }
        self.push(b']');
    }

    const fn params(&mut self, spec: &ProfilerSpec) {
        self.key("params");
        self.push(b'[');
        let mut rest = spec.params;
        while let Some((param, more)) = rest.split_first() {
            self.item();
            self.push(b'{');
            self.member("name", param.name);
            self.member("help", param.help);
            self.member("default", param.default);
            match param.kind {
                ParamKind::Number(from, to) => {
                    self.key("range");
                    self.push(b'[');
                    self.number(from);
                    self.push(b',');
                    self.number(to);
                    self.push(b']');
                }
                ParamKind::Choice(words) => self.words("choices", words),
                ParamKind::Names => {}
            }
            self.push(b'}');
            rest = more;
        }
        self.push(b']');
    }
}

const fn json<const N: usize>() -> Text<N> {
    let mut text = Text { bytes: [0; N], length: 0, last: 0 };
    text.push(b'[');
    let mut rest = PROFILERS;
    while let Some((spec, more)) = rest.split_first() {
        text.item();
        text.profiler(spec);
        rest = more;
    }
    text.push(b']');
    text.push(0);
    text
}
