//! fio's options for an open load.

use super::FioError;
use iopj_core::{OpenLoad, Workload};

/// `rate_iops` and `rate_process`; none for a closed loop.
///
/// # Errors
/// What fio has no option for.
pub(super) fn options(workload: &Workload) -> Result<Vec<(&'static str, String)>, FioError> {
    let Some(open) = &workload.open else { return Ok(Vec::new()) };
    check(open)?;
    let rate = workload.fio_rate_iops(open.rate_iops.into());
    Ok(vec![("rate_iops", rate), ("rate_process", open.rate_process.to_string())])
}

/// Whether fio has options for the load.
///
/// # Errors
/// [`FioError::Load`]: what it lacks.
pub fn check(open: &OpenLoad) -> Result<(), FioError> {
    if open.rate_iops_end.is_some() {
        return Err(FioError::Load("a rate that moves (rate_iops_end)"));
    }
    if open.burst.is_some() {
        return Err(FioError::Load("bursts (burst_on)"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopj_core::{RateProcess, Rw};

    fn of(rw: Rw, open: OpenLoad) -> Result<Vec<(&'static str, String)>, String> {
        let workload = Workload { rw, rwmixread: 70, open: Some(open), ..Workload::default() };
        options(&workload).map_err(|error| error.to_string())
    }

    #[test]
    fn a_mixed_workload_shares_its_rate_out() {
        let poisson = OpenLoad { rate_process: RateProcess::Poisson, ..OpenLoad::at(1001) };
        let expected = |rate: &str, process: &str| {
            Ok(vec![("rate_iops", rate.to_owned()), ("rate_process", process.to_owned())])
        };
        assert_eq!(of(Rw::Randread, poisson), expected("1001", "poisson"));
        assert_eq!(of(Rw::Randrw, poisson), expected("701,300", "poisson"));
        assert_eq!(of(Rw::Rw, OpenLoad::at(1)), expected("1,1", "linear"));
        assert_eq!(options(&Workload::default()).unwrap(), []);
    }

    #[test]
    fn what_fio_lacks_is_refused_by_its_key() {
        let moving = OpenLoad { rate_iops_end: Some(2), ..OpenLoad::at(1) };
        assert!(of(Rw::Read, moving).unwrap_err().contains("rate_iops_end"));
    }
}
