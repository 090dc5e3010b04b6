//! Which methods: the form that is typed on a command line and stands in rule files.

use crate::{Pattern, PatternError, PatternProblem};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// What methods a rule is for, as text: `[assembly!]type.method[(parameter,…)]`. Each part is a
/// [`Pattern`].
///
/// | written | takes |
/// |---|---|
/// | `MyApp.Orders.Service.Load` | all overloads of `Load` of that type, in any assembly |
/// | `MyApp!MyApp.Orders.*.{Load,Save}*` | only in the assembly `MyApp` (its name, without `.dll`); types in all namespaces below `MyApp.Orders` |
/// | `MyApp.Orders.**` | all methods of the type or namespace and of everything below and inside |
/// | `Load` | methods of that name in any type |
/// | `Load(string,int)`, `Load()` | one overload; the one without parameters |
/// | `Outer+Inner.Run` | a type inside another |
/// | `MyApp.Cache<*>.Get`, ``MyApp.Cache`1.Get`` | a generic type by the number of its type parameters |
/// | `MyApp.Cache.Get<*,*>` | a method with two type parameters; without `<…>` their number does not count |
/// | `MyApp.Service..ctor`, `MyApp.Service..cctor` | constructors; the initializer of the type |
/// | `MyApp.Service::System.IDisposable.Dispose` | `::` in front of a method that has dots in its own name |
/// | `Program.<Main>$`, `Program+<>c.*` | names that the compiler made: a bracket that begins a name is part of it |
///
/// The last dot is the one in front of the method. Parameter types are written as in C#: keywords,
/// or else full names; `ref int`, `out int`, `int[]`, `System.Collections.Generic.List<string>`;
/// blanks do not count.
#[derive(Clone, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(try_from = "String", into = "String")
)]
pub struct MethodPattern {
    text: Box<str>,
    assembly: Pattern,
    type_name: Pattern,
    method: Pattern,
    type_parameters: Option<u16>,
    parameters: Option<Box<[Pattern]>>,
}

/// What a method's signature says, for [`MethodFacts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature<'a> {
    /// How many type parameters the method itself has.
    pub type_parameters: u16,
    /// Types of its parameters, without `this`, as C# writes them: keywords, else full names. Full
    /// names instead of keywords fit as well.
    pub parameters: &'a [&'a str],
}

/// What is known of a method. Signature and attributes cost time to read: they are only needed when
/// [`TypeRules`](crate::TypeRules) says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MethodFacts<'a> {
    /// Its name in metadata, like `Load`, `.ctor` or `System.IDisposable.Dispose`.
    pub name: &'a str,
    /// `None` if it was not read or cannot be read. Then no rule fits that needs it, and each
    /// exclusion that needs it does.
    pub signature: Option<Signature<'a>>,
    /// Full names of the attributes of the method and of its type; `None` if they were not read: no
    /// rule fits that needs them.
    pub attributes: Option<&'a [&'a str]>,
}

impl MethodPattern {
    /// Longest text, in bytes.
    pub const MAX_LENGTH: usize = 4096;
    /// Most parameters.
    pub const MAX_PARAMETERS: usize = 64;

    /// Reads the form above.
    ///
    /// # Errors
    /// A part is missing or is no pattern. The position is that in the whole text.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        Self::parse_at(text).map_err(|(at, problem)| PatternError::new(text, at, problem))
    }

    fn parse_at(text: &str) -> Result<Self, (usize, PatternProblem)> {
        if text.is_empty() {
            return Err((0, PatternProblem::Empty));
        }
        if text.len() > Self::MAX_LENGTH {
            return Err((Self::MAX_LENGTH, PatternProblem::TooLong { most: Self::MAX_LENGTH }));
        }
        let whole = Part { text, at: 0 };
        let (head, parameters) = match marks(text).find(|mark| mark.letter == '(') {
            Some(mark) => {
                (whole.cut(0, mark.at), Some(parameters(whole.cut(mark.at, text.len()))?))
            }
            None => (whole, None),
        };
        let (assembly, rest) = match marks(head.text).find(|mark| mark.letter == '!') {
            Some(mark) => {
                (head.cut(0, mark.at).pattern("assembly")?, head.cut(mark.at + 1, head.text.len()))
            }
            None => (Part { text: "*", at: 0 }.pattern("assembly")?, head),
        };
        let (type_part, method_part) = split(rest);
        let (type_name, method, type_parameters) = match (type_part, method_part.text) {
            (Some(part), "**") => {
                part.pattern("type")?;
                let (below, _) = generic(part, false)?;
                (read(&format!("{below}{{,.*,+*}}"), part)?, read("*", method_part)?, None)
            }
            (part, _) => {
                let part = part.unwrap_or(Part { text: "*", at: rest.at });
                part.pattern("type")?;
                method_part.pattern("method")?;
                let (type_name, _) = generic(part, false)?;
                let (method, type_parameters) = generic(method_part, true)?;
                (read(&type_name, part)?, read(&method, method_part)?, type_parameters)
            }
        };
        Ok(Self { text: text.into(), assembly, type_name, method, type_parameters, parameters })
    }

    /// The text as it was read.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// For the simple name of the assembly.
    #[must_use]
    pub const fn assembly(&self) -> &Pattern {
        &self.assembly
    }

    /// For the full name of the type as metadata has it, with `+` in front of nested types:
    /// ``MyApp.Cache`1+Entry``.
    #[must_use]
    pub const fn type_name(&self) -> &Pattern {
        &self.type_name
    }

    /// For the name of the method.
    #[must_use]
    pub const fn method(&self) -> &Pattern {
        &self.method
    }

    /// How many type parameters the method must have; `None` if that does not count.
    #[must_use]
    pub const fn type_parameters(&self) -> Option<u16> {
        self.type_parameters
    }

    /// For the types of the parameters; `None` if they do not count.
    #[must_use]
    pub fn parameters(&self) -> Option<&[Pattern]> {
        self.parameters.as_deref()
    }

    /// Whether it asks for no letter of the names of type and method: see
    /// [`Pattern::is_unspecific`].
    #[must_use]
    pub fn is_unspecific(&self) -> bool {
        self.type_name.is_unspecific() && self.method.is_unspecific()
    }

    /// Whether every method fits.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.assembly.is_everything() && self.type_name.is_everything() && self.takes_all_methods()
    }

    /// Whether all methods of a type fit, if the type does.
    pub(crate) fn takes_all_methods(&self) -> bool {
        self.method.is_everything() && !self.needs_signature()
    }

    /// Whether [`Signature`] counts.
    #[must_use]
    pub const fn needs_signature(&self) -> bool {
        self.type_parameters.is_some() || self.parameters.is_some()
    }

    /// Whether a method of a type that fits does so, too. `unknown` is the answer where its
    /// signature would be needed and is not known.
    #[must_use]
    pub fn takes(&self, facts: &MethodFacts<'_>, unknown: bool) -> bool {
        if !self.method.matches(facts.name) {
            return false;
        }
        if !self.needs_signature() {
            return true;
        }
        let Some(signature) = facts.signature else { return unknown };
        if self.type_parameters.is_some_and(|wanted| wanted != signature.type_parameters) {
            return false;
        }
        self.parameters.as_deref().is_none_or(|wanted| {
            wanted.len() == signature.parameters.len()
                && wanted
                    .iter()
                    .zip(signature.parameters)
                    .all(|(wanted, name)| takes_type(wanted, name))
        })
    }

    /// Whether everything that fits `other` fits this as well, as far as their texts show it.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        self.assembly.covers(&other.assembly)
            && self.type_name.covers(&other.type_name)
            && self.method.covers(&other.method)
            && self.type_parameters.is_none_or(|count| other.type_parameters == Some(count))
            && match (&self.parameters, &other.parameters) {
                (None, _) => true,
                (Some(_), None) => false,
                (Some(ours), Some(theirs)) => {
                    ours.len() == theirs.len()
                        && ours.iter().zip(theirs).all(|(ours, theirs)| ours.covers(theirs))
                }
            }
    }
}

impl fmt::Display for MethodPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl fmt::Debug for MethodPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

impl FromStr for MethodPattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        Self::parse(text)
    }
}

impl TryFrom<String> for MethodPattern {
    type Error = PatternError;

    fn try_from(text: String) -> Result<Self, PatternError> {
        Self::parse(&text)
    }
}

impl From<MethodPattern> for String {
    fn from(pattern: MethodPattern) -> Self {
        pattern.text.into()
    }
}

/// A piece of a text, and where it stands there.
#[derive(Clone, Copy)]
struct Part<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Part<'t> {
    fn cut(self, from: usize, to: usize) -> Self {
        Self { text: self.text.get(from..to).unwrap_or_default(), at: self.at + from }
    }

    fn trim(self) -> Self {
        let text = self.text.trim_start();
        Self { text: text.trim_end(), at: self.at + (self.text.len() - text.len()) }
    }

    fn pattern(self, part: &'static str) -> Result<Pattern, (usize, PatternProblem)> {
        if self.text.is_empty() {
            return Err((self.at, PatternProblem::Missing { part }));
        }
        Pattern::parse_at(self.text).map_err(|(at, problem)| (self.at + at, problem))
    }
}

/// Reads what was made of a part. The part itself was read before, so only limits can be passed,
/// and they concern all of it.
fn read(text: &str, part: Part<'_>) -> Result<Pattern, (usize, PatternProblem)> {
    Pattern::parse_at(text).map_err(|(_, problem)| (part.at, problem))
}

/// A character that no `\` stands in front of, and how many brackets of each kind are open before
/// it.
struct Mark {
    at: usize,
    letter: char,
    braces: usize,
    angles: usize,
    others: usize,
}

impl Mark {
    const fn is_outside(&self) -> bool {
        self.braces == 0 && self.angles == 0 && self.others == 0
    }
}

fn marks(text: &str) -> impl Iterator<Item = Mark> {
    let (mut braces, mut angles, mut others) = (0usize, 0usize, 0usize);
    let mut letters = text.char_indices();
    std::iter::from_fn(move || {
        loop {
            let (at, letter) = letters.next()?;
            let mark = Mark { at, letter, braces, angles, others };
            match letter {
                '\\' => {
                    letters.next();
                    continue;
                }
                '{' => braces += 1,
                '}' => braces = braces.saturating_sub(1),
                '<' => angles += 1,
                '>' => angles = angles.saturating_sub(1),
                '(' | '[' => others += 1,
                ')' | ']' => others = others.saturating_sub(1),
                _ => {}
            }
            return Some(mark);
        }
    })
}

/// The parts in front of the dot or `::` before the method and behind it; no type if there is
/// neither.
fn split(part: Part<'_>) -> (Option<Part<'_>>, Part<'_>) {
    let (mut dot, mut colons) = (None, None);
    for mark in marks(part.text).filter(Mark::is_outside) {
        let rest = part.text.get(mark.at..).unwrap_or_default();
        if rest.starts_with("::") {
            colons = Some(mark.at);
        }
        // Of two dots, as in `Type..ctor`, the second is part of the name.
        if mark.letter == '.' && dot.is_none_or(|before| before + 1 != mark.at) {
            dot = Some(mark.at);
        }
    }
    let length = part.text.len();
    match (colons, dot) {
        (Some(at), _) => (Some(part.cut(0, at)), part.cut(at + 2, length)),
        (None, Some(0)) | (None, None) => (None, part),
        (None, Some(at)) => (Some(part.cut(0, at)), part.cut(at + 1, length)),
    }
}

/// Turns `Name<*,*>` into ``Name`2``, or for a method into `Name` and 2.
fn generic(
    part: Part<'_>,
    is_method: bool,
) -> Result<(String, Option<u16>), (usize, PatternProblem)> {
    let mut out = String::with_capacity(part.text.len());
    let (mut copied, mut count) = (0, None);
    // The bracket that is open, and whether the name that it stands in begins with one: such names
    // are the compiler's.
    let (mut open, mut is_made, mut starts) = (None, false, true);
    for mark in marks(part.text) {
        let error = (part.at + mark.at, PatternProblem::TypeArguments);
        match mark.letter {
            '<' if starts => is_made = true,
            '<' if !is_made && open.is_none() => {
                if count.is_some() || (is_method && mark.braces > 0) {
                    return Err(error);
                }
                out.push_str(part.text.get(copied..mark.at).unwrap_or_default());
                open = Some(mark.at);
            }
            '<' if !is_made => return Err(error),
            '>' => {
                if let Some(from) = open.take() {
                    let arguments = part.text.get(from + 1..mark.at).unwrap_or_default();
                    let number = count_arguments(arguments)
                        .ok_or((part.at + from, PatternProblem::TypeArguments))?;
                    copied = mark.at + 1;
                    // Nothing of the name may follow, or it would be part of the number.
                    let next = part.text.get(copied..).and_then(|rest| rest.chars().next());
                    if next.is_some_and(|next| is_method || !".+,}".contains(next)) {
                        return Err((part.at + copied, PatternProblem::TypeArguments));
                    }
                    match is_method {
                        true => count = Some(number),
                        false => out.push_str(&format!("`{number}")),
                    }
                }
            }
            _ => {}
        }
        // A dot inside of a made name belongs to it, unless all its brackets are closed.
        starts = open.is_none() && ".+{,".contains(mark.letter) && (mark.angles == 0 || !is_made);
        if starts {
            is_made = false;
        }
    }
    if let Some(from) = open {
        return Err((part.at + from, PatternProblem::TypeArguments));
    }
    out.push_str(part.text.get(copied..).unwrap_or_default());
    Ok((out, count))
}

/// How many type arguments: each `*`, nothing, or what everybody calls a type parameter (`T`,
/// `TKey`).
fn count_arguments(text: &str) -> Option<u16> {
    let fits = |argument: &str| {
        let mut letters = argument.chars();
        matches!(argument, "" | "*" | "**")
            || (letters.next() == Some('T')
                && letters.next().is_none_or(char::is_uppercase)
                && letters.all(|letter| letter.is_alphanumeric() || letter == '_'))
    };
    text.split(',').map(str::trim).all(fits).then(|| u16::try_from(text.split(',').count()).ok())?
}

/// Reads `(…)`.
fn parameters(part: Part<'_>) -> Result<Box<[Pattern]>, (usize, PatternProblem)> {
    let last = marks(part.text).last();
    let Some(last) = last
        .filter(|mark| mark.letter == ')' && mark.at + 1 == part.text.len() && mark.others == 1)
    else {
        return Err((part.at, PatternProblem::Parameters));
    };
    let inner = part.cut(1, last.at);
    if inner.text.trim().is_empty() {
        return Ok(Box::default());
    }
    let mut all = Vec::new();
    let mut from = 0;
    let commas: Vec<usize> = marks(inner.text)
        .filter(|mark| mark.letter == ',' && mark.is_outside())
        .map(|mark| mark.at)
        .collect();
    for to in commas.into_iter().chain([inner.text.len()]) {
        let parameter = inner.cut(from, to).trim();
        if all.len() == MethodPattern::MAX_PARAMETERS {
            return Err((
                parameter.at,
                PatternProblem::TooManyParameters { most: MethodPattern::MAX_PARAMETERS },
            ));
        }
        parameter.pattern("parameter")?;
        all.push(read(&without_blanks(parameter.text), parameter)?);
        from = to + 1;
    }
    Ok(all.into())
}

/// Removes all blanks but that behind `ref`, `out` or `in`.
fn without_blanks(text: &str) -> Cow<'_, str> {
    let (word, rest) = match text.split_once(' ') {
        None => return Cow::Borrowed(text),
        Some((word @ ("ref" | "out" | "in"), rest)) => (word, rest),
        Some(_) => ("", text),
    };
    let blank = if word.is_empty() { "" } else { " " };
    Cow::Owned([word, blank, &rest.replace(char::is_whitespace, "")].concat())
}

/// Whether a parameter's type fits, in the form with keywords or in that with full names.
fn takes_type(wanted: &Pattern, name: &str) -> bool {
    let name = without_blanks(name);
    wanted.matches(&name) || with_full_names(&name).is_some_and(|name| wanted.matches(&name))
}

/// Writes full names for the keywords of C#; `None` if there are none.
fn with_full_names(name: &str) -> Option<String> {
    let mut out = String::new();
    let (mut copied, mut from) = (0, 0);
    let mut before = ' ';
    for (at, letter) in name.char_indices().chain([(name.len(), ' ')]) {
        if is_of_word(letter) {
            continue;
        }
        // What a dot stands in front of or behind is part of a longer name.
        let full =
            name.get(from..at).and_then(full_name).filter(|_| before != '.' && before != '+');
        if let Some(full) = full.filter(|_| letter != '.' && letter != '+') {
            out.push_str(name.get(copied..from).unwrap_or_default());
            out.push_str("System.");
            out.push_str(full);
            copied = at;
        }
        before = letter;
        from = at + letter.len_utf8();
    }
    out.push_str(name.get(copied..).unwrap_or_default());
    (copied > 0).then_some(out)
}

fn is_of_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// What a keyword of C# stands for, in the namespace `System`.
pub(crate) fn full_name(keyword: &str) -> Option<&'static str> {
    Some(match keyword {
        "bool" => "Boolean",
        "byte" => "Byte",
        "char" => "Char",
        "decimal" => "Decimal",
        "double" => "Double",
        "float" => "Single",
        "int" => "Int32",
        "long" => "Int64",
        "nint" => "IntPtr",
        "nuint" => "UIntPtr",
        "object" => "Object",
        "sbyte" => "SByte",
        "short" => "Int16",
        "string" => "String",
        "uint" => "UInt32",
        "ulong" => "UInt64",
        "ushort" => "UInt16",
        "void" => "Void",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn methods(text: &str) -> MethodPattern {
        MethodPattern::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn texts_are_split_into_parts() {
        for (text, assembly, type_name, method) in [
            ("A.B.Load", "*", "A.B", "Load"),
            ("A!A.*.{Load,Save}*", "A", "A.*", "{Load,Save}*"),
            ("{A,B}.{x.y,z}", "*", "{A,B}", "{x.y,z}"),
            ("Load", "*", "*", "Load"),
            ("*", "*", "*", "*"),
            ("A!*", "A", "*", "*"),
            ("A.B..ctor", "*", "A.B", ".ctor"),
            ("A.B..c{,c}tor", "*", "A.B", ".c{,c}tor"),
            ("A.B.{.ctor,Load}", "*", "A.B", "{.ctor,Load}"),
            (".cctor", "*", "*", ".cctor"),
            ("A.Outer+Inner.Run", "*", "A.Outer+Inner", "Run"),
            ("A.B::System.IDisposable.Dispose", "*", "A.B", "System.IDisposable.Dispose"),
            (r"A.B.System\.IDisposable\.Dispose", "*", "A.B", r"System\.IDisposable\.Dispose"),
            ("A.**", "*", "A{,.*,+*}", "*"),
            ("A.List<*>.**", "*", "A.List`1{,.*,+*}", "*"),
            ("A.List<*>.Add", "*", "A.List`1", "Add"),
            ("A.Map<TKey, TValue>+Entry<>.Add", "*", "A.Map`2+Entry`1", "Add"),
            ("A.{Map<,>,Set<T>}.Add", "*", "A.{Map`2,Set`1}", "Add"),
            ("A.List`1.Add", "*", "A.List`1", "Add"),
            ("Program.<Main>$", "*", "Program", "<Main>$"),
            ("Program+<>c.<Main>b__0_0", "*", "Program+<>c", "<Main>b__0_0"),
            ("Program+<<Main>$>d__0.MoveNext", "*", "Program+<<Main>$>d__0", "MoveNext"),
            (r"A.*\<Load>d__*.MoveNext", "*", r"A.*\<Load>d__*", "MoveNext"),
        ] {
            let methods = methods(text);
            let parts = [&methods.assembly, &methods.type_name, &methods.method];
            assert_eq!(parts.map(Pattern::as_str), [assembly, type_name, method], "{text}");
            assert_eq!(methods.to_string(), text);
        }
    }

    #[test]
    fn everything_below_is_types_and_methods() {
        let methods = methods("My.Orders.**");
        for name in ["My.Orders", "My.Orders.Service", "My.Orders.Deep.Er", "My.Orders+Inner"] {
            assert!(methods.type_name.matches(name), "{name}");
        }
        assert!(!methods.type_name.matches("My.OrdersOld"));
    }

    fn overload(text: &str, type_parameters: u16, parameters: &[&str]) -> bool {
        let signature = Some(Signature { type_parameters, parameters });
        methods(text).takes(&MethodFacts { name: "M", signature, attributes: None }, false)
    }

    #[test]
    fn overloads_are_told_apart() {
        assert!(overload("M", 0, &["int"]));
        assert!(overload("M", 2, &[]));
        assert!(overload("M<*,*>", 2, &[]));
        assert!(!overload("M<T>", 2, &[]));
        assert!(overload("M()", 0, &[]));
        assert!(!overload("M()", 0, &["int"]));
        assert!(overload("M(string, int)", 0, &["string", "int"]));
        assert!(!overload("M(string,int)", 0, &["int", "string"]));
        assert!(overload("M(*,*)", 0, &["int", "string"]));
        assert!(overload("M<T>(T,{int,long})", 1, &["T", "long"]));
        assert!(overload("M(int[,],string[])", 0, &["int[,]", "string[]"]));
        assert!(overload("M(ref int, out  My.Order)", 0, &["ref int", "out My.Order"]));
        assert!(overload(
            "M(*.Dictionary<string,int>)",
            0,
            &["System.Collections.Generic.Dictionary<string, int>"]
        ));
        assert!(!overload("N(int)", 0, &["int"]));
    }

    #[test]
    fn keywords_and_full_names_are_the_same() {
        for name in ["int", "System.Int32"] {
            assert!(overload("M(System.Int32)", 0, &[name]));
            assert!(overload("M(System.*)", 0, &[name]));
        }
        assert!(overload("M(System.Int32[])", 0, &["int[]"]));
        assert!(overload("M(ref System.String)", 0, &["ref string"]));
        assert!(overload("M(My.List<System.String,System.Int64>)", 0, &["My.List<string, long>"]));
        assert_eq!(with_full_names("My.int"), None);
        assert_eq!(with_full_names("int.My"), None);
        assert_eq!(with_full_names("printer"), None);
    }

    #[test]
    fn what_is_unknown_is_not_guessed() {
        let facts = MethodFacts { name: "M", signature: None, attributes: None };
        assert!(methods("M").takes(&facts, false));
        assert!(!methods("M(int)").takes(&facts, false));
        assert!(methods("M(int)").takes(&facts, true));
    }

    #[test]
    fn broken_texts_tell_where() {
        use PatternProblem as Problem;
        for (text, position, problem) in [
            ("", 1, Problem::Empty),
            ("!A.B", 1, Problem::Missing { part: "assembly" }),
            ("A!", 3, Problem::Missing { part: "method" }),
            ("A.", 3, Problem::Missing { part: "method" }),
            ("::M", 1, Problem::Missing { part: "type" }),
            ("A.B(int", 4, Problem::Parameters),
            ("A.B(int)x", 4, Problem::Parameters),
            ("A.B(int,)", 9, Problem::Missing { part: "parameter" }),
            ("A.{B", 3, Problem::Unclosed),
            ("A!B.C({int)", 7, Problem::Unclosed),
            ("List<int>.Add", 5, Problem::TypeArguments),
            ("List<*.Add", 5, Problem::TypeArguments),
            ("List<*>s.Add", 8, Problem::TypeArguments),
            ("List<List<*>>.Add", 10, Problem::TypeArguments),
            ("A.{B<*>,C}", 5, Problem::TypeArguments),
            ("A.*<Load>d__0.M", 4, Problem::TypeArguments),
        ] {
            let error = MethodPattern::parse(text).unwrap_err();
            assert_eq!((error.position, error.problem), (position, problem), "{text}");
        }
        let many = format!("M({}int)", "int,".repeat(64));
        assert!(matches!(
            MethodPattern::parse(&many).unwrap_err().problem,
            Problem::TooManyParameters { most: MethodPattern::MAX_PARAMETERS }
        ));
        assert!(MethodPattern::parse(&"a.".repeat(500_000)).is_err());
    }

    #[test]
    fn covering_goes_by_all_parts() {
        for (wide, narrow) in
            [("*", "A!B.C(int)"), ("A.*.M*", "X!A.B.Ma()"), ("M(*)", "M(int)"), ("M", "M<*>")]
        {
            assert!(methods(wide).covers(&methods(narrow)), "{wide} {narrow}");
            assert!(!methods(narrow).covers(&methods(wide)), "{narrow} {wide}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in r"[aT*?{},\\!()<>:.+`\[\]é ]{0,24}") {
            if let Ok(methods) = MethodPattern::parse(&text) {
                prop_assert_eq!(methods.as_str(), &text);
                prop_assert!(methods.covers(&methods));
            }
        }

        #[test]
        fn escaped_names_are_found_again(
            names in prop::array::uniform3(r"[a*?{},\\!()<>:.+`é]{1,12}"), parameter in r"[a*?{},\\!()<>:.+`é]{1,9}"
        ) {
            let [assembly, type_name, name] = &names;
            let text = format!(
                "{}!{}::{}({})",
                Pattern::escape(assembly), Pattern::escape(type_name), Pattern::escape(name), Pattern::escape(&parameter)
            );
            let methods = methods(&text);
            prop_assert_eq!(methods.assembly.as_literal(), Some(assembly.as_str()));
            prop_assert_eq!(methods.type_name.as_literal(), Some(type_name.as_str()));
            prop_assert_eq!(methods.method.as_literal(), Some(name.as_str()));
            prop_assert_eq!(methods.parameters.as_deref().and_then(|all| all[0].as_literal()), Some(parameter.as_str()));
        }
    }
}
