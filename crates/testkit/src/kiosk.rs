//! A web service made by a current C# compiler: what `mcs` cannot make. See `kiosk/README.md`.

use crate::cache::source_root;
use crate::process::{Launch, TargetProcess};
use crate::runtime::{Host, Runtime};
use anyhow::{Context, Result, ensure};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use std::{fs, io};
use tempfile::TempDir;

/// What one request may take while other tests keep the machine busy.
const REQUEST_LIMIT: Duration = Duration::from_secs(60);

/// The service, on the .NET 9 of the set-up.
#[derive(Debug)]
pub struct Kiosk {
    /// Its process.
    pub process: TargetProcess,
    port: u16,
    /// Its program.
    _folder: TempDir,
}

/// Requests that are made until this is dropped.
#[derive(Debug)]
pub struct Load {
    stop: Arc<AtomicBool>,
    answers: Arc<AtomicU64>,
    askers: Vec<JoinHandle<()>>,
}

impl Kiosk {
    /// Starts it, and waits until it listens.
    ///
    /// # Panics
    /// When the runtime or ASP.NET Core is missing, or the service does not start.
    #[track_caller]
    pub fn start() -> Kiosk {
        match Self::start_with(|launch| launch) {
            Ok(kiosk) => kiosk,
            Err(error) => panic!("{error:#}"),
        }
    }

    /// As [`Kiosk::start`], with what else its process gets.
    ///
    /// # Errors
    /// When ASP.NET Core is missing, or the service does not start.
    pub fn start_with(with: impl FnOnce(Launch) -> Launch) -> Result<Kiosk> {
        let Host::Muxer { dotnet, framework } = Runtime::V9.require().host() else {
            anyhow::bail!("{} is multi-file", Runtime::V9)
        };
        let libraries = Runtime::Azmcp9.require().executable().with_file_name("");
        let folder = tempfile::Builder::new().prefix("kiosk-").tempdir()?;
        for name in ["Kiosk.dll", "Kiosk.pdb"] {
            fs::copy(Self::sources().join(name), folder.path().join(name))
                .with_context(|| name.to_owned())?;
        }
        // ASP.NET Core lies beside an application that brings its own. Without a list of
        // dependencies the host takes all assemblies in the program's folder.
        for entry in fs::read_dir(&libraries).with_context(|| libraries.display().to_string())? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let wanted = [
                "Microsoft.AspNetCore.",
                "Microsoft.Extensions.",
                "Microsoft.Net.Http.",
                "System.",
            ];
            if name.ends_with(".dll")
                && wanted.iter().any(|prefix| name.starts_with(prefix))
                && !framework.join(&name).exists()
            {
                link(&path, &folder.path().join(&name))?;
            }
        }
        let config = serde_json::json!({ "runtimeOptions": {
            "framework": { "name": "Microsoft.NETCore.App", "version": Runtime::V9.version() },
            "configProperties": { "System.Globalization.Invariant": true, "System.GC.Server": false },
        } });
        fs::write(folder.path().join("Kiosk.runtimeconfig.json"), config.to_string())?;
        let launch = Launch::new(dotnet).arg(folder.path().join("Kiosk.dll"));
        // What appsettings.json of a new project says: without it, each request writes two lines to
        // the console.
        let launch = launch.env("Logging__LogLevel__Microsoft.AspNetCore", "Warning");
        let launch = launch.env("ASPNETCORE_URLS", "http://127.0.0.1:0").private_tmp();
        let mut process = with(launch).try_start()?;
        let line =
            process.wait_for_line(REQUEST_LIMIT, |line| line.contains("Now listening on:"))?;
        let port = line.rsplit(':').next().and_then(|port| port.trim().parse().ok());
        let port = port.with_context(|| format!("no port in {line}"))?;
        Ok(Kiosk { process, port, _folder: folder })
    }

    /// The folder with its program, its symbols and its source.
    pub fn sources() -> PathBuf {
        source_root().join("crates/testkit/kiosk")
    }

    /// The line of its source that holds this text, from 1.
    ///
    /// # Panics
    /// When not exactly one line does.
    #[track_caller]
    pub fn line_of(text: &str) -> u32 {
        let source = fs::read_to_string(Self::sources().join("Program.cs")).unwrap_or_default();
        let lines: Vec<u32> = (1..)
            .zip(source.lines())
            .filter(|(_, line)| line.contains(text))
            .map(|(number, _)| number)
            .collect();
        match lines[..] {
            [line] => line,
            _ => panic!("`{text}` is on {} lines of Program.cs", lines.len()),
        }
    }

    /// The address of a route, for a load generator.
    pub fn url(&self, route: &str) -> String {
        format!("http://127.0.0.1:{}{route}", self.port)
    }

    /// The body of the answer to one request.
    ///
    /// # Errors
    /// When it is not answered with success.
    pub fn get(&self, route: &str) -> Result<String> {
        get(self.port, route)
    }

    /// Starts `clients` clients that ask for these routes in turn, one request after the other.
    pub fn load(&self, clients: usize, routes: &'static [&'static str]) -> Load {
        let (stop, answers) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let ask = |first: usize| {
            let (stop, answers, port) = (Arc::clone(&stop), Arc::clone(&answers), self.port);
            std::thread::spawn(move || {
                for route in routes.iter().cycle().skip(first) {
                    if stop.load(Ordering::Acquire) {
                        break;
                    }
                    if get(port, route).is_ok() {
                        answers.fetch_add(1, Ordering::AcqRel);
                    }
                }
            })
        };
        let askers = (0..clients).map(ask).collect();
        Load { stop, answers, askers }
    }
}

impl Load {
    /// Ends it, and gives how many requests were answered with success.
    pub fn finish(mut self) -> u64 {
        self.stop.store(true, Ordering::Release);
        for asker in self.askers.drain(..) {
            let _ = asker.join();
        }
        self.answers.load(Ordering::Acquire)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
    }
}

fn get(port: u16, route: &str) -> Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(REQUEST_LIMIT))?;
    write!(stream, "GET {route} HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) =
        answer.split_once("\r\n\r\n").context("the answer has no end of its head")?;
    ensure!(head.contains(" 200 "), "{route}: {head}");
    Ok(body.to_owned())
}

#[cfg(unix)]
fn link(from: &Path, to: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(from, to)
}

#[cfg(not(unix))]
fn link(from: &Path, to: &Path) -> io::Result<()> {
    fs::copy(from, to).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_answers() {
        let kiosk = Kiosk::start();
        for (route, answer) in [("/ok", "ok"), ("/price", "37.50"), ("/sum", "3"), ("/bad", "-1")] {
            assert_eq!(kiosk.get(route).unwrap(), answer, "{route}");
        }
        assert!(kiosk.get("/nothing").is_err());
        let load = kiosk.load(2, &["/ok", "/sell"]);
        std::thread::sleep(Duration::from_millis(500));
        assert!(load.finish() > 0);
        assert_eq!(Kiosk::line_of("app.MapGet(\"/ok\""), 8);
    }
}
