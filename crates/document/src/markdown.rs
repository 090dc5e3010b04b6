//! Documents for issues and chats.

use std::{io, io::Write};

use crate::{Block, Cell, Document, Table, plain, text};

/// Writes a document as GitHub Flavored Markdown.
///
/// # Errors
/// When the output fails.
pub fn write(document: &Document, out: &mut dyn Write) -> io::Result<()> {
    let mut number = 0;
    for (index, section) in document.sections.iter().enumerate() {
        let title = escape(&section.title);
        let title = match section.badge {
            Some(badge) => {
                number += 1;
                format!("{number}. {title} ({badge})")
            }
            None => title,
        };
        match index {
            0 => writeln!(out, "# {title}")?,
            _ => writeln!(out, "\n## {title}")?,
        }
        for sentence in &section.lead {
            writeln!(out, "\n{}", escape(sentence))?;
        }
        for part in section.blocks.iter().filter(|part| !matches!(part, Block::Figure(_))) {
            writeln!(out)?;
            match part {
                Block::Table(table) => write_table(table, out)?,
                Block::Tree(tree) => {
                    let lines: Vec<String> = text::lines(tree).collect();
                    block("text", &lines.join("\n"), out)?;
                    write_more(tree.more, out)?;
                }
                Block::Code(code) => block(code.language, &code.text, out)?,
                Block::Figure(_) => {}
            }
        }
    }
    Ok(())
}

/// Makes text plain: what Markdown or HTML would act on is escaped, line breaks become spaces.
pub(crate) fn escape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for character in plain::visible(&text.replace(['\n', '\r'], " ")).chars() {
        match character {
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '#' | '~' => {
                plain.extend(['\\', character])
            }
            '&' => plain.push_str("&amp;"),
            character => plain.push(character),
        }
    }
    plain
}

/// Lines as they are, between as many backticks as they need.
fn block(language: &str, text: &str, out: &mut dyn Write) -> io::Result<()> {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let ticks = "`".repeat((longest + 1).max(3));
    writeln!(out, "{ticks}{language}")?;
    for line in text.trim_end().lines() {
        writeln!(out, "{}", plain::visible_lines(line))?;
    }
    writeln!(out, "{ticks}")
}

/// Code between as many backticks as it needs.
pub(crate) fn code(text: &str) -> String {
    // A bar would end the cell even within code.
    let text = plain::visible(text).replace('|', "\\|");
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let ticks = "`".repeat(longest + 1);
    match text.starts_with('`') || text.ends_with('`') {
        true => format!("{ticks} {text} {ticks}"),
        false => format!("{ticks}{text}{ticks}"),
    }
}

fn write_table(table: &Table, out: &mut dyn Write) -> io::Result<()> {
    // Bars and lines are for terminals; their numbers stand beside them.
    let is_drawn =
        |column: usize| table.rows.iter().any(|row| row.get(column).is_some_and(Cell::is_drawn));
    let drawn: Vec<bool> = (0..table.columns.len()).map(is_drawn).collect();
    let columns = || table.columns.iter().zip(&drawn).filter(|(_, drawn)| !**drawn);
    let titles: Vec<_> = columns().map(|(column, _)| escape(&column.title)).collect();
    writeln!(out, "| {} |", titles.join(" | "))?;
    let rules: Vec<_> =
        columns().map(|(column, _)| if column.right { "---:" } else { "---" }).collect();
    writeln!(out, "| {} |", rules.join(" | "))?;
    for row in &table.rows {
        let cells: Vec<_> = row.iter().zip(&drawn).filter(|(_, drawn)| !**drawn).collect();
        let cells: Vec<_> = cells.into_iter().map(|(cell, _)| cell_of(cell)).collect();
        writeln!(out, "| {} |", cells.join(" | "))?;
    }
    write_more(table.more, out)
}

fn cell_of(cell: &Cell) -> String {
    let (forms, place) = match cell {
        Cell::Name { forms, place } => (forms, place),
        Cell::Weak(cell) => return cell_of(cell),
        cell => return escape(&cell.shown()),
    };
    let name = forms.first().filter(|name| !name.is_empty());
    let name = name.map(|name| code(name)).unwrap_or_default();
    match place {
        Some(place) => format!("{name} {}", escape(place)),
        None => name,
    }
}

fn write_more(more: usize, out: &mut dyn Write) -> io::Result<()> {
    match more {
        0 => Ok(()),
        more => writeln!(out, "\n… {} more", crate::format::count(more as u64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_what_they_are() {
        assert_eq!(escape("List<int> | a_b\n`c`"), "List\\<int\\> \\| a\\_b \\`c\\`");
        assert_eq!(code("List`1.Add(T)"), "``List`1.Add(T)``");
        assert_eq!(code("`x"), "`` `x ``");
        assert_eq!(code("a|b"), "`a\\|b`");
    }

    #[test]
    fn lines_end_no_block() {
        let mut out = Vec::new();
        block("text", "a\n````\nb \u{1b}[2J\n", &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "`````text\na\n````\nb \\u{1b}[2J\n`````\n");
    }
}
