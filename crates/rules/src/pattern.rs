//! A name with wildcards, matched without ever going back further than to the last `*`.

use crate::{PatternError, PatternProblem};
use std::fmt;
use std::str::FromStr;

/// A pattern for names: of assemblies, types, methods, parameter types or attributes. Upper and
/// lower case differ.
///
/// | written | stands for |
/// |---|---|
/// | `*` | any characters, also none, also dots; `**` is the same |
/// | `?` | one character |
/// | `{a,b}` | one of these, which may be patterns, sets or nothing themselves |
/// | `\x` | the character `x` itself |
///
/// Everything else stands for itself, and the whole name must fit. Sets are multiplied out when a
/// pattern is read, so that matching takes no memory and, at worst, time by the length of the name
/// times [`MAX_EXPANDED`](Self::MAX_EXPANDED).
///
/// ```
/// let pattern: rules::Pattern = "MyApp.*.{Load,Save}?".parse()?;
/// assert!(pattern.matches("MyApp.Orders.Load2"));
/// assert!(!pattern.matches("MyApp.Orders.Load"));
/// # Ok::<(), rules::PatternError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(try_from = "String", into = "String")
)]
pub struct Pattern {
    text: Box<str>,
    /// What every name that fits begins with.
    prefix: Box<str>,
    /// What the sets were multiplied out to.
    globs: Box<[Glob]>,
}

/// The parts between the stars of a pattern without sets: at least one, and none in the middle is
/// empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Glob(Box<[Segment]>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Segment {
    /// Without `?`, so that the search of the standard library will do, which is linear.
    Text(Box<str>),
    /// `None` is a `?`.
    Holes(Box<[Option<char>]>),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Token {
    Char(char),
    One,
    Any,
}

impl Pattern {
    /// Longest text of a pattern, in bytes. The runtime's own limit for names is about as much.
    pub const MAX_LENGTH: usize = 1024;
    /// How deep sets may lie in each other.
    pub const MAX_DEPTH: usize = 8;
    /// Most names that the sets of a pattern may be multiplied out to.
    pub const MAX_NAMES: usize = 64;
    /// Most characters that these may have together.
    pub const MAX_EXPANDED: usize = 4096;

    /// Reads a pattern.
    ///
    /// # Errors
    /// It is empty, a set is not whole, or a limit is passed.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        Self::parse_at(text).map_err(|(at, problem)| PatternError::new(text, at, problem))
    }

    /// The same with the offset of an error in bytes, for texts that are part of another.
    pub(crate) fn parse_at(text: &str) -> Result<Self, (usize, PatternProblem)> {
        if text.is_empty() {
            return Err((0, PatternProblem::Empty));
        }
        if text.len() > Self::MAX_LENGTH {
            return Err((Self::MAX_LENGTH, PatternProblem::TooLong { most: Self::MAX_LENGTH }));
        }
        let mut parser = Parser { text, at: 0 };
        let globs: Box<[Glob]> =
            parser.sequence(0)?.iter().map(|tokens| Glob::new(tokens)).collect();
        let mut starts = globs.iter().map(Glob::literal_start);
        let mut prefix = starts.next().unwrap_or_default();
        for start in starts {
            let common: usize = prefix
                .chars()
                .zip(start.chars())
                .take_while(|(a, b)| a == b)
                .map(|(a, _)| a.len_utf8())
                .sum();
            prefix.truncate(common);
        }
        Ok(Self { text: text.into(), prefix: prefix.into(), globs })
    }

    /// Whether the whole of a name fits.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        name.starts_with(&*self.prefix) && self.globs.iter().any(|glob| glob.matches(name))
    }

    /// As [`Self::matches`], but case-insensitive. For few names: the pattern is made anew for
    /// each.
    #[must_use]
    pub fn matches_any_case(&self, name: &str) -> bool {
        let name: String = name.chars().flat_map(char::to_lowercase).collect();
        self.globs.iter().any(|glob| glob.lower().matches(&name))
    }

    /// What every name that fits begins with; empty if that is nothing in common. For callers that
    /// sort or index names.
    #[must_use]
    pub fn literal_prefix(&self) -> &str {
        &self.prefix
    }

    /// Whether every name fits.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.globs.iter().any(|glob| glob.0.len() > 1 && glob.0.iter().all(Segment::is_empty))
    }

    /// Whether no letter and no digit is asked for, as in `*`, `?*` and `*.*`: nearly every name
    /// fits.
    #[must_use]
    pub fn is_unspecific(&self) -> bool {
        let is_unspecific = |segment: &Segment| match segment {
            Segment::Text(text) => !text.contains(char::is_alphanumeric),
            Segment::Holes(holes) => !holes.iter().flatten().any(|c| c.is_alphanumeric()),
        };
        self.globs.iter().any(|glob| glob.0.len() > 1 && glob.0.iter().all(is_unspecific))
    }

    /// The one name that fits, if it is only one.
    #[must_use]
    pub fn as_literal(&self) -> Option<&str> {
        match &*self.globs {
            [glob] => glob.as_literal(),
            _ => None,
        }
    }

    /// The text as it was read.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether every name that fits `other` fits this one too, as far as their texts show it:
    /// `true` is certain, `false` is not.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        self.text == other.text
            || self.is_everything()
            || other.globs.iter().all(|theirs| self.globs.iter().any(|ours| ours.covers(theirs)))
    }

    /// A text that stands for exactly this name, whatever it contains, in [`Pattern`] and in the
    /// parts of a [`MethodPattern`](crate::MethodPattern).
    #[must_use]
    pub fn escape(name: &str) -> String {
        let mut text = String::with_capacity(name.len());
        for letter in name.chars() {
            if r"\*?{},!()<>:".contains(letter) {
                text.push('\\');
            }
            text.push(letter);
        }
        text
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        Self::parse(text)
    }
}

impl TryFrom<String> for Pattern {
    type Error = PatternError;

    fn try_from(text: String) -> Result<Self, PatternError> {
        Self::parse(&text)
    }
}

impl From<Pattern> for String {
    fn from(pattern: Pattern) -> Self {
        pattern.text.into()
    }
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
}

type Expanded = Vec<Vec<Token>>;

impl Parser<'_> {
    fn next(&mut self) -> Option<(usize, char)> {
        let at = self.at;
        let letter = self.text.get(at..)?.chars().next()?;
        self.at += letter.len_utf8();
        Some((at, letter))
    }

    /// Reads on to the end of the text, or in a set to what ends one of its members, which stays
    /// unread. Calls itself for sets, which [`Pattern::MAX_DEPTH`] bounds.
    fn sequence(&mut self, depth: usize) -> Result<Expanded, (usize, PatternProblem)> {
        let mut all: Expanded = vec![Vec::new()];
        while let Some((at, letter)) = self.next() {
            let token = match letter {
                ',' | '}' if depth > 0 => {
                    self.at = at;
                    break;
                }
                '}' => return Err((at, PatternProblem::Unopened)),
                '{' => {
                    if depth == Pattern::MAX_DEPTH {
                        return Err((at, PatternProblem::TooDeep { most: Pattern::MAX_DEPTH }));
                    }
                    let members = self.set(at, depth + 1)?;
                    all = product(&all, &members).ok_or((at, PatternProblem::TooMany))?;
                    continue;
                }
                '\\' => match self.next() {
                    Some((_, escaped)) => Token::Char(escaped),
                    None => return Err((at, PatternProblem::Escape)),
                },
                '*' => Token::Any,
                '?' => Token::One,
                letter => Token::Char(letter),
            };
            all.iter_mut().for_each(|tokens| tokens.push(token));
            check_size(&all).ok_or((at, PatternProblem::TooMany))?;
        }
        Ok(all)
    }

    /// The members of a set whose opening brace stands at `open` and is read.
    fn set(&mut self, open: usize, depth: usize) -> Result<Expanded, (usize, PatternProblem)> {
        let mut members = Expanded::new();
        loop {
            members.extend(self.sequence(depth)?);
            check_size(&members).ok_or((open, PatternProblem::TooMany))?;
            match self.next() {
                Some((_, ',')) => {}
                Some(_) => return Ok(members),
                None => return Err((open, PatternProblem::Unclosed)),
            }
        }
    }
}

fn check_size(all: &Expanded) -> Option<()> {
    let size: usize = all.iter().map(Vec::len).sum();
    (all.len() <= Pattern::MAX_NAMES && size <= Pattern::MAX_EXPANDED).then_some(())
}

/// Each of the one followed by each of the other; `None` if that would be too much.
fn product(left: &Expanded, right: &Expanded) -> Option<Expanded> {
    // Both are within the limits, so what is made before the check is bounded, too.
    if left.len() * right.len() > Pattern::MAX_NAMES {
        return None;
    }
    let all: Expanded = left
        .iter()
        .flat_map(|left| right.iter().map(move |right| [&left[..], &right[..]].concat()))
        .collect();
    check_size(&all)?;
    Some(all)
}

impl Glob {
    fn new(tokens: &[Token]) -> Self {
        let parts: Vec<&[Token]> = tokens.split(|token| *token == Token::Any).collect();
        let last = parts.len() - 1;
        let kept = parts
            .iter()
            .enumerate()
            .filter(|(index, part)| *index == 0 || *index == last || !part.is_empty());
        Self(kept.map(|(_, part)| Segment::new(part)).collect())
    }

    fn matches(&self, name: &str) -> bool {
        let [first, rest @ ..] = &*self.0 else { return false };
        let Some(name) = first.strip_start(name) else { return false };
        let [middle @ .., last] = rest else { return name.is_empty() };
        // With both ends fixed, taking the leftmost place for each part leaves most to those behind
        // it, so that no other choice needs to be tried.
        let Some(mut name) = last.strip_end(name) else { return false };
        for segment in middle {
            let Some(behind) = segment.find(name) else { return false };
            name = behind;
        }
        true
    }

    fn lower(&self) -> Self {
        Self(self.0.iter().map(Segment::lower).collect())
    }

    fn literal_start(&self) -> String {
        match self.0.first() {
            Some(Segment::Text(text)) => text.to_string(),
            Some(Segment::Holes(letters)) => letters.iter().map_while(|letter| *letter).collect(),
            None => String::new(),
        }
    }

    fn as_literal(&self) -> Option<&str> {
        match &*self.0 {
            [Segment::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Whether it takes all that `other` takes: equal ones, literal ones, and `start*end` around
    /// anything.
    fn covers(&self, other: &Self) -> bool {
        if let Some(name) = other.as_literal() {
            return self.matches(name);
        }
        // With a single part in `other`, start and end could take the same characters twice.
        match (&*self.0, &*other.0) {
            (
                [Segment::Text(start), Segment::Text(end)],
                [Segment::Text(first), .., Segment::Text(last)],
            ) => first.starts_with(&**start) && last.ends_with(&**end),
            ([Segment::Text(start), Segment::Text(end)], [Segment::Text(first), ..])
                if end.is_empty() =>
            {
                first.starts_with(&**start)
            }
            ([Segment::Text(start), Segment::Text(end)], [.., Segment::Text(last)])
                if start.is_empty() =>
            {
                last.ends_with(&**end)
            }
            _ => self == other,
        }
    }
}

impl Segment {
    fn new(tokens: &[Token]) -> Self {
        let letters = tokens.iter().map(|token| match token {
            Token::Char(letter) => Some(*letter),
            Token::One | Token::Any => None,
        });
        match letters.clone().collect::<Option<String>>() {
            Some(text) => Self::Text(text.into()),
            None => Self::Holes(letters.collect()),
        }
    }

    fn lower(&self) -> Self {
        match self {
            Self::Text(text) => {
                Self::Text(text.chars().flat_map(char::to_lowercase).collect::<String>().into())
            }
            Self::Holes(letters) => {
                let lower = |letter: &Option<char>| match letter {
                    Some(letter) => letter.to_lowercase().map(Some).collect(),
                    None => vec![None],
                };
                Self::Holes(letters.iter().flat_map(lower).collect())
            }
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Text(text) => text.is_empty(),
            Self::Holes(letters) => letters.is_empty(),
        }
    }

    /// What is behind it, if `name` starts with it.
    fn strip_start<'n>(&self, name: &'n str) -> Option<&'n str> {
        match self {
            Self::Text(text) => name.strip_prefix(&**text),
            Self::Holes(letters) => {
                let mut rest = name.chars();
                letters.iter().all(|wanted| fits(*wanted, rest.next())).then_some(rest.as_str())
            }
        }
    }

    /// What is before it, if `name` ends with it.
    fn strip_end<'n>(&self, name: &'n str) -> Option<&'n str> {
        match self {
            Self::Text(text) => name.strip_suffix(&**text),
            Self::Holes(letters) => {
                let mut rest = name.chars();
                letters
                    .iter()
                    .rev()
                    .all(|wanted| fits(*wanted, rest.next_back()))
                    .then_some(rest.as_str())
            }
        }
    }

    /// What is behind its first occurrence in `name`.
    fn find<'n>(&self, name: &'n str) -> Option<&'n str> {
        match self {
            Self::Text(text) => name.find(&**text).and_then(|at| name.get(at + text.len()..)),
            Self::Holes(_) => {
                let mut rest = name.chars();
                loop {
                    match self.strip_start(rest.as_str()) {
                        Some(behind) => return Some(behind),
                        None => rest.next()?,
                    };
                }
            }
        }
    }
}

fn fits(wanted: Option<char>, letter: Option<char>) -> bool {
    letter.is_some() && (wanted.is_none() || wanted == letter)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::{Duration, Instant};

    fn pattern(text: &str) -> Pattern {
        Pattern::parse(text).unwrap()
    }

    #[test]
    fn wildcards_sets_and_escapes() {
        for (text, yes, no) in [
            ("Load", &["Load"][..], &["load", "Loads", ""][..]),
            ("*", &["", "a.b"], &[]),
            ("**", &["", "a.b"], &[]),
            ("Load*", &["Load", "LoadAll"], &["Reload"]),
            ("*.Load", &["A.Load", ".Load"], &["Load"]),
            ("*ab*ab", &["abab", "xabyab"], &["ab", "aba"]),
            ("a*a", &["aa", "aba"], &["a"]),
            ("L??d", &["Load", "Löäd"], &["Lod", "Looad"]),
            ("*?a?*", &["xax", "xaxa"], &["ax", "xa"]),
            ("{Load,Save}*", &["Load", "SaveAll"], &["Delete"]),
            ("{,Try}Load{,{Async,All}}", &["Load", "TryLoadAsync", "LoadAll"], &["TryLoadA"]),
            (r"\*\{\\", &[r"*{\"], &[r"x{\"]),
            ("a,b", &["a,b"], &["a", "b"]),
            ("List`1", &["List`1"], &["List`2"]),
        ] {
            let pattern = pattern(text);
            assert!(yes.iter().all(|name| pattern.matches(name)), "{text}");
            assert!(!no.iter().any(|name| pattern.matches(name)), "{text}");
            assert_eq!(pattern.to_string(), text);
        }
    }

    #[test]
    fn what_is_known_without_a_name() {
        for (text, prefix) in [
            ("Load", "Load"),
            ("My.{Orders,Offers}*", "My.O"),
            ("a?b", "a"),
            ("*a", ""),
            ("{ä,ö}", ""),
            ("{a,ab}", "a"),
        ] {
            assert_eq!(pattern(text).literal_prefix(), prefix, "{text}");
        }
        assert!(["*", "**", "{a,*}", "*{,x}"].iter().all(|text| pattern(text).is_everything()));
        assert!(
            !["a*", "?*", "*.*", "{,a}", r"\*"].iter().any(|text| pattern(text).is_everything())
        );
        assert!(["*", "?*", "*.*", "{a,?*?}"].iter().all(|text| pattern(text).is_unspecific()));
        assert!(!["a*", "???", ".ctor", "*.a?"].iter().any(|text| pattern(text).is_unspecific()));
        assert_eq!(pattern(r"a\*").as_literal(), Some("a*"));
        assert_eq!(pattern("{a,b}").as_literal(), None);
    }

    #[test]
    fn covering_is_told_by_the_text() {
        for (wide, narrow) in [
            ("*", "a?b"),
            ("a*", "ab*"),
            ("a*", "abc"),
            ("*c", "a*bc"),
            ("a*c", "ab*bc"),
            ("{a,b}*", "{b,a}x"),
            ("a?c", "abc"),
            ("a?c", "a?c"),
        ] {
            assert!(pattern(wide).covers(&pattern(narrow)), "{wide} {narrow}");
            assert!(wide == narrow || !pattern(narrow).covers(&pattern(wide)), "{narrow} {wide}");
        }
        assert!(!pattern("ab*bc").covers(&pattern("a*c")));
        // It would, but nobody needs to know.
        assert!(!pattern("?*").covers(&pattern("a?")));
        assert!(!pattern("ab*bc").covers(&pattern("abc")));
    }

    #[test]
    fn broken_patterns_tell_where() {
        for (text, position, problem) in [
            ("", 1, PatternProblem::Empty),
            ("äb{c,d", 3, PatternProblem::Unclosed),
            ("a}", 2, PatternProblem::Unopened),
            (r"a\", 2, PatternProblem::Escape),
            ("{{{{{{{{{a}}}}}}}}}", 9, PatternProblem::TooDeep { most: 8 }),
            ("{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}", 31, PatternProblem::TooMany),
        ] {
            let error = Pattern::parse(text).unwrap_err();
            assert_eq!((error.position, error.problem), (position, problem), "{text}");
        }
    }

    #[test]
    fn hostile_texts_are_refused_quickly() {
        let start = Instant::now();
        for text in [
            "{".repeat(10_000),
            format!("{}a{}", "{".repeat(10_000), "}".repeat(10_000)),
            "{a,b}".repeat(10_000),
            "*a".repeat(500_000),
            "{,a}".repeat(200),
            format!("{{{}}}", ",".repeat(1000)),
            format!("{{{}}}{}", ",".repeat(63), "a".repeat(900)),
        ] {
            assert!(Pattern::parse(&text).is_err());
        }
        assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    }

    #[test]
    fn hostile_names_are_matched_quickly() {
        let name = "a".repeat(100_000);
        let start = Instant::now();
        // The last is the worst: `?` keeps it from the linear search, and each place fails at its
        // end only.
        for text in
            ["*a".repeat(500) + "*b", "*a*".repeat(300) + "b*", format!("*?{}b*", "a".repeat(100))]
        {
            assert!(!pattern(&text).matches(&name));
        }
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    }

    /// The meaning of a pattern by its definition, with exponential time.
    fn naive(pattern: &[char], name: &[char]) -> bool {
        match pattern.split_first() {
            None => name.is_empty(),
            Some(('*', rest)) => (0..=name.len()).any(|taken| naive(rest, &name[taken..])),
            Some(('?', rest)) => !name.is_empty() && naive(rest, &name[1..]),
            Some((letter, rest)) => name.first() == Some(letter) && naive(rest, &name[1..]),
        }
    }

    proptest! {
        #[test]
        fn it_agrees_with_the_definition(globs in prop::collection::vec("[abä*?]{0,7}", 1..4), name in "[abä]{0,8}") {
            let expected = globs.iter().any(|glob| {
                naive(&glob.chars().collect::<Vec<_>>(), &name.chars().collect::<Vec<_>>())
            });
            prop_assert_eq!(pattern(&format!("{{{}}}", globs.join(","))).matches(&name), expected);
        }

        #[test]
        fn what_covers_matches_all(wide in "[ab*?]{1,4}", narrow in "[ab*?]{1,5}", name in "[ab]{0,6}") {
            let (wide, narrow) = (pattern(&wide), pattern(&narrow));
            prop_assert!(!(wide.covers(&narrow) && narrow.matches(&name)) || wide.matches(&name));
            prop_assert!(!narrow.matches(&name) || name.starts_with(narrow.literal_prefix()));
        }

        #[test]
        fn any_text_is_survived_and_escaped(text in r"[a-cé*?{},\\!()<>:.]{0,24}", name in "[a-c]{0,5}") {
            if let Ok(pattern) = Pattern::parse(&text) {
                prop_assert_eq!(pattern.as_str(), &text);
                let _ = pattern.matches(&name);
            }
            if !text.is_empty() {
                let escaped = pattern(&Pattern::escape(&text));
                prop_assert_eq!(escaped.as_literal(), Some(&*text));
            }
        }
    }
}
