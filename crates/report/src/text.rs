use std::io::Write;

use profile::Profile;

use crate::{
    Exporter, Options, ReportError,
    views::{Cell, Part, Section, Table, parts},
};

pub const EXPORTER: Exporter = Exporter {
    id: "text",
    extension: "txt",
    summary: "what matters, on a page of the terminal",
    binary: false,
    single_samples: false,
    snapshots: true,
    render,
};

/// Columns of a bar of 100 %.
const BAR: usize = 12;
/// Most columns of a line of values.
const LINE: usize = 12;

fn render(profile: &Profile, options: &Options, out: &mut dyn Write) -> Result<(), ReportError> {
    for (index, part) in parts(profile, options).iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        match part {
            Part::Section(section) => render_section(section, options, out)?,
            Part::Snapshots(section) => {
                for line in section.text.trim_end().lines() {
                    writeln!(out, "{}", clean(line))?;
                }
            }
        }
    }
    Ok(())
}

/// Wraps text in an escape sequence, if colours are wanted.
fn paint(text: &str, code: &str, options: &Options) -> String {
    if options.colour && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
}

fn render_section(section: &Section, options: &Options, out: &mut dyn Write) -> Result<(), ReportError> {
    writeln!(out, "{}", paint(&clean(&section.title), "1;36", options))?;
    for sentence in &section.lead {
        for line in wrap(&clean(sentence), options.width.saturating_sub(2)) {
            writeln!(out, "  {line}")?;
        }
    }
    for (index, table) in section.tables.iter().enumerate() {
        if index > 0 || !section.lead.is_empty() {
            writeln!(out)?;
        }
        render_table(table, options, out)?;
    }
    Ok(())
}

/// Characters that a terminal would act on become visible.
pub(crate) fn clean(text: &str) -> String {
    crate::plain::visible(text).into_owned()
}

/// Breaks a sentence between words.
fn wrap(text: &str, width: usize) -> Vec<String> {
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

fn columns(text: &str) -> usize {
    text.chars().count()
}

fn bar(share: f64) -> String {
    let eighths = (share.clamp(0.0, 1.0) * (BAR * 8) as f64).round() as usize;
    let mut bar = "█".repeat(eighths / 8);
    bar.extend([' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'].get(eighths % 8).filter(|part| **part != ' '));
    bar
}

/// Values over time as a row of bars, as many as have room; each is the mean of its part.
fn line(values: &[f64]) -> String {
    const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let part = values.len().div_ceil(LINE).max(1);
    let means: Vec<f64> = values.chunks(part).map(|part| part.iter().sum::<f64>() / part.len() as f64).collect();
    let (low, high) = means.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), mean| (low.min(*mean), high.max(*mean)));
    // What never changes is drawn at the bottom, if it is nothing, and in the middle else.
    let level = |mean: f64| match high > low {
        true => ((mean - low) / (high - low) * 7.0).round() as usize,
        false if mean == 0.0 => 0,
        false => 3,
    };
    means.iter().filter_map(|mean| LEVELS.get(level(*mean))).collect()
}

/// Text of a cell in the room that it has. Names are cut at the front: their end says more.
fn fit(cell: &Cell, room: usize) -> String {
    match cell {
        Cell::Text(text) => cut_back(&clean(text), room),
        Cell::Bar(share) => bar(*share),
        Cell::Line(values) => line(values),
        Cell::Name { forms, place } => {
            let place = place.as_ref().map(|place| format!("  {}", clean(place))).unwrap_or_default();
            let fits = |text: &&String| columns(text) + columns(&place) <= room;
            let forms: Vec<String> = forms.iter().map(|form| clean(form)).collect();
            match (forms.iter().find(fits), forms.last()) {
                (Some(form), _) => format!("{form}{place}"),
                (None, Some(form)) if columns(form) <= room => form.clone(),
                (None, Some(form)) => cut_back(form, room),
                (None, None) => String::new(),
            }
        }
    }
}

fn cut_back(text: &str, room: usize) -> String {
    match text.char_indices().nth(room) {
        Some(_) => text.chars().take(room.saturating_sub(1)).chain(['…']).collect(),
        None => text.to_owned(),
    }
}

fn render_table(table: &Table, options: &Options, out: &mut dyn Write) -> Result<(), ReportError> {
    let last = table.columns.len().saturating_sub(1);
    // All columns but the last are as wide as their widest cell, within reason; the last gets the
    // rest.
    let widest = (options.width / 3).max(12);
    let mut widths: Vec<usize> = table.columns.iter().map(|column| columns(column.title)).collect();
    for row in &table.rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            let needed = match cell {
                Cell::Bar(_) => BAR,
                Cell::Line(_) => LINE,
                cell => columns(&fit(cell, widest)),
            };
            *width = (*width).max(needed);
        }
    }
    let before: usize = widths.iter().take(last).map(|width| width + 2).sum();
    if let Some(width) = widths.last_mut()
        && !table.columns.last().is_some_and(|column| column.right)
    {
        *width = options.width.saturating_sub(before + 2).max(20);
    }
    let mut line = |cells: Vec<String>, code: Option<&str>| -> Result<(), ReportError> {
        let mut text = String::from("  ");
        for (index, ((cell, column), width)) in cells.iter().zip(&table.columns).zip(&widths).enumerate() {
            let padding = " ".repeat(width.saturating_sub(columns(cell)));
            match (column.right, index == last) {
                (true, _) => text.extend([padding.as_str(), cell]),
                (false, false) => text.extend([cell, padding.as_str()]),
                (false, true) => text.push_str(cell),
            }
            if index < last {
                text.push_str("  ");
            }
        }
        let text = text.trim_end();
        writeln!(out, "{}", code.map_or(text.to_owned(), |code| paint(text, code, options)))?;
        Ok(())
    };
    if table.columns.iter().any(|column| !column.title.is_empty()) {
        line(table.columns.iter().map(|column| column.title.to_owned()).collect(), Some("2"))?;
    }
    // A last column without a heading is prose: it continues in the next line instead of being cut.
    let prose = table.columns.last().is_some_and(|column| column.title.is_empty());
    for row in &table.rows {
        let mut cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| fit(cell, *width)).collect();
        if let (true, Some(Cell::Text(text)), Some(width)) = (prose, row.last(), widths.last()) {
            for (index, part) in wrap(&clean(text), *width).into_iter().enumerate() {
                if index > 0 {
                    cells = vec![String::new(); table.columns.len()];
                }
                if let Some(cell) = cells.last_mut() {
                    *cell = part;
                }
                line(cells.clone(), None)?;
            }
        } else {
            line(cells, None)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_grow_by_eighths() {
        assert_eq!([0.0, 0.01, 0.5, 1.0, 7.0].map(bar), ["", "▏", "██████", "████████████", "████████████"]);
    }

    #[test]
    fn lines_show_the_way_of_values() {
        assert_eq!(line(&[0.0, 1.0, 2.0, 7.0]), "▁▂▃█");
        assert_eq!(line(&[0.0, 0.0]), "▁▁");
        assert_eq!(line(&[5.0]), "▄");
        assert_eq!(line(&[]), "");
        let long: Vec<f64> = (0..1000).map(f64::from).collect();
        assert!(line(&long).chars().count() <= LINE && line(&long).ends_with('█'));
    }

    #[test]
    fn names_take_the_longest_form_that_fits() {
        let cell = |place: Option<&str>| Cell::Name {
            forms: vec!["Shop.Cart.Price(int)".into(), "Shop.Cart.Price".into(), "Cart.Price".into()],
            place: place.map(str::to_owned),
        };
        assert_eq!(fit(&cell(None), 30), "Shop.Cart.Price(int)");
        assert_eq!(fit(&cell(None), 16), "Shop.Cart.Price");
        assert_eq!(fit(&cell(Some("Cart.cs:42")), 30), "Shop.Cart.Price  Cart.cs:42");
        assert_eq!(fit(&cell(Some("Cart.cs:42")), 12), "Cart.Price");
        assert_eq!(fit(&cell(None), 8), "Cart.Pr…");
        assert_eq!(fit(&Cell::Text("a\x1b[31m".into()), 9), "a\\u{1b}[…");
    }
}
