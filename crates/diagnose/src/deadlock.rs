//! `deadlock`: threads wait for each other's locks.

use crate::{Evidence, Finding, Limits, Rule, Severity, Threshold, Waiter, words};
use document::{Figure, Graph, GraphEdge, GraphNode, format::without_namespaces};
use profile::Profile;

pub const RULE: Rule = Rule {
    id: "deadlock",
    summary: "Threads wait for each other's locks, or for a lock whose owner has ended: none of \
        them can continue",
    needs: &["deadlocks"],
    thresholds: &[Threshold {
        name: "threads",
        help: "Threads that cannot continue, at least",
        default: 1.0,
    }],
    look,
};

fn look(seen: &Evidence<'_>, limits: &Limits) -> Vec<Finding> {
    let Some(locks) = seen.locks else { return Vec::new() };
    let rings = locks.cycles.iter().map(|threads| (threads, true));
    let orphans = locks.orphans.iter().map(|threads| (threads, false));
    let many =
        |threads: &[Waiter]| !threads.is_empty() && threads.len() as f64 >= limits.get("threads");
    rings
        .chain(orphans)
        .filter(|(threads, _)| many(threads))
        .map(|(threads, ring)| finding(seen.profile, threads, ring))
        .collect()
}

fn finding(profile: &Profile, threads: &[Waiter], ring: bool) -> Finding {
    let names: Vec<String> = threads.iter().map(name).collect();
    let mut evidence = Vec::new();
    for (index, thread) in threads.iter().enumerate() {
        let lock = thread.lock.as_deref().map_or_else(
            || "a lock".to_owned(),
            |lock| {
                format!(
                    "a \
            lock on {lock}"
                )
            },
        );
        let holder = match ring {
            true => names.get((index + 1) % names.len()).map_or_else(String::new, |next| {
                format!(
                    " \
                that {next} holds"
                )
            }),
            false => " that a thread holds which has ended".to_owned(),
        };
        let place = place(profile, thread.os_tid).map_or_else(String::new, |place| {
            format!(
                ", in \
            {place}"
            )
        });
        evidence.push(format!("{} waits for {lock}{holder}{place}", name(thread)));
    }
    let title = match (ring, threads.len()) {
        (true, many) => {
            format!("{many} threads wait for each other's locks and can never continue")
        }
        (false, 1) => "1 thread waits for a lock whose owner has ended".to_owned(),
        (false, many) => format!("{many} threads wait for a lock whose owner has ended"),
    };
    Finding {
        id: RULE.id,
        severity: Severity::Critical,
        confidence: 0.98,
        title,
        culprit: Some(names.join(", ")),
        evidence,
        figures: vec![Figure::graph("who waits for whom", graph(profile, threads, ring))],
        next: "take locks in one order everywhere, and release them with using or finally; more: \
            clrscope deadlocks <pid>"
            .to_owned(),
    }
}

/// Kinds of things in the graph.
const THREAD: u8 = 0;
const LOCK: u8 = 1;
const ENDED: u8 = 2;

/// Threads and the locks between them. In a ring the last one leads back to the first.
fn graph(profile: &Profile, threads: &[Waiter], ring: bool) -> Graph {
    let (mut nodes, mut edges) = (Vec::new(), Vec::new());
    for (index, thread) in threads.iter().enumerate() {
        let place =
            place(profile, thread.os_tid).map_or_else(String::new, |place| format!("in {place}"));
        nodes.push(GraphNode::new([name(thread)]).noted(place).of_kind(THREAD));
        let lock = thread.lock.as_deref().unwrap_or("a lock");
        nodes.push(GraphNode::new([lock.to_owned(), without_namespaces(lock)]).of_kind(LOCK));
        let (own, lock) = (2 * index as u32, 2 * index as u32 + 1);
        let owner = match ring {
            true => 2 * ((index + 1) % threads.len()) as u32,
            false => 2 * threads.len() as u32,
        };
        edges.push(GraphEdge { from: own, to: lock, label: "waits for".to_owned() });
        edges.push(GraphEdge { from: lock, to: owner, label: "held by".to_owned() });
    }
    if !ring {
        nodes.push(GraphNode::new(["a thread that has ended".to_owned()]).of_kind(ENDED));
    }
    Graph::new(nodes, edges)
}

fn name(thread: &Waiter) -> String {
    match &thread.name {
        Some(name) => format!("{name} ({})", thread.os_tid),
        None => format!("thread {}", thread.os_tid),
    }
}

/// Where a thread stands, where the recording has seen it.
fn place(profile: &Profile, os_tid: u32) -> Option<String> {
    let track = profile
        .threads
        .tracks
        .iter()
        .find(|(id, _)| profile.tables.thread(**id).os_tid == os_tid)?
        .1;
    Some(words::place(profile, &profile.tables.place(track.last.1.stack)))
}
