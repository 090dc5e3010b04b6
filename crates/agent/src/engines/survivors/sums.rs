//! Sums of older survivors by class and generation.

/// Objects and bytes by class and generation, as many as there is room for.
pub(super) struct Sums {
    /// Class, with the generation in its lowest bits, which are zero in addresses; objects; bytes.
    pub(super) slots: Box<[(u64, u64, u64)]>,
    pub(super) count: usize,
    pub(super) lost: u64,
}

impl Sums {
    pub(super) fn new(slots: usize) -> Self {
        Self { slots: vec![(0, 0, 0); slots].into_boxed_slice(), count: 0, lost: 0 }
    }

    pub(super) fn clear(&mut self) {
        if self.count > 0 {
            self.slots.fill((0, 0, 0));
        }
        (self.count, self.lost) = (0, 0);
    }

    pub(super) fn add(&mut self, class: u64, generation: u8, bytes: u64) {
        let key = class & !7 | u64::from(generation & 7);
        let mask = self.slots.len() - 1;
        let mut at = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & mask;
        while let Some(slot) = self.slots.get_mut(at) {
            if slot.0 == 0 {
                // A full table would be searched for ever.
                if self.count >= mask / 4 * 3 {
                    self.lost += 1;
                    return;
                }
                self.count += 1;
                slot.0 = key;
            }
            if slot.0 == key {
                slot.1 += 1;
                slot.2 += bytes;
                return;
            }
            at = (at + 1) & mask;
        }
    }

    /// Class, generation, objects, bytes.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, u8, u64, u64)> + '_ {
        let used = self.slots.iter().filter(|slot| slot.0 != 0);
        used.map(|(key, objects, bytes)| (key & !7, (key & 7) as u8, *objects, *bytes))
    }
}
