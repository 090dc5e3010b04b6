//! Limits on what a target may take, and on the machine around it.

use super::{NOBODY, THREAD_COUNT_PAUSE, THREAD_COUNTS, option};
use crate::harm::scene::{Scene, run, unmount};
use anyhow::{Context, Result};
use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{fs, thread};

/// The limit counts for all processes of a user, so it is set a little above what they use now.
pub(super) fn sigpending(scene: &mut Scene) -> Result<()> {
    let status = fs::read_to_string("/proc/self/status")?;
    let queued = status
        .lines()
        .find_map(|line| line.strip_prefix("SigQ:")?.trim().split('/').next()?.parse::<u64>().ok());
    let limit = queued.context("no SigQ")? + 60;
    option(scene, "--sigpending", &limit.to_string())
}

/// At most forty threads and processes more than there are when all is ready, and perhaps none. A
/// program that starts others has some more at a moment that was not seen: it has four at least.
pub(super) fn pids(scene: &mut Scene) -> Result<()> {
    let group = scene.group("pids")?;
    let least = if scene.target == "forkexec" { 4 } else { 0 };
    let more = scene.random.below(41).max(least) as u64;
    scene.when_ready(move |_| {
        // Programs that start threads all the time have more of them at one moment than at another.
        let mut most = 0;
        for _ in 0..THREAD_COUNTS {
            most = most.max(group.number("pids.current").context("no pids.current")?);
            thread::sleep(THREAD_COUNT_PAUSE);
        }
        let limit = (most + more).to_string();
        Ok(group.set("pids.max", &limit)?)
    });
    Ok(())
}

/// 64 MB to 2 GB of addresses more than are used when all is ready. A program that starts a
/// thousand threads a second ends with 150 MB without clrscope, too, four times in ten: it has 512
/// MB at least.
pub(super) fn address_space(scene: &mut Scene) -> Result<()> {
    let least = if scene.target == "churn1000" { 512 } else { 64 };
    let more = (least + scene.random.below(2049 - least)) as u64 * (1 << 20);
    scene.when_ready(move |live| {
        let status = fs::read_to_string(format!("/proc/{}/status", live.target))?;
        let size = status.lines().find_map(|line| {
            line.strip_prefix("VmSize:")?.split_whitespace().next()?.parse::<u64>().ok()
        });
        let limit = (size.context("no VmSize")? << 10) + more;
        let pid = i32::try_from(live.target).ok().and_then(Pid::from_raw);
        match prlimit(pid, Resource::As, Rlimit { current: Some(limit), maximum: Some(limit) }) {
            // Root in a container may not have CAP_SYS_RESOURCE: then only the process's user may
            // set its limits.
            Err(Errno::PERM) => {
                let user = NOBODY.to_string();
                let mut command = Command::new("setpriv");
                command.args(["--reuid", &user, "--regid", &user, "--clear-groups", "prlimit"]);
                run(command.args(["--pid", &live.target.to_string(), &format!("--as={limit}")]))
            }
            result => Ok(result.map(drop)?),
        }
    });
    Ok(())
}

/// What a program needs at least for one budget of its youngest generation, which is as large as
/// the processor's cache.
const LEAST_MEMORY: u64 = 64 << 20;

/// 48 MB more than the most that was used until one and a half seconds after all is ready, or than
/// what a program needs that has done next to nothing until then.
pub(super) fn memory(scene: &mut Scene) -> Result<()> {
    let group = scene.group("memory")?;
    scene.memory = Some(group.clone());
    scene.when_ready(move |_| {
        thread::sleep(Duration::from_millis(1500));
        let used = group.number_of("memory.max_usage_in_bytes", "memory.peak");
        let used = used.context("the most memory that was used is not known")?;
        let limit = (used.max(LEAST_MEMORY) + (48 << 20)).to_string();
        Ok(group.limit(("memory.limit_in_bytes", &limit), ("memory.max", &limit))?)
    });
    Ok(())
}

/// A twentieth of a processor, from when all is ready until clrscope is gone.
pub(super) fn cpu(scene: &mut Scene) -> Result<()> {
    let group = scene.group("cpu")?;
    let after = group.clone();
    scene.when_ready(move |_| {
        Ok(group.limit(("cpu.cfs_quota_us", "5000"), ("cpu.max", "5000 100000"))?)
    });
    scene.when_done(move |_| {
        Ok(after.limit(("cpu.cfs_quota_us", "-1"), ("cpu.max", "max 100000"))?)
    });
    Ok(())
}

pub(super) fn tmp_full(scene: &mut Scene) -> Result<()> {
    let tmp = scene.tmp.clone();
    scene.mount_memory(&tmp, "size=256k,mode=1777")?;
    scene.when_ready(move |_| {
        // It ends when there is no room left.
        let _ = fs::write(tmp.join("filling"), vec![0_u8; 1 << 20]);
        Ok(())
    });
    Ok(())
}

pub(super) fn tmp_read_only(scene: &mut Scene) -> Result<()> {
    let tmp = scene.tmp.clone();
    scene.mount_memory(&tmp, "size=4m,mode=1777")?;
    let after = tmp.clone();
    scene.when_ready(move |_| {
        let until = Instant::now() + Duration::from_secs(3);
        // It is busy as long as a file is being written there, or one that was removed is still
        // open.
        loop {
            let done = run(Command::new("mount").args(["-o", "remount,ro"]).arg(&tmp));
            if done.is_ok() || Instant::now() > until {
                return done;
            }
            thread::sleep(Duration::from_millis(20));
        }
    });
    // A launch tries once more at its end.
    scene.when_done(move |_| run(Command::new("mount").args(["-o", "remount,rw"]).arg(&after)));
    Ok(())
}

pub(super) fn disk_full(scene: &mut Scene) -> Result<()> {
    let folder = scene.output.parent().context("no folder")?.to_owned();
    scene.mount_memory(&folder, "size=16k")
}

/// A file system of its own for the session, which does not answer for most of a second.
pub(super) fn disk_stalled(scene: &mut Scene) -> Result<()> {
    let (image, folder) =
        (scene.path("image"), scene.output.parent().context("no folder")?.to_owned());
    fs::File::create(&image)?.set_len(512 << 20)?;
    run(Command::new("mkfs.ext4").args(["-q", "-O", "^has_journal"]).arg(&image))?;
    run(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&folder))?;
    let freeze = |way: &'static str, folder: PathBuf| {
        move || run(Command::new("fsfreeze").arg(way).arg(&folder))
    };
    let at = scene.random.milliseconds(0, 600);
    let (begin, end, last) =
        (freeze("-f", folder.clone()), freeze("-u", folder.clone()), freeze("-u", folder.clone()));
    scene.undo(move || {
        // As a rule it has been thawed already.
        let _ = last();
        unmount(&folder);
    });
    scene.at(at, move |_| begin());
    scene.at(at + 800, move |_| end());
    Ok(())
}
