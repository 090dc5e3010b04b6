//! The circumstances of one cell while it runs: folders, limits, and what happens when.

use super::random::Random;
use crate::tool;
use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tempfile::TempDir;
use testkit::ControlGroup;

/// The processes of a cell.
#[derive(Clone, Debug)]
pub struct Live {
    /// The target.
    pub target: u32,
    /// Clrscope, while it runs.
    pub clrscope: Option<u32>,
}

/// Something that is done once.
pub type Step = Box<dyn FnOnce(&Live) -> Result<()> + Send>;

/// Something that is looked at when all is over: what is wrong.
pub type Check = Box<dyn FnOnce(&Live) -> Option<String> + Send>;

/// What a command may take that sets something up.
const SET_UP: Duration = Duration::from_secs(20);

/// The circumstances.
pub struct Scene {
    /// Random numbers of this cell.
    pub random: Random,
    /// The target's folder for temporary files.
    pub tmp: PathBuf,
    /// Clrscope's.
    pub own_tmp: PathBuf,
    /// Where the target runs: its core file lies there. Everybody may write into it, whatever
    /// happens to the folder for temporary files.
    pub home: PathBuf,
    /// Where clrscope writes its session.
    pub output: PathBuf,
    /// The target's name.
    pub target: &'static str,
    /// The target's executable.
    pub executable: PathBuf,
    /// Folder of the native library.
    pub native: PathBuf,
    /// The program under test.
    pub clrscope: PathBuf,
    /// Commands that run the target, outermost first.
    pub wraps: Vec<Vec<String>>,
    /// Options of `xtask inside`.
    pub inside: Vec<String>,
    /// Variables of the target.
    pub env: Vec<(String, String)>,
    /// When the target is ready, before clrscope comes.
    pub ready: Vec<Step>,
    /// Milliseconds after clrscope came.
    pub meanwhile: Vec<(u64, Step)>,
    /// When clrscope is gone, before anything is checked.
    pub done: Vec<Step>,
    /// Checks at the end, while the target lives.
    pub checks: Vec<Check>,
    /// The target's memory group, where it has one.
    pub memory: Option<Arc<ControlGroup>>,
    /// Signals whose handlers change without clrscope: a mask.
    pub foreign_signals: u64,
    /// Names of files in the target's folder for temporary files that are made to look like
    /// clrscope's.
    pub planted: BTreeSet<String>,
    undo: Vec<Box<dyn FnOnce() + Send>>,
    folder: TempDir,
}

impl Scene {
    /// Plain circumstances.
    ///
    /// # Errors
    /// When folders cannot be made.
    pub fn new(
        random: Random,
        target: &'static str,
        executable: PathBuf,
        native: PathBuf,
        clrscope: PathBuf,
    ) -> Result<Scene> {
        // Not in /tmp: some conditions put another folder there.
        let parent = Some(PathBuf::from("/var/tmp"))
            .filter(|folder| folder.is_dir())
            .unwrap_or_else(std::env::temp_dir);
        let folder = tempfile::Builder::new().prefix("harm-").tempdir_in(parent)?;
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
        let sub = |name: &str| -> Result<PathBuf> {
            let path = folder.path().join(name);
            fs::create_dir(&path)?;
            Ok(path)
        };
        let (tmp, own_tmp, out, home) = (sub("t")?, sub("own")?, sub("out")?, sub("home")?);
        fs::set_permissions(&home, fs::Permissions::from_mode(0o1777))?;
        Ok(Scene {
            random,
            tmp,
            own_tmp,
            home,
            output: out.join("harm.clrscope"),
            target,
            executable,
            native,
            clrscope,
            wraps: Vec::new(),
            inside: Vec::new(),
            env: Vec::new(),
            ready: Vec::new(),
            meanwhile: Vec::new(),
            done: Vec::new(),
            checks: Vec::new(),
            memory: None,
            foreign_signals: 0,
            planted: BTreeSet::new(),
            undo: Vec::new(),
            folder,
        })
    }

    /// A path in the folder of this cell.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Adds a variable of the target.
    pub fn set(&mut self, name: &str, value: impl Into<String>) {
        self.env.push((name.to_owned(), value.into()));
    }

    /// Runs the target under a command.
    pub fn wrap(&mut self, words: &[&str]) {
        self.wraps.push(words.iter().map(|word| (*word).to_owned()).collect());
    }

    /// Does something when the target is ready.
    pub fn when_ready(&mut self, step: impl FnOnce(&Live) -> Result<()> + Send + 'static) {
        self.ready.push(Box::new(step));
    }

    /// Does something while clrscope works.
    pub fn at(
        &mut self,
        milliseconds: u64,
        step: impl FnOnce(&Live) -> Result<()> + Send + 'static,
    ) {
        self.meanwhile.push((milliseconds, Box::new(step)));
    }

    /// Does something when clrscope is gone.
    pub fn when_done(&mut self, step: impl FnOnce(&Live) -> Result<()> + Send + 'static) {
        self.done.push(Box::new(step));
    }

    /// Does something when the cell is over, whatever happened.
    pub fn undo(&mut self, step: impl FnOnce() + Send + 'static) {
        self.undo.push(Box::new(step));
    }

    /// The command before the target's own: conditions from outside to inside.
    ///
    /// # Errors
    /// When this program cannot be found.
    pub fn prefix(&self) -> Result<Vec<String>> {
        let mut words: Vec<String> = self.wraps.iter().flatten().cloned().collect();
        if !self.inside.is_empty() {
            words.extend([launcher()?.display().to_string(), "inside".into()]);
            words.extend(self.inside.iter().cloned());
            words.push("--".into());
        }
        Ok(words)
    }

    /// Mounts a file system in memory, which goes with the cell.
    ///
    /// # Errors
    /// When it cannot be mounted.
    pub fn mount_memory(&mut self, at: &Path, options: &str) -> Result<()> {
        run(Command::new("mount").args(["-t", "tmpfs", "-o", options, "none"]).arg(at))?;
        let at = at.to_owned();
        self.undo(move || unmount(&at));
        Ok(())
    }

    /// A control group that the target starts in, which goes with the cell.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn group(&mut self, controller: &str) -> Result<Arc<ControlGroup>> {
        let name =
            self.folder.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
        let group = ControlGroup::new(controller, &name).context("no control groups")?;
        let group = Arc::new(group);
        let entrance = group.entrance();
        self.wrap(&entrance.each_ref().map(String::as_str));
        let kept = Arc::clone(&group);
        self.undo(move || drop(kept));
        Ok(group)
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        while let Some(undo) = self.undo.pop() {
            undo();
        }
    }
}

/// A copy of this program, which stays when a build replaces the program during a run.
///
/// # Errors
/// When it cannot be copied.
pub fn launcher() -> Result<PathBuf> {
    static LAUNCHER: OnceLock<PathBuf> = OnceLock::new();
    if let Some(path) = LAUNCHER.get() {
        return Ok(path.clone());
    }
    let folder = tool::target_folder().join("harm");
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let path = folder.join("launcher");
    // It may not be there yet.
    let _ = fs::remove_file(&path);
    // This link leads to the program that runs also when its file has been replaced, which the
    // build before the matrix may have done.
    fs::copy("/proc/self/exe", &path).with_context(|| path.display().to_string())?;
    Ok(LAUNCHER.get_or_init(|| path).clone())
}

/// Runs a command that sets something up.
///
/// # Errors
/// When it fails.
pub fn run(command: &mut Command) -> Result<()> {
    tool::output(command, SET_UP).map(drop)
}

/// Unmounts, also what is still in use.
pub fn unmount(at: &Path) {
    // It may not be mounted any more.
    let _ = run(Command::new("umount").arg("-l").arg(at));
}

/// Sends a signal.
///
/// # Errors
/// When the process is gone.
pub fn signal(pid: u32, signal: Signal) -> Result<()> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).context("no such pid")?;
    Ok(kill_process(pid, signal)?)
}

/// Whether a process is there and no zombie.
pub fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// The process below `root` (or itself) that runs this executable, the one nearest to `root`.
///
/// # Errors
/// When there is none.
pub fn find_below(root: u32, executable: &Path) -> Result<u32> {
    let mut generation = vec![root];
    for _ in 0..8 {
        for pid in &generation {
            if fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|link| link == executable) {
                return Ok(*pid);
            }
        }
        generation = generation.iter().flat_map(|pid| children(*pid)).collect();
    }
    ensure!(false, "{} runs nowhere below process {root}", executable.display());
    Ok(root)
}

fn children(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    lists
        .flat_map(|list| {
            list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()
        })
        .collect()
}
