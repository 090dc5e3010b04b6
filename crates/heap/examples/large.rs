//! Builds a snapshot of made-up objects and analyses it: how long that takes, and how much memory.
//!
//!     cargo run --release -p heap --example large [OBJECTS]
//!
//! Without a number it is 20 million objects with 2.6 references each, in about 2 GB of heap: lists
//! of lists, trees, linked lists of a million links, tables that many objects share, and references
//! all over the heap.

use std::time::Instant;

use heap::{
    Dominators, Generation, Histogram, MemoryBudget, Paths, Root, RootKind, SnapshotBuilder,
    SnapshotEnd,
};

/// Numbers that look like chance and are the same each time (xorshift).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

fn main() {
    let objects: u64 = std::env::args()
        .nth(1)
        .map_or(20_000_000, |text| text.parse().expect("a number of objects"));
    let start = Instant::now();
    let mut clock = Instant::now();
    let mut lap = |what: &str| {
        println!(
            "{:>7.2} s  {what:<34} peak {} MB",
            clock.elapsed().as_secs_f64(),
            peak_megabytes()
        );
        clock = Instant::now();
    };

    // An object takes 104 bytes on average, so addresses can be computed without a table.
    let address = |node: u64| 0x7f00_0000_0000 + node * 104;
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let mut builder = SnapshotBuilder::new(MemoryBudget::default());
    for class in 0..5000 {
        builder.class(class, &format!("Company.Product.Type{class}"), "Product.dll");
    }
    for node in 0..objects {
        // A few types have most objects.
        let class = numbers.below(71).pow(2).min(4999);
        builder.object(address(node), class, 24 + numbers.below(20) * 8);
        let near = |numbers: &mut Numbers| (node + 1 + numbers.below(64)).min(objects - 1);
        match node % 20 {
            // A node of a tree.
            0..8 => {
                builder.reference(address((node * 2 + 1) % objects));
                builder.reference(address((node * 2 + 2) % objects));
            }
            // A link of a list, both ways.
            8..12 => {
                builder.reference(address(node.saturating_sub(20)));
                builder.reference(address((node + 20).min(objects - 1)));
                builder.reference(address(near(&mut numbers)));
            }
            // Fields, and something that many share.
            12..19 => {
                builder.reference(address(near(&mut numbers)));
                builder.reference(address(near(&mut numbers)));
                builder.reference(address(numbers.below(1000)));
            }
            // Anything.
            _ => (0..3).for_each(|_| builder.reference(address(numbers.below(objects)))),
        }
    }
    for _ in 0..10_000 {
        let root = |target, kind| Root {
            target,
            kind,
            pinned: false,
            weak: false,
            interior: false,
            id: 0,
        };
        let kind = RootKind::ALL[numbers.below(5) as usize];
        builder.root(root(address(numbers.below(objects)), kind));
    }
    builder.generation(Generation {
        generation: 2,
        start: 0x7f00_0000_0000,
        length: objects * 100,
    });
    lap("objects and references taken");
    let snapshot = builder.finish(SnapshotEnd { complete: true, ..SnapshotEnd::default() });
    lap("snapshot made");
    let histogram = Histogram::of(&snapshot);
    lap("histogram");
    // Side by side, as a report does it.
    let (reached, paths) = std::thread::scope(|scope| {
        let paths = scope.spawn(|| Paths::of(&snapshot, |_| true));
        let dominators = Dominators::of(&snapshot);
        (dominators.reached(), paths.join())
    });
    let Ok(paths) = paths else { return println!("no paths") };
    lap("dominators, retained sizes, shortest paths");
    let type_id = histogram.by_bytes().first().map_or(0, |row| row.type_id);
    let kinds = paths.holdings(type_id).kinds.len();
    lap("who holds the largest type");
    println!(
        "{} objects ({reached} reached), {} references, {} MB of heap; {kinds} kinds of path; \
            complete: {}",
        snapshot.len(),
        snapshot.reference_count(),
        histogram.total.bytes >> 20,
        snapshot.end().complete
    );
    println!("{:.1} s, peak {} MB", start.elapsed().as_secs_f64(), peak_megabytes());
}

/// Most memory that this process has held so far, where the system tells it.
fn peak_megabytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) / 1024
}
