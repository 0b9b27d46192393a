//! Values that shells complete for an option that takes any text; what reads the text judges it.

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::error::Error;
use clap::{Arg, Command};
use iopj_analysis::advise::Objective;
use iopj_analysis::metric::Metric;
use iopj_analysis::winner::Axis;
use iopj_core::{CorunnerKind, IoPath, RateProcess, Rw, Workload, WriteSync};
use iopj_record::Generator;
use std::ffi::OsStr;

/// A parser of any text with the values to complete, which are made only when they are asked for.
#[derive(Clone)]
pub(super) struct Hinted(fn() -> Vec<&'static str>);

impl TypedValueParser for Hinted {
    type Value = String;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<String, Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.0)().into_iter().map(PossibleValue::new)))
    }
}

pub(super) const METRICS: Hinted = Hinted(|| Metric::ALL.map(Metric::as_str).to_vec());
pub(super) const OBJECTIVES: Hinted = Hinted(|| Objective::ALL.map(Objective::as_str).to_vec());
pub(super) const AXES: Hinted = Hinted(|| Axis::ALL.map(Axis::as_str).to_vec());
pub(super) const TESTS: Hinted = Hinted(|| vec!["blocks", "welch", "student"]);
pub(super) const RW: Hinted = Hinted(|| Rw::WORDS.to_vec());
pub(super) const SYNC: Hinted = Hinted(|| WriteSync::WORDS.to_vec());
pub(super) const RATE_PROCESS: Hinted = Hinted(|| RateProcess::WORDS.to_vec());
pub(super) const CORUNNER: Hinted = Hinted(|| CorunnerKind::WORDS.to_vec());
pub(super) const GENERATORS: Hinted =
    Hinted(|| [Generator::Native, Generator::Fio, Generator::Program].map(Generator::as_str).to_vec());
pub(super) const METERS: Hinted = Hinted(|| vec!["none", "local"]);
pub(super) const PATHS: Hinted = Hinted(paths);
pub(super) const RUN_PATHS: Hinted = Hinted(|| [vec!["available"], paths()].concat());
pub(super) const KEYS: Hinted = Hinted(|| {
    let keys = Workload::default().keys();
    ["path", "generator"].into_iter().chain(keys.into_iter().map(|(key, _)| key)).collect()
});

/// Texts that are never freed: completions are made once in a process.
fn paths() -> Vec<&'static str> {
    IoPath::all().iter().map(|path| &*path.to_string().leak()).collect()
}
