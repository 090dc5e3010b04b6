use std::{
    collections::HashMap,
    io::{self, Write},
};

use super::{GcdumpError, SIGNATURE, TICKS_TO_1970, tag};
use crate::{NodeId, RootKind, Snapshot};

/// What [`write()`] says it is, which viewers show.
const TOOL: &str = "clrscope";

/// Nodes that stand for roots, below the node of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RootNode {
    All,
    Statics,
    /// A static field that has a name.
    Static,
    Locals,
    /// Holds the four that follow.
    Others,
    Finalizer,
    Pinning,
    Strong,
    Other,
}

impl RootNode {
    /// The node that holds it.
    fn above(self) -> Option<Self> {
        match self {
            Self::All => None,
            Self::Statics | Self::Locals | Self::Others => Some(Self::All),
            Self::Static => Some(Self::Statics),
            Self::Finalizer | Self::Pinning | Self::Strong | Self::Other => Some(Self::Others),
        }
    }

    /// As `dotnet-gcdump` writes it; `field` is the static field.
    fn name(self, field: Option<&str>) -> String {
        match self {
            Self::All => "[.NET Roots]".into(),
            Self::Statics => "[static vars]".into(),
            Self::Static => format!("[static var {}]", field.unwrap_or_default()),
            Self::Locals => "[local vars]".into(),
            Self::Others => "[other roots]".into(),
            Self::Finalizer => "[finalizer Handles]".into(),
            Self::Pinning => "[pinning Handles]".into(),
            Self::Strong => "[strong Handles]".into(),
            Self::Other => "[other Handles]".into(),
        }
    }
}

/// A node that is none of the heap.
struct Extra {
    type_index: i32,
    children: Vec<u32>,
}

/// Writes a snapshot as `dotnet-gcdump` does, and gives the number of bytes.
///
/// Left out are what the format has no place for: weak roots, contents of strings, sizes of objects
/// beyond 2 GB.
///
/// # Errors
/// When writing fails, or the snapshot is too large for the format.
pub fn write(snapshot: &Snapshot, output: impl Write) -> Result<u64, GcdumpError> {
    let mut out = Out { output, at: 0 };
    let types = Types::of(snapshot);
    let (names, extras) = root_nodes(snapshot, types.names.len() as i32);
    let graph = Graph::new(snapshot, &types, &extras)?;

    out.text(Some(std::str::from_utf8(SIGNATURE).unwrap_or_default()))?;
    out.begin("GCHeapDump", 10, 8)?;
    out.begin("Graphs.MemoryGraph", 1, 0)?;
    out.i64(graph.total_size as i64)?;
    out.i32(snapshot.len() as i32)?;
    out.i32((types.names.len() + names.len()) as i32)?;
    for ((name, module), size) in types.names.iter().zip(&types.sizes) {
        out.text(Some(name))?;
        out.i32(*size)?;
        out.text(module.as_deref())?;
    }
    for name in &names {
        out.text(Some(name))?;
        out.i32(0)?;
        out.text(None)?;
    }
    out.i32(graph.nodes() as i32)?;
    let mut at = UNDEFINED.len() as u32;
    graph.each(|part| match part {
        Part::Node => out.i32(at as i32),
        Part::Number(number) => {
            at += compressed_length(number);
            Ok(())
        }
    })?;
    out.i32(graph.block as i32)?;
    out.bytes(&UNDEFINED)?;
    graph.each(|part| match part {
        Part::Node => Ok(()),
        Part::Number(number) => out.compressed(number),
    })?;
    out.i32(graph.nodes() as i32)?;
    for node in snapshot.nodes() {
        out.i64(snapshot.address(node) as i64)?;
    }
    for _ in &extras {
        out.i64(0)?;
    }
    // 64 bits.
    out.bytes(&[tag::BYTE, 1, tag::END_OBJECT])?;
    behind_graph(snapshot, &mut out)?;
    out.output.flush()?;
    Ok(out.at)
}

/// What follows the graph: when and of which process it was taken, and the ends of all objects.
fn behind_graph(snapshot: &Snapshot, out: &mut Out<impl Write>) -> Result<(), GcdumpError> {
    out.bytes(&[1])?;
    // Nothing was left out to make the file smaller.
    out.bytes(&1f32.to_le_bytes())?;
    out.bytes(&1f32.to_le_bytes())?;
    out.bytes(&[tag::NULL])?;
    heap_info(snapshot, out)?;
    let end = snapshot.end();
    out.text(Some(&end.reason))?;
    out.i64((end.unix_ms as i64).saturating_mul(10_000).saturating_add(TICKS_TO_1970))?;
    out.text(None)?;
    out.text(Some(&end.process))?;
    out.i32(end.pid as i32)?;
    out.i64(0)?;
    out.i64(0)?;
    // No multipliers by type; nothing of COM, in a region that may be skipped; the tool.
    out.i32(0)?;
    out.bytes(&[tag::SKIP_REGION])?;
    out.i32(0)?;
    out.bytes(&[tag::NULL])?;
    let behind_com = out.label()?;
    out.bytes(&[tag::STRING])?;
    out.text(Some(TOOL))?;
    out.bytes(&[tag::END_OBJECT])?;

    // No more objects; what forward references mean; where that stands.
    out.bytes(&[tag::END_OBJECT])?;
    let table = out.label()?;
    out.i32(1)?;
    out.i32(behind_com as i32)?;
    let trailer = out.label()?;
    out.i32(table as i32)?;
    out.i32(trailer as i32)?;
    Ok(())
}

/// The node that others refer to while nobody has described them: type 0, no references. It comes
/// first.
const UNDEFINED: [u8; 2] = [0, 0];

struct Out<W> {
    output: W,
    at: u64,
}

impl<W: Write> Out<W> {
    fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.at += bytes.len() as u64;
        self.output.write_all(bytes)
    }

    fn i32(&mut self, value: i32) -> io::Result<()> {
        self.bytes(&value.to_le_bytes())
    }

    fn i64(&mut self, value: i64) -> io::Result<()> {
        self.bytes(&value.to_le_bytes())
    }

    /// Each UTF-16 unit on its own as one to three bytes, halves of pairs too.
    fn text(&mut self, text: Option<&str>) -> io::Result<()> {
        let Some(text) = text else {
            return self.i32(-1);
        };
        let mut bytes = Vec::with_capacity(text.len());
        let mut units = 0;
        for unit in text.encode_utf16() {
            units += 1;
            let low = |shift: u16| 0x80 | (unit >> shift & 0x3f) as u8;
            match unit {
                0..0x80 => bytes.push(unit as u8),
                0x80..0x800 => bytes.extend([0xc0 | (unit >> 6) as u8, low(0)]),
                _ => bytes.extend([0xe0 | (unit >> 12) as u8, low(6), low(0)]),
            }
        }
        self.i32(units)?;
        self.bytes(&bytes)
    }

    fn compressed(&mut self, value: i32) -> io::Result<()> {
        for place in (0..compressed_length(value)).rev() {
            let more = if place > 0 { 0x80 } else { 0 };
            self.bytes(&[(value >> (place * 7)) as u8 & 0x7f | more])?;
        }
        Ok(())
    }

    /// Where something is that is pointed to.
    fn label(&self) -> Result<u32, GcdumpError> {
        u32::try_from(self.at)
            .map_err(|_| GcdumpError::TooLarge("the file would have more than 4 GB"))
    }

    /// The beginning of an object with a description of its type, as at the first of a type.
    fn begin(&mut self, name: &str, version: i32, needs: i32) -> io::Result<()> {
        // The type of types is null.
        self.bytes(&[tag::BEGIN_OBJECT, tag::BEGIN_OBJECT, tag::NULL])?;
        self.i32(version)?;
        self.i32(needs)?;
        self.text(Some(name))?;
        self.bytes(&[tag::END_OBJECT])
    }
}

/// Bytes of a number: seven bits in each, with the sign as the highest.
fn compressed_length(value: i32) -> u32 {
    (1..5).find(|length| value << (32 - 7 * length) >> (32 - 7 * length) == value).unwrap_or(5)
}

struct Types {
    names: Vec<(String, Option<String>)>,
    /// The size of a type is that of its first object.
    sizes: Vec<i32>,
}

impl Types {
    fn of(snapshot: &Snapshot) -> Self {
        let undefined = ("UNDEFINED".to_owned(), None);
        let named = snapshot.types().iter().map(|info| {
            (info.name.clone(), Some(info.module.clone()).filter(|module| !module.is_empty()))
        });
        let names: Vec<_> = std::iter::once(undefined).chain(named).collect();
        let mut sizes = vec![-1; names.len()];
        for node in snapshot.nodes() {
            if let Some(size) =
                sizes.get_mut(snapshot.type_of(node) as usize + 1).filter(|size| **size < 0)
            {
                *size = size_of(snapshot, node);
            }
        }
        if let Some(size) = sizes.first_mut() {
            *size = 0;
        }
        Self { names, sizes }
    }
}

fn size_of(snapshot: &Snapshot, node: NodeId) -> i32 {
    i32::try_from(snapshot.size(node)).unwrap_or(i32::MAX)
}

/// A node for roots, the name of its static field, and what it holds.
type Held<'a> = (RootNode, Option<&'a str>, Vec<u32>);

/// Names of the types of the nodes for roots, which follow the `types` others, and those nodes, the
/// first of all first.
fn root_nodes(snapshot: &Snapshot, types: i32) -> (Vec<String>, Vec<Extra>) {
    let mut held = held_by_roots(snapshot);
    let number = |index: usize| snapshot.len() as u32 + index as u32;
    let links: Vec<(usize, u32)> = held
        .iter()
        .enumerate()
        .filter_map(|(index, (node, _, _))| {
            let above = node.above()?;
            Some((held.iter().position(|(other, _, _)| *other == above)?, number(index)))
        })
        .collect();
    for (above, child) in links {
        if let Some((_, _, children)) = held.get_mut(above) {
            children.push(child);
        }
    }
    let names = held.iter().map(|(node, name, _)| node.name(*name)).collect();
    let extras = held
        .into_iter()
        .enumerate()
        .map(|(index, (_, _, children))| Extra { type_index: types + index as i32, children })
        .collect();
    (names, extras)
}

/// The nodes for roots, with the objects that they refer to. Those without any are left out.
fn held_by_roots(snapshot: &Snapshot) -> Vec<Held<'_>> {
    let mut held: Vec<Held<'_>> = [
        RootNode::All,
        RootNode::Statics,
        RootNode::Locals,
        RootNode::Others,
        RootNode::Finalizer,
        RootNode::Pinning,
        RootNode::Strong,
        RootNode::Other,
    ]
    .map(|node| (node, None, Vec::new()))
    .into();
    let mut fields: HashMap<&str, usize> = HashMap::new();
    for root in snapshot.roots().iter().filter(|root| !root.weak) {
        let node = match root.kind {
            RootKind::Statics => RootNode::Statics,
            RootKind::Stack => RootNode::Locals,
            RootKind::Finalizer => RootNode::Finalizer,
            RootKind::Handle if root.pinned => RootNode::Pinning,
            RootKind::Handle => RootNode::Strong,
            RootKind::Other => RootNode::Other,
        };
        let name = snapshot.root_name(root).filter(|_| node == RootNode::Statics);
        let index = match name {
            Some(name) => Some(*fields.entry(name).or_insert_with(|| {
                held.push((RootNode::Static, Some(name), Vec::new()));
                held.len() - 1
            })),
            None => held.iter().position(|(other, _, _)| *other == node),
        };
        if let Some((_, _, children)) = index.and_then(|index| held.get_mut(index))
            && children.last() != Some(&root.node)
        {
            children.push(root.node);
        }
    }
    let holds = |nodes: &[RootNode]| {
        held.iter().any(|(node, _, held)| nodes.contains(node) && !held.is_empty())
    };
    let statics = holds(&[RootNode::Statics, RootNode::Static]);
    let others =
        holds(&[RootNode::Finalizer, RootNode::Pinning, RootNode::Strong, RootNode::Other]);
    held.retain(|(node, _, children)| match node {
        RootNode::All => true,
        RootNode::Statics => statics,
        RootNode::Others => others,
        _ => !children.is_empty(),
    });
    held
}

/// A step through the descriptions of all nodes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// A node begins.
    Node,
    /// A number of it.
    Number(i32),
}

struct Graph<'a> {
    snapshot: &'a Snapshot,
    types: &'a Types,
    extras: &'a [Extra],
    /// Bytes of all descriptions.
    block: u64,
    total_size: u64,
}

impl<'a> Graph<'a> {
    fn new(
        snapshot: &'a Snapshot,
        types: &'a Types,
        extras: &'a [Extra],
    ) -> Result<Self, GcdumpError> {
        let mut graph = Self { snapshot, types, extras, block: 0, total_size: 0 };
        if graph.nodes() > i32::MAX as usize
            || types.names.len() + extras.len() > i32::MAX as usize / 2
        {
            return Err(GcdumpError::TooLarge("there are more than two billion nodes"));
        }
        let mut block = UNDEFINED.len() as u64;
        graph.each(|part| {
            if let Part::Number(number) = part {
                block += u64::from(compressed_length(number));
            }
            Ok(())
        })?;
        if block > i32::MAX as u64 {
            return Err(GcdumpError::TooLarge("descriptions of nodes would have more than 2 GB"));
        }
        graph.block = block;
        graph.total_size = snapshot.nodes().map(|node| size_of(snapshot, node) as u64).sum();
        Ok(graph)
    }

    fn nodes(&self) -> usize {
        self.snapshot.len() + self.extras.len()
    }

    /// Goes through the descriptions: type and whether a size follows, the size, references, each
    /// as a distance.
    fn each(&self, mut visit: impl FnMut(Part) -> io::Result<()>) -> io::Result<()> {
        for node in self.snapshot.nodes() {
            let type_index = self.snapshot.type_of(node) as usize + 1;
            let size = size_of(self.snapshot, node);
            let own_size = (self.types.sizes.get(type_index) != Some(&size)).then_some(size);
            describe(
                i64::from(node),
                type_index as i32,
                own_size,
                self.snapshot.references(node),
                &mut visit,
            )?;
        }
        for (index, extra) in self.extras.iter().enumerate() {
            let index = (self.snapshot.len() + index) as i64;
            describe(index, extra.type_index, None, &extra.children, &mut visit)?;
        }
        Ok(())
    }
}

fn describe(
    index: i64,
    type_index: i32,
    size: Option<i32>,
    children: &[u32],
    visit: &mut impl FnMut(Part) -> io::Result<()>,
) -> io::Result<()> {
    visit(Part::Node)?;
    visit(Part::Number(type_index << 1 | i32::from(size.is_some())))?;
    if let Some(size) = size {
        visit(Part::Number(size))?;
    }
    visit(Part::Number(children.len() as i32))?;
    children.iter().try_for_each(|child| visit(Part::Number((i64::from(*child) - index) as i32)))
}

/// Sizes of the segments and which generations are in them.
fn heap_info<W: Write>(snapshot: &Snapshot, out: &mut Out<W>) -> Result<(), GcdumpError> {
    out.begin("DotNetHeapInfo", 0, 0)?;
    let ranges = &snapshot.generation_ranges;
    out.i64(ranges.iter().map(|range| range.length).fold(0u64, u64::saturating_add) as i64)?;
    out.i32(ranges.len() as i32)?;
    let mut described = None;
    for range in ranges {
        match described {
            None => {
                // The type begins behind the tag of the object.
                described = Some(out.label()?.saturating_add(1));
                out.begin("GCHeapDumpSegment", 1, 1)?;
            }
            Some(place) => {
                out.bytes(&[tag::BEGIN_OBJECT, tag::OBJECT_REFERENCE])?;
                out.i32(place as i32)?;
            }
        }
        let end = range.start.saturating_add(range.length);
        out.i64(range.start as i64)?;
        out.i64(end as i64)?;
        // A generation ends where the next younger one begins; what is never collected counts as
        // the oldest.
        let generation = if range.generation > 4 { 2 } else { range.generation };
        for other in 0..=4 {
            out.i64(if other <= generation { end } else { range.start } as i64)?;
        }
        out.bytes(&[tag::END_OBJECT])?;
    }
    Ok(out.bytes(&[tag::END_OBJECT])?)
}
