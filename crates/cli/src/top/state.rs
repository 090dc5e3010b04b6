//! What the user has chosen in the live view, and what keys do to it.

use super::model::{Question, View};
use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use session::ThreadId;
use std::time::Duration;

/// Lengths of the window, in seconds.
const WINDOWS: [u64; 3] = [5, 15, 60];

/// Rows that page up and page down move by.
const PAGE: usize = 10;

/// A page of the live view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tab {
    /// CPU by method.
    Methods,
    /// Threads and their states.
    Threads,
    /// Exceptions by type.
    Exceptions,
    /// Collections and pauses.
    Gc,
}

impl Tab {
    /// All pages and their titles, in the order of their keys from `1`.
    pub const ALL: [(Self, &'static str); 4] = [
        (Self::Methods, "Methods"),
        (Self::Threads, "Threads"),
        (Self::Exceptions, "Exceptions"),
        (Self::Gc, "GC"),
    ];

    /// Its place in [`Self::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }
}

/// What the user has chosen.
#[derive(Clone, Debug)]
pub struct State {
    /// The page.
    pub tab: Tab,
    /// Selected row of each page.
    pub selected: [usize; Tab::ALL.len()],
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
    /// The screen as it was when the user stopped it.
    pub frozen: Option<View>,
    /// Keys are explained.
    pub help: bool,
    /// The user wants to leave.
    pub quit: bool,
    window: usize,
}

impl State {
    /// Methods by themselves, in the shortest window.
    pub fn new() -> Self {
        Self {
            tab: Tab::Methods,
            selected: [0; Tab::ALL.len()],
            by_total: false,
            full_names: false,
            thread: None,
            search: String::new(),
            searching: false,
            frozen: None,
            help: false,
            quit: false,
            window: 0,
        }
    }

    /// What to ask of the recording.
    pub fn question(&self) -> Question {
        Question { window: self.window(), thread: self.thread, by_total: self.by_total }
    }

    /// How much of the past is shown.
    pub fn window(&self) -> Duration {
        Duration::from_secs(WINDOWS[self.window])
    }

    /// Whether a row with these texts is shown.
    pub fn shows(&self, texts: &[&str]) -> bool {
        let search = self.search.to_lowercase();
        search.is_empty() || texts.iter().any(|text| text.to_lowercase().contains(&search))
    }

    /// Number of rows of the page that are shown.
    pub fn rows(&self, view: &View) -> usize {
        match self.tab {
            Tab::Methods => view.methods.iter().filter(|row| self.shows(&[&row.name])).count(),
            Tab::Threads => view.threads.iter().filter(|row| self.shows_thread(row)).count(),
            Tab::Exceptions => {
                view.exceptions.iter().filter(|row| self.shows_exception(row)).count()
            }
            Tab::Gc => view.collections.len(),
        }
    }

    /// Whether this thread is shown.
    pub fn shows_thread(&self, row: &super::model::ThreadRow) -> bool {
        self.shows(&[
            &row.name,
            &row.tid.to_string(),
            row.method.as_deref().unwrap_or_default(),
            row.state.unwrap_or_default(),
        ])
    }

    /// Whether this type is shown.
    pub fn shows_exception(&self, row: &super::model::ExceptionRow) -> bool {
        self.shows(&[&row.name, row.message.as_deref().unwrap_or_default()])
    }

    /// A key was pressed while `view` was on the screen.
    pub fn key(&mut self, key: KeyEvent, view: &View) {
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
            KeyCode::Char(digit @ '1'..='4') => {
                self.tab = Tab::ALL[digit as usize - '1' as usize].0
            }
            KeyCode::Tab | KeyCode::Right => self.turn(1),
            KeyCode::BackTab | KeyCode::Left => self.turn(Tab::ALL.len() - 1),
            KeyCode::Down | KeyCode::Char('j') => self.select(view, |row| row + 1),
            KeyCode::Up | KeyCode::Char('k') => self.select(view, |row| row.saturating_sub(1)),
            KeyCode::PageDown => self.select(view, |row| row + PAGE),
            KeyCode::PageUp => self.select(view, |row| row.saturating_sub(PAGE)),
            KeyCode::Home | KeyCode::Char('g') => self.select(view, |_| 0),
            KeyCode::End | KeyCode::Char('G') => self.select(view, |_| usize::MAX),
            KeyCode::Char('s') => self.by_total = !self.by_total,
            KeyCode::Char('n') => self.full_names = !self.full_names,
            KeyCode::Char('w') => self.window = (self.window + 1) % WINDOWS.len(),
            KeyCode::Char(' ' | 'p') => {
                self.frozen = if self.frozen.is_some() { None } else { Some(view.clone()) };
            }
            KeyCode::Char('/') => {
                self.searching = true;
                self.search.clear();
            }
            KeyCode::Char('t') => match self.thread.take() {
                Some(_) => {}
                None => self.tab = Tab::Threads,
            },
            KeyCode::Enter if self.tab == Tab::Threads => {
                let row = view
                    .threads
                    .iter()
                    .filter(|row| self.shows_thread(row))
                    .nth(self.selected(view));
                if let Some(row) = row {
                    self.thread = Some(row.id);
                    self.tab = Tab::Methods;
                    self.selected[self.tab.index()] = 0;
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
        self.selected[self.tab.index()] = 0;
    }

    fn turn(&mut self, by: usize) {
        self.tab = Tab::ALL[(self.tab.index() + by) % Tab::ALL.len()].0;
    }

    /// The selected row of the page; the last one when rows have gone.
    pub fn selected(&self, view: &View) -> usize {
        self.selected[self.tab.index()].min(self.rows(view).saturating_sub(1))
    }

    fn select(&mut self, view: &View, to: impl Fn(usize) -> usize) {
        let last = self.rows(view).saturating_sub(1);
        self.selected[self.tab.index()] = to(self.selected(view)).min(last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::model::ThreadRow;

    fn press(state: &mut State, view: &View, keys: &str) {
        for key in keys.chars() {
            let code = match key {
                '\n' => KeyCode::Enter,
                '\x1b' => KeyCode::Esc,
                '\t' => KeyCode::Tab,
                '↓' => KeyCode::Down,
                '⇟' => KeyCode::PageDown,
                letter => KeyCode::Char(letter),
            };
            state.key(KeyEvent::new(code, KeyModifiers::NONE), view);
        }
    }

    fn view() -> View {
        let thread = |id: u32, name: &str| ThreadRow {
            id: ThreadId(id),
            tid: 100 + id,
            name: name.to_owned(),
            cpu: 0.0,
            state: Some("idle"),
            states: Default::default(),
            method: None,
        };
        View {
            threads: vec![thread(0, "main"), thread(1, "Pool 1"), thread(2, "Pool 2")],
            ..View::default()
        }
    }

    #[test]
    fn a_thread_is_chosen_by_search_and_enter_and_left_by_escape() {
        let (mut state, view) = (State::new(), view());
        press(&mut state, &view, "2/pool\n");
        assert_eq!((state.rows(&view), state.searching), (2, false));
        press(&mut state, &view, "↓\n");
        assert_eq!((state.thread, state.tab), (Some(ThreadId(2)), Tab::Methods));
        assert_eq!(state.question().thread, Some(ThreadId(2)));
        press(&mut state, &view, "\x1b");
        assert_eq!(state.thread, None);
    }

    #[test]
    fn selection_stays_inside() {
        let (mut state, view) = (State::new(), view());
        press(&mut state, &view, "2⇟");
        assert_eq!(state.selected(&view), 2);
        assert_eq!(state.selected(&View::default()), 0);
        press(&mut state, &view, "k");
        assert_eq!(state.selected(&view), 1);
    }

    #[test]
    fn letters_are_text_while_searching_and_keys_otherwise() {
        let (mut state, view) = (State::new(), view());
        press(&mut state, &view, "/q");
        assert!(!state.quit && state.search == "q");
        press(&mut state, &view, "\x1b?");
        assert!(state.help && state.search.is_empty());
        press(&mut state, &view, "q");
        assert!(!state.help && !state.quit, "any key leaves the help");
        press(&mut state, &view, "sw q");
        assert!(state.by_total && state.frozen.is_some() && state.quit);
        assert_eq!(state.window(), Duration::from_secs(15));
    }

    #[test]
    fn control_c_leaves_from_everywhere() {
        let mut state = State::new();
        state.searching = true;
        state.key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL), &View::default());
        assert!(state.quit);
    }
}
