//! What else used the machine while a study's trials ran, and what that did to them: the noise in a line.

use super::admission::Admission;
use iopj_core::Disturbance;
use iopj_record::{Measurement, Trial};
use std::collections::BTreeMap;
use std::fmt;

/// Shares of the processors' time that a hypervisor took are named from this on.
const STEAL: f64 = 0.001;
/// How many of the busiest processes are named.
const NAMED: usize = 3;

/// The noise of a study.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Noise {
    /// Trials that were measured.
    pub trials: usize,
    /// Cores of the machine.
    pub cores: u32,
    /// How many cores other processes used on average, and in the trial where they used most; absent where no
    /// trial could see all of them.
    pub others: Option<(f64, f64)>,
    /// The busiest of them, and how many cores each used on average.
    pub busiest: Vec<(String, f64)>,
    /// The share of the processors' time that the hypervisor took, on average and at most.
    pub steal: (f64, f64),
    /// Trials that were disturbed.
    pub disturbed: usize,
    /// In how many trials each thing was the disturbance.
    pub by: Vec<(&'static str, usize)>,
    /// Trials in which a spinning thread lost its core.
    pub starved: usize,
    /// True if disturbed trials are ranked all the same.
    pub ranked: bool,
}

impl Noise {
    /// The noise of these trials; `None` if none was measured, or times mean nothing because their processor
    /// was emulated and nothing else disturbed them.
    pub fn of(trials: &[Trial], admission: Admission) -> Option<Noise> {
        let measured: Vec<&Measurement> =
            trials.iter().filter_map(|trial| trial.outcome.measurement()).collect();
        let mut by: BTreeMap<&'static str, usize> = BTreeMap::new();
        for measurement in &measured {
            let mut kinds: Vec<&str> = admission.disturbances(measurement).map(kind).collect();
            kinds.sort_unstable();
            kinds.dedup();
            kinds.into_iter().for_each(|kind| *by.entry(kind).or_default() += 1);
        }
        let mut by: Vec<_> = by.into_iter().collect();
        by.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let noise = Noise {
            trials: measured.len(),
            cores: measured.iter().map(|one| one.evidence.cpu.cores).max()?,
            disturbed: measured.iter().filter(|one| admission.is_disturbed(one)).count(),
            by,
            starved: measured.iter().filter(|one| admission.starved(one).is_some()).count(),
            ranked: admission.with_unproven,
            ..Noise::default()
        };
        if admission.emulated {
            return (noise.disturbed > 0).then_some(noise);
        }
        let steal = measured.iter().map(|one| share(one.evidence.cpu.steal_ns, one.evidence.cpu.total_ns()));
        let steal = mean_and_most(steal).unwrap_or_default();
        Some(Noise { others: others(&measured), busiest: busiest(&measured), steal, ..noise })
    }
}

fn kind(disturbance: &Disturbance) -> &'static str {
    match disturbance {
        Disturbance::Others { .. } => "other processes",
        Disturbance::Stolen { .. } => "the hypervisor",
        Disturbance::Throttled { .. } => "heat",
        Disturbance::Changed(_) => "a changed setting",
    }
}

fn share(part: u64, of: u64) -> f64 {
    if of == 0 { 0.0 } else { part as f64 / of as f64 }
}

fn mean_and_most(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let values: Vec<f64> = values.collect();
    let most = values.iter().copied().reduce(f64::max)?;
    Some((values.iter().sum::<f64>() / values.len() as f64, most))
}

fn others(measured: &[&Measurement]) -> Option<(f64, f64)> {
    let seen = measured.iter().filter_map(|one| one.evidence.others.as_ref());
    mean_and_most(seen.map(|others| share(others.processes_ns, others.over_ns)))
}

fn busiest(measured: &[&Measurement]) -> Vec<(String, f64)> {
    let seen = || measured.iter().filter_map(|one| one.evidence.others.as_ref());
    let over_ns = seen().map(|others| others.over_ns).fold(0, u64::saturating_add);
    let mut by_name: BTreeMap<&str, u64> = BTreeMap::new();
    for process in seen().flat_map(|others| &others.busiest) {
        let cpu_ns = by_name.entry(&process.name).or_default();
        *cpu_ns = cpu_ns.saturating_add(process.cpu_ns);
    }
    let mut all: Vec<(String, f64)> =
        by_name.into_iter().map(|(name, cpu_ns)| (name.to_owned(), share(cpu_ns, over_ns))).collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    all.truncate(NAMED);
    all
}

impl fmt::Display for Noise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Noise { trials, cores, .. } = *self;
        let machine = if cores == 1 { "the one core".to_owned() } else { format!("{cores} cores") };
        if let Some((mean, most)) = self.others {
            write!(f, "others used {mean:.2} of {machine}")?;
            if trials > 1 {
                write!(f, ", {most:.2} at most")?;
            }
            let named = self.busiest.iter().map(|(name, used)| format!("{name} {used:.2}"));
            let named: Vec<String> = named.collect();
            if !named.is_empty() {
                write!(f, " ({})", named.join(", "))?;
            }
            f.write_str("; ")?;
        }
        let (mean, most) = self.steal;
        if most >= STEAL {
            write!(f, "the hypervisor took {:.1} %, {:.1} % at most; ", 100.0 * mean, 100.0 * most)?;
        }
        match self.disturbed {
            0 => f.write_str("no trial was disturbed")?,
            disturbed => {
                let by: Vec<String> =
                    self.by.iter().map(|(what, count)| format!("{count} by {what}")).collect();
                let ranked = if self.ranked { "ranked with a mark" } else { "left out of the ranking" };
                let were = if disturbed == 1 { "was" } else { "were" };
                write!(f, "{disturbed} of {trials} trials {were} disturbed ({}; {ranked})", by.join(", "))?;
            }
        }
        match self.starved {
            0 => Ok(()),
            starved => {
                write!(f, "; in {starved} of {trials} trials a spinning thread lost its core (starved)")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopj_core::Rw;
    use iopj_core::evidence::{BusyProcess, OthersEvidence};
    use iopj_record::testing::cells::{Measured, cell, measurement_of, workload};

    #[test]
    fn the_noise_of_a_study_is_one_line() {
        let path = "libaio/syscall/interrupt";
        let mut all = cell(path, &workload(Rw::Randread, 1), Measured::default(), &[0.0; 2]);
        for (trial, ms) in all.iter_mut().zip([200, 900]) {
            let one = measurement_of(trial);
            let busiest = vec![BusyProcess { name: "rustc".to_owned(), cpu_ns: ms * 500_000 }];
            one.evidence.others = Some(OthersEvidence {
                over_ns: 1_000_000_000,
                processes_ns: ms * 1_000_000,
                busiest,
                ..OthersEvidence::default()
            });
            (one.evidence.cpu.cores, one.evidence.cpu.steal_ns) = (2, 0);
        }
        let line = |all: &[Trial], admission| Noise::of(all, admission).map(|noise| noise.to_string());
        let strict = Admission::default();
        let quiet = "others used 0.55 of 2 cores, 0.90 at most (rustc 0.28); no trial was disturbed";
        assert_eq!(line(&all, strict).as_deref(), Some(quiet));
        measurement_of(&mut all[1]).conditions.disturbances =
            vec![Disturbance::Others { cores: 0.9, allowed: 0.05 }, Disturbance::Throttled { times: 3 }];
        let text = line(&all, strict).unwrap();
        let disturbed =
            "; 1 of 2 trials was disturbed (1 by heat, 1 by other processes; left out of the ranking)";
        assert!(text.ends_with(disturbed), "{text}");
        let lax = Admission { with_unproven: true, ..strict };
        assert!(line(&all, lax).unwrap().ends_with("; ranked with a mark)"));
        // Under emulation only what is not time counts; and what nobody could see is not said.
        let emulated = line(&all, Admission { emulated: true, ..strict }).unwrap();
        assert_eq!(emulated, "1 of 2 trials was disturbed (1 by heat; left out of the ranking)");
        measurement_of(&mut all[0]).evidence.others = None;
        assert_eq!(line(&all[..1], strict).as_deref(), Some("no trial was disturbed"));
        assert_eq!(line(&[], strict), None);
    }
}
