//! How a drive's times scatter: a distribution with the mean 1, as equally likely values.

use super::chance::Chance;

/// Values of which each is equally likely.
const VALUES: usize = 1024;

/// A distribution with the mean 1.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    sorted: Vec<f64>,
    /// Sums of the values from each place on.
    sums: Vec<f64>,
    /// Over the mean.
    deviation: f64,
}

impl Shape {
    /// Of values in any order, which are scaled to the mean 1; constant if there are none.
    pub(super) fn of(mut values: Vec<f64>) -> Shape {
        values.retain(|value| value.is_finite() && *value >= 0.0);
        let sum: f64 = values.iter().sum();
        if sum <= 0.0 {
            values = vec![1.0];
        } else {
            let mean = sum / values.len() as f64;
            values.iter_mut().for_each(|value| *value /= mean);
        }
        values.sort_unstable_by(f64::total_cmp);
        let mut sums = vec![0.0; values.len() + 1];
        for place in (0..values.len()).rev() {
            sums[place] = sums[place + 1] + values[place];
        }
        let squares: f64 = values.iter().map(|value| (value - 1.0).powi(2)).sum();
        let deviation = (squares / values.len() as f64).sqrt();
        Shape { sorted: values, sums, deviation }
    }

    /// Of counted values, the least first, by as many quantiles as a shape has values.
    pub(super) fn of_counted(counted: &[(f64, u64)]) -> Shape {
        let count: u64 = counted.iter().map(|(_, count)| count).sum();
        let (mut all, mut passed) = (counted.iter(), 0);
        let mut value = 0.0;
        let at = |place: usize| {
            let rank = (place as f64 + 0.5) / VALUES as f64 * count as f64;
            while passed as f64 <= rank
                && let Some((next, times)) = all.next()
            {
                (value, passed) = (*next, passed + times);
            }
            value
        };
        Shape::of((0..VALUES).map(at).collect())
    }

    /// One of those that drives have: from constant to a lognormal body with a tail of up to 1 % of the I/Os
    /// that take up to 30 times as long.
    pub(super) fn draw_one(chance: &mut Chance) -> Shape {
        let deviation = if chance.index(8) == 0 { 0.0 } else { chance.over(0.02, 1.0) };
        let slow = if chance.index(2) == 0 { 0.0 } else { chance.over(0.001, 0.01) };
        let times = chance.over(3.0, 30.0);
        let value = |place: usize| {
            let body = (deviation * normal_quantile((place as f64 + 0.5) / VALUES as f64)).exp();
            // What is slow is slow wherever it lies in the body.
            let is_slow = (place * 389 % VALUES) as f64 + 0.5 < slow * VALUES as f64;
            if is_slow { body * times } else { body }
        };
        Shape::of((0..VALUES).map(value).collect())
    }

    /// One of the values.
    pub(super) fn draw(&self, chance: &mut Chance) -> f64 {
        self.sorted[chance.index(self.sorted.len())]
    }

    /// A quantile.
    pub(super) fn quantile(&self, share: f64) -> f64 {
        let rank = (share * self.sorted.len() as f64).ceil() as usize;
        self.sorted[rank.clamp(1, self.sorted.len()) - 1]
    }

    /// The mean if no value was below `least`.
    pub(super) fn mean_above(&self, least: f64) -> f64 {
        let place = self.sorted.partition_point(|value| *value < least);
        (place as f64 * least + self.sums[place]) / self.sorted.len() as f64
    }

    /// The deviation over the mean.
    pub(super) fn deviation(&self) -> f64 {
        self.deviation
    }
}

/// The quantile of the normal distribution, by bisection of its integral (Abramowitz and Stegun 26.2.17,
/// whose error is below 1e-7).
fn normal_quantile(share: f64) -> f64 {
    let (mut below, mut above) = (-8.0, 8.0);
    for _ in 0..40 {
        let middle = 0.5 * (below + above);
        if normal_integral(middle) < share { below = middle } else { above = middle }
    }
    0.5 * (below + above)
}

fn normal_integral(at: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * at.abs());
    let factors = [0.319_381_530, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    let series = factors.iter().rev().fold(0.0, |sum, factor| (sum + factor) * t);
    let above = series * (-0.5 * at * at).exp() / std::f64::consts::TAU.sqrt();
    if at < 0.0 { above } else { 1.0 - above }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_has_the_mean_of_one_and_the_mean_above_what_is_slept() {
        let shape = Shape::of(vec![3.0, 1.0]);
        assert_eq!([0.0, 0.5, 1.0, 2.0].map(|least| shape.mean_above(least)), [1.0, 1.0, 1.25, 2.0]);
        assert_eq!([0.0, 0.5, 0.51, 1.0].map(|share| shape.quantile(share)), [0.5, 0.5, 1.5, 1.5]);
        assert_eq!((shape.deviation(), Shape::of(vec![]).deviation()), (0.5, 0.0));
        let mut chance = Chance::new(1, 0);
        let deviations: Vec<f64> = (0..200).map(|_| Shape::draw_one(&mut chance).deviation()).collect();
        assert!(deviations.contains(&0.0) && deviations.iter().any(|one| *one > 1.0), "{deviations:?}");
    }

    #[test]
    fn counted_values_have_their_shares() {
        // Three quarters take 1, the rest 5: the mean is 2.
        let shape = Shape::of_counted(&[(1.0, 3), (5.0, 1)]);
        assert_eq!([0.1, 0.75, 0.751, 1.0].map(|share| shape.quantile(share)), [0.5, 0.5, 2.5, 2.5]);
        assert_eq!(Shape::of_counted(&[]).quantile(0.99), 1.0);
    }

    #[test]
    fn quantiles_of_the_normal_distribution_are_those_of_tables() {
        for (share, quantile) in [(0.5, 0.0), (0.975, 1.959_964), (0.01, -2.326_348)] {
            assert!((normal_quantile(share) - quantile).abs() < 1e-5, "{share}");
        }
    }
}
