//! Pages as a real browser shows them.

use std::{path::Path, process::Command};

/// What a page shows with a tab open, without the programs and data in it. `folder` is for the
/// browser's own files.
pub fn shown(page: &Path, folder: &Path, tab: &str) -> String {
    let flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--virtual-time-budget=8000",
        "--dump-dom",
    ];
    let home = format!("--user-data-dir={}", folder.join("home").display());
    let url = format!("file://{}#tab={tab}", page.display());
    let output = Command::new("chromium").args(flags).arg(home).arg(url).output().unwrap();
    let document = String::from_utf8_lossy(&output.stdout).into_owned();
    document.split("<script").next().unwrap().to_owned()
        + document.rsplit("</script>").next().unwrap()
}
