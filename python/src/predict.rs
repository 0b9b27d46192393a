//! Predictions for Python: the cost model that a store calibrates, and what it says of other workloads.

use crate::error::{Error, wrong};
use iopj_analysis::Admission;
use iopj_analysis::asked::{Wrong, rate};
use iopj_core::workload::Rw;
use iopj_core::{IoPath, parse_bytes, parse_duration};
use iopj_model::answers::{Group, RANKED, Wanted, closed, json, simulated};
use iopj_model::{Case, DataSheet, Load, Model, observations};
use iopj_record::{StudyRecord, Trial};
use pyo3::PyErr;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::Path;

/// What is asked for; what is absent is as the model was calibrated.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Asked {
    path: Vec<String>,
    rw: Vec<String>,
    rwmixread: Option<u8>,
    bs: Vec<String>,
    iodepth: Vec<u32>,
    numjobs: Vec<u32>,
    cores: Option<u32>,
    rate: Option<String>,
    rate_process: String,
    burst_on: Option<String>,
    burst_off: Option<String>,
    drive: Option<String>,
}

/// Why nothing is predicted.
pub(crate) enum Refused {
    /// A value makes no sense.
    Value(Wrong),
    /// The store cannot calibrate a model.
    Store(String),
}

impl Refused {
    pub(crate) fn into_error(self, store: &Path) -> PyErr {
        match self {
            Refused::Value(why) => wrong(why),
            Refused::Store(why) => Error::new_err(format!("{}: {why}", store.display())),
        }
    }
}

/// The value of this option makes no sense, for a reason.
fn no<E: ToString>(option: &'static str) -> impl Fn(E) -> Refused {
    move |why| Refused::Value(Wrong { option, why: why.to_string() })
}

/// The predictions as `iopj predict --json` prints them.
pub(crate) fn predicted(
    study: &StudyRecord,
    trials: &[Trial],
    admission: Admission,
    asked: &Asked,
) -> Result<String, Refused> {
    if let Some(emulator) = &study.emulated {
        return Err(Refused::Store(format!(
            "times mean nothing under {emulator}, so nothing can be predicted from it: open a store of a \
             real machine"
        )));
    }
    let (wanted, load) = (asked.wanted()?, asked.load()?);
    let admission = admission.of(study);
    let (observed, _) = observations(trials, |trial| admission.admit(trial).is_ok());
    let model = Model::calibrate(&observed, study.provenance.clone()).map_err(|error| {
        let nobody = admission.why_none_competes(trials).map(|why| format!(" ({why})"));
        Refused::Store(format!("{error}{}", nobody.unwrap_or_default()))
    })?;
    let model = match &asked.drive {
        None => model,
        Some(sheet) => model.on(&sheet.parse::<DataSheet>().map_err(no("drive"))?),
    };
    let of = |(title, cases): (String, Vec<Case>)| match load {
        None => closed(&model, title, &cases),
        Some(load) => Group {
            grows: true,
            ..simulated(&model, title, &cases, &RANKED[1..], |case| model.open(case, load))
        },
    };
    let groups: Vec<Group> = wanted.cases(&model).into_iter().map(of).collect();
    Ok(json::groups(&model, &groups).to_string())
}

impl Asked {
    fn wanted(&self) -> Result<Wanted, Refused> {
        let rws = self.rw.iter().map(|rw| rw.parse::<Rw>().map_err(no("rw")));
        let sizes = self.bs.iter().map(|text| {
            let bytes = parse_bytes(text).map_err(no("bs"))?;
            let whole = u32::try_from(bytes).ok().filter(|bytes| *bytes > 0);
            whole.ok_or_else(|| no("bs")(format!("no I/O has {text}: give a size such as 4k")))
        });
        for (option, counts) in [("iodepth", &self.iodepth), ("numjobs", &self.numjobs)] {
            if counts.contains(&0) {
                return Err(no(option)("0 is none: give 1 or more"));
            }
        }
        Ok(Wanted {
            paths: self.paths()?,
            rws: rws.collect::<Result<_, _>>()?,
            rwmixread: self.rwmixread,
            sizes: sizes.collect::<Result<_, _>>()?,
            depths: self.iodepth.clone(),
            jobs: self.numjobs.clone(),
            cores: self.cores,
        })
    }

    fn paths(&self) -> Result<BTreeSet<IoPath>, Refused> {
        let mut all = BTreeSet::new();
        for pattern in &self.path {
            all.extend(iopj_study::matching(pattern).map_err(no("path"))?);
        }
        match all.iter().find(|path| path.auto().is_some()) {
            Some(path) => Err(no("path")(format!("{path} takes other paths: name those"))),
            None => Ok(all),
        }
    }

    /// The open load, if one was asked for.
    fn load(&self) -> Result<Option<Load>, Refused> {
        let Some(text) = &self.rate else { return Ok(None) };
        let iops = rate(text).map_err(Refused::Value)? as f64;
        let poisson = match self.rate_process.as_str() {
            "linear" => false,
            "poisson" => true,
            other => return Err(no("rate_process")(format!("there is no `{other}`: use linear or poisson"))),
        };
        let time = |option, text: &String| {
            let time = parse_duration(text).map_err(no(option))?;
            if time.is_zero() { Err(no(option)("0 is no time: give one such as 10ms")) } else { Ok(time) }
        };
        let bursts = match (&self.burst_on, &self.burst_off) {
            (Some(on), Some(off)) => {
                let (on, off) = (time("burst_on", on)?, time("burst_off", off)?);
                Some((on.as_nanos() as f64, off.as_nanos() as f64))
            }
            (None, None) => None,
            _ => return Err(no("burst_on")("give burst_off, too")),
        };
        Ok(Some(Load { iops, poisson, bursts }))
    }
}
