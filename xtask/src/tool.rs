//! Running other programs: one place for environments, time limits and error texts.

use anyhow::{Context, Result, bail};
use std::env;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use testkit::source_root;

/// How often a running child is looked at.
const POLL: Duration = Duration::from_millis(20);

/// The file of a program on `PATH`.
pub fn find(name: &str) -> Option<PathBuf> {
    let file = format!("{name}{}", env::consts::EXE_SUFFIX);
    env::split_paths(&env::var_os("PATH")?)
        .map(|folder| folder.join(&file))
        .find(|path| path.is_file())
}

/// The cargo that runs this task, in the root of the source tree.
pub fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(source_root());
    command
}

/// Where cargo puts what it builds.
pub fn target_folder() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| source_root().join("target"), PathBuf::from)
}

/// The program after `cargo build --release`.
pub fn clrscope() -> PathBuf {
    target_folder().join("release").join(format!("clrscope{}", env::consts::EXE_SUFFIX))
}

/// What Ctrl-C does: asks a child to end.
pub fn interrupt(child: &Child) -> Result<()> {
    run(Command::new("kill").arg("-INT").arg(child.id().to_string()), Duration::from_secs(10))
}

/// Files with an extension below a folder, but for what is built or installed, what is hidden, the
/// change log, and folders of tests.
///
/// # Errors
/// When a folder cannot be read.
pub fn files(folder: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir()
            && !name.starts_with('.')
            && name != "target"
            && name != "node_modules"
            && name != "fixtures"
            && name != "tests"
        {
            found.extend(files(&path, extension)?);
        } else if path.extension().is_some_and(|found| found == extension) && name != "CHANGELOG.md"
        {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// The command as a person would type it, for error texts and progress lines.
pub fn shown(command: &Command) -> String {
    let mut text = quoted(command.get_program());
    for argument in command.get_args() {
        let _ = write!(text, " {}", quoted(argument));
    }
    text
}

fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@+%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.into_owned()
    } else {
        format!("'{word}'")
    }
}

/// Runs the command with its output shown as it comes, and fails when it does.
pub fn run(command: &mut Command, limit: Duration) -> Result<()> {
    let status = status(command, limit)?;
    if !status.success() {
        bail!("`{}` failed with {status}", shown(command));
    }
    Ok(())
}

/// Builds a library that is an example of a crate, as a release, and gives its path.
pub fn release_example(package: &str, example: &str, limit: Duration) -> Result<PathBuf> {
    let build = ["build", "--quiet", "--release", "--package", package, "--example", example];
    run(cargo().args(build), limit)?;
    Ok(target_folder().join(format!("release/examples/lib{example}.so")))
}

/// Runs the command with its output shown as it comes, and gives its status. The command gets no
/// standard input.
pub fn status(command: &mut Command, limit: Duration) -> Result<ExitStatus> {
    let text = shown(command);
    let mut child =
        command.stdin(Stdio::null()).spawn().with_context(|| format!("cannot start `{text}`"))?;
    wait(&mut child, limit).with_context(|| format!("`{text}`"))
}

/// Runs the command quietly and gives its standard output; what it wrote to both streams goes into
/// the error.
pub fn output(command: &mut Command, limit: Duration) -> Result<String> {
    let text = shown(command);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start `{text}`"))?;
    let stdout = child.stdout.take().context("no pipe")?;
    let stderr = child.stderr.take().context("no pipe")?;
    let out = thread::spawn(move || drain(stdout));
    let err = thread::spawn(move || drain(stderr));
    let status = wait(&mut child, limit).with_context(|| format!("`{text}`"));
    let (out, err) = (out.join().unwrap_or_default(), err.join().unwrap_or_default());
    let status = status?;
    if !status.success() {
        bail!("`{text}` failed with {status}\n{}{}", tail(&out), tail(&err));
    }
    Ok(out)
}

/// Whether the command starts and succeeds; its output is dropped.
pub fn succeeds(command: &mut Command, limit: Duration) -> bool {
    output(command, limit).is_ok()
}

/// Whether all commands are to end.
static CANCELED: AtomicBool = AtomicBool::new(false);

/// Ends all commands that run, because the whole has failed.
pub fn cancel() {
    CANCELED.store(true, Ordering::Relaxed);
}

/// Waits for a child, and kills it when it takes longer than the limit, or all are
/// [canceled](cancel).
pub fn wait(child: &mut Child, limit: Duration) -> Result<ExitStatus> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        let canceled = CANCELED.load(Ordering::Relaxed);
        if canceled || started.elapsed() > limit {
            // The child may have ended by now; either way it must be waited for.
            let _ = child.kill();
            let _ = child.wait();
            if canceled {
                bail!("was ended because another step failed");
            }
            bail!("was still running after {} s and was killed", limit.as_secs());
        }
        thread::sleep(POLL);
    }
}

fn drain(mut stream: impl Read) -> String {
    let mut bytes = Vec::new();
    // A stream that breaks off still gave what came before.
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(40)..].iter().fold(String::new(), |mut all, line| {
        let _ = writeln!(all, "  {line}");
        all
    })
}

/// Whether this process runs as the super-user and could install packages.
pub fn is_root() -> bool {
    Command::new("id")
        .arg("-u")
        .stdin(Stdio::null())
        .output()
        .is_ok_and(|output| output.status.success() && output.stdout.trim_ascii() == b"0")
}

/// The number of bytes below a folder; 0 where it does not exist. For progress lines only.
pub fn bytes_below(folder: &Path) -> u64 {
    let Ok(entries) = folder.read_dir() else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => bytes_below(&entry.path()),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_typed() {
        assert_eq!(shown(Command::new("a").args(["b=1", "c d", ""])), "a b=1 'c d' ''");
    }

    #[test]
    fn a_failing_command_tells_what_it_wrote() {
        let error = output(
            Command::new("sh").args(["-c", "echo why >&2; exit 3"]),
            Duration::from_secs(10),
        )
        .unwrap_err();
        assert!(error.to_string().contains("  why"), "{error}");
    }

    #[test]
    fn a_command_that_hangs_is_killed() {
        let started = Instant::now();
        let error = run(Command::new("sleep").arg("60"), Duration::from_millis(100)).unwrap_err();
        assert!(format!("{error:#}").contains("killed"), "{error:#}");
        assert!(started.elapsed() < Duration::from_secs(10));
    }
}
