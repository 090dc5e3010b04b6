//! Prints what is in a `.gcdump` file, a line for each object and each root: for comparing with
//! what others read.
//!
//!     cargo run -p heap --example gcdump FILE [COPY]
//!
//! With a second file, what was read is also written there again.

use std::{
    error::Error,
    io::{BufWriter, Write},
};

use heap::{MemoryBudget, gcdump};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().ok_or("name a file")?;
    let snapshot = gcdump::read(&std::fs::read(file)?, MemoryBudget::default())?;
    if let Some(copy) = arguments.next() {
        gcdump::write(&snapshot, BufWriter::new(std::fs::File::create(copy)?))?;
    }
    let mut out = BufWriter::new(std::io::stdout().lock());
    writeln!(out, "# {:?}", snapshot.end())?;
    writeln!(out, "# {:?}", snapshot.gaps())?;
    for node in snapshot.nodes() {
        let references: Vec<String> = snapshot
            .references(node)
            .iter()
            .map(|to| format!("{:x}", snapshot.address(*to)))
            .collect();
        let name = &snapshot.types()[snapshot.type_of(node) as usize].name;
        writeln!(
            out,
            "object\t{:x}\t{}\t{name}\t{}\t{}",
            snapshot.address(node),
            snapshot.size(node),
            heap::generation_name(snapshot.generation_of(node)),
            references.join(" ")
        )?;
    }
    for root in snapshot.roots() {
        let (address, kind) = (snapshot.address(root.node), root.kind.name());
        writeln!(
            out,
            "root\t{address:x}\t{kind}\t{}",
            snapshot.root_name(root).unwrap_or_default()
        )?;
    }
    Ok(out.flush()?)
}
