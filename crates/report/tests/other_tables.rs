//! What all formats show of tables whose profiler is not known here, such as those of a later
//! version.

mod browser;
mod common;
mod schema;

use common::{START, records, text};
use profile::{
    BuildOptions, Filter, Profile, ProfileBuilder,
    rows::{self, Row, TableId},
    session::{FunctionId, SessionRecord, StackId, ThreadId, TypeId},
};
use report::Options;
use serde_json::{Value, json};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Waits,
    Lost,
}

impl rows::Words for Fate {
    const WORDS: &'static [(Self, &'static str)] = &[(Fate::Waits, "waits"), (Fate::Lost, "lost")];
}

rows::rows! {
    /// Orders that
    /// someone <b>ships</b>.
    struct Order in "warehouse", "late_orders" {
        /// When it came.
        time: rows::Time,
        waited: rows::Duration,
        items: rows::Count,
        weight: rows::Bytes,
        shelf: rows::Number,
        price: rows::Real,
        gift: rows::Flag,
        buyer: rows::Text,
        taken_by: Option<rows::Thread>,
        taken_in: rows::Function,
        at: rows::Stack,
        kind: rows::Type,
        fate: rows::Word<Fate>,
        parts: Vec<rows::Type>,
    }

    struct Nothing in "warehouse", "nothing" {
        time: rows::Time,
    }
}

fn profile() -> Profile {
    let order = |time: u64, thread: Option<u32>, fate| Order {
        time: START + time,
        waited: 2_500_000,
        items: 12_345,
        weight: 2048,
        shelf: 255,
        price: 7.25,
        gift: thread.is_some(),
        buyer: common::HOSTILE.into(),
        taken_by: thread.map(ThreadId),
        taken_in: FunctionId(0),
        at: StackId(0),
        kind: TypeId(0),
        fate,
        parts: vec![TypeId(0), TypeId(0)],
    };
    let orders =
        [order(1_500_000_000, Some(0), Fate::Waits), order(2_000_000_000, None, Fate::Lost)];
    let mut records = records();
    let end = records.pop().unwrap();
    // The small recording has tables of its own.
    let tables = records.iter().filter(|record| matches!(record, SessionRecord::Table(_)));
    let tables = tables.count() as u32;
    let (orders_id, nothing_id) = (TableId(tables), TableId(tables + 1));
    records.push(SessionRecord::Table(Order::table(orders_id)));
    records.push(SessionRecord::Table(Nothing::table(nothing_id)));
    records.push(SessionRecord::Rows(Order::batch(orders_id, &orders)));
    records.push(end);
    let mut builder = ProfileBuilder::new(BuildOptions::default());
    records.iter().for_each(|record| builder.add(record).unwrap());
    builder.finish(false).unwrap()
}

#[test]
fn text_and_markdown_show_them_as_tables() {
    let profile = profile();
    let wide = Options { width: 400, ..Options::default() };
    let page = text(&profile, "text", &wide);
    let (_, section) = page.split_once("\nwarehouse: late_orders\n").unwrap();
    let mut lines = section.lines();
    assert_eq!(lines.next(), Some("  Orders that someone <b>ships</b>."));
    let heads: Vec<&str> = lines.nth(1).unwrap().split_whitespace().collect();
    assert_eq!(heads[..4], ["time", "waited", "items", "weight"]);
    let row = lines.next().unwrap();
    for part in ["1.500 s", "2.50 ms", "12,345", "2.00 KB", "0xff", "7.25", "yes", "waits"] {
        assert!(row.contains(part), "`{part}` is missing in {row}");
    }
    let row = lines.next().unwrap();
    assert!(row.contains("  no  ") && row.contains("·") && row.contains("lost"), "{row}");
    assert!(!page.contains("nothing"), "tables without rows are left out");
    let one = Options { rows: 1, ..wide };
    assert!(text(&profile, "text", &one).contains("\n  … 1 more\n"));
    let page = text(&profile, "markdown", &Options::default());
    assert!(
        page.contains("\n## warehouse: late\\_orders\n\nOrders that someone \\<b\\>ships"),
        "{page}"
    );
}

#[test]
fn programs_get_every_row() {
    let profile = profile();
    schema::check(&profile);
    let json: Value = serde_json::from_str(&text(&profile, "json", &Options::default())).unwrap();
    let [table] = &json["other_tables"].as_array().unwrap()[..] else { panic!("{json}") };
    assert_eq!((&table["profiler"], &table["name"]), (&json!("warehouse"), &json!("late_orders")));
    assert_eq!(table["columns"][0], json!({"name": "time", "summary": "When it came."}));
    let rows = table["rows"].as_array().unwrap();
    assert_eq!(
        rows[0].as_array().unwrap()[..7],
        json!([1_500_000_000_u64, 2_500_000, 12_345, 2048, 255, 7.25, true]).as_array().unwrap()[..]
    );
    assert_eq!(
        (&rows[0][12], &rows[1][8], &rows[1][12]),
        (&json!("waits"), &Value::Null, &json!("lost"))
    );
    assert_eq!(rows[0][13].as_array().unwrap().len(), 2);
    assert_eq!(rows[0][13][0], rows[0][11]);
    // It is not known which of them belong to a thread or a time.
    let filter = Filter { thread: Some("4714".into()), ..Filter::default() };
    let profile = profile.filtered(&filter).unwrap();
    let json: Value = serde_json::from_str(&text(&profile, "json", &Options::default())).unwrap();
    assert!(json.get("other_tables").is_none());
}

#[test]
fn the_page_has_a_tab_for_them() {
    let folder = tempfile::TempDir::new().unwrap();
    let page = folder.path().join("page.html");
    std::fs::write(&page, text(&profile(), "html", &Options::default())).unwrap();
    let shown = browser::shown(&page, folder.path(), "tables");
    for part in ["warehouse: late_orders", "&lt;b&gt;ships", "taken by", "2.50 ms", "Other tables"]
    {
        assert!(shown.contains(part), "`{part}` is missing in {shown}");
    }
}
