//! Processes of other users, as root records them: their owners get nothing of root's rights, and
//! nothing stays behind.
#![cfg(target_os = "linux")]
mod common;

use common::{Running, clrscope, file, scratch};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::process::{Gid, Uid, geteuid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use testkit::{Runtime, Sample, TargetProcess};

/// Nobody, on every Linux.
const OTHER: u32 = 65534;

/// Commands that let others reach the runtimes, in a mount namespace: they may not enter our home,
/// where these are.
fn open_runtimes() -> String {
    let home = std::env::var("HOME").unwrap();
    let cache =
        std::env::var("CLRSCOPE_CACHE").unwrap_or_else(|_| format!("{home}/.cache/clrscope"));
    format!(
        "mount --bind '{cache}' /mnt; mount -t tmpfs -o mode=755 none '{home}'; mkdir -p \
            '{cache}'; mount --move /mnt '{cache}'"
    )
}

/// `burn` of another user, with a folder for temporary files that belongs to that user. `before`
/// are commands in its mount namespace.
fn burn_of_another_user(runtime: Runtime, before: &str) -> TargetProcess {
    assert!(geteuid().is_root(), "this test takes other users, so it needs root");
    let script = format!(
        "set -e; {}; {before}; chown {OTHER}:{OTHER} \"$TMPDIR\"; \
         exec setpriv --reuid={OTHER} --regid={OTHER} --clear-groups \"$@\"",
        open_runtimes()
    );
    let mut process = Sample::named("burn")
        .launch(runtime, &["--seconds", "3000"])
        .under(["unshare", "-m", "sh", "-c", &script, "sh"])
        .private_tmp()
        .start();
    process.wait_for_ready();
    process
}

fn record(process: &TargetProcess, output: &Path) -> Command {
    let pid = process.pid().to_string();
    clrscope(["record", &pid, "--duration", "300ms", "-o", output.to_str().unwrap()])
}

/// Gives up root on this thread.
fn become_other() {
    let (uid, gid) = (Uid::from_raw(OTHER), Gid::from_raw(OTHER));
    set_thread_groups(&[]).unwrap();
    set_thread_res_gid(gid, gid, gid).unwrap();
    set_thread_res_uid(uid, uid, uid).unwrap();
}

/// Folders of the agent in a folder for temporary files.
fn staged(tmp: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(tmp).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("clrscope-"))
        .map(|entry| entry.path())
        .collect()
}

#[test]
fn they_are_recorded_and_their_owners_gain_nothing() {
    let folder = scratch();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let (output, victim) = (file(&folder, "x.clrscope"), file(&folder, "victim"));
    fs::write(&victim, "of root alone").unwrap();
    fs::set_permissions(&victim, Permissions::from_mode(0o640)).unwrap();
    let facts = || {
        let meta = fs::metadata(&victim).unwrap();
        (meta.uid(), meta.gid(), meta.mode(), fs::read(&victim).unwrap())
    };
    let before = facts();

    for runtime in [Runtime::V3_1, Runtime::V9] {
        let process = burn_of_another_user(runtime, ":");
        Running::start(record(&process, &output)).wait().expect(0);
        assert!(staged(process.tmp().unwrap()).is_empty(), "{runtime}");
    }

    // Its owner exchanges the folder again and again.
    let runs: u32 =
        std::env::var("CLRSCOPE_HARM_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(6);
    let mut process = burn_of_another_user(Runtime::V9, ":");
    let tmp = process.tmp().unwrap().to_owned();
    let (over, exchanged) = (AtomicBool::new(false), AtomicU32::new(0));
    let mut recorded = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            become_other();
            let mut seed = 7_u64;
            while !over.load(Ordering::Relaxed) {
                for staged in staged(&tmp) {
                    seed = seed
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    let decoy = tmp.join(format!("decoy-{seed}"));
                    if seed >> 63 == 0 {
                        symlink(&victim, &decoy).unwrap();
                    } else {
                        fs::create_dir(&decoy).unwrap();
                        symlink(&victim, decoy.join("agent.sock")).unwrap();
                    }
                    std::thread::sleep(Duration::from_micros((seed >> 33) % 5000));
                    let done =
                        renameat_with(CWD, &staged, CWD, &decoy, RenameFlags::EXCHANGE).is_ok();
                    exchanged.fetch_add(u32::from(done), Ordering::Relaxed);
                    // What was exchanged would not be found again.
                    let _ = renameat_with(
                        CWD,
                        &staged,
                        CWD,
                        tmp.join(format!("old-{seed}")),
                        RenameFlags::empty(),
                    );
                }
            }
        });
        for run in 0..runs {
            let ended = Running::start(record(&process, &output)).wait();
            recorded += u32::from(ended.code() == 0);
            if facts() != before {
                over.store(true, Ordering::Relaxed);
                panic!("run {run}: {:?}", facts());
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    let exchanged = exchanged.into_inner();
    println!("{runs} runs, {exchanged} exchanges, {recorded} recorded");
    assert!(exchanged > 0, "the attacker was too slow");
    assert!(process.is_running());
    Running::start(record(&process, &output)).wait().expect(0);
}

/// An ordinary user who sees no processes of others, and may not open `/dev/null`, records a
/// process of their own.
#[test]
fn an_ordinary_user_records_with_proc_hidden() {
    let process = burn_of_another_user(
        Runtime::V9,
        "mount -t proc -o hidepid=2 proc /proc; touch \"$TMPDIR\"/null; chmod 600 \"$TMPDIR\"/null; \
         mount --bind \"$TMPDIR\"/null /dev/null",
    );
    let output = process.tmp().unwrap().join("own.clrscope");
    let mut command = Command::new("nsenter");
    command.args(["--target", &process.pid().to_string(), "--mount", "setpriv"]);
    command.args([&format!("--reuid={OTHER}"), &format!("--regid={OTHER}"), "--clear-groups"]);
    command.args([
        common::binary(),
        "record",
        &process.pid().to_string(),
        "-d",
        "2s",
        "-p",
        "cpu,wall,gc",
        "-o",
    ]);
    command.arg(&output).env("TMPDIR", process.tmp().unwrap()).env("HOME", process.tmp().unwrap());
    Running::start(command).wait().expect(0);
    let report = common::Report::of(&output);
    let engine = report.0["recording"]["profilers"][0]["engine"].as_str().unwrap();
    assert!(engine.starts_with("timer signals"), "{engine}");
    let weight = report.total_weight("cpu", "Clrscope.Samples.Burn", "Main");
    // Other tests use the processors, too.
    assert!((200_000_000..3_000_000_000).contains(&weight), "{weight} ns of CPU time in 2 s");
}

#[test]
fn what_a_killed_clrscope_left_is_removed_by_the_next() {
    let folder = scratch();
    let tmp = folder.path().join("tmp");
    fs::create_dir(&tmp).unwrap();
    let output = file(&folder, "x.clrscope");
    // It is the only one that has to keep its folder: the command may start further processes.
    let launch = [common::binary(), "launch", "-q", "-o", output.to_str().unwrap(), "--"];
    let mut launched =
        Sample::named("burn").launch(Runtime::V9, &["--seconds", "60"]).under(launch);
    launched = launched.env("TMPDIR", tmp.to_str().unwrap());
    let mut clrscope = launched.start();
    clrscope.wait_for_ready();
    let program = common::child_of(clrscope.pid());
    assert_eq!(staged(&tmp).len(), 1);
    clrscope.signal(rustix::process::Signal::KILL).unwrap();
    clrscope.wait(Duration::from_secs(20)).unwrap();
    assert_eq!(staged(&tmp).len(), 1);

    let mut process = Sample::named("burn")
        .launch(Runtime::V9, &["--seconds", "60"])
        .env("TMPDIR", tmp.to_str().unwrap())
        .start();
    process.wait_for_ready();
    Running::start(record(&process, &output)).wait().expect(0);
    assert!(staged(&tmp).is_empty());
    let program = rustix::process::Pid::from_raw(i32::try_from(program).unwrap()).unwrap();
    rustix::process::kill_process(program, rustix::process::Signal::KILL).unwrap();
}

#[test]
fn a_process_that_changed_its_root_is_reached_where_it_listens() {
    for runtime in testkit::sample_runtimes() {
        let folder = scratch();
        let (jail, output) = (folder.path().join("jail"), file(&folder, "x.clrscope"));
        fs::create_dir_all(jail.join("tmp")).unwrap();
        let arguments = [jail.to_str().unwrap(), "60"];
        let mut process = Sample::named("jailed").launch(runtime, &arguments).private_tmp().start();
        process.wait_for_ready();
        Running::start(record(&process, &output)).wait().expect(0);
        assert_eq!(fs::read_dir(jail.join("tmp")).unwrap().count(), 0, "{runtime}");
        assert!(process.is_running(), "{runtime}: {}", process.transcript());
        // Where its socket is gone as well, nobody blames a cleaner.
        let sockets = fs::read_dir(process.tmp().unwrap()).unwrap();
        sockets.for_each(|socket| fs::remove_file(socket.unwrap().path()).unwrap());
        let ended = Running::start(record(&process, &output)).wait();
        ended.expect_error(
            4,
            &["changed its root directory", jail.to_str().unwrap(), "dotnet-diagnostic-"],
        );
    }
}

/// A launch as root of a command that runs `burn` as another user, through `before`. Everything has
/// its folder for temporary files in `tmp`.
fn launch_as_another_user(
    runtime: Runtime,
    before: &str,
    tmp: &Path,
    output: &Path,
) -> common::Ended {
    assert!(geteuid().is_root(), "this test takes other users, so it needs root");
    let script = format!(
        "set -e; {}; exec setpriv --reuid={OTHER} --regid={OTHER} --clear-groups {before} \"$@\"",
        open_runtimes()
    );
    let clrscope =
        [common::binary(), "launch", "-p", "cpu,gc", "-o", output.to_str().unwrap(), "--"];
    let unshared = ["unshare", "-m", "sh", "-c", &script, "sh"];
    let burn = Sample::named("burn")
        .launch(runtime, &["--seconds", "2"])
        .under([&clrscope[..], &unshared].concat());
    let mut command = burn.env("TMPDIR", tmp).command();
    command.stdin(std::process::Stdio::null());
    Running::start(command).wait()
}

#[test]
fn a_command_of_root_that_becomes_another_user_is_recorded() {
    for runtime in [Runtime::V3_1, Runtime::V9] {
        let folder = scratch();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let (tmp, output) = (folder.path().join("tmp"), file(&folder, "x.clrscope"));
        fs::create_dir(&tmp).unwrap();
        fs::set_permissions(&tmp, Permissions::from_mode(0o1777)).unwrap();
        let ended = launch_as_another_user(runtime, "", &tmp, &output).expect(0);
        assert!(ended.out.contains("cpu_ns"), "{runtime}: {ended:?}");
        let report = common::Report::of(&output);
        assert!(
            report.total_weight("cpu", "Clrscope.Samples.Burn", "Slow") > 0,
            "{runtime}: {}",
            ended.err
        );
        assert_eq!(fs::metadata(&output).unwrap().uid(), 0, "{runtime}");
        assert!(staged(&tmp).is_empty(), "{runtime}");
    }
}

#[test]
fn why_a_command_of_another_user_was_not_recorded_is_said() {
    let folder = scratch();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let (open, closed, output) =
        (folder.path().join("open"), folder.path().join("closed"), file(&folder, "x.clrscope"));
    for (tmp, mode) in [(&open, 0o1777), (&closed, 0o700)] {
        fs::create_dir(tmp).unwrap();
        fs::set_permissions(tmp, Permissions::from_mode(mode)).unwrap();
    }
    let who = format!("ran as user {OTHER}");
    // As sudo does.
    let bare = "env -i DOTNET_SYSTEM_GLOBALIZATION_INVARIANT=1";
    let ended = launch_as_another_user(Runtime::V9, bare, &open, &output);
    ended.expect_error(
        125,
        &[&who, "burn.dll", "lacks the variables", "as that user", "clrscope record "],
    );
    let ended = launch_as_another_user(Runtime::V9, "", &closed, &output);
    ended.expect_error(
        125,
        &[&who, "cannot reach the agent in ", closed.to_str().unwrap(), "clrscope record "],
    );
    assert!(!output.exists() && staged(&open).is_empty() && staged(&closed).is_empty());
}
