//! `[[workload]]` of a study: a matrix of workloads, every key in fio's words.

use crate::axis::{Axis, spread};
use crate::error::{StudyError, error};
use crate::time::duration;
use iopj_core::workload::{Length, RandomDistribution, Rw, Workload};
use iopj_core::{Burst, Corunner, CorunnerKind, OpenLoad, RateProcess, format_bytes, parse_bytes};
use serde::{Deserialize, Serialize};
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

/// `[[workload]]`: every key in fio's words.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct WorkloadMatrix {
    pub paths: Option<Axis<String>>,
    pub rw: Option<Axis<String>>,
    pub rwmixread: Option<Axis<u8>>,
    pub bs: Option<Axis<String>>,
    pub iodepth: Option<Axis<u32>>,
    pub iodepth_batch_submit: Option<Axis<u32>>,
    pub iodepth_batch_complete_min: Option<Axis<u32>>,
    pub numjobs: Option<Axis<u32>>,
    pub random_distribution: Option<Axis<String>>,
    pub cpus_allowed: Option<String>,
    pub ramp_time: Option<String>,
    pub runtime: Option<String>,
    pub ios: Option<u64>,
    pub rate_iops: Option<Axis<u32>>,
    pub rate_process: Option<Axis<String>>,
    pub rate_iops_end: Option<u32>,
    pub burst_on: Option<String>,
    pub burst_off: Option<String>,
    pub corunner: Option<Axis<String>>,
    pub corunner_cpus: Option<String>,
    pub corunner_nice: Option<Axis<i32>>,
}

impl WorkloadMatrix {
    /// How many workloads the matrix has, counted without making them.
    pub(crate) fn count(&self) -> u64 {
        fn of<T: Clone>(axis: &Option<Axis<T>>) -> u64 {
            axis.as_ref().map_or(1, Axis::count)
        }
        let batches = [of(&self.iodepth_batch_submit), of(&self.iodepth_batch_complete_min)];
        let others = [of(&self.rw), of(&self.rwmixread), of(&self.bs), of(&self.iodepth), of(&self.numjobs)];
        let spreads = [of(&self.random_distribution), of(&self.rate_iops), of(&self.rate_process)];
        let corunners = [of(&self.corunner), of(&self.corunner_nice)];
        batches.into_iter().chain(others).chain(spreads).chain(corunners).fold(1, u64::saturating_mul)
    }

    /// Every workload of the matrix.
    ///
    /// # Errors
    /// A bad value, or an empty list.
    pub fn workloads(&self) -> Result<Vec<Workload>, StudyError> {
        let length = match (&self.runtime, self.ios) {
            (Some(_), Some(_)) => return error("a workload has both `runtime` and `ios`: leave one out"),
            (Some(text), None) => Length::Runtime(duration("runtime", text)?),
            (None, Some(0)) => return error("`ios` is 0: give the number of I/Os of each job"),
            (None, Some(ios)) => Length::Ios(ios),
            (None, None) => Workload::default().length,
        };
        if length == Length::Runtime(Duration::ZERO) {
            return error("`runtime` is 0: give a time such as 10s");
        }
        let ramp_time =
            self.ramp_time.as_deref().map_or(Ok(Duration::ZERO), |text| duration("ramp_time", text))?;
        let cpus_allowed =
            self.cpus_allowed.as_deref().map_or(Ok(Vec::new()), |text| parse_cpus("cpus_allowed", text))?;
        let open = self.plain_open(length)?;
        let mut all = vec![Workload { length, ramp_time, cpus_allowed, open, ..Workload::default() }];
        spread(&mut all, "rw", &self.rw, |text| parsed::<Rw>(text), |w, rw| w.rw = *rw)?;
        let percent =
            |text: &u8| if *text <= 100 { Ok(*text) } else { Err(format!("{text} is above 100 per cent")) };
        spread(&mut all, "rwmixread", &self.rwmixread, percent, |w, share| w.rwmixread = *share)?;
        spread(&mut all, "bs", &self.bs, block_size, |w, bs| w.bs = *bs)?;
        spread(&mut all, "iodepth", &self.iodepth, count, |w, depth| w.iodepth = *depth)?;
        let batch = &self.iodepth_batch_submit;
        spread(&mut all, "iodepth_batch_submit", batch, count, |w, batch| w.iodepth_batch_submit = *batch)?;
        let least = &self.iodepth_batch_complete_min;
        spread(&mut all, "iodepth_batch_complete_min", least, count, |w, least| {
            w.iodepth_batch_complete_min = *least
        })?;
        spread(&mut all, "numjobs", &self.numjobs, count, |w, jobs| w.numjobs = *jobs)?;
        let spreads = &self.random_distribution;
        spread(
            &mut all,
            "random_distribution",
            spreads,
            |text| parsed::<RandomDistribution>(text),
            |w, spread| {
                w.random_distribution = *spread;
            },
        )?;
        self.spread_open(&mut all)?;
        self.spread_corunner(&mut all)?;
        Ok(all)
    }

    /// Combines with every co-runner, at every niceness.
    fn spread_corunner(&self, all: &mut Vec<Workload>) -> Result<(), StudyError> {
        let others = [
            ("corunner_cpus", self.corunner_cpus.is_some()),
            ("corunner_nice", self.corunner_nice.is_some()),
        ];
        if let (None, Some((key, _))) = (&self.corunner, others.iter().find(|(_, is_there)| *is_there)) {
            return error(format!("`{key}` shapes a co-runner, and `corunner` is missing: give its kind"));
        }
        let mut cpus =
            self.corunner_cpus.as_deref().map_or(Ok(Vec::new()), |text| parse_cpus("corunner_cpus", text))?;
        cpus.sort_unstable();
        cpus.dedup();
        let kind = |text: &String| match text.as_str() {
            "none" => Ok(None),
            text => parsed::<CorunnerKind>(text).map(Some),
        };
        spread(all, "corunner", &self.corunner, kind, |w, kind| {
            w.corunner = kind.map(|kind| Corunner { cpus: cpus.clone(), ..Corunner::of(kind) });
        })?;
        spread(all, "corunner_nice", &self.corunner_nice, niceness, |w, nice| {
            if let Some(corunner) = &mut w.corunner {
                corunner.nice = *nice;
            }
        })
    }

    /// The open load that the axes of arrivals start from; none without `rate_iops`.
    fn plain_open(&self, length: Length) -> Result<Option<OpenLoad>, StudyError> {
        let others = [
            ("rate_process", self.rate_process.is_some()),
            ("rate_iops_end", self.rate_iops_end.is_some()),
            ("burst_on", self.burst_on.is_some()),
            ("burst_off", self.burst_off.is_some()),
        ];
        if self.rate_iops.is_none() {
            return match others.iter().find(|(_, is_there)| *is_there) {
                Some((key, _)) => {
                    error(format!("`{key}` shapes an open load, and `rate_iops` is missing: give the rate"))
                }
                None => Ok(None),
            };
        }
        let rate_iops_end = self.rate_iops_end.as_ref().map(rate).transpose();
        let rate_iops_end = rate_iops_end.map_err(|e| StudyError(format!("rate_iops_end: {e}")))?;
        if rate_iops_end.is_some() && !matches!(length, Length::Runtime(_)) {
            return error("`rate_iops_end` is the rate at the window's end: give `runtime` instead of `ios`");
        }
        let time = |key: &str, text: &String| match duration(key, text)? {
            Duration::ZERO => error(format!("`{key}` is 0: give a time such as 10ms, or leave both out")),
            time => Ok(time),
        };
        let burst = match (&self.burst_on, &self.burst_off) {
            (None, None) => None,
            (Some(on), Some(off)) => Some(Burst { on: time("burst_on", on)?, off: time("burst_off", off)? }),
            (Some(_), None) => return error("`burst_on` without `burst_off`: give both times"),
            (None, Some(_)) => return error("`burst_off` without `burst_on`: give both times"),
        };
        Ok(Some(OpenLoad { rate_iops_end, burst, ..OpenLoad::at(1) }))
    }

    /// Combines with every rate and every spacing of arrivals.
    fn spread_open(&self, all: &mut Vec<Workload>) -> Result<(), StudyError> {
        spread(all, "rate_iops", &self.rate_iops, rate, |w, rate| {
            w.open = w.open.map(|open| OpenLoad { rate_iops: *rate, ..open });
        })?;
        let process = |text: &String| parsed::<RateProcess>(text);
        spread(all, "rate_process", &self.rate_process, process, |w, process| {
            w.open = w.open.map(|open| OpenLoad { rate_process: *process, ..open });
        })
    }
}

fn parsed<T: FromStr<Err: Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|e: T::Err| e.to_string())
}

fn count(number: &u32) -> Result<u32, String> {
    if *number == 0 { Err("0 is too few: the least is 1".to_owned()) } else { Ok(*number) }
}

fn rate(number: &u32) -> Result<u32, String> {
    match *number {
        0 => Err("0 is no load: the least is 1; leave the key out for a closed loop".to_owned()),
        rate if rate > OpenLoad::MAX_RATE_IOPS => Err(format!(
            "{rate} is one I/O every {} ns, faster than the clock can pace: the most is {}; use more numjobs",
            1_000_000_000 / rate,
            OpenLoad::MAX_RATE_IOPS
        )),
        rate => Ok(rate),
    }
}

/// The largest `bs`: what the kernel moves in one system call is a little under 2 GiB.
const MAX_BS: u64 = 1 << 30;

#[allow(clippy::ptr_arg)] // the axis holds Strings
fn block_size(text: &String) -> Result<u32, String> {
    let bytes = parse_bytes(text).map_err(|e| e.to_string())?;
    match bytes {
        1..=MAX_BS => Ok(bytes as u32),
        _ => Err(format!("{} is not between 1 and {}", format_bytes(bytes), format_bytes(MAX_BS))),
    }
}

fn niceness(number: &i32) -> Result<i8, String> {
    let nice = i8::try_from(*number).ok().filter(|nice| Corunner::NICE.contains(nice));
    nice.ok_or_else(|| format!("{number} is not a niceness: write -20 (first served) to 19 (last)"))
}

/// Processors from a list such as `0-3,8`.
fn parse_cpus(key: &str, text: &str) -> Result<Vec<u32>, StudyError> {
    let range = |part: &str| -> Option<std::ops::RangeInclusive<u32>> {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        (first <= last && last < 4096).then_some(first..=last)
    };
    let ranges: Option<Vec<_>> = text.split(',').map(range).collect();
    match ranges {
        Some(ranges) => Ok(ranges.into_iter().flatten().collect()),
        None => error(format!("{key}: `{text}` is not a list of processors; write it as 0-3,8")),
    }
}
