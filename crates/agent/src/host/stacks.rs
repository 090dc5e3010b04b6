//! Stacks that were met, each by a number.

use std::collections::HashMap;

/// Stack ids by content. The stacks themselves are not kept: they are written once, and known
/// outside from then on.
#[derive(Debug, Default)]
pub struct Stacks {
    ids: HashMap<u128, u32>,
    last_id: u32,
    /// Stacks that have an id but were not yet written, and how many addresses they have.
    new: Vec<wire::Stack>,
    new_ips: usize,
}

impl Stacks {
    /// Distinct stacks that are remembered. When there are more, all are forgotten, and written
    /// again under new ids when they come again: 6 MB is what the memory of an own process may cost
    /// the target.
    const MOST: usize = 100_000;

    /// Addresses of stacks that wait to be written, above which no more should be collected.
    const MOST_NEW_IPS: usize = 256 << 10;

    /// Whether the writer keeps up. If it does not, whoever collects should pause.
    pub fn has_room(&self) -> bool {
        self.new_ips < Self::MOST_NEW_IPS
    }

    /// The id of a stack. 0 is never an id.
    pub fn intern(&mut self, ips: &[u64], truncated: bool) -> u32 {
        if self.ids.len() >= Self::MOST {
            self.ids.clear();
        }
        let key = hash(ips, truncated);
        if let Some(&id) = self.ids.get(&key) {
            return id;
        }
        let id = self.number();
        self.ids.insert(key, id);
        self.new_ips += ips.len();
        self.new.push(wire::Stack { id, ips: ips.to_vec(), truncated });
        id
    }

    /// An id that no other stack has, for one that is sent by itself.
    pub fn number(&mut self) -> u32 {
        self.last_id = self.last_id.wrapping_add(1).max(1);
        self.last_id
    }

    /// Takes the stacks that must be written before any record that names them.
    pub fn take_new(&mut self) -> Vec<wire::Stack> {
        self.new_ips = 0;
        std::mem::take(&mut self.new)
    }

    /// About how many bytes this holds.
    pub fn memory(&self) -> usize {
        let new: usize = self.new.iter().map(|stack| stack.ips.capacity() * 8 + 48).sum();
        self.ids.capacity() * 33 + new
    }
}

/// Two independent 64-bit hashes: with 100,000 stacks two are confused once in 10^28 times.
fn hash(ips: &[u64], truncated: bool) -> u128 {
    let (mut a, mut b) = (u64::from(truncated), ips.len() as u64);
    for &ip in ips {
        a = (a ^ ip).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        b = (b.rotate_left(23) ^ ip).wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
        b ^= b >> 31;
    }
    u128::from(a) << 64 | u128::from(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_stacks_have_one_id_and_are_written_once() {
        let mut stacks = Stacks::default();
        let a = stacks.intern(&[1, 2, 3], false);
        let b = stacks.intern(&[1, 3, 2], false);
        let c = stacks.intern(&[1, 2, 3], true);
        let d = stacks.intern(&[], false);
        assert_eq!(stacks.intern(&[1, 2, 3], false), a);
        assert_eq!([a, b, c, d], [1, 2, 3, 4]);
        assert_eq!((stacks.number(), stacks.number()), (5, 6));
        let written: Vec<_> =
            stacks.take_new().into_iter().map(|stack| (stack.id, stack.truncated)).collect();
        assert_eq!(written, [(1, false), (2, false), (3, true), (4, false)]);
        assert!(stacks.take_new().is_empty());
    }

    #[test]
    fn a_writer_that_does_not_keep_up_is_noticed() {
        let mut stacks = Stacks::default();
        for ip in 0..Stacks::MOST_NEW_IPS as u64 / 100 + 1 {
            assert!(stacks.has_room());
            stacks.intern(&[ip; 100], false);
        }
        assert!(!stacks.has_room());
        stacks.take_new();
        assert!(stacks.has_room());
    }

    #[test]
    fn memory_is_bounded_and_ids_are_never_reused() {
        let mut stacks = Stacks::default();
        for ip in 0..2 * Stacks::MOST as u64 + 5 {
            stacks.intern(&[ip], false);
            stacks.take_new();
        }
        assert!(stacks.memory() < 9 << 20, "{}", stacks.memory());
        assert_eq!(stacks.intern(&[1], false), 2 * Stacks::MOST as u32 + 6);
    }
}
