//! Heap snapshots of `dotnet-gcdump` and PerfView.

use crate::{ImportError, limits, out::Out, unpack::Limited};
use heap::{MemoryBudget, NodeId, RootKind, Snapshot, gcdump::GcdumpError};
use session::{HeapEnd, MAX_HEAP_CHUNK, SessionRecord, StaticField};
use std::io::Read;
use wire::heap::{Encoder, ROOT_PINNING, ROOT_WEAK};

/// Bytes of a file; it is read as a whole.
const FILE: u64 = 1 << 30;

/// Bytes that the objects of a file may take.
const MEMORY: u64 = 2 << 30;

/// Names of classes or fields in one record.
const NAMES: usize = 256;

/// Where static fields are said to be. Files have no addresses of these, and nothing else is there.
const FIELDS_AT: u64 = 0xfe00_0000_0000_0000;

pub fn read(file: impl Read, out: &mut Out<'_>) -> Result<(), ImportError> {
    let mut bytes = Vec::new();
    Limited::new(file, FILE).read_to_end(&mut bytes)?;
    let budget = MemoryBudget { bytes: MEMORY, ..MemoryBudget::default() };
    let snapshot = heap::gcdump::read(&bytes, budget).map_err(|error| match error {
        GcdumpError::Io(error) => ImportError::Io(error),
        GcdumpError::Version { .. } => ImportError::Unsupported(error.to_string()),
        error => out.damaged(error.to_string()),
    })?;
    drop(bytes);
    let end = snapshot.end().clone();
    let id = profilers::heap::SPEC.id;
    out.begin(vec![(id, "dotnet-gcdump".to_owned())], |info| {
        if !end.process.is_empty() {
            info.process_name.clone_from(&end.process);
        }
        info.pid = end.pid;
        info.start_unix_ms = end.unix_ms;
    })?;
    out.note(
        "The file is a heap dump: it has no contents of strings, and no times but that at which it \
         was taken.",
    );
    if snapshot.is_empty() {
        return Err(ImportError::Empty(out.format));
    }
    out.has_content();
    out.record(&SessionRecord::HeapBegin { snapshot: 0, time: 0 })?;
    let fields = Writing { out: &mut *out, encoder: Encoder::new(MAX_HEAP_CHUNK) };
    let fields = fields.graph(&snapshot)?;
    classes(&snapshot, out)?;
    for fields in fields.chunks(NAMES) {
        let fields = fields.to_vec();
        out.record(&SessionRecord::HeapStatics { snapshot: 0, fields })?;
    }
    let gaps = snapshot.gaps();
    let left_out = gaps.objects_over_budget + gaps.references_over_budget + gaps.others_over_budget;
    let reasons = [
        Some(end.reason).filter(|reason| !reason.is_empty() && !end.complete),
        (left_out > 0).then(|| "it is too large to be imported as a whole".to_owned()),
    ];
    let reasons: Vec<String> = reasons.into_iter().flatten().collect();
    out.record(&SessionRecord::HeapEnd(HeapEnd {
        snapshot: 0,
        time: 0,
        paused: 0,
        objects: snapshot.len() as u64,
        complete: end.complete && left_out == 0,
        reason: Some(reasons.join("; ")).filter(|reason| !reason.is_empty()),
    }))
}

/// Names of all classes; a class has the number of its type.
fn classes(snapshot: &Snapshot, out: &mut Out<'_>) -> Result<(), ImportError> {
    let mut numbered = snapshot.types().iter().enumerate().peekable();
    while numbered.peek().is_some() {
        let cut = |text: &str| text.chars().take(limits::PIECE / NAMES / 16).collect();
        let some = numbered.by_ref().take(NAMES);
        let classes = some.map(|(at, ty)| (class(at as u32), cut(&ty.name), cut(&ty.module)));
        let classes = classes.collect();
        out.record(&SessionRecord::HeapClasses { snapshot: 0, classes })?;
    }
    Ok(())
}

/// A number for a class: 0 is none.
fn class(ty: u32) -> u64 {
    u64::from(ty) + 1
}

struct Writing<'a, 'b> {
    out: &'a mut Out<'b>,
    encoder: Encoder,
}

impl Writing<'_, '_> {
    /// The encoder, with room for an item.
    fn room(&mut self) -> Result<&mut Encoder, ImportError> {
        if !self.encoder.has_room() {
            self.flush()?;
        }
        Ok(&mut self.encoder)
    }

    fn flush(&mut self) -> Result<(), ImportError> {
        let bytes = self.encoder.bytes().to_vec();
        self.encoder.clear();
        match bytes.is_empty() {
            true => Ok(()),
            false => self.out.record(&SessionRecord::HeapChunk { snapshot: 0, bytes }),
        }
    }

    /// Objects, references, generations and roots. Gives the static fields, which are roots, too.
    fn graph(mut self, snapshot: &Snapshot) -> Result<Vec<StaticField>, ImportError> {
        for node in snapshot.nodes() {
            let (address, size) = (snapshot.address(node), snapshot.size(node));
            self.room()?.object(address, class(snapshot.type_of(node)), size, 0);
            for target in snapshot.references(node) {
                self.room()?.reference(snapshot.address(*target));
            }
        }
        self.generations(snapshot)?;
        let mut fields = Vec::new();
        for (number, root) in snapshot.roots().iter().enumerate() {
            let target = snapshot.address(root.node);
            let kind = match root.kind {
                RootKind::Statics => {
                    let address = FIELDS_AT + number as u64 * 8;
                    self.room()?.slot(address, target);
                    let name = snapshot.root_name(root).unwrap_or("[static vars]").to_owned();
                    fields.push(StaticField { address, name });
                    continue;
                }
                RootKind::Stack => wire::heap::RootKind::Stack,
                RootKind::Handle => wire::heap::RootKind::Handle,
                RootKind::Finalizer => wire::heap::RootKind::Finalizer,
                RootKind::Other => wire::heap::RootKind::Other,
            };
            let flag = |is: bool, flag: u8| if is { flag } else { 0 };
            let flags = flag(root.pinned, ROOT_PINNING) | flag(root.weak, ROOT_WEAK);
            self.room()?.root(target, kind, flags, 0);
        }
        self.flush()?;
        Ok(fields)
    }

    /// Ranges of neighbors of the same generation, where the file has generations.
    fn generations(&mut self, snapshot: &Snapshot) -> Result<(), ImportError> {
        let mut range: Option<(usize, u64, u64)> = None;
        for node in snapshot.nodes() {
            let (from, to) = extent(snapshot, node);
            let generation = snapshot.generation_of(node);
            match &mut range {
                Some((of, _, end)) if *of == generation => *end = to,
                _ => {
                    self.generation(range.replace((generation, from, to)))?;
                }
            }
        }
        self.generation(range)
    }

    fn generation(&mut self, range: Option<(usize, u64, u64)>) -> Result<(), ImportError> {
        match range {
            Some((generation @ 0..=5, from, to)) => {
                let length = to.saturating_sub(from);
                self.room()?.generation(generation as u8, from, length, length);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

fn extent(snapshot: &Snapshot, node: NodeId) -> (u64, u64) {
    let from = snapshot.address(node);
    (from, from.saturating_add(snapshot.size(node)))
}
