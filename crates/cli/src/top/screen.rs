//! Draws the live view: lines about the process above and below one pane.

use super::{
    draw::{self, Theme},
    state::State,
};
use crate::{console::printable, duration};
use document::{Cell, format, text};
use profile::{Recent, SeriesKind};
use ratatui::{
    Frame,
    layout::{Alignment, Constraint, Layout, Rect},
    style::{Modifier, Style},
    text::{Line, Span},
    widgets::{Block, Clear, Paragraph, Tabs},
};
use report::{PANES, PaneContent};
use std::time::Duration;

/// Keys and what they do, after those that choose a pane.
const HELP: &[(&str, &str)] = &[
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

/// How many letters the help explains in one line.
const LETTERS_IN_LINE: usize = 6;

/// The color of what is a warning, and of what the user has chosen.
const WARNING: Option<u8> = Some(3);
const CHOSEN: Option<u8> = Some(6);

/// What there is to draw.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    /// The latest slices, if there was a record yet.
    pub recent: Option<&'a Recent>,
    /// What the chosen pane shows.
    pub content: &'a PaneContent,
    /// Records that the view was too slow for.
    pub left_out: u64,
    /// The recording is over.
    pub ended: bool,
}

/// Draws everything.
pub fn draw(frame: &mut Frame<'_>, shown: Shown<'_>, state: &State, theme: Theme) {
    let [head, figures, tabs, body, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(3),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    draw_head(frame, head, shown, theme);
    if let Some(recent) = shown.recent {
        draw_figures(frame, figures, recent, shown.left_out, theme);
    }
    draw_tabs(frame, tabs, state, theme);
    let PaneContent { section, table, .. } = shown.content;
    let below = draw::section(frame, body, section, PANES[state.pane].color, theme);
    draw::table(frame, below, table, Some(state.selected(shown.content)), theme);
    draw_foot(frame, foot, shown, state, theme);
    if state.help {
        draw_help(frame);
    }
}

fn draw_head(frame: &mut Frame<'_>, area: Rect, shown: Shown<'_>, theme: Theme) {
    let (title, rest, elapsed) = match shown.recent {
        Some(Recent { profile, elapsed, .. }) => {
            let info = &profile.info;
            let engine = profile.run(SeriesKind::Cpu.id()).map_or("", |run| run.engine.as_str());
            (
                format!("{} ({})", info.process_name, info.pid),
                format!("  .NET {}  {}  {engine}", info.runtime, info.platform),
                duration::show(Duration::from_secs(elapsed.as_secs())),
            )
        }
        None => {
            let title = "waiting for the first samples".to_owned();
            (title, String::new(), duration::show(Duration::ZERO))
        }
    };
    let title = Span::styled(printable(&title), theme.strong());
    frame.render_widget(Line::from(vec![title, Span::raw(printable(&rest))]), area);
    let right = if shown.ended { "ended" } else { &elapsed };
    let right = Paragraph::new(format!(" {right}")).alignment(Alignment::Right);
    frame.render_widget(right.style(theme.strong()), area);
}

/// The headlines of all panes, and what was lost. Values over time take the rest of the line.
fn draw_figures(frame: &mut Frame<'_>, area: Rect, recent: &Recent, left_out: u64, theme: Theme) {
    let mut figures = Line::default();
    let mut add = |name: &str, value: String, style: Style| {
        figures.push_span(Span::raw(format!("{name} ")));
        figures.push_span(Span::styled(value, style));
        figures.push_span(Span::raw("  "));
    };
    let mut history = None;
    for pane in PANES {
        for (name, cell) in (pane.headline)(recent) {
            match cell {
                Cell::Line(values) => history = history.or(Some((values, pane.color))),
                cell => add(name, text::fit(&cell, usize::MAX), theme.color(pane.color)),
            }
        }
    }
    let dropped = recent.profile.dropped();
    let style = if dropped > 0 { theme.color(WARNING) } else { theme.weak() };
    add("dropped", format::count(dropped), style);
    if left_out > 0 {
        add("not shown", format::count(left_out), theme.color(WARNING));
    }
    let [left, right] =
        Layout::horizontal([Constraint::Length(figures.width() as u16), Constraint::Fill(1)])
            .areas(area);
    frame.render_widget(figures, left);
    if let Some((values, color)) = history {
        // A process that does little shall look so: the full height is 1 at least.
        draw::line(frame, right, &values, 1.0, theme.color(color));
    }
}

fn draw_tabs(frame: &mut Frame<'_>, area: Rect, state: &State, theme: Theme) {
    let titles =
        PANES.iter().enumerate().map(|(index, pane)| format!("{} {}", index + 1, pane.title));
    let tabs = Tabs::new(titles).select(state.pane).highlight_style(theme.selected()).divider(" ");
    frame.render_widget(tabs, area);
    let by_total = if state.by_total { ", by total" } else { "" };
    let chosen = format!("last {} s{by_total}", state.window().as_secs());
    frame.render_widget(
        Paragraph::new(chosen).alignment(Alignment::Right).style(theme.weak()),
        area,
    );
}

fn draw_foot(frame: &mut Frame<'_>, area: Rect, shown: Shown<'_>, state: &State, theme: Theme) {
    let mut spans = Vec::new();
    if state.searching {
        spans.push(Span::styled(format!("/{}▏", state.search), theme.strong()));
        spans.push(Span::styled("  Enter: keep   Esc: all rows", theme.weak()));
        frame.render_widget(Line::from(spans), area);
        return;
    }
    if state.frozen {
        let style = theme.color(WARNING).add_modifier(Modifier::BOLD);
        spans.push(Span::styled("FROZEN  ", style));
    }
    if let (Some(thread), Some(recent)) = (state.thread, shown.recent) {
        let name = recent.profile.tables.thread_name(thread);
        spans.push(Span::styled(format!("only {}  ", printable(&name)), theme.color(CHOSEN)));
    }
    if !state.search.is_empty() {
        spans.push(Span::styled(format!("/{}  ", state.search), theme.color(CHOSEN)));
    }
    let selected = shown.content.details.get(state.selected(shown.content));
    let detail = selected.map(|detail| detail.text.as_str()).filter(|text| !text.is_empty());
    let note = || shown.recent.and_then(|recent| recent.note.as_deref());
    spans.push(match detail.or_else(note) {
        Some(text) => Span::raw(printable(text)),
        None => Span::styled("q quit", theme.weak()),
    });
    frame.render_widget(Line::from(spans), area);
    frame.render_widget(
        Paragraph::new("  ? help").alignment(Alignment::Right).style(theme.weak()),
        area,
    );
}

fn draw_help(frame: &mut Frame<'_>) {
    let keys = (1..=PANES.len()).map(|key| key.to_string()).collect::<Vec<_>>().join(" ");
    let titles = PANES.iter().map(|pane| pane.title).collect::<Vec<_>>().join(", ");
    let panes = (format!("{keys}, Tab, ← →"), format!("page: {titles}"));
    let help = HELP.iter().map(|(keys, meaning)| ((*keys).to_owned(), (*meaning).to_owned()));
    let mut lines: Vec<Line<'_>> = std::iter::once(panes)
        .chain(help)
        .map(|(keys, meaning)| Line::raw(format!(" {keys:<20} {meaning}")))
        .collect();
    for pane in PANES.iter().filter(|pane| !pane.legend.is_empty()) {
        lines.push(Line::raw(format!(" Letters in {}:", pane.title)));
        for part in pane.legend.chunks(LETTERS_IN_LINE) {
            let part: Vec<String> =
                part.iter().map(|word| format!("{} {}", word.letter, word.text)).collect();
            lines.push(Line::raw(format!("   {}", part.join("  "))));
        }
    }
    lines.push(Line::raw(" Press any key to go back."));
    let area = frame.area();
    let (width, height) = (76.min(area.width), (lines.len() as u16 + 2).min(area.height));
    let place = Rect::new((area.width - width) / 2, (area.height - height) / 2, width, height);
    frame.render_widget(Clear, place);
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(" Keys ")), place);
}
