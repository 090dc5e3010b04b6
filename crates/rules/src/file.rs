//! Rule files: TOML with one table for each rule.

use crate::{
    Action, Limits, MethodPattern, Pattern, PatternError, Rule, RuleSet, Version, VersionError,
    VersionRange,
};
use std::fmt::Write;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Longest text of a rule file, in bytes.
pub const MAX_FILE: usize = 1 << 20;

/// Why a text is no rule file, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {problem}")]
pub struct FileError {
    /// Line, from 1.
    pub line: usize,
    /// Character in that line, from 1.
    pub column: usize,
    /// What is wrong there.
    pub problem: FileProblem,
}

/// What is wrong with a rule file. The text of each ends with what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileProblem {
    /// More than [`MAX_FILE`].
    #[error("the file is longer than {MAX_FILE} bytes; use fewer rules with wider patterns")]
    TooLong,
    /// It is no TOML.
    #[error("this is not TOML: {cause}; {advice}")]
    Syntax {
        /// What the reader of TOML says.
        cause: String,
        /// What to do.
        advice: &'static str,
    },
    /// A key that does not exist.
    #[error("there is no key `{key}`; {advice}")]
    UnknownKey {
        /// As written.
        key: String,
        /// What it may have meant, or what there is.
        advice: String,
    },
    /// A key that each rule needs.
    #[error("this rule has no `{key}`; add `{key} = \"…\"`")]
    MissingKey {
        /// Which.
        key: &'static str,
    },
    /// A value of another type.
    #[error("`{key}` is {found}, but takes {expected}; write it so")]
    WrongType {
        /// The key.
        key: String,
        /// What it takes, with an example.
        expected: &'static str,
        /// What stands there.
        found: &'static str,
    },
    /// A number outside of its range.
    #[error("`{key}` must be from {least} to {most}; change it")]
    OutOfRange {
        /// The key.
        key: String,
        /// Smallest number.
        least: i64,
        /// Largest number.
        most: i64,
    },
    /// `do` says something that does not exist.
    #[error("there is no action `{action}`; write `do = \"trace\"` or `do = \"count\"`")]
    UnknownAction {
        /// As written.
        action: String,
    },
    /// An option of another action.
    #[error("`{key}` is only for `do = \"trace\"`; remove it or trace")]
    NotForAction {
        /// The key.
        key: &'static str,
    },
    /// A pattern that is none.
    #[error("`{key}`: {error}")]
    Pattern {
        /// The key.
        key: String,
        /// Why.
        error: PatternError,
    },
    /// A version that is none.
    #[error("`{key}` is {error}")]
    Version {
        /// The key.
        key: String,
        /// Why.
        error: VersionError,
    },
}

/// Keys of the file.
const FILE_KEYS: &[&str] = &["exclude", "redact", "rule"];
/// Keys of a rule, in the order in which they are written.
const RULE_KEYS: &[&str] = &[
    "name",
    "match",
    "do",
    "slowest",
    "arguments",
    "attributes",
    "min-version",
    "max-version",
    "exclude",
    "one-in",
    "expires-after-calls",
    "expires-after-seconds",
    "priority",
    "everything",
];

impl RuleSet {
    /// Reads a rule file; docs/instrumentation.md describes them. Whether the rules make sense is
    /// for [`validate`](Self::validate) to say.
    ///
    /// ```
    /// let set = rules::RuleSet::from_toml(r#"
    /// exclude = ["*.Secret*"]
    ///
    /// [[rule]]
    /// name = "orders"
    /// match = "MyApp!MyApp.Orders.*.{Load,Save}*"
    /// do = "trace"
    /// "#)?;
    /// assert_eq!(set.rules()[0].name, "orders");
    /// assert_eq!(set.validate(), []);
    /// # Ok::<(), rules::FileError>(())
    /// ```
    ///
    /// # Errors
    /// It is no TOML, a key is unknown or missing, or a value is none that its key takes. Only the
    /// first error is reported.
    pub fn from_toml(text: &str) -> Result<Self, FileError> {
        let error = |(at, problem): At| {
            // Spans end between characters, but that is the other crate's word.
            let before = text.get(..at.min(text.len())).unwrap_or(text);
            let line = before.rsplit('\n').next().unwrap_or_default();
            FileError {
                line: before.matches('\n').count() + 1,
                column: line.chars().count() + 1,
                problem,
            }
        };
        if text.len() > MAX_FILE {
            return Err(error((MAX_FILE, FileProblem::TooLong)));
        }
        let table = DeTable::parse(text).map_err(|cause| {
            let at = cause.span().map_or(0, |span| span.start);
            let advice =
                syntax_advice(cause.message(), text.as_bytes().get(at.saturating_sub(2)..=at));
            error((at, FileProblem::Syntax { cause: cause.message().to_owned(), advice }))
        })?;
        Table { text, table: table.get_ref(), at: 0 }.set().map_err(error)
    }

    /// Writes a rule file that [`from_toml`](Self::from_toml) reads back to the same rules. Keys
    /// with their default value are left out.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let mut out = String::new();
        if !self.exclude().is_empty() {
            write_list(&mut out, "exclude", self.exclude().iter().map(MethodPattern::as_str));
        }
        if !self.redact().is_empty() {
            write_list(&mut out, "redact", self.redact().iter().map(Pattern::as_str));
        }
        for rule in self.rules() {
            out.push_str(if out.is_empty() { "[[rule]]\n" } else { "\n[[rule]]\n" });
            write_rule(&mut out, rule);
        }
        out
    }
}

/// A problem, and the offset in bytes at which it shows.
type At = (usize, FileProblem);

/// A table of the file.
struct Table<'t> {
    text: &'t str,
    table: &'t DeTable<'t>,
    /// Where it begins.
    at: usize,
}

impl<'t> Table<'t> {
    fn set(&self) -> Result<RuleSet, At> {
        self.check_keys(FILE_KEYS)?;
        let exclude = self.patterns("exclude", MethodPattern::parse)?;
        let mut rules = Vec::new();
        if let Some(value) = self.get("rule") {
            const EXPECTED: &str = "tables, each below a line [[rule]]";
            let DeValue::Array(tables) = value.get_ref() else {
                return Err(wrong("rule", EXPECTED, value));
            };
            for value in tables.iter() {
                let DeValue::Table(table) = value.get_ref() else {
                    return Err(wrong("rule", EXPECTED, value));
                };
                rules.push(Table { text: self.text, table, at: value.span().start }.rule()?);
            }
        }
        Ok(RuleSet::new(rules, exclude).redacting(self.patterns("redact", Pattern::parse)?))
    }

    fn rule(&self) -> Result<Rule, At> {
        self.check_keys(RULE_KEYS)?;
        let missing = |key| move || (self.at, FileProblem::MissingKey { key });
        let (name, _) = self.string("name")?.ok_or_else(missing("name"))?;
        let (methods, span) = self.string("match")?.ok_or_else(missing("match"))?;
        let methods = MethodPattern::parse(methods)
            .map_err(|error| self.bad_pattern("match", methods, span, error))?;
        let limits = Limits {
            one_in: self.number("one-in", 1, u32::MAX.into())?.map_or(1, |number| number as u32),
            calls: self.number("expires-after-calls", 1, i64::MAX)?.map(i64::unsigned_abs),
            seconds: self
                .number("expires-after-seconds", 1, u32::MAX.into())?
                .map(|number| number as u32),
        };
        Ok(Rule {
            name: name.to_owned(),
            methods,
            versions: VersionRange {
                min: self.version("min-version")?,
                max: self.version("max-version")?,
            },
            attributes: self.patterns("attributes", Pattern::parse)?,
            exclude: self.patterns("exclude", MethodPattern::parse)?,
            everything: self.boolean("everything")?.unwrap_or(false),
            priority: self
                .number("priority", i32::MIN.into(), i32::MAX.into())?
                .map_or(0, |number| number as i32),
            action: self.action()?,
            limits,
        })
    }

    fn action(&self) -> Result<Action, At> {
        let slowest =
            self.number("slowest", 0, Action::MAX_SLOWEST.into())?.map(|number| number as u16);
        let arguments = self.boolean("arguments")?;
        match self.string("do")? {
            None | Some(("trace", _)) => Ok(Action::Trace {
                slowest: slowest.unwrap_or(Action::USUAL_SLOWEST),
                arguments: arguments.unwrap_or(false),
            }),
            Some(("count", _)) => {
                for key in ["slowest", "arguments"] {
                    if let Some(value) = self.get(key) {
                        return Err((value.span().start, FileProblem::NotForAction { key }));
                    }
                }
                Ok(Action::Count)
            }
            Some((action, span)) => {
                Err((span.start, FileProblem::UnknownAction { action: shown(action) }))
            }
        }
    }

    fn get(&self, key: &str) -> Option<&'t Spanned<DeValue<'t>>> {
        self.table.get(key)
    }

    fn check_keys(&self, known: &[&str]) -> Result<(), At> {
        // The first in the file, not in the alphabet.
        let unknown = self.table.keys().filter(|key| !known.contains(&key.get_ref().as_ref()));
        let Some(key) = unknown.min_by_key(|key| key.span().start) else { return Ok(()) };
        let name = key.get_ref().as_ref();
        let nearest = known.iter().map(|known| (distance(name, known), known)).min();
        let advice = match nearest {
            Some((distance, known)) if distance <= 2.max(known.len() / 3) => {
                format!("did you mean `{known}`?")
            }
            _ => format!("here can stand: {}", known.join(", ")),
        };
        Err((key.span().start, FileProblem::UnknownKey { key: shown(name), advice }))
    }

    fn string(&self, key: &str) -> Result<Option<(&'t str, Range<usize>)>, At> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match value.get_ref() {
            DeValue::String(text) => Ok(Some((text, value.span()))),
            _ => Err(wrong(key, "a string, like \"a\"", value)),
        }
    }

    fn boolean(&self, key: &str) -> Result<Option<bool>, At> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match value.get_ref() {
            DeValue::Boolean(yes) => Ok(Some(*yes)),
            _ => Err(wrong(key, "true or false", value)),
        }
    }

    fn number(&self, key: &str, least: i64, most: i64) -> Result<Option<i64>, At> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let DeValue::Integer(number) = value.get_ref() else {
            return Err(wrong(key, "a whole number, like 10", value));
        };
        let number = i64::from_str_radix(number.as_str(), number.radix()).ok();
        match number.filter(|number| (least..=most).contains(number)) {
            Some(number) => Ok(Some(number)),
            None => Err((
                value.span().start,
                FileProblem::OutOfRange { key: key.to_owned(), least, most },
            )),
        }
    }

    fn version(&self, key: &str) -> Result<Option<Version>, At> {
        let Some((text, span)) = self.string(key)? else { return Ok(None) };
        let bad = |error| (span.start, FileProblem::Version { key: key.to_owned(), error });
        text.parse().map(Some).map_err(bad)
    }

    fn patterns<P>(
        &self,
        key: &str,
        parse: fn(&str) -> Result<P, PatternError>,
    ) -> Result<Vec<P>, At> {
        const EXPECTED: &str = "a list of strings, like [\"a\", \"b\"]";
        let Some(value) = self.get(key) else { return Ok(Vec::new()) };
        let DeValue::Array(values) = value.get_ref() else {
            return Err(wrong(key, EXPECTED, value));
        };
        let read = |value: &Spanned<DeValue<'t>>| match value.get_ref() {
            DeValue::String(text) => {
                parse(text).map_err(|error| self.bad_pattern(key, text, value.span(), error))
            }
            _ => Err(wrong(key, EXPECTED, value)),
        };
        values.iter().map(read).collect()
    }

    /// Where in the file a pattern is wrong: at its own position if it stands there letter by
    /// letter, else at its start.
    fn bad_pattern(&self, key: &str, pattern: &str, span: Range<usize>, error: PatternError) -> At {
        let inner = self
            .text
            .get(span.start + 1..span.end.saturating_sub(1))
            .filter(|inner| *inner == pattern);
        let before = inner.map(|inner| inner.chars().take(error.position.saturating_sub(1)));
        let inside = before.map_or(0, |before| 1 + before.map(char::len_utf8).sum::<usize>());
        (span.start + inside, FileProblem::Pattern { key: key.to_owned(), error })
    }
}

/// What to do about a message of the reader of TOML, by the bytes around its place.
fn syntax_advice(message: &str, around: Option<&[u8]>) -> &'static str {
    if message.contains("duplicate") {
        "remove one of the two"
    } else if message.contains("unicode") || around.is_some_and(|around| around.contains(&b'\\')) {
        "write strings with `\\` in single quotes"
    } else {
        "look for a quote, bracket or `=` that is missing here"
    }
}

fn wrong(key: &str, expected: &'static str, value: &Spanned<DeValue<'_>>) -> At {
    let found = match value.get_ref() {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    };
    (value.span().start, FileProblem::WrongType { key: key.to_owned(), expected, found })
}

/// As much of a text as a message should repeat.
fn shown(text: &str) -> String {
    text.chars().take(60).collect()
}

/// How many letters have to be put in, left out or changed to make one text of the other.
fn distance(left: &str, right: &str) -> usize {
    // Of long texts the start is enough to know that they are far apart.
    let left: Vec<char> = left.chars().take(40).collect();
    let mut row: Vec<usize> = (0..=left.len()).collect();
    for (index, wanted) in right.chars().enumerate() {
        let mut next = vec![index + 1];
        let mut before = index + 1;
        for ((letter, diagonal), above) in left.iter().zip(&row).zip(row.iter().skip(1)) {
            before = (diagonal + usize::from(*letter != wanted)).min(above + 1).min(before + 1);
            next.push(before);
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}

fn write_rule(out: &mut String, rule: &Rule) {
    write_value(out, "name", quoted(&rule.name));
    write_value(out, "match", quoted(rule.methods.as_str()));
    match rule.action {
        Action::Count => write_value(out, "do", quoted("count")),
        Action::Trace { slowest, arguments } => {
            write_value(out, "do", quoted("trace"));
            if slowest != Action::USUAL_SLOWEST {
                write_value(out, "slowest", slowest);
            }
            if arguments {
                write_value(out, "arguments", true);
            }
        }
    }
    if !rule.attributes.is_empty() {
        write_list(out, "attributes", rule.attributes.iter().map(Pattern::as_str));
    }
    for (key, version) in [("min-version", rule.versions.min), ("max-version", rule.versions.max)] {
        if let Some(version) = version {
            write_value(out, key, quoted(&version.to_string()));
        }
    }
    if !rule.exclude.is_empty() {
        write_list(out, "exclude", rule.exclude.iter().map(MethodPattern::as_str));
    }
    let Limits { one_in, calls, seconds } = rule.limits;
    let one_in = (one_in != 1).then_some(one_in.into());
    let seconds = seconds.map(u64::from);
    for (key, number) in
        [("one-in", one_in), ("expires-after-calls", calls), ("expires-after-seconds", seconds)]
    {
        if let Some(number) = number {
            write_value(out, key, number);
        }
    }
    if rule.priority != 0 {
        write_value(out, "priority", rule.priority);
    }
    if rule.everything {
        write_value(out, "everything", true);
    }
}

fn write_value(out: &mut String, key: &str, value: impl std::fmt::Display) {
    // Writing to a string does not fail.
    let _ = writeln!(out, "{key} = {value}");
}

fn write_list<'p>(out: &mut String, key: &str, values: impl Iterator<Item = &'p str>) {
    let values: Vec<String> = values.map(quoted).collect();
    write_value(out, key, format_args!("[{}]", values.join(", ")));
}

/// A text as TOML has it: as it is where that is possible, so that escapes in patterns can be read.
fn quoted(text: &str) -> String {
    if !text.contains(['\'', '\u{7f}'])
        && !text.contains(|letter: char| letter < ' ')
        && text.contains(['\\', '"'])
    {
        return format!("'{text}'");
    }
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            letter if letter < ' ' || letter == '\u{7f}' => {
                out.push_str(&format!("\\u{:04X}", u32::from(letter)))
            }
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::{Duration, Instant};

    const ALL: &str = r#"
exclude = ["*.ToString()", 'A!A.\<Made>.*']
redact = ["iban*", "{a,b}"]

[[rule]]
name = "count"
match = "Load"
do = "count"

[[rule]]
name = "all"
match = "A!A.B<*>.{Load,Save}*(string, int)"
do = "trace"
slowest = 0x0c
arguments = true
attributes = ["Trace", "My.*"]
min-version = "1.2"
max-version = "2"
exclude = ["A.B.LoadSecret"]
one-in = 10
expires-after-calls = 1_000
expires-after-seconds = 60
priority = -3
everything = true
"#;

    fn error(text: &str) -> (usize, usize, FileProblem) {
        let error = RuleSet::from_toml(text).unwrap_err();
        (error.line, error.column, error.problem)
    }

    #[test]
    fn every_key_is_read() {
        let set = RuleSet::from_toml(ALL).unwrap();
        let [count, all] = set.rules() else { panic!("{set:?}") };
        assert_eq!(
            *count,
            Rule::new("count", MethodPattern::parse("Load").unwrap(), Action::Count)
        );
        assert_eq!(all.methods.as_str(), "A!A.B<*>.{Load,Save}*(string, int)");
        assert_eq!(all.action, Action::Trace { slowest: 12, arguments: true });
        assert_eq!(
            all.attributes.iter().map(Pattern::as_str).collect::<Vec<_>>(),
            ["Trace", "My.*"]
        );
        assert_eq!(all.versions.min, Some(Version([1, 2, 0, 0])));
        assert_eq!(all.versions.max, Some(Version([2, 0, 0, 0])));
        assert_eq!(all.exclude.len(), 1);
        assert_eq!(all.limits, Limits { one_in: 10, calls: Some(1000), seconds: Some(60) });
        assert_eq!((all.priority, all.everything), (-3, true));
        assert_eq!(
            set.exclude().iter().map(MethodPattern::as_str).collect::<Vec<_>>(),
            ["*.ToString()", r"A!A.\<Made>.*"]
        );
        assert_eq!(
            set.redact().iter().map(Pattern::as_str).collect::<Vec<_>>(),
            ["iban*", "{a,b}"]
        );
        let plain = RuleSet::from_toml("[[rule]]\nname = 'a'\nmatch = 'B'").unwrap();
        assert_eq!(
            plain.rules(),
            [Rule::new("a", MethodPattern::parse("B").unwrap(), Action::TRACE)]
        );
        assert_eq!(RuleSet::from_toml("").unwrap(), RuleSet::default());
    }

    #[test]
    fn the_example_is_good_and_in_the_manual() {
        let example = include_str!("../example.toml");
        assert_eq!(RuleSet::from_toml(example).unwrap().validate(), []);
        let manual = include_str!("../../../docs/instrumentation.md");
        assert!(manual.contains(example));
        for key in RULE_KEYS.iter().chain(FILE_KEYS) {
            assert!(manual.contains(&format!("`{key}`")), "{key}");
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let set = RuleSet::from_toml(ALL).unwrap();
        let text = set.to_toml();
        assert_eq!(RuleSet::from_toml(&text).unwrap(), set, "{text}");
        assert_eq!(RuleSet::default().to_toml(), "");
        let plain = "[[rule]]\nname = \"a\"\nmatch = \"B\"\ndo = \"trace\"\n";
        assert_eq!(RuleSet::from_toml(plain).unwrap().to_toml(), plain);
    }

    #[test]
    fn errors_tell_line_and_column() {
        let rule = |line: &str| format!("[[rule]]\nname = \"ä\"\nmatch = \"A\"\n{line}");
        for (text, line, column, message) in [
            ("[[rule]\n".to_owned(), 1, 8, "this is not TOML"),
            (rule("do = count"), 4, 6, "this is not TOML"),
            (rule("name = 'b'"), 4, 1, "this is not TOML: duplicate key; remove one of the two"),
            (rule("methd = 'b'"), 4, 1, "there is no key `methd`; here can stand: name, match, do"),
            (
                rule("arguments = 1"),
                4,
                13,
                "`arguments` is a whole number, but takes true or false",
            ),
            (
                rule("argument = true"),
                4,
                1,
                "there is no key `argument`; did you mean `arguments`?",
            ),
            (rule("one-in = 0"), 4, 10, "`one-in` must be from 1 to 4294967295"),
            (rule("one-in = 99999999999999999999"), 4, 10, "`one-in` must be from"),
            (rule("slowest = 1.5"), 4, 11, "`slowest` is a fraction"),
            (rule("do = 'stop'"), 4, 6, "there is no action `stop`; write"),
            (rule("do = 'count'\nslowest = 3"), 5, 11, "`slowest` is only for"),
            (rule("min-version = '1.x'"), 4, 15, "`min-version` is not a version"),
            (
                rule("attributes = ['A', 'ö{']"),
                4,
                22,
                "`attributes`: character 2: this set has no end",
            ),
            (
                rule("attributes = ['A', 3]"),
                4,
                20,
                "`attributes` is a whole number, but takes a list of strings",
            ),
            (rule("attributes = 'A'"), 4, 14, "`attributes` is a string, but takes a list"),
            (
                "[[rule]]\nname = 'a'\nmatch = 'ö.B('".to_owned(),
                3,
                13,
                "`match`: character 4: the parameters",
            ),
            (
                "[[rule]]\nname = 'a'\nmatch = \"\\u00f6.B(\"".to_owned(),
                3,
                9,
                "`match`: character 4: the parameters",
            ),
            ("\n [[rule]]\nname = 'a'".to_owned(), 2, 2, "this rule has no `match`; add `match = "),
            ("[[rule]]\nmatch = 'a'".to_owned(), 1, 1, "this rule has no `name`"),
            (
                "[rule]\nname = 'a'".to_owned(),
                1,
                1,
                "`rule` is a table, but takes tables, each below",
            ),
            ("rule = [1]".to_owned(), 1, 9, "`rule` is a whole number"),
            (
                "[[rules]]\nname = 'a'".to_owned(),
                1,
                3,
                "there is no key `rules`; did you mean `rule`?",
            ),
            ("exclude = ['']".to_owned(), 1, 13, "`exclude`: character 1: the pattern is empty"),
        ] {
            let (found_line, found_column, problem) = error(&text);
            let problem = problem.to_string();
            assert!(problem.starts_with(message), "{text}: {problem}");
            assert_eq!((found_line, found_column), (line, column), "{text}: {problem}");
        }
        let text = RuleSet::from_toml("a = 1").unwrap_err().to_string();
        assert_eq!(
            text,
            "line 1, column 1: there is no key `a`; here can stand: exclude, redact, rule"
        );
    }

    #[test]
    fn backslashes_in_double_quotes_are_explained() {
        for text in [r#"exclude = ["A.\<B>"]"#, r#"exclude = ["A.\xB"]"#] {
            let error = RuleSet::from_toml(text).unwrap_err().to_string();
            assert!(error.ends_with(r"write strings with `\` in single quotes"), "{text}: {error}");
        }
    }

    #[test]
    fn hostile_files_are_refused_quickly() {
        let start = Instant::now();
        for text in [
            " ".repeat(MAX_FILE + 1),
            format!("exclude = {}", "[".repeat(MAX_FILE - 100)),
            "a.".repeat(MAX_FILE / 2 - 10),
            format!("[[rule]]\nname = 'a'\nmatch = '{}'", "{".repeat(10_000)),
            format!("[[rule]]\nname = 'a'\nmatch = '{}'", "a".repeat(MAX_FILE - 100)),
            format!("{} = 1", "k".repeat(MAX_FILE - 100)),
        ] {
            assert!(RuleSet::from_toml(&text).unwrap_err().to_string().len() < 1000);
        }
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    }

    #[test]
    fn distances() {
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", ""), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("match", "match"), 0);
    }

    fn any_rule() -> impl Strategy<Value = Rule> {
        let pattern = r"[a-c.*é]{1,6}|\\\{a'|\{a,b\}";
        let methods = r"([a-c*]{1,3}!)?[a-c.*]{0,6}[a-c](\(int, [a-c]\))?"
            .prop_map(|text| MethodPattern::parse(&text));
        let methods = methods.prop_filter_map("a part is empty", Result::ok);
        let patterns =
            prop::collection::vec(pattern.prop_map(|text| Pattern::parse(&text).unwrap()), 0..3);
        let version = prop::option::of(any::<[u16; 4]>().prop_map(Version));
        let action = prop_oneof![
            Just(Action::Count),
            (0..=Action::MAX_SLOWEST, any::<bool>())
                .prop_map(|(slowest, arguments)| Action::Trace { slowest, arguments })
        ];
        let limits = (1u32.., prop::option::of(1..i64::MAX as u64), prop::option::of(1u32..))
            .prop_map(|(one_in, calls, seconds)| Limits { one_in, calls, seconds });
        let versions = (version.clone(), version).prop_map(|(min, max)| VersionRange { min, max });
        let exclude = prop::collection::vec(methods.clone(), 0..3);
        (
            any::<String>(),
            methods,
            versions,
            patterns,
            exclude,
            any::<bool>(),
            any::<i32>(),
            action,
            limits,
        )
            .prop_map(
                |(
                    name,
                    methods,
                    versions,
                    attributes,
                    exclude,
                    everything,
                    priority,
                    action,
                    limits,
                )| Rule {
                    name,
                    methods,
                    versions,
                    attributes,
                    exclude,
                    everything,
                    priority,
                    action,
                    limits,
                },
            )
    }

    proptest! {
        #[test]
        fn all_rules_are_read_back(rules in prop::collection::vec(any_rule(), 0..4)) {
            let exclude = rules.iter().flat_map(|rule| rule.exclude.clone()).collect();
            let redact = rules.iter().flat_map(|rule| rule.attributes.clone()).collect();
            let set = RuleSet::new(rules, exclude).redacting(redact);
            prop_assert_eq!(RuleSet::from_toml(&set.to_toml()), Ok(set));
        }

        #[test]
        fn damaged_files_are_survived(at in 0..ALL.len(), with in any::<char>()) {
            let text: String = ALL.char_indices().map(|(index, letter)| if index == at { with } else { letter }).collect();
            if let Err(error) = RuleSet::from_toml(&text) {
                prop_assert!(error.line > 0 && error.column > 0 && !error.to_string().is_empty());
            }
        }
    }
}
