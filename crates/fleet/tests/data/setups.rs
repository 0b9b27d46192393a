//! Only trials of one set-up are compared: the same workload, settings and generator.

use crate::rows::folder;
use crate::small::{only, report_of, reported, with, write_on};
use iopj_fleet::report::{KindReport, text};
use iopj_record::{Generator, Trial};

/// Trials as they were and, of the first workload, others that are ten times as fast.
fn beside(change: impl Fn(&mut Trial)) -> KindReport {
    let fast = |trial: &Trial| {
        let mut fast = with(trial, |one| one.ios *= 10);
        change(&mut fast);
        fast
    };
    only(reported(3, |_, trial| match trial.workload.iodepth {
        1 => vec![trial.clone(), fast(trial)],
        _ => vec![trial.clone()],
    }))
}

/// It was counted once for each kernel that it ran with.
#[test]
fn a_host_of_two_kernels_is_one_host_of_the_fleet() {
    let made = folder();
    write_on(made.path(), (2, 0), None, |trial| vec![trial.clone()]);
    write_on(made.path(), (2, 1), Some("6.13.0"), |trial| vec![trial.clone()]);
    let report = report_of(made.path());
    assert_eq!((report.hosts, report.kinds.len()), (1, 2));
    assert!(text(&report).starts_with("2 stores of 1 hosts, 2 kinds of machines"), "{}", text(&report));
}

/// They were added up: a path's figure was the mean over both.
#[test]
fn trials_of_different_settings_generators_or_lengths_are_not_pooled() {
    let plain = only(reported(3, |_, trial| vec![trial.clone()]));
    let governed = beside(|trial| drop(trial.settings.insert("governor".into(), "powersave".into())));
    let by_fio = beside(|trial| trial.generator = Generator::Fio);
    let longer = beside(|trial| trial.workload.ramp_time = std::time::Duration::from_secs(2));
    for (kind, other) in [(&governed, "governor=powersave"), (&by_fio, "by fio"), (&longer, "ramp_time 2s")] {
        assert_eq!((plain.workloads.len(), kind.workloads.len()), (4, 5), "{other}");
        assert_eq!(kind.workloads.iter().filter(|one| one.setup.ends_with(other)).count(), 1);
        for expected in &plain.workloads {
            let found = kind.workloads.iter().find(|one| one.setup == expected.setup).unwrap();
            let iops = |of: &iopj_fleet::report::WorkloadReport| -> Vec<f64> {
                of.paths.iter().map(|path| path.iops.unwrap().mean).collect()
            };
            assert_eq!(iops(found), iops(expected), "{other}");
        }
    }
    // The policy is of the usual settings alone; a model does not know the time that a trial warms up.
    for kind in [&governed, &by_fio] {
        assert_eq!(format!("{:?}", kind.observations), format!("{:?}", plain.observations));
    }
}
