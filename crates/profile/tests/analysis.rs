//! What a profile says of a recording whose truth is known.

mod shop;

use profile::{
    BuildOptions, CallTree, Filter, FilterError, NameStyle, Profile, ProfileBuilder, ProfileError,
    SeriesKind, TreeOptions, session::*,
};
use shop::{START, file, records};

fn profile() -> Profile {
    shop::profile()
}

fn sums_only() -> Profile {
    Profile::read(&file()[..], BuildOptions::default()).unwrap()
}

/// Own and total share of a function, in percent, by the beginning of its short name.
fn shares(profile: &Profile, kind: SeriesKind, name: &str) -> (f64, f64) {
    let functions = profile.top_functions(kind);
    let row = functions
        .iter()
        .find(|row| profile.tables.function_name(row.function, NameStyle::SHORT).starts_with(name))
        .unwrap_or_else(|| panic!("{name} is missing"));
    let percent = |share: f64| (share * 1e6).round() / 1e4;
    (percent(row.own_share.share), percent(row.total_share.share))
}

#[test]
fn shares_are_those_that_were_recorded() {
    for profile in [profile(), sums_only()] {
        assert_eq!(profile.cpu.totals.samples, 1000);
        assert_eq!(profile.cpu.totals.weight, 10_000_000_000);
        assert_eq!(profile.cpu.truncated, 20);
        assert_eq!(profile.duration(), 10_000_000_000);
        // Two lines of one function are one function; what it calls counts in its total.
        assert_eq!(shares(&profile, SeriesKind::Cpu, "PriceList.Price"), (42.0, 80.0));
        assert_eq!(shares(&profile, SeriesKind::Cpu, "Discounts.Best"), (12.0, 21.0));
        // Three frames of a recursion on a stack count once.
        assert_eq!(shares(&profile, SeriesKind::Cpu, "Discounts.Search"), (9.0, 9.0));
        assert_eq!(
            shares(&profile, SeriesKind::Cpu, "WorkerThread.WorkerThreadStart"),
            (0.0, 92.0)
        );
        // 8 of 808 that the samples stand for.
        assert_eq!(shares(&profile, SeriesKind::Exceptions, "Stock.Take"), (0.9901, 0.9901));
        let price = &profile.top_functions(SeriesKind::Cpu)[0];
        assert_eq!((price.own.samples, price.total.samples), (420, 800));
        assert!(price.own_share.low < 0.42 && price.own_share.high > 0.42);
        assert!(
            (price.own_share.margin() - 0.031).abs() < 0.001,
            "1.96 standard errors of 1000 samples"
        );
    }
}

#[test]
fn samples_of_one_state_have_shares_of_their_own() {
    let profile = sums_only();
    let by_state = profile.wall.by_state();
    for state in profile::STATES {
        let series = profile.wall.in_state(state);
        let all = by_state[profile::state_index(state)];
        assert_eq!((series.totals, series.is_empty()), (all, all.samples == 0), "{state:?}");
        let functions = profile.top_functions_of(&series);
        let own: f64 = functions.iter().map(|row| row.own_share.share).sum();
        assert!(series.is_empty() || (own - 1.0).abs() < 1e-9, "{state:?}: {own}");
        assert!(functions.iter().all(|row| row.own_share == series.share(row.own.weight)));
    }
}

#[test]
fn threads_and_states_add_up() {
    let profile = sums_only();
    let threads = profile.cpu.by_thread(profile.tables.threads.len());
    let samples: Vec<u64> = threads.iter().map(|totals| totals.samples).collect();
    assert_eq!(samples, [0, 465, 465, 0, 70]);
    let states = profile.wall.by_thread_and_state(profile.tables.threads.len());
    let of =
        |thread: usize, state: ThreadState| states[thread][profile::state_index(state)].samples;
    assert_eq!(of(0, ThreadState::Sleep), 200);
    assert_eq!(
        (of(1, ThreadState::Running), of(1, ThreadState::Lock), of(1, ThreadState::Idle)),
        (100, 60, 40)
    );
    assert_eq!((of(3, ThreadState::Sleep), of(3, ThreadState::Gc)), (190, 7));
    assert_eq!(profile.wall.by_state().iter().map(|totals| totals.samples).sum::<u64>(), 997);
    let timeline: u64 = profile.wall.timeline.buckets().iter().flatten().sum();
    assert_eq!(timeline, profile.wall.totals.weight);
}

#[test]
fn trees_keep_all_weight() {
    let profile = sums_only();
    let name = |function| profile.tables.function_name(function, NameStyle::SHORT);
    for (lines, merge_recursion, inverted) in [
        (false, false, false),
        (true, false, false),
        (false, true, false),
        (false, false, true),
        (true, true, true),
    ] {
        let tree = CallTree::new(
            &profile.tables,
            &profile.cpu,
            TreeOptions { lines, merge_recursion, inverted, enough: None },
        );
        let own: u64 = tree.nodes().iter().map(|node| node.own.weight).sum();
        let roots: u64 =
            tree.children(None).iter().map(|root| tree.nodes()[*root].total.weight).sum();
        assert_eq!(
            (own, roots),
            (tree.total().weight, tree.total().weight),
            "{lines} {merge_recursion} {inverted}"
        );
        let mut visited = 0;
        let mut depth = 0_i64;
        tree.visit(|node, entering| {
            if entering {
                assert_eq!(i64::from(node.depth), depth);
            }
            depth += if entering { 1 } else { -1 };
            visited += usize::from(entering);
        });
        assert_eq!((visited, depth), (tree.nodes().len(), 0));
        let search =
            tree.nodes().iter().filter(|node| name(node.function) == "Discounts.Search").count();
        assert_eq!(search, if merge_recursion { 1 } else { 3 });
        let price =
            tree.nodes().iter().filter(|node| name(node.function) == "PriceList.Price").count();
        if !inverted {
            assert_eq!(price, if lines { 2 } else { 1 });
            let root = tree.children(None)[0];
            assert_eq!(name(tree.nodes()[root].function), "WorkerThread.WorkerThreadStart");
            assert_eq!(tree.nodes()[root].total.samples, 920);
        } else {
            let root = tree.nodes()[tree.children(None)[0]];
            assert_eq!(name(root.function), "PriceList.Price");
            assert_eq!(root.total.samples, if lines { 340 } else { 420 });
        }
    }
    // Without lines a node shows the line that weighs most.
    let tree = CallTree::new(&profile.tables, &profile.cpu, TreeOptions::default());
    let price = tree.nodes().iter().find(|node| name(node.function) == "PriceList.Price").unwrap();
    assert_eq!(price.line.unwrap().line, 87);
}

#[test]
fn filters_pick_by_thread_state_text_and_time() {
    let profile = profile();
    let only = |filter: Filter| profile.filtered(&filter).unwrap();
    let some = |text: &str| Some(text.to_owned());
    let worker = only(Filter { thread: some("tp worker"), ..Filter::default() });
    assert_eq!((worker.cpu.totals.samples, worker.exceptions.samples.len()), (930, 40));
    assert!(!worker.exceptions.exact(), "exact numbers are those of all threads");
    assert!(worker.filtered.as_deref().unwrap().contains("tp worker"));
    assert_eq!(only(Filter { thread: some("4715"), ..Filter::default() }).cpu.totals.samples, 70);
    let locked = only(Filter { states: Some(vec![ThreadState::Lock]), ..Filter::default() });
    assert_eq!((locked.wall.totals.samples, locked.cpu.totals.samples), (60, 0));
    let price = only(Filter { text: some("pricelist.PRICE("), ..Filter::default() });
    assert_eq!(price.cpu.totals.samples, 800);
    let second = only(Filter { time: Some(2_000_000_000..3_000_000_000), ..Filter::default() });
    assert_eq!((second.cpu.totals.samples, second.duration()), (100, 1_000_000_000));
    assert_eq!(second.pauses.len(), 3);
    assert_eq!(second.cpu.timeline.start(), START + 2_000_000_000);
    assert_eq!(only(Filter { thread: some("nobody"), ..Filter::default() }).cpu.totals.samples, 0);

    // Sums alone know no times, unless the time is picked while reading.
    let filter = Filter { time: Some(0..1), ..Filter::default() };
    assert_eq!(sums_only().filtered(&filter).unwrap_err(), FilterError::NeedsSamples);
    let options =
        BuildOptions { time: Some(2_000_000_000..3_000_000_000), ..BuildOptions::default() };
    let read = Profile::read(&file()[..], options).unwrap();
    assert_eq!(
        (read.cpu.totals.samples, read.pauses.len(), read.duration()),
        (100, 3, 1_000_000_000)
    );
    assert_eq!(read.cpu.cells, second.cpu.cells);
    // A filter of sums gives the same sums as one of single samples.
    let filter = Filter { text: some("Discounts"), ..Filter::default() };
    assert_eq!(
        sums_only().filtered(&filter).unwrap().cpu.cells,
        profile.filtered(&filter).unwrap().cpu.cells
    );
}

#[test]
fn exceptions_are_counted_exactly_and_described_from_samples() {
    let profile = sums_only();
    let rows = profile.exception_rows();
    let counts: Vec<u64> = rows.iter().map(|row| row.count).collect();
    assert_eq!((counts, profile.exceptions.total()), (vec![812, 7, 1], 820));
    let first = &rows[0];
    assert_eq!(profile.tables.ty(first.ty).name, "System.InvalidOperationException");
    assert_eq!(first.message.as_deref(), Some("Sequence contains no elements"));
    assert_eq!((first.messages, first.samples), (2, 32));
    assert!((first.per_second - 81.2).abs() < 0.01);
    let (thrower, line) = first.thrown_at.unwrap();
    assert_eq!(profile.tables.function_name(thrower, NameStyle::SHORT), "PriceList.Price");
    assert_eq!(line.unwrap().line, 87);
    let catcher = profile.tables.function_name(first.caught_by.unwrap(), NameStyle::SHORT);
    assert_eq!(catcher, "HttpProtocol.ProcessRequestsAsync<TContext>");
    assert_eq!((first.time_to_catch.count, first.time_to_catch.max), (32, 58_000));
    assert_eq!(rows[2].caught_by, None);
}

#[test]
fn pauses_are_measured_from_the_first_stop_to_the_last_start() {
    let profile = sums_only();
    let gc = profile.gc_summary();
    assert_eq!((gc.collections, gc.background, gc.induced), ([24, 4, 2], 1, 1));
    // The pause for a profiler is no pause of the program, and is reported separately.
    assert_eq!(
        (profile.pauses.len(), gc.pauses.count, gc.pauses_by_generation[2].count),
        (31, 30, 2)
    );
    let for_profiler =
        gc.pause_reasons.iter().find(|(reason, _)| reason == profile::PROFILER_PAUSE).unwrap();
    assert_eq!((for_profiler.1.count, for_profiler.1.total), (1, 710_000));
    let longest = 12_000_000 + 29 * 10_000 + 60_000 + 15_000;
    assert_eq!(gc.pauses.max, longest);
    assert_eq!(gc.suspending.max, 50_000);
    assert!((gc.share - gc.pauses.total as f64 / 1e10).abs() < 1e-12);
    assert_eq!(gc.reasons, [("AllocSmall".to_owned(), 29), ("Induced".to_owned(), 1)]);
    assert_eq!(gc.pause_reasons[0].0, "SuspendForGC");
    assert_eq!(gc.heap_last[2], 24_000_000 + 14 * 700_000);
    assert_eq!(gc.promoted[1], 900_000);
    assert_eq!(profile.dropped(), 12);
}

#[test]
fn a_live_view_shows_what_came_since() {
    let mut builder = ProfileBuilder::new(BuildOptions::default());
    assert!(builder.snapshot().is_none());
    let records = records();
    let samples =
        records.iter().position(|record| matches!(record, SessionRecord::CpuSamples(_))).unwrap();
    records[..=samples].iter().for_each(|record| builder.add(record).unwrap());
    let first = builder.snapshot().unwrap();
    assert_eq!(
        (first.cpu.totals.samples, first.cut_short, first.end.is_none()),
        (1000, false, true)
    );
    builder.clear();
    let empty = builder.snapshot().unwrap();
    assert_eq!(
        (empty.cpu.totals.samples, empty.tables.functions.len()),
        (0, first.tables.functions.len())
    );
    records[samples + 1..].iter().for_each(|record| builder.add(record).unwrap());
    let second = builder.snapshot().unwrap();
    assert_eq!((second.cpu.totals.samples, second.wall.totals.samples), (0, 997));
    assert_eq!(first.cpu.totals.samples, 1000, "a snapshot stays what it was");
    // What does not fit is refused and does no harm.
    assert_eq!(builder.add(&records[1]), Err(ModelError::AfterEnd));
    assert_eq!(builder.finish(false).unwrap().wall.totals.samples, 997);
}

#[test]
fn damaged_and_cut_sessions_give_what_came_before() {
    let whole = file();
    let all = Profile::read(&whole[..], BuildOptions::default()).unwrap();
    assert!(!all.cut_short && all.damage.is_none());
    let mut writer = SessionWriter::new(Vec::new(), "0.1.0").unwrap();
    for record in records() {
        writer.write(&record).unwrap();
        writer.flush().unwrap();
    }
    let bytes = writer.finish().unwrap();
    let cut = Profile::read(&bytes[..bytes.len() - 3], BuildOptions::default()).unwrap();
    assert!(cut.cut_short && cut.damage.is_none());
    assert_eq!(cut.cpu.totals, all.cpu.totals);
    let mut damaged = bytes.clone();
    let middle = bytes.len() - 40;
    damaged[middle] ^= 1;
    let damaged = Profile::read(&damaged[..], BuildOptions::default()).unwrap();
    assert!(damaged.damage.as_deref().unwrap().contains("damaged at byte"), "{:?}", damaged.damage);
    assert_eq!(damaged.cpu.totals, all.cpu.totals);

    let empty = SessionWriter::new(Vec::new(), "0.1.0").unwrap().finish().unwrap();
    let error = Profile::read(&empty[..], BuildOptions::default()).unwrap_err();
    assert!(matches!(error, ProfileError::Empty));
    let error = Profile::read(&b"GIF89a"[..], BuildOptions::default()).unwrap_err();
    assert!(matches!(error, ProfileError::Session(SessionError::NotASession)));
}

#[test]
fn a_very_deep_recursion_is_no_trouble() {
    let mut records = records();
    let end = records.pop().unwrap();
    let (mut stacks, mut functions) = (0, 0);
    for record in &records {
        match record {
            SessionRecord::Stack(_) => stacks += 1,
            SessionRecord::Function(_) => functions += 1,
            _ => {}
        }
    }
    assert!(functions > 6);
    const DEEP: u32 = 200_000;
    for depth in 0..DEEP {
        let parent = depth.checked_sub(1).map(|above| StackId(stacks + above));
        records.push(SessionRecord::Stack(StackDef {
            id: StackId(stacks + depth),
            parent,
            frame: FrameId(8),
        }));
    }
    records.push(SessionRecord::CpuSamples(SampleBatch {
        start: START,
        time_delta: vec![1],
        thread: vec![ThreadId(1)],
        stack: vec![StackId(stacks + DEEP - 1)],
        weight: vec![5_000_000_000],
        state: vec![ThreadState::Running],
        truncated: vec![true],
    }));
    records.push(end);
    let mut builder = ProfileBuilder::new(BuildOptions::default());
    records.iter().for_each(|record| builder.add(record).unwrap());
    let profile = builder.finish(false).unwrap();
    let row = profile.top_functions(SeriesKind::Cpu)[0];
    assert_eq!(profile.tables.function_name(row.function, NameStyle::SHORT), "Discounts.Search");
    assert_eq!(row.total.weight, 5_000_000_000 + 900_000_000);
    let merged = TreeOptions { merge_recursion: true, ..TreeOptions::default() };
    let tree = CallTree::new(&profile.tables, &profile.cpu, merged);
    assert!(tree.nodes().iter().all(|node| node.depth < 10));
}

#[test]
fn a_tree_of_callers_stops_growing_with_the_lightest_stacks() {
    let profile = profile();
    let inverted = TreeOptions { inverted: true, ..TreeOptions::default() };
    let whole = CallTree::new(&profile.tables, &profile.cpu, inverted);
    let enough = TreeOptions { enough: Some(10), ..inverted };
    let part = CallTree::new(&profile.tables, &profile.cpu, enough);
    assert_eq!(whole.shortened(), 0);
    assert!(part.shortened() > 0 && part.nodes().len() < whole.nodes().len());
    assert_eq!(part.total(), whole.total());
    // The heaviest keep their callers, and all are there.
    let sums = |tree: &CallTree| {
        let roots = tree.children(None).into_iter();
        roots.map(|root| tree.nodes()[root].total.weight).collect::<Vec<_>>()
    };
    assert_eq!(sums(&part), sums(&whole));
    let heaviest = part.children(None)[0];
    assert!(!part.children(Some(heaviest)).is_empty());
}

#[test]
fn sums_of_a_part_are_those_of_the_filtered_profile() {
    let profile = profile();
    let filters = [
        Filter::default(),
        Filter { thread: Some("4712".into()), ..Filter::default() },
        Filter { text: Some("discounts".into()), ..Filter::default() },
        Filter { states: Some(vec![ThreadState::Lock]), ..Filter::default() },
    ];
    for filter in filters {
        let filtered = profile.filtered(&filter).unwrap();
        for kind in [SeriesKind::Cpu, SeriesKind::Wall, SeriesKind::Exceptions] {
            let expected = filtered.series(kind).by_stack(profile.tables.stack_count());
            assert_eq!(profile.stack_sums(kind, &filter), expected, "{filter:?}");
        }
    }
}
