//! Energy above a drifting idle power.

use super::*;

const SECOND: u64 = 1_000_000_000;

fn window(begin_s: u64, end_s: u64) -> Window {
    Window { begin_ns: begin_s * SECOND, end_ns: end_s * SECOND }
}

fn energy(watts: f64, seconds: f64, joules: f64) -> Energy {
    let random = vec![Component { source: UncertaintySource::Noise, joules, dof: Some(30.0) }];
    let accuracy = Accuracy { gain: Distribution::Normal(0.01), offset: Distribution::Rectangular(0.5) };
    Energy { joules: watts * seconds, seconds, random, accuracy: Some(accuracy) }
}

fn idle(begin_s: u64, watts: f64) -> IdleStretch {
    IdleStretch { window: window(begin_s, begin_s + 10), energy: energy(watts, 10.0, 1.0) }
}

#[track_caller]
fn close(got: f64, want: f64) {
    assert!((got - want).abs() <= 1e-9 * want.abs().max(1.0), "{got} is not {want}");
}

#[test]
fn idle_power_is_interpolated_between_the_neighbours_in_time() {
    // Given out of order; 50 W until 200 s, then 60 W: a line through all three would say 47.5 W at first and
    // 57.5 W in the middle.
    let power = IdlePower::fit(&[idle(200, 50.0), idle(400, 60.0), idle(0, 50.0)]).unwrap();
    for (begin_s, watts) in [(0, 50.0), (100, 50.0), (200, 50.0), (300, 55.0), (350, 57.5), (400, 60.0)] {
        close(power.watts(window(begin_s, begin_s + 10)), watts);
    }
    // Beyond the stretches it is that of the last one.
    close(power.watts(window(4000, 4010)), 60.0);
    let early = IdlePower::fit(&[idle(100, 50.0), idle(200, 60.0)]).unwrap();
    close(early.watts(window(0, 10)), 50.0);
    close(early.standard_watts(window(0, 10)), 0.1);
    close(early.standard_watts(window(150, 160)), 0.1 / 2f64.sqrt());
    assert_eq!(IdlePower::fit(&[]), None);
    close(IdlePower::fit(&[idle(0, 50.0)]).unwrap().watts(window(900, 910)), 50.0);
}

#[test]
fn idle_that_does_not_lie_on_a_line_is_less_certain() {
    let quiet = IdlePower::fit(&[idle(0, 50.0), idle(100, 50.0), idle(200, 50.0)]).unwrap();
    close(quiet.standard_watts(window(100, 110)), 0.1);
    let wild = IdlePower::fit(&[idle(0, 50.0), idle(100, 53.0), idle(200, 50.0)]).unwrap();
    close(wild.watts(window(100, 110)), 53.0);
    // The middle one is 3 W off, where 0.1 W of each makes 0.1 sqrt(1 + 1/4 + 1/4).
    close(wild.standard_watts(window(100, 110)), 3.0 / 1.5f64.sqrt());
    assert_eq!(wild.above(window(100, 110), &energy(60.0, 10.0, 1.0)).energy.random[1].dof, Some(1.0));
}

#[test]
fn idle_power_at_two_windows_shares_the_stretches_between() {
    let power = IdlePower::fit(&[idle(0, 50.0), idle(100, 50.0), idle(200, 50.0)]).unwrap();
    let covariance =
        |one: u64, other: u64| power.covariance(window(one, one + 10), window(other, other + 10));
    close(covariance(50, 50), 0.005);
    close(covariance(50, 150), 0.0025);
    close(covariance(0, 200), 0.0);
}

#[test]
fn above_idle_keeps_the_gain_and_loses_the_offset() {
    let power = IdlePower::fit(&[idle(0, 50.0), idle(200, 52.0)]).unwrap();
    let above = power.above(window(45, 165), &energy(81.0, 120.0, 5.0));
    close(above.energy.joules, 30.0 * 120.0);
    let idle = above.energy.random[1];
    assert_eq!(idle.source, UncertaintySource::Idle);
    close(idle.joules, 120.0 * 0.1 / 2f64.sqrt());
    let common = above.energy.common_interval().unwrap();
    close(common.high - above.energy.joules, 1.959963984540054 * 0.01 * 3600.0);
}

#[test]
fn the_ratio_above_idle_knows_that_idle_is_shared() {
    let power = IdlePower::fit(&[idle(0, 50.0), idle(200, 50.0)]).unwrap();
    let at = window(45, 165);
    let small = power.above(at, &energy(60.0, 120.0, 5.0));
    let same = ratio_above_idle(&small, &small, &power).unwrap();
    // Idle power's error of 8.5 J is in both and drops out: 5 J and 5 J of 1200 J remain.
    let half_width = 1.96 * 50f64.sqrt() / 1200.0;
    assert!((same.interval.high - 1.0 - half_width).abs() < 0.03 * half_width, "{same:?}");
    let none = power.above(at, &energy(50.1, 120.0, 5.0));
    assert_eq!(ratio_above_idle(&small, &none, &power), Err(Undefined::NotAboveZero));
    assert!(ratio_above_idle(&none, &small, &power).unwrap().interval.contains(0.01));
}
