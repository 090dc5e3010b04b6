//! Reads the tables, and tells what has been added to them.

use super::{TYPES, WITHOUT_TABLE, give_back, next_table};
use crate::host::resolver::Resolver;
use crate::os::{clock, threads};
use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use wire::{AllocatedObjects, Record};

/// Most types of one record: it has to fit into a frame.
const MOST_TYPES: usize = 8192;

/// Reads the tables, and remembers what it has reported of them so far.
#[derive(Default)]
pub struct Reader {
    /// Of each row of each table: objects and bytes.
    told: HashMap<u32, Vec<(u64, u64)>>,
    /// Ids on the wire of the types, by their numbers from 1.
    classes: Vec<u32>,
    /// Drops of tables that are gone, and of all.
    gone: u64,
    no_room: u64,
    memory: usize,
}

impl Reader {
    /// What is not in the tables, by reason.
    pub fn dropped(&self) -> impl Iterator<Item = (&'static str, u64)> {
        [
            ("allocated objects, too many types in a thread", self.no_room),
            ("allocated objects in threads without a table", WITHOUT_TABLE.load(Relaxed)),
        ]
        .into_iter()
    }

    /// About how many bytes all of it holds.
    pub fn memory(&self) -> usize {
        self.memory
    }

    /// Begins to read all tables.
    pub fn begin(&mut self) {
        self.no_room = self.gone;
        self.memory =
            self.told.values().map(|told| told.capacity() * size_of::<(u64, u64)>()).sum();
    }

    /// Tells what was allocated since the last time, of one table: the first at this place or
    /// behind it. Gives the place behind that table; `None` if there are no more.
    pub fn read(
        &mut self,
        place: usize,
        resolver: &mut Resolver,
        out: &mut Vec<Record>,
    ) -> Option<usize> {
        let types = TYPES.get()?;
        let (place, slot, table) = next_table(place)?;
        // Asked first: what is read of a thread that is gone is all there is.
        let ended = threads::is_gone(table.os_tid());
        let told = self.told.entry(table.number()).or_default();
        let rows = table.rows();
        told.resize(rows.len().max(told.len()), (0, 0));
        let mut grown = Vec::new();
        for (row, told) in rows.iter().zip(told.iter_mut()) {
            let (objects, bytes) = row.counts();
            if (objects, bytes) == *told {
                continue;
            }
            if let Some(number) = types.number_of(row) {
                grown.push((number, objects.wrapping_sub(told.0), bytes.wrapping_sub(told.1)));
                *told = (objects, bytes);
            }
        }
        // Each number was given before this, so its name is here now.
        for name in types.take_fresh() {
            self.classes.push(resolver.named_class(&name, out));
        }
        let class = |number: u32| self.classes.get((number as usize).checked_sub(1)?).copied();
        let counts: Vec<(u32, u64, u64)> = grown
            .into_iter()
            .filter_map(|(number, objects, bytes)| Some((class(number)?, objects, bytes)))
            .collect();
        let (os_tid, time) = (table.os_tid(), clock::monotonic());
        let record = |counts: &[(u32, u64, u64)]| {
            Record::AllocatedObjects(AllocatedObjects { time, os_tid, counts: counts.to_vec() })
        };
        out.extend(counts.chunks(MOST_TYPES).map(record));
        self.no_room += table.no_room();
        self.memory += table.memory();
        if ended {
            self.gone += table.no_room();
            self.told.remove(&table.number());
            // A module that goes looks at all tables, under this lock.
            let known = types.lock();
            // SAFETY: the thread is gone, this is the one reader, and the other one that there may
            // be is locked out.
            unsafe { give_back(slot) };
            drop(known);
        }
        Some(place + 1)
    }
}
