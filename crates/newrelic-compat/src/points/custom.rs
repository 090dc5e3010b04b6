//! Instrumentation that the managed agent adds while the program runs.

use std::collections::BTreeMap;

/// Instrumentation from the managed agent: collected under names, then applied all at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CustomInstrumentation {
    collected: BTreeMap<String, String>,
    applied: BTreeMap<String, String>,
}

impl CustomInstrumentation {
    /// Collects a text under a name. A later one of the same name replaces it.
    pub fn add(&mut self, name: impl Into<String>, xml: impl Into<String>) {
        self.collected.insert(name.into(), xml.into());
    }

    /// Replaces what was applied by what was collected since, and says whether instrumentation has
    /// to be refreshed: not if there was nothing and is nothing.
    pub fn apply(&mut self) -> bool {
        let before = std::mem::replace(&mut self.applied, std::mem::take(&mut self.collected));
        !before.is_empty() || !self.applied.is_empty()
    }

    /// Adds what is applied to the files of the agent's home. It replaces a file only where its
    /// name is that file's path.
    pub fn merge_into(&self, files: &mut BTreeMap<String, String>) {
        files.extend(self.applied.iter().map(|(name, xml)| (name.clone(), xml.clone())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collected_then_applied_at_once() {
        let mut custom = CustomInstrumentation::default();
        assert!(!custom.apply());
        custom.add("a", "<1/>");
        custom.add("a", "<2/>");
        custom.add("/x/b.xml", "<3/>");
        let mut files = BTreeMap::from([("/x/b.xml".to_owned(), "<b/>".to_owned())]);
        custom.merge_into(&mut files);
        assert_eq!(files["/x/b.xml"], "<b/>");
        assert!(custom.apply());
        custom.merge_into(&mut files);
        assert_eq!((files["a"].as_str(), files["/x/b.xml"].as_str()), ("<2/>", "<3/>"));
        // Nothing was collected since: what was applied is reverted.
        assert!(custom.apply());
        assert_eq!(custom, CustomInstrumentation::default());
        assert!(!custom.apply());
    }
}
