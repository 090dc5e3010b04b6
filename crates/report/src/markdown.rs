use std::io::Write;

use profile::Profile;

use crate::{
    Exporter, Options, ReportError, plain,
    views::{Cell, Part, Table, parts},
};

pub const EXPORTER: Exporter = Exporter {
    id: "markdown",
    extension: "md",
    summary: "the same as text, for issues and chats",
    binary: false,
    single_samples: false,
    snapshots: true,
    render,
};

fn render(profile: &Profile, options: &Options, out: &mut dyn Write) -> Result<(), ReportError> {
    for (index, part) in parts(profile, options).iter().enumerate() {
        let section = match part {
            Part::Section(section) => section,
            Part::Snapshots(section) => {
                writeln!(out, "\n## {}\n", escape(section.title))?;
                block(&section.text, out)?;
                continue;
            }
        };
        match index {
            0 => writeln!(out, "# {}", escape(&section.title))?,
            _ => writeln!(out, "\n## {}", escape(&section.title))?,
        }
        for sentence in &section.lead {
            writeln!(out, "\n{}", escape(sentence))?;
        }
        for table in &section.tables {
            writeln!(out)?;
            render_table(table, out)?;
        }
    }
    Ok(())
}

/// Makes text plain: what Markdown or HTML would act on is escaped, line breaks become spaces.
pub(crate) fn escape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for character in plain::visible(&text.replace(['\n', '\r'], " ")).chars() {
        match character {
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '#' | '~' => plain.extend(['\\', character]),
            '&' => plain.push_str("&amp;"),
            character => plain.push(character),
        }
    }
    plain
}

/// Lines as they are, between as many backticks as they need.
fn block(text: &str, out: &mut dyn Write) -> Result<(), ReportError> {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let ticks = "`".repeat((longest + 1).max(3));
    writeln!(out, "{ticks}text")?;
    for line in text.trim_end().lines() {
        writeln!(out, "{}", plain::visible(line))?;
    }
    Ok(writeln!(out, "{ticks}")?)
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

fn render_table(table: &Table, out: &mut dyn Write) -> Result<(), ReportError> {
    // Bars and lines are for terminals; their numbers stand beside them.
    let drawn: Vec<bool> = (0..table.columns.len())
        .map(|column| !table.rows.iter().any(|row| matches!(row.get(column), Some(Cell::Bar(_) | Cell::Line(_)))))
        .collect();
    let columns = || table.columns.iter().zip(&drawn).filter(|(_, drawn)| **drawn).map(|(column, _)| column);
    let titles: Vec<_> = columns().map(|column| column.title).collect();
    writeln!(out, "| {} |", titles.join(" | "))?;
    let rules: Vec<_> = columns().map(|column| if column.right { "---:" } else { "---" }).collect();
    writeln!(out, "| {} |", rules.join(" | "))?;
    for row in &table.rows {
        let cells: Vec<_> = row
            .iter()
            .filter_map(|cell| match cell {
                Cell::Text(text) => Some(escape(text)),
                Cell::Bar(_) | Cell::Line(_) => None,
                Cell::Name { forms, place } => {
                    let name = forms.first().filter(|name| !name.is_empty()).map(|name| code(name)).unwrap_or_default();
                    Some(place.as_ref().map_or(name.clone(), |place| format!("{name} {}", escape(place))))
                }
            })
            .collect();
        writeln!(out, "| {} |", cells.join(" | "))?;
    }
    Ok(())
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
        block("a\n````\nb \u{1b}[2J\n", &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "`````text\na\n````\nb \\u{1b}[2J\n`````\n");
    }
}
