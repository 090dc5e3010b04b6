//! Bounds on the versions of an assembly.

use rules::{Version, VersionRange};

/// The bound that a text names: one to four numbers up to 65535, those that are missing are 0. A
/// text that is none, and `0.0.0.0`, is no bound.
#[must_use]
pub fn bound(text: &str) -> Option<Version> {
    text.parse().ok().filter(|version| *version != Version::default())
}

/// The versions from `min` on that are below `max`.
#[must_use]
pub fn window(min: Option<&str>, max: Option<&str>) -> VersionRange {
    VersionRange { min: min.and_then(bound), max: max.and_then(bound) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(bound("1"), Some(Version([1, 0, 0, 0])));
        assert_eq!(bound("1.2.3.65535"), Some(Version([1, 2, 3, 65_535])));
        assert_eq!(bound("0.0.0.1"), Some(Version([0, 0, 0, 1])));
    }

    #[test]
    fn what_is_no_bound() {
        for text in ["", "0", "0.0.0.0", "1.2.3.4.5", "1.65536", "1.", "x", "1.x", "-1", "+1", " 1"]
        {
            assert_eq!(bound(text), None, "{text}");
        }
    }

    #[test]
    fn the_lower_bound_is_inside_and_the_upper_is_not() {
        let within = |version: &str, min, max| window(min, max).contains(version.parse().unwrap());
        assert!(within("2.0", Some("2.0"), Some("3.0")));
        assert!(within("2.9.9.9", Some("2.0"), Some("3.0")));
        assert!(!within("3.0", Some("2.0"), Some("3.0")));
        assert!(!within("1.9.9.9", Some("2.0"), None));
        assert!(within("0.0", None, None));
        assert!(within("9", Some("not a version"), Some("0.0")));
    }
}
