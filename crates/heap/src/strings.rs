use std::collections::HashMap;

use crate::{index::AddressIndex, snapshot::NodeId};

/// A content that several strings have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DuplicateString {
    /// How many strings have it.
    pub count: u64,
    /// UTF-16 units of one.
    pub length: u32,
    /// Bytes of all of them but one.
    pub wasted: u64,
    /// How it begins, where that was sent.
    pub text: Option<String>,
    /// The first one in the order of addresses.
    pub example: NodeId,
}

/// What is known of the contents of strings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StringStatistics {
    /// Strings whose content was compared.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Different contents among them.
    pub distinct: u64,
    /// Bytes of all strings but one of each content.
    pub wasted: u64,
    /// Contents that occur more than once, those that waste most first.
    pub duplicates: Vec<DuplicateString>,
}

/// Strings as they come.
#[derive(Debug, Default)]
pub(crate) struct StringColumns {
    /// Hash, length, address.
    seen: Vec<(u64, u32, u64)>,
    texts: HashMap<u64, String>,
}

impl StringColumns {
    pub fn len(&self) -> u64 {
        self.seen.len() as u64
    }

    pub fn add(&mut self, address: u64, hash: u64, length: u32, text: Option<&str>) {
        self.seen.push((hash, length, address));
        if let Some(text) = text {
            self.texts.entry(hash).or_insert_with(|| text.to_owned());
        }
    }

    pub fn finish(
        mut self,
        addresses: &[u64],
        index: &AddressIndex,
        size: impl Fn(NodeId) -> u64,
    ) -> StringStatistics {
        self.seen.sort_unstable();
        self.seen.dedup();
        let mut statistics = StringStatistics::default();
        for group in self.seen.chunk_by(|one, other| (one.0, one.1) == (other.0, other.1)) {
            let mut nodes = group
                .iter()
                .filter_map(|(_, _, address)| index.find(addresses, *address))
                .map(|node| (node, size(node)));
            let Some((example, first)) = nodes.next() else { continue };
            let (mut count, mut wasted) = (1, 0u64);
            for (_, size) in nodes {
                count += 1;
                wasted = wasted.saturating_add(size);
            }
            statistics.count += count;
            statistics.distinct += 1;
            statistics.bytes = statistics.bytes.saturating_add(first).saturating_add(wasted);
            statistics.wasted = statistics.wasted.saturating_add(wasted);
            if count > 1 {
                let (hash, length, _) = group[0];
                let text = self.texts.remove(&hash);
                statistics.duplicates.push(DuplicateString {
                    count,
                    length,
                    wasted,
                    text,
                    example,
                });
            }
        }
        statistics.duplicates.sort_by(|one, other| {
            other.wasted.cmp(&one.wasted).then(one.example.cmp(&other.example))
        });
        statistics
    }
}
