//! The workloads of a matrix.

use crate::axis::spread;
use crate::beside::spread_beside;
use crate::error::{StudyError, error};
use crate::load::{plain_open, spread_corunner, spread_open, spread_sizes, spread_trace};
use crate::matrix::WorkloadMatrix;
use crate::time::duration;
use crate::values::{block_size, count, parse_cpus, parsed};
use iopj_core::workload::{Length, RandomDistribution, Rw, Workload};
use std::time::Duration;

impl WorkloadMatrix {
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
            (None, None) if self.read_iolog.is_some() => Length::WHOLE_TRACE,
            (None, None) => Workload::default().length,
        };
        if length == Length::Runtime(Duration::ZERO) {
            return error("`runtime` is 0: give a time such as 10s");
        }
        let ramp_time =
            self.ramp_time.as_deref().map_or(Ok(Duration::ZERO), |text| duration("ramp_time", text))?;
        let cpus_allowed =
            self.cpus_allowed.as_deref().map_or(Ok(Vec::new()), |text| parse_cpus("cpus_allowed", text))?;
        let open = plain_open(self, length)?;
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
        spread_sizes(self, &mut all)?;
        spread_open(self, &mut all)?;
        spread_corunner(self, &mut all)?;
        spread_trace(self, &mut all)?;
        spread_beside(self, &mut all)?;
        Ok(all)
    }
}
