use profilers::counters::{CounterDef, CounterKind};
use session::Nanos;

/// Something that the process counted about itself, over time.
#[derive(Clone, Debug, PartialEq)]
pub struct Counter {
    /// What it is.
    pub def: CounterDef,
    /// Its values, by time.
    pub values: Vec<(Nanos, f64)>,
}

/// What can be said of all values of a counter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CounterSummary {
    /// The last value.
    pub last: f64,
    /// The mean of all.
    pub mean: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
}

/// Values that come sooner after the one before are a part of it.
const PART: Nanos = 300_000_000;

impl Counter {
    /// Adds a value that is later than the others. The first value covers the time from `start` on.
    ///
    /// .NET Core 3.1 sends the values of a second in two parts, the second part of a few
    /// milliseconds: those are put together.
    pub(crate) fn add(&mut self, start: Nanos, time: Nanos, value: f64) {
        let before = self.values.iter().rev().nth(1).map_or(start, |(time, _)| *time);
        match self.values.last_mut() {
            Some((last, kept)) if time.saturating_sub(*last) < PART => {
                if self.def.kind == CounterKind::Rate {
                    let (one, other) =
                        (last.saturating_sub(before) as f64, time.saturating_sub(*last) as f64);
                    *kept = (*kept * one + value * other) / (one + other).max(1.0);
                } else {
                    *kept = value;
                }
                *last = time;
            }
            _ => self.values.push((time, value)),
        }
    }

    /// `None` without values.
    pub fn summary(&self) -> Option<CounterSummary> {
        let (_, last) = *self.values.last()?;
        let values = || self.values.iter().map(|(_, value)| *value);
        Some(CounterSummary {
            last,
            // Summed in parts: no sum of finite values becomes infinite.
            mean: values().map(|value| value / self.values.len() as f64).sum(),
            min: values().fold(f64::INFINITY, f64::min),
            max: values().fold(f64::NEG_INFINITY, f64::max),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counter(kind: CounterKind) -> Counter {
        let (source, name, title) = ("S".into(), "n".into(), "N".into());
        let (unit, tags) = (String::new(), String::new());
        Counter {
            def: CounterDef { counter: 0, source, name, title, unit, tags, kind },
            values: Vec::new(),
        }
    }

    #[test]
    fn values_of_a_second_in_two_parts_are_put_together() {
        let (mut length, mut rate) = (counter(CounterKind::Level), counter(CounterKind::Rate));
        // A second with 99 items, and 10 ms with one.
        for (time, items, per_second) in
            [(990_000_000, 5.0, 100.0), (1_000_000_000, 7.0, 1000.0), (1_990_000_000, 0.0, 0.0)]
        {
            length.add(0, time, items);
            rate.add(0, time, per_second);
        }
        assert_eq!(length.values, [(1_000_000_000, 7.0), (1_990_000_000, 0.0)]);
        assert_eq!(rate.values, [(1_000_000_000, 109.0), (1_990_000_000, 0.0)]);
    }

    #[test]
    fn summaries() {
        let of = |values: &[f64]| {
            let values =
                values.iter().enumerate().map(|(time, value)| (time as Nanos, *value)).collect();
            Counter { values, ..counter(CounterKind::Level) }.summary()
        };
        assert_eq!(of(&[]), None);
        assert_eq!(
            of(&[4.0, 1.0, 7.0]),
            Some(CounterSummary { last: 7.0, mean: 4.0, min: 1.0, max: 7.0 })
        );
        assert!(of(&[f64::MAX, f64::MAX]).unwrap().mean.is_finite());
    }
}
