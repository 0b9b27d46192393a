//! Coefficients compared with NumPy 2.4.6, and every case without watts.

use super::*;
use proptest::prelude::*;

const CPU: &str = "Intel(R) Xeon(R) E3-1230";

#[track_caller]
fn close(got: f64, want: f64) {
    assert!((got - want).abs() <= 1e-9 * want.abs().max(1e-6), "{got} is not {want}");
}

fn features(user: f64, system: f64, wakeups: f64) -> Features {
    let values = [(Feature::User, user), (Feature::System, system), (Feature::Wakeups, wakeups)];
    Features { cpu_model: CPU.into(), values: values.into() }
}

/// Sixteen trials of a known law with fixed disturbances.
fn observations() -> Vec<Observation> {
    let disturbances =
        [0.3, -0.2, 0.1, -0.4, 0.25, 0.15, -0.35, 0.05, -0.1, 0.2, -0.3, 0.4, -0.05, -0.15, 0.35, -0.25];
    let one = |(index, disturbance): (usize, &f64)| {
        let user = (index % 4) as f64 * 0.75 + 0.1;
        let system = (index / 4 % 4) as f64 * 0.5 + 0.05 * (index % 3) as f64;
        let wakeups = 1000.0 * (index * 7 % 16) as f64 + 50.0;
        let watts = 40.0 + 9.5 * user + 12.0 * system + 2e-4 * wakeups + disturbance;
        Observation { watts, features: features(user, system, wakeups) }
    };
    disturbances.iter().enumerate().map(one).collect()
}

fn model() -> Coefficients {
    fit(&observations(), CPU, "plug of lab.db").unwrap()
}

#[test]
fn coefficients_and_their_uncertainty_are_numpys() {
    // numpy.linalg.lstsq, s^2 inv(X'X)
    let model = model();
    close(model.constant_watts, 40.04935170604077);
    close(model.residual_standard_watts, 0.2834065369612996);
    close(model.r_squared.unwrap(), 0.9994595526048302);
    for (feature, value, standard) in [
        (Feature::User, 9.433074597154446, 0.08459534529284973),
        (Feature::System, 12.03375599079186, 0.12674564783253314),
        (Feature::Wakeups, 2.007592857289353e-4, 1.5468572468646765e-5),
    ] {
        let coefficient = &model.coefficients[&feature];
        close(coefficient.value, value);
        close(coefficient.standard.unwrap(), standard);
    }
    let covariance = model.covariance.as_ref().unwrap();
    close(covariance[0][0].sqrt(), 0.1899269697698901);
    // The order is system, user, wakeups.
    close(covariance[2][1], 2.652151290363277e-5);
    close(covariance[0][3], -1.5695213777086656e-6);
}

#[test]
fn an_estimate_says_that_it_is_one_and_how_far_off_it_may_be() {
    let power = estimate(&model(), &features(1.5, 0.8, 9000.0)).unwrap();
    close(power.watts, 65.63280196596634);
    close(power.standard, 0.29382183372224746);
    assert_eq!(power.to_string(), "est. 65.6 W ± 0.3 W");
    let far = estimate(&model(), &features(40.0, 30.0, 1e6)).unwrap();
    assert!(far.standard > 10.0 * power.standard, "far from what was measured: {far}");
}

#[test]
fn a_file_is_the_model() {
    let text = model().to_toml().unwrap();
    assert_eq!(Coefficients::parse(&text).unwrap(), model(), "{text}");
    assert!(text.contains("unit = \"J per context switch\""), "{text}");
}

#[test]
fn a_cited_file_needs_no_covariance() {
    let text = "cpu_model = \"X\"\nsource = \"a paper, table 2\"\nconstant_watts = \
                30.0\nresidual_standard_watts = 3.0\n\n[coefficients.user]\nvalue = 10.0\nunit = \"W per \
                core\"\nstandard = 2.0\n";
    let model = Coefficients::parse(text).unwrap();
    let values = [(Feature::User, 2.0), (Feature::Bytes, 1e9)];
    let power = estimate(&model, &Features { cpu_model: "X".into(), values: values.into() }).unwrap();
    assert_eq!(power, EstimatedPower { watts: 50.0, standard: 5.0 });
    for (from, to) in [
        ("source = \"a paper, table 2\"", "source = \" \""),
        ("source = \"a paper, table 2\"\n", ""),
        ("cpu_model = \"X\"\n", "cpu_model = \"X\"\nwatts = 3\n"),
        ("[coefficients.user]", "[coefficients.uptime]"),
        ("W per core", "W"),
        ("value = 10.0", "value = nan"),
        ("residual_standard_watts = 3.0", "residual_standard_watts = -3.0"),
        ("residual_standard_watts = 3.0", "residual_standard_watts = 3.0\ncovariance = [[1.0]]"),
        ("residual_standard_watts = 3.0", "residual_standard_watts = 3.0\ncovariance = [[1, 0], [0, -1]]"),
        ("residual_standard_watts = 3.0", "residual_standard_watts = 3.0\nr_squared = nan"),
        ("residual_standard_watts = 3.0", "residual_standard_watts = 3.0\nr_squared = 9.0"),
        ("standard = 2.0", "standard = nan"),
        ("standard = 2.0", "standard = -5.0"),
        ("residual_standard_watts = 3.0", ""),
    ] {
        assert!(text.contains(from) && Coefficients::parse(&text.replace(from, to)).is_err(), "{from} {to}");
    }
}

#[test]
fn there_are_no_watts_for_another_cpu_or_without_a_feature() {
    let other = Features { cpu_model: "AMD EPYC 7302".into(), ..features(1.0, 1.0, 1.0) };
    let error = estimate(&model(), &other).unwrap_err();
    assert!(error.to_string().contains("AMD EPYC 7302") && error.to_string().contains(CPU), "{error}");
    let mut less = features(1.0, 1.0, 1.0);
    less.values.remove(&Feature::Wakeups);
    assert_eq!(estimate(&model(), &less), Err(ModelError::Missing(Feature::Wakeups)));
    assert_eq!(
        estimate(&model(), &features(f64::INFINITY, 1.0, 1.0)),
        Err(ModelError::NotFinite("watts".into()))
    );
}

#[test]
fn observations_that_do_not_determine_the_coefficients_are_refused() {
    let all = observations();
    assert_eq!(fit(&all[..8], CPU, "x"), Err(FitError::TooFew { found: 8, needed: 9, coefficients: 4 }));
    assert_eq!(fit(&[], CPU, "x"), Err(FitError::TooFew { found: 0, needed: 6, coefficients: 1 }));
    assert_eq!(fit(&all, CPU, " "), Err(FitError::NoSource));
    assert!(matches!(fit(&all, "other", "x"), Err(FitError::OtherCpu { .. })));
    let with = |feature: Feature, value: &dyn Fn(usize, &Features) -> f64| {
        let mut all = observations();
        for (index, one) in all.iter_mut().enumerate() {
            let value = value(index, &one.features);
            one.features.values.insert(feature.clone(), value);
        }
        fit(&all, CPU, "x")
    };
    // Idle residency is the rest of the other kinds: it adds no information.
    let idle = Feature::CState("C6".into());
    let rest = |_: usize, features: &Features| {
        4.0 - features.values[&Feature::User] - features.values[&Feature::System]
    };
    assert_eq!(with(idle.clone(), &rest), Err(FitError::Collinear(idle.clone())));
    assert_eq!(with(Feature::Irq, &|_, _| 0.1), Err(FitError::Collinear(Feature::Irq)));
    assert_eq!(with(Feature::Irq, &|_, _| 0.0), Err(FitError::Collinear(Feature::Irq)));
    assert!(with(Feature::Irq, &|index, _| (index * index % 11) as f64).is_ok());
    assert_eq!(with(Feature::Irq, &|_, _| f64::NAN), Err(FitError::NotFinite));
    let mut some = observations();
    some[3].features.values.insert(Feature::Ios, 1.0);
    assert_eq!(fit(&some, CPU, "x"), Err(FitError::Missing(Feature::Ios)));
    some = observations();
    some[3].features.values.remove(&Feature::User);
    assert_eq!(fit(&some, CPU, "x"), Err(FitError::Missing(Feature::User)));
}

#[test]
fn a_c_state_is_fitted_last_and_stands_in_the_files_order() {
    let with = |feature: &Feature| {
        let mut all = observations();
        for (index, one) in all.iter_mut().enumerate() {
            one.features.values.insert(feature.clone(), (index * index % 11) as f64);
        }
        fit(&all, CPU, "x").unwrap()
    };
    // By name both come before the others; only that of the bytes is also fitted before them.
    let (idle, bytes) = (Feature::CState("C6".into()), Feature::Bytes);
    let (last, first) = (with(&idle), with(&bytes));
    close(last.coefficients[&idle].value, first.coefficients[&bytes].value);
    close(last.coefficients[&idle].standard.unwrap(), first.coefficients[&bytes].standard.unwrap());
    close(last.coefficients[&Feature::User].value, first.coefficients[&Feature::User].value);
    let (last, first) = (last.covariance.unwrap(), first.covariance.unwrap());
    for (last, first) in last.iter().flatten().zip(first.iter().flatten()) {
        assert!((last - first).abs() <= 1e-9 * first.abs().max(1e-9), "{last} is not {first}");
    }
}

#[test]
fn features_have_one_text_form() {
    for feature in [
        Feature::Bytes,
        Feature::CState("C1E".into()),
        Feature::Ios,
        Feature::Irq,
        Feature::Softirq,
        Feature::System,
        Feature::User,
        Feature::Wakeups,
    ] {
        assert_eq!(feature.to_string().parse(), Ok(feature));
    }
    assert_eq!("c_state:".parse::<Feature>(), Err(ModelError::UnknownFeature("c_state:".into())));
}

proptest! {
    #[test]
    fn an_exact_law_is_found_again(
        constant in -100.0f64..100.0,
        a in -50.0f64..50.0,
        b in -1e-6f64..1e-6,
        seed in 0usize..1000,
    ) {
        let one = |index: usize| {
            let user = (((index + seed) * 37) % 23) as f64 / 7.0;
            let bytes = (((index + seed) * 53) % 29) as f64 * 1e8;
            let values = [(Feature::User, user), (Feature::Bytes, bytes)];
            Observation {
                watts: constant + a * user + b * bytes,
                features: Features { cpu_model: CPU.into(), values: values.into() },
            }
        };
        let all: Vec<Observation> = (0..40).map(one).collect();
        let model = fit(&all, CPU, "law").unwrap();
        prop_assert!(
            (model.constant_watts - constant).abs()
                < 1e-9 * (1.0 + constant.abs() + a.abs() + b.abs() * 3e9)
        );
        prop_assert!(
            model.residual_standard_watts < 1e-9 * (1.0 + constant.abs() + a.abs() + b.abs() * 3e9)
        );
        for one in &all {
            let power = estimate(&model, &one.features).unwrap();
            prop_assert!((power.watts - one.watts).abs() < 1e-6);
        }
        prop_assert_eq!(Coefficients::parse(&model.to_toml().unwrap()).unwrap(), model);
    }

    #[test]
    fn residuals_are_orthogonal_to_every_feature(noise in proptest::collection::vec(-5.0f64..5.0, 16)) {
        let mut all = observations();
        all.iter_mut().zip(&noise).for_each(|(one, noise)| one.watts += noise);
        let model = fit(&all, CPU, "noise").unwrap();
        let residual = |one: &Observation| one.watts - estimate(&model, &one.features).unwrap().watts;
        for feature in [None, Some(Feature::User), Some(Feature::System), Some(Feature::Wakeups)] {
            let of = |one: &Observation| feature.as_ref().map_or(1.0, |feature| one.features.values[feature]);
            let product: f64 = all.iter().map(|one| residual(one) * of(one)).sum();
            let scale: f64 = all.iter().map(|one| of(one).abs() * 100.0).sum();
            prop_assert!(product.abs() < 1e-10 * scale, "{feature:?}: {product}");
        }
    }

    #[test]
    fn no_text_makes_it_panic(text in "\\PC*") {
        let _ = Coefficients::parse(&text);
    }
}
