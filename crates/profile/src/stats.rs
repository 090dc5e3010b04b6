/// A share that was estimated from samples, with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The share that was seen, 0 to 1.
    pub share: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

/// Quantile of the normal distribution for 95 %.
const Z: f64 = 1.959_963_984_540_054;

impl Estimate {
    /// Estimates from a share and the number of (effective) samples behind it: Wilson's score
    /// interval, which also holds for few samples and for shares near 0 and 1, where the plain
    /// standard error is wrong (E. B. Wilson, 1927).
    pub fn wilson(share: f64, samples: f64) -> Self {
        let share = share.clamp(0.0, 1.0);
        if samples <= 0.0 {
            return Self { share, low: 0.0, high: 1.0 };
        }
        let z2 = Z * Z;
        let centre = (share + z2 / (2.0 * samples)) / (1.0 + z2 / samples);
        let half = Z / (1.0 + z2 / samples)
            * (share * (1.0 - share) / samples + z2 / (4.0 * samples * samples)).sqrt();
        Self {
            share,
            low: (centre - half).max(0.0).min(share),
            high: (centre + half).min(1.0).max(share),
        }
    }

    /// The larger distance from the share to an end of the interval: "share ± margin".
    pub fn margin(&self) -> f64 {
        (self.high - self.share).max(self.share - self.low)
    }
}

/// An amount that was estimated from weighted samples, with its 95 % interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Amount {
    /// The estimate.
    pub value: f64,
    /// Half the width of the interval: "value ± margin".
    pub margin: f64,
}

impl Amount {
    /// From the weights of samples whose number is random (a Poisson process): the variance of
    /// their sum is the expected sum of their squares. For regular samples, and for those that are
    /// taken almost certainly, this overestimates the variance.
    pub fn of(weights: impl IntoIterator<Item = f64>) -> Self {
        let (sum, squares) =
            weights.into_iter().fold((0.0, 0.0), |(sum, squares), w| (sum + w, squares + w * w));
        Self::with_variance(sum, squares)
    }

    /// From an estimate and its variance.
    pub fn with_variance(value: f64, variance: f64) -> Self {
        Self { value, margin: Z * variance.max(0.0).sqrt() }
    }
}

/// Distribution of durations or other amounts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    /// How many.
    pub count: u64,
    /// Sum.
    pub total: u64,
    /// Half are no greater than this.
    pub p50: u64,
    /// 95 % are no greater than this.
    pub p95: u64,
    /// 99 % are no greater than this.
    pub p99: u64,
    /// The greatest.
    pub max: u64,
}

impl Distribution {
    /// Of these values (nearest rank: a quantile is a value that occurred).
    pub fn of(values: impl IntoIterator<Item = u64>) -> Self {
        let mut values: Vec<u64> = values.into_iter().collect();
        values.sort_unstable();
        let rank = |quantile: f64| {
            let rank = (quantile * values.len() as f64).ceil() as usize;
            values.get(rank.saturating_sub(1)).copied().unwrap_or_default()
        };
        Self {
            count: values.len() as u64,
            total: values.iter().fold(0, |sum, value| sum.saturating_add(*value)),
            p50: rank(0.5),
            p95: rank(0.95),
            p99: rank(0.99),
            max: values.last().copied().unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_those_of_the_tables() {
        // Wilson's interval for 10 of 100, as statistics packages give it (R: prop.test(10, 100,
        // correct = FALSE)).
        let estimate = Estimate::wilson(0.1, 100.0);
        assert!((estimate.low - 0.055_23).abs() < 1e-4, "{estimate:?}");
        assert!((estimate.high - 0.174_37).abs() < 1e-4, "{estimate:?}");
        // For many samples it is the plain ± 1.96 standard errors.
        let estimate = Estimate::wilson(0.7, 10_000.0);
        assert!((estimate.margin() - 1.96 * (0.21_f64 / 10_000.0).sqrt()).abs() < 2e-4);
        // None of five is not "certainly none".
        assert!((Estimate::wilson(0.0, 5.0).high - 0.4345).abs() < 1e-3);
        assert_eq!(Estimate::wilson(0.0, 0.0).high, 1.0);
        assert_eq!(Estimate::wilson(1.0, 1e12).high, 1.0);
    }

    #[test]
    fn amounts_are_sums_with_the_error_of_their_number() {
        let amount = Amount::of([100.0; 400]);
        assert_eq!(amount.value, 40_000.0);
        // 400 ± 1.96 times 20.
        assert!((amount.margin - 3920.0).abs() < 1.0, "{amount:?}");
        assert_eq!(Amount::of([]), Amount::default());
    }

    #[test]
    fn quantiles_are_values_that_occurred() {
        let distribution = Distribution::of((1..=100).rev());
        let expected =
            Distribution { count: 100, total: 5050, p50: 50, p95: 95, p99: 99, max: 100 };
        assert_eq!(distribution, expected);
        assert_eq!(Distribution::of([7]).p50, 7);
        assert_eq!(Distribution::of([]), Distribution::default());
        assert_eq!(Distribution::of([u64::MAX, 1]).total, u64::MAX);
    }
}
