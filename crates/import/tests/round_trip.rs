//! What clrscope exports, read back: the same stacks with the same weights.

mod common;

use common::{export, profile, read, sums};
use document::plain::visible;
use profile::{BuildOptions, Profile, SeriesKind};
use session::Entry;

fn escaped(name: String) -> String {
    visible(&name).into_owned()
}

fn notes(profile: &Profile) -> String {
    profile.notes.iter().map(|(_, note)| note.as_str()).collect::<Vec<_>>().join("\n")
}

#[test]
fn pprof_has_everything_but_times() {
    let (original, imported) = (profile(), read(&export("pprof", None)));
    for kind in [SeriesKind::Cpu, SeriesKind::Wall] {
        assert_eq!(sums(&imported, kind, |name| name), sums(&original, kind, escaped), "{kind:?}");
    }
    let states = |profile: &Profile| profile.wall.by_state().map(|state| state.weight);
    assert_eq!(states(&imported), states(&original));
    for kind in [SeriesKind::Exceptions, SeriesKind::Allocations] {
        let weights = |profile: &Profile, shown: fn(String) -> String| {
            sums(profile, kind, shown)
                .into_iter()
                .map(|(path, [_, w])| (path, w))
                .collect::<Vec<_>>()
        };
        assert_eq!(weights(&imported, |name| name), weights(&original, escaped), "{kind:?}");
    }
    let types = |profile: &Profile| {
        let rows = profile.exception_rows();
        let mut names: Vec<String> =
            rows.iter().map(|row| escaped(profile.tables.ty(row.ty).name.clone())).collect();
        names.sort();
        names
    };
    assert!(types(&imported).iter().all(|name| types(&original).contains(name)));
    let (info, before) = (&imported.info, &original.info);
    assert_eq!((info.entry, info.pid), (Entry::Imported, before.pid));
    assert_eq!((&info.process_name, &info.runtime), (&before.process_name, &before.runtime));
    assert_eq!(imported.duration(), original.duration());
    let kinds = |profile: &Profile| {
        let functions = profile.tables.functions.iter();
        functions.map(|of| profile::kind_id(of.kind)).collect::<std::collections::BTreeSet<_>>()
    };
    assert!(kinds(&imported).len() > 1 && kinds(&imported).is_subset(&kinds(&original)));
    assert!(notes(&imported).contains("without the times"), "{}", notes(&imported));
}

#[test]
fn pprof_of_one_kind_is_shown_by_its_unit() {
    for kind in SeriesKind::ALL {
        let original = profile();
        if original.series(kind).is_empty() {
            continue;
        }
        let imported = read(&export("pprof", Some(kind)));
        let shown = SeriesKind::ALL.into_iter().filter(|kind| !imported.series(*kind).is_empty());
        let shown: Vec<_> = shown.collect();
        assert_eq!(shown.len(), 1, "{kind:?} is {shown:?}");
        let totals = |profile: &Profile, kind| profile.series(kind).totals.weight;
        assert_eq!(totals(&imported, shown[0]), totals(&original, kind), "{kind:?}");
        assert_eq!(shown[0].value_type().unit, kind.value_type().unit, "{kind:?}");
    }
}

#[test]
fn collapsed_stacks_have_numbers_of_samples() {
    let imported = read(&export("collapsed", Some(SeriesKind::Cpu)));
    let original = profile();
    let plain = |name: String| visible(&name).replace(';', ":");
    // The thread is the outermost frame there.
    let mut expected = common::Sums::new();
    for cell in &original.cpu.cells {
        let mut path: Vec<String> = original
            .tables
            .walk(cell.stack)
            .map(|frame| {
                let function = original.tables.frame(frame).function;
                plain(original.tables.function_name(function, profile::NameStyle::FULL))
            })
            .collect();
        path.push(plain(original.tables.thread_name(cell.thread)));
        path.reverse();
        let sum = expected.entry(path).or_default();
        sum[0] += u64::from(cell.samples);
        sum[1] += u64::from(cell.samples);
    }
    assert_eq!(sums(&imported, SeriesKind::Samples, |name| name), expected);
    assert!(imported.cpu.is_empty() && imported.duration() == 0);
    assert!(notes(&imported).contains("no times"), "{}", notes(&imported));
}

#[test]
fn speedscope_has_threads_and_weights() {
    let (original, imported) = (profile(), read(&export("speedscope", None)));
    for kind in [SeriesKind::Cpu, SeriesKind::Wall] {
        let weights = |profile: &Profile| {
            sums(profile, kind, |name| name)
                .into_iter()
                .map(|(path, [_, w])| (path, w))
                .collect::<Vec<_>>()
        };
        assert_eq!(weights(&imported), weights(&original), "{kind:?}");
        let threads = |profile: &Profile| {
            let all = profile.tables.threads.iter().map(|thread| thread.os_tid);
            let sums = profile.series(kind).by_thread(profile.tables.threads.len());
            let mut threads: Vec<(u32, u64)> =
                all.zip(sums).map(|(tid, sum)| (tid, sum.weight)).filter(|row| row.1 > 0).collect();
            threads.sort_unstable();
            threads
        };
        assert_eq!(threads(&imported), threads(&original), "{kind:?}");
    }
    let lines = |profile: &Profile| profile.tables.files.clone();
    assert!(lines(&original).iter().all(|file| lines(&imported).contains(file)));
}

#[test]
fn the_firefox_profiler_has_times_and_samples() {
    let (original, imported) = (profile(), read(&export("firefox", Some(SeriesKind::Cpu))));
    // It has one text for a function and its line.
    let name_of = |profile: &Profile, stack| {
        let frames = profile.tables.walk(stack);
        let mut path: Vec<String> = frames
            .map(|frame| {
                let (frame, names) = (profile.tables.frame(frame), profile::NameStyle::FULL);
                profile::format::frame(&profile.tables, frame, names, true)
            })
            .collect();
        path.reverse();
        path
    };
    let counts = |profile: &Profile, kind| {
        let mut counts = std::collections::BTreeMap::<Vec<String>, u64>::new();
        for cell in &profile.series(kind).cells {
            *counts.entry(name_of(profile, cell.stack)).or_default() += u64::from(cell.samples);
        }
        counts
    };
    assert_eq!(counts(&imported, SeriesKind::Samples), counts(&original, SeriesKind::Cpu));
    let cpu = |profile: &Profile| profile.cpu.totals.weight;
    // CPU time is in microseconds there.
    let least = cpu(&original) - 1000 * original.cpu.totals.samples;
    assert!((least..=cpu(&original)).contains(&cpu(&imported)), "{}", cpu(&imported));
    assert_eq!(imported.info.start_unix_ms, original.info.start_unix_ms);
    assert!(imported.duration() > 0 && imported.duration() <= original.duration());
    assert!(notes(&imported).contains("markers"), "{}", notes(&imported));
}

#[test]
fn what_is_imported_can_be_reported_explored_and_exported() {
    for format in ["pprof", "collapsed", "speedscope", "firefox"] {
        let session = common::session(&export(format, Some(SeriesKind::Cpu))).unwrap();
        let explored = explore::Explored::read(&session[..], None).unwrap();
        let description = serde_json::to_value(explored.describe()).unwrap();
        assert!(!description["series"].as_array().unwrap().is_empty(), "{format}");
        assert!(!description["warnings"].as_array().unwrap().is_empty(), "{format}");
        for exporter in report::EXPORTERS {
            let mut out = Vec::new();
            exporter
                .convert(&session[..], &report::Options::default(), &mut out)
                .unwrap_or_else(|error| panic!("{format} as {}: {error}", exporter.id));
            assert!(!out.is_empty(), "{format} as {}", exporter.id);
        }
        let profile = Profile::read(&session[..], BuildOptions::default());
        let options = report::Options::default();
        let text = report::document_of(&profile.unwrap(), &options, |_| Vec::new());
        let text = document::text::of(&text.unwrap(), document::text::Style::default());
        assert!(text.contains("imported") && !text.contains(".NET ,"), "{format}: {text}");
    }
}
