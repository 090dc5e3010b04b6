//! `cargo xtask words`: finds words in pages, help, errors, reports and comments that a .NET
//! engineer does not know, and says which to use.
//!
//! Searched are the prose of Markdown pages, all string literals of the crates, all comments, and
//! the sources of the web pages as a whole. Code in Markdown and comments, and the strings of tests
//! are not.

use crate::tool::files;
use anyhow::{Context, Result, ensure};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use regex::{Regex, RegexBuilder};
use std::fs;
use std::path::Path;
use testkit::source_root;

/// Words that are not the field's, as regular expressions, and what to say instead. Case does not
/// count.
const WORDS: &[(&str, &str)] = &[
    (
        r"(\b(a|one|each|every|the|first|second|last|next|no|two|three|between|per|both)|\{\w*\}) looks?( [^l]|[^ \w]|$)",
        "snapshot",
    ),
    (r"\b(look to look|looks? at (the heap|less))\b", "snapshot"),
    (r"--looks?\b|\b(not_)?looked_at\b", "snapshot"),
    (r"\bthe world\b", "the runtime"),
    (r"\b(stands?|stood|standing) still\b|\bstandstill\b", "is suspended, pauses"),
    (
        r"\b(is|are|was|were|be|being|been|not) told( [^a]|[^ \w]|$)|\btold (singly|of)\b|\btells? of\b",
        "is reported, reports",
    ),
    (
        r"\bpatterns? takes?\b|\bmethods taken\b|\b(no|a|that) rule takes\b",
        "matches, methods that match",
    ),
    (r"\b(put|puts|putting|takes?|taken|taking) back\b", "revert, reverted"),
    (r"\basked for by the program\b", "induced"),
    (r"\b(goes|go|went|going) on\b", "continues, resumes"),
    (r"\blets? (it |them )?go\b", "releases, detaches"),
    (r"\b(can|cannot|could|to) be had\b", "is available, is unavailable: reason"),
    (r"\b(for|of which) a part of the time\b", "recorded in windows"),
    (r"\bhow far off\b", "accuracy"),
    (r"\bcase are one\b", "case-insensitive"),
    (
        r"\bheld by nothing\b|\bwho holds\b|\bwhat holds\b",
        "unreachable, retained by, retention path",
    ),
    (r"\bby chance\b", "randomly sampled"),
    (r"\bat the most\b|\bone in so many\b|\bso many\b", "at most N, 1 in N, N"),
    (r"\bopened for additions\b", "extended"),
    (r"\bneeds the (runtime's )?one (main )?slot\b", "main profiler slot"),
    (r"\ban agent that stays\b", "resident agent"),
    (r"\bgave nothing\b", "returned nothing"),
    (r"\bcount nowhere\b", "are excluded and listed"),
];

/// Checks all texts.
///
/// # Errors
/// Where one of the words is found: each place, and what to say there.
pub fn check() -> Result<()> {
    let words = Words::new()?;
    let mut found = Vec::new();
    let root = source_root();
    for path in files(&root, "md")? {
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        found.extend(words.in_all(&root, &path, &prose(&text)));
    }
    for path in files(&root.join("crates"), "rs")? {
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        found.extend(words.in_all(&root, &path, &comments(&text)));
        if is_source(&path) {
            let texts = literals(&text).with_context(|| path.display().to_string())?;
            found.extend(words.in_all(&root, &path, &texts));
        }
    }
    for extension in ["ts", "tsx"] {
        for path in files(&root.join("web/src"), extension)? {
            let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.to_owned()));
            found.extend(words.in_all(&root, &path, &lines.collect::<Vec<_>>()));
        }
    }
    found.iter().for_each(|line| println!("{line}"));
    ensure!(
        found.is_empty(),
        "{} texts have words that a .NET engineer does not know",
        found.len()
    );
    println!(
        "words: none of {} private words is in a page, help, error, report or comment",
        WORDS.len()
    );
    Ok(())
}

/// The words, ready to be searched for.
struct Words(Vec<(Regex, &'static str)>);

impl Words {
    fn new() -> Result<Words> {
        let compile = |(pattern, instead): &(&str, &'static str)| {
            let regex = RegexBuilder::new(pattern).case_insensitive(true).build();
            regex.map(|regex| (regex, *instead)).with_context(|| pattern.to_string())
        };
        WORDS.iter().map(compile).collect::<Result<_>>().map(Words)
    }

    /// What is found in a text: the words, and what to say instead.
    fn find<'t>(&self, text: &'t str) -> Vec<(&'t str, &'static str)> {
        let find = |(regex, instead): &(Regex, &'static str)| {
            regex.find(text).map(|found| (found.as_str(), *instead))
        };
        self.0.iter().filter_map(find).collect()
    }

    fn in_all(&self, root: &Path, path: &Path, texts: &[(usize, String)]) -> Vec<String> {
        let path = path.strip_prefix(root).unwrap_or(path).display();
        let of_one = |(line, text): &(usize, String)| {
            let found = self.find(text).into_iter();
            found
                .map(|(word, say)| format!("{path}:{line}: \"{}\": say: {say}", word.trim()))
                .collect::<Vec<_>>()
        };
        texts.iter().flat_map(of_one).collect()
    }
}

/// Whether a file is a part of a program and no test.
fn is_source(path: &Path) -> bool {
    let has = |part: &str| path.components().any(|component| component.as_os_str() == part);
    has("src") && !has("testkit") && path.file_name().is_none_or(|name| name != "tests.rs")
}

/// The lines of a page without code, which quotes.
fn prose(page: &str) -> Vec<(usize, String)> {
    let mut is_code = false;
    let mut lines = Vec::new();
    for (index, line) in page.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code && !line.starts_with("    ") {
            let outside = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
            lines.push((index + 1, outside));
        }
    }
    lines
}

/// The comments of a source file, each with the line where it begins, without the code in them. One
/// comment is all lines that stand together, because a phrase may continue on the next line.
fn comments(source: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut is_within = false;
    for (index, line) in source.lines().enumerate() {
        let Some(text) = line.trim_start().strip_prefix("//") else {
            is_within = false;
            continue;
        };
        let text = text.trim_start_matches(['/', '!']).trim();
        match found.last_mut().filter(|_| is_within) {
            Some((_, whole)) => {
                whole.push(' ');
                whole.push_str(text);
            }
            None => found.push((index + 1, text.to_owned())),
        }
        is_within = true;
    }
    for (_, text) in &mut found {
        *text = text.split('`').step_by(2).collect::<Vec<_>>().join("`");
    }
    found
}

/// The string literals of a source file, with their lines.
fn literals(source: &str) -> Result<Vec<(usize, String)>> {
    let tokens: TokenStream = source.parse().map_err(|error| anyhow::anyhow!("{error}"))?;
    let mut found = Vec::new();
    collect(tokens, &mut found);
    Ok(found)
}

fn collect(tokens: TokenStream, found: &mut Vec<(usize, String)>) {
    let mut is_test = false;
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            // An attribute: `#[…]`. A doc comment is one as well.
            TokenTree::Punct(punct) if punct.as_char() == '#' => {
                if let Some(TokenTree::Punct(inner)) = tokens.peek()
                    && inner.as_char() == '!'
                {
                    tokens.next();
                }
                let Some(TokenTree::Group(group)) = tokens.next() else { continue };
                let text = group.stream().to_string();
                is_test |= text == "cfg (test)" || text == "cfg(test)" || text == "test";
                if !text.starts_with("doc") {
                    collect(group.stream(), found);
                }
            }
            // The body of what an attribute says is a test.
            TokenTree::Group(group) if is_test && group.delimiter() == Delimiter::Brace => {
                is_test = false
            }
            TokenTree::Group(group) => collect(group.stream(), found),
            TokenTree::Punct(punct) if punct.as_char() == ';' => is_test = false,
            TokenTree::Literal(literal) => {
                let text = literal.to_string();
                if text.starts_with('"') || text.starts_with("r\"") || text.starts_with("r#") {
                    // A line that ends in a backslash continues in the next one.
                    let text =
                        text.replace("\\\n", " ").split_whitespace().collect::<Vec<_>>().join(" ");
                    found.push((literal.span().start().line, text));
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_words_are_found_and_plain_ones_are_not() {
        let words = Words::new().unwrap();
        let found = |text: &str| !words.find(text).is_empty();
        for text in [
            "types that grow from look to look",
            "The world stood still 4 times",
            "methods that a pattern takes",
            "let it go on",
            "Goes on without it",
            "{n} looks",
            "of 5,000 per second at the most",
        ] {
            assert!(found(text), "{text}");
        }
        for text in [
            "clrscope looks for the file",
            "Look at the report",
            "The runtime is suspended",
            "at most 5,000",
            "backtrace",
        ] {
            assert!(!found(text), "{text}: {:?}", words.find(text));
        }
    }

    #[test]
    fn pages_without_their_code() {
        let page = "Say `--look` here.\n```\nthe world\n```\n    the world\nthe end";
        assert_eq!(prose(page), [(1, "Say ` here.".to_owned()), (6, "the end".to_owned())]);
    }

    #[test]
    fn literals_without_tests_and_comments() {
        let source = "/// Help.\nfn a() { print(\"one \\\n two\"); }\n// \"no\"\n#[cfg(test)]\n\
                      mod tests { const A: &str = \"no\"; }\n\
                      const B: &str = r#\"three\"#;";
        let texts = literals(source).unwrap().into_iter().map(|(_, text)| text);
        assert_eq!(texts.collect::<Vec<_>>(), ["\"one two\"", "r#\"three\"#"]);
    }

    #[test]
    fn comments_are_joined_and_lose_their_code() {
        let source = "//! One\n//! two `code`.\n\nfn a() {\n    // Three.\n}\n";
        assert_eq!(comments(source), [(1, "One two `.".to_owned()), (5, "Three.".to_owned())]);
    }
}
