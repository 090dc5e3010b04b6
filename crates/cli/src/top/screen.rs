//! Draws the live view.

use super::{
    model::{CollectionRow, ExceptionRow, MethodRow, ThreadRow, View},
    state::{State, Tab},
};
use crate::{console::printable, duration};
use profile::{STATES, state_id};
use ratatui::{
    Frame,
    layout::{Alignment, Constraint, Layout, Rect},
    style::{Color, Modifier, Style},
    text::{Line, Span},
    widgets::{Block, Cell, Clear, Paragraph, Row, Sparkline, Table, TableState, Tabs},
};
use std::time::Duration;

const HELP: &[(&str, &str)] = &[
    ("1 2 3 4, Tab, ← →", "page: methods, threads, exceptions, GC"),
    ("↑ ↓ PgUp PgDn g G", "select a row"),
    ("s", "methods by self or by total"),
    ("n", "short or full names"),
    ("w", "length of the window: 5, 15 or 60 seconds"),
    ("Enter, on a thread", "show the methods of this thread only"),
    ("t", "choose a thread; again: all threads"),
    ("/", "show rows with a text only; Esc: all"),
    ("Space", "freeze the screen, or resume it"),
    ("q, Ctrl-C", "quit; the process continues unharmed"),
];

/// One letter for each state, in the order of [`STATES`].
const STATE_LETTERS: [char; STATES.len()] =
    ['R', 'L', 'S', 'I', '.', 'G', 'T', '?', 'E', 'C', 'P', 'Q'];

/// How many of them the help explains in one line.
const STATES_IN_LINE: usize = 6;

/// Styles; all plain where colours are not wanted.
#[derive(Clone, Copy, Debug)]
pub struct Theme {
    colours: bool,
}

impl Theme {
    /// With colours or without.
    pub fn new(colours: bool) -> Self {
        Self { colours }
    }

    fn of(self, colour: Color) -> Style {
        if self.colours { Style::new().fg(colour) } else { Style::new() }
    }

    fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    fn weak(self) -> Style {
        if self.colours { Style::new().fg(Color::DarkGray) } else { Style::new() }
    }

    fn state(self, index: usize) -> Style {
        let colours = [
            Color::Green,
            Color::Red,
            Color::Blue,
            Color::Cyan,
            Color::DarkGray,
            Color::Magenta,
            Color::Yellow,
            Color::Reset,
            Color::LightBlue,
            Color::LightMagenta,
            Color::LightRed,
            Color::LightYellow,
        ];
        self.of(colours.get(index).copied().unwrap_or(Color::Reset))
    }
}

/// Draws everything.
pub fn draw(frame: &mut Frame<'_>, view: &View, state: &State, theme: Theme) {
    let [head, figures, tabs, body, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(3),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    draw_head(frame, head, view, theme);
    draw_figures(frame, figures, view, theme);
    let titles =
        Tab::ALL.iter().enumerate().map(|(index, (_, title))| format!("{} {title}", index + 1));
    frame.render_widget(
        Tabs::new(titles)
            .select(state.tab.index())
            .highlight_style(Style::new().add_modifier(Modifier::REVERSED))
            .divider(" "),
        tabs,
    );
    let chosen = format!(
        "last {} s{}",
        state.window().as_secs(),
        if state.by_total { ", by total" } else { "" }
    );
    frame.render_widget(
        Paragraph::new(chosen).alignment(Alignment::Right).style(theme.weak()),
        tabs,
    );
    match state.tab {
        Tab::Methods => draw_methods(frame, body, view, state, theme),
        Tab::Threads => draw_threads(frame, body, view, state, theme),
        Tab::Exceptions => draw_exceptions(frame, body, view, state, theme),
        Tab::Gc => draw_gc(frame, body, view, state, theme),
    }
    draw_foot(frame, foot, view, state, theme);
    if state.help {
        draw_help(frame);
    }
}

fn draw_head(frame: &mut Frame<'_>, area: Rect, view: &View, theme: Theme) {
    let elapsed = Duration::from_secs(view.elapsed_seconds as u64);
    let title = if view.process.is_empty() {
        "waiting for the first samples".to_owned()
    } else {
        format!("{} ({})", printable(&view.process), view.pid)
    };
    let rest = match view.process.is_empty() {
        true => String::new(),
        false => format!("  .NET {}  {}  {}", view.runtime, view.platform, view.engine),
    };
    frame.render_widget(
        Line::from(vec![Span::styled(title, theme.strong()), Span::raw(rest)]),
        area,
    );
    let right = if view.ended { "ended".to_owned() } else { duration::show(elapsed) };
    frame.render_widget(
        Paragraph::new(format!(" {right}")).alignment(Alignment::Right).style(theme.strong()),
        area,
    );
}

fn draw_figures(frame: &mut Frame<'_>, area: Rect, view: &View, theme: Theme) {
    let figures = Line::from(vec![
        Span::raw("CPU "),
        Span::styled(format!("{:.0} %", view.cpu * 100.0), theme.of(Color::Green)),
        Span::raw("  exceptions "),
        Span::styled(
            format!("{}/s", short_number(view.exceptions_per_second)),
            theme.of(Color::Red),
        ),
        Span::raw("  paused "),
        Span::styled(format!("{:.1} %", view.paused * 100.0), theme.of(Color::Magenta)),
        Span::raw(format!("  samples {}", short_number(view.samples as f64))),
        Span::styled(
            format!("  dropped {}", short_number(view.dropped as f64)),
            if view.dropped > 0 { theme.of(Color::Yellow) } else { theme.weak() },
        ),
        Span::styled(
            match view.left_out {
                0 => String::new(),
                left_out => format!("  not shown {}", short_number(left_out as f64)),
            },
            theme.of(Color::Yellow),
        ),
    ]);
    let width = figures.width() as u16 + 2;
    let [left, right] =
        Layout::horizontal([Constraint::Length(width), Constraint::Fill(1)]).areas(area);
    frame.render_widget(figures, left);
    let history: Vec<u64> = view.cpu_history.iter().map(|cpu| (cpu * 1000.0) as u64).collect();
    let history = latest(&history, right.width);
    // A process that does little shall look so: the full height is one processor at least.
    let full = history.iter().copied().max().unwrap_or(0).max(1000);
    frame.render_widget(
        Sparkline::default().data(history).max(full).style(theme.of(Color::Green)),
        right,
    );
}

fn draw_methods(frame: &mut Frame<'_>, area: Rect, view: &View, state: &State, theme: Theme) {
    let rows: Vec<&MethodRow> =
        view.methods.iter().filter(|row| state.shows(&[&row.name])).collect();
    if rows.is_empty() {
        let text = if view.methods.is_empty() {
            "No CPU time was used in this window."
        } else {
            "No such method."
        };
        frame.render_widget(Paragraph::new(text).style(theme.weak()), below(area));
        return;
    }
    let cells = rows.iter().map(|row| {
        let name = if state.full_names { &row.name } else { &row.short };
        let style = if row.managed { Style::new() } else { theme.weak() };
        Row::new(vec![
            Cell::new(percent(row.own)),
            Cell::new(percent(row.total)),
            Cell::new(format!("{:>9.0}", row.own_ms)),
            Cell::new(printable(name)).style(style),
        ])
    });
    let (own, total) =
        if state.by_total { ("   SELF", " TOTAL▼") } else { ("  SELF▼", "  TOTAL") };
    let widths =
        [Constraint::Length(7), Constraint::Length(7), Constraint::Length(9), Constraint::Min(10)];
    table(
        frame,
        area,
        Table::new(cells, widths),
        &[own, total, "  SELF ms", "METHOD"],
        view,
        state,
        theme,
    );
}

fn draw_threads(frame: &mut Frame<'_>, area: Rect, view: &View, state: &State, theme: Theme) {
    let rows: Vec<&ThreadRow> = view.threads.iter().filter(|row| state.shows_thread(row)).collect();
    let cells = rows.iter().map(|row| {
        let index =
            row.state.and_then(|word| STATES.iter().position(|state| state_id(*state) == word));
        Row::new(vec![
            Cell::new(format!("{:>8}", row.tid)),
            Cell::new(format!("{:>5.0} %", row.cpu * 100.0)),
            Cell::new(row.state.unwrap_or("-"))
                .style(index.map_or(Style::new(), |index| theme.state(index))),
            Cell::new(states_bar(row, theme)),
            Cell::new(printable(&row.name)),
            Cell::new(printable(row.method.as_deref().unwrap_or_default())),
        ])
    });
    let widths = [
        Constraint::Length(8),
        Constraint::Length(7),
        Constraint::Length(12),
        Constraint::Length(10),
        Constraint::Length(15),
        Constraint::Min(10),
    ];
    let head = ["      ID", "    CPU", "STATE", "STATES", "NAME", "METHOD"];
    table(frame, area, Table::new(cells, widths), &head, view, state, theme);
}

/// Ten letters, each a tenth of the time.
fn states_bar(row: &ThreadRow, theme: Theme) -> Line<'static> {
    if row.state.is_none() {
        return Line::default();
    }
    let mut spans = Vec::new();
    let (mut sum, mut drawn) = (0.0, 0);
    for (index, share) in row.states.iter().enumerate() {
        sum += share;
        let until = ((sum * 10.0).round() as usize).min(10);
        if until > drawn {
            let letters: String =
                std::iter::repeat_n(STATE_LETTERS[index], until - drawn).collect();
            spans.push(Span::styled(letters, theme.state(index)));
            drawn = until;
        }
    }
    Line::from(spans)
}

fn draw_exceptions(frame: &mut Frame<'_>, area: Rect, view: &View, state: &State, theme: Theme) {
    let rows: Vec<&ExceptionRow> =
        view.exceptions.iter().filter(|row| state.shows_exception(row)).collect();
    if rows.is_empty() {
        let text = if view.exceptions.is_empty() {
            "No exception was thrown yet."
        } else {
            "No such exception."
        };
        frame.render_widget(Paragraph::new(text).style(theme.weak()), below(area));
        return;
    }
    let cells = rows.iter().map(|row| {
        let name = if state.full_names {
            row.name.clone()
        } else {
            profile::without_namespaces(&row.name)
        };
        Row::new(vec![
            Cell::new(format!("{:>8}", short_number(row.per_second))),
            Cell::new(format!("{:>10}", row.count)),
            Cell::new(printable(&name)),
            Cell::new(printable(row.message.as_deref().unwrap_or_default())).style(theme.weak()),
        ])
    });
    let widths =
        [Constraint::Length(8), Constraint::Length(10), Constraint::Fill(2), Constraint::Fill(3)];
    table(
        frame,
        area,
        Table::new(cells, widths),
        &["   PER s", "     COUNT", "TYPE", "MESSAGE"],
        view,
        state,
        theme,
    );
}

fn draw_gc(frame: &mut Frame<'_>, area: Rect, view: &View, state: &State, theme: Theme) {
    let [top, graph, list] =
        Layout::vertical([Constraint::Length(1), Constraint::Length(4), Constraint::Min(3)])
            .areas(area);
    let worst = view.collections.iter().filter_map(|gc| gc.pause_ms).fold(0.0, f64::max);
    let history: Vec<u64> = view.paused_history.iter().map(|share| (share * 1e6) as u64).collect();
    let full = history.iter().copied().max().unwrap_or(0) as f64 / 1e4;
    let text = format!(
        "Paused in each second, full height {full:.1} %; longest pause below {worst:.1} ms"
    );
    frame.render_widget(Paragraph::new(text).style(theme.weak()), top);
    frame.render_widget(
        Sparkline::default().data(latest(&history, graph.width)).style(theme.of(Color::Magenta)),
        graph,
    );
    let cells = view.collections.iter().map(|gc: &CollectionRow| {
        Row::new(vec![
            Cell::new(format!("{:>8}", gc.number)),
            Cell::new(format!("{:>3}", gc.generation)),
            Cell::new(
                gc.pause_ms.map_or_else(|| format!("{:>9}", "-"), |pause| format!("{pause:>9.2}")),
            ),
            Cell::new(format!("{:>9}", bytes(gc.heap_bytes))),
            Cell::new(format!("{:>9}", bytes(gc.promoted_bytes))),
            Cell::new(format!("{} ({})", printable(&gc.reason), printable(&gc.kind))),
        ])
    });
    let widths = [
        Constraint::Length(8),
        Constraint::Length(3),
        Constraint::Length(9),
        Constraint::Length(9),
        Constraint::Length(9),
        Constraint::Min(10),
    ];
    let head = ["      GC", "GEN", " PAUSE ms", "     HEAP", " PROMOTED", "REASON"];
    table(frame, list, Table::new(cells, widths), &head, view, state, theme);
}

fn table(
    frame: &mut Frame<'_>,
    area: Rect,
    table: Table<'_>,
    head: &[&'static str],
    view: &View,
    state: &State,
    theme: Theme,
) {
    let table = table
        .header(Row::new(head.iter().copied()).style(theme.strong()))
        .column_spacing(1)
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut selected = TableState::new().with_selected(Some(state.selected(view)));
    frame.render_stateful_widget(table, area, &mut selected);
}

fn draw_foot(frame: &mut Frame<'_>, area: Rect, view: &View, state: &State, theme: Theme) {
    let mut spans = Vec::new();
    if state.searching {
        spans.push(Span::styled(format!("/{}▏", state.search), theme.strong()));
        spans.push(Span::styled("  Enter: keep   Esc: all rows", theme.weak()));
    } else {
        if state.frozen.is_some() {
            spans.push(Span::styled(
                "FROZEN  ",
                theme.of(Color::Yellow).add_modifier(Modifier::BOLD),
            ));
        }
        if let Some(thread) = &view.thread_filter {
            spans
                .push(Span::styled(format!("only {}  ", printable(thread)), theme.of(Color::Cyan)));
        }
        if !state.search.is_empty() {
            spans.push(Span::styled(format!("/{}  ", state.search), theme.of(Color::Cyan)));
        }
        let selected = selected_text(view, state).or_else(|| view.note.clone());
        match selected {
            Some(text) => spans.push(Span::raw(printable(&text))),
            None => spans.push(Span::styled("q quit", theme.weak())),
        }
    }
    frame.render_widget(Line::from(spans), area);
    if !state.searching {
        frame.render_widget(
            Paragraph::new("  ? help").alignment(Alignment::Right).style(theme.weak()),
            area,
        );
    }
}

/// The selected row in full, as tables cut it.
fn selected_text(view: &View, state: &State) -> Option<String> {
    let row = state.selected(view);
    match state.tab {
        Tab::Methods => {
            let method = view.methods.iter().filter(|row| state.shows(&[&row.name])).nth(row)?;
            Some(match &method.module {
                Some(module) => format!("{}  [{module}]", method.name),
                None => method.name.clone(),
            })
        }
        Tab::Threads => {
            let thread = view.threads.iter().filter(|row| state.shows_thread(row)).nth(row)?;
            let states = STATES.iter().zip(thread.states).filter(|(_, share)| *share >= 0.005);
            let states: Vec<String> = states
                .map(|(state, share)| format!("{} {:.0} %", state_id(*state), share * 100.0))
                .collect();
            Some(format!("{} {}", thread.name, states.join(", ")))
        }
        Tab::Exceptions => {
            let exception =
                view.exceptions.iter().filter(|row| state.shows_exception(row)).nth(row)?;
            Some(match &exception.thrown_at {
                Some(place) => format!("{} thrown in {place}", exception.name),
                None => exception.name.clone(),
            })
        }
        Tab::Gc => None,
    }
}

fn draw_help(frame: &mut Frame<'_>) {
    let area = frame.area();
    let (width, height) = (76.min(area.width), (HELP.len() as u16 + 6).min(area.height));
    let place = Rect::new((area.width - width) / 2, (area.height - height) / 2, width, height);
    let mut lines: Vec<Line<'_>> =
        HELP.iter().map(|(keys, meaning)| Line::raw(format!(" {keys:<20} {meaning}"))).collect();
    lines.push(Line::default());
    let states: Vec<String> = STATES
        .iter()
        .zip(STATE_LETTERS)
        .map(|(state, letter)| format!("{letter} {}", state_id(*state)))
        .collect();
    for (index, part) in states.chunks(STATES_IN_LINE).enumerate() {
        lines.push(Line::raw(format!(
            " {:<7} {}",
            if index == 0 { "States:" } else { "" },
            part.join("  ")
        )));
    }
    lines.push(Line::raw(" Press any key to go back."));
    frame.render_widget(Clear, place);
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(" Keys ")), place);
}

fn below(area: Rect) -> Rect {
    Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area }
}

fn latest(values: &[u64], width: u16) -> &[u64] {
    values.get(values.len().saturating_sub(usize::from(width))..).unwrap_or_default()
}

fn percent(share: f64) -> String {
    format!("{:>5.1} %", share * 100.0)
}

fn short_number(number: f64) -> String {
    match number {
        0.0 => "0".to_owned(),
        ..10.0 if number.fract() > 0.0 => format!("{number:.1}"),
        ..10_000.0 => format!("{number:.0}"),
        ..1e7 => format!("{:.0} k", number / 1e3),
        _ => format!("{:.0} M", number / 1e6),
    }
}

fn bytes(bytes: u64) -> String {
    let mut size = bytes as f64;
    for unit in ["B", "KB", "MB", "GB"] {
        if size < 1000.0 {
            return if unit == "B" { format!("{size:.0} B") } else { format!("{size:.1} {unit}") };
        }
        size /= 1000.0;
    }
    format!("{size:.1} TB")
}
