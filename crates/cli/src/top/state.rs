//! What the user has chosen in the live view, and what keys do to it.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use profile::NameStyle;
use report::{PANES, PaneContent, PaneOptions, ThreadChoice};
use session::ThreadId;
use std::time::Duration;

/// Lengths of the window, in seconds.
const WINDOWS: [u64; 3] = [5, 15, 60];

/// Rows that page up and page down move by.
const PAGE: usize = 10;

/// What the user has chosen.
#[derive(Clone, Debug)]
pub struct State {
    /// The pane, by its place in [`PANES`].
    pub pane: usize,
    /// Selected row of each pane.
    selected: [usize; PANES.len()],
    /// Methods by their total instead of by themselves.
    pub by_total: bool,
    /// Names with namespaces and parameters.
    pub full_names: bool,
    /// Methods of this thread only.
    pub thread: Option<ThreadId>,
    /// Rows with this text only.
    pub search: String,
    /// Keys go into the search text.
    pub searching: bool,
    /// The numbers stay as they are.
    pub frozen: bool,
    /// Keys are explained.
    pub help: bool,
    /// The user wants to leave.
    pub quit: bool,
    window: usize,
}

impl State {
    /// The first pane, methods by themselves, and the shortest window.
    pub fn new() -> Self {
        Self {
            pane: 0,
            selected: [0; PANES.len()],
            by_total: false,
            full_names: false,
            thread: None,
            search: String::new(),
            searching: false,
            frozen: false,
            help: false,
            quit: false,
            window: 0,
        }
    }

    /// How panes are wanted.
    pub fn options(&self) -> PaneOptions {
        let names = if self.full_names { NameStyle::FULL } else { NameStyle::SHORT };
        PaneOptions { thread: self.thread, by_total: self.by_total, names }
    }

    /// How much of the past is shown.
    pub fn window(&self) -> Duration {
        Duration::from_secs(WINDOWS[self.window])
    }

    /// A key was pressed while the pane had this content.
    pub fn key(&mut self, key: KeyEvent, content: &PaneContent) {
        if key.kind == KeyEventKind::Release {
            return;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            self.quit |= matches!(key.code, KeyCode::Char('c' | 'd'));
            return;
        }
        if self.searching {
            self.search_key(key.code);
            return;
        }
        if self.help {
            self.help = false;
            return;
        }
        match key.code {
            KeyCode::Char('q') => self.quit = true,
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.help = true,
            KeyCode::Char(digit @ '1'..='9') => {
                let pane = digit as usize - '1' as usize;
                self.pane = if pane < PANES.len() { pane } else { self.pane };
            }
            KeyCode::Tab | KeyCode::Right => self.turn(1),
            KeyCode::BackTab | KeyCode::Left => self.turn(PANES.len() - 1),
            KeyCode::Down | KeyCode::Char('j') => self.select(content, |row| row + 1),
            KeyCode::Up | KeyCode::Char('k') => self.select(content, |row| row.saturating_sub(1)),
            KeyCode::PageDown => self.select(content, |row| row + PAGE),
            KeyCode::PageUp => self.select(content, |row| row.saturating_sub(PAGE)),
            KeyCode::Home | KeyCode::Char('g') => self.select(content, |_| 0),
            KeyCode::End | KeyCode::Char('G') => self.select(content, |_| usize::MAX),
            KeyCode::Char('s') => self.by_total = !self.by_total,
            KeyCode::Char('n') => self.full_names = !self.full_names,
            // What is frozen is of the window that it was taken of.
            KeyCode::Char('w') if !self.frozen => {
                self.window = (self.window + 1) % WINDOWS.len();
            }
            KeyCode::Char(' ' | 'p') => self.frozen = !self.frozen,
            KeyCode::Char('/') => {
                self.searching = true;
                self.search.clear();
            }
            KeyCode::Char('t') => match self.thread.take() {
                Some(_) => {}
                None => self.show(ThreadChoice::Offers),
            },
            KeyCode::Enter => {
                let row = content.details.get(self.selected(content));
                if let Some(thread) = row.and_then(|row| row.thread) {
                    self.thread = Some(thread);
                    self.show(ThreadChoice::Obeys);
                    self.selected[self.pane] = 0;
                    self.search.clear();
                }
            }
            KeyCode::Esc => match self.search.is_empty() {
                false => self.search.clear(),
                true => self.thread = None,
            },
            _ => {}
        }
    }

    fn search_key(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.searching = false,
            KeyCode::Esc => {
                self.searching = false;
                self.search.clear();
            }
            KeyCode::Backspace => {
                self.search.pop();
            }
            KeyCode::Char(letter) => self.search.push(letter),
            _ => {}
        }
        self.selected[self.pane] = 0;
    }

    fn turn(&mut self, by: usize) {
        self.pane = (self.pane + by) % PANES.len();
    }

    /// Turns to the first pane that has this to do with a choice of one thread.
    fn show(&mut self, choice: ThreadChoice) {
        let pane = PANES.iter().position(|pane| pane.thread_choice == choice);
        self.pane = pane.unwrap_or(self.pane);
    }

    /// The selected row of the pane; the last one when rows have gone.
    pub fn selected(&self, content: &PaneContent) -> usize {
        self.selected[self.pane].min(content.table.rows.len().saturating_sub(1))
    }

    fn select(&mut self, content: &PaneContent, to: impl Fn(usize) -> usize) {
        let last = content.table.rows.len().saturating_sub(1);
        self.selected[self.pane] = to(self.selected(content)).min(last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use document::{Cell, Table, left};
    use report::Detail;

    fn press(state: &mut State, content: &PaneContent, keys: &str) {
        for key in keys.chars() {
            let code = match key {
                '\n' => KeyCode::Enter,
                '\x1b' => KeyCode::Esc,
                '\t' => KeyCode::Tab,
                '↓' => KeyCode::Down,
                '⇟' => KeyCode::PageDown,
                letter => KeyCode::Char(letter),
            };
            state.key(KeyEvent::new(code, KeyModifiers::NONE), content);
        }
    }

    /// Three threads; those with the search text of the state.
    fn threads(state: &State) -> PaneContent {
        let names = ["main", "Pool 1", "Pool 2"];
        let details = (0..)
            .zip(names)
            .map(|(id, name)| Detail { text: name.to_owned(), thread: Some(ThreadId(id)) });
        let mut content = PaneContent {
            table: Table::new(vec![left("name")], names.map(|name| vec![Cell::name(name)])),
            details: details.collect(),
            ..PaneContent::default()
        };
        content.keep(&state.search);
        content
    }

    #[test]
    fn a_thread_is_chosen_by_search_and_enter_and_left_by_escape() {
        let mut state = State::new();
        let content = threads(&state);
        press(&mut state, &content, "t/pool\n");
        let content = threads(&state);
        assert_eq!((content.table.rows.len(), state.searching), (2, false));
        press(&mut state, &content, "↓\n");
        assert_eq!((state.thread, PANES[state.pane].title), (Some(ThreadId(2)), "Methods"));
        assert_eq!((state.options().thread, state.search.as_str()), (Some(ThreadId(2)), ""));
        let content = threads(&state);
        press(&mut state, &content, "\x1b");
        assert_eq!(state.thread, None);
    }

    #[test]
    fn selection_stays_inside() {
        let mut state = State::new();
        let content = threads(&state);
        press(&mut state, &content, "2⇟");
        assert_eq!(state.selected(&content), 2);
        assert_eq!(state.selected(&PaneContent::default()), 0);
        press(&mut state, &content, "k");
        assert_eq!(state.selected(&content), 1);
    }

    #[test]
    fn panes_are_chosen_by_number_and_in_turn() {
        let mut state = State::new();
        let content = PaneContent::default();
        let mut at = |keys| {
            press(&mut state, &content, keys);
            PANES[state.pane].title
        };
        assert_eq!(
            [at("3"), at("9"), at("\t"), at("\t")],
            ["Exceptions", "Exceptions", "GC", "Methods"]
        );
    }

    #[test]
    fn letters_are_text_while_searching_and_keys_otherwise() {
        let mut state = State::new();
        let content = threads(&state);
        press(&mut state, &content, "/q");
        assert!(!state.quit && state.search == "q");
        press(&mut state, &content, "\x1b?");
        assert!(state.help && state.search.is_empty());
        press(&mut state, &content, "q");
        assert!(!state.help && !state.quit, "any key leaves the help");
        press(&mut state, &content, "sw wq");
        assert!(state.by_total && state.frozen && state.quit);
        assert_eq!(state.window(), Duration::from_secs(15));
    }

    #[test]
    fn control_c_leaves_from_everywhere() {
        let mut state = State::new();
        state.searching = true;
        let key = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        state.key(key, &PaneContent::default());
        assert!(state.quit);
    }
}
