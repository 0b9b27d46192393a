//! Fieller's bounds compared with the roots, found by SciPy 1.17.1, of the test that they invert.

use super::*;
use crate::meter::Accuracy;
use crate::uncertainty::{Component, UncertaintySource};
use proptest::prelude::*;

#[track_caller]
fn close(got: f64, want: f64) {
    assert!((got - want).abs() <= 1e-9 * want.abs(), "{got} is not {want}");
}

fn estimate(value: f64, standard: f64) -> Estimate {
    Estimate { value, standard }
}

fn energy(joules: f64, standard: f64, seconds: f64, offset: f64) -> Energy {
    let random = vec![Component { source: UncertaintySource::Noise, joules: standard, dof: None }];
    let accuracy = Accuracy { gain: Distribution::Normal(0.5), offset: Distribution::Normal(offset) };
    Energy { joules, seconds, random, accuracy: Some(accuracy) }
}

#[test]
fn bounds_are_the_roots_that_scipy_finds() {
    // scipy.optimize.brentq of (a - q b)^2 - k^2 (ua^2 - 2 q cov + q^2 ub^2), with k =
    // scipy.stats.t.ppf(0.975, dof) or scipy.stats.norm.ppf(0.975), below and above a / b.
    let cases = [
        ((6000.0, 12.0), (5000.0, 15.0), 0.0, Some(110.5), [1.2, 1.1914681604932948, 1.2086166656704551]),
        ((600.0, 40.0), (500.0, 50.0), 900.0, None, [1.2, 1.0106126254560797, 1.4565020659651646]),
        (
            (300.0, 20.0),
            (90.0, 20.0),
            0.0,
            Some(6.0),
            [3.3333333333333335, 2.0789222383425985, 7.386377780316536],
        ),
        ((-5.0, 10.0), (500.0, 5.0), 0.0, None, [-0.01, -0.04921114418711982, 0.029203458316983063]),
        ((12.0, 3.0), (8.0, 0.5), -0.4, Some(3.7), [1.5, 0.40319679526836477, 2.80255482078256]),
    ];
    for (a, b, covariance, dof, [value, low, high]) in cases {
        let got = fieller(estimate(a.0, a.1), estimate(b.0, b.1), covariance, dof).unwrap();
        close(got.value, value);
        close(got.interval.low, low);
        close(got.interval.high, high);
    }
}

#[test]
fn what_may_be_zero_divides_nothing() {
    let above = estimate(100.0, 1.0);
    assert_eq!(fieller(above, estimate(10.0, 5.2), 0.0, None), Err(Undefined::NotAboveZero));
    assert!(fieller(above, estimate(10.0, 5.0), 0.0, None).is_ok());
    assert_eq!(fieller(above, estimate(10.0, 5.0), 0.0, Some(2.0)), Err(Undefined::NotAboveZero));
    for below in [-10.0, 0.0] {
        assert_eq!(fieller(above, estimate(below, 0.1), 0.0, None), Err(Undefined::NotAboveZero));
    }
    for wild in [f64::NAN, f64::INFINITY] {
        assert!(fieller(estimate(wild, 1.0), above, 0.0, None).is_err());
        assert!(fieller(above, estimate(wild, 1.0), 0.0, None).is_err());
        assert!(fieller(above, estimate(1.0, wild), 0.0, None).is_err());
        assert!(fieller(above, estimate(1.0, 0.1), wild, None).is_err());
    }
}

#[test]
fn a_common_gain_divides_out_and_an_offset_does_not() {
    let (a, b) = (energy(12_000.0, 6.0, 120.0, 0.0), energy(10_000.0, 5.0, 120.0, 0.0));
    let without = ratio(&a, &b).unwrap();
    // 0.05 % and 0.05 % give 0.0707 %: a gain of 50 % leaves no trace.
    let half_width = 1.2 * 1.96 * 0.000_707;
    assert!((without.interval.high - 1.2 - half_width).abs() < 1e-5, "{without:?}");
    let (a, b) = (energy(12_000.0, 6.0, 120.0, 1.0), energy(10_000.0, 5.0, 120.0, 1.0));
    let with = ratio(&a, &b).unwrap();
    // 1 W for 120 s raises the one by 1 %, the other by 1.2 %: 0.2 % remain.
    let half_width = 1.2 * 1.96 * 0.002f64.hypot(0.000_707);
    assert!((with.interval.high - 1.2 - half_width).abs() < 2e-4, "{with:?}");
    let same = ratio(&a, &energy(12_000.0, 6.0, 120.0, 1.0)).unwrap();
    assert!(same.interval.high - 1.0 < 1.96 * 0.000_708, "{same:?}");
}

#[test]
fn counts_per_joule_turn_the_bounds_round() {
    let energy = energy(2_000.0, 10.0, 20.0, 0.0);
    let got = per_joule(1e6, &energy, Interval { low: 1_600.0, high: 2_500.0 }).unwrap();
    assert_eq!((got.value, got.interval), (500.0, Interval { low: 400.0, high: 625.0 }));
    assert_eq!(per_joule(1e6, &energy, Interval { low: 0.0, high: 1.0 }), Err(Undefined::NotAboveZero));
    assert_eq!(per_joule(f64::NAN, &energy, energy.random_interval()), Err(Undefined::NotFinite));
}

proptest! {
    #[test]
    fn bounds_hold_the_ratio_and_lie_where_the_test_just_rejects(
        a in -1e4..1e4,
        b in 1.0..1e4,
        ua in 0.0..100.0,
        ub in 0.0..100.0,
        rho in -1.0..1.0,
    ) {
        let covariance = rho * ua * ub;
        if let Ok(Ratio { value, interval }) = fieller(estimate(a, ua), estimate(b, ub), covariance, None) {
            let slack = 1e-9 * value.abs().max(1e-3);
            prop_assert!(interval.low - slack <= value && value <= interval.high + slack);
            for bound in [interval.low, interval.high] {
                let distance = (a - bound * b).abs();
                let spread = (ua * ua - 2.0 * bound * covariance + bound * bound * ub * ub).max(0.0).sqrt();
                prop_assert!(
                    (distance - 1.959963984540054 * spread).abs() <= 1e-4 * (distance + spread + 1e-3),
                    "{distance} {spread}"
                );
            }
        } else {
            prop_assert!(b <= 1.96 * ub);
        }
    }
}
