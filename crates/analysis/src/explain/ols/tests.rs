use super::*;

fn observations(rows: &[(f64, &[f64])]) -> Vec<Observation> {
    rows.iter().map(|(y, x)| Observation { y: *y, x: x.to_vec() }).collect()
}

fn near(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() <= 1e-9 * expected.abs(), "{found} is not {expected}");
    }
}

const RUNS: [(f64, &[f64]); 6] = [
    (7512.4, &[12.1, 0.02]),
    (8033.9, &[20.7, 0.05]),
    (8601.2, &[29.9, 0.01]),
    (9244.8, &[40.2, 0.11]),
    (8899.1, &[35.0, 0.08]),
    (7801.5, &[16.4, 0.31]),
];

// Expected values are those of numpy 2.4.6: `linalg.lstsq` over the regressors and a column of ones for each
// group, errors from `inv(X.T @ X)`.

#[test]
fn two_regressors_are_numpys() {
    let fit = least_squares(&[observations(&RUNS)]).unwrap();
    near(&fit.slopes, &[61.08396406468387, 99.1786162761795]);
    near(&fit.fixed, &[6768.353457896519]);
    near(&[fit.variance.unwrap()], &[127.19430783873038]);
    assert_eq!(fit.df, 3);
    let errors = [fit.error_at(0, &[0.0, 0.0]), fit.slope_error(0), fit.slope_error(1)].map(Option::unwrap);
    near(&errors, &[14.167697621164416, 0.4629526114572696, 46.12548057850359]);
    near(&[fit.at(0, &[25.0, 1.0])], &[8394.631175789797]);
    near(&[fit.error_at(0, &[25.0, 1.0]).unwrap()], &[41.86597736327716]);
}

#[test]
fn one_regressor_is_the_straight_line() {
    let rows: Vec<(f64, &[f64])> = RUNS.iter().map(|(y, x)| (*y, &x[..1])).collect();
    let fit = least_squares(&[observations(&rows)]).unwrap();
    near(&[fit.fixed[0], fit.slopes[0]], &[6782.256849578588, 60.916130282103005]);
    near(
        &[fit.error_at(0, &[0.0]).unwrap(), fit.slope_error(0).unwrap()],
        &[17.40290937678947, 0.6299650128238785],
    );
}

#[test]
fn groups_have_fixed_parts_of_their_own() {
    let interrupt = observations(&[
        (5903.2, &[0.0, 0.10]),
        (6011.7, &[0.0, 0.14]),
        (6155.0, &[0.0, 0.21]),
        (6290.1, &[0.0, 0.25]),
    ]);
    let hybrid = observations(&[(11411.0, &[3.1, 0.97]), (11622.4, &[4.4, 1.02]), (11777.9, &[7.9, 0.99])]);
    let fit = least_squares(&[interrupt, hybrid]).unwrap();
    near(&fit.fixed, &[5654.855677362596, 8794.967985344545]);
    near(&fit.slopes, &[66.00713403883333, 2486.5389864994504]);
    let zero = [0.0, 0.0];
    let errors = [fit.error_at(0, &zero), fit.error_at(1, &zero), fit.slope_error(0), fit.slope_error(1)];
    near(
        &errors.map(Option::unwrap),
        &[23.94181013055387, 129.6926262461082, 4.500623164308025, 129.16145659104762],
    );
    near(
        &[fit.at(1, &[10.0, 1.0]), fit.error_at(1, &[10.0, 1.0]).unwrap()],
        &[11941.578312232328, 23.704764354317202],
    );
}

#[test]
fn without_regressors_it_is_the_mean() {
    let fit = least_squares(&[observations(&[(1.0, &[]), (2.0, &[]), (6.0, &[])])]).unwrap();
    near(&fit.fixed, &[3.0]);
    near(&[fit.error_at(0, &[]).unwrap()], &[(7.0f64 / 3.0).sqrt()]);
}

#[test]
fn what_cannot_be_fitted_is_none() {
    let fits = |rows: &[(f64, &[f64])]| least_squares(&[observations(rows)]).is_some();
    assert!(!fits(&[]));
    assert!(!fits(&[(1.0, &[1.0]), (2.0, &[1.0]), (3.0, &[1.0])]), "no variation");
    assert!(!fits(&[(1.0, &[1.0, 2.0]), (2.0, &[2.0, 4.0]), (3.0, &[5.0, 10.0])]), "a multiple");
    assert!(!fits(&[(1.0, &[1.0, 7.0]), (2.0, &[2.0, 4.0])]), "fewer runs than parameters");
    let exact = least_squares(&[observations(&[(3.0, &[1.0]), (5.0, &[2.0])])]).unwrap();
    assert_eq!((exact.df, exact.variance), (0, None));
    near(&[exact.fixed[0], exact.slopes[0]], &[1.0, 2.0]);
}

proptest::proptest! {
    /// Data made from known parts yield these parts.
    #[test]
    fn known_parts_are_found(
        fixed in 1e3..1e5f64, spin in 1.0..500.0f64, sleep in -1e4..1e4f64,
        mut x in proptest::collection::vec((0.0..100.0f64, 0.0..1.0f64), 3..20),
    ) {
        x.extend([(0.0, 0.0), (100.0, 0.0), (0.0, 1.0)]);
        let rows: Vec<Observation> = x
            .iter()
            .map(|(a, b)| Observation { y: fixed + spin * a + sleep * b, x: vec![*a, *b] })
            .collect();
        let fit = least_squares(&[rows]).unwrap();
        proptest::prop_assert!((fit.fixed[0] - fixed).abs() < 1e-6);
        proptest::prop_assert!((fit.slopes[0] - spin).abs() < 1e-6 && (fit.slopes[1] - sleep).abs() < 1e-6);
    }
}
