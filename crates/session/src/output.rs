use std::{
    fs::{File, Metadata, OpenOptions},
    io,
    path::Path,
};

/// Creates a file to write, or empties the one that is there. It has to be a regular file: a FIFO
/// may have no reader or lose it, a device keeps nothing, and what is written to standard output's
/// file would be overwritten by what is printed there. Never waits for a reader.
///
/// # Errors
/// When it cannot be opened, or is something else; the message says what.
pub fn create_file(path: &Path) -> io::Result<File> {
    // Even to open a FIFO would be noticed by its reader, as the end of what it reads.
    if let Ok(found) = path.metadata() {
        check(&found)?;
    }
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        use std::os::unix::fs::OpenOptionsExt as _;
        // No wait should it have become a FIFO meanwhile.
        options.custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed());
    }
    let file = options.open(path)?;
    check(&file.metadata()?)?;
    file.set_len(0)?;
    Ok(file)
}

/// Refuses a path that [`create_file`] would refuse because of what already exists there. Call it
/// before a long operation that writes the file at its end, so that the operation does not start in
/// vain.
///
/// # Errors
/// As [`create_file`], as far as they can be found without creating the file.
pub fn check_file(path: &Path) -> io::Result<()> {
    match path.metadata() {
        Ok(found) => check(&found),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn check(found: &Metadata) -> io::Result<()> {
    let refuse = |what: &str| {
        Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{what}, not a regular file")))
    };
    let kind = found.file_type();
    #[cfg(unix)]
    {
        use std::os::fd::{AsFd as _, BorrowedFd};
        use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
        if kind.is_fifo() {
            return refuse("it is a pipe (FIFO)");
        }
        if kind.is_char_device() || kind.is_block_device() {
            return refuse("it is a device");
        }
        if kind.is_socket() {
            return refuse("it is a socket");
        }
        // Through a duplicate, because types of a raw `stat` differ from system to system.
        let is_same = |stream: BorrowedFd<'_>| {
            let stream =
                stream.try_clone_to_owned().and_then(|stream| File::from(stream).metadata());
            stream.is_ok_and(|stream| stream.dev() == found.dev() && stream.ino() == found.ino())
        };
        if is_same(io::stdout().as_fd()) || is_same(io::stderr().as_fd()) {
            return refuse(
                "it is where standard output or error goes; it has to be a file of its own",
            );
        }
    }
    if kind.is_dir() {
        return refuse("it is a folder");
    }
    if kind.is_file() { Ok(()) } else { refuse("it is something else") }
}
