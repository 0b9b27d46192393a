//! A row of any table: a trial of a store.

use super::contents::Contents;
use iopj_analysis::Admission;
use iopj_record::{Measurement, Trial};

/// A trial of a store.
#[derive(Clone, Copy)]
pub(super) struct Row<'a> {
    pub(super) contents: &'a Contents,
    pub(super) trial: &'a Trial,
}

impl<'a> Row<'a> {
    pub(super) fn measured(&self) -> Option<&'a Measurement> {
        self.trial.outcome.measurement()
    }

    /// The measurement, where its times mean something.
    pub(super) fn timed(&self) -> Option<&'a Measurement> {
        self.contents.timed(self.trial)
    }

    pub(super) fn store(&self) -> String {
        self.contents.id.clone()
    }

    pub(super) fn setup(&self) -> String {
        super::setup::setup(self.trial)
    }

    pub(super) fn verdict(&self) -> Option<String> {
        self.measured().map(|one| one.verdict.kind.as_str().to_owned())
    }

    pub(super) fn in_force(&self) -> bool {
        self.contents.study.is_in_force(self.trial.replicate)
    }

    /// What is compared: a trial that counts and that the report's tables admit, of a path that somebody
    /// could take.
    pub(super) fn competes(&self) -> bool {
        let admission = Admission::default().of(&self.contents.study);
        self.in_force() && !self.trial.path.is_baseline() && admission.admit(self.trial).is_ok()
    }
}

pub(super) fn rows(contents: &Contents) -> Vec<Row<'_>> {
    contents.trials.iter().map(|trial| Row { contents, trial }).collect()
}

pub(super) fn measured(contents: &Contents) -> Vec<Row<'_>> {
    rows(contents).into_iter().filter(|row| row.measured().is_some()).collect()
}
