//! Where fetched runtimes and compiled samples live: one folder outside the source tree.

use std::env;
use std::path::{Path, PathBuf};

/// The cache folder and the layout inside it.
///
/// `packages/` holds the files as fetched, `roots/` one dotnet root per framework version, `apps/`
/// unpacked self-contained applications, `samples/` compiled sample programs (one folder per hash
/// of source and references).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// The cache of this user: `$CLRSCOPE_CACHE`, else `$XDG_CACHE_HOME/clrscope`, else
    /// `~/.cache/clrscope` (`%LOCALAPPDATA%\clrscope` on Windows).
    ///
    /// # Panics
    /// When no variable says where the user's home is.
    pub fn of_user() -> Cache {
        if let Some(folder) = non_empty("CLRSCOPE_CACHE") {
            return Cache { folder };
        }
        let base = non_empty("XDG_CACHE_HOME")
            .or_else(|| if cfg!(windows) { non_empty("LOCALAPPDATA") } else { None })
            .or_else(|| non_empty("HOME").map(|home| home.join(".cache")));
        match base {
            Some(base) => Cache { folder: base.join("clrscope") },
            None => panic!(
                "no cache folder: set CLRSCOPE_CACHE (or HOME) to say where fetched runtimes may \
                    be kept"
            ),
        }
    }

    /// A cache in the given folder.
    pub fn at(folder: impl Into<PathBuf>) -> Cache {
        Cache { folder: folder.into() }
    }

    /// The folder itself.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Packages as fetched.
    pub fn packages(&self) -> PathBuf {
        self.folder.join("packages")
    }

    /// A dotnet root (the folder that holds `dotnet`, `host/` and `shared/`) for the given
    /// framework version.
    pub fn root(&self, version: &str) -> PathBuf {
        self.folder.join("roots").join(version)
    }

    /// An unpacked application, by name and version.
    pub fn app(&self, name: &str) -> PathBuf {
        self.folder.join("apps").join(name)
    }

    /// Compiled sample programs.
    pub fn samples(&self) -> PathBuf {
        self.folder.join("samples")
    }

    /// Where single-file applications extract what they cannot map from the bundle.
    pub fn extracted(&self) -> PathBuf {
        self.folder.join("extracted")
    }
}

fn non_empty(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// The root of the source tree that this crate was built from.
///
/// # Panics
/// When the crate was built outside of the workspace.
pub fn source_root() -> PathBuf {
    match Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2) {
        Some(root) => root.to_path_buf(),
        None => panic!("testkit was built outside of the workspace"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_stays_inside_the_folder() {
        let cache = Cache::at("/somewhere");
        for path in [
            cache.packages(),
            cache.root("9.0.5"),
            cache.app("x-1"),
            cache.samples(),
            cache.extracted(),
        ] {
            assert!(path.starts_with("/somewhere"), "{}", path.display());
        }
    }

    #[test]
    fn source_root_holds_the_samples() {
        assert!(source_root().join("samples").is_dir());
    }
}
