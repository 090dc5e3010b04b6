//! Puts the schemas of the OpenAPI document, compressed, where `src/openapi.rs` embeds them.

use std::{env, fs, io, path::PathBuf};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=schemas.json");
    println!("cargo::rerun-if-changed=build.rs");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let compressed = lz4_flex::block::compress_prepend_size(&fs::read("schemas.json")?);
    fs::write(out.join("schemas.lz4"), compressed)
}
