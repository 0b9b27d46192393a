//! An open load at three rates on three paths, with joules at the plug.

use crate::testing::cells::{Measured, cell, measurement_of, workload};
use crate::testing::energy::give;
use crate::{OpenWindow, Trial};
use iopj_core::{OpenLoad, Rw, Scope, Workload};

/// Synchronous calls.
pub const SIO: &str = "posix-sio/syscall/interrupt";

/// io_uring by system calls.
pub const URING: &str = "io_uring/syscall/interrupt";

/// io_uring with submission polling.
pub const SQPOLL: &str = "io_uring/sqpoll/interrupt";

/// A way at a rate: jobs and depth, p99 in us, and mJ per I/O; where it falls behind, no joules count.
pub type At = (&'static str, (u32, u32), u32, f64, Option<f64>);

/// Five replicates, whose figures differ by up to 2 %, each with joules by this meter.
pub fn measured((path, (numjobs, iodepth), rate, p99_us, mj): At, meter: (&str, Scope)) -> Vec<Trial> {
    let open = Some(OpenLoad::at(rate / numjobs));
    let workload = Workload { iodepth, open, ..workload(Rw::Randread, numjobs) };
    let figures = Measured { p99_us, iops: f64::from(rate), cpu_percent: 50.0, ..Measured::default() };
    // The spread is of the path, so differences within blocks vary too.
    let own = path.len() as f64 / 10_000.0;
    let mut trials = cell(path, &workload, figures, &[0.0, 0.01, -0.01, 0.005 + own, -0.005 - own]);
    for trial in &mut trials {
        let one = measurement_of(trial);
        let due = Some(u64::from(rate) * 2);
        one.open = Some(OpenWindow { due, overload: mj.is_none(), ..OpenWindow::default() });
        let joules = mj.unwrap_or(1.0) * 1e-3 * one.ios as f64;
        one.ios = u64::from(rate) * 2;
        give(trial, meter.0, meter.1, joules);
    }
    trials
}

/// A meter and its scope.
pub const PLUG: (&str, Scope) = ("plug", Scope::System);

/// At 40,000 io_uring takes 2 mJ at 180 us, sqpoll 3 mJ at 90 us; system calls of four jobs fall behind.
pub fn store() -> Vec<Trial> {
    let all: [At; 8] = [
        (SIO, (4, 1), 10_000, 100.0, Some(4.0)),
        (URING, (1, 32), 10_000, 90.0, Some(5.0)),
        (SQPOLL, (1, 32), 10_000, 60.0, Some(9.0)),
        (SIO, (4, 1), 40_000, 9000.0, None),
        (URING, (1, 32), 40_000, 180.0, Some(2.0)),
        (SQPOLL, (1, 32), 40_000, 90.0, Some(3.0)),
        (URING, (1, 32), 80_000, 9000.0, None),
        (SQPOLL, (1, 32), 80_000, 150.0, Some(1.5)),
    ];
    all.into_iter().flat_map(|at| measured(at, PLUG)).collect()
}
