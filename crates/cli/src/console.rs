//! Standard output and standard error: terminals, colours, JSON, tables, closed pipes.

use document::{
    Document,
    plain::{json, json_pretty, visible, visible_lines},
    text::{self, Style},
};
use serde::Serialize;
use std::{
    env, fmt,
    io::{self, BufWriter, IsTerminal, Write},
};

/// Whether a stream may carry colours: it is a terminal that understands them and `NO_COLOR` is not
/// set.
pub fn colours(stream: &impl IsTerminal) -> bool {
    let set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
    stream.is_terminal()
        && !set("NO_COLOR")
        && env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Columns of the terminal on standard output; `None` when it is none, and lines must not be cut.
pub fn width() -> Option<usize> {
    if !io::stdout().is_terminal() {
        return None;
    }
    crossterm::terminal::size()
        .ok()
        .map(|(columns, _)| usize::from(columns))
        .filter(|columns| *columns > 0)
}

/// Standard output. That its reader went away is an error of its own kind ([`is_closed_output`]):
/// it is no failure of ours, as the same error from a file or a socket would be.
pub fn output() -> impl Write {
    Output(io::stdout().lock())
}

struct Output(io::StdoutLock<'static>);

/// The reader of standard output went away.
#[derive(Debug)]
struct OutputClosed;

impl fmt::Display for OutputClosed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("the reader of standard output went away")
    }
}

impl std::error::Error for OutputClosed {}

impl Output {
    fn told<T>(result: io::Result<T>) -> io::Result<T> {
        result.map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => io::Error::new(io::ErrorKind::BrokenPipe, OutputClosed),
            // What a terminal says that was closed.
            _ if output_is_gone() => io::Error::new(io::ErrorKind::BrokenPipe, OutputClosed),
            kind => io::Error::new(kind, format!("cannot write to standard output: {error}")),
        })
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Self::told(self.0.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Self::told(self.0.flush())
    }
}

/// Writes text to standard output, without what could steer a terminal.
///
/// # Errors
/// Also that the reader went away, which `main` takes for success.
pub fn print(text: &str) -> io::Result<()> {
    let mut out = output();
    out.write_all(visible_lines(text).as_bytes())?;
    out.flush()
}

/// Writes a document to standard output, as wide as the terminal and in its colours.
///
/// # Errors
/// As [`print()`].
pub fn show(document: &Document) -> io::Result<()> {
    let style = Style { width: width(), colour: colours(&io::stdout()) };
    let mut out = BufWriter::new(output());
    text::write(document, style, &mut out)?;
    out.flush()
}

/// Writes a value to standard output as indented JSON.
///
/// # Errors
/// As [`print()`].
pub fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    let mut text = json_pretty(value)?;
    text.push('\n');
    Ok(print(&text)?)
}

/// Writes a value to standard output as a line of JSON.
///
/// # Errors
/// As [`print()`].
pub fn print_json_line(value: &impl Serialize) -> anyhow::Result<()> {
    let mut line = json(value)?;
    line.push('\n');
    Ok(print(&line)?)
}

/// Whether the reader of standard output is gone, as far as that can be determined without writing.
pub fn output_is_gone() -> bool {
    crate::os::hung_up(&io::stdout())
}

/// Writes to standard error, without what could steer the terminal. If that fails, there is nowhere
/// to report it.
pub fn say(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", visible_lines(text));
}

/// Writes an error to standard error.
pub fn complain(error: &anyhow::Error) {
    let (on, off) = if colours(&io::stderr()) { ("\x1b[1;31m", "\x1b[0m") } else { ("", "") };
    let _ = writeln!(io::stderr().lock(), "{on}error:{off} {}", visible_lines(&describe(error)));
}

/// An error and its causes in one text. Errors of the libraries often contain their cause; it is
/// not repeated.
pub fn describe(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

/// Whether the error is that the reader of our output went away.
pub fn is_closed_output(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| match cause.downcast_ref::<io::Error>() {
        Some(error) => error.get_ref().is_some_and(|inner| inner.is::<OutputClosed>()),
        None => cause.is::<OutputClosed>(),
    })
}

/// Text of others (names, command lines) without what could steer a terminal or mislead its reader.
pub fn printable(text: &str) -> String {
    visible(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_told_once() {
        let io = || io::Error::other("disk on fire");
        let error = anyhow::Error::new(io()).context("cannot write x");
        assert_eq!(describe(&error), "cannot write x: disk on fire");
        let error = anyhow::Error::new(session::SessionError::Io(io()));
        assert_eq!(describe(&error), "the session could not be read or written: disk on fire");
    }

    #[test]
    fn a_closed_output_is_told_from_other_closed_pipes() {
        let closed = || Output::told::<()>(Err(io::ErrorKind::BrokenPipe.into())).unwrap_err();
        assert!(is_closed_output(&anyhow::Error::new(closed()).context("report")));
        assert!(is_closed_output(
            &anyhow::Error::new(report::ReportError::Io(closed())).context("report")
        ));
        assert!(!is_closed_output(
            &anyhow::Error::new(io::Error::from(io::ErrorKind::BrokenPipe)).context("a file")
        ));
        assert!(!is_closed_output(&anyhow::anyhow!("other")));
    }

    #[test]
    fn escape_sequences_of_others_are_harmless() {
        assert_eq!(printable("a\x1b[2Jb\n"), "a\\u{1b}[2Jb\\u{a}");
    }
}
