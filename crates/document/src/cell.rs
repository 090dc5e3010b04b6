use schemars::JsonSchema;
use serde::Serialize;

use crate::format;

/// Lesser parts of a whole would be 0 % of it.
const LEAST_PART: f64 = 0.005;

/// A cell of a table, or a part of a line of a tree.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Cell {
    /// There is nothing to say.
    Nothing,
    /// A text of one line.
    Text(String),
    /// A number with its unit.
    Quantity {
        /// In the unit.
        value: f64,
        /// Half of the 95 % interval, of an estimate.
        margin: Option<f64>,
        /// What is counted.
        unit: Unit,
    },
    /// A share from 0 to 1 to be drawn.
    Bar(f64),
    /// Values over time to be drawn.
    Line(Vec<f64>),
    /// A name to be fitted to the room.
    Name {
        /// The same name, the longest first. The longest that fits is shown.
        forms: Vec<String>,
        /// Where it is in the source: file and line.
        place: Option<String>,
    },
    /// A word of a fixed list.
    Word(Word),
    /// The shares, from 0 to 1, that words of a list have in a whole.
    Parts(Vec<(Word, f64)>),
    /// What matters less than the other cells.
    Weak(Box<Cell>),
}

/// A word of a fixed list, such as a state. Where a list is drawn, its words stand as letters and
/// in colors of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Word {
    /// The word.
    pub text: &'static str,
    /// What stands for it where there is no room for words.
    pub letter: char,
    /// Its color, as the number of one of the 16 colors of terminals; none for that of other text.
    pub color: Option<u8>,
}

/// What a [`Cell::Quantity`] counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Things: `12,345`.
    Count,
    /// Anything, also with a fraction: `12.5`, `71.85 M`.
    Number,
    /// Bytes: `1.50 MB`.
    Bytes,
    /// Nanoseconds: `12.3 ms`.
    Nanoseconds,
    /// Things per second: `12.3 /s`.
    PerSecond,
    /// A share from 0 to 1: `45.2 %`.
    Share,
    /// A share from 0 to 1 that is not known exactly: `45 %`.
    WholePercent,
    /// How many things more or less: `+12`.
    CountChange,
    /// How many bytes more or less: `-1.50 MB`.
    BytesChange,
    /// How many nanoseconds more or less: `+12.3 ms`.
    NanosecondsChange,
    /// How much more or less, as a share of what there was: `+12.3 %`.
    ShareChange,
    /// How many things more or less in each second: `+12.3 /s`.
    ChangePerSecond,
}

impl Cell {
    /// A text of one line.
    pub fn text(text: impl Into<String>) -> Self {
        Cell::Text(text.into())
    }

    /// A name that is shown as it is.
    pub fn name(name: impl Into<String>) -> Self {
        Cell::Name { forms: vec![name.into()], place: None }
    }

    /// A number with its unit.
    pub fn quantity(value: f64, unit: Unit) -> Self {
        Cell::Quantity { value, margin: None, unit }
    }

    /// Half of the 95 % interval is `margin`.
    pub fn estimate(value: f64, margin: f64, unit: Unit) -> Self {
        Cell::Quantity { value, margin: Some(margin), unit }
    }

    /// The same, as what matters less than the other cells.
    pub fn weak(self) -> Self {
        Cell::Weak(Box::new(self))
    }

    /// A number of things.
    pub fn count(count: impl TryInto<u64>) -> Self {
        Cell::quantity(count.try_into().unwrap_or(u64::MAX) as f64, Unit::Count)
    }

    /// A size.
    pub fn bytes(bytes: u64) -> Self {
        Cell::quantity(bytes as f64, Unit::Bytes)
    }

    /// A duration.
    pub fn nanoseconds(nanoseconds: u64) -> Self {
        Cell::quantity(nanoseconds as f64, Unit::Nanoseconds)
    }

    /// A number of things in each second.
    pub fn per_second(per_second: f64) -> Self {
        Cell::quantity(per_second, Unit::PerSecond)
    }

    /// A share from 0 to 1.
    pub fn share(share: f64) -> Self {
        Cell::quantity(share, Unit::Share)
    }

    /// The longest form of what the cell says, in one line; empty for what is drawn.
    pub fn shown(&self) -> String {
        match self {
            Cell::Nothing => "·".to_owned(),
            Cell::Text(text) => text.clone(),
            Cell::Quantity { value, margin, unit } => unit.shown(*value, *margin),
            Cell::Bar(_) | Cell::Line(_) => String::new(),
            Cell::Name { forms, place } => {
                let name = forms.first().map(String::as_str).unwrap_or_default();
                match place {
                    Some(place) => format!("{name}  {place}"),
                    None => name.to_owned(),
                }
            }
            Cell::Word(word) => word.text.to_owned(),
            Cell::Parts(parts) => {
                let seen = parts.iter().filter(|(_, share)| *share >= LEAST_PART);
                let seen = seen.map(|(word, share)| {
                    format!("{} {}", word.text, Unit::WholePercent.of(*share))
                });
                seen.collect::<Vec<_>>().join(", ")
            }
            Cell::Weak(cell) => cell.shown(),
        }
    }

    /// Whether it is a text rather than a number or a picture.
    pub fn is_text(&self) -> bool {
        match self {
            Cell::Text(_) | Cell::Name { .. } | Cell::Word(_) => true,
            Cell::Weak(cell) => cell.is_text(),
            _ => false,
        }
    }

    /// Whether it is a picture of what other cells say in numbers.
    pub fn is_drawn(&self) -> bool {
        match self {
            Cell::Weak(cell) => cell.is_drawn(),
            cell => matches!(cell, Cell::Bar(_) | Cell::Line(_)),
        }
    }
}

impl Unit {
    fn shown(self, value: f64, margin: Option<f64>) -> String {
        let shown = self.of(value);
        match (margin, self) {
            (None, _) => shown,
            // In points, of which the value has said the unit.
            (Some(margin), Unit::Share | Unit::WholePercent | Unit::ShareChange) => {
                format!("{shown} ± {:.1}", margin * 100.0)
            }
            (Some(margin), _) => format!("{shown} ± {}", self.of(margin)),
        }
    }

    fn of(self, value: f64) -> String {
        let whole = value.abs().round() as u64;
        let signed = |text| format!("{}{text}", if value < 0.0 { "-" } else { "+" });
        match self {
            Unit::Count => format::count(whole),
            Unit::Number => format::number(value),
            Unit::Bytes => format::bytes(whole),
            Unit::Nanoseconds => format::duration(whole),
            Unit::PerSecond => format::rate(value),
            Unit::Share => format::percent(value),
            Unit::WholePercent => format!("{:.0} %", value * 100.0),
            Unit::CountChange => signed(format::count(whole)),
            Unit::BytesChange => signed(format::bytes(whole)),
            Unit::NanosecondsChange => signed(format::duration(whole)),
            Unit::ShareChange => signed(format::percent(value.abs())),
            Unit::ChangePerSecond => signed(format::rate(value.abs())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_whole_are_written_in_words() {
        let word = |text| Word { text, letter: 'x', color: None };
        let parts = vec![(word("lock"), 0.796), (word("GC"), 0.004), (word("sleep"), 0.2)];
        assert_eq!(Cell::Parts(parts).shown(), "lock 80 %, sleep 20 %");
        assert_eq!(Cell::Word(word("I/O")).weak().shown(), "I/O");
        assert!(Cell::Bar(0.5).weak().is_drawn() && !Cell::text("a").weak().is_drawn());
    }

    #[test]
    fn quantities_are_written_in_their_unit() {
        let cases = [
            (Cell::count(12_345_u64), "12,345"),
            (Cell::bytes(1536), "1.50 KB"),
            (Cell::nanoseconds(12_345_678), "12.3 ms"),
            (Cell::per_second(12.34), "12.3 /s"),
            (Cell::share(0.4521), "45.2 %"),
            (Cell::quantity(0.455, Unit::WholePercent), "46 %"),
            (Cell::quantity(7.254, Unit::Number), "7.25"),
            (Cell::quantity(-2048.0, Unit::BytesChange), "-2.00 KB"),
            (Cell::quantity(3.0, Unit::CountChange), "+3"),
            (Cell::quantity(-1.5, Unit::ChangePerSecond), "-1.50 /s"),
            (Cell::estimate(0.452, 0.0104, Unit::Share), "45.2 % ± 1.0"),
            (Cell::estimate(1200.0, 15.2, Unit::Count), "1,200 ± 15"),
            (Cell::Nothing, "·"),
        ];
        for (cell, text) in cases {
            assert_eq!(cell.shown(), text);
        }
    }
}
