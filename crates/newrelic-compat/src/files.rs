//! Where the agent's files are.

use crate::Runtime;
use crate::configuration::{APPLICATION_SUFFIX, FILE_NAME, Files};
use crate::environment::{Environment, Platform};
use crate::log::{Level, Message};
use crate::shape::AGENT_FILE;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{self, Path, PathBuf};

/// Longest configuration or instrumentation file that is read, in bytes: those of the agent have
/// some kilobytes.
pub const TEXT_LIMIT: u64 = 16 << 20;
/// Longest managed agent that is read, in bytes: the real one has some megabytes.
pub const AGENT_LIMIT: u64 = 128 << 20;

/// Reads a file that has to be a regular one of no more than `limit` bytes: a pipe would hold the
/// program up, and a device may have no end.
///
/// # Errors
/// It is something else, it is longer, or it cannot be read.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let refused = |text: String| io::Error::new(io::ErrorKind::InvalidInput, text);
    if !fs::metadata(path)?.is_file() {
        return Err(refused("it is not a regular file".to_owned()));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(refused(format!("it is longer than {} MB", limit >> 20)));
    }
    Ok(bytes)
}

/// Name of the folder with what is for one family of runtimes only.
const fn own_folder(runtime: Runtime) -> &'static str {
    match runtime {
        Runtime::Core => "netcore",
        Runtime::Framework => "netframework",
    }
}

/// Where the managed agent may be, the more important places first.
#[must_use]
pub fn agent_candidates(
    install: Option<&str>,
    home: Option<&str>,
    runtime: Runtime,
) -> Vec<PathBuf> {
    let folders = [install, home].into_iter().flatten().map(Path::new);
    folders
        .flat_map(|folder| {
            [folder.join(AGENT_FILE), folder.join(own_folder(runtime)).join(AGENT_FILE)]
        })
        .collect()
}

/// The managed agent: the first place where there is a file. `home` is from the environment or the
/// registry.
///
/// The path is absolute, since injected code loads the file from it when the current folder may be
/// another one.
#[must_use]
pub fn find_agent(
    environment: &Environment,
    home: Option<&str>,
    runtime: Runtime,
) -> Option<PathBuf> {
    let install = environment.install_path();
    let found = agent_candidates(install.as_deref(), home, runtime)
        .into_iter()
        .find(|path| path.is_file())?;
    // One that is absolute stays as it was written.
    Some(if found.is_absolute() { found } else { path::absolute(&found).unwrap_or(found) })
}

/// The product name that the managed agent has in its version resource. On Windows a file with
/// another one is not it.
#[must_use]
pub const fn product_name(runtime: Runtime) -> &'static str {
    match runtime {
        Runtime::Core => "New Relic .NET CoreCLR Agent",
        Runtime::Framework => "New Relic .NET Agent",
    }
}

/// The folders of instrumentation files, without those below them.
#[must_use]
pub fn extension_folders(home: &Path, runtime: Runtime) -> [PathBuf; 2] {
    let extensions = home.join("extensions");
    let own = extensions.join(own_folder(runtime));
    [extensions, own]
}

/// Paths of the configuration files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigurationPaths {
    /// In the agent's home.
    pub global: PathBuf,
    /// In the program's folder on Windows; on Linux in the current folder.
    pub local: PathBuf,
    /// Beside the program.
    pub application: PathBuf,
}

impl ConfigurationPaths {
    /// The paths for a program.
    #[must_use]
    pub fn of(home: &Path, program: &Path, platform: Platform) -> Self {
        let folder = match platform {
            Platform::Unix => Path::new("."),
            Platform::Windows => program.parent().unwrap_or(Path::new(".")),
        };
        let mut application = program.as_os_str().to_owned();
        application.push(APPLICATION_SUFFIX);
        Self {
            global: home.join(FILE_NAME),
            local: folder.join(FILE_NAME),
            application: application.into(),
        }
    }
}

/// The bytes of the configuration files.
#[derive(Debug)]
pub struct ConfigurationFiles {
    /// The global one, without which no process is instrumented.
    pub global: io::Result<Vec<u8>>,
    /// The local one, if there is one.
    pub local: Option<Vec<u8>>,
    /// The application configuration, if there is one.
    pub application: Option<Vec<u8>>,
    /// Lines for the log.
    pub messages: Vec<Message>,
}

impl ConfigurationFiles {
    /// Reads the files. One that is there and cannot be read is worth a warning, unless it is the
    /// global one.
    #[must_use]
    pub fn read(paths: &ConfigurationPaths) -> Self {
        let mut messages = Vec::new();
        let mut optional = |path: &Path| match read(path, TEXT_LIMIT) {
            Ok(bytes) => Some(bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                messages.push(Message::new(
                    Level::Warn,
                    format!("Unable to read {}: {error}", path.display()),
                ));
                None
            }
        };
        let (local, application) = (optional(&paths.local), optional(&paths.application));
        Self { global: read(&paths.global, TEXT_LIMIT), local, application, messages }
    }

    /// The bytes, if there is a global file.
    ///
    /// # Errors
    /// The global file could not be read.
    pub fn bytes(&self) -> Result<Files<'_>, &io::Error> {
        let global = self.global.as_deref()?;
        Ok(Files { global, local: self.local.as_deref(), application: self.application.as_deref() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agent_is_in_the_first_place_that_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
        let (install, home) = (path("install"), path("home"));
        let environment =
            Environment::new(Platform::Unix, [("NEW_RELIC_INSTALL_PATH", install.as_str())]);
        let find = || find_agent(&environment, Some(&home), Runtime::Core);
        assert_eq!(find(), None);
        let places = ["home/netcore", "home", "install/netcore", "install"];
        for place in places {
            let path = folder.path().join(place).join(AGENT_FILE);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "").unwrap();
            assert_eq!(find(), Some(path));
        }
        let other = find_agent(
            &Environment::new(Platform::Unix, [("", ""); 0]),
            Some(&home),
            Runtime::Framework,
        );
        assert_eq!(other, Some(folder.path().join("home").join(AGENT_FILE)));
        // A folder of that name is not it.
        let empty = path("empty");
        fs::create_dir_all(Path::new(&empty).join(AGENT_FILE)).unwrap();
        assert_eq!(
            find_agent(
                &Environment::new(Platform::Unix, [("", ""); 0]),
                Some(&empty),
                Runtime::Core
            ),
            None
        );
    }

    #[test]
    fn candidates() {
        assert!(agent_candidates(None, None, Runtime::Core).is_empty());
        let paths = agent_candidates(Some("/i"), Some("/h"), Runtime::Framework);
        let expected = ["/i", "/i/netframework", "/h", "/h/netframework"]
            .map(|folder| Path::new(folder).join(AGENT_FILE));
        assert_eq!(paths, expected);
    }

    #[test]
    fn configuration_files() {
        let unix =
            ConfigurationPaths::of(Path::new("/h"), Path::new("/usr/bin/dotnet"), Platform::Unix);
        assert_eq!(unix.global, Path::new("/h/newrelic.config"));
        assert_eq!(unix.local, Path::new("./newrelic.config"));
        assert_eq!(unix.application, Path::new("/usr/bin/dotnet.config"));
        let windows =
            ConfigurationPaths::of(Path::new("/h"), Path::new("/iis/w3wp.exe"), Platform::Windows);
        assert_eq!(windows.local, Path::new("/iis/newrelic.config"));
        assert_eq!(windows.application, Path::new("/iis/w3wp.exe.config"));
    }

    #[test]
    fn files_that_are_missing_or_cannot_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("\u{65e5}\u{672c}\u{8a9e}");
        fs::create_dir_all(&home).unwrap();
        let paths = ConfigurationPaths {
            global: home.join(FILE_NAME),
            local: folder.path().join(FILE_NAME),
            application: folder.path().to_owned(),
        };
        let files = ConfigurationFiles::read(&paths);
        assert_eq!(files.bytes().unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(files.local.is_none() && files.application.is_none());
        // A folder is no file, and a device has no end. That is worth a line.
        assert_eq!(
            read(Path::new("/dev/zero"), 10).unwrap_err().kind(),
            io::ErrorKind::InvalidInput
        );
        assert_eq!(files.messages.len(), 1);
        fs::write(&paths.global, "\u{feff}<configuration/>").unwrap();
        fs::write(&paths.local, "<local/>").unwrap();
        assert_eq!(read(&paths.local, 8).unwrap(), b"<local/>");
        assert_eq!(read(&paths.local, 7).unwrap_err().to_string(), "it is longer than 0 MB");
        let files = ConfigurationFiles::read(&paths);
        let bytes = files.bytes().unwrap();
        assert_eq!(bytes.global, "\u{feff}<configuration/>".as_bytes());
        assert_eq!((bytes.local, bytes.application), (Some(&b"<local/>"[..]), None));
    }

    #[test]
    fn products() {
        assert_eq!(product_name(Runtime::Core), "New Relic .NET CoreCLR Agent");
        assert_eq!(product_name(Runtime::Framework), "New Relic .NET Agent");
    }
}
