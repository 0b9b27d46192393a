//! The parts of a cost by least squares, and the points where poll costs as much as another completion.

use super::*;

fn fit<'a>(block: &'a WorkloadCosts, columns: &[usize], measure: Measure) -> &'a Fitted {
    block.fits.iter().find(|fit| fit.columns == columns && fit.measure == measure).unwrap()
}

#[test]
fn fits_find_the_parts() {
    let block = only(&three(&workload(1, 1000)), &[]);
    // Fixed part, per spin, per sleep: the constructed values, and half of them in loads plus stores.
    // Interrupt slept more often than not, so its fixed part contains a sleep.
    let expected =
        [(1540.0 + 1450.0, None, Some(1450.0)), (1520.0, Some(30.0), None), (3530.0, Some(30.0), None)];
    for (measure, share) in [(Measure::Instructions, 1.0), (Measure::LoadsPlusStores, 0.5)] {
        for (column, (fixed, spin, sleep)) in expected.into_iter().enumerate() {
            let FitOutcome::Parts(parts) = &fit(&block, &[column], measure).outcome else { panic!() };
            near(parts.fixed[0].estimate, share * fixed);
            near(parts.fixed_sleeps[0], [1.0, 0.0, 1.0][column]);
            assert_eq!(
                (parts.per_spin.is_some(), parts.per_sleep.is_some()),
                (spin.is_some(), sleep.is_some())
            );
            parts.per_spin.iter().zip(spin).for_each(|(found, spin)| near(found.estimate, share * spin));
            parts.per_sleep.iter().zip(sleep).for_each(|(found, sleep)| near(found.estimate, share * sleep));
            assert!(parts.residual_stddev.unwrap() < 1e-6 && parts.df == 3);
        }
    }
    let left = &fit(&block, &[2], Measure::Instructions).left_out;
    assert_eq!((left.len(), left[0].regressor, left[0].range), (1, Regressor::Sleeps, Some((1.0, 1.0))));
    let text = explanation(&explained(&three(&workload(1, 1000)), &[]));
    assert!(text.contains("C: sleeps are 1.00 in every run: the fixed part contains them"), "{text}");
    assert!(!text.contains("A: spins are"), "there are none: {text}");
    assert!(text.contains("2,990 ± 0.0, 1 sleep") && !text.contains("1,520 ± 0.0, 1 sleep"), "{text}");
}

#[test]
fn too_few_and_collinear_runs_are_refused() {
    let workload = workload(1, 1000);
    let poll = |spins: &[f64], sleeps: &dyn Fn(f64) -> f64| {
        let happened =
            |spins: &f64| Happened { spins: *spins, sleeps: sleeps(*spins), ..Happened::default() };
        replicates(POLL, &workload, &spins.iter().map(happened).collect::<Vec<_>>())
    };
    let outcome = |trials: &[Trial]| fit(&only(trials, &[]), &[0], Measure::Instructions).outcome.clone();
    assert_eq!(outcome(&poll(&[50.0, 60.0, 70.0], &|_| 0.0)), FitOutcome::TooFewRuns { needed: 5 });
    let together = poll(&[50.0, 60.0, 70.0, 80.0, 90.0, 99.0], &|spins| spins / 100.0);
    let FitOutcome::Collinear { correlation } = outcome(&together) else { panic!() };
    near(correlation, 1.0);
    let text = explanation(&explained(&together, &[]));
    assert!(text.contains("A: spins and sleeps rise and fall together (correlation 1.000"), "{text}");
    let text = explanation(&explained(&poll(&[50.0, 60.0, 70.0], &|_| 0.0), &[]));
    assert!(
        text.contains("3 runs are too few for a fit, which needs 5: run with `--replicates 5`"),
        "{text}"
    );
}

#[test]
fn an_interfaces_paths_are_pooled_where_one_alone_does_not_tell() {
    // Interrupt sleeps in every fifth I/O of all runs; hybrid varies in both and determines the part per
    // sleep.
    let workload = workload(1, 1000);
    let interrupt = Happened { sleeps: 0.2, interrupts: 1.0, ..Happened::default() };
    let mut trials = three(&workload);
    trials.retain(|trial| trial.path.to_string() == POLL);
    trials.extend(replicates(INTERRUPT, &workload, &[interrupt; 4]));
    let hybrid = [(2.0, 0.8), (3.0, 1.0), (7.0, 0.9), (5.0, 0.7), (4.0, 0.95), (6.0, 0.75)];
    trials.extend(replicates(
        HYBRID,
        &workload,
        &hybrid.map(|(spins, sleeps)| Happened { spins, sleeps, ..Happened::default() }),
    ));
    let block = only(&trials, &[]);
    assert!(
        fit(&block, &[0], Measure::Instructions).left_out.iter().any(|left| left.range == Some((0.2, 0.2)))
    );
    let pooled = fit(&block, &[0, 1, 2], Measure::Instructions);
    let FitOutcome::Parts(parts) = &pooled.outcome else { panic!() };
    // From hybrid's runs alone, so with its timer.
    near(parts.per_sleep.unwrap().estimate, 2010.0);
    near(parts.per_spin.unwrap().estimate, 30.0);
    near(parts.fixed[0].estimate, 1540.0 + 0.2 * (1450.0 - 2010.0));
    let crossing = &block.completions.as_ref().unwrap().crossings[0];
    let CrossingOutcome::At { pooled, level, .. } = crossing.outcome else { panic!() };
    assert!(pooled);
    near(level, 1540.0 + 0.2 * 1450.0 + 0.8 * 2010.0);
    let text = squeezed(&explanation(&explained(&trials, &[])));
    assert!(
        text.contains("C of A, B, C")
            && text.contains("* with a part that comes from the fit over all paths"),
        "{text}"
    );
}

#[test]
fn crossings_follow_from_the_parts() {
    let block = only(&three(&workload(1, 1000)), &[]);
    let completions = block.completions.unwrap();
    assert_eq!(completions.columns, [0, 1, 2]);
    let at = |crossing: &Crossing| match crossing.outcome {
        CrossingOutcome::At { level, fixed, per_spin, spins, pooled: false, measured_spins, .. } => {
            [level, fixed, per_spin, spins, measured_spins].map(|value| (value * 1e6).round() / 1e6)
        }
        _ => panic!("{crossing:?}"),
    };
    let found: Vec<[f64; 5]> = completions.crossings.iter().map(at).collect();
    assert_eq!(found[..2], [[2990.0, 1520.0, 30.0, 49.0, 60.0], [3650.0, 1520.0, 30.0, 71.0, 60.0]]);
    assert_eq!(found[2..], [[1495.0, 760.0, 15.0, 49.0, 60.0], [1825.0, 760.0, 15.0, 71.0, 60.0]]);
    let text = explanation(&explained(&three(&workload(1, 1000)), &[]));
    assert!(text.contains("(2,990 - 1,520) / 30.0") && text.contains("60.0 spins: more"), "{text}");
    assert!(text.contains("(3,650 - 1,520) / 30.0") && text.contains("60.0 spins: less"), "{text}");
}

#[test]
fn what_is_unknown_about_a_crossing_is_said() {
    let workload = workload(1, 1000);
    let steady = |path, happened| replicates(path, &workload, &[happened; 3]);
    let trials = [
        steady(INTERRUPT, Happened { sleeps: 0.1, interrupts: 1.0, ..Happened::default() }),
        steady(POLL, Happened { spins: 60.0, ..Happened::default() }),
        steady(HYBRID, Happened { spins: 4.0, sleeps: 1.0, ..Happened::default() }),
    ];
    let crossings = only(&trials.concat(), &[]).completions.unwrap().crossings;
    assert!(crossings.iter().all(|crossing| crossing.outcome == CrossingOutcome::UnknownPerSpin));
}

#[test]
fn a_slope_within_its_error_gives_no_crossing() {
    let mut trials = three(&workload(1, 1000));
    trials.retain(|trial| trial.path.to_string() != POLL);
    let noisy = [(58.0, 900), (59.0, 0), (60.0, 800), (61.0, 100), (62.0, 700)];
    let happened = noisy.map(|(spins, extra)| Happened { spins, extra, ..Happened::default() });
    trials.extend(replicates(POLL, &workload(1, 1000), &happened));
    // Hybrid spins too steadily to provide the slope.
    trials.iter_mut().filter(|trial| trial.path.to_string() == HYBRID).for_each(|trial| {
        let poll = costs_of(trial).functions.iter_mut().find(|function| function.function == "nvme_poll");
        poll.unwrap().cost.calls = 4000;
    });
    let completions = only(&trials, &[]).completions.unwrap();
    assert!(completions.crossings.iter().all(|crossing| crossing.outcome == CrossingOutcome::UnknownPerSpin));
    let text = explanation(&explained(&trials, &[]));
    assert!(text.contains("poll's part per spin is not known"), "{text}");
}
