//! The circumstances under which clrscope works. To add one, add an entry to a part of [`all`].

mod company;
mod limits;

use super::refusals::{
    ADDRESS_SPACE, DESCRIPTORS, DISK, FILTER, HANDLER, MEMORY, OTHER_COMMAND, PROFILER, Refusal,
    SLOW, STOPPED, THREADS,
};
use super::scene::{Scene, launcher};
use super::targets::Target;
use crate::tool;
use anyhow::Result;
use company::{
    When, apm, debugger, drop_in, no_drop_in, no_example, preload, seccomp_later, second_clrscope,
    sigprof, squatter, stopped,
};
use limits::{
    address_space, cpu, disk_full, disk_stalled, memory, pids, sigpending, tmp_full, tmp_read_only,
};
use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::time::Duration;
use testkit::{Cache, ControlGroup};

/// How often, and how far apart, the threads of a target are counted before they are limited.
const THREAD_COUNTS: u32 = 10;
const THREAD_COUNT_PAUSE: Duration = Duration::from_millis(20);

/// A circumstance.
#[derive(Clone)]
pub struct Condition {
    /// Its name in the table.
    pub name: &'static str,
    /// Why it is unavailable on this machine.
    pub missing: fn() -> Option<String>,
    /// Sets it up, before the target starts.
    pub apply: fn(&mut Scene) -> Result<()>,
    /// Others that cannot be there at the same time.
    pub excludes: &'static [&'static str],
    /// Why it makes no sense with a target.
    pub not_for: fn(&Target) -> Option<&'static str>,
    /// Whether it has to be there before clrscope comes.
    pub attach_only: bool,
    /// The refusals of clrscope that are right under it.
    pub refusals: &'static [Refusal],
    /// Whether nothing can be removed any more of what a launch has put into the target's folder.
    pub keeps_files: bool,
    /// How much longer everything may take.
    pub patience: u32,
}

/// No circumstance.
pub const NONE: &str = "plain";

/// User and group of nobody, on every Linux.
const NOBODY: u32 = 65534;

/// Number of SIGPROF.
const SIGPROF: u32 = 27;

const fn condition(name: &'static str, apply: fn(&mut Scene) -> Result<()>) -> Condition {
    Condition {
        name,
        missing: || None,
        apply,
        excludes: &[],
        not_for: |_| None,
        attach_only: false,
        refusals: &[],
        keeps_files: false,
        patience: 1,
    }
}

/// The axis.
pub fn all() -> Vec<Condition> {
    [limits(), rights(), namespaces(), signals_and_clocks(), company()].concat()
}

/// None, and limits of what a process may use.
fn limits() -> Vec<Condition> {
    vec![
        condition(NONE, |_| Ok(())),
        Condition {
            refusals: DESCRIPTORS,
            ..condition("nofile", |scene| option(scene, "--nofile", "400"))
        },
        condition("sigpending", sigpending),
        Condition { missing: || no_group("pids"), refusals: THREADS, ..condition("pids", pids) },
        Condition { refusals: ADDRESS_SPACE, ..condition("address-space", address_space) },
        Condition {
            missing: || no_group("memory"),
            excludes: &["address-space"],
            not_for: growing,
            refusals: MEMORY,
            ..condition("memory", memory)
        },
        Condition {
            missing: || no_group("cpu"),
            patience: 3,
            refusals: SLOW,
            ..condition("cpu-5", cpu)
        },
    ]
}

/// What a process may not do: write to its folder, make system calls, become another user.
fn rights() -> Vec<Condition> {
    vec![
        Condition {
            missing: not_root,
            excludes: &["tmp-read-only", "mount-namespace"],
            ..condition("tmp-full", tmp_full)
        },
        Condition {
            missing: not_root,
            excludes: &["mount-namespace"],
            keeps_files: true,
            ..condition("tmp-read-only", tmp_read_only)
        },
        Condition {
            excludes: &["seccomp-kill"],
            refusals: FILTER,
            ..condition("seccomp-container", |scene| option(scene, "--seccomp", "container"))
        },
        Condition {
            // The command itself is traced for a moment by some shells' debuggers, never by these.
            excludes: &["debugger"],
            refusals: FILTER,
            ..condition("seccomp-kill", |scene| option(scene, "--seccomp", "kill"))
        },
        Condition {
            excludes: &["seccomp-container", "seccomp-kill"],
            refusals: FILTER,
            ..condition("seccomp-later", seccomp_later)
        },
        Condition {
            missing: || no_tool("setpriv"),
            ..condition("no-new-privileges", no_new_privileges)
        },
        Condition {
            missing: no_other_user,
            excludes: &["mount-namespace"],
            ..condition("other-user", other_user)
        },
    ]
}

/// Namespaces of its own for the target.
fn namespaces() -> Vec<Condition> {
    vec![
        Condition {
            missing: not_root,
            excludes: &["pid-namespace"],
            ..condition("mount-namespace", mount_namespace)
        },
        Condition {
            missing: not_root,
            not_for: of_children,
            ..condition("pid-namespace", pid_namespace)
        },
        Condition {
            missing: not_root,
            ..condition("net-namespace", |scene| {
                scene.wrap(&["unshare", "--net"]);
                Ok(())
            })
        },
    ]
}

/// Others that handle SIGPROF, clocks that jump, and addresses that are always the same.
fn signals_and_clocks() -> Vec<Condition> {
    vec![
        Condition {
            excludes: &["sigprof-during", "sigprof-after"],
            not_for: small_alternate_stacks,
            refusals: HANDLER,
            ..condition("sigprof-before", |scene| sigprof(scene, When::Before))
        },
        Condition {
            excludes: &["sigprof-after"],
            not_for: small_alternate_stacks,
            refusals: HANDLER,
            ..condition("sigprof-during", |scene| sigprof(scene, When::During))
        },
        Condition {
            not_for: small_alternate_stacks,
            refusals: HANDLER,
            ..condition("sigprof-after", |scene| sigprof(scene, When::After))
        },
        condition("clock-jumps", clock_jumps),
        Condition {
            missing: || no_tool("setarch"),
            ..condition("fixed-addresses", |scene| {
                scene.wrap(&["setarch", "-R"]);
                Ok(())
            })
        },
    ]
}

/// Others that act on the target or on clrscope meanwhile, and disks that do not take more.
fn company() -> Vec<Condition> {
    vec![
        Condition { refusals: OTHER_COMMAND, ..condition("second-clrscope", second_clrscope) },
        Condition {
            missing: no_example,
            excludes: &["drop-in"],
            refusals: PROFILER,
            ..condition("apm", apm)
        },
        Condition { missing: no_drop_in, refusals: PROFILER, ..condition("drop-in", drop_in) },
        Condition {
            missing: || no_tool("gdb"),
            excludes: &["pid-namespace", "target-stopped"],
            refusals: STOPPED,
            ..condition("debugger", debugger)
        },
        Condition {
            refusals: STOPPED,
            ..condition("target-stopped", |scene| stopped(scene, |live| Some(live.target)))
        },
        condition("clrscope-stopped", |scene| stopped(scene, |live| live.clrscope)),
        Condition {
            missing: not_root,
            excludes: &["disk-stalled"],
            refusals: DISK,
            ..condition("disk-full", disk_full)
        },
        Condition { missing: no_loop, ..condition("disk-stalled", disk_stalled) },
        Condition {
            missing: not_root,
            // There nothing can be put, or the folder is that user's own.
            excludes: &["tmp-full", "tmp-read-only", "other-user"],
            attach_only: true,
            ..condition("squatter", squatter)
        },
    ]
}

/// The runtime's own alternate stacks have no room for a second signal while a null reference is
/// handled, so the program dies of any SIGPROF handler.
fn small_alternate_stacks(target: &Target) -> Option<&'static str> {
    let handles = ["nre", "foreignthreads", "foreignstacks"].contains(&target.name);
    handles.then_some(
        "the runtime itself does not survive a SIGPROF while it handles a null reference",
    )
}

/// Programs that use more memory at times than a limit which is set by what they used before.
fn growing(target: &Target) -> Option<&'static str> {
    let names = [
        "gcstress",
        "servergc",
        "gen0size",
        "churn1000",
        "dynamicmethods",
        "recursion",
        "smallstacks",
    ];
    let grows = names.contains(&target.name);
    grows.then_some(
        "what it uses varies by more than the limit leaves, so it ends without clrscope, too",
    )
}

/// A program that starts children, and is process 1 of its namespace.
fn of_children(target: &Target) -> Option<&'static str> {
    (target.name == "forkexec").then_some(
        "as process 1 of a namespace it waits for its children for good without clrscope, too",
    )
}

fn option(scene: &mut Scene, name: &str, value: &str) -> Result<()> {
    scene.inside.extend([name.to_owned(), value.to_owned()]);
    Ok(())
}

fn not_root() -> Option<String> {
    (!tool::is_root()).then(|| "it needs root".into())
}

fn no_tool(name: &str) -> Option<String> {
    tool::find(name).is_none().then(|| format!("{name} is not installed"))
}

fn no_group(controller: &str) -> Option<String> {
    not_root().or_else(|| {
        (!ControlGroup::has(controller))
            .then(|| format!("control groups have no {controller} here"))
    })
}

fn no_loop() -> Option<String> {
    let tools = no_tool("fsfreeze").or_else(|| no_tool("mkfs.ext4"));
    let device =
        || (!Path::new("/dev/loop-control").exists()).then(|| "there are no loop devices".into());
    not_root().or(tools).or_else(device)
}

fn no_other_user() -> Option<String> {
    let hidden = || {
        launcher()
            .is_ok_and(|path| path.starts_with(home()))
            .then(|| "the build is in the home folder".into())
    };
    not_root().or_else(hidden)
}

fn home() -> PathBuf {
    std::env::var_os("HOME").map_or_else(|| PathBuf::from("/root"), PathBuf::from)
}

fn no_new_privileges(scene: &mut Scene) -> Result<()> {
    scene.wrap(&["setpriv", "--no-new-privs"]);
    Ok(())
}

/// Nobody. The runtimes may lie in a home folder that others cannot enter; in a mount namespace of
/// its own it is put there once more.
fn other_user(scene: &mut Scene) -> Result<()> {
    chown(&scene.tmp, Some(NOBODY), Some(NOBODY))?;
    scene.set("HOME", scene.tmp.display().to_string());
    // A program in a single file unpacks itself as that user.
    let unpacked = scene.path("unpacked");
    fs::create_dir(&unpacked)?;
    chown(&unpacked, Some(NOBODY), Some(NOBODY))?;
    scene.set("DOTNET_BUNDLE_EXTRACT_BASE_DIR", unpacked.display().to_string());
    let (home, cache) = (home(), Cache::of_user().folder().to_owned());
    if cache.starts_with(&home) {
        let aside = scene.path("cache");
        fs::create_dir(&aside)?;
        let script = "mount --rbind \"$1\" \"$2\" && mount -t tmpfs -o mode=755 none \"$0\" && \
                      mkdir -p \"$1\" && mount --rbind \"$2\" \"$1\" && shift 2 && exec \"$@\"";
        let words = [home, cache, aside].map(|path| path.display().to_string());
        scene.wrap(&["unshare", "--mount", "sh", "-c", script, &words[0], &words[1], &words[2]]);
    }
    option(scene, "--user", &NOBODY.to_string())
}

/// As in a container: what is in `/tmp` there is somewhere else here.
fn mount_namespace(scene: &mut Scene) -> Result<()> {
    let tmp = scene.tmp.display().to_string();
    scene.wrap(&[
        "unshare",
        "--mount",
        "sh",
        "-c",
        "mount --bind \"$0\" /tmp && export TMPDIR=/tmp && exec \"$@\"",
        &tmp,
    ]);
    Ok(())
}

fn pid_namespace(scene: &mut Scene) -> Result<()> {
    scene.wrap(&["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    Ok(())
}

fn clock_jumps(scene: &mut Scene) -> Result<()> {
    preload(scene)?;
    scene.set("HARM_CLOCK", "1");
    Ok(())
}
