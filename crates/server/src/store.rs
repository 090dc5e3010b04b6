//! The folder of sessions.

mod id;
mod note;
mod row;

pub use id::SessionId;
pub use row::{SessionProfiler, SessionRow, SessionTarget};

use crate::problem::Problem;
use axum::http::StatusCode;
use std::{
    collections::HashSet,
    fs::{self, File, OpenOptions},
    io,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

/// How the names of files begin that are being received: no session has such a name.
pub const UPLOAD: &str = ".upload-";

/// Age from which such a file is not in use.
const LEFT_BEHIND: Duration = Duration::from_secs(24 * 3600);

/// How much is kept. The oldest sessions beyond that are deleted when a new one comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Sessions, at least 1.
    pub count: usize,
    /// Bytes of all sessions. The newest session is kept even if it is larger.
    pub bytes: u64,
}

impl Default for Retention {
    fn default() -> Self {
        Self { count: 200, bytes: 10 << 30 }
    }
}

/// Why a folder cannot be used for sessions.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// It cannot be made or read.
    #[error("cannot use the folder of sessions {}: {source}; choose another one with --sessions", path.display())]
    Io {
        /// Where.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Others can put files into it.
    #[error(
        "other users can write into the folder of sessions {}, or own it; run `chmod 700` on it, or \
         choose another one with --sessions",
        _0.display()
    )]
    Open(PathBuf),
}

/// The folder of sessions.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    retention: Retention,
    /// Sessions that are being written.
    busy: Mutex<HashSet<SessionId>>,
}

/// A session that is being written, for as long as this lives.
#[derive(Debug)]
pub struct Writing<'a> {
    store: &'a Store,
    pub id: SessionId,
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.store.busy().remove(&self.id);
    }
}

impl Store {
    /// Makes the folder if there is none, for its user only.
    ///
    /// # Errors
    /// [`FolderError`].
    pub fn open(folder: &Path, retention: Retention) -> Result<Self, FolderError> {
        let failed = |source| FolderError::Io { path: folder.to_owned(), source };
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(folder).map_err(failed)?;
        let folder = folder.canonicalize().map_err(failed)?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt as _;
            let found = folder.metadata().map_err(failed)?;
            let own = found.uid() == rustix::process::geteuid().as_raw();
            if !own || found.mode() & 0o022 != 0 {
                return Err(FolderError::Open(folder));
            }
        }
        let store = Self { folder, retention, busy: Mutex::default() };
        store.sweep().map_err(failed)?;
        Ok(store)
    }

    /// Deletes what a server that was killed has received of uploads.
    fn sweep(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let is_upload = entry.file_name().to_string_lossy().starts_with(UPLOAD);
            let changed = entry.metadata().and_then(|found| found.modified());
            let age = changed.ok().and_then(|changed| changed.elapsed().ok());
            // Another server may be receiving a younger one.
            if is_upload && age.is_some_and(|age| age > LEFT_BEHIND) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn busy(&self) -> MutexGuard<'_, HashSet<SessionId>> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where a session is.
    pub fn path(&self, id: &SessionId) -> PathBuf {
        self.folder.join(format!("{id}.{}", session::EXTENSION))
    }

    /// A new session of about this name.
    pub fn create(&self, name: &str) -> Result<Writing<'_>, Problem> {
        let mut busy = self.busy();
        for number in 1..1000_u32 {
            let id = if number == 1 { name.to_owned() } else { format!("{name}-{number}") };
            let id = SessionId::parse(&id)?;
            if !busy.contains(&id) && !self.path(&id).exists() {
                busy.insert(id.clone());
                return Ok(Writing { store: self, id });
            }
        }
        Err(Problem::busy(format!("there are too many sessions that are called {name}")))
    }

    /// Whether a session is being written.
    pub fn is_written(&self, id: &SessionId) -> bool {
        self.busy().contains(id)
    }

    /// Opens a session to read it.
    pub fn read(&self, id: &SessionId) -> Result<File, Problem> {
        open_file(&self.path(id)).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => not_found(id),
            _ => Problem::internal(format!("cannot open the session {id}: {error}")),
        })
    }

    /// What is known of a session without reading all of it.
    pub fn row(&self, id: &SessionId) -> Result<SessionRow, Problem> {
        let row = SessionRow::read(id, self.read(id)?, self.is_written(id));
        Ok(SessionRow { note: self.note(id), ..row })
    }

    /// How many sessions there are, and some of them: those from `first` on, at most `rows`. The
    /// newest file comes first; the order among these is that of their recordings.
    pub fn list(&self, first: usize, rows: usize) -> Result<(usize, Vec<SessionRow>), Problem> {
        let files = self.files()?;
        let wanted = files.iter().rev().skip(first).take(rows);
        let mut rows: Vec<_> = wanted.flat_map(|file| self.row(&file.id)).collect();
        order::sort_by(&mut rows, |one, other| {
            (other.recorded_unix_ms, &other.id).cmp(&(one.recorded_unix_ms, &one.id))
        });
        Ok((files.len(), rows))
    }

    /// Deletes a session that is complete.
    pub fn delete(&self, id: &SessionId) -> Result<(), Problem> {
        // Held until it is deleted, so that no recording can begin to write it meanwhile.
        let busy = self.busy();
        if busy.contains(id) {
            return Err(Problem::new(
                StatusCode::CONFLICT,
                format!("the session {id} is being written"),
                "stop its recording first: DELETE /api/v1/recordings/{id}",
            ));
        }
        fs::remove_file(self.path(id)).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => not_found(id),
            _ => Problem::internal(format!("cannot delete the session {id}: {error}")),
        })?;
        self.forget_note(id);
        Ok(())
    }

    /// The sessions in the folder, oldest first.
    fn files(&self) -> Result<Vec<Kept>, Problem> {
        let failed = |error| Problem::internal(format!("cannot read the folder: {error}"));
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            // What is no session is none of our business; what has just been deleted is no error.
            let path = entry.path();
            let is_session = path.extension().is_some_and(|own| own == session::EXTENSION);
            let name = path.file_stem().and_then(|name| name.to_str());
            let id = name.filter(|_| is_session).and_then(|name| SessionId::parse(name).ok());
            let found = entry.metadata().ok().filter(fs::Metadata::is_file);
            if let (Some(id), Some(found)) = (id, found) {
                let changed = found.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                files.push(Kept { id, bytes: found.len(), changed });
            }
        }
        order::sort_by(&mut files, |one, other| {
            (one.changed, &one.id).cmp(&(other.changed, &other.id))
        });
        Ok(files)
    }

    /// Deletes the oldest sessions, as many as the limits say. The newest one and those that are
    /// being written are kept.
    pub fn tidy(&self) -> Result<(), Problem> {
        let files = self.files()?;
        let (mut count, mut bytes) =
            (files.len(), files.iter().map(|file| file.bytes).sum::<u64>());
        let older = files.split_last().map(|(_, older)| older).unwrap_or_default();
        for file in older {
            if count <= self.retention.count && bytes <= self.retention.bytes {
                break;
            }
            if self.delete(&file.id).is_ok() {
                count -= 1;
                bytes -= file.bytes;
            }
        }
        Ok(())
    }
}

/// A session in the folder.
#[derive(Debug)]
struct Kept {
    id: SessionId,
    bytes: u64,
    changed: SystemTime,
}

fn not_found(id: &SessionId) -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        format!("there is no session {id}"),
        "GET /api/v1/sessions lists the sessions",
    )
}

/// Opens a regular file, and follows no link.
fn open_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        use std::os::unix::fs::OpenOptionsExt as _;
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        options.custom_flags(flags.bits().cast_signed());
    }
    let file = options.open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(store: &Store, name: &str, bytes: usize, age: u64) {
        let path = store.path(&SessionId::parse(name).unwrap());
        fs::write(&path, vec![0; bytes]).unwrap();
        let time = SystemTime::now() - Duration::from_secs(age);
        File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    }

    fn names(store: &Store) -> Vec<String> {
        store.files().unwrap().iter().map(|file| file.id.to_string()).collect()
    }

    #[test]
    fn the_oldest_sessions_go_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b");
        let store = Store::open(&path, Retention { count: 3, bytes: 100 }).unwrap();
        write(&store, "busy", 10, 50);
        let busy = SessionId::parse("busy").unwrap();
        store.busy().insert(busy.clone());
        for (name, age) in [("one", 40), ("two", 30), ("three", 20)] {
            write(&store, name, 10, age);
        }
        fs::write(path.join("other.txt"), [0; 1000]).unwrap();
        store.tidy().unwrap();
        assert_eq!(names(&store), ["busy", "two", "three"]);
        assert!(path.join("other.txt").exists());
        write(&store, "large", 1000, 10);
        store.tidy().unwrap();
        assert_eq!(names(&store), ["busy", "large"]);
        assert_eq!(store.delete(&busy).unwrap_err().status, StatusCode::CONFLICT);
        store.busy().clear();
        store.delete(&busy).unwrap();
        assert_eq!(store.delete(&busy).unwrap_err().status, StatusCode::NOT_FOUND);
    }

    #[test]
    fn what_a_killed_server_received_is_deleted() {
        let folder = tempfile::tempdir().unwrap();
        for (name, age) in [("new", 1), ("old", 2 * 24 * 3600)] {
            let file = File::create(folder.path().join(format!("{UPLOAD}{name}"))).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
        }
        Store::open(folder.path(), Retention::default()).unwrap();
        let left = |name: &str| folder.path().join(format!("{UPLOAD}{name}")).exists();
        assert!(left("new") && !left("old"));
    }

    #[test]
    fn names_are_used_once() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path(), Retention::default()).unwrap();
        let first = store.create("web").unwrap();
        let second = store.create("web").unwrap();
        assert_eq!((first.id.to_string(), second.id.to_string()), ("web".into(), "web-2".into()));
        fs::write(store.path(&first.id), "").unwrap();
        drop(first);
        assert_eq!(store.create("web").unwrap().id.to_string(), "web-3");
        assert!(store.create("../web").is_err());
    }

    #[cfg(unix)]
    #[test]
    fn folders_and_files_of_others_are_refused() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("new"), Retention::default()).unwrap();
        let mode = store.folder().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        std::os::unix::fs::symlink("/etc/passwd", store.folder().join("link.clrscope")).unwrap();
        assert!(names(&store).is_empty());
        assert!(store.read(&SessionId::parse("link").unwrap()).is_err());
        fs::set_permissions(store.folder(), PermissionsExt::from_mode(0o777)).unwrap();
        let opened = Store::open(store.folder(), Retention::default());
        assert!(matches!(opened, Err(FolderError::Open(_))));
    }
}
