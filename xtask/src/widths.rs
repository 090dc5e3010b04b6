//! How wide lines are: prose and comments wrap at 100 columns.
//!
//! Checked are the pages for users and for people who work on clrscope, and all comments. Tables,
//! code, pictures, and what a command writes into a page are as wide as they are. So is a line that
//! cannot be broken, because it is one word, a link, or code.

use crate::tool;
use anyhow::{Context, Result};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// How many columns a line may have.
pub const COLUMNS: usize = 100;

/// A page that a command writes as a whole.
const WRITTEN: &str = "docs/api.md";

/// Every line that is too wide, with its place.
///
/// # Errors
/// When a file cannot be read.
pub fn problems(root: &Path) -> Result<Vec<String>> {
    let mut pages: Vec<PathBuf> =
        ["README.md", "CONTRIBUTING.md"].map(|page| root.join(page)).into();
    pages.extend(tool::files(&root.join("docs"), "md")?);
    pages.retain(|page| *page != root.join(WRITTEN));
    let mut problems = Vec::new();
    let mut check = |path: &Path, wide: fn(&str) -> Vec<(usize, usize)>| -> Result<()> {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let path = path.strip_prefix(root).unwrap_or(path).display();
        problems.extend(wide(&text).into_iter().map(|(line, columns)| {
            format!("{path}:{line}: {columns} columns, more than {COLUMNS}")
        }));
        Ok(())
    };
    for page in &pages {
        check(page, in_page)?;
    }
    for source in tool::files(root, "rs")? {
        check(&source, in_comments)?;
    }
    Ok(problems)
}

/// Lines of the prose of a page that are too wide, with their columns.
fn in_page(page: &str) -> Vec<(usize, usize)> {
    let (mut is_code, mut is_written) = (false, false);
    let mut found = Vec::new();
    for (index, line) in page.lines().enumerate() {
        let text = line.trim_start();
        if text.starts_with("<!--") {
            is_written = text.contains("written by");
        } else if text.starts_with("```") {
            is_code = !is_code;
        } else if !is_code
            && !is_written
            && !line.starts_with("    ")
            && !["|", "#", "![", "<"].iter().any(|start| text.starts_with(start))
        {
            found.extend(too_wide(line).map(|columns| (index + 1, columns)));
        }
    }
    found
}

/// Comments of a source file that are too wide, with their columns. Code within them counts like
/// code.
fn in_comments(source: &str) -> Vec<(usize, usize)> {
    let mut is_code = false;
    let mut found = Vec::new();
    for (index, line) in source.lines().enumerate() {
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            is_code = false;
            continue;
        };
        let text = comment.trim_start_matches(['/', '!']).trim_start();
        if text.starts_with("```") {
            is_code = !is_code;
        } else if !is_code && !text.starts_with('|') {
            found.extend(too_wide(line).map(|columns| (index + 1, columns)));
        }
    }
    found
}

/// The columns of a line, if it has too many and could be broken.
fn too_wide(line: &str) -> Option<usize> {
    let columns = line.chars().count();
    if columns <= COLUMNS {
        return None;
    }
    // Marks of lists and comments are no words.
    let text = line.trim_start_matches(|char: char| !char.is_alphanumeric() && char != '`');
    let (mut is_code, mut is_target) = (false, false);
    let mut before = ' ';
    let can_break = text.trim_end().chars().any(|char| {
        match char {
            '`' => is_code = !is_code,
            '(' if before == ']' => is_target = true,
            ')' => is_target = false,
            _ => {}
        }
        before = char;
        char == ' ' && !is_code && !is_target
    });
    can_break.then_some(columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_prose_is_found() {
        let wide = "a word and ".repeat(10);
        let page = format!("Short.\n\n{wide}\n\n* {wide}\n");
        assert_eq!(in_page(&page), [(3, 110), (5, 112)]);
        assert_eq!(in_page(&"é ".repeat(49)), []);
    }

    #[test]
    fn tables_code_and_what_is_written_by_a_command_may_be_wide() {
        let wide = "a word and ".repeat(10);
        for page in [
            format!("| {wide} |\n"),
            format!("```sh\n{wide}\n```\n"),
            format!("    {wide}\n"),
            format!("![{wide}](a.png)\n"),
            format!("<!-- written by `cargo xtask a` -->\n{wide}\n<!-- end -->\n"),
        ] {
            assert_eq!(in_page(&page), [], "{page}");
        }
        let after = format!("```sh\n```\n<!-- written by a -->\n<!-- end -->\n{wide}\n");
        assert_eq!(in_page(&after), [(5, 110)]);
    }

    #[test]
    fn what_cannot_be_broken_may_be_wide() {
        let long = "x".repeat(100);
        assert_eq!(in_page(&format!("* [word](https://{long})\n")), []);
        assert_eq!(in_page(&format!("`cargo {long}`\n")), []);
        assert_eq!(in_page(&format!("See [word](https://{long})\n")).len(), 1);
        assert_eq!(in_page(&format!("[word](https://{long}) here\n")).len(), 1);
    }

    #[test]
    fn comments_count_and_code_does_not() {
        let wide = "a word and ".repeat(10);
        let source =
            format!("//! {wide}\nlet a = \"{wide}\";\n    // {wide}\n/// ```\n/// {wide}\n");
        let lines: Vec<_> = in_comments(&source).into_iter().map(|(line, _)| line).collect();
        assert_eq!(lines, [1, 3]);
    }
}
