//! Files of the source that are made from code, and checked by tests.

use crate::source_root;
use std::{env, fs};

/// The variable with which a test writes such files instead of checking them.
const WRITE: &str = "CLRSCOPE_WRITE_KEPT";

/// Checks that a file has this text; with [`WRITE`], writes it.
///
/// # Panics
/// When the file has another text, or cannot be written.
pub fn check_kept(path: &str, text: &str) {
    let file = source_root().join(path);
    let kept = fs::read_to_string(&file).unwrap_or_default();
    if kept == text {
        return;
    }
    assert!(env::var_os(WRITE).is_some(), "{path} is not up to date: run `cargo xtask docs`");
    if let Err(error) = fs::write(&file, text) {
        panic!("{path}: {error}");
    }
}
