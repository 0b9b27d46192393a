//! What rates are called steady.

use super::*;
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;

fn rule(duration_s: u64, longest_s: u64) -> SteadyStateRule {
    let [duration, longest] = [duration_s, longest_s].map(Duration::from_secs);
    SteadyStateRule { duration, change: 0.1, ramp: [duration, longest] }
}

/// Looks at a ramp of this rate until it is steady or `longest_s` are over.
fn watch(rule: SteadyStateRule, rate: impl Fn(f64) -> f64) -> (Watch, f64) {
    let mut watch = Watch::new(rule, 7);
    let interval_ns = interval(&rule).as_nanos() as u64;
    let (mut now_ns, mut ios) = (0, 0.0);
    while now_ns < rule.ramp[1].as_nanos() as u64 {
        now_ns += interval_ns;
        ios += rate(now_ns as f64 / 1e9) * interval_ns as f64 / 1e9;
        if watch.look(7 + now_ns, ios as u64) {
            break;
        }
    }
    (watch, now_ns as f64 / 1e9)
}

#[test]
fn a_flat_rate_ends_the_ramp_at_its_shortest() {
    let (watch, after_s) = watch(rule(1, 10), |_| 4000.0);
    assert_eq!(after_s, 1.0);
    let end = watch.end(7 + SECOND);
    assert_eq!((end.ramp_ns, end.duration_ns, end.limit, end.attained), (SECOND, SECOND, 0.1, true));
    assert!(end.change.unwrap().abs() < 0.01);
}

#[test]
fn a_rate_that_settles_extends_the_ramp_until_it_has() {
    // It falls from 10,000 to 4,000 with a time constant of a second: a line over a second falls by a tenth
    // of the mean where 6,000 exp(-t) is a tenth of 4,000 + 6,000 exp(-t), its middle at 2.6 s and its end at
    // 3.1 s.
    let (watch, after_s) = watch(rule(1, 10), |t| 4000.0 + 6000.0 * (-t).exp());
    assert!((2.9..3.3).contains(&after_s), "{after_s}");
    assert!(watch.end(0).attained);
}

#[test]
fn a_rate_that_goes_on_falling_is_unsteady_at_the_limit() {
    let (watch, after_s) = watch(rule(1, 10), |t| 10_000.0 * (-t / 4.0).exp());
    assert_eq!(after_s, 10.0);
    let end = watch.end(7 + 10 * SECOND);
    assert!(!end.attained && (end.change.unwrap() + 0.25).abs() < 0.01, "{end:?}");
}

#[test]
fn nothing_done_is_not_steady() {
    let (watch, _) = watch(rule(1, 2), |_| 0.0);
    assert_eq!((watch.end(0).attained, watch.end(0).change), (false, None));
}

#[test]
fn the_line_is_scipys() {
    // Rates of intervals of 0.1 s; scipy.stats.linregress (SciPy 1.17.1): the slope a second and its error;
    // numpy's mean.
    let ios =
        [100, 103, 99, 104, 107, 105, 108, 110, 106, 112, 111, 115, 113, 118, 116, 117, 121, 119, 123, 122];
    let mut looks = vec![(50, 0)];
    for (number, ios) in ios.iter().enumerate() {
        looks.push((50 + (number as u64 + 1) * SECOND / 10, looks[number].1 + ios));
    }
    let fit = fit(&looks, Duration::from_secs(2), Duration::from_secs(2)).unwrap();
    assert!((fit.change - 2.0 * 120.22556390977444 / 1114.5).abs() < 1e-9, "{fit:?}");
    assert!((fit.noise - 2.0 * T[18 - 3] * 7.064957975514355 / 1114.5).abs() < 1e-9, "{fit:?}");
}

#[test]
fn looks_that_were_missed_leave_a_rule() {
    // Five looks a second instead of twenty: steady as ever, and a fall is seen.
    let seldom = |rate: fn(f64) -> f64| {
        let (mut watch, mut ios) = (Watch::new(rule(1, 10), 7), 0.0);
        for look in 1..=10 {
            ios += rate(f64::from(look) / 5.0) / 5.0;
            watch.look(7 + look as u64 * SECOND / 5, ios as u64);
        }
        watch.end(7 + 2 * SECOND)
    };
    assert!(seldom(|_| 4000.0).attained);
    let falling = seldom(|t| 10_000.0 * (-t / 2.0).exp());
    assert!(!falling.attained && falling.change.unwrap() < -0.3, "{falling:?}");
    // Four are too few to tell; then the stretch is longer than the rule asks for.
    let mut watch = Watch::new(rule(1, 10), 7);
    (1..=4).for_each(|look| assert!(!watch.look(7 + look * SECOND / 4, look * 1000)));
    assert_eq!(watch.end(7 + SECOND).change, None);
    assert!(watch.look(7 + 5 * SECOND / 4, 5000));
    assert!(watch.end(7 + SECOND).attained);
}

/// Looks further apart than a fifth of the stretch never made a line: on a busy machine every ramp went to
/// its limit.
#[test]
fn looks_however_far_apart_end_a_steady_ramp() {
    let mut watch = Watch::new(rule(1, 100), 7);
    let over = (1..=20).find(|look| watch.look(7 + look * 3 * SECOND, look * 1000));
    assert_eq!((over, watch.end(0).attained), (Some(5), true));
}

/// A ramp that may be no longer than the stretch ended before the look at its end, so that nobody had asked
/// the rule.
#[test]
fn the_rule_is_asked_at_the_limit_and_ends_the_ramp() {
    let over = |rate: fn(u64) -> u64| {
        let (mut watch, mut ios) = (Watch::new(rule(1, 1), 7), 0);
        let over = (1..=40).find(|look| {
            ios += rate(*look);
            watch.look(7 + look * SECOND * 51 / 1000, ios)
        });
        // Jobs that end one after another are no rate.
        let at_its_end = watch.end(0);
        assert!(watch.look(7 + 3 * SECOND, ios + 1) && watch.end(0) == at_its_end);
        (over, at_its_end.attained, at_its_end.change.is_some())
    };
    assert_eq!(over(|_| 1000), (Some(20), true, true));
    assert_eq!(over(|look| 3000 - 100 * look), (Some(20), false, true));
    // Without an I/O there is no line, and the ramp ends all the same.
    assert_eq!(over(|_| 0), (Some(20), false, false));
}

/// Numbers that look random, from -0.5 to 0.5: those of `state * 6364136223846793005 + 1442695040888963407`.
fn noise(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed | 1;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 53) as f64 - 0.5
    }
}

/// A ramp of this rate with noise of this coefficient of variation in each 20th of a second, until it ends:
/// how long it was.
fn noisy(seed: u64, cv: f64, rate: impl Fn(f64) -> f64) -> (Watch, f64) {
    let next = std::cell::RefCell::new(noise(seed));
    watch(rule(1, 10), |t| (rate(t) * (1.0 + cv * next.borrow_mut()() * 12f64.sqrt())).max(0.0))
}

/// Seeded series whose lines SciPy 1.17.1 has fitted (linregress of 20 rates, `t.ppf(0.975, 18)` standard
/// errors), with noise of half the mean in each rate. One falls by 20 % a second, the other is flat: the
/// first second tells neither.
#[test]
fn what_noise_hides_is_looked_at_for_longer_as_scipy_does() {
    let falling = |t: f64| 1e5 * (-0.2 * t).exp();
    for (seed, seconds, over_s, change, half) in [
        (5, 20, 1, -0.2572004764493247, 0.9286250978789685),
        (5, 40, 2, -0.3514508047009191, 0.29928496257343157),
        (5, 80, 4, -0.1981091142057463, 0.11961683204344045),
        (6, 20, 1, -0.3010747780597706, 0.9513000253174212),
        (6, 80, 4, -0.0656154626389403, 0.12214490825681891),
    ] {
        let mut next = noise(seed);
        let (mut watch, mut ios) = (Watch::new(rule(1, 10), 0), 0.0);
        for look in 1..=seconds {
            let rate = if seed == 5 { falling(look as f64 / 20.0) } else { 1e5 };
            ios += (rate * (1.0 + 0.5 * next() * 12f64.sqrt())).max(0.0) / 20.0;
            assert!(!watch.look(look * SECOND / 20, ios as u64), "{seed}: over after {look} looks");
        }
        let end = watch.end(0);
        let (got, of) = (end.change.unwrap(), end.noise.unwrap());
        // The table of Student's t has six decimals.
        assert!((got - change).abs() < 1e-9 && (of / half - 1.0).abs() < 1e-7, "{seed}, {seconds}: {end:?}");
        assert_eq!((end.over_ns, end.attained), (Some(over_s * SECOND), false));
    }
    // SciPy: -0.1891849521 with an interval of 0.0369 over eight seconds is steep; 0.0092 with 0.0400 is
    // flat.
    let (falls, after_s) = noisy(5, 0.5, falling);
    assert!(after_s == 10.0 && !falls.end(0).attained, "{:?}", falls.end(0));
    let (flat, after_s) = noisy(6, 0.5, |_| 1e5);
    assert!(
        after_s <= 8.0 && flat.end(0).attained && flat.end(0).over_ns > Some(4 * SECOND),
        "{:?}",
        flat.end(0)
    );
}

/// A rate that fell by a fifth of its mean in a second was called steady for the noise on it.
#[test]
fn a_noisy_fall_is_not_steady() {
    // A fall of twice the limit; at 200 looks a ramp chance makes one line in thousands look flat.
    for percent in [0, 1, 3, 10, 30, 60, 100] {
        let (mut attained, mut hidden) = (0, 0);
        for seed in 0..300 {
            let (watch, _) = noisy(seed * 7919, f64::from(percent) / 100.0, |t| 1e5 * (-0.2 * t).exp());
            let end = watch.end(0);
            attained += u32::from(end.attained);
            hidden += u32::from(end.change.unwrap().abs() - end.noise.unwrap() <= 0.1);
        }
        // Where noise is as large as the rate itself some falls are hidden to the end, and unsteady all the
        // same.
        assert!(
            attained <= 1 && (percent == 100 || hidden <= 5),
            "noise of {percent} %: {attained}, {hidden}"
        );
    }
}

/// Noise alone makes a ramp longer, and no trial unsteady that the longest ramp can tell.
#[test]
fn a_noisy_flat_rate_is_steady_once_its_line_is_known() {
    for (percent, longest_s) in [(0, 1.0), (3, 1.2), (10, 3.0), (30, 6.0), (60, 9.0)] {
        let ramps: Vec<(bool, f64)> = (0..300)
            .map(|seed| noisy(seed * 7919, f64::from(percent) / 100.0, |_| 1e5))
            .map(|(watch, after_s)| (watch.end(0).attained, after_s))
            .collect();
        let longest = ramps.iter().map(|ramp| ramp.1).fold(0.0, f64::max);
        let steady = ramps.iter().filter(|ramp| ramp.0).count();
        assert!(steady == 300 && longest <= longest_s, "noise of {percent} %: {steady}, {longest} s");
    }
}

proptest! {
    /// What is called steady has its whole interval within the rule, and the ramp ends by its limit.
    #[test]
    fn steady_is_what_is_known_to_be_flat(seed: u64, cv in 0.0..2.0f64, slope in -0.5..0.5f64) {
        let (watch, after_s) = noisy(seed, cv, |t| 1e5 * (slope * t).exp());
        let end = watch.end(0);
        let known = end.change.zip(end.noise).is_some_and(|(change, noise)| change.abs() + noise <= 0.1);
        prop_assert_eq!(end.attained, known);
        prop_assert!(after_s <= 10.0 && (end.attained || after_s == 10.0));
    }
}
