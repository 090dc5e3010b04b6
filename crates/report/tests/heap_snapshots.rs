//! What the formats show of heap snapshots, which others have read.
mod browser;
mod common;

use common::{profile, text};
use document::{Cell, Document, Section, Table, left, right};
use report::{EXPORTERS, Options, SnapshotSection};

const TEXT: &str = "Heap of shop (pid 7)\n  10 objects\n\nTypes by bytes\n  bytes  type\n  \
                    640 B  <b>Shop.Line</b>\n";

fn document() -> Document {
    let mut head = Section::new("Heap of shop (pid 7)");
    head.say("10 objects");
    let mut types = Section::new("Types by bytes");
    let row = vec![Cell::bytes(640), Cell::name("<b>Shop.Line</b>")];
    types.add(Table::new(vec![right("bytes"), left("type")], [row]));
    Document { sections: vec![head, types] }
}

fn options() -> Options {
    let json = serde_json::json!({ "schema": 1, "totals": { "objects": 10 } });
    Options {
        snapshots: vec![SnapshotSection { id: "heap", title: "Heap", document: document(), json }],
        ..Options::default()
    }
}

#[test]
fn they_stand_behind_the_profilers_and_before_the_cost() {
    let page = text(&profile(), "text", &options());
    let (before, after) = page.split_once(TEXT).unwrap();
    assert!(before.contains("\nExceptions\n") && before.ends_with("\n\n"), "{page}");
    assert!(after.starts_with('\n') && after.contains("Cost of the observation"), "{page}");
    let page = text(&profile(), "markdown", &options());
    let part = "\n\n## Heap of shop (pid 7)\n\n10 objects\n\n## Types by bytes\n\n\
                | bytes | type |\n| ---: | --- |\n| 640 B | `<b>Shop.Line</b>` |\n\n## ";
    assert!(page.contains(part), "{page}");
}

#[test]
fn programs_get_them_as_they_are() {
    let json: serde_json::Value =
        serde_json::from_str(&text(&profile(), "json", &options())).unwrap();
    assert_eq!(json["heap"], options().snapshots[0].json);
    let json: serde_json::Value =
        serde_json::from_str(&text(&profile(), "json", &Options::default())).unwrap();
    assert!(json.get("heap").is_none());
}

#[test]
fn the_page_has_a_tab_for_them() {
    let folder = tempfile::TempDir::new().unwrap();
    let page = folder.path().join("page.html");
    std::fs::write(&page, text(&profile(), "html", &options())).unwrap();
    let shown = browser::shown(&page, folder.path(), "heap");
    // As text, not as what it could mean to a browser.
    assert!(
        shown.contains("&lt;b&gt;Shop.Line&lt;/b&gt;") && shown.contains("Types by bytes"),
        "{shown}"
    );
    // What only developers of clrscope want to know is on the page, too.
    let shown = browser::shown(&page, folder.path(), "recording");
    for part in ["Held in the process", "file descriptors", "3.24 MB", "frames by table"] {
        assert!(shown.contains(part), "`{part}` is missing in {shown}");
    }
}

#[test]
fn they_are_read_for_formats_that_show_them() {
    for exporter in EXPORTERS {
        let mut asked = 0;
        let session = common::file();
        let snapshots = |_: &profile::Profile| {
            asked += 1;
            options().snapshots
        };
        exporter
            .convert_with(&session[..], &Options::default(), &mut Vec::new(), snapshots)
            .unwrap();
        assert_eq!(
            asked,
            u32::from(["text", "json", "markdown", "html"].contains(&exporter.id)),
            "{}",
            exporter.id
        );
    }
}
