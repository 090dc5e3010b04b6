//! Takes secrets out of texts of others: command lines, messages of exceptions, names of threads.
//!
//! It knows secrets by what stands before them (`password=`, `--token `, `Bearer `, the user part
//! of an address) and by their own form (tokens of well-known services, JWTs, private keys, long
//! padded base64). It does not know a password that stands alone. What it leaves alone on purpose:
//! names of types and methods, public key tokens of assemblies, GUIDs and hashes.

use regex::{Captures, Regex, Replacer};
use std::{borrow::Cow, sync::LazyLock};

/// What stands in place of a secret.
pub const REDACTED: &str = "[redacted]";

/// Words at the end of a name whose value is secret.
const SECRET: &str = r"(?:password|passwd|passphrase|pwd|secret|token|credentials?|secret[_-]?key|subscription[_-]?key|api[_-]?key|access[_-]?key|account[_-]?key|access[_-]?signature|private[_-]?key|encryption[_-]?key|signing[_-]?key|functions[_-]?key|master[_-]?key|shared[_-]?key|connection[_-]?string)";

/// Keys that end in a word of [`SECRET`] and are public.
const PUBLIC: [&str; 3] = ["publickeytoken", "cancellationtoken", "metadatatoken"];

/// Shortest value behind `token:` that is taken for a secret. Parsers report shorter ones, such as
/// `Unexpected token: }`.
const SHORTEST_TOKEN: usize = 8;

/// Shortest value behind `Bearer` or `Basic` that is taken for a secret.
const SHORTEST_BEARER: usize = 12;

/// Gives what takes the place of a secret that was found.
type Replace = fn(&Captures<'_>) -> String;

/// How a kind of secret is found, and what takes its place.
struct Kind {
    pattern: Regex,
    replace: Replace,
}

static KINDS: LazyLock<Vec<Kind>> = LazyLock::new(|| {
    let kinds: [(String, Replace); 8] = [
        // Private keys in PEM form, also if the end is missing.
        (
            r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)"
                .to_owned(),
            |_| REDACTED.to_owned(),
        ),
        // Headers whose whole value is secret.
        (
            r"(?i)\b((?:proxy-)?authorization|(?:set-)?cookie)(\x22?\s*[:=]\s*)(\S[^\r\n]*)"
                .to_owned(),
            |found| format!("{}{}{REDACTED}", &found[1], &found[2]),
        ),
        (r"(?i)\b(bearer|basic)(\s+)([A-Za-z0-9._~+/=-]+)".to_owned(), bearer),
        // The password of an address: scheme://user:password@host.
        // It may contain what should be written otherwise.
        (r"\b([A-Za-z][A-Za-z0-9+.-]*://[^\s/:@?#]*):(\S+)@".to_owned(), |found| {
            format!("{}:{REDACTED}@", &found[1])
        }),
        // Elements of XML.
        (format!(r"(?i)(<[\w:.-]*{SECRET}>)[^<]+"), |found| format!("{}{REDACTED}", &found[1])),
        // Switches of a command line with the value as the next word.
        (format!(r#"(?i)(\s|^)(--?[\w.-]*{SECRET})(\s+)("[^"]*"|'[^']*'|[^\s-]\S*)"#), |found| {
            format!("{}{}{}{REDACTED}", &found[1], &found[2], &found[3])
        }),
        // Names with their values: connection strings, environment, JSON, switches with `=`.
        (
            format!(
                r#"(?i)\b([\w.$-]*?{SECRET}|sig)(\\*["']?\s*(?:=|:)\s*)(\\+"(?:[^"\\]|\\[^"])*(?:\\+"|$)|"(?:\\.|[^"\\])*(?:"|$)|'[^']*(?:'|$)|[^\s:;"'\\][^\s;"']*)"#
            ),
            pair,
        ),
        // Tokens with a form of their own.
        (
            [
                r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?",
                r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
                r"\bgh[pousr]_[A-Za-z0-9]{20,}",
                r"\bgithub_pat_[A-Za-z0-9_]{20,}",
                r"\bglpat-[A-Za-z0-9_-]{16,}",
                r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}",
                r"\bAIza[A-Za-z0-9_-]{35}",
                r"\b[rs]k_(?:live|test)_[A-Za-z0-9]{16,}",
                r"\bnpm_[A-Za-z0-9]{36}",
                r"\bsk-[A-Za-z0-9_-]{20,}",
                r"\b[A-Za-z0-9+/]{40,}={1,2}",
            ]
            .join("|"),
            |_| REDACTED.to_owned(),
        ),
    ];
    // The patterns are constants, and a test uses each.
    let kinds = kinds.into_iter();
    kinds
        .filter_map(|(text, replace)| Some(Kind { pattern: Regex::new(&text).ok()?, replace }))
        .collect()
});

/// `Bearer eyJ…`, but not `Basic authentication`.
fn bearer(found: &Captures<'_>) -> String {
    let value = &found[3];
    let is_secret = value.len() >= SHORTEST_BEARER && value.contains(|c: char| c.is_ascii_digit());
    match is_secret {
        true => format!("{}{}{REDACTED}", &found[1], &found[2]),
        false => found[0].to_owned(),
    }
}

/// `Password=…`, but not `PublicKeyToken=…` and not `Unexpected token: }`.
fn pair(found: &Captures<'_>) -> String {
    let (key, separator, all) = (&found[1], &found[2], &found[3]);
    // The rest of a query: an `&` before a name and a `=`. Others are part of the value.
    let is_next = |(at, _): &(usize, &str)| {
        let behind = all.get(at + 1..).unwrap_or_default();
        let name = behind.find(|c: char| !(c.is_alphanumeric() || "_.-".contains(c)));
        name.is_some_and(|end| {
            end > 0 && behind.get(end..).is_some_and(|rest| rest.starts_with('='))
        })
    };
    let end = all.match_indices('&').find(is_next).map_or(all.len(), |(at, _)| at);
    let (value, rest) = all.split_at_checked(end).unwrap_or((all, ""));
    let plain: String = key.to_ascii_lowercase().chars().filter(|c| c.is_alphanumeric()).collect();
    let is_public = PUBLIC.iter().any(|public| plain.ends_with(public));
    let is_short_token = plain.ends_with("token")
        && separator.contains(':')
        && value.trim_matches(['"', '\'']).len() < SHORTEST_TOKEN;
    match is_public || is_short_token || REDACTED.starts_with(value) {
        true => found[0].to_owned(),
        false => format!("{key}{separator}{REDACTED}{rest}"),
    }
}

/// Calls a function for each match.
struct With(fn(&Captures<'_>) -> String);

impl Replacer for With {
    fn replace_append(&mut self, found: &Captures<'_>, out: &mut String) {
        out.push_str(&self.0(found));
    }
}

/// A text without the secrets that can be recognized.
pub fn redact(text: &str) -> Cow<'_, str> {
    let mut clean = Cow::Borrowed(text);
    for kind in KINDS.iter() {
        if let Cow::Owned(changed) = kind.pattern.replace_all(&clean, With(kind.replace)) {
            clean = Cow::Owned(changed);
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_taken_out() {
        for (text, expected) in [
            (
                "Server=db;User Id=sa;Password=hunter2;Encrypt=true",
                "Server=db;User Id=sa;Password=[redacted];Encrypt=true",
            ),
            (
                "Host=db;Username=app;Pwd='a b;c';Port=5432",
                "Host=db;Username=app;Pwd=[redacted];Port=5432",
            ),
            (
                "DefaultEndpointsProtocol=https;AccountName=x;AccountKey=abc+/==;EndpointSuffix=y",
                "DefaultEndpointsProtocol=https;AccountName=x;AccountKey=[redacted];EndpointSuffix=y",
            ),
            (
                "Endpoint=sb://x/;SharedAccessKeyName=Root;SharedAccessKey=s3cr3t=",
                "Endpoint=sb://x/;SharedAccessKeyName=Root;SharedAccessKey=[redacted]",
            ),
            ("https://x/y?sv=1&sig=a%2Bb&se=2", "https://x/y?sv=1&sig=[redacted]&se=2"),
            (
                "dotnet app.dll --api-key 12345 --urls x",
                "dotnet app.dll --api-key [redacted] --urls x",
            ),
            (
                "dotnet app.dll --Db:Password=hunter2 -v",
                "dotnet app.dll --Db:Password=[redacted] -v",
            ),
            ("run --token 'a b' next", "run --token [redacted] next"),
            ("run /password:hunter2", "run /password:[redacted]"),
            ("SMTP_PASSWORD=hunter2 dotnet x", "SMTP_PASSWORD=[redacted] dotnet x"),
            (r#"{"user":"x","password":"hunter2"}"#, r#"{"user":"x","password":[redacted]}"#),
            ("Login failed, password: hunter2", "Login failed, password: [redacted]"),
            (
                "GET /x Authorization: Bearer abc.def\nnext",
                "GET /x Authorization: [redacted]\nnext",
            ),
            ("Cookie: session=1; id=2", "Cookie: [redacted]"),
            ("sent Bearer 0a1b2c3d4e5f6a7b", "sent Bearer [redacted]"),
            ("amqp://guest:s3cret@mq:5672/", "amqp://guest:[redacted]@mq:5672/"),
            ("amqp://u:p@ss/w@mq", "amqp://u:[redacted]@mq"),
            ("Password=x9&Kq}7,(a);Port=1", "Password=[redacted];Port=1"),
            ("Pwd=&Kq7;x", "Pwd=[redacted];x"),
            (r#"{\"password\":\"hunter2\",\"a\":1}"#, r#"{\"password\":[redacted],\"a\":1}"#),
            (r#""password":"ab\"cd","a":1"#, r#""password":[redacted],"a":1"#),
            (r#""password":"hunter2"#, r#""password":[redacted]"#),
            (
                "SecretKey=abc Subscription-Key: def",
                "SecretKey=[redacted] Subscription-Key: [redacted]",
            ),
            ("<password>a b</password>", "<password>[redacted]</password>"),
            ("redis://:s3cret@cache", "redis://:[redacted]@cache"),
            ("jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.SflKxw-_ end", "jwt [redacted] end"),
            ("AKIAIOSFODNN7EXAMPLE", "[redacted]"),
            ("ghp_0123456789abcdefghij0123", "[redacted]"),
            ("xoxb-123456789012-abcdef", "[redacted]"),
            ("sk-proj-0123456789abcdefghij", "[redacted]"),
            ("glpat-0123456789abcdefghij", "[redacted]"),
            ("github_pat_0123456789abcdefghij", "[redacted]"),
            ("npm_0123456789abcdefghij0123456789abcdef", "[redacted]"),
            ("sk_live_0123456789abcdefghij", "[redacted]"),
            ("AIzaSyA0123456789abcdefghijklmnopqrstuv", "[redacted]"),
            ("key Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4cQ== end", "key [redacted] end"),
            (
                "-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY----- end",
                "[redacted] end",
            ),
            ("-----BEGIN PRIVATE KEY-----\nMIIcut", "[redacted]"),
        ] {
            assert_eq!(redact(text), expected, "{text}");
        }
    }

    #[test]
    fn nothing_else_is() {
        for text in [
            "",
            "Shop.Auth.TokenCache.GetToken(string, System.Threading.CancellationToken)",
            "Shop.Security.PasswordHasher<User>.HashPassword(User, string)",
            "Shop.Secrets.SecretStore..ctor(Shop.Secrets.ISecret[])  SecretStore.cs:42",
            "System.Private.CoreLib, Version=9.0.0.0, Culture=neutral, PublicKeyToken=7cec85d7bea7798e",
            "std::Token::parse(char const*)",
            "Unexpected token: } at line 3",
            "The given key 'orders:42' was not present in the dictionary.",
            "Basic authentication is not supported, use Bearer tokens",
            "http://127.0.0.1:8421/path?x=1",
            "dotnet Shop.dll --urls http://*:5000 --environment Production",
            "3f2504e0-4f89-11d3-9a0c-0305e82c3301",
            "da39a3ee5e6b4b0d3255bfef95601890afd80709",
            "password hashing takes long",
            "Dictionary<string, Token>",
            "void System.IdentityModel.Tokens.Jwt.JwtSecurityTokenHandler.ReadToken(string)",
        ] {
            assert_eq!(redact(text), text);
        }
    }

    #[test]
    fn all_patterns_are_used() {
        assert_eq!(KINDS.len(), 8);
    }
}
