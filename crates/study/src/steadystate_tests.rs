//! The rule for a ramp's end: what a study can declare, and what rates it calls steady.

use super::*;
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;

fn declared(keys: &str) -> Result<Declared, StudyError> {
    let text = format!("name = \"t\"\npaths = \"available\"\n{keys}\n[[workload]]\nramp_time = \"1s\"\n");
    Declared::of(&Study::parse(&text, "t")?)
}

fn rule(duration_s: u64, longest_s: u64) -> Rule {
    let [duration, longest] = [duration_s, longest_s].map(Duration::from_secs);
    Rule { duration, change: 0.1, ramp: [duration, longest] }
}

/// Looks at a ramp of this rate until it is steady or `longest_s` are over.
fn watch(rule: Rule, rate: impl Fn(f64) -> f64) -> (Watch, f64) {
    let mut watch = Watch::new(rule, 7);
    let interval_ns = rule.interval().as_nanos() as u64;
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
fn the_keys_are_fios_and_each_ramp_has_its_rule() {
    let ms = Duration::from_millis;
    let plain = declared("").unwrap();
    assert_eq!(plain, Declared::default());
    let tenth = |duration, longest| Some(Rule { duration, change: 0.1, ramp: [duration, longest] });
    assert_eq!(plain.rule(ms(1000)), tenth(ms(1000), ms(10_000)));
    // No ramp, and one too short to be judged.
    assert_eq!((plain.rule(ms(0)), plain.rule(ms(99))), (None, None));
    assert_eq!(declared("steadystate = \"none\"").unwrap().rule(ms(1000)), None);
    let all =
        declared("steadystate = \"iops_slope:2%\"\nsteadystate_duration = \"4s\"\nsteadystate_limit = \"1m\"").unwrap();
    let four = ms(4000);
    assert_eq!(all.rule(ms(0)), Some(Rule { duration: four, change: 0.08, ramp: [four, ms(60_000)] }));
    assert_eq!(all.rule(ms(90_000)), Some(Rule { duration: four, change: 0.08, ramp: [ms(90_000); 2] }));
}

#[test]
fn what_is_no_criterion_is_refused() {
    for text in ["iops:2%", "iops_slope:2", "iops_slope:%", "iops_slope:-1%", "iops_slope:nan%", "bw_slope:1%", ""] {
        let message = declared(&format!("steadystate = \"{text}\"")).unwrap_err().to_string();
        assert!(message.contains("write iops_slope:2%"), "{message}");
    }
    let message = declared("steadystate_duration = \"99ms\"").unwrap_err().to_string();
    assert!(message.contains("less than 100ms"), "{message}");
    assert!(declared("steadystate_limit = \"soon\"").is_err());
    let message = declared("steadystat = \"none\"").unwrap_err().to_string();
    assert!(message.contains("did you mean `steadystate`"), "{message}");
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
    // It falls from 10,000 to 4,000 with a time constant of a second: a line over a second falls by a tenth of the mean where
    // 6,000 exp(-t) is a tenth of 4,000 + 6,000 exp(-t), its middle at 2.6 s and its end at 3.1 s.
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
    // Rates of intervals of 0.1 s; scipy.stats.linregress (SciPy 1.17.1): the slope a second and its error; numpy's mean.
    let ios = [100, 103, 99, 104, 107, 105, 108, 110, 106, 112, 111, 115, 113, 118, 116, 117, 121, 119, 123, 122];
    let mut looks = vec![(50, 0)];
    for (number, ios) in ios.iter().enumerate() {
        looks.push((50 + (number as u64 + 1) * SECOND / 10, looks[number].1 + ios));
    }
    let fit = fit(&looks, Duration::from_secs(2)).unwrap();
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

/// Looks further apart than a fifth of the stretch never made a line: on a busy machine every ramp went to its limit.
#[test]
fn looks_however_far_apart_end_a_steady_ramp() {
    let mut watch = Watch::new(rule(1, 100), 7);
    let over = (1..=20).find(|look| watch.look(7 + look * 3 * SECOND, look * 1000));
    assert_eq!((over, watch.end(0).attained), (Some(5), true));
}

/// A ramp that may be no longer than the stretch ended before the look at its end, so that nobody had asked the rule.
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

proptest! {
    /// Noise alone is not called a trend, as long as there are ten tries.
    #[test]
    fn noise_is_no_trend(seed: u64, noise in 0.0..0.5f64) {
        let mut state = seed | 1;
        let steps: Vec<f64> = (0..201).map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1u64 << 53) as f64 - 0.5
        }).collect();
        let at = |t: f64| steps[(t * 20.0).round() as usize % steps.len()];
        let (watch, _) = watch(rule(1, 10), |t| 100_000.0 * (1.0 + noise * at(t)));
        prop_assert!(watch.end(0).attained);
    }
}
