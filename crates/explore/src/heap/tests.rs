use super::*;
use crate::Column;
use ::heap::{MemoryBudget, Root, RootKind, SnapshotBuilder, SnapshotEnd};
use treemap::{Area, squarify};

const ORDERS: u64 = 500;

/// A static list with orders, each with a string; an array on a stack; and one that no root
/// reaches.
fn shop(extent: Extent) -> HeapView {
    let mut builder = SnapshotBuilder::new(MemoryBudget::default());
    for (class, name) in
        [(1, "List<Shop.Order>"), (2, "Shop.Order[]"), (3, "Shop.Order"), (4, "System.String")]
    {
        builder.class(class, name, "/app/shop.dll");
    }
    builder.class(5, "System.Byte[]", "");
    builder.object(0x1000, 1, 32);
    builder.reference(0x2000);
    builder.object(0x2000, 2, 24 + ORDERS * 8);
    (0..ORDERS).for_each(|order| builder.reference(0x10_0000 + order * 24));
    for order in 0..ORDERS {
        builder.object(0x10_0000 + order * 24, 3, 24);
        builder.reference(0x20_0000 + order * 40);
    }
    for order in 0..ORDERS {
        builder.object(0x20_0000 + order * 40, 4, 40);
    }
    builder.object(0x30_0000, 5, 100_000);
    builder.object(0x40_0000, 5, 1000);
    let root =
        |target, kind, id| Root { target, kind, pinned: false, weak: false, interior: false, id };
    builder.root_name(7, "Shop.Program.orders");
    builder.root(root(0x1000, RootKind::Statics, 7));
    builder.root(root(0x30_0000, RootKind::Stack, 0));
    HeapView::new(builder.finish(SnapshotEnd { complete: true, extent, ..SnapshotEnd::default() }))
}

/// What the list retains.
const LIST: u64 = 32 + 24 + ORDERS * (8 + 24 + 40);

#[test]
fn types_are_sorted_searched_and_paged() {
    let heap = shop(Extent::All);
    let described = heap.describe();
    assert_eq!((described.objects, described.types), (4 + 2 * ORDERS, 5));
    assert_eq!(described.reached_bytes, LIST + 100_000);
    let types = |sort, search: &str, first, rows| {
        let search = Pattern::parse(search).unwrap();
        heap.types(search.as_ref(), sort, first, rows)
    };
    let names = |types: &HeapTypes| -> Vec<String> {
        types.rows.iter().map(|row| row.name.clone()).collect()
    };
    let all = types(TypeSort::Bytes, "", 0, 100);
    assert_eq!(all.count, 5);
    assert_eq!(names(&all)[..2], ["System.Byte[]", "System.String"]);
    assert_eq!(names(&types(TypeSort::Retained, "", 1, 2)), ["List<Shop.Order>", "Shop.Order[]"]);
    let orders = types(TypeSort::Objects, "/^shop\\.order$/", 0, 10);
    let row = &orders.rows[0];
    assert_eq!((orders.count, row.objects, row.bytes), (1, ORDERS, ORDERS * 24));
    assert_eq!(
        (row.retained, row.short.as_str(), row.module.as_str()),
        (ORDERS * 64, "Order", "shop.dll")
    );
}

#[test]
fn what_an_object_keeps_alive_is_listed_and_small_objects_by_type() {
    let heap = shop(Extent::All);
    let roots = heap.dominated(None, 0, 10).unwrap();
    let rows: Vec<_> =
        roots.rows.iter().map(|row| (row.short.as_str(), row.by.as_str(), row.retained)).collect();
    assert_eq!(
        rows,
        [("Byte[]", "stack", 100_000), ("List<Order>", "static Shop.Program.orders", LIST)]
    );
    let array = heap.dominated(Some(roots.rows[1].node), 0, 10).unwrap();
    assert_eq!((array.count, array.rows[0].children as u64), (1, ORDERS));
    // Each order retains one part in 500 or so: together they are one row.
    let orders = heap.dominated(Some(array.rows[0].node), 0, 10).unwrap();
    let row = &orders.rows[0];
    assert_eq!((orders.count, row.objects, row.retained), (1, ORDERS, ORDERS * 64));
    assert_eq!((row.children, row.by.as_str()), (0, "[]"));
    assert!(heap.dominated(Some(1_000_000), 0, 10).is_err());
}

#[test]
fn a_treemap_is_as_large_as_what_is_retained() {
    let heap = shop(Extent::All);
    for (root, total) in [(None, LIST + 100_000), (Some(0), LIST)] {
        let map = heap.treemap(root, 800.0, 500.0).unwrap();
        assert_eq!(map.head()["total"], total);
        let f32s = |name: &str| match map.column(name) {
            Some(Column::F32(values)) => values.clone(),
            other => panic!("{other:?}"),
        };
        let u32s = |name: &str| match map.column(name) {
            Some(Column::U32(values)) => values.clone(),
            other => panic!("{other:?}"),
        };
        let (x, y, width, height) = (f32s("x"), f32s("y"), f32s("width"), f32s("height"));
        let (up, depth) = (u32s("up"), u32s("depth"));
        let Some(Column::F64(retained)) = map.column("retained") else { panic!() };
        assert!(x.len() > 1);
        let mut area = 0.0;
        for cell in 0..x.len() {
            // Cells are within the one that they are in.
            let (left, top, right, bottom) = match up[cell] {
                0 => (0.0, 0.0, 800.0, 500.0),
                up => {
                    let above = cell - up as usize;
                    assert_eq!(depth[cell], depth[above] + 1);
                    assert!(retained[cell] <= retained[above]);
                    (x[above], y[above], x[above] + width[above], y[above] + height[above])
                }
            };
            let inside = x[cell] >= left - 0.1
                && y[cell] >= top - 0.1
                && x[cell] + width[cell] <= right + 0.1
                && y[cell] + height[cell] <= bottom + 0.1;
            assert!(inside, "{cell} of {}", x.len());
            if up[cell] == 0 {
                let expected = retained[cell] / total as f64 * 400_000.0;
                assert!((f64::from(width[cell] * height[cell]) - expected).abs() < expected * 0.01);
                area += f64::from(width[cell] * height[cell]);
            }
        }
        assert!(area <= 400_001.0);
    }
    // The path to the array in the list.
    let map = heap.treemap(Some(1), 300.0, 200.0).unwrap();
    assert_eq!(map.head()["path"][0]["short"], "List<Order>");
    assert_eq!(map.head()["path"][1]["short"], "Order[]");
    assert!(heap.treemap(Some(u32::MAX - 1), 1.0, 1.0).is_err());
}

#[test]
fn areas_fill_their_place_without_overlaps() {
    let area = Area { x: 5.0, y: 7.0, width: 120.0, height: 50.0 };
    let sizes: Vec<f64> = (1..=20).rev().map(|size| f64::from(size) * 6000.0 / 210.0).collect();
    let areas = squarify(&sizes, area);
    for (at, (own, size)) in areas.iter().zip(&sizes).enumerate() {
        assert!((own.width * own.height - size).abs() < 1e-6 * size);
        assert!(own.x >= 5.0 - 1e-6 && own.x + own.width <= 125.0 + 1e-6);
        assert!(own.y >= 7.0 - 1e-6 && own.y + own.height <= 57.0 + 1e-6);
        assert!(own.width.max(own.height) / own.width.min(own.height) < 4.0, "{own:?}");
        for other in &areas[at + 1..] {
            let apart = own.x + own.width <= other.x + 1e-6
                || other.x + other.width <= own.x + 1e-6
                || own.y + own.height <= other.y + 1e-6
                || other.y + other.height <= own.y + 1e-6;
            assert!(apart, "{own:?} {other:?}");
        }
    }
    assert_eq!(squarify(&[], area), []);
    assert!(squarify(&[1.0, 1.0], Area { width: 0.0, ..area }).len() == 2);
}

#[test]
fn paths_lead_from_roots_with_fields() {
    let heap = shop(Extent::All);
    let id = heap.types(None, TypeSort::Objects, 0, 1).rows[0].id;
    let paths = heap.paths_of_type(id).unwrap();
    assert_eq!((paths.examined, paths.unreached, paths.ways), (ORDERS, 0, 1));
    let names: Vec<&str> =
        paths.graph.nodes().iter().map(|node| node.forms.last().unwrap().as_str()).collect();
    let last = names.last().copied().unwrap();
    assert_eq!(names[..3], ["static Shop.Program.orders", "List<Order>", "Order[]"]);
    assert!(last == "Order" || last == "String");
    assert!(paths.graph.edges().iter().any(|edge| edge.label == format!("[] × {ORDERS}")));
    // The last object is the array that no root reaches.
    let lost = heap.paths_of_object(heap.snapshot.len() as u32 - 1).unwrap();
    assert_eq!((lost.unreached, lost.graph.nodes().len()), (1, 0));
    assert_eq!(heap.paths_of_object(0).unwrap().graph.nodes().len(), 2);
    assert!(heap.paths_of_type(99).is_err());
}

#[test]
fn a_partial_snapshot_has_types_only() {
    let heap = shop(Extent::Histogram);
    assert!(!heap.describe().retention);
    assert_eq!(heap.types(None, TypeSort::Bytes, 0, 1).rows[0].retained, 0);
    assert_eq!(heap.dominated(None, 0, 1).unwrap_err(), ExploreError::NoReferences);
    assert!(heap.treemap(None, 10.0, 10.0).is_err() && heap.paths_of_type(0).is_err());
}
