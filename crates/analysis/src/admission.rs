//! Which trials compete: the only place that decides which are ranked, compared and used for claims, and why
//! the others are not.

use iopj_core::{Disturbance, Spinner, VerdictKind};
use iopj_record::{Measurement, Outcome, StudyRecord, Trial};
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::ops::AddAssign;

/// Share of short I/Os above which a trial is incomplete: verdicts allow the same share of bytes to be
/// missing.
const SHORT_SHARE: f64 = 0.001;

/// Marks a path of which an unproven or disturbed trial competes.
pub const MARK: &str = "†";

/// What the mark means.
pub const LEGEND: &str = "† unproven: nothing shows which path these trials took; or disturbed: something \
                          else used the machine; they compete because of --with-unproven";

/// Which trials compete: verified, undisturbed ones and, if the user says so, all others that are not
/// refuted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Admission {
    /// True if unproven and disturbed trials compete.
    pub with_unproven: bool,
    /// True if their processor was emulated: times mean nothing, so other processes' CPU time disturbs
    /// nothing.
    pub emulated: bool,
}

/// Why a trial does not compete. A new reason is a variant here and a line in [`Admission::admit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Barred {
    /// It took another path than the requested one.
    Refuted,
    /// The evidence does not show which path it took.
    Unproven,
    /// Something else used the machine, or the machine changed meanwhile.
    Disturbed,
    /// It measured nothing.
    Failed,
    /// No I/O moved all its bytes, or more than 0.1 % were short.
    Incomplete,
}

impl Barred {
    /// All of them, in the order in which they are listed.
    pub const ALL: [Barred; 5] =
        [Barred::Refuted, Barred::Unproven, Barred::Disturbed, Barred::Failed, Barred::Incomplete];

    /// The reason as a word.
    pub fn as_str(self) -> &'static str {
        match self {
            Barred::Refuted => "refuted",
            Barred::Unproven => "unproven",
            Barred::Disturbed => "disturbed",
            Barred::Failed => "failed",
            Barred::Incomplete => "incomplete",
        }
    }
}

impl Admission {
    /// The same for the trials of a study.
    pub fn of(self, study: &StudyRecord) -> Admission {
        Admission { emulated: study.emulated.is_some(), ..self }
    }

    /// True if something disturbed a trial's measurement.
    pub fn is_disturbed(self, measurement: &Measurement) -> bool {
        self.disturbances(measurement).next().is_some()
    }

    /// What disturbed it.
    pub fn disturbances(self, measurement: &Measurement) -> impl Iterator<Item = &Disturbance> {
        let of_time =
            |one: &Disturbance| matches!(one, Disturbance::Others { .. } | Disturbance::Stolen { .. });
        measurement.conditions.disturbances.iter().filter(move |one| !(self.emulated && of_time(one)))
    }

    /// The same in one line; absent if nothing did.
    pub fn disturbed(self, measurement: &Measurement) -> Option<String> {
        let all: Vec<String> = self.disturbances(measurement).map(ToString::to_string).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// The thread of a trial that spins for I/O and lost its core, if one did. Such a trial competes, and is
    /// marked as starved.
    pub fn starved(self, measurement: &Measurement) -> Option<&Spinner> {
        measurement.conditions.starved().filter(|_| !self.emulated)
    }

    /// True if a trial that competes is not verified, or was disturbed.
    pub fn is_marked(self, measurement: &Measurement) -> bool {
        !measurement.verdict.kind.stands() || self.is_disturbed(measurement)
    }

    /// The measurement of a trial that competes.
    ///
    /// # Errors
    /// Why it does not.
    pub fn admit(self, trial: &Trial) -> Result<&Measurement, Barred> {
        let Outcome::Measured(measurement) = &trial.outcome else { return Err(Barred::Failed) };
        match measurement.verdict.kind {
            VerdictKind::Refuted => Err(Barred::Refuted),
            _ if is_incomplete(measurement) => Err(Barred::Incomplete),
            VerdictKind::Unproven if !self.with_unproven => Err(Barred::Unproven),
            _ if self.is_disturbed(measurement) && !self.with_unproven => Err(Barred::Disturbed),
            VerdictKind::Unproven | VerdictKind::Verified | VerdictKind::Seen => Ok(measurement),
        }
    }

    /// Why no trial competes, in a line; `None` if one does or none was measured.
    pub fn why_none_competes(self, trials: &[Trial]) -> Option<String> {
        if trials.iter().any(|trial| self.admit(trial).is_ok()) {
            return None;
        }
        let measured: Vec<&Measurement> =
            trials.iter().filter_map(|trial| trial.outcome.measurement()).collect();
        let unproven = measured.iter().filter(|one| one.verdict.kind == VerdictKind::Unproven);
        let reasons: Vec<&str> = unproven
            .map(|one| one.verdict.reasons.first().map_or("no reason given", String::as_str))
            .collect();
        let disturbed = measured.iter().filter(|one| self.is_disturbed(one)).count();
        if let Some(one) = measured.iter().find(|one| one.verdict.kind.stands() && self.is_disturbed(one)) {
            return Some(format!(
                "nothing is ranked: every {}trial was disturbed. {disturbed} of {} trials were \
                 disturbed: {}; stop what else is running, or rank such trials, marked, with --with-unproven",
                if one.verdict.kind == VerdictKind::Seen { "" } else { "verified " },
                trials.len(),
                self.disturbed(one).unwrap_or_default()
            ));
        }
        let Some(reason) = most_frequent(&reasons) else {
            let mut barred = BarredCounts::default();
            trials.iter().filter_map(|trial| self.admit(trial).err()).for_each(|why| barred.add(why));
            return (!measured.is_empty())
                .then(|| format!("nothing is ranked: no trial is verified ({})", barred.text()));
        };
        let remedy = if self.with_unproven { "" } else { "; --with-unproven ranks such trials, marked" };
        let count = format!("{} of {} trials are unproven", reasons.len(), trials.len());
        Some(format!("nothing is ranked: no trial is verified. {count}: {reason}{remedy}"))
    }
}

/// The first of equal ones.
fn most_frequent<'r>(reasons: &[&'r str]) -> Option<&'r str> {
    let count = |reason: &str| reasons.iter().filter(|other| **other == reason).count();
    reasons.iter().rev().copied().max_by_key(|reason| count(reason))
}

/// True if a trial did not do all of its I/O.
fn is_incomplete(measurement: &Measurement) -> bool {
    let short = measurement.short_ios as f64;
    if measurement.program.is_some() {
        return measurement.window_ns == 0; // it may find all of its data in memory
    }
    measurement.ios == 0
        || measurement.window_ns == 0
        || short > SHORT_SHARE * (measurement.ios as f64 + short)
}

/// How many trials do not compete, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BarredCounts([usize; Barred::ALL.len()]);

impl BarredCounts {
    /// Counts one more.
    pub fn add(&mut self, why: Barred) {
        self.0[why as usize] += 1;
    }

    /// The count for this reason.
    pub fn of(&self, why: Barred) -> usize {
        self.0[why as usize]
    }

    /// All of them.
    pub fn total(&self) -> usize {
        self.0.iter().sum()
    }

    /// The reasons that occur, each with its count: `3 refuted`.
    pub fn words(&self) -> Vec<String> {
        let words = Barred::ALL.into_iter().filter(|why| self.of(*why) > 0);
        words.map(|why| format!("{} {}", self.of(why), why.as_str())).collect()
    }

    /// The same as a list.
    pub fn text(&self) -> String {
        self.words().join(", ")
    }
}

impl AddAssign for BarredCounts {
    fn add_assign(&mut self, other: BarredCounts) {
        self.0.iter_mut().zip(other.0).for_each(|(own, other)| *own += other);
    }
}

impl Serialize for BarredCounts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(Barred::ALL.len()))?;
        for why in Barred::ALL {
            map.serialize_entry(why.as_str(), &self.of(why))?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopj_core::evidence::ThreadRole;
    use iopj_core::{PowerChange, PowerSetting, Rw};
    use iopj_record::testing::cells::{Measured, cell, judge, measurement_of as measurement, workload};

    const LAX: Admission = Admission { with_unproven: true, emulated: false };

    fn trials(count: usize) -> Vec<Trial> {
        let measured = Measured { iops: 1000.0, ..Measured::default() };
        cell("libaio/syscall/interrupt", &workload(Rw::Randread, 1), measured, &vec![0.0; count])
    }

    #[test]
    fn only_verified_whole_trials_compete_and_unproven_ones_where_they_are_let() {
        let mut all = trials(5);
        judge(&mut all[1..2], VerdictKind::Unproven);
        judge(&mut all[2..3], VerdictKind::Refuted);
        all[3].outcome = Outcome::Failed("EIO".to_owned());
        measurement(&mut all[4]).ios = 0;
        let why =
            |admission: Admission| all.iter().map(|trial| admission.admit(trial).err()).collect::<Vec<_>>();
        let rest = [Some(Barred::Refuted), Some(Barred::Failed), Some(Barred::Incomplete)];
        assert_eq!(why(Admission::default())[..2], [None, Some(Barred::Unproven)]);
        assert_eq!(why(LAX)[..2], [None, None]);
        for admission in [Admission::default(), LAX] {
            assert_eq!(why(admission)[2..], rest);
        }
        // An unproven trial that moved no byte is incomplete either way.
        judge(&mut all[4..], VerdictKind::Unproven);
        assert_eq!(LAX.admit(&all[4]), Err(Barred::Incomplete));
    }

    #[test]
    fn a_disturbed_trial_keeps_its_verdict_and_does_not_compete() {
        let mut all = trials(3);
        let disturb = |trial: &mut Trial| {
            measurement(trial).conditions.disturbances =
                vec![Disturbance::Others { cores: 0.9, allowed: 0.05 }];
        };
        all[..2].iter_mut().for_each(disturb);
        judge(&mut all[1..2], VerdictKind::Refuted);
        let (strict, lax) = (Admission::default(), LAX);
        let why =
            |admission: Admission| all.iter().map(|trial| admission.admit(trial).err()).collect::<Vec<_>>();
        assert_eq!(why(strict), [Some(Barred::Disturbed), Some(Barred::Refuted), None]);
        assert_eq!(why(lax), [None, Some(Barred::Refuted), None]);
        assert!(lax.is_marked(lax.admit(&all[0]).unwrap()) && !lax.is_marked(lax.admit(&all[2]).unwrap()));
        assert_eq!(strict.why_none_competes(&all), None);
        let line = "nothing is ranked: every verified trial was disturbed. 1 of 1 trials were \
                    disturbed: other processes used 0.90 processors; 0.05 are allowed; stop what else \
                    is running, or rank such trials, marked, with --with-unproven";
        assert_eq!(strict.why_none_competes(&all[..1]).as_deref(), Some(line));
        assert_eq!(lax.why_none_competes(&all[..1]), None);
    }

    #[test]
    fn under_emulation_other_processes_are_not_named_as_a_disturbance() {
        let others = Disturbance::Others { cores: 0.9, allowed: 0.05 };
        let throttled = Disturbance::Throttled { times: 2 };
        let mut trial = trials(1).remove(0);
        let emulated = Admission { emulated: true, ..Admission::default() };
        let mut said = |all: &[&Disturbance]| {
            let one = measurement(&mut trial);
            one.conditions.disturbances = all.iter().map(|one| (*one).clone()).collect();
            [Admission::default(), emulated].map(|admission| admission.disturbed(one))
        };
        assert_eq!(said(&[&others]), [Some(others.to_string()), None]);
        assert_eq!(
            said(&[&others, &throttled]),
            [Some(format!("{others}; {throttled}")), Some(throttled.to_string())]
        );
    }

    #[test]
    fn a_starved_trial_competes_and_says_so_except_under_emulation() {
        let mut all = trials(2);
        let spinner = Spinner {
            role: ThreadRole::Sqpoll,
            ran: 0.61,
            waited: 0.38,
            cores: 2,
            busy_threads: 1,
            others: None,
            starved: true,
        };
        measurement(&mut all[0]).conditions.spinner = Some(spinner);
        measurement(&mut all[1]).conditions.spinner = Some(Spinner { starved: false, ..spinner });
        let starved = |admission: Admission| {
            all.iter().map(|trial| admission.starved(admission.admit(trial).unwrap())).collect::<Vec<_>>()
        };
        assert_eq!(starved(Admission::default()), [Some(&spinner), None]);
        assert_eq!(starved(Admission { emulated: true, ..Admission::default() }), [None, None]);
    }

    #[test]
    fn under_emulation_others_time_disturbs_nothing_and_a_change_does() {
        let mut all = trials(4);
        let change = PowerChange {
            what: PowerSetting::Smt,
            device: None,
            before: "on".to_owned(),
            after: "off".to_owned(),
        };
        let disturbances = [
            Disturbance::Others { cores: 0.9, allowed: 0.05 },
            Disturbance::Stolen { share: 0.1 },
            Disturbance::Changed(change),
        ];
        for (trial, one) in all.iter_mut().zip(disturbances) {
            measurement(trial).conditions.disturbances = vec![one];
        }
        let emulated = Admission { emulated: true, ..Admission::default() };
        let why =
            |admission: Admission| all.iter().map(|trial| admission.admit(trial).err()).collect::<Vec<_>>();
        let bar = Some(Barred::Disturbed);
        assert_eq!(
            (why(Admission::default()), why(emulated)),
            (vec![bar, bar, bar, None], vec![None, None, bar, None])
        );
        assert!(!emulated.is_marked(emulated.admit(&all[0]).unwrap()));
        assert_eq!(emulated.why_none_competes(&all[..2]), None);
    }

    #[test]
    fn one_line_says_why_nobody_competes_from_the_verdicts_own_reasons() {
        let mut all = trials(4);
        judge(&mut all, VerdictKind::Unproven);
        for (trial, reason) in
            all.iter_mut().zip(["zram0 has no vectors", "rare", "zram0 has no vectors", ""])
        {
            measurement(trial).verdict.reasons =
                if reason.is_empty() { Vec::new() } else { vec![reason.to_owned(), "second".to_owned()] };
        }
        let line = "nothing is ranked: no trial is verified. 4 of 4 trials are unproven: zram0 has no \
                    vectors; --with-unproven ranks such trials, marked";
        assert_eq!(Admission::default().why_none_competes(&all).as_deref(), Some(line));
        assert_eq!(LAX.why_none_competes(&all), None);
        judge(&mut all, VerdictKind::Refuted);
        let line = "nothing is ranked: no trial is verified (4 refuted)";
        assert_eq!(Admission::default().why_none_competes(&all).as_deref(), Some(line));
        judge(&mut all[..1], VerdictKind::Verified);
        assert_eq!(
            (Admission::default().why_none_competes(&all), Admission::default().why_none_competes(&[])),
            (None, None)
        );
    }

    #[test]
    fn a_tally_tells_what_occurs_and_its_json_all() {
        let mut tally = BarredCounts::default();
        [Barred::Incomplete, Barred::Refuted, Barred::Refuted].into_iter().for_each(|why| tally.add(why));
        assert_eq!((tally.text().as_str(), tally.total()), ("2 refuted, 1 incomplete", 3));
        let json = serde_json::to_value(tally).unwrap();
        assert_eq!(
            json,
            serde_json::json!({ "refuted": 2, "unproven": 0, "disturbed": 0, "failed": 0, "incomplete": 1 })
        );
    }
}
