use super::*;
use profile::{
    CallTree, Profile, ProfileBuilder, TreeOptions,
    session::{
        Entry, FrameDef, FrameId, FrameTrust, FunctionDef, FunctionId, FunctionKind, SampleBatch,
        SessionInfo, SessionRecord, StackDef, StackId, ThreadDef, ThreadId, ThreadState,
    },
};
use proptest::prelude::*;

/// A tree of stacks, each with its parent before it, its function and its own weight.
fn tree(stacks: &[(Option<u32>, u32, u64)], functions: u32) -> Tree {
    let mut builder = ProfileBuilder::new(profile::BuildOptions::default());
    let mut add = |record: SessionRecord| builder.add(&record).unwrap();
    add(SessionRecord::Info(SessionInfo {
        tool_version: "0".into(),
        pid: 1,
        process_name: "x".into(),
        command_line: "x".into(),
        runtime: "9".into(),
        platform: "linux-x64".into(),
        entry: Entry::Attached,
        start_unix_ms: 0,
        start: 0,
        cpus: 1,
        profilers: vec![],
    }));
    add(SessionRecord::Thread(ThreadDef {
        id: ThreadId(0),
        os_tid: 1,
        name: None,
        managed: true,
        started: None,
        ended: None,
    }));
    for id in 0..functions {
        add(SessionRecord::Function(FunctionDef {
            id: FunctionId(id),
            kind: FunctionKind::Native,
            module: None,
            type_name: String::new(),
            name: format!("f{id}"),
            parameters: String::new(),
            state_machine: None,
        }));
        add(SessionRecord::Frame(FrameDef {
            id: FrameId(id),
            function: FunctionId(id),
            line: None,
            trust: FrameTrust::Tables,
        }));
    }
    let mut batch = SampleBatch::default();
    for (id, (parent, function, weight)) in stacks.iter().enumerate() {
        let id = StackId(id as u32);
        let (parent, frame) = (parent.map(StackId), FrameId(*function));
        add(SessionRecord::Stack(StackDef { id, parent, frame }));
        if *weight > 0 {
            batch.time_delta.push(1);
            batch.thread.push(ThreadId(0));
            batch.stack.push(id);
            batch.weight.push(*weight);
            batch.state.push(ThreadState::Running);
            batch.truncated.push(false);
        }
    }
    add(SessionRecord::CpuSamples(batch));
    let profile: Profile = builder.finish(false).unwrap();
    Tree::new(CallTree::new(&profile.tables, &profile.cpu, TreeOptions::default()))
}

/// Where each node is: row, left and width in weights. Recursive, as anybody would write it.
fn naive(
    tree: &Tree,
    node: Option<usize>,
    row: u32,
    left: u64,
    all: &mut Vec<(u32, Option<usize>, u64, u64)>,
) {
    let weight = tree.total(node).weight;
    all.push((row, node, left, weight));
    let mut at = left;
    for child in tree.children(node) {
        let child = Some(*child as usize);
        naive(tree, child, row + 1, at, all);
        at += tree.total(child).weight;
    }
}

fn view(width: f64, top: u32, rows: u32) -> View {
    View { root: None, width, top, rows }
}

fn all_rows(tree: &Tree, width: f64) -> Boxes {
    lay_out(tree, view(width, 0, u32::MAX), None, false)
}

/// Rows of boxes as tuples, to compare them.
fn rows_of(boxes: &Boxes) -> Vec<(u32, u32, f32, f32, u32, u32)> {
    (0..boxes.len())
        .map(|at| {
            let (row, rows) = (boxes.row[at], boxes.rows[at]);
            (row, rows, boxes.left[at], boxes.width[at], boxes.node[at], boxes.merged[at])
        })
        .collect()
}

fn stacks() -> impl Strategy<Value = Vec<(Option<u32>, u32, u64)>> {
    let stack = (any::<proptest::sample::Index>(), 0..12_u32, 0..400_u64, 0..4_u8);
    proptest::collection::vec(stack, 1..160).prop_map(|stacks| {
        let stacks = stacks.into_iter().enumerate();
        stacks
            .map(|(id, (parent, function, weight, root))| {
                let parent = (id > 0 && root > 0).then(|| parent.index(id) as u32);
                (parent, function, weight * u64::from(function % 3))
            })
            .collect()
    })
}

proptest! {
    #[test]
    fn boxes_are_where_a_naive_layout_has_them(stacks in stacks(), width in 1.0..900.0_f64) {
        let tree = tree(&stacks, 12);
        let mut expected = Vec::new();
        naive(&tree, None, 0, 0, &mut expected);
        let boxes = all_rows(&tree, width);
        let scale = width / tree.total(None).weight.max(1) as f64;
        let close = |a: f32, b: f64| (f64::from(a) - b).abs() < 0.01;
        // Every node that is wide enough is a box of its own, where it should be.
        for (row, node, left, weight) in &expected {
            let of = node.map_or(NONE, |node| node as u32);
            let at = (0..boxes.len()).find(|at| boxes.node[*at] == of && boxes.merged[*at] == 0);
            if *weight as f64 * scale >= NARROW {
                let at = at.expect("a wide node has a box");
                prop_assert_eq!(boxes.row[at], *row);
                prop_assert!(close(boxes.left[at], *left as f64 * scale));
                prop_assert!(close(boxes.width[at], *weight as f64 * scale));
            } else if node.is_some() {
                prop_assert!(at.is_none());
            }
        }
        // Nothing is lost: in each row the boxes have the weight of all nodes, unless a line above
        // stands for some of them.
        let deepest = expected.iter().map(|(row, ..)| *row).max().unwrap();
        for row in 0..=deepest {
            let sum = |of: u32| -> f64 {
                (0..boxes.len()).filter(|at| boxes.row[*at] == of).map(|at| boxes.total[at]).sum()
            };
            let nodes: u64 =
                expected.iter().filter(|(at, ..)| *at == row).map(|(.., weight)| weight).sum();
            let lines: f64 = (0..boxes.len())
                .filter(|at| boxes.row[*at] < row && boxes.row[*at] + boxes.rows[*at] > row)
                .map(|at| boxes.total[at])
                .sum();
            prop_assert!(sum(row) <= nodes as f64 + 0.5);
            prop_assert!(sum(row) + lines >= nodes as f64 - 0.5);
            // No two boxes of a row overlap.
            let mut spans: Vec<(f32, f32)> = (0..boxes.len())
                .filter(|at| boxes.row[*at] == row)
                .map(|at| (boxes.left[at], boxes.left[at] + boxes.width[at]))
                .collect();
            spans.sort_by(|a, b| a.0.total_cmp(&b.0));
            prop_assert!(spans.windows(2).all(|pair| pair[0].1 <= pair[1].0 + 0.01));
            prop_assert!(spans.last().is_none_or(|span| f64::from(span.1) <= width + 0.01));
            // Single boxes, a merged one behind each of the row above, and one below each merged.
            prop_assert!(spans.len() as f64 <= 1.0 + width / NARROW + width / HAIR + width / NARROW);
        }
    }

    #[test]
    fn a_part_of_the_rows_has_the_same_boxes(stacks in stacks(), top in 0..20_u32, rows in 1..20_u32) {
        let tree = tree(&stacks, 12);
        let whole = all_rows(&tree, 300.0);
        let part = lay_out(&tree, view(300.0, top, rows), None, false);
        let expected: Vec<_> = rows_of(&whole)
            .into_iter()
            .filter(|(row, down, ..)| *row < top + rows && row + down > top)
            .collect();
        prop_assert_eq!(rows_of(&part), expected);
    }

    #[test]
    fn a_search_finds_what_is_there(stacks in stacks(), wanted in 0..12_usize) {
        let tree = tree(&stacks, 12);
        let functions: Vec<bool> = (0..12).map(|function| function == wanted).collect();
        let hits = tree.find(&functions);
        let nodes = tree.calls().nodes();
        // The weight of all stacks that have it, counted one by one.
        let mut expected = 0;
        for node in 0..nodes.len() {
            let path = tree.path(node);
            let is_on = |node: &usize| nodes[*node].function.index() == wanted;
            if path.iter().any(is_on) {
                expected += nodes[node].own.weight;
            }
            prop_assert_eq!(hits[node] == Hit::Here, is_on(&node));
        }
        prop_assert_eq!(tree.found_weight(None, &hits), expected);
        let boxes = lay_out(&tree, view(200.0, 0, u32::MAX), Some(&hits), false);
        for at in 0..boxes.len() {
            if boxes.node[at] != NONE && boxes.merged[at] == 0 {
                prop_assert_eq!(boxes.hit[at], hits[boxes.node[at] as usize] as u8);
            }
        }
    }

    #[test]
    fn sums_of_functions_count_a_stack_once(stacks in stacks(), wanted in 0..12_u32) {
        let tree = tree(&stacks, 12);
        let nodes = tree.calls().nodes();
        let function = |node: &usize| nodes[*node].function;
        let mut own = [0; 12];
        let mut total = [0; 12];
        let (mut callers, mut callees) = ([0; 13], [0; 12]);
        for node in 0..nodes.len() {
            let (path, weight) = (tree.path(node), nodes[node].own.weight);
            own[function(&node).index()] += weight;
            for (id, total) in total.iter_mut().enumerate() {
                *total += u64::from(path.iter().any(|at| function(at).index() == id)) * weight;
            }
            let mut pairs: Vec<(Option<FunctionId>, FunctionId)> = path
                .iter()
                .enumerate()
                .map(|(at, node)| (at.checked_sub(1).map(|at| function(&path[at])), function(node)))
                .collect();
            pairs.sort();
            pairs.dedup();
            for (caller, callee) in pairs {
                if callee.0 == wanted {
                    callers[caller.map_or(12, FunctionId::index)] += weight;
                }
                if caller == Some(FunctionId(wanted)) {
                    callees[callee.index()] += weight;
                }
            }
        }
        for row in crate::functions(&tree, 12) {
            prop_assert_eq!(row.own.weight, own[row.function.index()]);
            prop_assert_eq!(row.total.weight, total[row.function.index()]);
        }
        let found = crate::neighbors(&tree, FunctionId(wanted), 12);
        prop_assert_eq!(found.own.weight, own[wanted as usize]);
        prop_assert_eq!(found.total.weight, total[wanted as usize]);
        prop_assert_eq!(
            found.callers.iter().map(|(_, sum)| sum.weight).sum::<u64>(),
            callers.iter().sum::<u64>()
        );
        for (caller, sum) in &found.callers {
            prop_assert_eq!(sum.weight, callers[caller.map_or(12, FunctionId::index)]);
        }
        for (callee, sum) in &found.callees {
            prop_assert_eq!(sum.weight, callees[callee.index()]);
        }
    }
}

#[test]
fn a_stack_of_50_000_frames_is_laid_out_in_parts() {
    let stacks: Vec<_> = (0..50_000_u32)
        .map(|id| (id.checked_sub(1), id % 10, u64::from(id == 49_999) * 1000))
        .collect();
    let tree = tree(&stacks, 10);
    assert_eq!(tree.height(None), 50_001);
    let boxes = lay_out(&tree, view(1000.0, 49_000, 40), None, false);
    assert_eq!(boxes.len(), 40);
    assert!(boxes.row.iter().zip(49_000..).all(|(row, expected)| *row == expected));
    assert!(boxes.width.iter().all(|width| *width == 1000.0));
    assert_eq!(tree.path(49_999).len(), 50_000);
    let hits = tree.find(&[true, false, false, false, false, false, false, false, false, false]);
    assert_eq!(tree.found_weight(Some(49_995), &hits), 1000);
}

#[test]
fn what_is_narrow_is_merged_and_drawn() {
    // Thousand light calls beside a heavy one, each with a call below.
    let mut stacks = vec![(None, 0, 0), (Some(0), 1, 1000)];
    for light in 0..1000_u32 {
        stacks.push((Some(0), 2 + light, 0));
        stacks.push((Some(2 + 2 * light), 1, 1));
    }
    let tree = tree(&stacks, 1002);
    let boxes = all_rows(&tree, 10.0);
    assert_eq!(boxes.row, [0, 1, 2, 2, 3]);
    assert_eq!(boxes.merged, [0, 0, 0, 1000, 1000]);
    assert_eq!(boxes.width, [10.0, 10.0, 5.0, 5.0, 5.0]);
    assert_eq!(boxes.left, [0.0, 0.0, 0.0, 5.0, 5.0]);
    // Where all is narrower than a pixel, a line remains of it.
    let boxes = lay_out(&tree, view(0.8, 2, 10), None, false);
    assert_eq!((boxes.row, boxes.merged), (vec![2, 3], vec![1001, 1000]));
    let boxes = lay_out(&tree, view(0.1, 1, 10), None, false);
    assert_eq!((boxes.row, boxes.rows), (vec![1], vec![3]));
}
