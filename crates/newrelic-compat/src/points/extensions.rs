//! Instrumentation files in the agent's home.

use crate::Runtime;
use crate::environment::Platform;
use crate::files::{self, extension_folders};
use crate::log::{Level, Message};
use crate::xml;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

/// Files of earlier agents that are not read any more, by a part of their names.
const DEPRECATED: [&str; 3] = [
    "NewRelic.Providers.Wrapper.Logging.Instrumentation.xml",
    "NewRelic.Providers.Wrapper.CastleMonoRail2.Instrumentation.xml",
    "NewRelic.Providers.Wrapper.Asp35.Instrumentation.xml",
];

/// Whether a file with this name is read.
#[must_use]
pub fn is_extension(name: &str, platform: Platform) -> bool {
    match platform {
        Platform::Unix => name.ends_with("xml"),
        Platform::Windows => name.to_ascii_lowercase().ends_with(".xml"),
    }
}

/// Whether a file with this path belongs to an earlier agent and is not read.
#[must_use]
pub fn is_deprecated(path: &str) -> bool {
    let path = path.to_ascii_lowercase();
    DEPRECATED.iter().any(|name| path.contains(&name.to_ascii_lowercase()))
}

/// The instrumentation files of a home folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extensions {
    /// Texts by path.
    pub files: BTreeMap<String, String>,
    /// Lines for the log.
    pub messages: Vec<Message>,
    /// Files that could not be read, or are not UTF-8.
    pub unreadable: usize,
}

impl Extensions {
    /// Reads the files of a home folder. A folder that is missing is only worth a warning.
    #[must_use]
    pub fn read(home: &Path, runtime: Runtime, platform: Platform) -> Self {
        let mut extensions = Self::default();
        for folder in extension_folders(home, runtime) {
            let entries = match fs::read_dir(&folder) {
                Ok(entries) => entries,
                Err(error) => {
                    let text = format!(
                        "Unable to read the extensions folder {}: {error}",
                        folder.display()
                    );
                    extensions.messages.push(Message::new(Level::Warn, text));
                    // One that is there and cannot be read may hold what is instrumented now.
                    extensions.unreadable += usize::from(error.kind() != io::ErrorKind::NotFound);
                    continue;
                }
            };
            for entry in entries {
                let Ok(entry) = entry else {
                    extensions.unreadable += 1;
                    continue;
                };
                if is_extension(&entry.file_name().to_string_lossy(), platform)
                    && entry.path().is_file()
                {
                    extensions.add(&entry.path());
                }
            }
        }
        extensions
    }

    fn add(&mut self, path: &Path) {
        let text =
            files::read(path, files::TEXT_LIMIT).map_err(|error| error.to_string()).and_then(
                |bytes| xml::decode(&bytes).map(str::to_owned).map_err(|error| error.to_string()),
            );
        match text {
            Ok(text) => drop(self.files.insert(path.to_string_lossy().into_owned(), text)),
            Err(error) => {
                let text =
                    format!("Unable to read instrumentation file {}: {error}", path.display());
                self.messages.push(Message::new(Level::Warn, text));
                self.unreadable += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes() {
        for (name, unix, windows) in [
            ("a.xml", true, true),
            ("a.XML", false, true),
            ("axml", true, false),
            ("a.xml.bak", false, false),
            ("xml", true, false),
        ] {
            assert_eq!(is_extension(name, Platform::Unix), unix, "{name}");
            assert_eq!(is_extension(name, Platform::Windows), windows, "{name}");
        }
    }

    #[test]
    fn deprecated_files() {
        assert!(is_deprecated(
            "/h/extensions/newrelic.providers.wrapper.logging.instrumentation.XML"
        ));
        assert!(is_deprecated(
            "C:\\x\\NewRelic.Providers.Wrapper.CastleMonoRail2.Instrumentation.xml"
        ));
        assert!(is_deprecated("NewRelic.Providers.Wrapper.Asp35.Instrumentation.xml"));
        assert!(!is_deprecated("NewRelic.Providers.Wrapper.Asp.Instrumentation.xml"));
    }

    #[test]
    fn both_folders_and_nothing_below() {
        let home = tempfile::tempdir().unwrap();
        let [common, own] = extension_folders(home.path(), Runtime::Core);
        fs::create_dir_all(&own).unwrap();
        fs::create_dir_all(common.join("netframework")).unwrap();
        fs::create_dir_all(common.join("folder.xml")).unwrap();
        for (path, bytes) in [
            ("b.xml", &b"<b/>"[..]),
            ("netcore/a.xml", b"\xef\xbb\xbf<a/>"),
            ("netframework/c.xml", b"<c/>"),
            ("notes.txt", b"<d/>"),
            ("bad.xml", b"\xff"),
        ] {
            fs::write(common.join(path), bytes).unwrap();
        }
        let read = Extensions::read(home.path(), Runtime::Core, Platform::Unix);
        let texts: Vec<&str> = read.files.values().map(String::as_str).collect();
        assert_eq!(texts, ["<b/>", "<a/>"]);
        assert_eq!((read.unreadable, read.messages.len()), (1, 1));
        let missing = Extensions::read(&home.path().join("none"), Runtime::Core, Platform::Unix);
        assert_eq!((missing.files.len(), missing.unreadable, missing.messages.len()), (0, 0, 2));
    }
}
