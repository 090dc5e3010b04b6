//! Files of other tools as sessions, so that everything that works on a recording works on them:
//! pprof, collapsed stacks, speedscope, the Firefox Profiler, nettrace (`dotnet-trace`) and gcdump
//! (`dotnet-gcdump`).
//!
//! What a file is, its content says ([`detect()`]), not its name. What a file does not say, such as
//! times in collapsed stacks, is not made up: the session has notes on it.
//!
//! Files are hostile. Memory is bounded by [`limits`], whatever they contain: what would need more
//! is an [`ImportError`], never a panic. `fuzz` has a target that reads bytes as each format.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)
)]

mod detect;
mod error;
mod format;
pub mod limits;
mod out;
mod readers;
mod samples;
mod unpack;

pub use detect::detect;
pub use error::ImportError;
pub use format::Format;

use session::{SessionError, Sink};
use std::io::{BufReader, Read, Seek, SeekFrom};

/// Reads a file of another tool, and writes it as a session. `name` is what the session calls the
/// process, where the file does not say.
///
/// # Errors
/// When the file is damaged or beyond a limit, or cannot be read, or the sink fails.
pub fn import(
    mut file: impl Read + Seek,
    format: Format,
    name: &str,
    sink: &mut dyn Sink,
) -> Result<(), ImportError> {
    file.seek(SeekFrom::Start(0))?;
    let mut out = out::Out::new(sink, format, name);
    match format {
        Format::Pprof => readers::pprof::read(&mut file, &mut out)?,
        Format::Collapsed => {
            readers::collapsed::read(BufReader::new(unpack::text(file)?), &mut out)?
        }
        Format::Json => readers::json::read(BufReader::new(unpack::text(file)?), &mut out)?,
        Format::Nettrace => readers::nettrace::read(&mut file, &mut out)?,
        Format::Gcdump => readers::gcdump::read(file, &mut out)?,
    }
    out.finish()
}

/// Makes a session of a file of another tool; `None` if the file is none, which may be a session of
/// ours. `make` makes the file that the session is written to; it is deleted with what is returned.
///
/// # Errors
/// As [`import`], and when the session cannot be written.
pub fn to_session(
    file: &mut (impl Read + Seek),
    name: &str,
    make: impl FnOnce() -> std::io::Result<tempfile::NamedTempFile>,
) -> Result<Option<tempfile::NamedTempFile>, ImportError> {
    let Some(format) = detect(file)? else { return Ok(None) };
    let made = make().map_err(SessionError::Io)?;
    let output = made.reopen().map_err(SessionError::Io)?;
    let mut writer = session::SessionWriter::new(output, env!("CARGO_PKG_VERSION"))?;
    import(file, format, name, &mut writer)?;
    writer.finish()?;
    Ok(Some(made))
}
