use std::{collections::HashMap, io::Write, time::Duration};

use fx::{
    CategoryColor, CategoryHandle, FrameFlags, FrameInfo, MarkerTiming, StringHandle, Timestamp,
};
use fxprof_processed_profile as fx;
use profile::{
    Profile, SeriesKind, Unit,
    session::{FunctionKind, Nanos, StackId, ThreadId},
};

use crate::{Exporter, Options, ReportError, format, kinds};

pub const EXPORTER: Exporter = Exporter {
    id: "firefox",
    extension: "firefox.json",
    summary: "for profiler.firefox.com: threads, samples, GC pauses and exceptions in time",
    binary: false,
    single_samples: true,
    snapshots: false,
    render,
};

/// A garbage collection, another pause, or a wait for a lock.
struct PauseMarker {
    name: StringHandle,
    category: CategoryHandle,
    detail: StringHandle,
}

impl fx::StaticSchemaMarker for PauseMarker {
    const UNIQUE_MARKER_TYPE_NAME: &'static str = "clrscope-gc";
    const LOCATIONS: fx::MarkerLocations = fx::MarkerLocations::MARKER_CHART
        .union(fx::MarkerLocations::MARKER_TABLE)
        .union(fx::MarkerLocations::TIMELINE_OVERVIEW);
    const CHART_LABEL: Option<&'static str> = Some("{marker.data.detail}");
    const TABLE_LABEL: Option<&'static str> = Some("{marker.name} – {marker.data.detail}");
    const FIELDS: &'static [fx::StaticSchemaMarkerField] = &[fx::StaticSchemaMarkerField {
        key: "detail",
        label: "Detail",
        format: fx::MarkerFieldFormat::String,
        flags: fx::MarkerFieldFlags::SEARCHABLE,
    }];

    fn name(&self, _profile: &mut fx::Profile) -> StringHandle {
        self.name
    }

    fn category(&self, _profile: &mut fx::Profile) -> CategoryHandle {
        self.category
    }

    fn string_field_value(&self, _field_index: u32) -> StringHandle {
        self.detail
    }

    fn number_field_value(&self, _field_index: u32) -> f64 {
        0.0
    }
}

/// A thrown exception.
struct ExceptionMarker {
    category: CategoryHandle,
    ty: StringHandle,
    message: StringHandle,
    weight: u64,
}

impl fx::StaticSchemaMarker for ExceptionMarker {
    const UNIQUE_MARKER_TYPE_NAME: &'static str = "clrscope-exception";
    const LOCATIONS: fx::MarkerLocations =
        fx::MarkerLocations::MARKER_CHART.union(fx::MarkerLocations::MARKER_TABLE);
    const CHART_LABEL: Option<&'static str> = Some("{marker.data.type}");
    const TABLE_LABEL: Option<&'static str> = Some("{marker.data.type}: {marker.data.message}");
    const FIELDS: &'static [fx::StaticSchemaMarkerField] = &[
        fx::StaticSchemaMarkerField {
            key: "type",
            label: "Type",
            format: fx::MarkerFieldFormat::String,
            flags: fx::MarkerFieldFlags::SEARCHABLE,
        },
        fx::StaticSchemaMarkerField {
            key: "message",
            label: "Message",
            format: fx::MarkerFieldFormat::String,
            flags: fx::MarkerFieldFlags::SEARCHABLE,
        },
        fx::StaticSchemaMarkerField {
            key: "stands-for",
            label: "Stands for",
            format: fx::MarkerFieldFormat::Integer,
            flags: fx::MarkerFieldFlags::empty(),
        },
    ];

    fn name(&self, profile: &mut fx::Profile) -> StringHandle {
        profile.intern_string("Exception")
    }

    fn category(&self, _profile: &mut fx::Profile) -> CategoryHandle {
        self.category
    }

    fn string_field_value(&self, field_index: u32) -> StringHandle {
        if field_index == 0 { self.ty } else { self.message }
    }

    fn number_field_value(&self, _field_index: u32) -> f64 {
        self.weight as f64
    }
}

/// Categories by kind of function, with the colours that Firefox has.
struct Categories(HashMap<FunctionKind, CategoryHandle>);

impl Categories {
    fn new(out: &mut fx::Profile) -> Self {
        let list = [
            (FunctionKind::Managed, "Managed", CategoryColor::Green),
            (FunctionKind::Dynamic, "Dynamic", CategoryColor::LightGreen),
            (FunctionKind::Stub, "Stub", CategoryColor::LightBlue),
            (FunctionKind::Native, "Native", CategoryColor::Blue),
            (FunctionKind::Runtime, "Runtime", CategoryColor::Purple),
            (FunctionKind::Gc, "GC", CategoryColor::Orange),
            (FunctionKind::Jit, "JIT", CategoryColor::Yellow),
            (FunctionKind::Kernel, "Kernel", CategoryColor::Brown),
        ];
        Self(
            list.into_iter()
                .map(|(kind, name, color)| (kind, out.add_category(name, color)))
                .collect(),
        )
    }

    fn of(&self, kind: FunctionKind) -> CategoryHandle {
        self.0.get(&kind).copied().unwrap_or(CategoryHandle::OTHER)
    }
}

/// One track of Firefox: the samples of one kind of one thread.
struct Track {
    handle: fx::ThreadHandle,
    stacks: HashMap<StackId, fx::StackHandle>,
}

struct Writer<'a> {
    profile: &'a Profile,
    options: &'a Options,
    out: fx::Profile,
    categories: Categories,
}

impl Writer<'_> {
    fn time(&self, time: Nanos) -> Timestamp {
        Timestamp::from_nanos_since_reference(time.saturating_sub(self.profile.info.start))
    }

    fn stack(&mut self, track: &mut Track, stack: StackId) -> Option<fx::StackHandle> {
        // From the innermost frame that is known, or the root, outwards: no recursion, stacks may
        // be deep.
        let tables = &self.profile.tables;
        let mut missing = Vec::new();
        let mut at = Some(stack);
        let mut parent = None;
        while let Some(id) = at {
            if let Some(handle) = track.stacks.get(&id) {
                parent = Some(*handle);
                break;
            }
            missing.push(id);
            at = tables.parent(id);
        }
        let mut handle = parent;
        for id in missing.into_iter().rev() {
            let frame = tables.frame(tables.stack_frame(id));
            let label = format::frame(tables, frame, self.options.names, self.options.lines);
            let label = self.out.intern_string(&label);
            let category = self.categories.of(tables.function(frame.function).kind);
            let frame = FrameInfo {
                frame: fx::Frame::Label(label),
                category_pair: category.into(),
                flags: FrameFlags::empty(),
            };
            let frame = self.out.intern_frame(track.handle, frame);
            let interned = self.out.intern_stack(track.handle, handle, frame);
            track.stacks.insert(id, interned);
            handle = Some(interned);
        }
        handle
    }

    /// Marks what a thread did for some time, with the stack that led to it.
    fn interval(
        &mut self,
        tracks: &mut HashMap<ThreadId, Track>,
        thread: ThreadId,
        stack: StackId,
        name: &str,
        detail: &str,
        (from, to): (Nanos, Nanos),
    ) {
        let Some(track) = tracks.get_mut(&thread) else { return };
        let (name, detail) = (self.out.intern_string(name), self.out.intern_string(detail));
        let marker = PauseMarker { name, category: CategoryHandle::OTHER, detail };
        let timing = MarkerTiming::Interval(self.time(from), self.time(to));
        let handle = self.out.add_marker(track.handle, timing, marker);
        let stack = self.stack(track, stack);
        self.out.set_marker_stack(track.handle, handle, stack);
    }

    fn samples(&mut self, kind: SeriesKind) {
        let mut tracks = self.tracks(kind);
        let profile = self.profile;
        match (&profile.series(kind).samples, kind) {
            (_, SeriesKind::Exceptions) => self.exceptions(&mut tracks),
            (_, SeriesKind::Allocations) => {
                for sample in &profile.allocations.samples {
                    let weight = sample.bytes.min(i32::MAX as u64) as i32;
                    self.sample(&mut tracks, sample.thread, sample.stack, sample.time, 0, weight);
                }
            }
            (_, SeriesKind::Locks) => self.locks(&mut tracks),
            // Intervals, as waits for locks are.
            (_, SeriesKind::Jit) => {
                for one in &profile.jit.compilations {
                    self.sample(&mut tracks, one.thread, one.stack, one.time, 0, 1);
                    let method = profile.compiled_function(one);
                    let detail = profile.tables.function_name(method, self.options.names);
                    let to = one.time.saturating_add(one.duration.unwrap_or(0));
                    self.interval(
                        &mut tracks,
                        one.thread,
                        one.stack,
                        "Compilation",
                        &detail,
                        (one.time, to),
                    );
                }
            }
            (_, SeriesKind::Loads) => self.loads(&mut tracks),
            (Some(table), _) => {
                for row in 0..table.len() {
                    let cpu = match kind == SeriesKind::Cpu
                        || table.state[row] == profile::session::ThreadState::Running
                    {
                        true => table.weight[row],
                        false => 0,
                    };
                    self.sample(
                        &mut tracks,
                        table.thread[row],
                        table.stack[row],
                        table.time[row],
                        cpu,
                        1,
                    );
                }
            }
            (None, _) => {
                for cell in &profile.series(kind).cells {
                    let (cpu, weight) = match kind.value_type().unit {
                        Unit::Nanoseconds => (cell.weight, u64::from(cell.samples)),
                        Unit::Bytes | Unit::Count => (0, cell.weight),
                    };
                    let weight = weight.min(i32::MAX as u64) as i32;
                    self.sample(&mut tracks, cell.thread, cell.stack, profile.start, cpu, weight);
                }
            }
        }
    }

    /// A track for each thread with samples of this kind, the heaviest first.
    fn tracks(&mut self, kind: SeriesKind) -> HashMap<ThreadId, Track> {
        let info = &self.profile.info;
        let start = self.time(self.profile.start);
        let process = self.out.add_process(
            &format!("{} ({})", info.process_name, kind.id()),
            info.pid,
            start,
        );
        self.out.set_process_end_time(process, self.time(self.profile.stop));
        let mut tracks = HashMap::new();
        let weights = self.profile.series(kind).by_thread(self.profile.tables.threads.len());
        let mut order: Vec<_> = self
            .profile
            .tables
            .threads
            .iter()
            .filter(|t| weights[t.id.index()].samples > 0)
            .collect();
        order::sort_by_key(&mut order, |thread| {
            (std::cmp::Reverse(weights[thread.id.index()].weight), thread.id)
        });
        for thread in order {
            let is_main = thread.os_tid == info.pid;
            let start = self.time(thread.started.unwrap_or(self.profile.start));
            let handle = self.out.add_thread(process, thread.os_tid, start, is_main);
            self.out.set_thread_name(handle, &self.profile.tables.thread_name(thread.id));
            if kind.value_type().unit == Unit::Bytes {
                self.out.set_thread_samples_weight_type(handle, fx::WeightType::Bytes);
            }
            if let Some(ended) = thread.ended {
                self.out.set_thread_end_time(handle, self.time(ended));
            }
            tracks.insert(thread.id, Track { handle, stacks: HashMap::new() });
        }
        tracks
    }

    fn locks(&mut self, tracks: &mut HashMap<ThreadId, Track>) {
        for wait in &self.profile.locks.waits {
            self.sample(tracks, wait.thread, wait.stack, wait.time, 0, 1);
            let Some(track) = tracks.get_mut(&wait.thread) else { continue };
            let owner = wait
                .owner
                .map(|owner| format!("held by {}", self.profile.tables.thread_name(owner)));
            let detail = self.out.intern_string(&owner.unwrap_or_default());
            let (name, category) = (self.out.intern_string("Lock wait"), CategoryHandle::OTHER);
            let (from, to) =
                (self.time(wait.time), self.time(wait.time.saturating_add(wait.duration)));
            let marker = PauseMarker { name, category, detail };
            let handle =
                self.out.add_marker(track.handle, MarkerTiming::Interval(from, to), marker);
            let stack = self.stack(track, wait.stack);
            self.out.set_marker_stack(track.handle, handle, stack);
        }
    }

    fn loads(&mut self, tracks: &mut HashMap<ThreadId, Track>) {
        for load in &self.profile.loads.assemblies {
            self.sample(tracks, load.thread, load.stack, load.time, 0, 1);
            let to = load.time.saturating_add(load.duration.unwrap_or(0));
            self.interval(
                tracks,
                load.thread,
                load.stack,
                "Assembly load",
                &load.name,
                (load.time, to),
            );
        }
        for load in &self.profile.loads.types {
            self.sample(tracks, load.thread, load.stack, load.time, 0, 1);
            let detail = self.profile.tables.ty(load.ty).name.clone();
            let times = (load.time, load.time.saturating_add(load.duration));
            self.interval(tracks, load.thread, load.stack, "Type load", &detail, times);
        }
    }

    fn exceptions(&mut self, tracks: &mut HashMap<ThreadId, Track>) {
        for sample in &self.profile.exceptions.samples {
            let weight = sample.weight.min(i32::MAX as u64) as i32;
            self.sample(tracks, sample.thread, sample.stack, sample.time, 0, weight);
            let Some(track) = tracks.get_mut(&sample.thread) else { continue };
            let ty = self.out.intern_string(&self.profile.tables.ty(sample.ty).name);
            let message = self.out.intern_string(sample.message.as_deref().unwrap_or_default());
            let (category, weight) = (CategoryHandle::OTHER, sample.weight);
            let timing = match sample.time_to_catch {
                Some(to_catch) => MarkerTiming::Interval(
                    self.time(sample.time),
                    self.time(sample.time.saturating_add(to_catch)),
                ),
                None => MarkerTiming::Instant(self.time(sample.time)),
            };
            let marker = ExceptionMarker { category, ty, message, weight };
            let handle = self.out.add_marker(track.handle, timing, marker);
            let stack = self.stack(track, sample.stack);
            self.out.set_marker_stack(track.handle, handle, stack);
        }
    }

    fn sample(
        &mut self,
        tracks: &mut HashMap<ThreadId, Track>,
        thread: ThreadId,
        stack: StackId,
        time: Nanos,
        cpu: u64,
        weight: i32,
    ) {
        let Some(track) = tracks.get_mut(&thread) else { return };
        let stack = self.stack(track, stack);
        let time = self.time(time);
        self.out.add_sample(track.handle, time, stack, fx::CpuDelta::from_nanos(cpu), weight);
    }

    fn pauses(&mut self) {
        let profile = self.profile;
        if profile.pauses.is_empty() && profile.gcs.is_empty() {
            return;
        }
        let info = &profile.info;
        let start = self.time(profile.start);
        let process = self.out.add_process(&format!("{} (gc)", info.process_name), info.pid, start);
        let track = self.out.add_thread(process, info.pid, start, false);
        self.out.set_thread_name(track, "Garbage collection");
        self.out.set_thread_show_markers_in_timeline(track, true);
        let category = self.categories.of(FunctionKind::Gc);
        for gc in &profile.gcs {
            let name = self.out.intern_string(&format!("GC gen {}", gc.generation));
            let induced = if gc.induced { ", induced" } else { "" };
            let detail = format!("#{} {} {}{induced}", gc.number, gc.reason, gc.kind);
            let detail = self.out.intern_string(&detail);
            let timing =
                MarkerTiming::Interval(self.time(gc.start), self.time(gc.end.max(gc.start)));
            self.out.add_marker(track, timing, PauseMarker { name, category, detail });
        }
        for pause in &profile.pauses {
            let name = self.out.intern_string("Pause");
            let detail = match pause.gc {
                Some(number) => format!("{} for collection #{number}", pause.reason),
                None => pause.reason.clone(),
            };
            let detail = self.out.intern_string(&detail);
            let (from, to) = (pause.suspend_start, pause.resume_end.max(pause.suspend_start));
            let timing = MarkerTiming::Interval(self.time(from), self.time(to));
            self.out.add_marker(track, timing, PauseMarker { name, category, detail });
        }
    }
}

fn render(profile: &Profile, options: &Options, out: &mut dyn Write) -> Result<(), ReportError> {
    let info = &profile.info;
    let rates = info.profilers.iter().filter_map(|run| profile.rate_hz(&run.id));
    let rate = rates.reduce(f64::max).unwrap_or(100.0).max(1.0);
    let mut fx = fx::Profile::new(
        &format!("{} – .NET {} – clrscope {}", info.process_name, info.runtime, info.tool_version),
        fx::ReferenceTimestamp::from_duration_since_unix_epoch(Duration::from_millis(
            info.start_unix_ms,
        )),
        fx::SamplingInterval::from_hz(rate as f32),
    );
    fx.set_os_name(&info.platform);
    let categories = Categories::new(&mut fx);
    // All names are in the profile; there is nothing to look up on a symbol server.
    fx.set_symbolicated(true);
    let mut writer = Writer { profile, options, out: fx, categories };
    for kind in kinds(profile, options) {
        writer.samples(kind);
    }
    writer.pauses();
    document::plain::write_json(out, &writer.out)?;
    Ok(())
}
