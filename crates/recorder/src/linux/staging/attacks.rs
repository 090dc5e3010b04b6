//! Users who try to turn the recorder's rights against files that are not theirs.

use super::*;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use std::collections::{BTreeMap, HashSet};
use std::fs::{self as files, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A user who owns nothing but the folder for temporary files.
const ATTACKER: u32 = 65534;

/// Announces a step to the attacker, and receives that the attacker is done with it.
type Listener = (SyncSender<&'static str>, Receiver<()>);

static LISTENER: Mutex<Option<Listener>> = Mutex::new(None);

/// Tests that stage something take turns: the attacker of one would hear of the steps of another.
pub(super) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells the attacker what comes next, and waits for it.
pub(super) fn step(name: &'static str) {
    if let Some((tell, done)) = LISTENER.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
        let _ = tell.send(name);
        let _ = done.recv();
    }
}

/// Gives up root, on this thread.
fn become_attacker() {
    let (uid, gid) = (Uid::from_raw(ATTACKER), Gid::from_raw(ATTACKER));
    set_thread_groups(&[]).unwrap();
    set_thread_res_gid(gid, gid, gid).unwrap();
    set_thread_res_uid(uid, uid, uid).unwrap();
}

/// A root directory of the attacker's with a folder for temporary files, and what lies outside of
/// it.
struct Scene {
    folder: tempfile::TempDir,
    decoys: AtomicU32,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mode =
            |path: &Path, mode| files::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        let scene = Self { folder, decoys: AtomicU32::new(0) };
        mode(scene.folder.path(), 0o755);
        for (name, rights) in
            [("root", 0o755), ("root/tmp", 0o755), ("outside", 0o755), ("outside/open", 0o777)]
        {
            files::create_dir(scene.path(name)).unwrap();
            mode(&scene.path(name), rights);
        }
        chown(scene.path("root"), Some(ATTACKER), Some(ATTACKER)).unwrap();
        chown(scene.path("root/tmp"), Some(ATTACKER), Some(ATTACKER)).unwrap();
        for name in ["outside/victim", "outside/open/agent.sock", "outside/open/libclrscope-0.so"] {
            files::write(scene.path(name), name).unwrap();
            mode(&scene.path(name), 0o640);
        }
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn viewer(&self, owner: u32) -> Viewer {
        let root = Root::at(&self.path("root")).unwrap();
        Viewer { root, tmp: Some("/tmp".into()), owner: Identity { uid: owner, gid: owner } }
    }

    /// Owner, mode and content of all that lies outside of the attacker's root.
    fn outside(&self) -> BTreeMap<PathBuf, (u32, u32, u32, Vec<u8>)> {
        let mut found = BTreeMap::new();
        let mut open = vec![self.path("outside")];
        while let Some(path) = open.pop() {
            let meta = files::symlink_metadata(&path).unwrap();
            if meta.is_dir() {
                open.extend(files::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            }
            let content = files::read(&path).unwrap_or_default();
            found.insert(path, (meta.uid(), meta.gid(), meta.mode(), content));
        }
        found
    }

    /// Folders of ours, not links in their places.
    fn ours(&self) -> Vec<PathBuf> {
        let entries = files::read_dir(self.path("root/tmp")).into_iter().flatten().flatten();
        let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        folders
            .map(|entry| entry.path())
            .filter(|path| is_ours(&path.file_name().unwrap().to_string_lossy()))
            .collect()
    }

    /// Removes what the attacker's tricks have left.
    fn tidy(&self) {
        for entry in files::read_dir(self.path("root/tmp")).into_iter().flatten().flatten() {
            let _ = match entry.file_type() {
                Ok(kind) if kind.is_symlink() => files::remove_file(entry.path()),
                Ok(_) if entry.file_name().to_string_lossy().starts_with("decoy-") => {
                    files::remove_dir_all(entry.path())
                }
                _ => Ok(()),
            };
        }
    }

    fn decoy(&self) -> PathBuf {
        self.path(&format!("root/tmp/decoy-{}", self.decoys.fetch_add(1, Ordering::Relaxed)))
    }

    /// One trick, played by the attacker on a folder of ours.
    fn play(&self, trick: Trick, ours: Option<&Path>) -> bool {
        let exchange = |one: &Path, other: &Path| {
            renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).is_ok()
        };
        let decoy = self.decoy();
        let (victim, open) = (self.path("outside/victim"), self.path("outside/open"));
        match trick {
            Trick::LinkToFile => symlink(victim, &decoy).unwrap(),
            Trick::LinkToFolder => symlink(open, &decoy).unwrap(),
            Trick::FolderOfLinks => {
                files::create_dir(&decoy).unwrap();
                files::set_permissions(&decoy, Permissions::from_mode(0o700)).unwrap();
                symlink(&victim, decoy.join(SOCKET)).unwrap();
                symlink(&victim, decoy.join("libclrscope-0.so")).unwrap();
            }
            Trick::WholeTmp => {
                symlink(open, &decoy).unwrap();
                return exchange(&self.path("root/tmp"), &decoy);
            }
            Trick::Gone => return ours.is_some_and(|ours| files::rename(ours, decoy).is_ok()),
        }
        ours.is_some_and(|ours| exchange(ours, &decoy))
    }
}

#[derive(Clone, Copy, Debug)]
enum Trick {
    /// A link to a file of root's is in the place of the folder.
    LinkToFile,
    /// A link to a folder in which everybody may write, outside of the attacker's root.
    LinkToFolder,
    /// A folder in which our names are links.
    FolderOfLinks,
    /// The folder for temporary files is a link itself.
    WholeTmp,
    /// There is nothing any more.
    Gone,
}

const TRICKS: [Trick; 5] =
    [Trick::LinkToFile, Trick::LinkToFolder, Trick::FolderOfLinks, Trick::WholeTmp, Trick::Gone];

/// Stages once; the attacker plays a trick before each of the steps that `plays` names. Gives the
/// steps that were taken and how many tricks worked.
fn stage(
    scene: &Scene,
    owner: u32,
    trick: Trick,
    plays: impl Fn(usize) -> bool + Send,
) -> (Vec<&'static str>, u32) {
    let (tell, told) = sync_channel(0);
    let (say_done, done) = sync_channel(0);
    *LISTENER.lock().unwrap() = Some((tell, done));
    std::thread::scope(|scope| {
        let attacker = scope.spawn(move || {
            become_attacker();
            let (mut steps, mut worked) = (Vec::new(), 0);
            for step in told {
                if plays(steps.len()) {
                    worked +=
                        u32::from(scene.play(trick, scene.ours().first().map(PathBuf::as_path)));
                }
                steps.push(step);
                let _ = say_done.send(());
            }
            (steps, worked)
        });
        let viewer = scene.viewer(owner);
        let place = viewer
            .owner
            .run(|| Staging::make_in(&viewer, Path::new("/tmp"), b"a library", AGENT_NAME))
            .unwrap();
        drop(place);
        *LISTENER.lock().unwrap() = None;
        attacker.join().unwrap()
    })
}

#[test]
fn nothing_outside_changes_whatever_is_exchanged_at_whichever_step() {
    let _alone = alone();
    let steps = stage(&Scene::new(), ATTACKER, Trick::Gone, |_| false).0;
    let expected = [
        "make the folder",
        "open the folder",
        "lock the folder",
        "write the library",
        "bind the socket",
    ];
    assert_eq!(steps[..5], expected);
    assert_eq!(steps[5..], ["listen", "done", "remove", "remove the folder"]);
    let mut worked = 0;
    // Root's own programs, too, may have been given a folder for temporary files that is somebody
    // else's.
    for owner in [ATTACKER, 0] {
        for trick in TRICKS {
            for at in 0..=steps.len() {
                let scene = Scene::new();
                // One more step: sweeping what a killed recorder has left.
                let left = scene.path("root/tmp/clrscope-4194305-00000000");
                files::create_dir(&left).unwrap();
                files::write(left.join(SOCKET), "").unwrap();
                chown(&left, Some(owner), Some(owner)).unwrap();
                let before = scene.outside();
                worked += stage(&scene, owner, trick, |step| step == at).1;
                assert_eq!(scene.outside(), before, "user {owner}, {trick:?} before step {at}");
                // At every step from this one on.
                stage(&scene, owner, trick, |step| step >= at);
                assert_eq!(scene.outside(), before, "user {owner}, {trick:?} from step {at} on");
            }
        }
    }
    assert!(worked > 40, "only {worked} tricks could be played");
}

#[test]
fn nothing_outside_changes_however_fast_it_is_exchanged() {
    let _alone = alone();
    let rounds =
        std::env::var("CLRSCOPE_HARM_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(100);
    let scene = Scene::new();
    let before = scene.outside();
    let (over, worked) = (AtomicBool::new(false), AtomicU32::new(0));
    let library = vec![7; 2_400_000];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            become_attacker();
            let mut met = HashSet::new();
            let mut random = 12345_u64;
            while !over.load(Ordering::Relaxed) {
                let Some(ours) = scene.ours().into_iter().find(|ours| !met.contains(ours)) else {
                    continue;
                };
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let wait = Duration::from_micros((random >> 33) % 4000);
                let began = Instant::now();
                while began.elapsed() < wait {}
                let trick = TRICKS[(random >> 60) as usize % 3];
                worked.fetch_add(u32::from(scene.play(trick, Some(&ours))), Ordering::Relaxed);
                scene.tidy();
                met.insert(ours);
            }
        });
        for round in 0..rounds {
            let viewer = scene.viewer(ATTACKER);
            // Neither making nor removing has to succeed.
            let _ = viewer
                .owner
                .run(|| Staging::make_in(&viewer, Path::new("/tmp"), &library, AGENT_NAME))
                .unwrap();
            if scene.outside() != before {
                over.store(true, Ordering::Relaxed);
                panic!("round {round}: {:?}", scene.outside());
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    let worked = worked.into_inner();
    println!("{rounds} rounds, {worked} exchanges");
    assert!(worked > rounds / 50, "the attacker was too slow: {worked} of {rounds}");
}
