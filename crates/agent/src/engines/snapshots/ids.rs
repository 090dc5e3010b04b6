//! Ids that a snapshot met.

/// Ids that were met, as many as there is room for.
pub struct Ids {
    slots: Box<[u64]>,
    count: usize,
    /// How many there was no room for.
    pub lost: u64,
}

impl Ids {
    /// A set of `slots` slots, a power of two. Three quarters of them are used.
    pub fn new(slots: usize) -> Self {
        Self { slots: vec![0; slots].into_boxed_slice(), count: 0, lost: 0 }
    }

    /// Bytes that this holds.
    pub fn memory(&self) -> usize {
        size_of_val(&*self.slots)
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.slots.fill(0);
        (self.count, self.lost) = (0, 0);
    }

    /// Adds an id. 0 is none.
    pub fn insert(&mut self, id: u64) {
        if id == 0 {
            return;
        }
        let mask = self.slots.len() - 1;
        let mut at = Self::place(id) & mask;
        while let Some(slot) = self.slots.get_mut(at) {
            if *slot == id {
                return;
            }
            if *slot == 0 {
                // A full table would be searched for ever.
                if self.count >= mask / 4 * 3 {
                    self.lost += 1;
                } else {
                    *slot = id;
                    self.count += 1;
                }
                return;
            }
            at = (at + 1) & mask;
        }
    }

    /// Whether an id was added.
    pub fn contains(&self, id: u64) -> bool {
        let mask = self.slots.len() - 1;
        let mut at = Self::place(id) & mask;
        // There is always a free slot.
        loop {
            match self.slots.get(at) {
                Some(0) | None => return false,
                Some(slot) if *slot == id => return true,
                Some(_) => at = (at + 1) & mask,
            }
        }
    }

    fn place(id: u64) -> usize {
        (id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.slots.iter().copied().filter(|id| *id != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_kept_once_and_within_bounds() {
        let mut ids = Ids::new(64);
        for id in [0, 5, 5, 7, 0, u64::MAX] {
            ids.insert(id);
        }
        let mut kept: Vec<u64> = ids.iter().collect();
        kept.sort_unstable();
        assert_eq!(kept, [5, 7, u64::MAX]);
        for id in 100..1000 {
            ids.insert(id);
        }
        assert_eq!(ids.iter().count(), 45);
        assert_eq!(ids.lost, 900 - 42);
        ids.insert(5);
        assert_eq!(ids.lost, 900 - 42);
        assert!(ids.contains(5) && ids.contains(110) && !ids.contains(999) && !ids.contains(0));
    }
}
