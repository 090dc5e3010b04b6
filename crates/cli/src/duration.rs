//! Durations as people write them: `10s`, `1m30s`, `500ms`.

use std::time::Duration;

/// Units and their nanoseconds, largest first: a duration names each at most once and in this
/// order.
const UNITS: [(&str, u64); 6] = [
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// Reads a duration: numbers with units, such as `10s`, `1.5s`, `1m30s`, `500ms`.
///
/// # Errors
/// What is wrong, for the user.
pub fn parse(text: &str) -> Result<Duration, String> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err("a duration is missing; write one such as 10s, 1m30s or 500ms".to_owned());
    }
    let mut total: u64 = 0;
    let mut next_unit = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        let letters = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        if number.is_empty() {
            return Err(format!(
                "`{text}` is not a duration; write one such as 10s, 1m30s or 500ms"
            ));
        }
        if unit.is_empty() {
            return Err(format!(
                "`{number}` has no unit; write {number}s for seconds or {number}ms for milliseconds"
            ));
        }
        let Some(index) = UNITS.iter().position(|(name, _)| *name == unit) else {
            return Err(format!("`{unit}` is not a unit of time; use h, m, s, ms, us or ns"));
        };
        if index < next_unit {
            return Err(format!(
                "`{unit}` stands in the wrong place in `{text}`; write larger units first, each \
                    once"
            ));
        }
        next_unit = index + 1;
        let nanos =
            scaled(number, UNITS[index].1).ok_or_else(|| format!("`{number}` is not a number"))?;
        total = nanos
            .and_then(|nanos| total.checked_add(nanos))
            .ok_or_else(|| format!("`{text}` is too long; the limit is about 500 years"))?;
        rest = after;
    }
    Ok(Duration::from_nanos(total))
}

/// As [`parse`], for durations that have to pass.
///
/// # Errors
/// Also for zero.
pub fn parse_positive(text: &str) -> Result<Duration, String> {
    match parse(text)? {
        Duration::ZERO => Err("the duration must be longer than 0".to_owned()),
        duration => Ok(duration),
    }
}

/// A decimal number times a unit, exactly; digits below a nanosecond are cut. `None` when it is no
/// number, `Some(None)` when it is too large.
fn scaled(number: &str, unit: u64) -> Option<Option<u64>> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits_only = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty()) || !digits_only(whole) || !digits_only(fraction) {
        return None;
    }
    let whole = if whole.is_empty() { Some(0) } else { whole.parse::<u64>().ok() };
    let mut part: u128 = 0;
    let mut place = u128::from(unit);
    for digit in fraction.bytes().take(15) {
        part = part * 10 + u128::from(digit - b'0') * u128::from(unit);
        place *= 10;
    }
    let part = (part / (place / u128::from(unit))) as u64;
    Some(whole.and_then(|whole| whole.checked_mul(unit)).and_then(|whole| whole.checked_add(part)))
}

/// A duration for people, with three digits: `1m05s`, `3.20s`, `45.0ms`.
pub fn show(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    match duration.as_secs() {
        3600.. => format!("{}h{:02}m", duration.as_secs() / 3600, duration.as_secs() / 60 % 60),
        60.. => format!("{}m{:02}s", duration.as_secs() / 60, duration.as_secs() % 60),
        10.. => format!("{seconds:.1}s"),
        1.. => format!("{seconds:.2}s"),
        0 if duration.as_millis() >= 1 => format!("{:.1}ms", seconds * 1e3),
        0 if duration.as_nanos() >= 1000 => format!("{:.1}us", seconds * 1e6),
        0 => format!("{}ns", duration.as_nanos()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_forms() {
        for (text, milliseconds) in [
            ("10s", 10_000),
            ("1m30s", 90_000),
            ("500ms", 500),
            ("2h", 7_200_000),
            ("1h0m1s", 3_601_000),
            ("1.5s", 1500),
            (".5s", 500),
            ("0.25m", 15_000),
            (" 3s ", 3000),
            ("1s500ms", 1500),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        assert_eq!(parse("250us"), Ok(Duration::from_micros(250)));
        assert_eq!(parse("0.0000000019s"), Ok(Duration::from_nanos(1)));
    }

    #[test]
    fn wrong_forms_say_what_is_wrong() {
        for (text, part) in [
            ("", "missing"),
            ("10", "has no unit; write 10s"),
            ("s", "is not a duration"),
            ("-1s", "is not a duration"),
            ("1 s", "is not a unit"),
            ("10sec", "`sec` is not a unit"),
            ("1.2.3s", "is not a number"),
            (".s", "is not a number"),
            ("30s1m", "larger units first"),
            ("1s1s", "each once"),
            ("99999999999999999999s", "too long"),
            ("999999999h", "too long"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
        assert!(parse_positive("0s").unwrap_err().contains("longer than 0"));
    }

    #[test]
    fn shown_for_people() {
        for (nanos, text) in [
            (5, "5ns"),
            (1500, "1.5us"),
            (45_000_000, "45.0ms"),
            (3_200_000_000, "3.20s"),
            (12_340_000_000, "12.3s"),
            (65_000_000_000, "1m05s"),
            (7_260_000_000_000, "2h01m"),
        ] {
            assert_eq!(show(Duration::from_nanos(nanos)), text);
        }
    }
}
