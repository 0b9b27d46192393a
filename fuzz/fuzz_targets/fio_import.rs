//! fio's JSON of others becomes trials whose figures are finite, or is refused.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok((trials, _)) = iopj_import::trials_of("fuzz".as_ref(), text) else { return };
    for measurement in trials.iter().filter_map(|trial| trial.outcome.measurement()) {
        assert!(measurement.iops().is_finite() && measurement.latency.mean.is_finite());
        assert!(measurement.achieved_depth.is_finite() && measurement.context_switches_per_io.is_finite());
    }
});
