//! Draws parts of documents on a terminal, in the room that they have.

use document::{Block, Cell, Section, Table, Word, format, plain, text};
use ratatui::{
    Frame,
    layout::{Constraint, Rect},
    style::{Color, Modifier, Style},
    text::{Line, Span},
    widgets::{Paragraph, Row, Sparkline, Table as Grid},
};

/// Columns between two columns of a table.
const GAP: u16 = 2;

/// Columns in which the parts of a whole are drawn: a letter is a tenth.
const PARTS: usize = 10;

/// Lines of a chart: of a table that holds nothing but values over time.
const CHART: u16 = 4;

/// Of the room that texts share, those before the last one get at most this part.
const NOT_LAST: f64 = 0.4;

/// Styles; all plain where colors are not wanted.
#[derive(Clone, Copy, Debug)]
pub struct Theme {
    colors: bool,
}

impl Theme {
    /// With colors or without.
    pub fn new(colors: bool) -> Self {
        Self { colors }
    }

    /// In a color of the 16 of terminals.
    pub fn color(self, number: Option<u8>) -> Style {
        match number.filter(|_| self.colors) {
            Some(number) => Style::new().fg(Color::Indexed(number)),
            None => Style::new(),
        }
    }

    /// What is a heading or matters most.
    pub fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// What matters less.
    pub fn weak(self) -> Style {
        self.color(Some(8))
    }

    /// What the user has selected.
    pub fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }
}

/// Draws a section without its title, charts in a color of theirs, and gives back the room below.
pub fn section(
    frame: &mut Frame<'_>,
    area: Rect,
    section: &Section,
    color: Option<u8>,
    theme: Theme,
) -> Rect {
    let width = usize::from(area.width);
    let lead =
        section.lead.iter().flat_map(|sentence| text::wrap(&plain::visible(sentence), width));
    let mut rest = lines(frame, area, lead, theme.weak());
    for block in &section.blocks {
        rest = match block {
            Block::Table(table) => match chart(table) {
                Some(values) => {
                    let (area, below) = split(rest, CHART);
                    line(frame, area, values, 0.0, theme.color(color));
                    below
                }
                None => {
                    let rows = table.rows.len() + usize::from(has_titles(table));
                    let (area, below) = split(rest, rows as u16);
                    self::table(frame, area, table, None, theme);
                    more(frame, below, table.more, theme)
                }
            },
            Block::Tree(tree) => {
                let below = lines(frame, rest, text::lines(tree), Style::new());
                more(frame, below, tree.more, theme)
            }
            Block::Code(code) => {
                let code = plain::visible_lines(&code.text).replace('\t', "    ");
                lines(frame, rest, code.lines().map(str::to_owned), Style::new())
            }
            // What it shows is said beside it.
            Block::Figure(_) => rest,
        };
    }
    rest
}

/// The values of a table that holds nothing else.
fn chart(table: &Table) -> Option<&[f64]> {
    match table.rows.as_slice() {
        [row] => match row.as_slice() {
            [Cell::Line(values)] => Some(values),
            _ => None,
        },
        _ => None,
    }
}

/// Draws the latest values for which there is room as bars, from nothing to the greatest of all
/// values, or to `least` if they are all less.
pub fn line(frame: &mut Frame<'_>, area: Rect, values: &[f64], least: f64, style: Style) {
    const STEPS: f64 = 1e6;
    let most = values.iter().copied().fold(least, f64::max);
    let room = values.len().saturating_sub(usize::from(area.width));
    let bars = values.iter().skip(room);
    let bars: Vec<u64> = bars.map(|value| (value / most * STEPS) as u64).collect();
    frame.render_widget(Sparkline::default().data(bars).max(STEPS as u64).style(style), area);
}

/// Draws a table, and those of its rows for which there is room. A selected row is among them.
pub fn table(
    frame: &mut Frame<'_>,
    area: Rect,
    table: &Table,
    selected: Option<usize>,
    theme: Theme,
) {
    let titles = has_titles(table);
    let room = usize::from(area.height).saturating_sub(usize::from(titles));
    let first = selected.map_or(0, |selected| (selected + 1).saturating_sub(room));
    let shown: Vec<_> = table.rows.iter().enumerate().skip(first).take(room).collect();
    let widths = widths(table, shown.iter().map(|(_, row)| row.as_slice()), area.width);
    let rows = shown.iter().map(|(index, row)| {
        let columns = row.iter().zip(&table.columns).zip(&widths);
        let cells = columns.map(|((cell, column), width)| {
            aligned(of_cell(cell, usize::from(*width), theme), column.right)
        });
        let style = if selected == Some(*index) { theme.selected() } else { Style::new() };
        Row::new(cells.collect::<Vec<_>>()).style(style)
    });
    let mut grid =
        Grid::new(rows.collect::<Vec<_>>(), widths.iter().copied().map(Constraint::Length))
            .column_spacing(GAP);
    if titles {
        let titles = table.columns.iter().map(|column| {
            aligned(Line::raw(plain::visible(&column.title).to_uppercase()), column.right)
        });
        grid = grid.header(Row::new(titles.collect::<Vec<_>>()).style(theme.strong()));
    }
    frame.render_widget(grid, area);
}

fn has_titles(table: &Table) -> bool {
    table.columns.iter().any(|column| !column.title.is_empty())
}

fn aligned(line: Line<'static>, right: bool) -> Line<'static> {
    if right { line.right_aligned() } else { line }
}

/// How wide columns are. Numbers, words and pictures have the room that they need; texts share the
/// rest, of which the last one has most.
fn widths<'a>(table: &Table, rows: impl Iterator<Item = &'a [Cell]>, width: u16) -> Vec<u16> {
    let columns = table.columns.iter();
    let mut needed: Vec<usize> =
        columns.map(|column| text::columns(&column.title).max(column.least)).collect();
    let mut texts = vec![false; needed.len()];
    for row in rows {
        for (index, cell) in row.iter().enumerate().take(needed.len()) {
            needed[index] = needed[index].max(room_of(cell));
            texts[index] |= !table.columns[index].right && is_free_text(cell);
        }
    }
    let gaps = usize::from(GAP) * needed.len().saturating_sub(1);
    let sum = |of: &dyn Fn(usize) -> bool| -> usize {
        (0..needed.len()).filter(|index| of(*index)).map(|index| needed[index]).sum()
    };
    let room = usize::from(width).saturating_sub(gaps + sum(&|index| !texts[index]));
    let last = texts.iter().rposition(|is_text| *is_text);
    let others = texts.iter().filter(|is_text| **is_text).count().saturating_sub(1).max(1);
    let most = (room as f64 * NOT_LAST) as usize / others;
    let mut left = room;
    for index in 0..needed.len() {
        if texts[index] && Some(index) != last {
            needed[index] = needed[index].min(most);
            left -= needed[index];
        }
    }
    if let Some(last) = last {
        needed[last] = left;
    }
    needed.into_iter().map(|width| u16::try_from(width).unwrap_or(u16::MAX)).collect()
}

/// Columns that a cell would like to have.
fn room_of(cell: &Cell) -> usize {
    match cell {
        Cell::Parts(_) => PARTS,
        Cell::Weak(cell) => room_of(cell),
        cell if cell.is_drawn() => text::DRAWN,
        cell => text::columns(&text::fit(cell, usize::MAX)),
    }
}

/// Whether it is a text of any length.
fn is_free_text(cell: &Cell) -> bool {
    match cell {
        Cell::Weak(cell) => is_free_text(cell),
        cell => matches!(cell, Cell::Text(_) | Cell::Name { .. }),
    }
}

fn of_cell(cell: &Cell, width: usize, theme: Theme) -> Line<'static> {
    match cell {
        Cell::Weak(cell) => of_cell(cell, width, theme).style(theme.weak()),
        Cell::Word(word) => Line::styled(text::fit(cell, width), theme.color(word.color)),
        Cell::Parts(parts) => letters(parts, theme),
        cell => Line::raw(text::fit(cell, width)),
    }
}

/// A letter for each tenth of a whole.
fn letters(parts: &[(Word, f64)], theme: Theme) -> Line<'static> {
    let mut spans = Vec::new();
    let (mut sum, mut drawn) = (0.0, 0);
    for (word, share) in parts {
        sum += share;
        let until = ((sum * PARTS as f64).round() as usize).min(PARTS);
        if until > drawn {
            let letters: String = std::iter::repeat_n(word.letter, until - drawn).collect();
            spans.push(Span::styled(letters, theme.color(word.color)));
            drawn = until;
        }
    }
    Line::from(spans)
}

/// Draws as many lines as have room, and gives back the room below.
fn lines(
    frame: &mut Frame<'_>,
    area: Rect,
    lines: impl Iterator<Item = String>,
    style: Style,
) -> Rect {
    let lines: Vec<Line<'_>> = lines.take(usize::from(area.height)).map(Line::raw).collect();
    let (area, below) = split(area, lines.len() as u16);
    frame.render_widget(Paragraph::new(lines).style(style), area);
    below
}

/// Says how many rows there are that are not in a table or tree.
fn more(frame: &mut Frame<'_>, area: Rect, more: usize, theme: Theme) -> Rect {
    let text = (more > 0).then(|| format!("… {} more", format::count(more as u64)));
    lines(frame, area, text.into_iter(), theme.weak())
}

/// The first lines of an area, and the others.
fn split(area: Rect, height: u16) -> (Rect, Rect) {
    let height = height.min(area.height);
    let below = Rect { y: area.y + height, height: area.height - height, ..area };
    (Rect { height, ..area }, below)
}

#[cfg(test)]
mod tests {
    use super::*;
    use document::{Code, Tree, left, right};
    use ratatui::{Terminal, backend::TestBackend};

    const STATES: [Word; 2] = [
        Word { text: "lock", letter: 'L', color: Some(1) },
        Word { text: "sleep", letter: 'S', color: Some(4) },
    ];

    /// A section with a block of each kind.
    fn whole() -> Section {
        let mut section = Section::new("not drawn");
        section.say("A sentence that is longer than a narrow terminal is wide.");
        section.add(Table::new(vec![left("")], [vec![Cell::Line(vec![1.0, 4.0, 2.0])]]));
        let row = |lock: f64, name: &str| {
            vec![
                Cell::share(lock),
                Cell::Bar(lock),
                Cell::Word(STATES[0]),
                Cell::Parts(STATES.into_iter().zip([lock, 1.0 - lock]).collect()),
                Cell::Name {
                    forms: vec![format!("Contoso.Shop.{name}"), name.to_owned()],
                    place: Some("Shop.cs:12".into()),
                },
                Cell::text("a message\u{1b}[2J that is cut").weak(),
            ]
        };
        let columns = vec![
            right("share").at_least(9),
            left(""),
            left("state"),
            left("states"),
            left("method"),
            left("message"),
        ];
        let rows = [row(0.25, "Price"), row(1.0, "Tax")];
        section.add(Table { more: 1234, ..Table::new(columns, rows) });
        let mut tree = Tree { branches: true, ..Tree::default() };
        tree.push(0, [Cell::text("root")]);
        tree.push(1, [Cell::text("leaf")]);
        section.add(tree);
        section.add(Code { language: "il", text: "\tnop\n\tret\n".into() });
        section
    }

    fn drawn(width: u16, height: u16, draw: impl FnOnce(&mut Frame<'_>)) -> String {
        let mut terminal =
            Terminal::new(TestBackend::new(width, height)).expect("a terminal in memory");
        terminal.draw(draw).expect("drawing in memory");
        terminal.backend().to_string()
    }

    fn section_at(width: u16, height: u16) -> String {
        drawn(width, height, |frame| {
            section(frame, frame.area(), &whole(), Some(5), Theme::new(true));
        })
    }

    #[test]
    fn every_block_is_drawn_in_the_room_that_it_has() {
        insta::assert_snapshot!("section-100", section_at(100, 15));
        insta::assert_snapshot!("section-50", section_at(50, 16));
        insta::assert_snapshot!("section-low", section_at(60, 7));
    }

    #[test]
    fn a_selected_row_is_in_sight() {
        let rows =
            (0..100).map(|row: u64| vec![Cell::count(row), Cell::text(format!("row {row}"))]);
        let table = Table::new(vec![right("number"), left("text")], rows);
        let at = |selected| {
            drawn(20, 4, |frame| {
                super::table(frame, frame.area(), &table, Some(selected), Theme::new(true));
            })
        };
        assert!(at(0).contains("row 0") && at(2).contains("row 0"), "{}", at(2));
        assert!(at(50).contains("row 48") && at(50).contains("row 50"), "{}", at(50));
        assert!(at(99).contains("row 99") && at(99).contains("NUMBER"), "{}", at(99));
    }

    #[test]
    fn words_have_their_colors_where_there_are_any() {
        let colored = |theme: Theme| {
            let mut terminal = Terminal::new(TestBackend::new(9, 1)).expect("a terminal in memory");
            let row = [vec![Cell::Word(STATES[0]), Cell::text("a").weak()]];
            let table = Table::new(vec![left(""), left("")], row);
            terminal
                .draw(|frame| super::table(frame, frame.area(), &table, None, theme))
                .expect("drawing in memory");
            let buffer = terminal.backend().buffer();
            [buffer[(0, 0)].fg, buffer[(6, 0)].fg]
        };
        assert_eq!(colored(Theme::new(true)), [Color::Indexed(1), Color::Indexed(8)]);
        assert_eq!(colored(Theme::new(false)), [Color::Reset, Color::Reset]);
    }
}
