//! What the papers draw, over depth and over threads.

use crate::paper_tables;
use iopj_analysis::Admission;
use iopj_analysis::efficiency::{EfficiencyCell, EfficiencyTable, efficiency_tables};
use iopj_core::{Rw, Scope, VerdictKind, Workload};
use iopj_record::testing::cells::{Measured, cell as trials_of, judge, measurement_of, workload};
use iopj_record::testing::energy::give;
use iopj_record::testing::pairs::study;
use iopj_record::{EnergySource, Trial};

/// A cell of three replicates of 2 s with these IOPS and W.
fn made(path: &str, (iodepth, numjobs): (u32, u32), iops: f64, watts: f64) -> Vec<Trial> {
    let workload = Workload { iodepth, ..workload(Rw::Randread, numjobs) };
    let mut trials = trials_of(path, &workload, Measured { iops, ..Measured::default() }, &[0.0; 3]);
    trials.iter_mut().for_each(|trial| give(trial, "plug", Scope::System, 2.0 * watts));
    trials
}

const SPDK: &str = "spdk/doorbell/poll";
const URING: &str = "io_uring/syscall/interrupt";

fn store() -> Vec<Trial> {
    [
        made(SPDK, (1, 1), 150_000.0, 60.0),
        made(SPDK, (16, 1), 550_000.0, 61.0),
        made(URING, (1, 1), 78_000.0, 50.0),
        made(URING, (1, 8), 400_000.0, 80.0),
    ]
    .concat()
}

fn tables(trials: &[Trial]) -> Vec<EfficiencyTable> {
    efficiency_tables(trials, &EnergySource::measured(&[trials]).unwrap(), Admission::default())
}

#[test]
fn what_the_papers_draw_comes_out_over_depth_and_over_threads() {
    let [depth, threads] = &tables(&store())[..] else { panic!() };
    assert_eq!(
        (depth.axis, &depth.values, threads.axis, &threads.values),
        ("iodepth", &vec![1, 16], "numjobs", &vec![1, 8])
    );
    let near = |cell: &Option<EfficiencyCell>, expected: [f64; 3]| {
        let cell = cell.unwrap();
        let figures = [cell.iops, cell.watts, cell.ios_per_joule];
        assert!(figures.iter().zip(expected).all(|(a, b)| (a / b - 1.0).abs() < 1e-9), "{cell:?}");
        assert_eq!(cell.replicates, 3);
    };
    assert_eq!(depth.rows.iter().map(|row| row.path.to_string()).collect::<Vec<_>>(), [SPDK, URING]);
    near(&depth.rows[0].cells[0], [150_000.0, 60.0, 2500.0]);
    near(&depth.rows[0].cells[1], [550_000.0, 61.0, 550_000.0 / 61.0]);
    assert!(depth.rows[1].cells[1].is_none(), "io_uring was not run at depth 16");
    near(&threads.rows[1].cells[1], [400_000.0, 80.0, 5000.0]);
    let text = paper_tables(&study("6.1"), &store(), None, Admission::default());
    let squeezed = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "(system by plug)",
        "path figure iodepth 1 iodepth 16",
        "spdk/doorbell/poll IOPS 150,000 550,000",
        "spdk/doorbell/poll W 60.00 61.00",
        "spdk/doorbell/poll IO/J 2,500 9,016",
        "io_uring/syscall/interrupt IO/J 1,560 -",
    ] {
        assert!(squeezed.contains(part), "{part} in {text}");
    }
}

#[test]
fn refuted_trials_and_single_workloads_are_in_no_table_and_what_lacks_is_said() {
    let mut trials = store();
    judge(&mut trials[3..6], VerdictKind::Refuted);
    let left = tables(&trials);
    assert_eq!(left.iter().map(|table| table.axis).collect::<Vec<_>>(), ["numjobs"]);
    let words = "not measured: the store lacks energy over depth or over threads";
    assert!(paper_tables(&study("6.1"), &trials[..3], None, Admission::default()).contains(words));
    trials.iter_mut().for_each(|trial| measurement_of(trial).energy.clear());
    let text = paper_tables(&study("6.1"), &trials, None, Admission::default());
    assert!(text.contains(words) && !text.contains("NaN"), "{text}");
}
