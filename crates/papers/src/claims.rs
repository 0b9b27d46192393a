//! The papers' claims, decided from trials: what each claim says, what it needs, and its answer part by part.
//! `question` puts a claim's questions to the trials of `data`, `comparison` decides one comparison, and a
//! module per paper says which questions each of its claims is made of.

mod comparison;
mod data;
mod fabric;
mod fixed;
mod iface23;
mod metrics;
mod parts;
mod poll22;
mod question;

use super::published::{Paper, PrintedFigure};
pub use data::EMULATED;
use data::TrialSet;
use iopj_analysis::admission::{Admission, BarredCounts};
use iopj_analysis::contrast::{Contrast, TOLERANCE, TestPlan, in_blocks};
use iopj_analysis::energy::lacks;
use iopj_analysis::grouping::unique;
use iopj_analysis::hosts::Processors;
use iopj_analysis::stats::{Method, Ratio, summarize};
use iopj_core::Scope;
use iopj_record::{EnergySource, StudyRecord, Trial};
use question::Question;
use serde::Serialize;

/// A claim of a paper with its answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Claim {
    /// Short id, such as `poll22-1`.
    pub id: &'static str,
    /// The paper.
    pub paper: Paper,
    /// The claim in words.
    pub text: &'static str,
    /// The data that it needs.
    pub needs: &'static [&'static str],
    /// The answer: it holds if every part does, and does not hold if one part does not. Parts that are
    /// reported separately do not count.
    pub answer: Answer,
    /// The parts; none for a claim about energy if none was measured.
    pub parts: Vec<Part>,
    /// What the paper prints beside the figures of the parts.
    pub published: &'static [PrintedFigure],
    /// Trials of the cells compared that do not compete.
    pub left_out: BarredCounts,
    /// True if an unproven or disturbed trial is among those that decide.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub marked: bool,
    /// The meter and scope of the energy figures; absent if the claim is not about energy, or none was
    /// measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy: Option<EnergySource>,
    /// For a claim about energy without any: what the meters have no joules of, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub energy_lacks: Vec<String>,
    /// True if the energy is of less than the whole machine: the parts are a proxy that decides nothing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub proxy: bool,
    /// The number of looks that decided how many replicates there are: every p-value is multiplied by it.
    /// Omitted if it is one.
    #[serde(skip_serializing_if = "is_one")]
    pub looks: u32,
    /// What a reader must know about the answer.
    pub note: Option<&'static str>,
    /// What to run to decide the rest; absent if everything is decided.
    pub run: Option<String>,
}

fn is_one(looks: &u32) -> bool {
    *looks == 1
}

/// The answer to a claim or to a part of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "is", content = "why", rename_all = "snake_case")]
pub enum Answer {
    /// The data show it.
    Holds,
    /// The data show the opposite.
    DoesNotHold,
    /// The data show neither; why.
    Undecided(String),
    /// Data are missing; which.
    NotMeasured(Vec<String>),
}

impl Answer {
    /// The answer in words, without the reason.
    pub fn as_str(&self) -> &'static str {
        match self {
            Answer::Holds => "holds",
            Answer::DoesNotHold => "does not hold",
            Answer::Undecided(_) => "undecided",
            Answer::NotMeasured(_) => "not measured",
        }
    }
}

/// A part of a claim: one comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Part {
    /// What is compared with what.
    pub text: String,
    /// The workload; also the generator and settings if the claim is put to several.
    pub at: String,
    /// Its answer.
    pub answer: Answer,
    /// The figures that decide it, the compared one first.
    pub figures: Vec<ClaimFigure>,
    /// The p-value behind the answer: after Holm's correction, except for parts by the papers' rule, whose
    /// text says so; absent if nothing was tested.
    pub p: Option<f64>,
    /// How large the difference is, if the part is one comparison.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
    /// True if it is reported separately: shown, but not part of the claim's answer.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub apart: bool,
}

impl Part {
    fn new(text: String, at: String, answer: Answer, figures: Vec<ClaimFigure>, p: Option<f64>) -> Part {
        Part { text, at, answer, figures, p, effect: None, apart: false }
    }
}

impl Claim {
    /// How many of its parts are decided, if some are and the claim is open: the decided parts hold. A proxy
    /// decides none.
    pub fn decided_in_part(&self) -> Option<PartsDecided> {
        let open = matches!(self.answer, Answer::Undecided(_) | Answer::NotMeasured(_));
        let counting = || self.parts.iter().filter(|part| !part.apart);
        let decided = counting().filter(|part| part.answer == Answer::Holds).count();
        (open && !self.proxy && decided > 0).then(|| PartsDecided { decided, all: counting().count() })
    }

    /// True if the store says nothing about it.
    pub fn is_silent(&self) -> bool {
        let silent = |answer: &Answer| matches!(answer, Answer::NotMeasured(_));
        silent(&self.answer) && self.parts.iter().all(|part| silent(&part.answer))
    }
}

/// How many parts of a claim are decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PartsDecided {
    /// Those that the data decide.
    pub decided: usize,
    /// All that count.
    pub all: usize,
}

/// How large a difference is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Effect {
    /// The first figure over the second with its 95 % interval; absent if that has no bounds.
    pub ratio: Option<Ratio>,
    /// The least difference, as a share of the second, that would have been seen four times out of five.
    pub least: Option<f64>,
}

impl Effect {
    fn of(contrast: &Contrast) -> Effect {
        Effect { ratio: contrast.ratio, least: contrast.least() }
    }
}

/// A measured figure beside the published one.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ClaimFigure {
    /// The path, or the name of a derived figure.
    pub of: String,
    /// Unit, empty for a plain number.
    pub unit: &'static str,
    /// Replicates.
    pub replicates: usize,
    /// Mean over the replicates; absent if none was measured.
    pub mean: Option<f64>,
    /// 95 % interval of the mean; absent for fewer than two replicates.
    pub interval: Option<(f64, f64)>,
    /// What the paper prints.
    pub published: Option<f64>,
}

impl ClaimFigure {
    /// The mean of these values.
    fn of(of: String, unit: &'static str, values: &[f64], published: Option<f64>) -> ClaimFigure {
        let summary = summarize(values);
        let mean = summary.map(|summary| summary.mean);
        let interval = summary.and_then(|summary| summary.interval);
        ClaimFigure { of, unit, replicates: values.len(), mean, interval, published }
    }
}

/// The definition of a claim, which is decided by comparing cells.
struct Definition {
    id: &'static str,
    text: &'static str,
    needs: &'static [&'static str],
    note: Option<&'static str>,
    /// The sets of a store's trials to which it is put.
    sets: Sets,
    /// The parts, for trials that share everything except the path and the axes of the claim.
    parts: for<'a> fn(&TrialSet<'a>) -> Vec<Question<'a>>,
    /// The least number of replicates that the claim needs.
    replicates: usize,
    /// The command that measures the data it needs, without the number of replicates; or what would decide
    /// it.
    run: fn(cores: u32) -> String,
    /// For a claim about energy: the command that measures it with a meter of the whole machine.
    run_with_meter: Option<&'static str>,
    /// What the paper prints beside the figures of the parts.
    published: &'static [PrintedFigure],
}

/// The sets of a store's trials that a claim compares, each by itself.
type Sets = for<'a> fn(&'a [Trial], ClaimContext, Option<&'a EnergySource>) -> Vec<TrialSet<'a>>;

/// What most claims have in common.
const BASE: Definition = Definition {
    id: "",
    text: "",
    needs: &[],
    note: None,
    sets: |trials, machine, source| TrialSet::of(trials, machine, source),
    parts: |_| Vec::new(),
    replicates: 1,
    run: |_| String::new(),
    run_with_meter: None,
    published: &[],
};

/// The context in which claims are decided: the machine, how the trials ran, and which of them compete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClaimContext {
    /// Online cores; 0 if no trial records them.
    pub cores: u32,
    /// True if its processor was emulated: no part that depends on a time is measured.
    pub emulated: bool,
    /// True if the replicates are blocks: differences within them are tested.
    pub in_blocks: bool,
    /// Which trials compete.
    pub admission: Admission,
    /// The number of looks that decided how many replicates there are.
    pub looks: u32,
    /// True if its study is over fabrics and the two hosts' processors are not the same, or not known to be.
    pub unlike_hosts: bool,
}

impl ClaimContext {
    /// The machine of a store.
    pub fn of(study: &StudyRecord, trials: &[Trial], admission: Admission) -> ClaimContext {
        let measured = trials.iter().filter_map(|trial| trial.outcome.measurement());
        let cores = measured.map(|measurement| measurement.evidence.cpu.cores).max();
        ClaimContext {
            cores: cores.unwrap_or(0),
            emulated: study.emulated.is_some(),
            in_blocks: in_blocks(study),
            admission: admission.of(study),
            looks: study.looks(),
            unlike_hosts: Processors::of(study).is_some_and(|processors| !processors.are_alike),
        }
    }

    /// How figures, or their logarithms, are compared in a family of this many comparisons.
    fn plan(&self, logs: bool, family: usize) -> TestPlan {
        let method = if self.in_blocks { Method::Paired } else { Method::Welch };
        // A slowdown may be negative.
        TestPlan { method, logs, family, looks: self.looks.max(1), tolerance: TOLERANCE, signed: true }
    }
}

/// Decides every claim from the trials of a store, measured on this machine. Only trials that compete decide;
/// the others are counted.
pub fn decide(trials: &[Trial], machine: &ClaimContext) -> Vec<Claim> {
    let source = EnergySource::measured(&[trials]).filter(|_| !machine.emulated);
    let lacks = if machine.emulated { Vec::new() } else { lacks(trials) };
    let lacks: Vec<String> = lacks.iter().map(ToString::to_string).collect();
    let papers = [
        (Paper::Poll22, poll22::DEFINITIONS),
        (Paper::Iface23, iface23::DEFINITIONS),
        (Paper::Fabric, fabric::DEFINITIONS),
    ];
    let decided = |(paper, definitions): (Paper, &'static [Definition])| {
        let all = definitions.iter();
        all.map(|one| decide_one(paper, one, trials, (machine, source.as_ref(), &lacks)))
            .collect::<Vec<Claim>>()
    };
    papers.into_iter().flat_map(decided).collect()
}

fn decide_one(
    paper: Paper,
    definition: &'static Definition,
    trials: &[Trial],
    (machine, source, lacks): (&ClaimContext, Option<&EnergySource>, &[String]),
) -> Claim {
    let Definition { id, text, needs, note, run_with_meter, published, .. } = *definition;
    let energy = source.filter(|_| run_with_meter.is_some()).cloned();
    let has_none = energy.is_none() && run_with_meter.is_some();
    let is_compared = energy.is_some() || run_with_meter.is_none();
    let mut claim = Claim {
        id,
        paper,
        text,
        needs,
        answer: not_measured(&[]),
        parts: Vec::new(),
        published,
        left_out: BarredCounts::default(),
        marked: false,
        proxy: energy.as_ref().is_some_and(|source| source.scope != Scope::System),
        energy,
        energy_lacks: if has_none { lacks.to_vec() } else { Vec::new() },
        looks: machine.looks.max(1),
        note: note.filter(|_| is_compared),
        run: None,
    };
    if is_compared {
        let data = (definition.sets)(trials, *machine, source);
        compare(&mut claim, &data, definition, machine.cores);
    }
    if let Some(run) = run_with_meter.filter(|_| claim.energy.is_none() || claim.proxy) {
        claim.answer = not_measured(&[SYSTEM_METER]);
        claim.run = Some(run.to_owned());
    }
    claim
}

fn not_measured(needs: &[&str]) -> Answer {
    Answer::NotMeasured(needs.iter().map(|need| (*need).to_owned()).collect())
}

/// What claims about energy need: they are about the whole machine.
const SYSTEM_METER: &str = "a system-scope meter";

fn compare(claim: &mut Claim, data: &[TrialSet<'_>], definition: &Definition, cores: u32) {
    let Definition { parts, replicates, run, .. } = *definition;
    let decided = question::parts(question::questions(data, parts, replicates), replicates);
    (claim.parts, claim.left_out, claim.marked) = decided;
    let counting: Vec<&Part> = claim.parts.iter().filter(|part| !part.apart).collect();
    claim.answer = overall(&counting);
    claim.run = rest(&counting).map(|options| run(cores) + &options);
}

/// The answer to a claim from the answers to its parts that count. A missing part outweighs an undecided one.
fn overall(parts: &[&Part]) -> Answer {
    debug_assert!(!parts.is_empty(), "a claim without parts would hold");
    if parts.iter().any(|part| part.answer == Answer::DoesNotHold) {
        return Answer::DoesNotHold;
    }
    let needs = |part: &&Part| match &part.answer {
        Answer::NotMeasured(needs) => needs.clone(),
        _ => Vec::new(),
    };
    let missing = unique(parts.iter().flat_map(needs));
    let undecided = parts.iter().filter(|part| matches!(part.answer, Answer::Undecided(_))).count();
    match (missing.is_empty(), undecided) {
        (false, _) => Answer::NotMeasured(missing),
        (true, 0) => Answer::Holds,
        (true, _) => Answer::Undecided(format!("{undecided} of {} parts are undecided", parts.len())),
    }
}

/// The least number of replicates to repeat a study with because of undecided parts: the `poll22` study's.
const REPEAT_REPLICATES: usize = 10;

/// The study's options that would decide the undecided ones of these parts; `None` if all are decided.
fn rest(parts: &[&Part]) -> Option<String> {
    let missing = parts.iter().any(|part| matches!(part.answer, Answer::NotMeasured(_)));
    let undecided = parts.iter().filter(|part| matches!(part.answer, Answer::Undecided(_)));
    let most = undecided.flat_map(|part| &part.figures).map(|figure| figure.replicates).max();
    let elsewhere = |part: &&Part| part.answer == Answer::NotMeasured(vec![EMULATED.to_owned()]);
    let elsewhere = if parts.iter().any(elsewhere) { ", on a machine that is not emulated" } else { "" };
    match most {
        // Twice the replicates show differences that are 1.4 times smaller.
        Some(most) => Some(format!(" --replicates {}{elsewhere}", (2 * most).max(REPEAT_REPLICATES))),
        None => missing.then(|| elsewhere.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_note_of_a_claim_holds_two_spaces_together() {
        let papers = [poll22::DEFINITIONS, iface23::DEFINITIONS, fabric::DEFINITIONS];
        let notes = || papers.into_iter().flatten().filter_map(|definition| definition.note);
        assert!(
            notes().count() > 8 && notes().all(|note| !note.contains("  ")),
            "{:?}",
            notes().collect::<Vec<_>>()
        );
    }
}
