//! Makes a table of the files in `web/dist`, compressed.

use flate2::{Compression, write::GzEncoder};
use sha2::{Digest, Sha256};
use std::{
    env,
    fmt::Write as _,
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

/// Files of the one-file report: no page of the server loads them.
const OF_REPORT: [&str; 2] = ["report.js", "report.css"];

fn main() -> io::Result<()> {
    let own = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let dist = own.join("../../web/dist");
    println!("cargo::rerun-if-changed={}", dist.display());
    println!("cargo::rerun-if-changed=build.rs");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let mut files = Vec::new();
    for entry in fs::read_dir(&dist)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if !OF_REPORT.contains(&name.as_str()) {
            files.push(name);
        }
    }
    files.sort();
    let hash = hash_of(&dist, &files)?;
    let mut table = String::new();
    for name in files {
        let mut bytes = fs::read(dist.join(&name))?;
        if name == "index.html" {
            // The addresses of the files in it are relative to itself, which is at many addresses.
            let page =
                String::from_utf8_lossy(&bytes).replace("\"./", &format!("\"/assets/{hash}/"));
            bytes = page.into_bytes();
        }
        let kind = media_type(&name);
        write_asset(&out, &name, &bytes)?;
        let _ = writeln!(
            table,
            "    Asset {{ name: {name:?}, media_type: {kind:?}, \
             gzip: include_bytes!(concat!(env!(\"OUT_DIR\"), \"/{name}.gz\")) }},"
        );
    }
    for name in OF_REPORT {
        write_asset(&out, name, &fs::read(dist.join(name))?)?;
    }
    let source = format!(
        "/// SHA-256 of all assets in hexadecimal, shortened: part of their addresses.\n\
         pub const HASH: &str = {hash:?};\n\n\
         /// All files that the pages of the server are made of.\n\
         pub const ASSETS: &[Asset] = &[\n{table}];\n"
    );
    fs::write(out.join("assets.rs"), source)
}

fn hash_of(dist: &Path, files: &[String]) -> io::Result<String> {
    let mut hasher = Sha256::new();
    for name in files {
        hasher.update(name);
        hasher.update(fs::read(dist.join(name))?);
    }
    Ok(hasher.finalize().iter().take(8).fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

fn write_asset(out: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    fs::write(out.join(format!("{name}.gz")), encoder.finish()?)
}

fn media_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        _ => "application/octet-stream",
    }
}
