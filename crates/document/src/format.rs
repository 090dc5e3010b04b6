//! Numbers and names for readers.

/// A number of any size in at most eight columns or so: `12.5`, `1,234`, `71.85 M`.
pub fn number(value: f64) -> String {
    let size = value.abs();
    for (power, letter) in [(1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M")] {
        if size >= power * 1e3 && power == 1e15 {
            return format!("{value:.2e}");
        }
        if size >= power {
            return format!("{:.2} {letter}", value / power);
        }
    }
    let digits = match size {
        _ if value == value.trunc() || size >= 1000.0 => 0,
        _ if size >= 10.0 => 1,
        _ if size >= 1.0 => 2,
        _ => 4,
    };
    let text = format!("{value:.digits$}");
    match text.strip_prefix('-').unwrap_or(&text).parse::<u64>() {
        Ok(whole) => format!("{}{}", if text.starts_with('-') { "-" } else { "" }, count(whole)),
        Err(_) => text,
    }
}

/// A duration in the unit that suits it: `853 ns`, `12.3 ms`, `4.56 s`, `2 min 05 s`.
pub fn duration(nanos: u64) -> String {
    let value = nanos as f64;
    match nanos {
        0 => "0".to_owned(),
        1..1_000 => format!("{nanos} ns"),
        1_000..1_000_000 => format!("{} µs", three_digits(value / 1e3)),
        1_000_000..1_000_000_000 => format!("{} ms", three_digits(value / 1e6)),
        1_000_000_000..120_000_000_000 => format!("{} s", three_digits(value / 1e9)),
        _ => {
            let seconds = nanos / 1_000_000_000;
            match seconds / 3600 {
                0 => format!("{} min {:02} s", seconds / 60, seconds % 60),
                hours => format!("{hours} h {:02} min", seconds / 60 % 60),
            }
        }
    }
}

/// At least three digits that count, at most two of them behind the point.
fn three_digits(value: f64) -> String {
    match value {
        value if value < 9.995 => format!("{value:.2}"),
        value if value < 99.95 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

/// A size: `512 B`, `1.50 MB` (powers of 1024, as .NET's own tools count).
pub fn bytes(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut units = ["KB", "MB", "GB", "TB", "PB", "EB"].into_iter();
    let mut unit = "B";
    while value >= 1023.95
        && let Some(next) = units.next()
    {
        (value, unit) = (value / 1024.0, next);
    }
    if unit == "B" { format!("{bytes} B") } else { format!("{} {unit}", three_digits(value)) }
}

/// A number with its thousands apart: `12,345`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 sample`, `2 samples`.
pub fn counted(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(number), if number == 1 { "" } else { "s" })
}

/// A rate, such as `12.3 /s`.
pub fn rate(per_second: f64) -> String {
    if per_second >= 1000.0 {
        format!("{} /s", count(per_second.round() as u64))
    } else {
        format!("{} /s", three_digits(per_second))
    }
}

/// A share as percent, with as many digits as tell something.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent > 0.0 && percent < 0.1 {
        format!("{percent:.2} %")
    } else {
        format!("{percent:.1} %")
    }
}

/// Year, month and day, from days since 1970.
pub fn date(days: u64) -> (u64, u64, u64) {
    // For the proleptic Gregorian calendar: years begin in March, so that the leap day is the last
    // one (H. Hinnant, "chrono-compatible low-level date algorithms").
    let days = days + 719_468;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    (year, month, day)
}

/// A time on the wall clock, in UTC: `2026-03-01 12:34:56 UTC`.
pub fn utc(unix_ms: u64) -> String {
    let seconds = unix_ms / 1000;
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02} UTC",
        of_day / 3600,
        of_day / 60 % 60,
        of_day % 60
    )
}

/// Last part of a path, on whatever system the path was made.
pub fn file_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

/// Takes the namespaces out of a type name, also out of its generic arguments.
pub fn without_namespaces(name: &str) -> String {
    let mut short = String::with_capacity(name.len());
    let mut word = 0;
    for (at, character) in name.char_indices() {
        match character {
            '.' => word = at + 1,
            '<' | '>' | ',' | '[' | ']' | '(' | ')' | '&' | '*' | ' ' | '+' => {
                short.push_str(&name[word..at]);
                short.push(character);
                word = at + character.len_utf8();
            }
            _ => {}
        }
    }
    short.push_str(&name[word..]);
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_any_size() {
        let cases = [
            (0.0, "0"),
            (-3.0, "-3"),
            (0.01234, "0.0123"),
            (7.254, "7.25"),
            (12.34, "12.3"),
            (1234.5, "1,234"),
            (-99_999.0, "-99,999"),
            (71_853_684.0, "71.85 M"),
            (2.5e13, "25.00 T"),
            (1e300, "1.00e300"),
        ];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn numbers_read_well() {
        let durations = [
            0,
            853,
            1_000,
            12_345_678,
            999_600_000,
            4_560_000_000,
            125_000_000_000,
            7_500_000_000_000,
        ];
        let expected =
            ["0", "853 ns", "1.00 µs", "12.3 ms", "1000 ms", "4.56 s", "2 min 05 s", "2 h 05 min"];
        assert_eq!(durations.map(duration), expected);
        assert_eq!(
            [0, 512, 1536, 1 << 20, u64::MAX].map(bytes),
            ["0 B", "512 B", "1.50 KB", "1.00 MB", "16.0 EB"]
        );
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(
            [0.0, 0.000_3, 0.012, 0.5, 1.0].map(percent),
            ["0.0 %", "0.03 %", "1.2 %", "50.0 %", "100.0 %"]
        );
        assert_eq!(counted(1, "sample"), "1 sample");
        assert_eq!(rate(190_000.4), "190,000 /s");
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(utc(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(utc(951_782_399_000), "2000-02-28 23:59:59 UTC");
        assert_eq!(utc(951_782_400_000), "2000-02-29 00:00:00 UTC");
        assert_eq!(utc(1_700_000_000_123), "2023-11-14 22:13:20 UTC");
        assert_eq!(utc(4_107_542_400_000), "2100-03-01 00:00:00 UTC");
    }
}
