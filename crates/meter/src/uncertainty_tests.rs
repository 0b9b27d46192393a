//! Uncertainty compared with the GUM's own example and SciPy 1.17.1.

use super::*;

#[track_caller]
fn close(got: f64, want: f64, relative: f64) {
    assert!((got - want).abs() <= relative * want.abs(), "{got} is not {want}");
}

fn component(joules: f64, dof: Option<f64>) -> Component {
    Component { source: UncertaintySource::Noise, joules, dof }
}

fn energy(joules: f64, random: &[Component], gain: Distribution, offset: Distribution) -> Energy {
    Energy { joules, seconds: 10.0, random: random.into(), accuracy: Some(Accuracy { gain, offset }) }
}

#[test]
fn degrees_of_freedom_are_those_of_the_gums_example() {
    // JCGM 100:2008, G.4.1: u 0.25, 0.57 and 0.82 %, of 10, 5 and 15 readings, give u_c 1.03 %, 19.0 degrees
    // of freedom, U95 2.2 %.
    let parts = [component(0.25, Some(9.0)), component(0.57, Some(4.0)), component(0.82, Some(14.0))];
    let energy = Energy { joules: 100.0, seconds: 1.0, random: parts.into(), accuracy: None };
    close(energy.random_standard(), 1.03, 1e-3);
    close(energy.random_dof().unwrap(), 19.0, 1e-3);
    let interval = energy.random_interval();
    close(0.5 * (interval.high - interval.low), 2.09 * 1.03, 2e-3);
    close(f64::midpoint(interval.low, interval.high), 100.0, 1e-15);
}

#[test]
fn coverage_factors_are_scipys() {
    // scipy.stats.t.ppf(0.975, dof), scipy.stats.norm.ppf(0.975)
    for (dof, want, relative) in
        [(1.0, 12.706204736174694, 1e-9), (4.5, 2.6589123472044034, 1e-9), (1e5, 1.9599877075346095, 1e-5)]
    {
        close(factor(Some(dof)), want, relative);
    }
    close(factor(None), 1.959963984540054, 1e-15);
    close(factor(Some(f64::INFINITY)), 1.959963984540054, 1e-15);
}

#[test]
fn parts_stand_apart_and_together() {
    let random = [component(3.0, None), component(4.0, None)];
    let energy = energy(1000.0, &random, Distribution::Normal(0.012), Distribution::NONE);
    close(energy.random_interval().high, 1000.0 + 1.959963984540054 * 5.0, 1e-12);
    close(energy.common_interval().unwrap().high, 1000.0 + 1.959963984540054 * 12.0, 1e-12);
    close(energy.interval().unwrap().low, 1000.0 - 1.959963984540054 * 13.0, 1e-12);
}

#[test]
fn what_nobody_declared_is_not_assumed() {
    let energy = Energy { joules: 5.0, seconds: 1.0, random: vec![component(0.1, None)], accuracy: None };
    assert_eq!((energy.common_interval(), energy.interval()), (None, None));
    assert_eq!(energy.random_dof(), None);
}

#[test]
fn a_lone_rectangle_reaches_to_its_ends_and_no_farther() {
    let only = energy(1000.0, &[], Distribution::Rectangular(0.01), Distribution::NONE);
    close(only.interval().unwrap().high, 1010.0, 1e-15);
    let both = energy(1000.0, &[], Distribution::Rectangular(0.01), Distribution::Rectangular(1.0));
    // 10 J and 10 J: 1.96 root(200 / 3) is less than 20.
    close(both.common_interval().unwrap().high, 1000.0 + 1.959963984540054 * (200.0 / 3.0f64).sqrt(), 1e-12);
    let mixed = energy(1000.0, &[component(10.0, None)], Distribution::Rectangular(0.01), Distribution::NONE);
    close(
        mixed.interval().unwrap().high,
        1000.0 + 1.959963984540054 * (100.0 + 100.0 / 3.0f64).sqrt(),
        1e-12,
    );
}
