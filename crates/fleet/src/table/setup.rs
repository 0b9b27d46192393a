//! What trials must share to be compared by their paths: the workload whole, settings, and the generator.

use super::contents::settings;
use iopj_core::Workload;
use iopj_record::{Generator, Trial};

/// Keys of a workload that its title leaves out, besides the length.
const UNTITLED: [&str; 2] = ["ramp_time", "cpus_allowed"];

/// A trial's set-up as text, such as `randread 4k iodepth 1 numjobs 1, 10s, governor=performance`. What is as
/// usual is left out.
pub(super) fn setup(trial: &Trial) -> String {
    let Trial { workload, generator, .. } = trial;
    let mut text = format!("{}, {}", workload.title(), workload.length_text());
    let plain = Workload::default();
    if workload.ramp_time != plain.ramp_time || workload.cpus_allowed != plain.cpus_allowed {
        let keys = workload.keys().into_iter().zip(plain.keys());
        let differing = keys.filter(|(own, usual)| own != usual && UNTITLED.contains(&own.0));
        differing.for_each(|((key, value), _)| text += &format!(", {key} {value}"));
    }
    if !trial.settings.is_empty() {
        text += &format!(", {}", settings(&trial.settings));
    }
    if *generator != Generator::Native {
        text += &format!(", by {}", generator.as_str());
    }
    text
}
