//! The built pages of the web UI, as bytes: nothing else.
//!
//! They are built from `web/src` by `cargo xtask web`, and checked in, so that building clrscope
//! needs no Node.
#![forbid(unsafe_code)]

/// A file of the pages.
#[derive(Clone, Copy, Debug)]
pub struct Asset {
    /// Its name.
    pub name: &'static str,
    /// Its type for browsers.
    pub media_type: &'static str,
    /// Its bytes.
    pub bytes: &'static [u8],
    /// The same, compressed with gzip.
    pub gzip: &'static [u8],
}

include!(concat!(env!("OUT_DIR"), "/assets.rs"));

/// The program of the one-file report.
pub const REPORT_PROGRAM: &str = include_str!("../../../web/dist/report.js");

/// The style of the one-file report.
pub const REPORT_STYLE: &str = include_str!("../../../web/dist/report.css");

/// The asset of this name.
pub fn asset(name: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What all pages may weigh on their way to the browser.
    const MOST: usize = 150_000;

    #[test]
    fn the_pages_are_small_and_name_their_files() {
        let compressed: usize = ASSETS.iter().map(|asset| asset.gzip.len()).sum();
        assert!(compressed <= MOST, "{compressed} bytes");
        let page = String::from_utf8_lossy(asset("index.html").unwrap().bytes);
        for name in ["app.js", "app.css", "icon.svg"] {
            assert!(asset(name).is_some_and(|asset| !asset.bytes.is_empty()), "{name}");
            assert!(page.contains(&format!("\"/assets/{HASH}/{name}\"")), "{name}: {page}");
        }
        assert!(asset("report.js").is_none() && asset("../Cargo.toml").is_none());
    }

    #[test]
    fn nothing_is_loaded_from_elsewhere() {
        let page = String::from_utf8_lossy(asset("index.html").unwrap().bytes);
        assert!(!page.contains("http") && !page.contains("style="), "{page}");
        // A script in a page ends where it says `</script`.
        assert!(!REPORT_PROGRAM.contains("</script") && !REPORT_PROGRAM.contains("<!--"));
        assert!(!REPORT_STYLE.contains("</style") && !REPORT_STYLE.contains("url("));
    }
}
