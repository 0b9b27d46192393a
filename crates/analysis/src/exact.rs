//! Tests that assume no distribution: signs flipped within blocks, and ranks of two samples.

use statrs::distribution::{ContinuousCDF, Normal};

/// The most blocks for which all sign flips are tried: two halves of 2^20 sums.
const MOST_BLOCKS: usize = 40;
/// The most values of two samples for which all deals of ranks are counted.
const MOST_RANKED: usize = 60;

/// The least number of replicates with which flipped signs can reach `level` after Holm's correction over
/// `family` comparisons: 1 + log2(m / level).
pub fn least_blocks(family: usize, level: f64) -> f64 {
    1.0 + (family.max(1) as f64 / level).log2()
}

/// Two-sided p-value of the mean of `differences` being zero, over all ways to flip their signs (Fisher
/// 1935); `None` for fewer than two, for more than 40, and for values that are not finite.
pub fn sign_flips(differences: &[f64]) -> Option<f64> {
    let n = differences.len();
    if !(2..=MOST_BLOCKS).contains(&n) || !differences.iter().all(|one| one.is_finite()) {
        return None;
    }
    let scale: f64 = differences.iter().map(|one| one.abs()).sum();
    let observed = differences.iter().sum::<f64>().abs();
    let at_least = observed - scale * 1e-12;
    let (first, second) = differences.split_at(n / 2);
    let (first, second) = (sums(first), sums(second));
    // Both tails are equal, because every flip has its opposite.
    let mut from = second.len();
    let mut beyond: u64 = 0;
    for one in &first {
        while from > 0 && one + second[from - 1] >= at_least {
            from -= 1;
        }
        beyond += (second.len() - from) as u64;
    }
    Some((2.0 * beyond as f64 / 2f64.powi(n as i32)).min(1.0))
}

/// The sums of all ways to flip signs, ascending.
fn sums(values: &[f64]) -> Vec<f64> {
    let mut sums = vec![0.0];
    for value in values {
        sums = sums.iter().flat_map(|sum| [sum - value, sum + value]).collect();
    }
    sums.sort_by(f64::total_cmp);
    sums
}

/// The rank test of two samples (Mann and Whitney 1947).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RankTest {
    /// Pairs in which the first sample's value is the greater; ties count half.
    pub u: f64,
    /// Two-sided p-value: exact without ties, else by the normal distribution, corrected for ties and
    /// continuity.
    pub p: f64,
}

/// Compares the ranks of two samples; `None` for an empty one, and for values that are not finite.
pub fn rank_test(a: &[f64], b: &[f64]) -> Option<RankTest> {
    let all: Vec<f64> = a.iter().chain(b).copied().collect();
    if a.is_empty() || b.is_empty() || !all.iter().all(|one| one.is_finite()) {
        return None;
    }
    let against =
        |x: &f64| b.iter().map(|y| if x > y { 1.0 } else { f64::from(u8::from(x == y)) / 2.0 }).sum::<f64>();
    let u: f64 = a.iter().map(against).sum();
    let (n, m) = (a.len() as f64, b.len() as f64);
    let extreme = u.max(n * m - u);
    let ties: f64 = tie_sizes(&all).into_iter().map(|size| size.powi(3) - size).sum();
    if ties == 0.0 && all.len() <= MOST_RANKED {
        return Some(RankTest { u, p: exact_tail(a.len(), b.len(), extreme as usize) });
    }
    let total = n + m;
    let variance = n * m / 12.0 * (total + 1.0 - ties / (total * (total - 1.0)));
    if variance <= 0.0 {
        return Some(RankTest { u, p: 1.0 });
    }
    let z = (extreme - n * m / 2.0 - 0.5) / variance.sqrt();
    let p = Normal::new(0.0, 1.0).map_or(1.0, |normal| 2.0 * normal.sf(z)).min(1.0);
    Some(RankTest { u, p })
}

/// The number of equal values, for each value.
fn tie_sizes(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.chunk_by(|a, b| a == b).map(|alike| alike.len() as f64).collect()
}

/// The share of all deals of ranks whose U is at least as extreme, both sides.
fn exact_tail(n: usize, m: usize, extreme: usize) -> f64 {
    // ways[k][u]: deals of k ranks to the first sample that give u, over the ranks seen so far.
    let mut ways = vec![vec![0.0; n * m + 1]; n + 1];
    ways[0][0] = 1.0;
    for rank in 0..n + m {
        for k in (1..=n.min(rank + 1)).rev() {
            // The k-th of the first sample is above rank + 1 - k of the second.
            let above = rank + 1 - k;
            if above <= m {
                for u in (above..=n * m).rev() {
                    let more = ways[k - 1][u - above];
                    ways[k][u] += more;
                }
            }
        }
    }
    let all: f64 = ways[n].iter().sum();
    (2.0 * ways[n][extreme..].iter().sum::<f64>() / all).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(value: f64, expected: f64) {
        assert!((value - expected).abs() <= 1e-9 * expected, "{value} {expected}");
    }

    #[test]
    fn flipped_signs_agree_with_scipy() {
        // scipy.stats.permutation_test((d,), np.mean, permutation_type='samples', n_resamples=np.inf).pvalue
        near(sign_flips(&[0.031, -0.004, 0.022, 0.015, 0.040, 0.008, -0.011, 0.027]).unwrap(), 0.0546875);
        near(sign_flips(&[0.03, 0.01, 0.02, 0.04, 0.01]).unwrap(), 0.0625);
        assert_eq!(
            (sign_flips(&[0.0; 4]), sign_flips(&[1.0]), sign_flips(&[1.0; 41])),
            (Some(1.0), None, None)
        );
        // All of one sign: the least p-value of this many blocks.
        near(sign_flips(&[1.0; 30]).unwrap(), 2f64.powi(-29));
    }

    #[test]
    fn so_many_blocks_reach_the_level_and_one_fewer_does_not() {
        for family in [1, 12, 240] {
            let least = least_blocks(family, 0.05).ceil() as usize;
            let p = |blocks: usize| sign_flips(&vec![1.0; blocks]).unwrap() * family as f64;
            assert!(p(least) <= 0.05 && p(least - 1) > 0.05, "{family}: {least}");
        }
    }

    #[test]
    fn ranks_agree_with_scipy() {
        // scipy.stats.mannwhitneyu(a, b, method='exact'), then method='asymptotic'
        let test = rank_test(&[9.1, 10.2, 8.7, 11.5], &[14.2, 12.1, 18.9, 10.9, 16.0]).unwrap();
        near(test.p, 0.031746031746031744);
        assert_eq!(test.u, 1.0);
        let test = rank_test(&[9.1, 10.2, 8.7, 11.5, 10.2], &[14.2, 12.1, 10.2, 10.9, 16.0, 11.5]).unwrap();
        near(test.p, 0.04220081948488961);
        assert_eq!(test.u, 3.5);
        assert_eq!(rank_test(&[1.0, 1.0], &[1.0]).unwrap().p, 1.0);
        assert_eq!((rank_test(&[], &[1.0]), rank_test(&[f64::NAN], &[1.0])), (None, None));
    }
}
