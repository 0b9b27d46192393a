//! The drive's times as distributions: made from a constant or a histogram, and drawn from.

use super::scenario::Service;
use iopj_record::histogram::Histogram;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::Rng;

impl Service {
    /// Always the same time.
    pub fn constant(ns: f64) -> Service {
        Service::equally_likely(vec![ns])
    }

    /// Each of these times with the same probability, and no limit of the rate.
    pub fn equally_likely(equally_likely_ns: Vec<f64>) -> Service {
        Service { equally_likely_ns, least_gap_ns: 0.0 }
    }

    /// The distribution of a histogram in ns: the means of `parts` slices that hold equally many of its
    /// values. Its mean is kept; what differs within a slice, such as the tail within the last, is not.
    /// `None` if the histogram is empty or `parts` is 0.
    pub fn of_histogram(histogram: &Histogram<u64>, parts: usize) -> Option<Service> {
        if histogram.is_empty() || parts == 0 {
            return None;
        }
        let slice = histogram.len() as f64 / parts as f64;
        let mut means = Vec::with_capacity(parts);
        let (mut sum, mut room) = (0.0, slice);
        for bin in histogram.iter_recorded() {
            let ns = histogram.median_equivalent(bin.value_iterated_to()) as f64;
            let mut left = bin.count_since_last_iteration() as f64;
            while left >= room && means.len() + 1 < parts {
                means.push((sum + ns * room) / slice);
                left -= room;
                (sum, room) = (0.0, slice);
            }
            sum += ns * left;
            room -= left;
        }
        means.push(sum / slice);
        Some(Service::equally_likely(means))
    }

    /// The same with a least time from the start of such an I/O to the start of the next.
    pub fn with_least_gap(self, least_gap_ns: f64) -> Service {
        Service { least_gap_ns, ..self }
    }

    /// The mean time.
    pub fn mean_ns(&self) -> f64 {
        self.equally_likely_ns.iter().sum::<f64>() / self.equally_likely_ns.len() as f64
    }

    /// One of the times.
    pub(super) fn draw(&self, random: &mut Xoshiro256PlusPlus) -> f64 {
        match self.equally_likely_ns[..] {
            [ns] => ns,
            // The upper half of the draw, as a fraction of 2^32, is scaled to an index.
            ref all => all[(((random.next_u64() >> 32) * all.len() as u64) >> 32) as usize],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopj_record::histogram;
    use rand_xoshiro::rand_core::SeedableRng;

    #[test]
    fn a_histogram_keeps_its_mean_and_its_quantiles() {
        let mut measured = histogram::new();
        for ns in 1..=1000u64 {
            measured.record(ns).unwrap();
        }
        let service = Service::of_histogram(&measured, 10).unwrap();
        let expected: Vec<f64> = (0..10).map(|part| 50.5 + 100.0 * f64::from(part)).collect();
        assert_eq!(service.equally_likely_ns, expected);
        // A part that ends within a bin, and one value for several parts.
        let uneven = Service::of_histogram(&measured, 7).unwrap();
        assert_eq!(uneven.equally_likely_ns.len(), 7);
        assert!((uneven.mean_ns() - 500.5).abs() < 1e-9, "{uneven:?}");
        let mut one = histogram::new();
        one.record(1500).unwrap();
        assert_eq!(Service::of_histogram(&one, 4).unwrap().equally_likely_ns, [1500.0; 4]);
        assert_eq!(Service::of_histogram(&histogram::new(), 4), None);
        assert_eq!(Service::of_histogram(&one, 0), None);
    }

    #[test]
    fn each_value_is_drawn_equally_often() {
        let service = Service::equally_likely(vec![1.0, 2.0, 4.0]);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut counts = [0u32; 5];
        for _ in 0..30_000 {
            counts[service.draw(&mut random) as usize] += 1;
        }
        // Five standard deviations of a count are 408.
        assert_eq!((counts[0], counts[3]), (0, 0));
        assert!([1, 2, 4].iter().all(|at| counts[*at].abs_diff(10_000) < 408), "{counts:?}");
        assert_eq!(Service::constant(7.0).draw(&mut random), 7.0);
    }
}
