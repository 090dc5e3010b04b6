//! Work that is done with the rights of another user.

use rustix::{
    process::{Gid, Uid, geteuid},
    thread::{
        CapabilitySet, capabilities, set_capabilities, set_thread_groups, set_thread_res_gid,
        set_thread_res_uid,
    },
};
use std::{io, panic, thread};

/// A user and group, as we see them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub uid: u32,
    pub gid: u32,
}

impl Identity {
    /// Our own.
    pub fn own() -> Self {
        Self { uid: geteuid().as_raw(), gid: rustix::process::getegid().as_raw() }
    }

    /// Does something with the rights of this user and with no others, on a thread that ends with
    /// it. The other threads keep theirs: for the kernel, unlike for the C library, users are those
    /// of threads.
    ///
    /// # Errors
    /// We may not act as this user; nothing was done then.
    pub fn run<T: Send>(self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        thread::scope(|scope| {
            let thread =
                thread::Builder::new().name("clrscope-user".into()).spawn_scoped(scope, || {
                    self.take()?;
                    Ok(work())
                })?;
            thread.join().unwrap_or_else(|panic| panic::resume_unwind(panic))
        })
    }

    /// Takes this identity, for the calling thread alone. Its real and saved user stay ours, so
    /// that this user may neither signal nor trace it.
    fn take(self) -> io::Result<()> {
        // No user: system calls take it for "leave as it is".
        if [self.uid, self.gid].contains(&u32::MAX) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let uid = Uid::from_raw(self.uid);
        if geteuid() != uid {
            let gid = Gid::from_raw(self.gid);
            set_thread_groups(&[])?;
            set_thread_res_gid(None, gid, None)?;
            // The user for files goes with the effective one.
            set_thread_res_uid(None, uid, None)?;
        }
        // What is left where root's own files are reached, or where we got capabilities in another
        // way.
        let mut sets = capabilities(None)?;
        if !sets.effective.is_empty() {
            sets.effective = CapabilitySet::empty();
            set_capabilities(None, sets)?;
        }
        match geteuid() == uid {
            true => Ok(()),
            false => Err(io::ErrorKind::PermissionDenied.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_rights_of_another_user_are_those_of_one_thread() {
        assert!(geteuid().is_root(), "this test takes other identities, so it needs root");
        let folder = tempfile::tempdir().unwrap();
        let secret = folder.path().join("secret");
        fs::write(&secret, "secret").unwrap();
        fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let facts = || {
            let text = fs::read_to_string("/proc/thread-self/status").unwrap();
            let line =
                |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
            (["Uid:", "Gid:", "Groups:", "CapEff:"].map(line), fs::read(&secret).is_ok())
        };
        let before = facts();
        let (of_them, can_read) = Identity { uid: 65534, gid: 65533 }.run(facts).unwrap();
        let words =
            |line: &str| line.split_whitespace().skip(1).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(
            words(&of_them[0]),
            ["0", "65534", "0", "65534"],
            "real, effective, saved, file system"
        );
        assert_eq!(words(&of_them[1]), ["0", "65533", "0", "65533"]);
        assert_eq!(words(&of_them[2]), [""; 0]);
        assert_eq!(words(&of_them[3]), ["0000000000000000"]);
        assert!(!can_read);
        assert_eq!(facts(), before);
        // Root's own files are reached without what lets root reach those of others.
        let (of_us, _) = Identity::own().run(facts).unwrap();
        assert_eq!(words(&of_us[3]), ["0000000000000000"]);
        // No user at all.
        assert!(Identity { uid: u32::MAX, gid: 0 }.run(|| ()).is_err());
    }
}
