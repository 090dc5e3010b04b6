//! Documents for terminals and pipes.

use std::{borrow::Cow, io, io::Write};

use crate::{
    Block, Cell, Document, Section, Table, Tree,
    plain::{visible, visible_lines},
};

/// How to write a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Columns of the terminal. Without them, only the sentences before tables and trees are
    /// wrapped, and all other lines are whole.
    pub width: Option<usize>,
    /// Whether there may be colours.
    pub colour: bool,
}

/// Columns of a bar of 100 %, and most columns of a line of values.
pub const DRAWN: usize = 12;
/// Columns before everything but titles.
const INDENT: &str = "  ";
/// Columns of sentences where the width is not known.
const PROSE: usize = 100;
/// The last column has this room also in a terminal that is too narrow for the others.
const LEAST_ROOM: usize = 20;

const TITLE: &str = "1;36";
const HEADING: &str = "2";

/// Writes a document.
///
/// # Errors
/// When the output fails.
pub fn write(document: &Document, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let mut number = 0;
    for (index, section) in document.sections.iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        let title = match section.badge {
            Some(badge) => {
                number += 1;
                format!("{number}. {}  {}", badge.to_uppercase(), visible(&section.title))
            }
            None => visible(&section.title).into_owned(),
        };
        // What has no title is not below anything.
        let indent = if title.is_empty() { "" } else { INDENT };
        if !title.is_empty() {
            writeln!(out, "{}", style.paint(&title, TITLE))?;
        }
        Body { style, indent }.write(section, out)?;
    }
    Ok(())
}

/// A document as text.
pub fn of(document: &Document, style: Style) -> String {
    let mut text = Vec::new();
    // A vector takes everything.
    let _ = write(document, style, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

impl Style {
    /// Wraps text in an escape sequence, if there may be colours.
    fn paint<'t>(self, text: &'t str, code: &str) -> Cow<'t, str> {
        match self.colour && !text.is_empty() {
            true => format!("\x1b[{code}m{text}\x1b[0m").into(),
            false => text.into(),
        }
    }
}

/// Lines of whole words that are at most as wide, if no word is wider.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if columns(line) + 1 + columns(word) <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Columns that a text takes.
pub fn columns(text: &str) -> usize {
    text.chars().count()
}

fn bar(share: f64) -> String {
    let eighths = (share.clamp(0.0, 1.0) * (DRAWN * 8) as f64).round() as usize;
    let mut bar = "█".repeat(eighths / 8);
    bar.extend(
        [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'].get(eighths % 8).filter(|part| **part != ' '),
    );
    bar
}

/// Values over time as a row of bars, as many as have room; each is the mean of its part.
fn line(values: &[f64]) -> String {
    const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let part = values.len().div_ceil(DRAWN).max(1);
    let means: Vec<f64> =
        values.chunks(part).map(|part| part.iter().sum::<f64>() / part.len() as f64).collect();
    let (low, high) = means.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), mean| {
        (low.min(*mean), high.max(*mean))
    });
    // What never changes is drawn at the bottom, if it is nothing, and in the middle else.
    let level = |mean: f64| match high > low {
        true => ((mean - low) / (high - low) * 7.0).round() as usize,
        false if mean == 0.0 => 0,
        false => 3,
    };
    means.iter().filter_map(|mean| LEVELS.get(level(*mean))).collect()
}

/// Text of a cell in as many columns as it has room for. Of a name the longest form that fits is
/// taken, and with its place if that fits too.
pub fn fit(cell: &Cell, room: usize) -> String {
    match cell {
        Cell::Bar(share) => bar(*share),
        Cell::Line(values) => line(values),
        Cell::Weak(cell) => fit(cell, room),
        Cell::Name { forms, place } => {
            let place =
                place.as_ref().map(|place| format!("  {}", visible(place))).unwrap_or_default();
            let fits = |text: &&String| columns(text) + columns(&place) <= room;
            let forms: Vec<String> = forms.iter().map(|form| visible(form).into_owned()).collect();
            match (forms.iter().find(fits), forms.last()) {
                (Some(form), _) => format!("{form}{place}"),
                (None, Some(form)) if columns(form) <= room => form.clone(),
                (None, Some(form)) => cut_back(form, room),
                (None, None) => String::new(),
            }
        }
        cell => cut_back(&visible(&cell.shown()), room),
    }
}

fn cut_back(text: &str, room: usize) -> String {
    match text.char_indices().nth(room) {
        Some(_) => text.chars().take(room.saturating_sub(1)).chain(['…']).collect(),
        None => text.to_owned(),
    }
}

/// What stands below the title of a section.
#[derive(Clone, Copy)]
struct Body {
    style: Style,
    indent: &'static str,
}

impl Body {
    fn write(self, section: &Section, out: &mut dyn Write) -> io::Result<()> {
        let indent = self.indent;
        let room = self.style.width.unwrap_or(PROSE).saturating_sub(indent.len());
        for sentence in &section.lead {
            for line in wrap(&visible(sentence), room) {
                writeln!(out, "{indent}{line}")?;
            }
        }
        let written = |block: &&Block| !matches!(block, Block::Figure(_));
        for (index, block) in section.blocks.iter().filter(written).enumerate() {
            if index > 0 || !section.lead.is_empty() {
                writeln!(out)?;
            }
            let more = match block {
                Block::Table(table) => {
                    self.write_table(table, out)?;
                    table.more
                }
                Block::Tree(tree) => {
                    for line in lines(tree) {
                        writeln!(out, "{indent}{line}")?;
                    }
                    tree.more
                }
                Block::Code(code) => {
                    for line in code.text.lines() {
                        let indent = if line.is_empty() { "" } else { indent };
                        writeln!(out, "{indent}{}", visible_lines(line))?;
                    }
                    0
                }
                Block::Figure(_) => 0,
            };
            if more > 0 {
                writeln!(out, "{indent}… {} more", crate::format::count(more as u64))?;
            }
        }
        Ok(())
    }

    /// How wide the columns of a table are. All but the last are as wide as their widest cell,
    /// within reason; the last gets the rest.
    fn widths(self, table: &Table) -> Vec<usize> {
        let widest = self.style.width.map_or(usize::MAX, |width| (width / 3).max(12));
        let mut widths: Vec<usize> =
            table.columns.iter().map(|column| columns(&column.title).max(column.least)).collect();
        for row in &table.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                let needed = match cell {
                    cell if cell.is_drawn() => DRAWN,
                    cell => columns(&fit(cell, widest)),
                };
                *width = (*width).max(needed);
            }
        }
        let last = table.columns.len().saturating_sub(1);
        let before: usize = widths.iter().take(last).map(|width| width + 2).sum();
        if let (Some(last), Some(column)) = (widths.last_mut(), table.columns.last())
            && !column.right
        {
            *last = self.style.width.map_or(usize::MAX, |width| {
                width.saturating_sub(before + self.indent.len()).max(LEAST_ROOM)
            });
        }
        widths
    }

    /// Cells in a line, each filled up to the width of its column.
    fn line_of(self, cells: &[String], table: &Table, widths: &[usize]) -> String {
        let last = table.columns.len().saturating_sub(1);
        let mut text = String::from(self.indent);
        for (index, ((cell, column), width)) in
            cells.iter().zip(&table.columns).zip(widths).enumerate()
        {
            let padding = |text: &mut String| {
                text.extend(std::iter::repeat_n(' ', width.saturating_sub(columns(cell))));
            };
            match (column.right, index == last) {
                (true, _) => {
                    padding(&mut text);
                    text.push_str(cell);
                }
                (false, false) => {
                    text.push_str(cell);
                    padding(&mut text);
                }
                (false, true) => text.push_str(cell),
            }
            if index < last {
                text.push_str("  ");
            }
        }
        text.truncate(text.trim_end().len());
        text
    }

    fn write_table(self, table: &Table, out: &mut dyn Write) -> io::Result<()> {
        let widths = self.widths(table);
        if table.columns.iter().any(|column| !column.title.is_empty()) {
            let titles: Vec<String> =
                table.columns.iter().map(|column| visible(&column.title).into_owned()).collect();
            writeln!(out, "{}", self.style.paint(&self.line_of(&titles, table, &widths), HEADING))?;
        }
        // A last column without a heading is prose: it continues in the next line instead of being
        // cut.
        let prose = table.columns.last().is_some_and(|column| column.title.is_empty());
        for row in &table.rows {
            let mut cells: Vec<String> =
                row.iter().zip(&widths).map(|(cell, width)| fit(cell, *width)).collect();
            if let (true, Some(Cell::Text(text)), Some(width)) = (prose, row.last(), widths.last())
            {
                for (index, part) in wrap(&visible(text), *width).into_iter().enumerate() {
                    if index > 0 {
                        cells = vec![String::new(); table.columns.len()];
                    }
                    if let Some(cell) = cells.last_mut() {
                        *cell = part;
                    }
                    writeln!(out, "{}", self.line_of(&cells, table, &widths))?;
                }
            } else {
                writeln!(out, "{}", self.line_of(&cells, table, &widths))?;
            }
        }
        Ok(())
    }
}

/// The lines of a tree are not cut: their ends say what is in no other line.
pub fn lines(tree: &Tree) -> impl Iterator<Item = String> {
    let drawn = if tree.branches { tree.drawn() } else { Vec::new() };
    let mut drawn = drawn.into_iter();
    tree.nodes.iter().map(move |node| {
        let mut text = match tree.branches {
            true => drawn.next().unwrap_or_default(),
            false => INDENT.repeat(node.depth.min(crate::MOST_DEPTH)),
        };
        let cells = node.cells.iter().map(|cell| fit(cell, usize::MAX));
        let cells = cells.filter(|cell| !cell.is_empty());
        text.push_str(&cells.collect::<Vec<_>>().join("  "));
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Code, MOST_DEPTH, left, right};

    #[test]
    fn bars_grow_by_eighths() {
        assert_eq!(
            [0.0, 0.01, 0.5, 1.0, 7.0].map(bar),
            ["", "▏", "██████", "████████████", "████████████"]
        );
    }

    #[test]
    fn lines_show_the_way_of_values() {
        assert_eq!(line(&[0.0, 1.0, 2.0, 7.0]), "▁▂▃█");
        assert_eq!(line(&[0.0, 0.0]), "▁▁");
        assert_eq!(line(&[5.0]), "▄");
        assert_eq!(line(&[]), "");
        let long: Vec<f64> = (0..1000).map(f64::from).collect();
        assert!(line(&long).chars().count() <= DRAWN && line(&long).ends_with('█'));
    }

    #[test]
    fn names_take_the_longest_form_that_fits() {
        let cell = |place: Option<&str>| Cell::Name {
            forms: vec![
                "Shop.Cart.Price(int)".into(),
                "Shop.Cart.Price".into(),
                "Cart.Price".into(),
            ],
            place: place.map(str::to_owned),
        };
        assert_eq!(fit(&cell(None), 30), "Shop.Cart.Price(int)");
        assert_eq!(fit(&cell(None), 16), "Shop.Cart.Price");
        assert_eq!(fit(&cell(Some("Cart.cs:42")), 30), "Shop.Cart.Price  Cart.cs:42");
        assert_eq!(fit(&cell(Some("Cart.cs:42")), 12), "Cart.Price");
        assert_eq!(fit(&cell(None), 8), "Cart.Pr…");
        assert_eq!(fit(&Cell::Text("a\x1b[31m".into()), 9), "a\\u{1b}[…");
    }

    fn written(section: Section, width: Option<usize>) -> String {
        of(&Document { sections: vec![section] }, Style { width, colour: false })
    }

    #[test]
    fn lines_are_cut_in_terminals_only() {
        let mut section = Section::new("Processes");
        let rows = [(7, "web", "dotnet web.dll"), (1234, "x", "")];
        let rows = rows.map(|(pid, name, command)| {
            vec![Cell::count(pid as u64), Cell::text(name), Cell::text(command)]
        });
        section.add(Table::new(vec![right("pid"), left("name"), left("command")], rows));
        let whole =
            "Processes\n    pid  name  command\n      7  web   dotnet web.dll\n  1,234  x\n";
        assert_eq!(written(section.clone(), None), whole);
        assert_eq!(written(section.clone(), Some(80)), whole);
        let long = Cell::text("x".repeat(200));
        section.blocks = vec![Table::new(vec![left("text")], [vec![long.clone()]]).into()];
        assert_eq!(written(section.clone(), None).lines().map(columns).max(), Some(202));
        assert_eq!(written(section, Some(40)).lines().map(columns).max(), Some(40));
    }

    #[test]
    fn facts_continue_below_themselves() {
        let mut section = Section::new("2 threads wait for one lock");
        section.badge = Some("high");
        section.add(Table::facts([
            ("culprit", Cell::text("A.B")),
            ("next", Cell::text("split the lock")),
        ]));
        let text =
            "1. HIGH  2 threads wait for one lock\n  culprit  A.B\n  next     split the lock\n";
        assert_eq!(written(section.clone(), None), text);
        let narrow = written(section, Some(12 + LEAST_ROOM - 10));
        assert!(narrow.ends_with("  next     split the lock\n"), "{narrow}");
    }

    #[test]
    fn code_is_neither_wrapped_nor_cut() {
        let line = format!("  ldstr {}", "x ".repeat(60)).trim_end().to_owned();
        let mut section = Section::new("");
        for text in [format!("// a\n\n{line}\n"), "\tnop\u{1b}[2J\n".to_owned()] {
            section.add(Code { language: "il", text });
        }
        let code = format!("// a\n\n{line}\n\n\tnop\\u{{1b}}[2J\n");
        assert_eq!(written(section.clone(), Some(20)), code);
        section.title = "Main".into();
        let indented = format!("Main\n  // a\n\n  {line}\n\n  \tnop\\u{{1b}}[2J\n");
        assert_eq!(written(section, None), indented);
    }

    #[test]
    fn branches_lead_to_what_stands_below() {
        let mut tree = Tree { branches: true, ..Tree::default() };
        for (depth, text) in [(0, "a"), (1, "b"), (2, "c"), (2, "d"), (1, "e"), (2, "f"), (0, "g")]
        {
            tree.push(depth, [Cell::text(text), Cell::text("")]);
        }
        let expected = ["a", "├─ b", "│  ├─ c", "│  └─ d", "└─ e", "   └─ f", "g"];
        assert_eq!(lines(&tree).collect::<Vec<_>>(), expected);
        tree.branches = false;
        assert_eq!(lines(&tree).nth(2).as_deref(), Some("    c"));
        // Neither deep nor skipped depths harm.
        tree.branches = true;
        tree.push(1_000_000, [Cell::text("deep")]);
        assert_eq!(lines(&tree).last().map(|line| columns(&line)), Some(3 * MOST_DEPTH + 4));
    }
}
