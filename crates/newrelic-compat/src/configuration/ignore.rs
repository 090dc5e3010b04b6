//! Classes that are not instrumented.

use crate::xml::Element;

/// Assemblies, and classes of them, that are not instrumented. Names are compared as a whole and
/// case-insensitively.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IgnoreList {
    rules: Vec<(String, Option<String>)>,
}

impl IgnoreList {
    /// Reads `instrumentation/rules/ignore`.
    pub(super) fn read(configuration: &Element) -> Self {
        let mut list = Self::default();
        let rules =
            configuration.child("instrumentation").and_then(|element| element.child("rules"));
        for ignore in rules.into_iter().flat_map(|rules| rules.children("ignore")) {
            if let Some(assembly) = ignore.attribute("assemblyName").filter(|name| !name.is_empty())
            {
                list.add(assembly, ignore.attribute("className"));
            }
        }
        list
    }

    /// Adds a class, or a whole assembly.
    pub fn add(&mut self, assembly: &str, class: Option<&str>) {
        self.rules.push((
            assembly.to_owned(),
            class.filter(|class| !class.is_empty()).map(str::to_owned),
        ));
    }

    /// The rules in their order: an assembly, and its class where the rule is for one only.
    pub fn rules(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.rules.iter().map(|(assembly, class)| (assembly.as_str(), class.as_deref()))
    }

    /// Whether a class is not instrumented.
    #[must_use]
    pub fn contains(&self, assembly: &str, class: &str) -> bool {
        self.rules.iter().any(|(ignored, classes)| {
            ignored.eq_ignore_ascii_case(assembly)
                && classes.as_ref().is_none_or(|ignored| ignored.eq_ignore_ascii_case(class))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xml;

    #[test]
    fn assemblies_and_classes() {
        let document = xml::parse(
            "<configuration><instrumentation><rules><ignore assemblyName='Whole'/><ignore \
             assemblyName='Part' className='N.C'/><ignore className='N.D'/><ignore \
             assemblyName=''/></rules></instrumentation></configuration>",
        );
        let list = IgnoreList::read(document.unwrap().child("configuration").unwrap());
        assert!(list.contains("whole", "anything"));
        assert!(list.contains("PART", "n.c"));
        assert!(!list.contains("Part", "N.C.D"));
        assert!(!list.contains("Part", "N.D"));
        assert!(!list.contains("Other", "N.D"));
        assert!(!list.contains("", ""));
    }
}
