//! Try blocks, filters and handlers as a tree. Source: ECMA-335 I.12.4.2.7 and II.19.

use crate::{ClauseKind, CodeRange, ExceptionClause};

/// What a region is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RegionKind {
    /// The whole method.
    Method,
    /// Protected by one or more clauses.
    Try,
    /// Decides whether the handler behind it runs.
    Filter,
    /// Handles an exception, because of its type or of a filter.
    Catch,
    /// A finally or fault handler.
    Finally,
}

/// A stretch of code that control enters and leaves by rules.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Region {
    pub range: CodeRange,
    pub kind: RegionKind,
    /// Index of the smallest region around it; that of [`ROOT`] is its own.
    pub parent: u32,
    /// First and last of the clauses that it belongs to: one for handlers, any number for try
    /// blocks.
    pub clauses: (u32, u32),
}

/// Index of the region that is the whole method.
pub(crate) const ROOT: u32 = 0;

/// All regions, outer ones before inner ones, in the order of their starts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Regions {
    list: Vec<Region>,
    /// By clause: its try block.
    tries: Vec<u32>,
    /// Room for all parts of all clauses, to be sorted.
    parts: Vec<Region>,
    /// By clause, while the tree is made: its handler, and its filter if there is one.
    handlers: Vec<(u32, u32)>,
}

/// Why clauses make no tree; the number is that of a clause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RegionError {
    /// A try block, filter or handler is empty or ends behind the code.
    Range(u32),
    /// It overlaps another one without being inside.
    Overlap(u32),
    /// The parts of a clause are not in the same region.
    Apart(u32),
    /// It comes before a clause that is inside of it.
    Order(u32),
}

impl Regions {
    /// Builds the tree. Takes `n log n` for `n` clauses.
    pub fn build(clauses: &[ExceptionClause], code_size: u32) -> Result<Self, RegionError> {
        let mut regions = Self::default();
        regions.rebuild(clauses, code_size)?;
        Ok(regions)
    }

    /// The same, in the room of what was there before.
    pub fn rebuild(
        &mut self,
        clauses: &[ExceptionClause],
        code_size: u32,
    ) -> Result<(), RegionError> {
        let whole = CodeRange { start: 0, end: code_size };
        let root = Region {
            range: whole,
            kind: RegionKind::Method,
            parent: ROOT,
            clauses: (u32::MAX, u32::MAX),
        };
        self.list.clear();
        self.tries.clear();
        self.parts.clear();
        self.handlers.clear();
        self.list.push(root);
        if clauses.is_empty() {
            return Ok(());
        }
        self.collect_parts(clauses, code_size)?;
        // Outer ones first; of the same range, the one that comes first.
        self.parts.sort_by_key(|region| (region.range.start, u32::MAX - region.range.end));
        self.tries.resize(clauses.len(), ROOT);
        self.handlers.resize(clauses.len(), (ROOT, ROOT));
        self.nest_parts(whole)?;
        self.check()
    }

    /// Lists try blocks, filters and handlers of all clauses.
    fn collect_parts(
        &mut self,
        clauses: &[ExceptionClause],
        code_size: u32,
    ) -> Result<(), RegionError> {
        for (index, clause) in (0..).zip(clauses) {
            let mut add = |range: CodeRange, kind| {
                if range.is_empty() || range.end > code_size {
                    return Err(RegionError::Range(index));
                }
                self.parts.push(Region { range, kind, parent: ROOT, clauses: (index, index) });
                Ok(())
            };
            add(clause.try_block, RegionKind::Try)?;
            let kind = match clause.kind {
                ClauseKind::Catch(_) => RegionKind::Catch,
                ClauseKind::Filter(start) => {
                    add(CodeRange { start, end: clause.handler.start }, RegionKind::Filter)?;
                    RegionKind::Catch
                }
                ClauseKind::Finally | ClauseKind::Fault => RegionKind::Finally,
            };
            add(clause.handler, kind)?;
        }
        Ok(())
    }

    /// Makes the tree of the sorted parts.
    fn nest_parts(&mut self, whole: CodeRange) -> Result<(), RegionError> {
        let Self { list: merged, tries, parts, handlers } = self;
        let mut top = ROOT;
        for &part in &*parts {
            let mut region = part;
            let clause = region.clauses.0;
            // Several clauses may protect the same code; nothing else may coincide.
            let same = merged
                .last_mut()
                .filter(|last| last.range == region.range && last.kind == RegionKind::Try);
            if let (RegionKind::Try, Some(last)) = (region.kind, same) {
                last.clauses.0 = last.clauses.0.min(clause);
                last.clauses.1 = last.clauses.1.max(clause);
                set(tries, clause, (merged.len() - 1) as u32);
                continue;
            }
            loop {
                let around = merged.get(top as usize).map_or(whole, |around| around.range);
                if top == ROOT || region.range.start < around.end {
                    let coincides = top != ROOT && region.range == around;
                    if region.range.end > around.end || coincides {
                        return Err(RegionError::Overlap(clause));
                    }
                    break;
                }
                top = merged.get(top as usize).map_or(ROOT, |around| around.parent);
            }
            region.parent = top;
            top = merged.len() as u32;
            match region.kind {
                RegionKind::Try => set(tries, clause, top),
                kind => {
                    if let Some((handler, filter)) = handlers.get_mut(clause as usize) {
                        *(if kind == RegionKind::Filter { filter } else { handler }) = top;
                    }
                }
            }
            merged.push(region);
        }
        Ok(())
    }

    fn check(&self) -> Result<(), RegionError> {
        for (index, (&try_block, &(handler, filter))) in
            (0..).zip(self.tries.iter().zip(&self.handlers))
        {
            let parent = self.get(try_block).parent;
            if self.get(handler).parent != parent
                || (filter != ROOT && self.get(filter).parent != parent)
            {
                return Err(RegionError::Apart(index));
            }
        }
        // Inner clauses come first. It is enough to look at the try blocks: handlers belong to the
        // same clauses.
        for region in self.inner().filter(|region| region.kind == RegionKind::Try) {
            let around = self.get(region.parent);
            if region.parent != ROOT && region.clauses.1 > around.clauses.0 {
                return Err(RegionError::Order(around.clauses.0));
            }
        }
        Ok(())
    }

    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// A region by its index.
    pub fn get(&self, index: u32) -> Region {
        self.list.get(index as usize).copied().unwrap_or(Region {
            range: CodeRange { start: 0, end: 0 },
            kind: RegionKind::Method,
            parent: ROOT,
            clauses: (u32::MAX, u32::MAX),
        })
    }

    /// All but the whole method.
    pub fn inner(&self) -> impl Iterator<Item = &Region> {
        self.list.iter().skip(1)
    }

    /// The smallest region around an offset; `None` behind the code.
    pub fn at(&self, offset: u32) -> Option<u32> {
        if offset >= self.get(ROOT).range.end {
            return None;
        }
        // The last one that starts in front, or one around it.
        let mut region =
            self.list.partition_point(|region| region.range.start <= offset).saturating_sub(1)
                as u32;
        while region != ROOT && self.get(region).range.end <= offset {
            region = self.get(region).parent;
        }
        Some(region)
    }

    /// The try block of a clause.
    pub fn try_of(&self, clause: u32) -> u32 {
        self.tries.get(clause as usize).copied().unwrap_or(ROOT)
    }
}

fn set(list: &mut [u32], index: u32, value: u32) {
    if let Some(slot) = list.get_mut(index as usize) {
        *slot = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Token;

    fn clause(try_block: (u32, u32), handler: (u32, u32)) -> ExceptionClause {
        let range = |(start, end)| CodeRange { start, end };
        ExceptionClause {
            kind: ClauseKind::Catch(Token(0x0100_0001)),
            try_block: range(try_block),
            handler: range(handler),
        }
    }

    fn build(clauses: &[ExceptionClause]) -> Result<Regions, RegionError> {
        Regions::build(clauses, 100)
    }

    #[test]
    fn nested_and_shared() {
        let regions = build(&[
            clause((1, 3), (3, 5)),
            clause((0, 10), (10, 20)),
            clause((0, 10), (20, 30)),
            clause((12, 14), (14, 16)),
        ]);
        // The last clause is inside the handler of an earlier one.
        assert_eq!(regions.unwrap_err(), RegionError::Order(1));
        let regions =
            build(&[clause((1, 3), (3, 5)), clause((0, 10), (10, 20)), clause((0, 10), (20, 30))])
                .unwrap();
        assert_eq!(regions.len(), 6);
        assert_eq!(regions.try_of(1), regions.try_of(2));
        assert_eq!(regions.get(regions.try_of(1)).clauses, (1, 2));
        assert_eq!(regions.get(regions.try_of(0)).parent, regions.try_of(1));
        let starts = [0, 1, 3, 5, 10, 29, 30, 99]
            .map(|offset| regions.get(regions.at(offset).unwrap()).range.start);
        assert_eq!(starts, [0, 1, 3, 0, 10, 20, 0, 0]);
        assert_eq!((regions.at(30), regions.at(100)), (Some(ROOT), None));
    }

    #[test]
    fn errors() {
        assert_eq!(build(&[clause((3, 3), (3, 5))]).unwrap_err(), RegionError::Range(0));
        assert_eq!(build(&[clause((0, 3), (3, 101))]).unwrap_err(), RegionError::Range(0));
        assert_eq!(build(&[clause((0, 4), (3, 5))]).unwrap_err(), RegionError::Overlap(0));
        assert_eq!(build(&[clause((0, 4), (0, 4))]).unwrap_err(), RegionError::Overlap(0));
        assert_eq!(build(&[clause((0, 4), (1, 2))]).unwrap_err(), RegionError::Apart(0));
        assert_eq!(
            build(&[clause((0, 10), (10, 20)), clause((1, 3), (3, 5))]).unwrap_err(),
            RegionError::Order(0)
        );
        let filter = ExceptionClause { kind: ClauseKind::Filter(9), ..clause((0, 4), (6, 8)) };
        assert_eq!(build(&[filter]).unwrap_err(), RegionError::Range(0));
    }
}
