//! The native half of the sample `harmtarget`, compiled by the C compiler that Rust links with.

use crate::tool;
use anyhow::{Context, Result};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use testkit::{Cache, source_root};

/// The library's file name.
pub const LIBRARY: &str = "libharmnative.so";

/// The folder of the compiled library.
///
/// # Errors
/// When there is no compiler, or it refuses the source.
pub fn folder() -> Result<PathBuf> {
    let source = source_root().join("samples/harmtarget/harmnative.c");
    let text = fs::read(&source).with_context(|| source.display().to_string())?;
    let hash: String =
        Sha256::digest(&text).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let folder = Cache::of_user().samples().join(format!("harmnative-{hash}"));
    let library = folder.join(LIBRARY);
    if !library.is_file() {
        fs::create_dir_all(&folder)?;
        let temporary = tempfile::Builder::new().prefix(".compiling-").tempdir_in(&folder)?;
        let out = temporary.path().join(LIBRARY);
        let mut compiler = Command::new("cc");
        compiler
            .args(["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"])
            .arg(&out)
            .arg(&source);
        tool::run(&mut compiler, Duration::from_secs(60))?;
        fs::rename(&out, &library)?;
    }
    Ok(folder)
}
