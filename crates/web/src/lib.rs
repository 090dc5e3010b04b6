//! The built pages of the web UI, as bytes: nothing else.
//!
//! They are built from `web/src` by `cargo xtask web`, and checked in, so that building clrscope
//! needs no Node.
#![forbid(unsafe_code)]

use flate2::read::GzDecoder;
use std::io::{self, Read};

/// A file of the pages.
#[derive(Clone, Copy, Debug)]
pub struct Asset {
    /// Its name.
    pub name: &'static str,
    /// Its type for browsers.
    pub media_type: &'static str,
    /// Its bytes, compressed with gzip.
    pub gzip: &'static [u8],
}

impl Asset {
    /// Its bytes.
    ///
    /// # Errors
    /// When the program's copy is damaged.
    pub fn bytes(&self) -> io::Result<Vec<u8>> {
        unpacked(self.gzip)
    }
}

include!(concat!(env!("OUT_DIR"), "/assets.rs"));

/// The program of the one-file report.
///
/// # Errors
/// When the program's copy is damaged.
pub fn report_program() -> io::Result<Vec<u8>> {
    unpacked(include_bytes!(concat!(env!("OUT_DIR"), "/report.js.gz")))
}

/// The style of the one-file report.
///
/// # Errors
/// When the program's copy is damaged.
pub fn report_style() -> io::Result<Vec<u8>> {
    unpacked(include_bytes!(concat!(env!("OUT_DIR"), "/report.css.gz")))
}

fn unpacked(gzip: &[u8]) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    GzDecoder::new(gzip).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The asset of this name.
pub fn asset(name: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What all pages may weigh on their way to the browser.
    const MOST: usize = 150_000;

    fn text(bytes: io::Result<Vec<u8>>) -> String {
        String::from_utf8(bytes.unwrap()).unwrap()
    }

    #[test]
    fn the_pages_are_small_and_name_their_files() {
        let compressed: usize = ASSETS.iter().map(|asset| asset.gzip.len()).sum();
        assert!(compressed <= MOST, "{compressed} bytes");
        let page = text(asset("index.html").unwrap().bytes());
        for name in ["app.js", "app.css", "icon.svg"] {
            assert!(!text(asset(name).unwrap().bytes()).is_empty(), "{name}");
            assert!(page.contains(&format!("\"/assets/{HASH}/{name}\"")), "{name}: {page}");
        }
        assert!(asset("report.js").is_none() && asset("../Cargo.toml").is_none());
    }

    #[test]
    fn nothing_is_loaded_from_elsewhere() {
        let page = text(asset("index.html").unwrap().bytes());
        assert!(!page.contains("http") && !page.contains("style="), "{page}");
        // A script in a page ends where it says `</script`.
        let (program, style) = (text(report_program()), text(report_style()));
        assert!(!program.contains("</script") && !program.contains("<!--"));
        assert!(!style.contains("</style") && !style.contains("url("));
    }
}
