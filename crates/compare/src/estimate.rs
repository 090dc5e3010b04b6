//! Means with their uncertainty, and when two of them differ.
//!
//! **Why slices.** Samples come in bursts: a method that runs in every tenth second only has a
//! hundred samples in a row and then none. Counting them as a hundred independent pieces of
//! evidence (a Poisson or two-proportion test) claims far too much. So each recording is cut into 8
//! to 32 slices of equal length, and how much the slices differ from each other says how uncertain
//! the mean over all of them is (the method of batch means). Bursts that are shorter than a slice
//! are in that spread; those that are longer make neighbours alike, so pairs of neighbours are
//! looked at too, and the larger spread counts.
//!
//! **Few samples.** Spreads of very few samples are not normally distributed. There, the numbers of
//! samples must differ as well, by the exact conditional test for two Poisson counts.
//!
//! **No two runs are the same.** Rates of samplers and clocks have errors of their own, which no
//! spread within a recording shows: half a percent of each mean ([`SYSTEMATIC`]) is added.

use statrs::{
    distribution::{ContinuousCDF as _, StudentsT},
    function::beta::beta_reg,
};

/// Uncertainty of any mean, as a share of it, that a recording cannot show by itself.
pub const SYSTEMATIC: f64 = 0.005;

/// With fewer samples in both recordings together, nothing is claimed.
pub const FEWEST: f64 = 10.0;

/// With fewer samples in both recordings together, their numbers must differ, too.
const FEW: f64 = 200.0;

/// With fewer slices, nothing is claimed.
pub const FEWEST_SLICES: usize = 8;

/// A mean of slices.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Mean {
    /// The mean: what was counted by what it is related to.
    pub value: f64,
    /// Variance of the mean by the spread of the slices.
    variance: f64,
    /// Degrees of freedom of that variance.
    freedom: f64,
    /// What all slices are related to together: seconds, or a weight.
    exposure: f64,
    /// How many samples of equal weight say as much as those that were counted.
    pub samples: f64,
    /// The weight of each of these.
    each: f64,
    /// Slices that are related to something.
    slices: usize,
}

/// What a slice has.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Slice {
    /// What was counted.
    pub amount: f64,
    /// Sum of the squares of the weights that make up the amount.
    pub squares: f64,
}

impl Slice {
    /// Adds an amount, and the squares of the weights that make it up.
    pub fn add(&mut self, amount: f64, squares: f64) {
        self.amount += amount;
        self.squares += squares;
    }
}

impl Mean {
    /// Of slices, and what each is related to. `fine`: whether single slices say something, or only
    /// pairs of them.
    pub fn of(slices: &[Slice], exposures: &[f64], fine: bool) -> Self {
        let amount: f64 = slices.iter().map(|slice| slice.amount).sum();
        let squares: f64 = slices.iter().map(|slice| slice.squares).sum();
        let exposure: f64 = exposures.iter().sum();
        let value = if exposure > 0.0 { amount / exposure } else { 0.0 };
        let mut mean = Self {
            value,
            exposure,
            samples: if squares > 0.0 { amount.powi(2) / squares } else { 0.0 },
            each: if amount > 0.0 { squares / amount } else { 0.0 },
            ..Self::default()
        };
        let single = slices.iter().map(|slice| slice.amount).zip(exposures.iter().copied());
        let single: Vec<(f64, f64)> = single.filter(|(_, exposure)| *exposure > 0.0).collect();
        mean.slices = single.len();
        // What is left of an odd number is a pair by itself.
        let pair = |pair: &[(f64, f64)]| {
            pair.iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
        };
        let pairs: Vec<(f64, f64)> = single.chunks(2).map(pair).collect();
        let (by_single, by_pairs) = (mean.spread(&single), mean.spread(&pairs));
        (mean.variance, mean.freedom) = match pairs.len() >= FEWEST_SLICES {
            // What bursts hide from slices of a length they hide half as much from those of twice
            // the length, so what is still hidden is as much as was gained.
            true => {
                let longer = by_pairs.max(2.0 * by_pairs - by_single);
                let variance = if fine { longer.max(by_single) } else { longer };
                (variance, pairs.len() as f64 - 1.0)
            }
            false => (by_single, (single.len() as f64 - 1.0).max(0.0)),
        };
        mean
    }

    /// Of values instead of samples: the mean of all values. `counts` are their numbers in each
    /// slice.
    pub fn of_values(sums: &[Slice], counts: &[f64]) -> Self {
        Self { samples: f64::INFINITY, ..Self::of(sums, counts, true) }
    }

    /// Variance of the mean by the spread of these slices: that of a ratio, by its residuals.
    fn spread(&self, slices: &[(f64, f64)]) -> f64 {
        let count = slices.len() as f64;
        if count < 2.0 || self.exposure <= 0.0 {
            return 0.0;
        }
        let residuals = slices.iter().map(|(amount, exposure)| amount - self.value * exposure);
        let sum: f64 = residuals.map(|residual| residual * residual).sum();
        count / (count - 1.0) * sum / self.exposure.powi(2)
    }

    /// The same mean in another unit.
    pub fn times(self, factor: f64) -> Self {
        Self {
            value: self.value * factor,
            variance: self.variance * factor * factor,
            exposure: self.exposure / factor,
            ..self
        }
    }

    /// Variance with what no recording shows by itself.
    fn whole_variance(&self) -> f64 {
        self.variance + (SYSTEMATIC * self.value).powi(2)
    }

    /// Half of the 95 % interval.
    pub fn margin(&self) -> f64 {
        quantile(self.freedom) * self.whole_variance().sqrt()
    }
}

/// Two means, and how they differ.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Difference {
    /// The second by the first, less one; none if the first is 0.
    pub relative: Option<f64>,
    /// The 95 % interval of that; none if one of the two is 0.
    pub interval: Option<(f64, f64)>,
    /// How likely means that are equal would differ as much; none where there are too few samples.
    pub chance: Option<f64>,
}

impl Difference {
    /// Between these.
    pub fn of(before: &Mean, after: &Mean) -> Self {
        let relative = (before.value > 0.0).then(|| after.value / before.value - 1.0);
        Self {
            relative,
            interval: interval(before, after),
            chance: is_tested(before, after).then(|| chance(before, after)),
        }
    }
}

/// Whether there is enough of both to say anything.
fn is_tested(before: &Mean, after: &Mean) -> bool {
    before.slices.min(after.slices) >= FEWEST_SLICES && before.samples + after.samples >= FEWEST
}

/// How likely two equal means would differ as much as these: Welch's test, and for few samples the
/// test of their numbers as well.
fn chance(before: &Mean, after: &Mean) -> f64 {
    let (one, other) = (before.whole_variance(), after.whole_variance());
    let difference = (after.value - before.value).abs();
    if difference <= 0.0 {
        return 1.0;
    }
    if one + other <= 0.0 {
        return 0.0;
    }
    let t = difference / (one + other).sqrt();
    let by_spread = StudentsT::new(0.0, 1.0, freedom(before, after))
        .map_or(1.0, |student| 2.0 * student.sf(t))
        .min(1.0);
    match before.samples + after.samples < FEW {
        true => by_spread.max(by_number(before, after)),
        false => by_spread,
    }
}

/// Degrees of freedom of the difference, as Welch and Satterthwaite approximate them. What is added
/// as [`SYSTEMATIC`] is known, so it has none of its own.
fn freedom(before: &Mean, after: &Mean) -> f64 {
    let part = |mean: &Mean| mean.variance.powi(2) / mean.freedom.max(1.0);
    let all = before.whole_variance() + after.whole_variance();
    let parts = part(before) + part(after);
    if parts > 0.0 { (all.powi(2) / parts).clamp(1.0, 1e6) } else { 1e6 }
}

/// How likely the samples of equal means would be spread over the two recordings as unevenly as
/// this: the exact test of two Poisson counts, given their sum (Przyborowski and Wilenski, 1940).
fn by_number(before: &Mean, after: &Mean) -> f64 {
    // Where there is none, a sample would stand for as much as in the other recording.
    let each = |own: &Mean, other: &Mean| if own.each > 0.0 { own.each } else { other.each };
    let chances = |own: &Mean, other: &Mean| own.exposure / each(own, other).max(f64::MIN_POSITIVE);
    let (one, other) = (chances(before, after), chances(after, before));
    let (k, n) = (before.samples, before.samples + after.samples);
    let share = one / (one + other);
    if !(share > 0.0 && share < 1.0) {
        return 1.0;
    }
    let at_least = |k: f64| match k {
        k if k <= 0.0 => 1.0,
        k if k > n => 0.0,
        k => beta_reg(k, n - k + 1.0, share),
    };
    let (upper, lower) = (at_least(k), 1.0 - at_least(k + 1.0));
    (2.0 * upper.min(lower)).clamp(0.0, 1.0)
}

/// The 95 % interval of the relative change: that of the difference of the logarithms, because a
/// ratio is not spread evenly around its value.
fn interval(before: &Mean, after: &Mean) -> Option<(f64, f64)> {
    if before.value <= 0.0 || after.value <= 0.0 {
        return None;
    }
    let relative = |mean: &Mean| mean.whole_variance() / mean.value.powi(2);
    let error = (relative(before) + relative(after)).sqrt();
    let (ratio, reach) = (after.value / before.value, quantile(freedom(before, after)) * error);
    Some((ratio * (-reach).exp() - 1.0, ratio * reach.exp() - 1.0))
}

/// The quantile for 95 % of Student's distribution.
fn quantile(freedom: f64) -> f64 {
    let student = StudentsT::new(0.0, 1.0, freedom.max(1.0));
    student.map_or(f64::INFINITY, |student| student.inverse_cdf(0.975))
}

/// Adjusts chances for their number, after Holm (1979): if each that is below a level is taken for
/// a change, the chance that any of these is none is at most that level. It holds whatever the
/// quantities have to do with each other, which a method and its callers have.
pub fn adjusted(chances: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..chances.len()).collect();
    order::sort_by(&mut order, |one, other| chances[*one].total_cmp(&chances[*other]));
    let mut adjusted = vec![1.0; chances.len()];
    let mut least = 0.0_f64;
    for (rank, index) in order.into_iter().enumerate() {
        let left = (chances.len() - rank) as f64;
        least = least.max((chances[index] * left).min(1.0));
        adjusted[index] = least;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slices(amounts: &[f64], each: f64) -> Mean {
        let slices: Vec<Slice> = amounts
            .iter()
            .map(|amount| Slice { amount: *amount, squares: amount * each })
            .collect();
        Mean::of(&slices, &vec![1.0; amounts.len()], true)
    }

    #[test]
    fn a_mean_has_the_error_of_its_slices() {
        let mean = slices(&[4.0, 6.0, 4.0, 6.0, 4.0, 6.0, 4.0, 6.0], 0.01);
        assert_eq!((mean.value, mean.freedom), (5.0, 7.0));
        // Deviations of 1: a variance of 8/7 of each, of 1/7 of the mean.
        assert!((mean.variance - 1.0 / 7.0).abs() < 1e-12);
        // Student's 2.3646 for 7 degrees of freedom.
        let expected = 2.364_624 * (1.0 / 7.0 + (5.0 * SYSTEMATIC).powi(2)).sqrt();
        assert!((mean.margin() - expected).abs() < 1e-4, "{mean:?}");
        // Pairs of neighbours are all the same here, so the single slices count.
        let long = slices(&[4.0, 6.0].repeat(8), 0.01);
        assert!((long.variance - 1.0 / 15.0).abs() < 1e-12 && long.freedom == 7.0, "{long:?}");
        // Long bursts: single slices would say 9/15, pairs say 9/7, and longer ones more.
        let bursts = slices(&[2.0, 2.0, 8.0, 8.0].repeat(4), 0.01);
        assert_eq!(bursts.freedom, 7.0);
        let expected = 2.0 * 9.0 / 7.0 - 9.0 / 15.0;
        assert!((bursts.variance - expected).abs() < 1e-12, "{bursts:?}");
        let seconds = bursts.times(10.0);
        assert_eq!((seconds.value, seconds.margin()), (50.0, bursts.margin() * 10.0));
    }

    #[test]
    fn welch_s_test_is_that_of_the_textbooks() {
        // Welch's own test of these gives t = 2.5100 with 27.995 degrees of freedom and a chance of
        // 0.018131; with half a percent of both means, 2.4808 with 29.336 and 0.019081.
        let one = [
            27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1, 21.9, 22.6, 23.1, 19.6, 19.0, 21.7,
            21.4,
        ];
        let other = [
            27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0, 24.8, 20.2, 21.9, 22.1, 22.9, 30.5,
            20.2,
        ];
        let mean = |values: [f64; 15]| {
            let mut mean = Mean { exposure: values.len() as f64, samples: 1e9, ..Mean::default() };
            mean.value = values.iter().sum::<f64>() / values.len() as f64;
            mean.variance = mean.spread(&values.map(|value| (value, 1.0)));
            mean.freedom = 14.0;
            mean
        };
        let (one, other) = (mean(one), mean(other));
        assert!((one.variance - 0.524_495).abs() < 1e-6, "{one:?}");
        assert!((freedom(&one, &other) - 29.335_7).abs() < 1e-3);
        assert!((chance(&one, &other) - 0.019_081).abs() < 1e-6);
    }

    #[test]
    fn numbers_of_few_samples_are_compared_exactly() {
        let mean = |samples: f64| Mean { samples, each: 1.0, exposure: 1.0, ..Mean::default() };
        // R: binom.test(0, 10, 0.5) gives 0.001953, binom.test(2, 10, 0.5) 0.1094.
        assert!((by_number(&mean(0.0), &mean(10.0)) - 0.001_953_1).abs() < 1e-6);
        assert!((by_number(&mean(8.0), &mean(2.0)) - 0.109_375).abs() < 1e-6);
        assert_eq!(by_number(&mean(5.0), &mean(5.0)), 1.0);
        // In a recording that is three times as long, three times as many are to be expected.
        let long = Mean { exposure: 3.0, ..mean(30.0) };
        assert!(by_number(&mean(10.0), &long) > 0.9);
    }

    #[test]
    fn one_burst_is_no_evidence() {
        let mut burst = vec![0.0; 16];
        burst[5] = 100.0;
        let (burst, none) = (slices(&burst, 1.0), slices(&[0.0; 16], 1.0));
        let difference = Difference::of(&none, &burst);
        assert!(difference.chance.unwrap() > 0.3, "{difference:?}");
        // The same hundred samples all the time are.
        let always = slices(&[6.0, 7.0, 6.0, 6.0].repeat(4), 1.0);
        assert!(Difference::of(&none, &always).chance.unwrap() < 1e-6);
        assert_eq!(Difference::of(&none, &slices(&[0.5; 16], 1.0)).chance, None);
    }

    #[test]
    fn changes_have_an_interval() {
        let (before, after) =
            (slices(&[99.0, 101.0].repeat(8), 1.0), slices(&[109.0, 111.0].repeat(8), 1.0));
        let difference = Difference::of(&before, &after);
        assert!((difference.relative.unwrap() - 0.1).abs() < 1e-12);
        let (low, high) = difference.interval.unwrap();
        assert!(low > 0.08 && low < 0.1 && high > 0.1 && high < 0.12, "{difference:?}");
        assert!(difference.chance.unwrap() < 1e-6);
        // Half a percent may be the clock.
        let same = slices(&[99.5, 101.5].repeat(8), 1.0);
        assert!(Difference::of(&before, &same).chance.unwrap() > 0.3);
        let none = slices(&[0.0; 16], 1.0);
        assert_eq!(Difference::of(&none, &before).relative, None);
        assert_eq!(Difference::of(&none, &none).chance, None);
    }

    #[test]
    fn many_chances_are_adjusted() {
        // R: p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm") gives 0.03, 0.06, 0.06, 0.02.
        let adjusted = adjusted(&[0.01, 0.04, 0.03, 0.005]);
        for (one, expected) in adjusted.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((one - expected).abs() < 1e-12, "{adjusted:?}");
        }
        assert!(super::adjusted(&[]).is_empty());
    }
}
