//! Names and notes of sessions, as people change them.

use super::{SessionId, Store, not_found, open_file};
use crate::problem::Problem;
use axum::http::StatusCode;
use std::{
    fs,
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

/// Bytes of a note.
pub const MOST: usize = 4096;

impl Store {
    /// Where the note of a session is: beside its file.
    fn note_path(&self, id: &SessionId) -> PathBuf {
        self.folder.join(format!("{id}.note"))
    }

    /// What somebody wrote about a session.
    pub(super) fn note(&self, id: &SessionId) -> Option<String> {
        let mut text = String::new();
        let file = open_file(&self.note_path(id)).ok()?;
        // A longer one was not written by this server.
        file.take(MOST as u64).read_to_string(&mut text).ok()?;
        Some(text).filter(|text| !text.is_empty())
    }

    /// Deletes the note of a session that is deleted.
    pub(super) fn forget_note(&self, id: &SessionId) {
        // Most sessions have none.
        let _ = fs::remove_file(self.note_path(id));
    }

    /// Renames a session, and writes a note about it. An empty note deletes the old one.
    pub fn change(
        &self,
        id: &SessionId,
        name: Option<SessionId>,
        note: Option<&str>,
    ) -> Result<SessionId, Problem> {
        if note.is_some_and(|note| note.len() > MOST) {
            return Err(Problem::request(format!("a note has at most {MOST} bytes")));
        }
        // Held until it is done, so that no recording can begin to write either of them meanwhile.
        let busy = self.busy();
        let name = name.unwrap_or_else(|| id.clone());
        if busy.contains(id) {
            return Err(conflict(format!("the session {id} is being written")));
        }
        if !self.path(id).is_file() {
            return Err(not_found(id));
        }
        if name != *id {
            let taken = || conflict(format!("there is a session {name} already"));
            if busy.contains(&name) {
                return Err(taken());
            }
            // Others may put a file there at the same moment: another server, or a command.
            move_to_new(&self.path(id), &self.path(&name)).map_err(|error| match error.kind() {
                io::ErrorKind::AlreadyExists => taken(),
                io::ErrorKind::NotFound => not_found(id),
                _ => failed(error),
            })?;
            self.forget_note(&name);
            match fs::rename(self.note_path(id), self.note_path(&name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
                _ => {}
            }
        }
        match note {
            None => {}
            Some("") => self.forget_note(&name),
            Some(note) => self.write_note(&name, note).map_err(failed)?,
        }
        Ok(name)
    }

    /// Writes a note as a whole: whoever reads it has the old one or the new one.
    fn write_note(&self, id: &SessionId, note: &str) -> io::Result<()> {
        let mut file = tempfile::Builder::new().prefix(super::UPLOAD).tempfile_in(&self.folder)?;
        file.write_all(note.as_bytes())?;
        file.persist(self.note_path(id)).map(drop).map_err(|error| error.error)
    }
}

/// Renames a file to a name that no file has. It never takes the place of another one.
fn move_to_new(from: &Path, to: &Path) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::{
            fs::{CWD, RenameFlags, renameat_with},
            io::Errno,
        };
        match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            // Not every file system can do that.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
            moved => return Ok(moved?),
        }
    }
    // Neither replaces a link what is there.
    fs::hard_link(from, to)?;
    fs::remove_file(from)
}

fn failed(error: io::Error) -> Problem {
    Problem::internal(format!("cannot change the session: {error}"))
}

fn conflict(cause: String) -> Problem {
    Problem::new(StatusCode::CONFLICT, cause, "choose another name, or wait for the end")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Retention;

    #[test]
    fn a_new_name_never_takes_the_place_of_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (folder.path().join("one"), folder.path().join("two"));
        fs::write(&one, "1").unwrap();
        fs::write(&two, "2").unwrap();
        assert_eq!(move_to_new(&one, &two).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!((fs::read(&one).unwrap(), fs::read(&two).unwrap()), (b"1".into(), b"2".into()));
        fs::remove_file(&two).unwrap();
        move_to_new(&one, &two).unwrap();
        assert!(!one.exists() && fs::read(&two).unwrap() == b"1");
        assert_eq!(move_to_new(&one, &two).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn names_and_notes_change_together() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path(), Retention::default()).unwrap();
        let id = |name: &str| SessionId::parse(name).unwrap();
        let change = |from: &str, to: Option<&str>, note: Option<&str>| {
            let changed = store.change(&id(from), to.map(id), note);
            changed.map(|id| id.to_string()).map_err(|problem| problem.status.as_u16())
        };
        assert_eq!(change("one", None, Some("slow")), Err(404));
        for name in ["one", "two"] {
            fs::write(store.path(&id(name)), name).unwrap();
        }
        assert_eq!(change("one", None, Some("before the fix")), Ok("one".to_owned()));
        assert_eq!(store.note(&id("one")).as_deref(), Some("before the fix"));
        assert_eq!(change("one", Some("two"), None), Err(409));
        assert_eq!(change("one", Some("new"), None), Ok("new".to_owned()));
        assert_eq!(store.note(&id("new")).as_deref(), Some("before the fix"));
        assert_eq!(fs::read_to_string(store.path(&id("new"))).unwrap(), "one");
        assert!(!store.path(&id("one")).exists() && store.note(&id("one")).is_none());
        assert_eq!(change("new", None, Some(&"x".repeat(MOST + 1))), Err(400));
        assert_eq!(change("new", None, Some("")), Ok("new".to_owned()));
        assert!(store.note(&id("new")).is_none());
        change("new", None, Some("again")).unwrap();
        store.busy().insert(id("new"));
        assert_eq!(change("new", Some("other"), None), Err(409));
        store.busy().clear();
        store.delete(&id("new")).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
