//! What the text formats say of a small recording. `INSTA_UPDATE=always cargo test -p report` takes
//! what they say now as right; then read the difference.

mod common;

use std::{collections::BTreeSet, fs, path::Path};

use common::{file, profile, render, text};
use profile::session::{SamplingRate, SessionRecord};
use profile::{BuildOptions, Filter, NameStyle, Profile, ProfileBuilder, SeriesKind};
use report::{EXPORTERS, Options};
use serde_json::Value;

#[test]
fn text_page() {
    insta::assert_snapshot!(text(&profile(), "text", &Options::default()));
}

#[test]
fn text_in_a_narrow_terminal_of_one_profiler() {
    let options = Options {
        width: 80,
        rows: 4,
        series: Some(SeriesKind::Cpu),
        lines: false,
        ..Options::default()
    };
    let page = text(&profile(), "text", &options);
    assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
    insta::assert_snapshot!(page);
}

#[test]
fn text_of_a_part_with_colours() {
    let filter = Filter { thread: Some("4714".into()), ..Filter::default() };
    let page = text(&profile(), "text", &Options { filter, colour: true, ..Options::default() });
    assert!(page.contains("\u{1b}[1;36mWall time\u{1b}[0m"), "{page}");
    assert!(page.contains("only thread \"4714\""), "{page}");
    let escapes = page.matches('\u{1b}').count();
    assert_eq!(
        escapes,
        page.matches("\u{1b}[0m").count() * 2,
        "no other escape sequences than ours"
    );
}

#[test]
fn a_recording_that_was_cut_short_says_so() {
    let bytes = file();
    let profile = Profile::read(&bytes[..bytes.len() - 10], BuildOptions::default());
    // The whole little recording is one block, so that nothing is left of it; with two blocks the
    // first is.
    assert!(profile.is_err());
    let records = common::records();
    let mut writer = profile::session::SessionWriter::new(Vec::new(), "0.1.0").unwrap();
    for record in &records[..records.len() - 1] {
        writer.write(record).unwrap();
        writer.flush().unwrap();
    }
    let bytes = writer.finish().unwrap();
    let profile = Profile::read(&bytes[..], BuildOptions::default()).unwrap();
    for format in ["text", "markdown", "html", "json"] {
        let page = text(&profile, format, &Options::default());
        assert!(page.contains("cut short: the recorder was killed"), "{format}");
    }
}

/// The records with a measured rate of 25 Hz, where 99 Hz were asked for, before the end.
fn slow_timers(rate: SamplingRate) -> Profile {
    let mut records = common::records();
    records.insert(records.len() - 1, SessionRecord::SamplingRate(rate));
    let mut builder = ProfileBuilder::new(BuildOptions::default());
    records.iter().for_each(|record| builder.add(record).unwrap());
    builder.finish(false).unwrap()
}

#[test]
fn the_header_says_the_rate_that_was_achieved_where_it_is_another() {
    let rate = SamplingRate {
        profiler: "cpu".into(),
        asked_hz: 99,
        samples: 250,
        cpu: 10_000_000_000,
        tick_hz: Some(25),
        limit: Some("the kernel ticks at 25 Hz".into()),
        threads_without_timer: 2,
    };
    let words = "achieved 25 Hz instead of 99 Hz: the kernel ticks at 25 Hz; no samples of 2 \
        threads without a timer";
    let slow = slow_timers(rate.clone());
    for format in ["text", "markdown", "html"] {
        let options = Options { width: 400, ..Options::default() };
        let page = text(&slow, format, &options);
        assert!(page.contains(words), "{format}: {page}");
    }
    let json = |profile: &Profile| {
        let json: Value =
            serde_json::from_str(&text(profile, "json", &Options::default())).unwrap();
        json["recording"]["profilers"][0]["sampling"].clone()
    };
    let sampling = json(&slow);
    assert_eq!((&sampling["achieved_hz"], &sampling["differs"]), (&25.0.into(), &true.into()));
    assert_eq!(sampling["limit"], "the kernel ticks at 25 Hz");
    assert_eq!(slow.rate_hz("cpu"), Some(25.0));

    // Within 5 %, nothing is said, and the limit is none.
    let close = slow_timers(SamplingRate { samples: 955, threads_without_timer: 0, ..rate });
    assert!(!text(&close, "text", &Options::default()).contains("achieved"));
    let sampling = json(&close);
    assert_eq!((&sampling["differs"], &sampling["limit"]), (&false.into(), &Value::Null));
    assert_eq!(close.rate_hz("cpu"), Some(99.0));
    assert_eq!(json(&profile()), Value::Null);
}

#[test]
fn markdown_page() {
    insta::assert_snapshot!(text(
        &profile(),
        "markdown",
        &Options { rows: 5, ..Options::default() }
    ));
}

#[test]
fn collapsed_stacks() {
    let options = Options { names: NameStyle::SHORT, ..Options::default() };
    insta::assert_snapshot!(text(&profile(), "collapsed", &options));
}

#[test]
fn json_has_everything() {
    let profile = profile();
    let json: Value = serde_json::from_str(&text(&profile, "json", &Options::default())).unwrap();
    let mut head = json.clone();
    for part in ["functions", "frames", "stacks", "modules", "series", "files"] {
        head.as_object_mut().unwrap().remove(part).unwrap();
    }
    head["gc"].as_object_mut().unwrap().remove("events");
    head["gc"].as_object_mut().unwrap().remove("pauses");
    head["exceptions"].as_object_mut().unwrap().remove("samples");
    insta::assert_json_snapshot!(head);

    // What the columns say, put together by someone who knows only the description of the format.
    let series = json["series"].as_array().unwrap();
    let ids: Vec<_> = series.iter().map(|series| series["profiler"].as_str().unwrap()).collect();
    assert_eq!(ids, ["cpu", "wall", "exceptions"]);
    for series in series {
        let sums = &series["sums"];
        let column = |name: &str| sums[name].as_array().unwrap().clone();
        let rows = column("stack").len();
        for name in ["thread", "state", "truncated", "samples", "weight"] {
            assert_eq!(column(name).len(), rows, "{name}");
        }
        let weight: u64 = column("weight").iter().map(|weight| weight.as_u64().unwrap()).sum();
        assert_eq!(weight, series["weight"].as_u64().unwrap());
        let samples: u64 = column("samples").iter().map(|samples| samples.as_u64().unwrap()).sum();
        assert_eq!(samples, series["samples"].as_u64().unwrap());
    }
    let (parents, frames) =
        (json["stacks"]["parent"].as_array().unwrap(), json["stacks"]["frame"].as_array().unwrap());
    let name_of = |stack: usize| {
        let frame = &json["frames"][frames[stack].as_u64().unwrap() as usize];
        json["functions"][frame["function"].as_u64().unwrap() as usize]["name"].as_str().unwrap()
    };
    let cpu = &series[0]["sums"];
    let mut own = 0;
    for (row, stack) in cpu["stack"].as_array().unwrap().iter().enumerate() {
        let stack = stack.as_u64().unwrap() as usize;
        assert!(parents[stack].as_u64().is_none_or(|parent| (parent as usize) < stack));
        if name_of(stack).starts_with("Shop.Pricing.PriceList.Price(") {
            own += cpu["weight"][row].as_u64().unwrap();
        }
    }
    assert_eq!(own, 4_200_000_000);
    assert_eq!(json["gc"]["events"].as_array().unwrap().len(), 30);
    assert_eq!(json["gc"]["pauses"].as_array().unwrap().len(), 31);
    assert_eq!(json["exceptions"]["samples"].as_array().unwrap().len(), 40);
    assert_eq!(series[0]["single"]["time_ns"].as_array().unwrap().len(), 1000);
}

#[test]
fn the_firefox_profile_is_consistent() {
    let json: Value =
        serde_json::from_str(&text(&profile(), "firefox", &Options::default())).unwrap();
    let shared_strings = json["shared"]["stringArray"].as_array().cloned();
    let categories: Vec<_> = json["meta"]["categories"]
        .as_array()
        .unwrap()
        .iter()
        .map(|category| category["name"].as_str().unwrap())
        .collect();
    for category in ["Managed", "Dynamic", "Stub", "Native", "Runtime", "GC", "JIT", "Kernel"] {
        assert!(categories.contains(&category), "{category}");
    }
    assert_eq!(json["meta"]["symbolicated"], true);
    assert_eq!(json["meta"]["startTime"], 1_700_000_000_000.0);
    let threads = json["threads"].as_array().unwrap();
    let of = |process: &str| {
        threads.iter().filter(move |thread| thread["processName"] == process).collect::<Vec<_>>()
    };
    assert_eq!(
        (of("shop (cpu)").len(), of("shop (wall)").len(), of("shop (exceptions)").len()),
        (3, 5, 2)
    );
    let (mut samples, mut seen) = (0, BTreeSet::new());
    for thread in of("shop (cpu)") {
        let strings = shared_strings
            .clone()
            .unwrap_or_else(|| thread["stringArray"].as_array().unwrap().clone());
        let stacks = thread["samples"]["stack"].as_array().unwrap();
        samples += stacks.len();
        for stack in stacks {
            // To the root, by the tables of the thread.
            let mut at = stack.as_u64();
            while let Some(stack) = at {
                let frame =
                    thread["stackTable"]["frame"][stack as usize].as_u64().unwrap() as usize;
                let function = thread["frameTable"]["func"][frame].as_u64().unwrap() as usize;
                let name = thread["funcTable"]["name"][function].as_u64().unwrap() as usize;
                let category = thread["frameTable"]["category"][frame].as_u64().unwrap() as usize;
                seen.insert((strings[name].as_str().unwrap().to_owned(), categories[category]));
                at = thread["stackTable"]["prefix"][stack as usize].as_u64();
            }
        }
    }
    assert_eq!(samples, 1000);
    let expected = [
        (
            "Shop.Pricing.PriceList.Price(System.Collections.Generic.List<Shop.Orders.Line>, int) \
                (PriceList.cs:87)",
            "Managed",
        ),
        ("SVR::gc_heap::mark_object_simple", "GC"),
        ("Compiler::compCompile", "JIT"),
        ("futex_wait_queue", "Kernel"),
        ("[libc.so.6]+0x9ca4e", "Native"),
    ];
    for (name, category) in expected {
        assert!(
            seen.contains(&(name.to_owned(), category)),
            "no {name} of {category} in {seen:#?}"
        );
    }
    let markers: usize =
        threads.iter().map(|thread| thread["markers"]["length"].as_u64().unwrap() as usize).sum();
    assert_eq!(markers, 30 + 31 + 40, "collections, pauses and exceptions");
}

#[test]
fn sums_do_where_single_samples_were_not_kept() {
    let sums = Profile::read(&file()[..], BuildOptions::default()).unwrap();
    for exporter in EXPORTERS {
        let (with, without) = (profile(), &sums);
        let (mut one, mut other) = (Vec::new(), Vec::new());
        exporter.write(&with, &Options::default(), &mut one).unwrap();
        exporter.write(without, &Options::default(), &mut other).unwrap();
        assert!(!other.is_empty());
        if !exporter.single_samples && exporter.id != "json" {
            assert_eq!(one, other, "{} does not depend on single samples", exporter.id);
        }
    }
}

#[test]
fn the_registry_has_each_format_once() {
    let ids: Vec<_> = EXPORTERS.iter().map(|exporter| exporter.id).collect();
    let others =
        ["text", "json", "markdown", "html", "collapsed", "pprof", "speedscope", "firefox"];
    assert_eq!(ids, [&others[..], &["chrome", "otlp", "events"]].concat());
    let extensions: BTreeSet<_> = EXPORTERS.iter().map(|exporter| exporter.extension).collect();
    assert_eq!(extensions.len(), EXPORTERS.len());
    for exporter in EXPORTERS {
        assert_eq!(report::exporter(exporter.id).unwrap().id, exporter.id);
        let bytes = render(&profile(), exporter.id, &Options::default());
        assert_eq!(std::str::from_utf8(&bytes).is_err(), exporter.binary, "{}", exporter.id);
        // The same again, to the byte: reports can be compared.
        assert_eq!(bytes, render(&profile(), exporter.id, &Options::default()), "{}", exporter.id);
    }
    assert!(report::exporter("pdf").is_none());
}

#[test]
fn reports_are_made_from_a_session_file_in_one_go() {
    for exporter in EXPORTERS {
        let mut out = Vec::new();
        let time = Some(0..5_000_000_000);
        let options =
            Options { filter: Filter { time, ..Filter::default() }, ..Options::default() };
        let profile = exporter.convert(&file()[..], &options, &mut out).unwrap();
        assert_eq!(profile.cpu.totals.samples, 500, "{}", exporter.id);
        assert!(!out.is_empty());
    }
    let wanted = Options {
        series: Some(SeriesKind::Exceptions),
        filter: Filter { thread: Some("Main".into()), ..Filter::default() },
        ..Options::default()
    };
    let error = report::exporter("collapsed")
        .unwrap()
        .convert(&file()[..], &wanted, &mut Vec::new())
        .unwrap_err();
    assert_eq!(error.to_string(), "there are no exceptions samples in this recording; it has wall");
}

#[test]
fn the_document_has_every_field_of_the_json() {
    fn keys(value: &Value, at: &str, all: &mut BTreeSet<String>) {
        match value {
            Value::Array(values) => values.iter().for_each(|value| keys(value, at, all)),
            Value::Object(object) => {
                for (key, value) in object {
                    // The keys of these are names of the recording.
                    if ["reasons", "parameters"].contains(&at) {
                        continue;
                    }
                    if at != "pause_reasons_ns" {
                        all.insert(key.clone());
                    }
                    keys(value, key, all);
                }
            }
            _ => {}
        }
    }
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let pages = fs::read_dir(docs.join("profilers")).unwrap().map(|page| page.unwrap().path());
    let pages = pages.chain([docs.join("formats.md")]);
    let document: String = pages.map(|page| fs::read_to_string(page).unwrap()).collect();
    let json: Value = serde_json::from_str(&text(&profile(), "json", &Options::default())).unwrap();
    let mut all = BTreeSet::new();
    keys(&json, "", &mut all);
    assert!(all.len() > 80, "{all:?}");
    let missing: Vec<_> = all
        .iter()
        .filter(|key| {
            !document.contains(&format!("`{key}`")) && !document.contains(&format!("`{key}[]`"))
        })
        .collect();
    assert!(missing.is_empty(), "docs/formats.md and docs/profilers do not describe {missing:?}");
}
