//! The statistics compared with SciPy 1.17.1 and R 4.2.2 (Holm's correction with statsmodels 0.15.0), to 1e-9
//! relative, and with hostile input.

use super::*;
use proptest::prelude::*;

const A: &[f64] = &[102341.0, 101877.5, 103012.25, 102590.0, 101990.75];
const B: &[f64] = &[104120.0, 103875.5, 105002.25, 104633.0, 103911.5];
const C: &[f64] = &[8.1, 8.4, 7.9];
const D: &[f64] = &[10.1, 9.7, 10.4];
const E: &[f64] = &[1.5, 2.25, 1.75, 2.0, 1.9, 2.1, 1.6, 2.4, 1.8, 2.05];
const F: &[f64] = &[1.52, 2.0, 1.9, 2.05, 1.85, 2.2, 1.7, 2.3, 1.75, 2.15];
const G: &[f64] = &[5.0, 5.5];
const H: &[f64] = &[7.0, 9.5, 6.25, 8.0];
const I: &[f64] = &[1e-6, 1.1e-6, 0.95e-6, 1.02e-6];
const J: &[f64] = &[1.3e-6, 1.9e-6, 1.1e-6, 1.6e-6, 1.45e-6];
const K: &[f64] = &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
const L: &[f64] = &[1001.0, 1002.0, 1003.0, 1004.0, 1005.0, 1006.5];
/// Hours of sleep gained with two drugs, from Student (1908).
const SLEEP: [&[f64]; 2] = [
    &[0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0],
    &[1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4],
];

proptest! {
    /// What is printed of a p-value never contradicts the decision, which is by the value itself.
    #[test]
    fn a_printed_p_value_is_on_its_own_side_of_the_level(
        p in prop_oneof![0.0..=1.0f64, (-17.0..-1.0f64).prop_map(|size| LEVEL * (1.0 - 10f64.powf(size)))],
        decimals in 2usize..5,
    ) {
        for text in [p_text(p, decimals), p_statement(p)] {
            let digits: String = text.chars().filter(|c| c.is_ascii_digit() || *c == '.').collect();
            let shown: f64 = digits.parse().unwrap();
            prop_assert_eq!(shown < LEVEL, p < LEVEL, "{} shown as {}", p, text);
            prop_assert!(!text.contains('<') || p < shown);
        }
    }
}

#[test]
fn no_p_value_of_a_decision_reads_0_05() {
    assert_eq!(p_statement(0.0499), "p = 0.0499");
    assert_eq!(p_statement(0.04997), "p = 0.04997");
    assert_eq!((p_statement(0.0067), p_statement(0.031)), ("p < 0.01".into(), "p = 0.03".into()));
    assert_eq!(
        (p_text(0.0004, 3), p_text(0.0499, 3), p_text(0.04996, 3)),
        ("<0.001".into(), "0.0499".into(), "0.04996".into())
    );
    // The level itself decides nothing, and may be printed.
    assert_eq!((p_statement(0.0502), p_statement(LEVEL)), ("p = 0.05".into(), "p = 0.05".into()));
}

#[track_caller]
fn close(got: f64, want: f64) {
    assert!((got - want).abs() <= 1e-9 * want.abs(), "{got:e} is not {want:e}");
}

#[test]
fn summaries_are_scipys() {
    // numpy mean, std(ddof=1), median; scipy.stats.t.interval(0.95, n - 1, loc=mean,
    // scale=scipy.stats.sem(x))
    let cases: [(&[f64], usize, [f64; 5]); 12] = [
        (A, 5, [102362.3, 460.3847372035698, 101790.65684649182, 102933.94315350818, 102341.0]),
        (B, 5, [104308.45, 491.7366037829602, 103697.87836248371, 104919.02163751629, 104120.0]),
        (C, 3, [8.133333333333333, 0.2516611478423584, 7.508172385395755, 8.758494281270911, 8.1]),
        (D, 3, [10.066666666666665, 0.35118845842842517, 9.194266173153151, 10.939067160180178, 10.1]),
        (E, 10, [1.935, 0.2819081804812025, 1.7333350362431474, 2.1366649637568527, 1.95]),
        (F, 10, [1.9419999999999997, 0.24421302176583456, 1.7673005283518457, 2.1166994716481535, 1.95]),
        (G, 2, [5.25, 0.3535533905932738, 2.0734488159563265, 8.426551184043674, 5.25]),
        (H, 4, [7.6875, 1.4049762750072805, 5.451869222295906, 9.923130777704094, 7.5]),
        (I, 4, [1.0175e-06, 6.238322424070969e-08, 9.182343692517342e-07, 1.1167656307482658e-06, 1.01e-06]),
        (J, 5, [1.47e-06, 3.0331501776206196e-07, 1.0933846623303124e-06, 1.8466153376696874e-06, 1.45e-06]),
        (K, 6, [3.5, 1.8708286933869707, 1.536685693019676, 5.463314306980324, 3.5]),
        (L, 6, [1003.5833333333334, 2.0103896803024695, 1001.4735587527449, 1005.6931079139218, 1003.5]),
    ];
    for (values, n, [mean, stddev, low, high, median]) in cases {
        let summary = summarize(values).unwrap();
        assert_eq!(summary.n, n);
        close(summary.mean, mean);
        close(summary.stddev, stddev);
        close(summary.interval.unwrap().0, low);
        close(summary.interval.unwrap().1, high);
        close(summary.median, median);
    }
}

/// Test, samples, and t, df, p.
type Case = (Method, &'static [f64], &'static [f64], [f64; 3]);

#[track_caller]
fn tests_are(cases: &[Case]) {
    for (method, a, b, [t, df, p]) in cases {
        let test = t_test(*method, a, b).unwrap();
        close(test.t, *t);
        close(test.df, *df);
        close(test.p, *p);
    }
}

#[test]
fn t_tests_are_scipys() {
    // scipy.stats.ttest_ind(a, b, equal_var=True), ttest_ind(a, b, equal_var=False), ttest_rel(a, b)
    let [s, t] = SLEEP;
    let cases: [Case; 19] = [
        (Method::Student, A, B, [-6.460240553815033, 8.0, 0.00019617154170719804]),
        (Method::Student, C, D, [-7.750576015460293, 4.0, 0.0014931097900602328]),
        (Method::Student, E, F, [-0.05934927197175446, 18.0, 0.9533278675637471]),
        (Method::Student, G, H, [-2.2891723564466218, 4.0, 0.08393357265504793]),
        (Method::Student, I, J, [-2.8963787055854797, 7.0, 0.023104975101229393]),
        (Method::Student, K, L, [-892.0273049112245, 10.0, 7.714256687315502e-26]),
        (Method::Student, s, t, [-1.8608134674868524, 18.0, 0.07918671421593822]),
        (Method::Welch, A, B, [-6.460240553815033, 7.965527288767191, 0.00019988465159530294]),
        (Method::Welch, C, D, [-7.750576015460293, 3.625433526011558, 0.0022101328592778868]),
        (Method::Welch, E, F, [-0.05934927197175446, 17.641452641809522, 0.9533410505653735]),
        (Method::Welch, G, H, [-3.268972723928609, 3.6331856555498723, 0.03547443065624647]),
        (Method::Welch, I, J, [-3.251030757983334, 4.417722239835568, 0.02713148436883574]),
        (Method::Welch, K, L, [-892.0273049112245, 9.948679016094744, 1.006922771644715e-25]),
        (Method::Welch, s, t, [-1.8608134674868526, 17.776473516178488, 0.0793941401873583]),
        (Method::Paired, A, B, [-42.180496257572386, 4.0, 1.8883346110730325e-06]),
        (Method::Paired, C, D, [-5.555392454282671, 2.0, 0.03090756624030142]),
        (Method::Paired, E, F, [-0.18249833305500973, 9.0, 0.8592363107330028]),
        (Method::Paired, K, L, [-12001.000000000002, 5.0, 7.624592730738097e-20]),
        (Method::Paired, s, t, [-4.062127683382037, 9.0, 0.002832890197384273]),
    ];
    tests_are(&cases);
}

#[test]
fn everything_is_what_r_prints() {
    // R 4.2.2, sprintf("%.17g"): t.test(a, b, var.equal = TRUE), t.test(a, b), t.test(a, b, paired = TRUE)
    let cases: [Case; 9] = [
        (Method::Student, A, B, [-6.460240553815031, 8.0, 0.00019617154170719842]),
        (Method::Student, E, F, [-0.05934927197175634, 18.0, 0.9533278675637457]),
        (Method::Student, I, J, [-2.896378705585481, 7.0, 0.023104975101229337]),
        (Method::Welch, A, B, [-6.460240553815033, 7.965527288767191, 0.00019988465159530267]),
        (Method::Welch, C, D, [-7.7505760154603, 3.6254335260115584, 0.0022101328592778777]),
        (Method::Welch, G, H, [-3.2689727239286084, 3.6331856555498736, 0.035474430656246454]),
        (Method::Paired, A, B, [-42.180496257572386, 4.0, 1.8883346110730365e-06]),
        (Method::Paired, C, D, [-5.555392454282671, 2.0, 0.03090756624030141]),
        (Method::Paired, E, F, [-0.18249833305500976, 9.0, 0.8592363107330027]),
    ];
    tests_are(&cases);
    // t.test(x)$conf.int and sd(x)
    let intervals: [(&[f64], [f64; 3]); 3] = [
        (A, [460.3847372035698, 101790.65684649182, 102933.94315350818]),
        (H, [1.4049762750072805, 5.451869222295907, 9.923130777704094]),
        (I, [6.238322424070969e-08, 9.182343692517343e-07, 1.1167656307482658e-06]),
    ];
    for (values, [stddev, low, high]) in intervals {
        let summary = summarize(values).unwrap();
        close(summary.stddev, stddev);
        close(summary.interval.unwrap().0, low);
        close(summary.interval.unwrap().1, high);
    }
    // coef(summary(lm(y ~ x)))[2, c(1, 4)]
    let ys = [100.0, 103.0, 99.0, 104.0, 97.0, 105.0, 98.0, 101.0, 96.0, 102.0];
    let line: Vec<_> = ys.iter().enumerate().map(|(i, y)| (i as f64 * 0.1 + 0.05, *y, 0.1)).collect();
    let (fall, p) = slope(&line).unwrap();
    close(fall, -1.8787878787878958);
    close(p, 0.6032176100292055);
}

#[test]
fn quantiles_are_scipys() {
    // scipy.stats.t.ppf(0.975, df)
    let cases = [
        (1.0, 12.706204736174694),
        (2.0, 4.302652729749462),
        (3.7, 2.8675207071911895),
        (9.0, 2.262157162798205),
        (29.0, 2.045229642132703),
        (1000.0, 1.9623390808264083),
        (9999.0, 1.96020126362136),
        (38_000.0, 1.96002641468501),
        (1e6, 1.95996635681411),
    ];
    for (df, want) in cases {
        close(quantile(df), want);
    }
}

/// Joules of two replicates that are nearly equal have so many; `iopj report` did not return.
#[test]
fn quantiles_of_nearly_infinite_degrees_of_freedom_return() {
    // scipy.stats.t.isf(probability, df)
    for (df, probability, want) in [
        (1.5e7, 0.025, 1.95996414269148),
        (7.2e13, 0.025, 1.95996398454009),
        (7.2e13, 0.0005, 3.29052673149203),
        (f64::INFINITY, 0.025, 1.95996398454005),
        (f64::INFINITY, 0.3, 0.524400512708041),
    ] {
        close(upper_quantile(df, probability).unwrap(), want);
    }
}

#[test]
fn ratios_are_scipys() {
    // scipy.optimize.brentq for q in (mean(a) - q mean(b)) / sqrt(va + q^2 vb) = ±scipy.stats.t.ppf(0.975,
    // df), with va and vb the squared standard errors and df after Satterthwaite at q = mean(a) / mean(b)
    let cases: [(&[f64], &[f64], [f64; 3]); 6] = [
        (A, B, [0.9813423552933631, 0.9747689295219102, 0.9879622081332452]),
        (C, D, [0.8079470198675498, 0.7496260379251573, 0.8713948084320557]),
        (E, F, [0.9963954685890836, 0.8751831855790155, 1.1316585824794265]),
        (H, G, [1.4642857142857142, 1.0658374175904597, 1.9151332874741973]),
        (I, J, [0.6921768707482994, 0.5495670003975702, 0.9189396927683074]),
        (K, L, [0.003487503113842066, 0.0015312127765841619, 0.005443824276194067]),
    ];
    for (a, b, [ratio, low, high]) in cases {
        let got = ratio_of_means(a, b).unwrap();
        close(got.ratio, ratio);
        close(got.low, low);
        close(got.high, high);
    }
    // Two values whose mean is far from certain to differ from zero.
    assert_eq!(ratio_of_means(A, &[0.1, 5.0]), None);
}

#[test]
fn equivalence_is_scipys() {
    // max(ttest_ind(a, (1 - tol) * b, equal_var=False, alternative="greater").pvalue,
    //     ttest_ind(a, (1 + tol) * b, equal_var=False, alternative="less").pvalue)
    let cases: [(&[f64], &[f64], f64, f64); 6] = [
        (A, B, 0.05, 1.8811211562536457e-06),
        (A, B, 0.01, 0.991611015313779),
        (E, F, 0.1, 0.05984390663410698),
        (E, F, 0.25, 0.0007428712770003957),
        (C, D, 0.1, 0.9909250468487716),
        (I, J, 0.5, 0.0052999912936635115),
    ];
    for (a, b, tolerance, p) in cases {
        close(equivalent(Method::Welch, a, b, tolerance).unwrap(), p);
    }
}

#[test]
fn equivalence_by_blocks_is_scipys() {
    // max(scipy.stats.ttest_rel(a, (1 - r) * b, alternative="greater").pvalue, ttest_rel(a, (1 + r) * b,
    // alternative="less").pvalue)
    let a = [100.2, 101.1, 99.5, 100.9, 100.4, 99.8];
    let b = [100.0, 100.4, 99.9, 100.1, 100.8, 99.6];
    for (tolerance, p) in
        [(0.02, 0.00017284540746455684), (0.005, 0.09605558364590676), (0.001, 0.6455558873112961)]
    {
        close(equivalent(Method::Paired, &a, &b, tolerance).unwrap(), p);
    }
    close(
        equivalent(Method::Paired, &[103.0, 104.1, 102.8, 103.9, 103.1, 103.3], &b, 0.02).unwrap(),
        0.997941592285608,
    );
    assert_eq!(equivalent(Method::Paired, &[1.0; 3], &[1.0; 3], 0.05), Some(0.0));
    assert_eq!(equivalent(Method::Paired, &[1.0; 3], &[1.2; 3], 0.05), Some(1.0));
    assert_eq!(equivalent(Method::Paired, &a, &b[1..], 0.02), None);
    assert_eq!(equivalent(Method::Paired, &a, &b, -0.1), None);
    assert_eq!((over(4, 0.25), over(26, 0.5), over(1, 0.04)), (1.0, 1.0, 0.04));
}

#[test]
fn holm_is_statsmodels() {
    // statsmodels.stats.multitest.multipletests(p, method="holm")[1]
    for (got, want) in holm(&[0.01, 0.04, 0.03, 0.005, 0.2]).into_iter().zip([0.04, 0.09, 0.09, 0.025, 0.2]) {
        close(got, want);
    }
    // R's p.adjust(p, "holm") gives the same.
    for (got, want) in
        holm(&[0.02, 0.021, 0.9, 0.5, 1e-7, 0.02]).into_iter().zip([0.1, 0.1, 1.0, 1.0, 6e-7, 0.1])
    {
        close(got, want);
    }
    assert!(holm(&[]).is_empty());
}

#[test]
fn slopes_are_scipys() {
    // scipy.stats.linregress(x, y).slope and .pvalue
    let line = |ys: &[f64]| -> Vec<(f64, f64, f64)> {
        ys.iter().enumerate().map(|(i, y)| (i as f64 * 0.1 + 0.05, *y, 0.1)).collect()
    };
    let rising = [
        100.0, 103.0, 99.0, 104.0, 107.0, 105.0, 108.0, 110.0, 106.0, 112.0, 111.0, 115.0, 113.0, 118.0,
        116.0, 117.0, 121.0, 119.0, 123.0, 122.0,
    ];
    let (rise, p) = slope(&line(&rising)).unwrap();
    close(rise, 12.02255639097744);
    close(p, 1.5339411189215387e-12);
    let (fall, p) =
        slope(&line(&[100.0, 103.0, 99.0, 104.0, 97.0, 105.0, 98.0, 101.0, 96.0, 102.0])).unwrap();
    close(fall, -1.8787878787878787);
    close(p, 0.6032176100292089);
    assert_eq!(slope(&line(&[1.0, 2.0])), None);
    assert_eq!(slope(&[(1.0, 1.0, 1.0), (1.0, 2.0, 1.0), (1.0, 3.0, 1.0)]), None);
    assert_eq!(slope(&line(&[5.0, 5.0, 5.0])).unwrap().1, 1.0);
    assert_eq!(slope(&line(&[5.0, 6.0, 7.0])).unwrap().1, 0.0);
}

#[test]
fn constant_samples_decide_without_nan() {
    let tenths = [0.1; 3];
    for method in [Method::Student, Method::Welch, Method::Paired] {
        assert_eq!(t_test(method, &tenths, &tenths).unwrap().p, 1.0);
        let apart = t_test(method, &tenths, &[0.3; 3]).unwrap();
        assert_eq!((apart.t, apart.p), (f64::NEG_INFINITY, 0.0));
    }
    // The differences are 0.1 except for the last bit: they do not vary.
    assert_eq!(t_test(Method::Paired, &[1.1, 2.1, 1.3], &[1.0, 2.0, 1.2]).unwrap().p, 0.0);
    assert_eq!(ratio_of_means(&tenths, &[0.2; 3]), Some(Ratio { ratio: 0.5, low: 0.5, high: 0.5 }));
    assert_eq!(ratio_of_means(&tenths, &[0.0; 3]), None);
    assert_eq!(equivalent(Method::Welch, &tenths, &tenths, 0.0), Some(0.0));
    assert_eq!(equivalent(Method::Welch, &[0.0; 3], &[0.0; 3], 0.05), Some(0.0));
    assert_eq!(equivalent(Method::Welch, &tenths, &[0.2; 3], 0.05), Some(1.0));
    assert_eq!(summarize(&tenths).unwrap().interval, Some((0.1, 0.1)));
}

#[test]
fn what_is_undefined_is_none() {
    assert_eq!(summarize(&[]), None);
    assert_eq!(summarize(&[1.0, f64::NAN]), None);
    assert_eq!(summarize(&[f64::INFINITY; 2]), None);
    assert_eq!(
        summarize(&[7.0]),
        Some(Summary { n: 1, mean: 7.0, stddev: 0.0, interval: None, median: 7.0 })
    );
    assert_eq!(t_test(Method::Student, &[1.0], &[1.0, 2.0]), None);
    assert_eq!(t_test(Method::Paired, &[1.0, 2.0, 3.0], &[1.0, 2.0]), None);
    assert_eq!(ratio_of_means(&[1.0], &[1.0, 2.0]), None);
    assert_eq!(equivalent(Method::Welch, &[1.0, 2.0], &[1.0, 2.0], -0.1), None);
}

#[test]
fn the_interval_of_a_tiny_ratio_holds_it() {
    let Ratio { ratio, low, high } = ratio_of_means(&[0.0, -1.8669e-235], &[1.2036e-40, 8.1972e-41]).unwrap();
    assert!(low < ratio && ratio < high, "{low:e} {ratio:e} {high:e}");
}

proptest! {
    #[test]
    fn no_nan_leaves(
        a in proptest::collection::vec(any::<f64>(), 0..6),
        b in proptest::collection::vec(any::<f64>(), 0..6),
    ) {
        for method in [Method::Student, Method::Welch, Method::Paired] {
            if let Some(test) = t_test(method, &a, &b) {
                prop_assert!(!test.t.is_nan() && test.df > 0.0 && (0.0..=1.0).contains(&test.p), "{test:?}");
            }
        }
        if let Some(Ratio { ratio, low, high }) = ratio_of_means(&a, &b) {
            prop_assert!(low <= ratio && ratio <= high, "{low} {ratio} {high}");
        }
        if let Some(p) = equivalent(Method::Welch, &a, &b, 0.1) {
            prop_assert!((0.0..=1.0).contains(&p), "{p}");
        }
        if let Some(summary) = summarize(&a) {
            prop_assert!(!summary.mean.is_nan() && !summary.stddev.is_nan() && !summary.median.is_nan());
        }
    }
}

#[test]
fn bounds_of_a_paired_ratio_are_where_the_paired_test_turns() {
    // Samples with one drift, with none, with opposite ones, and with negative values.
    for (a, b) in [
        ([404.1, 303.0, 202.1, 101.0], [400.0, 300.0, 200.0, 100.0]),
        ([10.0, 11.0, 9.5, 10.4], [20.0, 19.0, 20.5, 20.2]),
        ([1.0, 2.0, 3.0, 4.0], [104.0, 103.0, 102.0, 101.0]),
        ([-5.0, -5.5, -4.7, -5.1], [10.0, 10.3, 9.9, 10.1]),
    ] {
        let ratio = ratio_of_paired_means(&a, &b).unwrap();
        assert!(ratio.low < ratio.ratio && ratio.ratio < ratio.high, "{ratio:?}");
        for bound in [ratio.low, ratio.high] {
            let scaled = b.map(|b| bound * b);
            let p = t_test(Method::Paired, &a, &scaled).unwrap().p;
            assert!((p / LEVEL - 1.0).abs() < 1e-9, "{p} at {bound}");
        }
    }
    // Common variation cancels; without it the interval is wide.
    let (a, b) = ([404.0, 303.0, 202.0, 101.0], [400.0, 300.0, 200.0, 100.0]);
    let (paired, apart) = (ratio_of_paired_means(&a, &b).unwrap(), ratio_of_means(&a, &b));
    assert!(
        paired.high - paired.low < 1e-6 && apart.is_none_or(|apart| apart.high - apart.low > 0.5),
        "{paired:?}"
    );
    assert_eq!(ratio_of_paired_means(&[1.0, 2.0], &[1.0]), None);
    assert_eq!(ratio_of_paired_means(&[1.0], &[1.0]), None);
    assert_eq!(ratio_of_paired_means(&[1.0, 2.0], &[-1.0, 1.0]), None);
    assert_eq!(ratio_of_paired_means(&[1.0, f64::NAN], &[1.0, 1.0]), None);
}
