use crate::problem::Problem;
use std::fmt;

/// The name of a session: that of its file, without the extension. It leads nowhere out of the
/// folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(String);

/// Longest name, in bytes: with the extension it fits into every file system.
const MOST: usize = 200;

impl SessionId {
    /// Reads a name.
    ///
    /// # Errors
    /// When it could lead out of the folder.
    pub fn parse(text: &str) -> Result<Self, Problem> {
        let plain = |letter: char| letter.is_alphanumeric() || matches!(letter, '.' | '_' | '-');
        let good = !text.is_empty()
            && text.len() <= MOST
            && text.chars().all(plain)
            && !text.starts_with(['.', '-']);
        match good {
            true => Ok(Self(text.to_owned())),
            false => Err(Problem::request(
                "a session is named by letters, digits, dots, dashes and underscores, at most 200 \
                 of them, and begins with no dot and no dash",
            )),
        }
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_nowhere_else() {
        for good in ["web-12-20261121T090510Z", "a", "_x.y", "été", &"a".repeat(200)] {
            assert!(SessionId::parse(good).is_ok(), "{good}");
        }
        let long = "a".repeat(201);
        for bad in
            ["", ".", "..", "../a", "a/b", "a\\b", ".a", "-a", "a b", "a\0", "C:a", "a\n", &long]
        {
            assert!(SessionId::parse(bad).is_err(), "{bad:?}");
        }
    }
}
