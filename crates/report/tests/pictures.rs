//! Pages of documents in a browser: pictures are drawn, and their twins say the same.

mod browser;

use document::{
    Cell, Document, Figure, Graph, GraphEdge, GraphNode, Section, Series, Table, Unit,
    WeightedNode, Weights,
};

/// A ring of two threads, a line, and a call tree; names are those of somebody else.
fn page() -> String {
    const HOSTILE: &str = "Evil</script><script>document.title='bad'</script>";
    let edge = |from, to, label: &str| GraphEdge { from, to, label: label.to_owned() };
    let nodes = [HOSTILE, "lock A", "worker 2", "lock B"];
    let graph = Graph::new(
        nodes.map(|name| GraphNode::new([name.to_owned()])).to_vec(),
        vec![
            edge(0, 1, "waits for"),
            edge(1, 2, "held by"),
            edge(2, 3, "waits for"),
            edge(3, 0, "held by"),
        ],
    );
    let series = Series {
        title: "objects of Order".into(),
        unit: Unit::Count,
        seconds: vec![0.0, 4.5],
        values: vec![120.0, 3400.0],
    };
    let node = |depth, name: &str, weight| WeightedNode {
        depth,
        forms: vec![name.to_owned()],
        place: None,
        kind: 0,
        weight,
    };
    let weights = Weights {
        unit: Unit::Nanoseconds,
        noun: "method",
        nodes: vec![node(0, "Main", 3e9), node(1, "Shop.Hot", 2.5e9), node(1, "Shop.Cold", 0.5e9)],
    };
    let mut section = Section::new("2 threads wait for each other");
    section.badge = Some("critical");
    section.add(Table::facts([("culprit", Cell::text(HOSTILE))]));
    section.add(Figure::graph("who waits for whom", graph));
    section.add(Figure::series("growth", series));
    section.add(Figure::weights("where the CPU time is", weights));
    let document = Document { sections: vec![section] };
    let mut page = Vec::new();
    report::write_page("checkup", HOSTILE, HOSTILE, &document, &mut page).unwrap();
    String::from_utf8(page).unwrap()
}

#[test]
fn pictures_are_drawn_and_their_twins_say_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let html = page();
    let script = r#"<script>
        const pause = () => new Promise(done => setTimeout(done, 200));
        (async () => {
            await pause();
            const seen = {};
            seen.painted = [...document.querySelectorAll('figure canvas')].map(canvas => {
                const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
                const colors = new Set();
                for (let i = 0; i < data.length; i += 4) if (data[i + 3]) colors.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]);
                return colors.size > 3;
            });
            document.querySelectorAll('details').forEach(own => { own.open = true; });
            await pause();
            seen.tree = document.querySelector('[role=treegrid]').innerText;
            seen.line = document.querySelector('.growth').getAttribute('aria-label');
            const flame = document.querySelector('.flame canvas');
            const press = async key => { flame.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true })); await pause(); };
            flame.focus();
            await press('ArrowDown'); await press('ArrowDown'); await press('Enter');
            seen.zoomed = document.querySelector('.crumbs').innerText;
            document.title += JSON.stringify(seen);
        })();
    </script></body>"#;
    let path = folder.path().join("page.html");
    std::fs::write(&path, html.replace("</body>", script)).unwrap();
    let shown = browser::shown(&path, folder.path(), "");
    let title = shown.split_once("<title>").unwrap().1.split_once("</title>").unwrap().0;
    assert!(title.contains(r#""painted":[true,true]"#), "{title}");
    assert!(title.contains("objects of Order: 120 at first, 3,400 at last"), "{title}");
    assert!(title.contains("Main\\n›\\nShop.Hot") || title.contains("Main›Shop.Hot"), "{title}");
    assert!(title.contains("Shop.Hot") && title.contains("83.3 %"), "{title}");
    for part in ["held by", "worker 2", "2.50 s", "Evil&lt;/script&gt;"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(!shown.contains("<script>document"), "{shown}");
}
