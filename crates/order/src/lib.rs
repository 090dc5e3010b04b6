#![forbid(unsafe_code)]
//! Brings lists into order, with one sort for lists of all types.
//!
//! The sort of the standard library is compiled anew, to about six kilobytes, for each type of
//! items and each way to compare them. Here it is compiled once: it sorts numbers of items, and
//! then the items are swapped into their places. The results are the same. It takes memory for
//! three numbers per item and somewhat more time, so it is for lists that people read and for those
//! that are sorted once per answer. What has millions of items, and what is sorted for every sample
//! or node, uses the standard library. So do lists of numbers and strings with their own order,
//! which share one sort for each type anyway.

use std::cmp::Ordering;

/// Sorts items as `compare` says, like the method of slices with this name. Equal items stay in
/// their order.
pub fn sort_by<T>(items: &mut [T], mut compare: impl FnMut(&T, &T) -> Ordering) {
    let swaps = swaps(items.len(), &mut |one, other| compare(&items[one], &items[other]));
    make(items, &swaps);
}

/// Sorts items by ascending keys, like the method of slices with this name. Equal items stay in
/// their order. A key is made for each comparison.
pub fn sort_by_key<T, K: Ord>(items: &mut [T], mut key: impl FnMut(&T) -> K) {
    sort_by(items, |one, other| key(one).cmp(&key(other)));
}

/// Sorts items by ascending keys, like the method of slices with this name. Equal items stay in
/// their order. Each key is made once: for keys that take long to make.
pub fn sort_by_cached_key<T, K: Ord>(items: &mut [T], key: impl FnMut(&T) -> K) {
    let keys: Vec<K> = items.iter().map(key).collect();
    let swaps = swaps(keys.len(), &mut |one, other| keys[one].cmp(&keys[other]));
    make(items, &swaps);
}

fn make<T>(items: &mut [T], swaps: &[(usize, usize)]) {
    for (one, other) in swaps {
        items.swap(*one, *other);
    }
}

/// Which places of `length` items to swap, one pair after the other, so that the items are in
/// order. `compare` gets their places of before.
///
/// It knows nothing of items and is never copied into its callers: the program has one sort.
#[inline(never)]
fn swaps(length: usize, compare: &mut dyn FnMut(usize, usize) -> Ordering) -> Vec<(usize, usize)> {
    let mut swaps = Vec::new();
    if length < 2 {
        return swaps;
    }
    let mut order: Vec<usize> = (0..length).collect();
    order.sort_by(|one, other| compare(*one, *other));
    // What belongs to a place comes from another, and what belongs there from a third, until the
    // one comes that was at the first place. Swaps have carried that along.
    for first in 0..length {
        let mut place = first;
        loop {
            let from = std::mem::replace(&mut order[place], place);
            if from == first {
                break;
            }
            swaps.push((place, from));
            place = from;
        }
    }
    swaps
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cmp::Reverse;

    /// Items with keys below `keys`, and where they were. They own memory.
    fn items(length: u64, keys: u64, seed: u64) -> Vec<(u64, String)> {
        let mut state = seed * 2 + 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        (0..length).map(|place| (next() % keys, place.to_string())).collect()
    }

    /// All three functions sort like those of slices. Of equal items the first remains the first.
    fn is_sorted_like_slices(items: &[(u64, String)]) {
        let mut expected = items.to_vec();
        expected.sort_by_key(|item| Reverse(item.0));
        let mut own = items.to_vec();
        sort_by(&mut own, |one, other| other.0.cmp(&one.0));
        assert_eq!(own, expected);
        let mut own = items.to_vec();
        sort_by_key(&mut own, |item| Reverse(item.0));
        assert_eq!(own, expected);
        let mut own = items.to_vec();
        sort_by_cached_key(&mut own, |item| Reverse(item.0));
        assert_eq!(own, expected);
    }

    #[test]
    fn lists_are_sorted_like_those_of_the_standard_library() {
        for seed in 0..500 {
            let length = seed % 60;
            for keys in [1, 2, 5, 1000] {
                is_sorted_like_slices(&items(length, keys, seed));
            }
        }
    }

    #[test]
    fn long_lists_are_sorted() {
        for keys in [10, u64::MAX] {
            is_sorted_like_slices(&items(10_000, keys, 7));
        }
    }

    #[test]
    fn what_is_empty_single_sorted_or_reversed_is_sorted() {
        for length in [0, 1, 2, 3, 100] {
            let mut items = items(length, 30, 3);
            items.sort_by_key(|item| item.0);
            is_sorted_like_slices(&items);
            items.reverse();
            is_sorted_like_slices(&items);
        }
        assert_eq!(swaps(3, &mut |one, other| one.cmp(&other)), []);
    }

    #[test]
    fn a_cached_key_is_made_once() {
        let (mut numbers, mut made) = (Vec::from_iter((0..100_u32).rev()), 0);
        sort_by_cached_key(&mut numbers, |number| {
            made += 1;
            *number
        });
        assert_eq!((numbers, made), (Vec::from_iter(0..100), 100));
    }
}
