//! Heap snapshots of real programs that know what they hold.

mod client;

use client::{Client, LIMIT, config, running, wait_gone};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};
use testkit::{Runtime, Sample, TargetProcess, sample_runtimes};
use wire::heap::{HeapItem, ROOT_PINNING, ROOT_WEAK, RootKind, decode, string_hash};
use wire::{ClassFields, Control, CpuEngine, HeapEnd, Record, SessionConfig, StaticField};

/// What a snapshot saw.
#[derive(Default)]
struct Snapshot {
    /// Class and size of each object.
    objects: HashMap<u64, (u64, u64)>,
    edges: Vec<(u64, u64)>,
    /// Target, kind, flags, id.
    roots: Vec<(u64, RootKind, u8, u64)>,
    dependents: Vec<(u64, u64)>,
    /// Hash, length, text.
    strings: HashMap<u64, (u64, u32, Option<String>)>,
    generations: Vec<(u8, u64, u64)>,
    /// Name and assembly.
    classes: HashMap<u64, (String, String)>,
    methods: HashMap<u64, String>,
    /// Which words of an object hold its references.
    words: HashMap<u64, u64>,
    /// What is at which place of a static field.
    slots: HashMap<u64, u64>,
    statics: Vec<StaticField>,
    fields: HashMap<u64, ClassFields>,
    end: Option<HeapEnd>,
    bytes: usize,
}

impl Snapshot {
    /// One of the snapshots that a client received.
    fn of(client: &Client, number: u32) -> Self {
        let mut seen = Self::default();
        let mut last = 0;
        for record in &client.records {
            match record {
                Record::HeapChunk { snapshot, bytes, .. } if *snapshot == number => {
                    seen.bytes += bytes.len();
                    for item in decode(bytes) {
                        seen.item(item.unwrap(), &mut last);
                    }
                }
                Record::HeapClasses { snapshot, classes } if *snapshot == number => {
                    let named = classes
                        .iter()
                        .map(|(id, name, module)| (*id, (name.clone(), module.clone())));
                    seen.classes.extend(named);
                }
                Record::HeapMethods { snapshot, methods } if *snapshot == number => {
                    seen.methods.extend(methods.iter().cloned())
                }
                Record::HeapStatics { snapshot, fields } if *snapshot == number => {
                    seen.statics.extend(fields.iter().cloned())
                }
                Record::HeapFields { snapshot, classes } if *snapshot == number => {
                    let classes = classes.iter().map(|class| (class.class, class.clone()));
                    seen.fields.extend(classes)
                }
                Record::HeapEnd(end) if end.snapshot == number => seen.end = Some(end.clone()),
                _ => {}
            }
        }
        seen
    }

    fn item(&mut self, item: HeapItem<'_>, last: &mut u64) {
        match item {
            HeapItem::Object { address, class, size, fields } => {
                *last = address;
                self.words.insert(address, fields);
                assert_eq!(
                    self.objects.insert(address, (class, size)),
                    None,
                    "an object is reported once"
                );
            }
            HeapItem::Reference { target } => self.edges.push((*last, target)),
            HeapItem::Root { target, kind, flags, id } => {
                self.roots.push((target, kind, flags, id))
            }
            HeapItem::Dependent { key, value, .. } => self.dependents.push((key, value)),
            HeapItem::Generation { generation, start, length, .. } => {
                self.generations.push((generation, start, length))
            }
            HeapItem::StringContent { address, hash, length, text } => {
                self.strings.insert(address, (hash, length, text.map(str::to_owned)));
            }
            HeapItem::Slot { address, target } => {
                assert_eq!(self.slots.insert(address, target), None, "a slot is reported once");
            }
            HeapItem::Field { .. } | HeapItem::Origin { .. } | HeapItem::Sum { .. } => {
                panic!("nobody asked for {item:?}")
            }
        }
    }

    fn name(&self, object: u64) -> &str {
        self.objects.get(&object).map_or("", |(class, _)| self.classes[class].0.as_str())
    }

    /// Objects and bytes by class.
    fn histogram(&self) -> BTreeMap<&str, (u64, u64)> {
        let mut histogram: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for (class, size) in self.objects.values() {
            let row = histogram.entry(self.classes[class].0.as_str()).or_default();
            row.0 += 1;
            row.1 += size;
        }
        histogram
    }

    fn edges_between(&self, from: &str, to: &str) -> u64 {
        self.edges.iter().filter(|(a, b)| self.name(*a) == from && self.name(*b) == to).count()
            as u64
    }

    /// The type of what a static field of the program refers to.
    fn held_by(&self, field: &str) -> Option<&str> {
        let name = format!("Clrscope.Samples.Heapster.{field}");
        let field = self.statics.iter().find(|field| field.name == name)?;
        Some(self.name(*self.slots.get(&field.address)?))
    }

    /// Names of the fields by which an object of the program's own refers to others.
    fn fields_of(&self, object: u64) -> Vec<&str> {
        let (class, words) = (&self.fields[&self.objects[&object].0], self.words[&object]);
        let is_used = |field: &&wire::Field| words & 1 << (field.offset / 8) != 0;
        class.fields.iter().filter(is_used).map(|field| field.name.as_str()).collect()
    }

    /// All objects that the roots keep alive.
    fn reachable(&self) -> HashSet<u64> {
        let mut targets: HashMap<u64, Vec<u64>> = HashMap::new();
        self.edges
            .iter()
            .chain(&self.dependents)
            .for_each(|(from, to)| targets.entry(*from).or_default().push(*to));
        let strong = self.roots.iter().filter(|(_, _, flags, _)| flags & ROOT_WEAK == 0);
        let mut queue: VecDeque<u64> = strong.map(|(target, ..)| *target).collect();
        let mut reached = HashSet::new();
        while let Some(object) = queue.pop_front() {
            if self.objects.contains_key(&object) && reached.insert(object) {
                queue.extend(targets.get(&object).into_iter().flatten());
            }
        }
        reached
    }

    /// Objects that could have been collected, and that no root keeps alive.
    fn lost(&self) -> impl Iterator<Item = u64> {
        const FROZEN: u8 = 5;
        let (reachable, ranges) =
            (self.reachable(), self.generations.iter().filter(|(number, ..)| *number == FROZEN));
        let ranges: Vec<_> = ranges.map(|(_, start, length)| *start..start + length).collect();
        let is_frozen = move |object: u64| ranges.iter().any(|range| range.contains(&object));
        self.objects
            .keys()
            .copied()
            .filter(move |object| !reachable.contains(object) && !is_frozen(*object))
    }
}

fn supported() -> Vec<Runtime> {
    sample_runtimes().into_iter().filter(|runtime| runtime.is_supported()).collect()
}

fn attach(process: &TargetProcess, profiler: &str) -> Client {
    Client::attach_as(process, heap(profiler), wire::CLSID_MAIN)
}

fn heap(profiler: &str) -> SessionConfig {
    config(&[profiler], CpuEngine::Off)
}

fn wait_for_snapshot(client: &mut Client, number: u32) -> Snapshot {
    client.wait(|client| {
        client
            .records
            .iter()
            .any(|record| matches!(record, Record::HeapEnd(end) if end.snapshot == number))
    });
    Snapshot::of(client, number)
}

/// Checks that a program continues: it answers.
#[track_caller]
fn answers(process: &mut TargetProcess, limit: Duration) {
    process.send_line("grow 1").unwrap();
    process.wait_for_line(limit, |line| line == "grown").unwrap();
}

fn heapster(runtime: Runtime, arguments: &[&str]) -> TargetProcess {
    let mut process = Sample::named("heapster").start(runtime, arguments);
    process.wait_for_ready();
    process
}

fn check_types(snapshot: &Snapshot, truth: &Value, what: &str) {
    let histogram = snapshot.histogram();
    for (name, known) in truth["types"].as_object().unwrap() {
        let (objects, bytes) = histogram.get(name.as_str()).copied().unwrap_or_default();
        let known = |field: &str| known[field].as_u64().unwrap();
        assert_eq!((objects, bytes), (known("objects"), known("bytes")), "{what}: {name}");
    }
}

#[test]
fn a_look_tells_every_object_and_what_holds_it() {
    for runtime in supported() {
        let mut process = heapster(runtime, &[]);
        let mut client = attach(&process, "heap");
        let snapshot = wait_for_snapshot(&mut client, 0);
        client.stop();
        wait_gone(process.pid());
        process.close_stdin();
        let truth = process.truth(LIMIT);
        let what = runtime.to_string();
        let end = snapshot.end.as_ref().unwrap();
        assert!(end.complete && end.reason.is_none(), "{what}: {end:?}");
        assert_eq!(end.objects, snapshot.objects.len() as u64, "{what}");
        assert!(end.paused > 1_000_000 && end.paused < 10_000_000_000, "{what}: {end:?}");
        check_types(&snapshot, &truth, &what);

        let names =
            ["Held", "Link", "Entry", "Pinned", "Finalizable", "Attached", "OnStack", "Block[]"];
        let ours =
            |name: &str| names.iter().any(|known| name == format!("Clrscope.Samples.{known}"));
        let samples = snapshot.classes.values().filter(|(name, _)| ours(name));
        assert!(
            samples.into_iter().all(|(_, module)| module == "heapster"),
            "{what}: {:?}",
            snapshot.classes
        );

        let edges = |field: &str| truth["edges"][field].as_u64().unwrap();
        let between = |from: &str, to: &str| {
            let to =
                if to.contains('.') { to.to_owned() } else { format!("Clrscope.Samples.{to}") };
            snapshot.edges_between(&format!("Clrscope.Samples.{from}"), &to)
        };
        assert_eq!(
            between("Held", "System.String") + between("Held", "string"),
            edges("held_to_text"),
            "{what}"
        );
        assert_eq!(between("Held", "Held"), edges("held_to_twin"), "{what}");
        assert_eq!(between("Link", "Link"), edges("link_to_link"), "{what}");
        let dependent = snapshot
            .dependents
            .iter()
            .filter(|(key, _)| snapshot.name(*key) == "Clrscope.Samples.Held");
        assert_eq!(dependent.count() as u64, edges("dependent"), "{what}");

        // Everything that lives is held by something, and what the pins hold only they hold.
        let lost: Vec<&str> = snapshot.lost().map(|object| snapshot.name(object)).collect();
        let share = lost.len() as f64 / snapshot.objects.len() as f64;
        assert!(
            share < 0.001,
            "{what}: {} objects are held by nothing: {:?}",
            lost.len(),
            &lost[..lost.len().min(20)]
        );
        assert!(!lost.iter().any(|name| ours(name)), "{what}: {lost:?}");
        let held = |field: &str| snapshot.held_by(field).unwrap_or_default().to_owned();
        assert_eq!(held("chain"), "Clrscope.Samples.Link", "{what}: {:?}", snapshot.statics);
        assert!(held("held").contains("List<Clrscope.Samples.Held>"), "{what}: {}", held("held"));
        assert!(held("attached").contains("ConditionalWeakTable<"), "{what}");
        assert_eq!(held("duplicates").replace("System.String", "string"), "string[]", "{what}");
        // Static fields of the runtime's own libraries.
        assert!(snapshot.statics.len() > 50, "{what}: {}", snapshot.statics.len());
        let is_number = |field: &StaticField| field.name.ends_with("Heapster.Finalized");
        assert!(!snapshot.statics.iter().any(is_number), "{what}: a number is no reference");
        // Each second one has a twin, and the first ones a text.
        let mut with = BTreeMap::new();
        for (object, _) in snapshot
            .objects
            .iter()
            .filter(|(_, (class, _))| snapshot.classes[class].0 == "Clrscope.Samples.Held")
        {
            *with.entry(snapshot.fields_of(*object)).or_insert(0_u64) += 1;
        }
        assert_eq!(
            with.keys().cloned().collect::<Vec<_>>(),
            [vec![], vec!["Text"], vec!["Text", "Twin"], vec!["Twin"]],
            "{what}"
        );
        assert_eq!(
            with[&vec!["Text"]] + with[&vec!["Text", "Twin"]],
            edges("held_to_text"),
            "{what}"
        );
        assert_eq!(
            with[&vec!["Twin"]] + with[&vec!["Text", "Twin"]],
            edges("held_to_twin"),
            "{what}"
        );
        let pins = snapshot.roots.iter().filter(|(target, kind, flags, _)| {
            *kind == RootKind::Handle
                && flags & ROOT_PINNING != 0
                && snapshot.name(*target) == "Clrscope.Samples.Pinned"
        });
        assert_eq!(pins.count() as u64, truth["pinned"].as_u64().unwrap(), "{what}");
        // The variable of `Main`.
        let methods = snapshot.roots.iter().filter(|(target, kind, ..)| {
            *kind == RootKind::Stack && snapshot.name(*target) == "Clrscope.Samples.OnStack"
        });
        let methods: Vec<&String> =
            methods.filter_map(|(.., id)| snapshot.methods.get(id)).collect();
        assert!(methods.iter().any(|name| name.contains("Heapster.Main")), "{what}: {methods:?}");

        let duplicate = &truth["duplicate"];
        let text = duplicate["text"].as_str().unwrap();
        let hash = string_hash(&text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>());
        let same: Vec<u64> = snapshot
            .strings
            .iter()
            .filter(|(_, (h, ..))| *h == hash)
            .map(|(address, _)| *address)
            .collect();
        // The literal says it too.
        let count = duplicate["strings"].as_u64().unwrap();
        assert_eq!(same.len() as u64, count + 1, "{what}");
        assert!(
            same.iter().all(|address| snapshot.strings[address].1 as usize == text.len()),
            "{what}"
        );
        assert!(
            same.iter().any(|address| snapshot.strings[address].2.as_deref() == Some(text)),
            "{what}"
        );
        assert!(
            same.iter()
                .all(|address| snapshot.objects[address].1 == duplicate["size"].as_u64().unwrap()),
            "{what}"
        );
        let strings = snapshot.objects.values().filter(|(class, _)| {
            matches!(snapshot.classes[class].0.as_str(), "System.String" | "string")
        });
        assert_eq!(strings.count(), snapshot.strings.len(), "{what}: every string is read");

        let inside = |address: u64| {
            let mut ranges = snapshot.generations.iter();
            ranges.any(|(_, start, length)| (*start..start + length).contains(&address))
        };
        assert!(
            snapshot.objects.keys().all(|address| inside(*address)),
            "{what}: {:?}",
            snapshot.generations
        );
        let waiting = snapshot.objects.values().filter(|(class, _)| {
            let name = &snapshot.classes[class].0;
            name.contains("AsyncStateMachineBox") && name.contains("<Outer>")
        });
        if runtime.major() >= 3 {
            assert_eq!(waiting.count() as u64, truth["waiting"].as_u64().unwrap(), "{what}");
        }
        eprintln!(
            "{what}: {} objects, {} references, {} roots, {} static fields, {} classes with fields, \
                {} classes in {} bytes, {:.1} ms",
            snapshot.objects.len(),
            snapshot.edges.len(),
            snapshot.roots.len(),
            snapshot.statics.len(),
            snapshot.fields.len(),
            snapshot.classes.len(),
            snapshot.bytes,
            end.paused as f64 / 1e6
        );
    }
}

#[test]
fn further_looks_see_what_has_grown() {
    for runtime in supported() {
        let mut process = heapster(runtime, &["--count", "1000", "--chain", "10"]);
        let mut client = attach(&process, "heap:snapshots=2:every=2:strings=off");
        let first = wait_for_snapshot(&mut client, 0);
        let leaked = |snapshot: &Snapshot| {
            snapshot.histogram().get("Clrscope.Samples.Leaked").map_or(0, |row| row.0)
        };
        assert_eq!(leaked(&first), 0, "{runtime}");
        assert!(first.strings.is_empty(), "{runtime}");
        process.send_line("grow 4321").unwrap();
        process.wait_for_line(LIMIT, |line| line == "grown").unwrap();
        let second = wait_for_snapshot(&mut client, 1);
        assert_eq!(leaked(&second), 4321, "{runtime}");
        client.stop();
        wait_gone(process.pid());
        answers(&mut process, LIMIT);
    }
}

#[test]
fn snapshots_survive_threads_that_allocate_all_the_time() {
    for runtime in supported() {
        let mut process = heapster(runtime, &["--churn", "2", "--chain", "20000"]);
        let mut client = attach(&process, "heap:snapshots=3:every=1");
        let snapshots: Vec<Snapshot> =
            (0..3).map(|number| wait_for_snapshot(&mut client, number)).collect();
        client.stop();
        wait_gone(process.pid());
        process.close_stdin();
        let truth = process.truth(LIMIT);
        for snapshot in &snapshots {
            assert!(snapshot.end.as_ref().unwrap().complete, "{runtime}: {:?}", snapshot.end);
            check_types(snapshot, &truth, &runtime.to_string());
        }
        // Three of ours, and those that were there before; between snapshots nothing is reported,
        // so nothing is slow.
        assert!(truth["collections"].as_u64().unwrap() >= 3, "{runtime}: {truth}");
    }
}

#[test]
fn long_chains_and_many_objects_are_no_trouble() {
    for runtime in supported() {
        let arguments = ["--count", "1000000", "--chain", "1000000"];
        let mut process = heapster(runtime, &arguments);
        let before = client::resident(process.pid());
        let mut client = attach(&process, "heap");
        let snapshot = wait_for_snapshot(&mut client, 0);
        client.send(&Control::Status);
        let bye = client.stop();
        process.close_stdin();
        let truth = process.truth(LIMIT);
        check_types(&snapshot, &truth, &runtime.to_string());
        assert_eq!(
            snapshot.edges_between("Clrscope.Samples.Link", "Clrscope.Samples.Link"),
            999_999,
            "{runtime}"
        );
        let end = snapshot.end.unwrap();
        eprintln!(
            "{runtime}: {} objects, {} references in {:.0} ms: {:.1} M/s; {} bytes; {} MB resident \
                before, {} bytes held",
            end.objects,
            snapshot.edges.len(),
            end.paused as f64 / 1e6,
            end.objects as f64 * 1e3 / end.paused as f64,
            snapshot.bytes,
            before >> 20,
            bye.status.memory
        );
        assert!(bye.status.memory < 16 << 20, "{runtime}: {:?}", bye.status);
    }
}

#[test]
fn a_look_is_given_up_when_the_recording_ends() {
    for runtime in supported() {
        let mut process = heapster(runtime, &["--count", "3000000"]);
        let mut client = attach(&process, "heap");
        client.wait(|client| {
            client.records.iter().any(|record| matches!(record, Record::HeapChunk { .. }))
        });
        client.stop();
        let snapshot = Snapshot::of(&client, 0);
        let end = snapshot.end.as_ref().unwrap();
        assert!(
            !end.complete && end.reason.as_deref() == Some("the recording was stopped"),
            "{runtime}: {end:?}"
        );
        // What came has its names.
        assert!(!snapshot.objects.is_empty() && snapshot.histogram().len() > 1, "{runtime}");
        wait_gone(process.pid());
        answers(&mut process, LIMIT);
    }
}

#[test]
fn a_look_ends_after_its_time() {
    let runtime = Runtime::V9;
    let mut process = heapster(runtime, &["--count", "5000000"]);
    let mut client = attach(&process, "heap:limit=1");
    // Reading slowly makes it take longer than that.
    std::thread::sleep(Duration::from_millis(2500));
    let snapshot = wait_for_snapshot(&mut client, 0);
    let end = snapshot.end.as_ref().unwrap();
    assert!(!end.complete && end.reason.as_deref() == Some("it took longer than 1 s"), "{end:?}");
    client.stop();
    wait_gone(process.pid());
    answers(&mut process, LIMIT);
}

#[test]
fn the_program_does_not_wait_for_a_clrscope_that_does_not_read() {
    for runtime in supported() {
        let mut process = heapster(runtime, &["--count", "2000000"]);
        let mut client = attach(&process, "heap");
        // Nobody reads: the runtime is suspended for what the collection takes and a tenth of a
        // second, no longer.
        std::thread::sleep(Duration::from_millis(300));
        let begun = Instant::now();
        answers(&mut process, Duration::from_secs(8));
        let stood = begun.elapsed();
        assert!(stood < Duration::from_millis(1500), "{runtime}: {stood:?}");
        // Who reads later sees what came, whole, and why there is no more.
        let snapshot = wait_for_snapshot(&mut client, 0);
        let end = snapshot.end.as_ref().unwrap();
        assert!(
            !end.complete && end.reason.as_ref().is_some_and(|why| why.contains("did not read")),
            "{runtime}: {end:?}"
        );
        assert!(!snapshot.objects.is_empty(), "{runtime}");
        eprintln!("{runtime}: suspended for {:.0} ms", end.paused as f64 / 1e6);
        client.stop();
        wait_gone(process.pid());
        answers(&mut process, LIMIT);
        // Who never reads is left.
        let mut process = heapster(runtime, &["--count", "2000000"]);
        let client = attach(&process, "heap");
        wait_gone(process.pid());
        drop(client);
        answers(&mut process, LIMIT);
    }
}

#[test]
fn the_world_goes_on_when_clrscope_is_gone() {
    for runtime in supported() {
        let mut process = heapster(runtime, &["--count", "3000000"]);
        let mut client = attach(&process, "heap");
        client.wait(|client| {
            client.records.iter().any(|record| matches!(record, Record::HeapChunk { .. }))
        });
        drop(client);
        answers(&mut process, Duration::from_secs(3));
        wait_gone(process.pid());
        answers(&mut process, LIMIT);
    }
}

#[test]
fn what_came_can_be_read_when_the_process_dies() {
    for runtime in supported() {
        let mut process = heapster(runtime, &["--count", "3000000"]);
        let mut client = attach(&process, "heap");
        client.wait(|client| {
            client.records.iter().any(|record| matches!(record, Record::HeapChunk { .. }))
        });
        process.kill();
        client.collect(Duration::from_secs(5));
        let mut objects = 0;
        for record in &client.records {
            if let Record::HeapChunk { bytes, .. } = record {
                let whole = decode(bytes).map(Result::unwrap);
                objects += whole.filter(|item| matches!(item, HeapItem::Object { .. })).count();
            }
        }
        assert!(objects > 1000, "{runtime}: {objects}");
    }
}

#[test]
fn a_look_at_a_real_application() {
    for runtime in [Runtime::V10, Runtime::Azmcp9] {
        let mut process = running(runtime);
        let mut client = attach(&process, "heap");
        let snapshot = wait_for_snapshot(&mut client, 0);
        client.stop();
        wait_gone(process.pid());
        let end = snapshot.end.as_ref().unwrap();
        assert!(end.complete && end.reason.is_none(), "{runtime}: {end:?}");
        let lost = snapshot.lost().count();
        let targets =
            snapshot.edges.iter().filter(|(_, to)| snapshot.objects.contains_key(to)).count();
        eprintln!(
            "{runtime}: {} objects, {} references, {} of them to known objects, {} roots, {} \
                classes in {} bytes, {:.1} ms, {lost} held by nothing",
            snapshot.objects.len(),
            snapshot.edges.len(),
            targets,
            snapshot.roots.len(),
            snapshot.classes.len(),
            snapshot.bytes,
            end.paused as f64 / 1e6
        );
        assert!(snapshot.objects.len() > 10_000 && snapshot.classes.len() > 1000, "{runtime}");
        assert!(
            targets * 1000 > snapshot.edges.len() * 999,
            "{runtime}: references lead to objects"
        );
        assert!(
            lost * 1000 < snapshot.objects.len(),
            "{runtime}: {lost} of {} objects are held by nothing",
            snapshot.objects.len()
        );
        process.feed(1).unwrap();
    }
}

#[test]
fn other_recordings_work_before_and_after() {
    for runtime in supported() {
        let mut process = heapster(runtime, &["--count", "1000"]);
        let pid = process.pid();
        // On newer runtimes an idle library stays behind.
        let wait_left = || match runtime.major() {
            ..6 => drop(wait_gone(pid)),
            _ => {
                client::wait_threads_gone(pid);
                std::thread::sleep(Duration::from_secs(1));
            }
        };
        for _ in 0..2 {
            let mut client = attach(&process, "heap");
            assert!(wait_for_snapshot(&mut client, 0).end.unwrap().complete, "{runtime}");
            client.stop();
            wait_left();
            // One that the runtime does not call stays, and the next is called: `Client::attach`
            // knows.
            let mut client = Client::attach(&process, config(&["wall:rate=100"], CpuEngine::Off));
            client.wait(|client| {
                client.records.iter().any(|record| matches!(record, Record::ThreadTick { .. }))
            });
            assert_eq!(client.stop().reason, wire::ByeReason::Stopped, "{runtime}");
            wait_left();
        }
        answers(&mut process, LIMIT);
    }
}
