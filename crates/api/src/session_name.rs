use std::{
    fmt::Write as _,
    time::{SystemTime, UNIX_EPOCH},
};

/// A name for a session, without the extension of its file: of the process, when, and what tells it
/// from others of the same second.
pub fn session_name(name: &str, pid: Option<u32>) -> String {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let mut file = sanitised(name);
    if let Some(pid) = pid {
        let _ = write!(file, "-{pid}");
    }
    let _ = write!(file, "-{}", utc(unix));
    file
}

/// A name without what is special in file names; 64 letters are enough.
fn sanitised(name: &str) -> String {
    let name: String = name
        .chars()
        .map(|letter| {
            if letter.is_alphanumeric() || matches!(letter, '.' | '_' | '-') { letter } else { '_' }
        })
        .take(64)
        .collect();
    let name = name.trim_start_matches(['.', '-']);
    if name.is_empty() { "session".to_owned() } else { name.to_owned() }
}

/// A time as `20261121T090510Z`.
fn utc(unix: u64) -> String {
    let (days, seconds) = (unix / 86_400, unix % 86_400);
    let (year, month, day) = document::format::date(days);
    format!(
        "{year:04}{month:02}{day:02}T{:02}{:02}{:02}Z",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_civil() {
        for (unix, text) in [
            (0, "19700101T000000Z"),
            (951_782_400, "20000229T000000Z"),
            (1_795_251_910, "20261121T090510Z"),
            (4_107_542_399, "21000228T235959Z"),
            (4_107_542_400, "21000301T000000Z"),
        ] {
            assert_eq!(utc(unix), text);
        }
    }

    #[test]
    fn names_are_harmless() {
        assert_eq!(sanitised("Shop.Api"), "Shop.Api");
        assert_eq!(sanitised("../etc/pass wd\n"), "_etc_pass_wd_");
        assert_eq!(sanitised("--"), "session");
        let name = session_name("web", Some(12));
        assert!(name.starts_with("web-12-2") && name.ends_with('Z'), "{name}");
    }
}
