//! What changes when instrumentation is read again.

use super::{Point, Points};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// A method by its class and name.
pub type MethodName = (String, String);

/// What changes for an assembly.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refresh {
    /// Methods with points that are gone: they get their original bodies back first.
    pub revert: BTreeSet<MethodName>,
    /// Methods with points. All of them get new bodies, because what the agent receives may have
    /// changed.
    pub instrument: BTreeSet<MethodName>,
}

/// What changes when `new` takes the place of `old`, by assembly.
#[must_use]
pub fn refresh(old: &Points, new: &Points) -> BTreeMap<String, Refresh> {
    let mut changes: BTreeMap<String, Refresh> = BTreeMap::new();
    let name = |point: &Point| (point.class.clone(), point.method.clone());
    let kept: HashSet<&Point> = new.iter().collect();
    for point in old.iter().filter(|point| !kept.contains(point)) {
        changes.entry(point.assembly.clone()).or_default().revert.insert(name(point));
    }
    for point in new.iter() {
        changes.entry(point.assembly.clone()).or_default().instrument.insert(name(point));
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::IgnoreList;
    use crate::points::load;
    use crate::shape::AgentShape;

    fn points(matches: &[(&str, &str, &str, &str)]) -> Points {
        let matches: String = matches
            .iter()
            .map(|(level, assembly, class, method)| {
                format!(
                    "<tracerFactory level='{level}'><match assemblyName='{assembly}' \
                     className='{class}'>\
                     <exactMethodMatcher methodName='{method}'/></match></tracerFactory>"
                )
            })
            .collect();
        let xml = format!("<extension><instrumentation>{matches}</instrumentation></extension>");
        load(&BTreeMap::from([("x".to_owned(), xml)]), &IgnoreList::default(), AgentShape::V10_54)
            .points
    }

    #[test]
    fn what_is_gone_is_reverted_and_all_that_is_there_is_instrumented() {
        let old = points(&[
            ("1", "A", "C", "Gone"),
            ("1", "A", "C", "Changed"),
            ("1", "A", "C", "Kept"),
            ("1", "B", "C", "M"),
        ]);
        let new =
            points(&[("2", "A", "C", "Changed"), ("1", "A", "C", "Kept"), ("1", "D", "C", "M")]);
        let changes = refresh(&old, &new);
        let names = |set: &BTreeSet<MethodName>| {
            set.iter().map(|(_, method)| method.clone()).collect::<Vec<_>>().join(" ")
        };
        let by_assembly: Vec<_> = changes
            .iter()
            .map(|(name, change)| (name.as_str(), names(&change.revert), names(&change.instrument)))
            .collect();
        let expected = [("A", "Changed Gone", "Changed Kept"), ("B", "M", ""), ("D", "", "M")];
        assert_eq!(
            by_assembly,
            expected.map(|(name, revert, new)| (name, revert.to_owned(), new.to_owned()))
        );
        assert!(refresh(&Points::default(), &Points::default()).is_empty());
    }
}
