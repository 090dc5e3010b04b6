//! `cargo xtask setup`: puts real runtimes and a C# compiler onto this machine.
//!
//! What is already there is checked and left alone. Packages are fetched by their registries'
//! ordinary clients, checked against a pinned SHA-256, unpacked beside their place and moved into
//! it in one step, so that a set-up that was broken off never leaves a half runtime behind.

pub mod debian;
mod packages;
mod root9;

use crate::{tool, web};
use anyhow::{Context, Result, bail};
use packages::{Client, Into, PACKAGES, Package};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};
use testkit::{Cache, Compiler, Runtime};

/// What fetching one package may take at most.
const FETCH_LIMIT: Duration = Duration::from_secs(900);
/// What unpacking one package may take at most.
const UNPACK_LIMIT: Duration = Duration::from_secs(300);
/// What a program may take to say its version.
const PROBE_LIMIT: Duration = Duration::from_secs(60);

/// Runs the whole set-up; a second run takes a second or two.
pub fn run() -> Result<()> {
    let started = Instant::now();
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        bail!(
            "the pinned runtimes are for Linux on x86-64; elsewhere only `cargo test` of the \
                platform-free crates works"
        );
    }
    let cache = Cache::of_user();
    fs::create_dir_all(cache.packages())
        .with_context(|| format!("cannot create {}", cache.packages().display()))?;
    let lock = File::create(cache.folder().join("lock"))
        .context("cannot create the lock file of the cache")?;
    lock.lock().context("cannot lock the cache")?;
    println!("setup: cache {}", cache.folder().display());

    compiler()?;
    tools()?;
    web::install()?;
    fetch_missing(&cache)?;
    for package in PACKAGES {
        unpack(&cache, package)?;
    }
    root9::build(&cache)?;
    probe(&cache)?;
    samples()?;
    println!("setup: done in {:.1} s", started.elapsed().as_secs_f64());
    Ok(())
}

/// The C# compiler.
fn compiler() -> Result<()> {
    if Compiler::find().is_err() {
        println!("setup: C# compiler");
        debian::install(
            "the C# compiler `mcs` or a part of it",
            &["mono-mcs", "libmono-cecil-private-cil"],
        )?;
    }
    println!("setup: C# compiler {}", Compiler::find()?.path().display());
    Ok(())
}

/// Programs of the distribution that tests and benchmarks run: those that open our reports, those
/// that make processes to look at, and the one that puts a service under load.
const TOOLS: [(&str, &str); 10] = [
    ("chromium", "chromium"),
    ("node", "nodejs"),
    ("npm", "npm"),
    ("go", "golang-go"),
    ("cc", "gcc"),
    ("setpriv", "util-linux"),
    ("nsenter", "util-linux"),
    ("script", "bsdutils"),
    ("tar", "tar"),
    ("wrk", "wrk"),
];

/// The programs that tests and benchmarks run.
fn tools() -> Result<()> {
    let mut packages: Vec<&str> = TOOLS
        .iter()
        .filter(|(program, _)| tool::find(program).is_none())
        .map(|(_, package)| *package)
        .collect();
    packages.dedup();
    if !packages.is_empty() {
        println!("setup: programs that tests and benchmarks run");
        debian::install("a program that tests or benchmarks run", &packages)?;
    }
    Ok(())
}

/// Whether what a package unpacks to is in its place.
fn in_place(cache: &Cache, package: &Package) -> bool {
    destination(cache, package).join(".unpacked").is_file()
}

fn destination(cache: &Cache, package: &Package) -> PathBuf {
    match package.into {
        Into::Root { version, .. } => cache.root(version),
        Into::App { name, .. } | Into::Files { name, .. } => cache.app(name),
    }
}

/// Fetches, all at once, the packages that are neither unpacked nor fetched yet.
fn fetch_missing(cache: &Cache) -> Result<()> {
    let mut wanted = Vec::new();
    for package in PACKAGES.iter().filter(|package| !in_place(cache, package)) {
        let file = cache.packages().join(package.file);
        if file.is_file() {
            if digest(&file)? == package.sha256 {
                continue;
            }
            println!("setup: {} is damaged and is fetched again", package.file);
            fs::remove_file(&file).with_context(|| format!("cannot remove {}", file.display()))?;
        }
        wanted.push(package);
    }
    if wanted.is_empty() {
        return Ok(());
    }
    for client in [Client::Pip, Client::Npm] {
        if wanted.iter().any(|package| package.client == client) {
            have_client(client)?;
        }
    }
    let total: u64 = wanted.iter().map(|package| package.megabytes).sum();
    println!("setup: fetching {} packages, {total} MB", wanted.len());
    let folder = cache.packages();
    let before = tool::bytes_below(&folder);
    let started = Instant::now();
    thread::scope(|scope| {
        let (done, finished) = mpsc::channel::<Result<()>>();
        for package in &wanted {
            let done = done.clone();
            let folder = &folder;
            scope.spawn(move || {
                // The receiver is gone only after an error that is reported anyway.
                let _ = done.send(fetch(folder, package));
            });
        }
        drop(done);
        let mut errors = Vec::new();
        let mut left = wanted.len();
        while left > 0 {
            match finished.recv_timeout(Duration::from_secs(3)) {
                Ok(result) => {
                    left -= 1;
                    errors.extend(result.err());
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    let got = tool::bytes_below(&folder).saturating_sub(before) / 1_000_000;
                    println!(
                        "setup:   {got} of {total} MB after {:.0} s",
                        started.elapsed().as_secs_f64()
                    );
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
            }
        }
        match errors.into_iter().next() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    })
}

/// The command line of a client that works here.
fn pip() -> Option<Vec<&'static str>> {
    let candidates: [&[&str]; 3] = [&["python3", "-m", "pip"], &["pip3"], &["pip"]];
    candidates
        .into_iter()
        .find(|words| {
            tool::succeeds(Command::new(words[0]).args(&words[1..]).arg("--version"), PROBE_LIMIT)
        })
        .map(<[&str]>::to_vec)
}

fn have_client(client: Client) -> Result<()> {
    match client {
        Client::Pip if pip().is_none() => {
            debian::install("Python's `pip`", &["python3", "python3-pip"])
        }
        Client::Npm if tool::find("npm").is_none() => {
            debian::install("Node's `npm`", &["nodejs", "npm"])
        }
        Client::Pip | Client::Npm => Ok(()),
    }
}

/// Fetches one package into a folder of its own, checks it and moves it beside the others.
fn fetch(folder: &Path, package: &Package) -> Result<()> {
    let started = Instant::now();
    let temporary = Temporary::new(folder, package.file)?;
    let mut command = match package.client {
        Client::Pip => {
            let words = pip().context("pip does not start")?;
            let mut command = Command::new(words[0]);
            command.args(&words[1..]).args([
                "download",
                "--quiet",
                "--disable-pip-version-check",
                "--no-deps",
            ]);
            command.args([
                "--only-binary=:all:",
                "--platform",
                "manylinux1_x86_64",
                "--python-version",
                "3",
            ]);
            command
                .arg(format!("{}=={}", package.name, package.version))
                .arg("--dest")
                .arg(&temporary.0);
            command
        }
        Client::Npm => {
            let mut command = Command::new("npm");
            command
                .args(["pack", "--silent", "--ignore-scripts"])
                .arg(format!("{}@{}", package.name, package.version));
            command
        }
    };
    tool::output(command.current_dir(&temporary.0), FETCH_LIMIT)
        .with_context(|| format!("cannot fetch {}; is the network reachable?", package.what))?;
    let file = temporary.0.join(package.file);
    let found = digest(&file).with_context(|| format!("{} did not arrive", package.file))?;
    if found != package.sha256 {
        bail!("{} has SHA-256 {found} instead of {}: not used", package.file, package.sha256);
    }
    fs::rename(&file, folder.join(package.file))?;
    println!(
        "setup:   {} ({} MB, {:.1} s)",
        package.what,
        package.megabytes,
        started.elapsed().as_secs_f64()
    );
    Ok(())
}

/// A folder that is removed again whatever happens.
struct Temporary(PathBuf);

impl Temporary {
    fn new(beside: &Path, name: &str) -> Result<Temporary> {
        let path = beside.join(format!(".{name}.{}", std::process::id()));
        if path.exists() {
            fs::remove_dir_all(&path)?;
        }
        fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Temporary(path))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // What is left over is only litter in the cache.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// SHA-256 of a file in hexadecimal.
fn digest(file: &Path) -> Result<String> {
    let mut hasher = Sha256::new();
    let mut reader = File::open(file).with_context(|| format!("cannot open {}", file.display()))?;
    let mut buffer = vec![0; 1 << 16];
    loop {
        match io::Read::read(&mut reader, &mut buffer)? {
            0 => break,
            count => hasher.update(&buffer[..count]),
        }
    }
    Ok(hasher.finalize().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

/// Unpacks a package beside its place and moves it there in one step. The package file is removed
/// afterwards.
fn unpack(cache: &Cache, package: &Package) -> Result<()> {
    if in_place(cache, package) {
        return Ok(());
    }
    println!("setup: unpacking {}", package.what);
    let destination = destination(cache, package);
    let parent = destination.parent().context("the cache has no parent folder")?;
    fs::create_dir_all(parent)?;
    let temporary = Temporary::new(parent, package.file)?;
    let archive = cache.packages().join(package.file);
    let mut command = match package.client {
        Client::Pip => {
            let mut command = Command::new("python3");
            command.args(["-m", "zipfile", "-e"]).arg(&archive).arg(&temporary.0);
            command
        }
        Client::Npm => {
            let mut command = Command::new("tar");
            command.arg("-xzf").arg(&archive).arg("-C").arg(&temporary.0).arg("--no-same-owner");
            command
        }
    };
    tool::output(&mut command, UNPACK_LIMIT)?;
    let (folder, file, executable) = match package.into {
        Into::Root { folder, .. } => (folder, "dotnet", true),
        Into::App { folder, executable, .. } => (folder, executable, true),
        Into::Files { folder, file, .. } => (folder, file, false),
    };
    let unpacked = temporary.0.join(folder);
    match executable {
        true => make_executable(&unpacked.join(file))?,
        false if unpacked.join(file).is_file() => {}
        false => bail!("{file} is not in the package {}", package.file),
    }
    fs::write(unpacked.join(".unpacked"), package.sha256)?;
    if destination.exists() {
        fs::remove_dir_all(&destination)?;
    }
    fs::rename(&unpacked, &destination)
        .with_context(|| format!("cannot move to {}", destination.display()))?;
    fs::remove_file(&archive)?;
    Ok(())
}

/// Archives of wheels carry no permissions.
#[cfg(unix)]
fn make_executable(file: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(file, fs::Permissions::from_mode(0o755))
        .with_context(|| format!("{} is not in the package", file.display()))
}

#[cfg(not(unix))]
fn make_executable(_: &Path) -> Result<()> {
    Ok(())
}

/// Runs every runtime once and checks that it says the version that it should be.
fn probe(cache: &Cache) -> Result<()> {
    for runtime in [Runtime::V2_1, Runtime::V3_1, Runtime::V9] {
        let listed = tool::output(
            quiet(&mut Command::new(runtime.executable())).arg("--list-runtimes"),
            PROBE_LIMIT,
        )?;
        let wanted = format!("Microsoft.NETCore.App {} [", runtime.version());
        if !listed.contains(&wanted) {
            bail!(
                "{} does not list {}:\n{listed}",
                runtime.executable().display(),
                runtime.version()
            );
        }
        println!("setup: {runtime}: {}", runtime.executable().display());
    }
    for package in PACKAGES {
        if let Into::App { name, executable, arguments, .. } = package.into {
            let program = cache.app(name).join(executable);
            tool::output(quiet(&mut Command::new(&program)).args(arguments), PROBE_LIMIT)?;
            println!("setup: {}: {}", package.what, program.display());
        }
    }
    for runtime in testkit::runtimes() {
        if let Runtime::OnPath { .. } = runtime {
            println!("setup: {runtime}: {}", runtime.executable().display());
        }
    }
    Ok(())
}

/// No questions, no telemetry, no need for ICU.
fn quiet(command: &mut Command) -> &mut Command {
    command
        .env("DOTNET_SYSTEM_GLOBALIZATION_INVARIANT", "1")
        .env("DOTNET_CLI_TELEMETRY_OPTOUT", "1")
        .env("DOTNET_NOLOGO", "1")
        .env("DOTNET_BUNDLE_EXTRACT_BASE_DIR", Cache::of_user().extracted())
        .env_remove("DOTNET_STARTUP_HOOKS")
}

/// Compiles every sample for every runtime, so that tests do not race for it.
fn samples() -> Result<()> {
    let started = Instant::now();
    let mut count = 0;
    for sample in testkit::samples() {
        for runtime in testkit::sample_runtimes() {
            sample.compile(runtime)?;
            count += 1;
        }
    }
    println!("setup: {count} sample programs compiled ({:.1} s)", started.elapsed().as_secs_f64());
    Ok(())
}
