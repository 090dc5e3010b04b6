//! Application pools of IIS.

use crate::log::{Level, Message};
use crate::xml::Element;

/// Which application pools are instrumented.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplicationPools {
    /// What happens to those that are not listed.
    pub by_default: bool,
    /// Listed ones, and whether they are instrumented.
    listed: Vec<(String, bool)>,
}

impl Default for ApplicationPools {
    fn default() -> Self {
        Self { by_default: true, listed: Vec::new() }
    }
}

impl ApplicationPools {
    /// Reads `applicationPools`. An entry without name or decision is worth a warning, and counts
    /// nothing.
    pub(super) fn read(configuration: &Element, messages: &mut Vec<Message>) -> Self {
        let mut pools = Self::default();
        let Some(element) = configuration.child("applicationPools") else { return pools };
        let mut warn = |text: &str| messages.push(Message::new(Level::Warn, text));
        let is_true = |text: &str| text.eq_ignore_ascii_case("true");
        if let Some(default) = element.child("defaultBehavior") {
            match default.attribute("instrument") {
                Some(instrument) => pools.by_default = is_true(instrument),
                None => warn(
                    "The defaultBehavior of the application pools has no attribute instrument.",
                ),
            }
        }
        for pool in element.children("applicationPool") {
            match (pool.attribute("name"), pool.attribute("instrument")) {
                (Some(name), Some(instrument)) => {
                    pools.listed.push((name.to_owned(), is_true(instrument)))
                }
                _ => warn("An application pool needs the attributes name and instrument."),
            }
        }
        pools
    }

    /// Whether a pool is instrumented. Names are case-sensitive; of two entries the one that
    /// forbids wins. Pools whose name starts with `~` belong to Azure and are only instrumented
    /// where they are listed.
    #[must_use]
    pub fn instruments(&self, pool: &str) -> bool {
        let listed = |instrument| {
            self.listed.iter().any(|(name, decision)| name == pool && *decision == instrument)
        };
        !listed(false) && (listed(true) || (!pool.starts_with('~') && self.by_default))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xml;

    fn pools(inner: &str) -> (ApplicationPools, usize) {
        let text =
            format!("<configuration><applicationPools>{inner}</applicationPools></configuration>");
        let mut messages = Vec::new();
        let document = xml::parse(&text).unwrap();
        let pools = ApplicationPools::read(document.child("configuration").unwrap(), &mut messages);
        (pools, messages.len())
    }

    #[test]
    fn lists_and_the_default() {
        let (pools, warnings) = pools(
            "<defaultBehavior instrument='false'/><applicationPool name='On' instrument='TRUE'/>\
             <applicationPool name='~1' instrument='true'/><applicationPool name='Both' \
             instrument='true'/>\
             <applicationPool name='Both' instrument='false'/>",
        );
        assert_eq!(warnings, 0);
        let instrumented =
            ["On", "on", "~1", "~2", "Both", "Other"].map(|pool| pools.instruments(pool));
        assert_eq!(instrumented, [true, false, true, false, false, false]);
    }

    #[test]
    fn without_entries_all_but_those_of_azure() {
        let pools = ApplicationPools::default();
        assert_eq!(["A", "", "~1A"].map(|pool| pools.instruments(pool)), [true, true, false]);
    }

    #[test]
    fn incomplete_entries() {
        let (pools, warnings) = pools(
            "<defaultBehavior/><applicationPool name='A'/><applicationPool \
                instrument='false'/><applicationPool/>",
        );
        assert_eq!((warnings, pools), (4, ApplicationPools::default()));
    }
}
