//! Arguments that nobody is shown: those whose names say that they are secrets.

use crate::RuleSet;

/// What names of parameters contain whose arguments are never read, whatever rules say: in any
/// case, and with `_` anywhere between.
pub const SECRETS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "pwd",
    "secret",
    "token",
    "bearer",
    "jwt",
    "apikey",
    "accesskey",
    "privatekey",
    "signingkey",
    "encryptionkey",
    "authorization",
    "credential",
    "connectionstring",
    "connstr",
    "cookie",
    "session",
    "creditcard",
    "cardnumber",
    "cvv",
];

impl RuleSet {
    /// Whether the arguments of parameters with this name must not be read: it contains one of
    /// [`SECRETS`], or one of [`redact`](Self::redact) takes it, in upper or lower case.
    ///
    /// ```
    /// let set = rules::RuleSet::default().redacting(vec!["iban*".parse()?]);
    /// assert!(set.redacts("userPassword") && set.redacts("API_KEY") && set.redacts("IbanFrom"));
    /// assert!(!set.redacts("name"));
    /// # Ok::<(), rules::PatternError>(())
    /// ```
    #[must_use]
    pub fn redacts(&self, parameter: &str) -> bool {
        // What half of all asynchronous methods have, and is no secret.
        let plain = parameter.to_lowercase().replace('_', "").replace("cancellationtoken", "");
        SECRETS.iter().any(|secret| plain.contains(secret))
            || self.redact().iter().any(|pattern| pattern.matches_any_case(parameter))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pattern;

    fn redacting(texts: &[&str]) -> RuleSet {
        RuleSet::default()
            .redacting(texts.iter().map(|text| Pattern::parse(text).unwrap()).collect())
    }

    #[test]
    fn secrets_are_known_by_their_names() {
        let set = RuleSet::default();
        for name in [
            "password",
            "newPassword",
            "PWD",
            "api_key",
            "apiKey",
            "sessionId",
            "CONNECTION_STRING",
            "authToken",
            "cancellationTokenToken",
        ] {
            assert!(set.redacts(name), "{name}");
        }
        for name in
            ["", "id", "name", "key", "author", "mapping", "arg1", "pass", "cancellationToken"]
        {
            assert!(!set.redacts(name), "{name}");
        }
    }

    #[test]
    fn patterns_take_whole_names_in_any_case() {
        let set = redacting(&["Iban*", "{ssn,Пол}", "arg?"]);
        for name in ["iban", "IBANFROM", "Ssn", "пол", "ARG1"] {
            assert!(set.redacts(name), "{name}");
        }
        for name in ["myIban", "ssns", "arg", "arg12"] {
            assert!(!set.redacts(name), "{name}");
        }
        assert!(redacting(&["*"]).redacts("anything"));
    }
}
