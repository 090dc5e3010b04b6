use session::{CounterDef, Nanos};

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

impl Counter {
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
    use session::{CounterId, CounterKind};

    #[test]
    fn summaries() {
        let def = CounterDef {
            id: CounterId(0),
            source: "S".into(),
            name: "n".into(),
            title: "N".into(),
            unit: String::new(),
            tags: String::new(),
            kind: CounterKind::Level,
        };
        let of = |values: &[f64]| {
            let values = values.iter().enumerate().map(|(time, value)| (time as Nanos, *value)).collect();
            Counter { def: def.clone(), values }.summary()
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[4.0, 1.0, 7.0]), Some(CounterSummary { last: 7.0, mean: 4.0, min: 1.0, max: 7.0 }));
        assert!(of(&[f64::MAX, f64::MAX]).unwrap().mean.is_finite());
    }
}
