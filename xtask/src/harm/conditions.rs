//! The circumstances under which clrscope works. To add one, add an entry to a part of [`all`].

use super::native;
use super::scene::{Live, Scene, hierarchy, launcher, run, signal, unmount};
use super::targets::Target;
use crate::tool;
use anyhow::{Context, Result, anyhow, ensure};
use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};
use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use testkit::{Cache, Compiler, Extras, Runtime, source_root};

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
    /// Exit codes of clrscope that are right under it, beside those of refusals.
    pub good: &'static [i32],
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
        good: &[],
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
        condition("nofile", |scene| option(scene, "--nofile", "400")),
        condition("sigpending", sigpending),
        Condition { missing: || no_group("pids"), ..condition("pids", pids) },
        condition("address-space", address_space),
        Condition {
            missing: || no_group("memory"),
            excludes: &["address-space"],
            not_for: growing,
            ..condition("memory", memory)
        },
        Condition { missing: || no_group("cpu"), patience: 3, ..condition("cpu-5", cpu) },
    ]
}

/// What a process may not do: write to its folder, make system calls, become another user.
fn rights() -> Vec<Condition> {
    vec![
        Condition {
            missing: not_root,
            excludes: &["tmp-read-only", "mount-namespace"],
            good: &[6],
            ..condition("tmp-full", tmp_full)
        },
        Condition {
            missing: not_root,
            excludes: &["mount-namespace"],
            good: &[6],
            keeps_files: true,
            ..condition("tmp-read-only", tmp_read_only)
        },
        Condition {
            excludes: &["seccomp-kill"],
            ..condition("seccomp-container", |scene| option(scene, "--seccomp", "container"))
        },
        Condition {
            // The command itself is traced for a moment by some shells' debuggers, never by these.
            excludes: &["debugger"],
            ..condition("seccomp-kill", |scene| option(scene, "--seccomp", "kill"))
        },
        Condition {
            excludes: &["seccomp-container", "seccomp-kill"],
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
            excludes: &["squatter"],
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
            ..condition("sigprof-before", |scene| sigprof(scene, When::Before))
        },
        Condition {
            excludes: &["sigprof-after"],
            not_for: small_alternate_stacks,
            ..condition("sigprof-during", |scene| sigprof(scene, When::During))
        },
        Condition {
            not_for: small_alternate_stacks,
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
        condition("second-clrscope", second_clrscope),
        Condition {
            missing: no_example,
            excludes: &["drop-in"],
            good: &[5, 125],
            ..condition("apm", apm)
        },
        Condition { missing: no_drop_in, good: &[5, 125], ..condition("drop-in", drop_in) },
        Condition {
            missing: || no_tool("gdb"),
            excludes: &["pid-namespace", "target-stopped"],
            ..condition("debugger", debugger)
        },
        condition("target-stopped", |scene| stopped(scene, |live| Some(live.target))),
        condition("clrscope-stopped", |scene| stopped(scene, |live| live.clrscope)),
        Condition {
            missing: not_root,
            excludes: &["disk-stalled"],
            good: &[6],
            ..condition("disk-full", disk_full)
        },
        Condition { missing: no_loop, ..condition("disk-stalled", disk_stalled) },
        Condition { missing: not_root, attach_only: true, ..condition("squatter", squatter) },
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
        hierarchy(controller).is_none().then(|| format!("control groups have no {controller} here"))
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

/// The limit counts for all processes of a user, so it is set a little above what they use now.
fn sigpending(scene: &mut Scene) -> Result<()> {
    let status = fs::read_to_string("/proc/self/status")?;
    let queued = status
        .lines()
        .find_map(|line| line.strip_prefix("SigQ:")?.trim().split('/').next()?.parse::<u64>().ok());
    let limit = queued.context("no SigQ")? + 60;
    option(scene, "--sigpending", &limit.to_string())
}

/// At most forty threads and processes more than there are when all is ready, and perhaps none.
fn pids(scene: &mut Scene) -> Result<()> {
    let group = scene.group("pids")?;
    let more = scene.random.below(41) as u64;
    scene.when_ready(move |_| {
        // Programs that start threads all the time have more of them at one moment than at another.
        let mut most = 0;
        for _ in 0..THREAD_COUNTS {
            most = most.max(group.number("pids.current", "pids.current")?);
            thread::sleep(THREAD_COUNT_PAUSE);
        }
        let limit = (most + more).to_string();
        group.limit(("pids.max", &limit), ("pids.max", &limit))
    });
    Ok(())
}

/// 64 MB to 2 GB of addresses more than are used when all is ready. A program that starts a
/// thousand threads a second ends with 150 MB without clrscope, too, four times in ten: it has 512
/// MB at least.
fn address_space(scene: &mut Scene) -> Result<()> {
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
fn memory(scene: &mut Scene) -> Result<()> {
    let group = scene.group("memory")?;
    scene.memory = Some(group.clone());
    scene.when_ready(move |_| {
        thread::sleep(Duration::from_millis(1500));
        let used = group.number("memory.max_usage_in_bytes", "memory.peak")?;
        let limit = (used.max(LEAST_MEMORY) + (48 << 20)).to_string();
        group.limit(("memory.limit_in_bytes", &limit), ("memory.max", &limit))
    });
    Ok(())
}

/// A twentieth of a processor, from when all is ready until clrscope is gone.
fn cpu(scene: &mut Scene) -> Result<()> {
    let group = scene.group("cpu")?;
    let after = group.clone();
    scene
        .when_ready(move |_| group.limit(("cpu.cfs_quota_us", "5000"), ("cpu.max", "5000 100000")));
    scene.when_done(move |_| after.limit(("cpu.cfs_quota_us", "-1"), ("cpu.max", "max 100000")));
    Ok(())
}

fn tmp_full(scene: &mut Scene) -> Result<()> {
    let tmp = scene.tmp.clone();
    scene.mount_memory(&tmp, "size=256k,mode=1777")?;
    scene.when_ready(move |_| {
        // It ends when there is no room left.
        let _ = fs::write(tmp.join("filling"), vec![0_u8; 1 << 20]);
        Ok(())
    });
    Ok(())
}

fn tmp_read_only(scene: &mut Scene) -> Result<()> {
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

enum When {
    Before,
    During,
    After,
}

fn preload(scene: &mut Scene) -> Result<()> {
    // A copy where every user sees it, also the commands that the target runs under.
    let library = scene.path(native::LIBRARY);
    fs::copy(scene.native.join(native::LIBRARY), &library)?;
    scene.set("LD_PRELOAD", library.display().to_string());
    let base = scene.executable.file_name().unwrap_or_default().to_string_lossy().into_owned();
    scene.set("HARM_EXE", base);
    Ok(())
}

/// Another profiler's SIGPROF handler and timer, which must continue to work.
fn sigprof(scene: &mut Scene, when: When) -> Result<()> {
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
fn seccomp_later(scene: &mut Scene) -> Result<()> {
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

fn clock_jumps(scene: &mut Scene) -> Result<()> {
    preload(scene)?;
    scene.set("HARM_CLOCK", "1");
    Ok(())
}

fn second_clrscope(scene: &mut Scene) -> Result<()> {
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

fn no_example() -> Option<String> {
    (!example().is_file())
        .then(|| "`cargo build -p corprof --example empty_allocated` did not make it".into())
}

fn apm(scene: &mut Scene) -> Result<()> {
    scene.set("CORECLR_ENABLE_PROFILING", "1");
    scene.set("CORECLR_PROFILER", "{2F6A4C1E-5B6D-4C63-8A0E-5D7C9B1E3F04}");
    scene.set("CORECLR_PROFILER_PATH", example().display().to_string());
    Ok(())
}

fn drop_in_library() -> PathBuf {
    tool::target_folder().join("debug/libNewRelicProfiler.so")
}

fn no_drop_in() -> Option<String> {
    (!drop_in_library().is_file()).then(|| "`cargo build -p newrelic` did not make it".into())
}

/// Methods of the target that the New Relic library instruments: called once to some million times
/// a second, by all kinds of threads, and by some that throw.
const TRACED: &str =
    "Mix,Length,Deep,ThrowNew,Visit,Multiply,Spin,Answer,Outer,Inner,Twice,CatchInside,Locks";

/// The New Relic library in the main profiler slot, with a managed agent and methods that it
/// traces.
fn drop_in(scene: &mut Scene) -> Result<()> {
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
fn debugger(scene: &mut Scene) -> Result<()> {
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
fn stopped(scene: &mut Scene, whom: fn(&Live) -> Option<u32>) -> Result<()> {
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

fn disk_full(scene: &mut Scene) -> Result<()> {
    let folder = scene.output.parent().context("no folder")?.to_owned();
    scene.mount_memory(&folder, "size=16k")
}

/// A file system of its own for the session, which does not answer for most of a second.
fn disk_stalled(scene: &mut Scene) -> Result<()> {
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

/// Another user who has taken the names of sockets that the agent would use.
fn squatter(scene: &mut Scene) -> Result<()> {
    let folder = scene.path("squat");
    fs::create_dir(&folder)?;
    chown(&folder, Some(NOBODY), Some(NOBODY))?;
    let mark = folder.join("ready");
    scene.when_ready(move |live| {
        let stat = fs::read_to_string(format!("/proc/{}/stat", live.target))?;
        let start = stat
            .rsplit_once(") ")
            .and_then(|(_, rest)| rest.split_whitespace().nth(19))
            .context("no start time")?;
        let namespace =
            fs::read_link(format!("/proc/{}/ns/pid", live.target))?.display().to_string();
        let number: String = namespace.chars().filter(char::is_ascii_digit).collect();
        let pid = live.target;
        let mut names = vec![format!("clrscope-door-{number}-{pid}")];
        names.extend(["suspends", "turn"].map(|what| format!("clrscope-{what}-{pid}-{start}")));
        let mut command = Command::new(launcher()?);
        command
            .args(["inside", "--user", &NOBODY.to_string(), "--"])
            .arg(launcher()?)
            .arg("squat")
            .arg(&mark)
            .args(names);
        let child = command.stdin(Stdio::null()).spawn()?;
        thread::spawn(move || wait_or_kill(child, Duration::from_secs(60)));
        let until = Instant::now() + Duration::from_secs(5);
        while !mark.exists() {
            ensure!(Instant::now() < until, "the squatter did not start");
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    });
    let stop = scene.path("squat/ready");
    scene.undo(move || {
        // The squatter leaves when its mark is gone.
        let _ = fs::remove_file(&stop);
    });
    Ok(())
}
