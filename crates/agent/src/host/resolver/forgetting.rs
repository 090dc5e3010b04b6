//! What is forgotten, because it was unloaded or freed, or because there is too much of it.

use super::{Named, Resolver};
use corprof::ids::{FunctionId, ModuleId};
use std::collections::HashSet;
use wire::Record;

impl Resolver {
    /// Forgets everything that may have been unloaded: there were too many unloaded modules and
    /// functions to report each of them.
    pub fn forget_loaded(&mut self, out: &mut Vec<Record>) {
        self.regions.forget();
        self.modules.clear();
        self.images.clear();
        self.classes.clear();
        self.methods.clear();
        let entries: HashSet<u64> = self.sent.values().map(|sent| sent.entry).collect();
        out.extend(entries.into_iter().map(Record::CodeFreed));
        self.sent.clear();
    }

    /// The code of a dynamic method was freed: its id and its addresses may come again.
    pub fn freed(&mut self, function: FunctionId, out: &mut Vec<Record>) {
        if let Some(named) = self.methods.remove(&function) {
            self.forget_code(function, &named, out);
        }
    }

    /// A module was unloaded, and with it everything in it.
    pub fn unloaded(&mut self, module: ModuleId, out: &mut Vec<Record>) {
        self.regions.forget();
        if let Some((_, base)) = self.modules.remove(&module) {
            self.images.remove(&base);
        }
        // Which of them were its own is not known; those that live get new ids when they are met
        // again.
        self.classes.clear();
        let gone: Vec<_> =
            self.methods.extract_if(|_, named| named.module == Some(module)).collect();
        for (function, named) in gone {
            self.forget_code(function, &named, out);
        }
    }

    pub(super) fn forget_all_code(&mut self) {
        self.sent.clear();
        for named in self.methods.values_mut() {
            named.code.clear();
        }
    }

    pub(super) fn forget_code(
        &mut self,
        function: FunctionId,
        named: &Named,
        out: &mut Vec<Record>,
    ) {
        for start in &named.code {
            // Its place may have been taken by other code in the meantime.
            if self.sent.get(start).is_some_and(|sent| sent.function == function)
                && let Some(sent) = self.sent.remove(start)
                && sent.entry == *start
            {
                out.push(Record::CodeFreed(sent.entry));
            }
        }
    }

    pub(super) fn forget_overlapping(&mut self, start: u64, end: u64) {
        while let Some((&first, _)) = self
            .sent
            .range(..end)
            .next_back()
            .filter(|(first, sent)| **first >= start || sent.end > start)
        {
            self.sent.remove(&first);
        }
    }
}
