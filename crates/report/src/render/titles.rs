//! Workloads as the decision names them: each with what varies between them, and many at once.

use super::text::settings;
use crate::analysis::choice::{Choice, Choices};
use crate::analysis::grouping::{TrialSetup, ascending, list, unique};
use crate::analysis::winner::{Axis, AxisValue};
use iopj_core::format_duration;
use iopj_store::Generator;

/// Workloads as they are named: with what varies between them.
pub(super) struct Titles {
    setups: Vec<TrialSetup>,
    all: usize,
}

impl Titles {
    pub(super) fn of(found: &Choices) -> Titles {
        Titles { setups: found.all.iter().map(|one| one.setup.clone()).collect(), all: found.setups }
    }

    /// The workloads of a group. Those that are all combinations of some values are named once, with these.
    pub(super) fn of_group(&self, alike: &[&Choice]) -> String {
        let setups: Vec<&TrialSetup> = alike.iter().map(|one| &one.setup).collect();
        let values = |axis: &Axis| ascending(setups.iter().map(|setup| axis.value(&setup.workload)));
        let varying: Vec<(Axis, Vec<AxisValue>)> = Axis::ALL
            .iter()
            .map(|axis| (*axis, values(axis)))
            .filter(|(_, values)| values.len() > 1)
            .collect();
        let cleared = |setup: &TrialSetup| {
            let mut setup = setup.clone();
            varying.iter().for_each(|(axis, _)| axis.clear(&mut setup.workload));
            setup
        };
        let are_all = setups.len() == varying.iter().map(|(_, values)| values.len()).product::<usize>();
        if !are_all || setups.iter().any(|setup| cleared(setup) != cleared(setups[0])) {
            return match setups.len() {
                all if all == self.all => format!("Each of {all} workloads"),
                _ => setups.iter().map(|setup| self.title(setup)).collect::<Vec<_>>().join("; "),
            };
        }
        let with_values = |title: String, (axis, values): &(Axis, Vec<AxisValue>)| {
            let named = |value: &str| match axis {
                Axis::Iodepth | Axis::Numjobs | Axis::RateIops | Axis::Corunner => {
                    format!("{} {value}", axis.as_str())
                }
                Axis::Rw | Axis::Bs => value.to_owned(),
            };
            let own = axis.value(&setups[0].workload).to_string();
            let all: Vec<String> = values.iter().map(AxisValue::to_string).collect();
            match title.contains(&named(&own)) {
                true => title.replacen(&named(&own), &named(&list(&all)), 1),
                // A title does not name what a workload lacks.
                false => format!("{title} {}", named(&list(&all))),
            }
        };
        varying.iter().fold(self.title(setups[0]), with_values)
    }

    fn title(&self, setup: &TrialSetup) -> String {
        let TrialSetup { workload, settings: own, generator } = setup;
        let differs = |of: fn(&TrialSetup) -> String| unique(self.setups.iter().map(of)).len() > 1;
        let mut title = workload.title();
        if differs(|one| one.workload.length_text()) {
            title += &format!(", {}", workload.length_text());
        }
        if differs(|one| format_duration(one.workload.ramp_time)) {
            title += &format!(", ramp_time {}", format_duration(workload.ramp_time));
        }
        if differs(|one| format!("{:?}", one.workload.cpus_allowed)) {
            title += &format!(", cpus_allowed {:?}", workload.cpus_allowed);
        }
        if *generator == Generator::Fio || differs(|one| one.generator.as_str().to_owned()) {
            title += &format!(" ({})", generator.as_str());
        }
        let varies = |(name, value): &(&String, &String)| {
            self.setups.iter().any(|other| other.settings.get(*name) != Some(*value))
        };
        title + &settings(own.iter().filter(varies))
    }
}
