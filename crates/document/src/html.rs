//! Documents as parts of an HTML page, whose style the page brings.
//!
//! Sections are `section.card`, with their badge as a further class; tables are `table.data`, whose
//! numbers have the class `n` and bars the class `bar`; lists of facts are `dl.facts`; trees and code
//! are `pre`; values over time are `svg.line`. The numbers behind texts are in `data-value`.

use std::{borrow::Cow, io, io::Write};

use crate::{Block, Cell, Document, Section, Table, format, plain, text};

/// Text for HTML, also within attributes in double quotes.
pub fn escape(text: &str) -> Cow<'_, str> {
    let text = plain::visible(text);
    if !text.contains(['&', '<', '>', '"']) {
        return text;
    }
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;");
    escaped.replace('>', "&gt;").replace('"', "&quot;").into()
}

/// Writes the sections of a document, each under a heading `h2`.
///
/// # Errors
/// When the output fails.
pub fn write(document: &Document, out: &mut dyn Write) -> io::Result<()> {
    document.sections.iter().try_for_each(|section| write_section(section, out))
}

fn write_section(section: &Section, out: &mut dyn Write) -> io::Result<()> {
    let class = section.badge.map_or_else(String::new, |badge| format!(" {}", escape(badge)));
    write!(out, "<section class=\"card pad{class}\">\n<h2>")?;
    if let Some(badge) = section.badge {
        write!(out, "<span class=\"badge\">{}</span> ", escape(badge))?;
    }
    writeln!(out, "{}</h2>", escape(&section.title))?;
    for sentence in &section.lead {
        writeln!(out, "<p>{}</p>", escape(sentence))?;
    }
    for block in &section.blocks {
        match block {
            Block::Table(table) if table.columns.iter().all(|column| column.title.is_empty()) => {
                write_facts(table, out)?;
            }
            Block::Table(table) => write_table(table, out)?,
            Block::Tree(tree) => {
                write_lines(text::lines(tree), out)?;
                write_more(tree.more, out)?;
            }
            Block::Code(code) => write_lines(code.text.lines(), out)?,
        }
    }
    writeln!(out, "</section>")
}

fn write_lines<L: AsRef<str>>(
    lines: impl Iterator<Item = L>,
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(out, "<pre>")?;
    for line in lines {
        writeln!(out, "{}", escape(line.as_ref()))?;
    }
    writeln!(out, "</pre>")
}

fn write_facts(table: &Table, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "<dl class=\"facts\">")?;
    for row in &table.rows {
        let (name, facts) = row
            .split_first()
            .map_or((None, row.as_slice()), |(name, facts)| (Some(name.shown()), facts));
        write!(out, "<dt>{}</dt><dd>", escape(&name.unwrap_or_default()))?;
        for fact in facts {
            write_cell(fact, out)?;
        }
        writeln!(out, "</dd>")?;
    }
    writeln!(out, "</dl>")?;
    write_more(table.more, out)
}

fn write_table(table: &Table, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "<div class=\"scroll\"><table class=\"data\">\n<thead><tr>")?;
    let class = |right: bool| if right { " class=\"n\"" } else { "" };
    for column in &table.columns {
        write!(out, "<th scope=\"col\"{}>{}</th>", class(column.right), escape(&column.title))?;
    }
    writeln!(out, "</tr></thead>\n<tbody>")?;
    for row in &table.rows {
        write!(out, "<tr>")?;
        for (cell, column) in row.iter().zip(&table.columns) {
            let class = match cell {
                Cell::Name { .. } => " class=\"fn\"",
                _ => class(column.right),
            };
            write!(out, "<td{class}")?;
            if let Cell::Quantity { value, .. } = cell {
                write!(out, " data-value=\"{value}\"")?;
            }
            write!(out, ">")?;
            write_cell(cell, out)?;
            write!(out, "</td>")?;
        }
        writeln!(out, "</tr>")?;
    }
    writeln!(out, "</tbody></table></div>")?;
    write_more(table.more, out)
}

fn write_cell(cell: &Cell, out: &mut dyn Write) -> io::Result<()> {
    match cell {
        Cell::Bar(share) => {
            let percent = share.clamp(0.0, 1.0) * 100.0;
            write!(out, "<span class=\"bar\"><i style=\"width: {percent:.1}%\"></i></span>")
        }
        Cell::Line(values) => write_line(values, out),
        Cell::Name { forms, place } => {
            write!(out, "<code>{}</code>", escape(forms.first().map_or("", String::as_str)))?;
            match place {
                Some(place) => write!(out, " <span class=\"where\">{}</span>", escape(place)),
                None => Ok(()),
            }
        }
        Cell::Weak(cell) => write_cell(cell, out),
        cell => write!(out, "{}", escape(&cell.shown())),
    }
}

/// Values over time as a line from the lowest to the highest.
fn write_line(values: &[f64], out: &mut dyn Write) -> io::Result<()> {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let most = values.len().saturating_sub(1).max(1) as f64;
    write!(
        out,
        "<svg class=\"line\" viewBox=\"0 0 100 100\" preserveAspectRatio=\"none\">\
         <polyline points=\""
    )?;
    for (index, value) in values.iter().enumerate() {
        let height = if high > low { (value - low) / (high - low) } else { 0.5 };
        write!(out, "{:.1},{:.1} ", index as f64 / most * 100.0, 100.0 - height * 100.0)?;
    }
    write!(out, "\"/></svg>")
}

fn write_more(more: usize, out: &mut dyn Write) -> io::Result<()> {
    match more {
        0 => Ok(()),
        more => writeln!(out, "<p class=\"hint\">… {} more</p>", format::count(more as u64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Code, Tree, left, right};

    #[test]
    fn nothing_in_a_document_acts() {
        let hostile = "<script>\"&\u{202e}";
        let mut section = Section::new(hostile);
        section.badge = Some("high");
        section.say(hostile);
        let name = Cell::Name { forms: vec![hostile.into()], place: Some(hostile.into()) };
        let row = vec![Cell::bytes(2048), name.clone(), Cell::Bar(7.0), Cell::Line(vec![1.0, 2.0])];
        let columns = vec![right("bytes"), left("name"), left("share"), left("over time")];
        section.add(Table { more: 3, ..Table::new(columns, [row]) });
        section.add(Table::facts([(hostile, Cell::text(hostile)), ("name", name.clone())]));
        let mut tree = Tree { branches: true, ..Tree::default() };
        tree.push(0, [name]);
        tree.push(1, [Cell::text(hostile)]);
        section.add(tree);
        section.add(Code { language: "il", text: hostile.into() });
        let mut out = Vec::new();
        write(&Document { sections: vec![section] }, &mut out).unwrap();
        let page = String::from_utf8(out).unwrap();
        assert!(!page.contains("<script") && !page.contains('\u{202e}'), "{page}");
        let safe = "&lt;script&gt;&quot;&amp;\\u{202e}";
        assert_eq!(page.matches(safe).count(), 12, "{page}");
        for part in [
            "<section class=\"card pad high\">",
            "<td class=\"n\" data-value=\"2048\">2.00 KB</td>",
            "width: 100.0%",
            "points=\"0.0,100.0 100.0,0.0 \"",
            "… 3 more",
            "└─ ",
        ] {
            assert!(page.contains(part), "{part} is missing: {page}");
        }
    }
}
