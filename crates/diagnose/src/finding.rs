use document::Figure;
use schemars::JsonSchema;
use serde::Serialize;

/// How much harm an illness does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing.
    Low,
    /// Costs something that users may notice.
    Medium,
    /// Costs much, or will.
    High,
    /// The program does not do its work.
    Critical,
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Finding {
    /// Id of its rule.
    pub id: &'static str,
    /// How much harm it does.
    pub severity: Severity,
    /// How sure it is, 0 to 1.
    pub confidence: f64,
    /// One sentence.
    pub title: String,
    /// The method, type, lock or thread that is to blame, where there is one.
    pub culprit: Option<String>,
    /// Numbers and places that show it.
    pub evidence: Vec<String>,
    /// What to do next, in one line.
    pub next: String,
    /// The evidence as pictures: what the texts say, and more of it.
    pub figures: Vec<Figure>,
}

impl Finding {
    /// What findings are sorted by.
    pub(crate) fn rank(&self) -> f64 {
        f64::from(self.severity as u8) + self.confidence.clamp(0.0, 1.0) * 0.99
    }
}

/// How far over its limit a value is, as a severity: at the limit it is low, at `times` as much
/// high.
pub(crate) fn severity(value: f64, limit: f64, times: f64) -> Severity {
    match value / limit.max(f64::MIN_POSITIVE) {
        over if over >= times => Severity::High,
        over if over >= times.sqrt() => Severity::Medium,
        _ => Severity::Low,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn severities_grow_with_what_is_over_the_limit() {
        assert_eq!(
            [5.0, 11.0, 21.0].map(|value| severity(value, 5.0, 4.0)),
            [Severity::Low, Severity::Medium, Severity::High]
        );
        assert!(Severity::Critical > Severity::High);
    }
}
