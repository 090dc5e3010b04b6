//! `cargo xtask sizes`: no function is longer than 80 lines, and no source file is longer than 600
//! without a reason. No line of prose or of a comment is wider than 100 columns ([`widths`]).
//!
//! The lines of a function are those from `fn` to the closing brace. A file that has to be longer,
//! because it is a table or a codec, says so in its leading comment, in a line that begins with
//! [`REASON`].
//!
//! Tests do not count: neither files of tests, nor functions of tests, nor the lines of items under
//! `#[cfg(test)]`. They stay with the code that they test. Examples do not count either: each is
//! one file that is read from top to bottom.

use crate::{tool, widths};
use anyhow::{Context, Result, ensure};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;
use testkit::source_root;

/// How many lines a function may have.
const FUNCTION: usize = 80;

/// How many lines a source file may have without a reason.
const FILE: usize = 600;

/// What precedes the reason why a file is longer.
const REASON: &str = "Over 600 lines:";

/// What is too long in one file.
#[derive(Debug, Default, PartialEq, Eq)]
struct TooLong {
    /// Functions: their names, where they begin, and their lines.
    functions: Vec<(String, usize, usize)>,
    /// The lines of the file.
    file: Option<usize>,
}

/// Checks all source files of all crates.
///
/// # Errors
/// When something is too long.
pub fn check() -> Result<()> {
    let root = source_root();
    let mut problems = Vec::new();
    for path in tool::files(&root, "rs")?.iter().filter(|path| is_source(path)) {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let too_long = TooLong::of(&text).with_context(|| path.display().to_string())?;
        let path = path.strip_prefix(&root).unwrap_or(path).display();
        problems.extend(too_long.functions.into_iter().map(|(name, line, lines)| {
            format!("{path}:{line}: {name} has {lines} lines, more than {FUNCTION}")
        }));
        problems.extend(too_long.file.map(|lines| {
            format!("{path}: {lines} lines, more than {FILE}, and no reason (`{REASON} …`)")
        }));
    }
    problems.extend(widths::problems(&root)?);
    ensure!(problems.is_empty(), "too long:\n  {}", problems.join("\n  "));
    println!(
        "sizes: no function has more than {FUNCTION} lines, no file more than {FILE}, and no prose \
        more than {} columns",
        widths::COLUMNS
    );
    Ok(())
}

/// Whether a file is a part of a program: no test and no example.
fn is_source(path: &Path) -> bool {
    path.components().any(|component| component.as_os_str() == "src")
        && path.file_name().is_none_or(|name| name != "tests.rs")
}

impl TooLong {
    fn of(source: &str) -> Result<TooLong> {
        let tokens: TokenStream = source.parse().map_err(|error| anyhow::anyhow!("{error}"))?;
        let mut seen = Seen::default();
        seen.read(tokens);
        let tests: usize = seen.tests.into_iter().map(Iterator::count).sum();
        let lines = source.lines().count() - tests;
        let head = source.lines().take_while(|line| line.starts_with("//"));
        let mut head = head.map(|line| line.trim_start_matches(['/', '!', ' ']));
        let functions = seen.functions.into_iter();
        let functions = functions.map(|(name, lines)| (name, *lines.start(), lines.count()));
        Ok(TooLong {
            functions: functions.filter(|(.., lines)| *lines > FUNCTION).collect(),
            file: (lines > FILE && !head.any(|line| line.starts_with(REASON))).then_some(lines),
        })
    }
}

/// What a source file consists of, in lines.
#[derive(Default)]
struct Seen {
    functions: Vec<(String, RangeInclusive<usize>)>,
    tests: Vec<RangeInclusive<usize>>,
}

impl Seen {
    fn read(&mut self, tokens: TokenStream) {
        let mut test: Option<usize> = None;
        let mut function: Option<(String, usize)> = None;
        let mut tokens = tokens.into_iter().peekable();
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == '#' => {
                    if let Some(TokenTree::Group(group)) = tokens.peek()
                        && is_test(&group.stream().to_string())
                    {
                        test.get_or_insert(punct.span().start().line);
                    }
                }
                TokenTree::Punct(punct) if punct.as_char() == ';' => {
                    let end = punct.span().end().line;
                    self.tests.extend(test.take().map(|start| start..=end));
                    function = None;
                }
                // The type of a function has no name.
                TokenTree::Ident(ident) if ident == "fn" => {
                    let name = tokens.peek().filter(|next| !matches!(next, TokenTree::Group(_)));
                    let line = ident.span().start().line;
                    function = function.or(name.map(|name| (name.to_string(), line)));
                }
                TokenTree::Group(group) => {
                    let end = group.span_close().end().line;
                    let is_body = group.delimiter() == Delimiter::Brace;
                    if let Some(start) = test.take_if(|_| is_body) {
                        self.tests.push(start..=end);
                        function = None;
                        continue;
                    }
                    if let Some((name, start)) = function.take_if(|_| is_body) {
                        self.functions.push((name, start..=end));
                    }
                    self.read(group.stream());
                }
                _ => {}
            }
        }
    }
}

/// Whether an attribute says that an item is for tests only.
fn is_test(attribute: &str) -> bool {
    let attribute: String = attribute.split_whitespace().collect();
    attribute == "test" || attribute == "cfg(test)" || attribute.starts_with("cfg(all(test,")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(name: &str, lines: usize) -> String {
        format!("fn {name}() {{\n{}}}\n", "    work();\n".repeat(lines - 2))
    }

    #[test]
    fn long_functions_are_found() {
        let source =
            format!("{}impl A {{\n{}}}\n", function("short", FUNCTION), function("long", 81));
        let found = TooLong::of(&source).unwrap();
        assert_eq!(found.functions, [("long".to_owned(), FUNCTION + 2, 81)]);
        assert_eq!(found.file, None);
    }

    #[test]
    fn a_signature_counts_and_a_type_is_no_function() {
        let body = "work();\n".repeat(78);
        let source = format!("fn long<A>(\n    call: fn(A) -> [u8; 2],\n) -> A {{\n{body}}}\n");
        assert_eq!(TooLong::of(&source).unwrap().functions, [("long".to_owned(), 1, 82)]);
        let source = format!("trait A {{ fn declared(); }}\nconst A: &[fn()] = &{{\n{body}}};\n");
        assert_eq!(TooLong::of(&source).unwrap().functions, []);
    }

    #[test]
    fn functions_of_macros_count() {
        let source =
            format!("macro_rules! made {{ () => {{ {} }} }}\n", function("$name", FUNCTION + 1));
        assert_eq!(TooLong::of(&source).unwrap().functions.len(), 1);
    }

    #[test]
    fn a_long_file_needs_a_reason() {
        let long = "const A: u8 = 0;\n".repeat(FILE + 1);
        assert_eq!(TooLong::of(&long).unwrap().file, Some(FILE + 1));
        let short = "const A: u8 = 0;\n".repeat(FILE);
        assert_eq!(TooLong::of(&short).unwrap().file, None);
        let reason = format!("//! Opcodes.\n//!\n//! {REASON} a table.\n\n{long}");
        assert_eq!(TooLong::of(&reason).unwrap().file, None);
        let late = format!("{long}// {REASON} a table.\n");
        assert!(TooLong::of(&late).unwrap().file.is_some());
    }

    #[test]
    fn tests_do_not_count() {
        let code = "const A: u8 = 0;\n".repeat(FILE);
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", function("long", 100));
        assert_eq!(TooLong::of(&format!("{code}{tests}")).unwrap(), TooLong::default());
        let tests = "#[cfg(test)]\n#[path = \"tests.rs\"]\nmod tests;\n";
        assert_eq!(TooLong::of(&format!("{code}{tests}")).unwrap(), TooLong::default());
        let test = format!("#[test]\n{}", function("long", 100));
        assert_eq!(TooLong::of(&test).unwrap(), TooLong::default());
        let other = format!("#[cfg(unix)]\n{}", function("long", 100));
        assert_eq!(TooLong::of(&other).unwrap().functions.len(), 1);
    }
}
