//! Workloads as the decision names them: each with what varies between them, and many at once.

use super::text::settings;
use iopj_analysis::choice::{Choice, Choices};
use iopj_analysis::grouping::{TrialSetup, ascending, list};
use iopj_analysis::winner::{Axis, AxisValue};
use iopj_core::format_duration;
use iopj_record::Generator;
use std::collections::BTreeMap;

/// Workloads as they are named: with what varies between them.
pub(super) struct Titles {
    all: usize,
    length_varies: bool,
    ramp_time_varies: bool,
    cpus_vary: bool,
    generator_varies: bool,
    /// The settings that all of them have alike.
    common: BTreeMap<String, String>,
}

impl Titles {
    pub(super) fn of(found: &Choices) -> Titles {
        let all = || found.all.iter().map(|one| &one.setup);
        let mut common = all().next().map_or_else(BTreeMap::new, |setup| setup.settings.clone());
        all().for_each(|setup| common.retain(|name, value| setup.settings.get(name) == Some(value)));
        Titles {
            all: found.setups,
            length_varies: varies(all().map(|one| one.workload.length)),
            ramp_time_varies: varies(all().map(|one| one.workload.ramp_time)),
            cpus_vary: varies(all().map(|one| &one.workload.cpus_allowed)),
            generator_varies: varies(all().map(|one| one.generator)),
            common,
        }
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
        let mut title = workload.title();
        if self.length_varies {
            title += &format!(", {}", workload.length_text());
        }
        if self.ramp_time_varies {
            title += &format!(", ramp_time {}", format_duration(workload.ramp_time));
        }
        if self.cpus_vary {
            title += &format!(", cpus_allowed {:?}", workload.cpus_allowed);
        }
        if *generator == Generator::Fio || self.generator_varies {
            title += &format!(" ({})", generator.as_str());
        }
        title + &settings(own.iter().filter(|(name, value)| self.common.get(*name) != Some(*value)))
    }
}

/// True if there are two that are not equal.
fn varies<T: PartialEq>(mut all: impl Iterator<Item = T>) -> bool {
    let first = all.next();
    all.any(|one| Some(&one) != first.as_ref())
}
