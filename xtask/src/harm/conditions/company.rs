//! Others in or at the target: profilers, debuggers, handlers of signals, a second clrscope.

use super::{NOBODY, SIGPROF};
use crate::harm::native;
use crate::harm::scene::{Live, Scene, launcher, signal};
use crate::tool;
use anyhow::{Context, Result, anyhow, ensure};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, thread};
use testkit::{Compiler, Extras, Runtime, source_root};

pub(super) enum When {
    Before,
    During,
    After,
}

pub(super) fn preload(scene: &mut Scene) -> Result<()> {
    // A copy where every user sees it, also the commands that the target runs under.
    let library = scene.path(native::LIBRARY);
    fs::copy(scene.native.join(native::LIBRARY), &library)?;
    scene.set("LD_PRELOAD", library.display().to_string());
    let base = scene.executable.file_name().unwrap_or_default().to_string_lossy().into_owned();
    scene.set("HARM_EXE", base);
    Ok(())
}

/// Another profiler's SIGPROF handler and timer, which must continue to work.
pub(super) fn sigprof(scene: &mut Scene, when: When) -> Result<()> {
    preload(scene)?;
    let gate = scene.path("sigprof");
    let counted = scene.path("sigprof.ticks");
    // The target may be another user.
    fs::write(&counted, "0")?;
    chown(&counted, Some(NOBODY), Some(NOBODY))
        .or_else(|error| if tool::is_root() { Err(error) } else { Ok(()) })?;
    scene.set("HARM_SIGPROF", gate.display().to_string());
    scene.foreign_signals |= 1 << (SIGPROF - 1);
    match when {
        When::Before => {
            scene.when_ready(move |_| {
                fs::write(&gate, "")?;
                thread::sleep(Duration::from_millis(30));
                Ok(())
            });
        }
        When::During => {
            let at = scene.random.milliseconds(50, 900);
            let late = gate.clone();
            scene.at(at, move |_| Ok(fs::write(&gate, "")?));
            // Where clrscope was quicker.
            scene.when_done(move |_| Ok(fs::write(&late, "")?));
        }
        When::After => scene.when_done(move |_| Ok(fs::write(&gate, "")?)),
    }
    scene.checks.push(Box::new(move |_| {
        let ticks = || fs::read_to_string(&counted).ok()?.trim().parse::<i64>().ok();
        let until = Instant::now() + Duration::from_secs(5);
        let first = ticks().unwrap_or(0);
        while Instant::now() < until {
            if ticks().is_some_and(|ticks| ticks > first) {
                return None;
            }
            thread::sleep(Duration::from_millis(20));
        }
        Some(format!("the program's own SIGPROF handler gets no ticks any more ({first} so far)"))
    }));
    Ok(())
}

/// The program sandboxes itself while it is recorded.
pub(super) fn seccomp_later(scene: &mut Scene) -> Result<()> {
    preload(scene)?;
    let gate = scene.path("filter");
    scene.set("HARM_SECCOMP", gate.display().to_string());
    let late = gate.clone();
    let at = scene.random.milliseconds(0, 900);
    scene.at(at, move |_| Ok(fs::write(&gate, "")?));
    // Where clrscope was quicker.
    scene.when_done(move |_| Ok(fs::write(&late, "")?));
    scene.checks.push(Box::new(|live| {
        let status =
            || fs::read_to_string(format!("/proc/{}/status", live.target)).unwrap_or_default();
        let is_filtered = || {
            status()
                .lines()
                .any(|line| line.strip_prefix("Seccomp:").is_some_and(|mode| mode.trim() == "2"))
        };
        let until = Instant::now() + Duration::from_secs(5);
        while !is_filtered() {
            if Instant::now() > until {
                return Some("the program did not get its filter of system calls".into());
            }
            thread::sleep(Duration::from_millis(20));
        }
        None
    }));
    Ok(())
}

pub(super) fn second_clrscope(scene: &mut Scene) -> Result<()> {
    let at = scene.random.milliseconds(0, 500);
    let (clrscope, output, tmp) =
        (scene.clrscope.clone(), scene.path("second.clrscope"), scene.own_tmp.clone());
    let running = Arc::new(Mutex::new(None));
    let started = running.clone();
    scene.at(at, move |live| {
        let mut command = Command::new(&clrscope);
        command
            .args(["record", &live.target.to_string(), "-q", "-p", "cpu,gc", "-d", "500ms", "-o"])
            .arg(&output);
        let child = command
            .env("TMPDIR", &tmp)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        // Beside the cell, so that it is never a zombie; the checks see what it leaves.
        let waits = thread::spawn(move || wait_or_kill(child, Duration::from_secs(30)));
        *started.lock().unwrap_or_else(PoisonError::into_inner) = Some(waits);
        Ok(())
    });
    // What it holds in the target while it records is not left over.
    scene.when_done(move |_| {
        let waits = running.lock().unwrap_or_else(PoisonError::into_inner).take();
        waits.map_or(Ok(()), |waits| {
            waits.join().map_err(|_| anyhow!("the wait for the second clrscope panicked"))
        })
    });
    Ok(())
}

fn wait_or_kill(mut child: std::process::Child, limit: Duration) {
    let until = Instant::now() + limit;
    while matches!(child.try_wait(), Ok(None)) && Instant::now() < until {
        thread::sleep(Duration::from_millis(20));
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// A profiler of somebody else's, made with the same crates.
fn example() -> PathBuf {
    tool::target_folder().join("debug/examples/libempty_allocated.so")
}

pub(super) fn no_example() -> Option<String> {
    (!example().is_file())
        .then(|| "`cargo build -p corprof --example empty_allocated` did not make it".into())
}

pub(super) fn apm(scene: &mut Scene) -> Result<()> {
    scene.set("CORECLR_ENABLE_PROFILING", "1");
    scene.set("CORECLR_PROFILER", "{2F6A4C1E-5B6D-4C63-8A0E-5D7C9B1E3F04}");
    scene.set("CORECLR_PROFILER_PATH", example().display().to_string());
    Ok(())
}

fn drop_in_library() -> PathBuf {
    tool::target_folder().join("debug/libNewRelicProfiler.so")
}

pub(super) fn no_drop_in() -> Option<String> {
    (!drop_in_library().is_file()).then(|| "`cargo build -p newrelic` did not make it".into())
}

/// Methods of the target that the New Relic library instruments: called once to some million times
/// a second, by all kinds of threads, and by some that throw.
const TRACED: &str =
    "Mix,Length,Deep,ThrowNew,Visit,Multiply,Spin,Answer,Outer,Inner,Twice,CatchInside,Locks";

/// The New Relic library in the main profiler slot, with a managed agent and methods that it
/// traces.
pub(super) fn drop_in(scene: &mut Scene) -> Result<()> {
    let home = scene.path("home");
    fs::create_dir_all(home.join("extensions"))?;
    let source = source_root().join("crates/newrelic/tests/programs/Agent.cs");
    let extras = Extras { symbols: &["SHAPE_10_54"], ..Extras::default() };
    let agent = Compiler::find()?.compile_with(
        "NewRelic.Agent.Core",
        &source,
        Runtime::V3_1,
        true,
        extras,
    )?;
    fs::copy(agent, home.join("NewRelic.Agent.Core.dll"))?;
    fs::write(
        home.join("newrelic.config"),
        "<configuration><log level=\"info\"/></configuration>",
    )?;
    let matchers =
        TRACED.split(',').map(|name| format!("<exactMethodMatcher methodName='{name}'/>"));
    let points = format!(
        "<extension><instrumentation><tracerFactory><match assemblyName='harmtarget' \
         className='Clrscope.Samples.HarmTarget'>{}</match></tracerFactory></instrumentation></extension>",
        matchers.collect::<String>()
    );
    fs::write(home.join("extensions/points.xml"), points)?;
    let mode = if scene.random.below(2) == 0 { "default" } else { "fast" };
    for (name, value) in [
        ("CORECLR_ENABLE_PROFILING", "1"),
        ("CORECLR_PROFILER", "{36032161-FFC0-4B61-B559-F6C5D41BAE5A}"),
        ("CORECLR_PROFILER_PATH", &drop_in_library().display().to_string()),
        ("CORECLR_NEW_RELIC_HOME", &home.display().to_string()),
        ("NEW_RELIC_CLRSCOPE_MODE", mode),
        ("AGENT_QUIET", "true"),
    ] {
        scene.set(name, value);
    }
    Ok(())
}

/// A debugger that stops everything for a moment.
pub(super) fn debugger(scene: &mut Scene) -> Result<()> {
    let at = scene.random.milliseconds(0, 700);
    scene.at(at, |live| {
        let mut command = Command::new("gdb");
        command.args([
            "-nx",
            "-batch",
            "-iex",
            "set auto-solib-add off",
            "-iex",
            "set debuginfod enabled off",
        ]);
        command.args(["-p", &live.target.to_string(), "-ex", "shell sleep 0.4", "-ex", "detach"]);
        let child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        thread::spawn(move || wait_or_kill(child, Duration::from_secs(15)));
        Ok(())
    });
    scene.when_done(|live| {
        // It detaches before anything is checked.
        let until = Instant::now() + Duration::from_secs(10);
        let traced = || {
            let status =
                fs::read_to_string(format!("/proc/{}/status", live.target)).unwrap_or_default();
            status
                .lines()
                .any(|line| line.strip_prefix("TracerPid:").is_some_and(|pid| pid.trim() != "0"))
        };
        while traced() && Instant::now() < until {
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    });
    Ok(())
}

/// SIGSTOP for half a second.
pub(super) fn stopped(scene: &mut Scene, whom: fn(&Live) -> Option<u32>) -> Result<()> {
    let at = scene.random.milliseconds(0, 700);
    // Whoever is gone by then needs neither.
    scene.at(at, move |live| {
        let _ = whom(live).map(|pid| signal(pid, Signal::STOP));
        Ok(())
    });
    scene.at(at + 500, move |live| {
        let _ = whom(live).map(|pid| signal(pid, Signal::CONT));
        Ok(())
    });
    scene.when_done(move |live| {
        let _ = whom(live).map(|pid| signal(pid, Signal::CONT));
        Ok(())
    });
    Ok(())
}

/// Another user who may write to the target's folder for temporary files, and has put there what
/// clrscope could take for its own or for the target's.
pub(super) fn squatter(scene: &mut Scene) -> Result<()> {
    let (folder, tmp, victim) = (scene.path("squat"), scene.tmp.clone(), scene.path("victim"));
    fs::create_dir(&folder)?;
    chown(&folder, Some(NOBODY), Some(NOBODY))?;
    fs::set_permissions(&tmp, fs::Permissions::from_mode(0o1777))?;
    fs::create_dir(&victim)?;
    fs::write(victim.join("kept"), "kept")?;
    fs::set_permissions(victim.join("kept"), fs::Permissions::from_mode(0o600))?;
    let (mark, planted) = (folder.join("ready"), planted(&tmp));
    for (path, _) in &planted {
        scene.planted.extend(path.file_name().map(|name| name.to_string_lossy().into_owned()));
    }
    let (made, hit) = (planted.clone(), victim.clone());
    scene.when_ready(move |live| {
        for (path, kind) in &made {
            plant(path, *kind, &hit)?;
            lchown(path, Some(NOBODY), Some(NOBODY))?;
        }
        let socket = diagnostic_socket(&tmp, live.target)?;
        let fakes = ["0", "1", "99999999999"]
            .map(|key| tmp.join(format!("dotnet-diagnostic-{socket}-{key}-socket")));
        let mut command = Command::new(launcher()?);
        command
            .args(["inside", "--user", &NOBODY.to_string(), "--"])
            .arg(launcher()?)
            .arg("squat")
            .arg(&mark)
            .args(fakes);
        let child = command.stdin(Stdio::null()).spawn()?;
        thread::spawn(move || wait_or_kill(child, Duration::from_secs(60)));
        let until = Instant::now() + Duration::from_secs(5);
        while !mark.exists() {
            ensure!(Instant::now() < until, "the squatter did not start");
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    });
    scene.checks.push(Box::new(move |_| {
        let gone = planted.iter().find(|(path, _)| path.symlink_metadata().is_err());
        let file = victim.join("kept");
        let is_as_before = fs::read_to_string(&file).is_ok_and(|text| text == "kept")
            && file
                .symlink_metadata()
                .is_ok_and(|stat| stat.mode() & 0o7777 == 0o600 && stat.uid() == 0)
            && fs::read_dir(&victim).is_ok_and(|entries| entries.count() == 1);
        match gone {
            Some((path, _)) => {
                Some(format!("what another user owns was removed: {}", path.display()))
            }
            None => (!is_as_before).then(|| "a file behind another user's link was changed".into()),
        }
    }));
    let stop = scene.path("squat/ready");
    scene.undo(move || {
        // The squatter leaves when its mark is gone.
        let _ = fs::remove_file(&stop);
    });
    Ok(())
}

/// What another user puts in the way.
#[derive(Clone, Copy)]
enum Planted {
    /// A folder, with a link in it to the file that must not be changed.
    Folder,
    /// A link to its folder.
    Link,
    /// A pipe without a writer.
    Pipe,
    /// A file.
    File,
}

/// Names as those of clrscope's folders: a process id, and eight hexadecimal digits.
fn planted(tmp: &Path) -> Vec<(PathBuf, Planted)> {
    let kinds = [Planted::Folder, Planted::Link, Planted::Pipe, Planted::File];
    // The first process, which lives, and one that cannot be.
    let pids = [1, u32::MAX];
    let named = |pid: u32| {
        let numbered = kinds.into_iter().zip(0..);
        numbered.map(move |(kind, n)| (tmp.join(format!("clrscope-{pid}-0000000{n}")), kind))
    };
    pids.into_iter().flat_map(named).collect()
}

fn plant(path: &Path, kind: Planted, victim: &Path) -> Result<()> {
    match kind {
        Planted::Folder => {
            fs::create_dir(path)?;
            for name in ["libclrscope-1.so", "clrscope.sock"] {
                symlink(victim.join("kept"), path.join(name))?;
            }
        }
        Planted::Link => symlink(victim, path)?,
        Planted::Pipe => mknodat(CWD, path, FileType::Fifo, Mode::from(0o666), 0)?,
        Planted::File => fs::write(path, "")?,
    }
    Ok(())
}

/// The id by which the socket of a process is named, which is that in its own pid namespace.
fn diagnostic_socket(tmp: &Path, pid: u32) -> Result<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    let id = ids.and_then(|ids| ids.split_whitespace().last()).context("no NSpid")?.to_owned();
    let begin = format!("dotnet-diagnostic-{id}-");
    let is_there = fs::read_dir(tmp)?
        .flatten()
        .any(|entry| entry.file_name().to_string_lossy().starts_with(&begin));
    ensure!(is_there, "the target has no socket {begin}… in {}", tmp.display());
    Ok(id)
}
