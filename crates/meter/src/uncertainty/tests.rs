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

/// Two instruments share nothing: their gains, which one instrument's channels would add, combine as squares.
#[test]
fn the_energy_of_two_instruments_has_the_errors_of_both() {
    let gain = |deviation| Distribution::Normal(deviation);
    let one = energy(300.0, &[component(3.0, Some(8.0))], gain(0.01), gain(0.2));
    let two = energy(100.0, &[component(4.0, None)], gain(0.03), gain(0.0));
    let sum = EnergySum::of(vec![one.clone(), two.clone()]).unwrap();
    assert_eq!((sum.joules(), sum.seconds()), (400.0, 10.0));
    close(sum.random_standard(), 5.0, 1e-12);
    // Welch and Satterthwaite: 5^4 / (3^4 / 8).
    close(sum.random_dof().unwrap(), 625.0 * 8.0 / 81.0, 1e-12);
    let standard = f64::sqrt(9.0 + 16.0 + 9.0 + 9.0 + 4.0);
    let dof = 47.0 * 47.0 * 8.0 / 81.0;
    let interval = sum.interval().unwrap();
    close(interval.high - 400.0, factor(Some(dof)) * standard, 1e-9);
    close(400.0 - interval.low, factor(Some(dof)) * standard, 1e-9);
    // One instrument alone is as it was; one whose accuracy nobody declares leaves the sum without.
    let alone = EnergySum::of(vec![one.clone()]).unwrap();
    assert_eq!((alone.interval(), alone.random_interval()), (one.interval(), one.random_interval()));
    let undeclared = Energy { accuracy: None, ..two };
    assert_eq!(EnergySum::of(vec![one, undeclared]).unwrap().interval(), None);
    assert_eq!(EnergySum::of(Vec::new()), None);
}
