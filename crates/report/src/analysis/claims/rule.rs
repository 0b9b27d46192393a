//! How a comparison of a claim is decided: cells of verified trials, Welch's test or two one-sided tests, and Holm's
//! correction over the comparisons of the claim at 5 %. Which comparisons a claim is made of is not told here.

pub(super) use super::metrics::{
    BYTES_PER_JOULE, CPU, IOPS, IOS_PER_JOULE, MEAN_LATENCY, Metric, P50, P99, SWITCHES, WATTS, count, millions_per_s,
};
use super::stated::{Derived, Somewhere, Stated};
use super::{Answer, Figure, LeftOut, Machine, Part};
use crate::analysis::stats::{LEVEL, Method, equivalent, holm, ratio_of_means, summarize, t_test};
use iopj_core::{IoPath, Rw, VerdictKind, Workload, format_bytes};
use iopj_store::{EnergySource, Measurement, Outcome, Trial};
use std::collections::BTreeMap;
use std::fmt;

/// What of a workload the claims vary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) rw: Rw,
    pub(super) bs: u32,
    pub(super) iodepth: u32,
    pub(super) numjobs: u32,
}

impl Shape {
    /// I/Os of 4 KiB, one at a time on one thread.
    pub(super) fn of_4k(rw: Rw) -> Shape {
        Shape { rw, bs: 4096, iodepth: 1, numjobs: 1 }
    }

    fn of(workload: &Workload) -> Shape {
        Shape { rw: workload.rw, bs: workload.bs, iodepth: workload.iodepth, numjobs: workload.numjobs }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shape { rw, bs, iodepth, numjobs } = self;
        write!(f, "{rw} {} iodepth {iodepth} numjobs {numjobs}", format_bytes((*bs).into()))
    }
}

/// What a part that rests on a time lacks where the machine was emulated.
pub const EMULATED: &str = "emulated: times mean nothing";

/// Trials that may be compared: they share generator, settings, and all of the workload but its shape.
pub(super) struct Data<'a> {
    trials: Vec<&'a Trial>,
    /// The machine that they ran on.
    pub(super) machine: Machine,
    /// The meter and scope of all energy.
    source: Option<&'a EnergySource>,
}

/// What [`Data`] shares: the workload without its shape, the settings and the generator.
fn shared(trial: &Trial) -> (Workload, &BTreeMap<String, String>, iopj_store::Generator) {
    let Workload { rw, bs, iodepth, numjobs, .. } = Workload::default();
    (Workload { rw, bs, iodepth, numjobs, ..trial.workload.clone() }, &trial.settings, trial.generator)
}

impl<'a> Data<'a> {
    /// The trials of a store by what they share; one without trials for an empty store.
    pub(super) fn of(trials: &'a [Trial], machine: Machine, source: Option<&'a EnergySource>) -> Vec<Data<'a>> {
        let mut all: Vec<Data<'a>> = Vec::new();
        for trial in trials {
            match all.iter_mut().find(|data| data.trials.first().is_some_and(|first| shared(first) == shared(trial))) {
                Some(data) => data.trials.push(trial),
                None => all.push(Data { trials: vec![trial], machine, source }),
            }
        }
        if all.is_empty() {
            all.push(Data { trials: Vec::new(), machine, source });
        }
        all
    }

    /// The cell of a path under a workload.
    pub(super) fn cell(&self, path: IoPath, shape: Shape) -> Cell<'a> {
        let emulated = self.machine.emulated;
        let (verified, left_out) = (Vec::new(), LeftOut::default());
        let mut cell = Cell { path, shape, emulated, source: self.source, verified, left_out };
        for trial in self.trials.iter().filter(|trial| trial.path == path && Shape::of(&trial.workload) == shape) {
            match &trial.outcome {
                Outcome::Failed(_) => cell.left_out.failed += 1,
                Outcome::Measured(measurement) => match measurement.verdict.kind {
                    VerdictKind::Verified => cell.verified.push(measurement),
                    VerdictKind::Refuted => cell.left_out.refuted += 1,
                    VerdictKind::Unproven => cell.left_out.unproven += 1,
                },
            }
        }
        cell
    }

    /// The cells of a workload whose path fits, in the order of paths: those with a verified trial, then the rest.
    pub(super) fn cells(&self, shape: Shape, fits: impl Fn(&IoPath) -> bool) -> (Vec<Cell<'a>>, Vec<Cell<'a>>) {
        let of_shape = self.trials.iter().filter(|trial| Shape::of(&trial.workload) == shape);
        let mut paths: Vec<IoPath> = of_shape.map(|trial| trial.path).filter(fits).collect();
        paths.sort_unstable();
        paths.dedup();
        paths.into_iter().map(|path| self.cell(path, shape)).partition(|cell| !cell.verified.is_empty())
    }

    /// The workloads of trials of these paths that fit, by depth and threads.
    pub(super) fn shapes(&self, paths: &[IoPath], fits: impl Fn(&Shape) -> bool) -> Vec<Shape> {
        let of_paths = self.trials.iter().filter(|trial| paths.contains(&trial.path));
        let mut shapes: Vec<Shape> = of_paths.map(|trial| Shape::of(&trial.workload)).filter(fits).collect();
        shapes.sort_unstable_by_key(|shape| (shape.iodepth, shape.numjobs, shape.rw, shape.bs));
        shapes.dedup();
        shapes
    }

    /// The first of these paths that has a verified trial, or else one at all; the first of all where none has.
    pub(super) fn preferred(&self, paths: [IoPath; 2]) -> IoPath {
        let is_verified =
            |trial: &Trial| trial.outcome.measurement().is_some_and(|m| m.verdict.kind == VerdictKind::Verified);
        let of = |path: IoPath| self.trials.iter().filter(move |trial| trial.path == path);
        let rank = |path: IoPath| (!of(path).any(|trial| is_verified(trial)), of(path).next().is_none());
        if rank(paths[1]) < rank(paths[0]) { paths[1] } else { paths[0] }
    }

    /// What the machine lacks to be asked about more than one busy core; `None` where it lacks nothing.
    pub(super) fn lacks_cores(&self) -> Option<String> {
        match self.machine.cores {
            0 => Some("a measured trial, which tells the number of cores".to_owned()),
            1 => Some("a machine with at least two cores".to_owned()),
            _ => None,
        }
    }

    /// What these trials share as words: the generator and the settings.
    fn label(&self) -> String {
        let Some(first) = self.trials.first() else { return String::new() };
        let settings = first.settings.iter().map(|(name, value)| format!("{name}={value}"));
        let words: Vec<String> =
            [first.generator.as_str().to_owned(), first.workload.length_text()].into_iter().chain(settings).collect();
        words.join(" ")
    }
}

/// The trials of a path under a workload.
#[derive(Clone)]
pub(super) struct Cell<'a> {
    pub(super) path: IoPath,
    pub(super) shape: Shape,
    emulated: bool,
    source: Option<&'a EnergySource>,
    pub(super) verified: Vec<&'a Measurement>,
    left_out: LeftOut,
}

impl Cell<'_> {
    /// The figures of its verified trials; none where they mean nothing.
    pub(super) fn values(&self, metric: Metric) -> Vec<f64> {
        let meaningful = !(self.emulated && metric.time);
        let value = |measurement: &&Measurement| metric.value(measurement, self.source);
        self.verified.iter().filter(|_| meaningful).filter_map(value).collect()
    }

    /// The mean over its verified trials; absent without any.
    pub(super) fn mean(&self, metric: Metric) -> Option<f64> {
        summarize(&self.values(metric)).map(|summary| summary.mean)
    }

    /// Its figure beside what the paper prints.
    pub(super) fn figure(&self, metric: Metric, published: Option<f64>) -> Figure {
        let values = self.values(metric);
        let summary = summarize(&values);
        Figure {
            of: self.path.to_string(),
            unit: metric.unit,
            replicates: values.len(),
            mean: summary.map(|summary| summary.mean),
            interval: summary.and_then(|summary| summary.interval),
            published,
        }
    }

    /// What this cell lacks of a number of verified replicates with the figure.
    pub(super) fn lacks(&self, metric: Metric, replicates: usize) -> Option<String> {
        let (path, shape, have) = (self.path, self.shape, self.verified.len());
        if self.emulated && metric.time {
            return Some(EMULATED.to_owned());
        }
        if have >= replicates.max(1) {
            let with = self.values(metric).len();
            let lack = format!("{path}, {shape} ({} in {with} of {have} verified trials)", metric.name);
            return (with < replicates.max(1)).then_some(lack);
        }
        let LeftOut { refuted, unproven, failed } = self.left_out;
        let counts = [(have, "verified"), (refuted, "refuted"), (unproven, "unproven"), (failed, "failed")];
        let counts: Vec<String> =
            counts.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}")).collect();
        let counts = if counts.is_empty() { "no trial".to_owned() } else { counts.join(", ") };
        Some(format!("{path}, {shape} ({counts}; {} verified needed)", replicates.max(1)))
    }
}

/// What a cell's figure is claimed to be, held against another.
#[derive(Clone, Copy)]
pub(super) enum Relation {
    /// Significantly less.
    Less,
    /// Significantly more.
    More,
    /// Equivalent within this share of the other figure.
    Equal(f64),
}

/// What a cell is held against.
pub(super) enum Against<'a> {
    /// Another cell.
    Cell(Cell<'a>),
    /// A share of another cell's figure.
    Share(f64, Cell<'a>),
    /// Another cell's figure and so much more, in the metric's unit.
    Beyond(f64, Cell<'a>),
    /// A number that is known exactly.
    Number(f64),
}

/// One part of a claim.
pub(super) enum Question<'a> {
    /// A comparison.
    Compare(Comparison<'a>),
    /// A part that cannot be put to the trials.
    Missing {
        /// What is claimed.
        text: String,
        /// Under which workload.
        at: String,
        /// What is missing.
        need: String,
    },
    /// A part that holds if its comparisons do under one workload at least.
    Somewhere(Somewhere<'a>),
    /// A part about figures that are made of several cells.
    Derived(Derived<'a>),
    /// A part that is decided by a rule of its own.
    Stated(Stated<'a>),
    /// No part, but a cell that would be in one if a trial of it were verified: its trials are counted as left out.
    LeftOut(Cell<'a>),
}

impl<'a> Question<'a> {
    /// The cells that it is about.
    fn cells(&self) -> Vec<&Cell<'a>> {
        match self {
            Question::Compare(comparison) => comparison.cells().collect(),
            Question::Missing { .. } => Vec::new(),
            Question::Somewhere(somewhere) => somewhere.comparisons().flat_map(Comparison::cells).collect(),
            Question::Derived(derived) => derived.cells.iter().collect(),
            Question::Stated(stated) => stated.cells.iter().collect(),
            Question::LeftOut(cell) => vec![cell],
        }
    }

    /// What it lacks to be decided.
    fn missing(&self, replicates: usize) -> Vec<String> {
        match self {
            Question::Compare(comparison) => comparison.missing(replicates),
            Question::Missing { need, .. } => vec![need.clone()],
            Question::Somewhere(somewhere) => somewhere.missing(replicates),
            Question::Derived(derived) => derived.missing.clone(),
            Question::Stated(_) | Question::LeftOut(_) => Vec::new(),
        }
    }

    /// Its tests that Holm's correction is over: the p-value of the answer that the means suggest, and whether that is that
    /// it holds.
    fn tests(&self, replicates: usize) -> Vec<Test> {
        match self {
            Question::Compare(comparison) if comparison.missing(replicates).is_empty() => vec![comparison.test()],
            Question::Somewhere(somewhere) => somewhere.tests(replicates),
            Question::Derived(derived) if derived.missing.is_empty() => vec![derived.test()],
            _ => Vec::new(),
        }
    }
}

/// A figure of a cell, held against another.
pub(super) struct Comparison<'a> {
    pub(super) metric: Metric,
    pub(super) cell: Cell<'a>,
    pub(super) relation: Relation,
    pub(super) against: Against<'a>,
    /// What the paper prints for the two.
    pub(super) published: [Option<f64>; 2],
}

impl<'a> Comparison<'a> {
    fn text(&self) -> String {
        let relation = match self.relation {
            Relation::Less => "less than",
            Relation::More => "more than",
            Relation::Equal(_) => "equal to",
        };
        let against = match &self.against {
            Against::Cell(cell) => cell.path.to_string(),
            Against::Share(share, cell) => format!("{share} of {}", cell.path),
            Against::Beyond(more, cell) => format!("{} above {}", join(&more.to_string(), self.metric.unit), cell.path),
            Against::Number(number) => join(&number.to_string(), self.metric.unit),
        };
        let tolerance = match self.relation {
            Relation::Equal(tolerance) => format!(" within {:.0} %", 100.0 * tolerance),
            _ => String::new(),
        };
        format!("{}: {} {relation} {against}{tolerance}", self.metric.name, self.cell.path)
    }

    pub(super) fn cells(&self) -> impl Iterator<Item = &Cell<'a>> {
        let other = match &self.against {
            Against::Cell(cell) | Against::Share(_, cell) | Against::Beyond(_, cell) => Some(cell),
            Against::Number(_) => None,
        };
        std::iter::once(&self.cell).chain(other)
    }

    pub(super) fn missing(&self, replicates: usize) -> Vec<String> {
        let mut missing: Vec<String> = self.cells().filter_map(|cell| cell.lacks(self.metric, replicates)).collect();
        missing.dedup();
        missing
    }

    pub(super) fn figures(&self) -> Vec<Figure> {
        let figure = |(cell, published): (&Cell<'_>, Option<f64>)| cell.figure(self.metric, published);
        let mut figures: Vec<Figure> = self.cells().zip(self.published).map(figure).collect();
        if let Against::Cell(other) | Against::Share(_, other) = &self.against {
            figures.extend(ratio(self.metric, &self.cell, other));
        }
        figures
    }

    /// The p-value of the answer that the means suggest, and whether that is that the part holds; `None` where
    /// there is no test of so few replicates.
    pub(super) fn test(&self) -> Test {
        let values = self.cell.values(self.metric);
        let against = match &self.against {
            Against::Cell(cell) => cell.values(self.metric),
            Against::Share(share, cell) => cell.values(self.metric).iter().map(|value| share * value).collect(),
            Against::Beyond(more, cell) => cell.values(self.metric).iter().map(|value| value + more).collect(),
            // With a sample of no variance Welch's tests are the tests of one sample against a number.
            Against::Number(number) => vec![*number; 2],
        };
        let (mean, other) = (summarize(&values)?.mean, summarize(&against)?.mean);
        let tolerance = match self.relation {
            Relation::Less => return Some((t_test(Method::Welch, &values, &against)?.p, mean < other)),
            Relation::More => return Some((t_test(Method::Welch, &values, &against)?.p, mean > other)),
            Relation::Equal(tolerance) => tolerance,
        };
        if (mean - other).abs() <= tolerance * other.abs() {
            return Some((equivalent(&values, &against, tolerance)?, true));
        }
        // It is shown not to be equal if it lies beyond the nearer limit.
        let limit = if mean > other { 1.0 + tolerance } else { 1.0 - tolerance };
        let limits: Vec<f64> = against.iter().map(|value| value * limit).collect();
        Some((t_test(Method::Welch, &values, &limits)?.p, false))
    }
}

/// The answer to a part of this relation from its test, whose p-value is after Holm's correction.
pub(super) fn answer(relation: Relation, tested: Test) -> Answer {
    match tested {
        Some((p, true)) if p < LEVEL => Answer::Holds,
        Some((p, false)) if p < LEVEL => Answer::DoesNotHold,
        Some((p, _)) => {
            let what = match relation {
                Relation::Equal(_) => "neither within the tolerance nor outside it with certainty",
                _ => "no significant difference",
            };
            Answer::Undecided(format!("{what} (p = {p:.2} after Holm's correction)"))
        }
        None => Answer::Undecided("a test needs two replicates of each cell".to_owned()),
    }
}

/// A p-value and whether it speaks for the part; `None` where there is no test of so few replicates.
pub(super) type Test = Option<(f64, bool)>;

/// The ratio of two cells' energy figures over their replicates, in which the meter's gain divides out.
pub(super) fn ratio(metric: Metric, cell: &Cell<'_>, other: &Cell<'_>) -> Option<Figure> {
    let (values, others) = (cell.values(metric), other.values(metric));
    let ratio = ratio_of_means(&values, &others).filter(|_| metric.is_energy())?;
    let replicates = values.len().min(others.len());
    let (mean, interval) = (Some(ratio.ratio), Some((ratio.low, ratio.high)));
    Some(Figure { of: "ratio".to_owned(), unit: "times", replicates, mean, interval, published: None })
}

/// A number with its unit.
fn join(number: &str, unit: &str) -> String {
    format!("{number} {unit}").trim_end().to_owned()
}

/// A question with what its trials share, where a claim is put to several such sets of trials.
pub(super) type Labelled<'a> = (String, Question<'a>);

/// The questions of a claim: put to every set of trials that has all that is needed, or to the one that has most.
pub(super) fn questions<'a>(
    data: &[Data<'a>],
    parts: for<'b> fn(&Data<'b>) -> Vec<Question<'b>>,
    replicates: usize,
) -> Vec<Labelled<'a>> {
    let answerable = |question: &Question<'_>| question.missing(replicates).is_empty();
    let sets: Vec<(String, Vec<Question<'a>>)> = data.iter().map(|data| (data.label(), parts(data))).collect();
    let complete = |questions: &[Question<'_>]| questions.iter().all(answerable);
    if !sets.iter().any(|(_, questions)| complete(questions)) {
        let count = |questions: &[Question<'_>]| questions.iter().filter(|question| answerable(question)).count();
        // The first of those that have most.
        let best = sets.into_iter().rev().max_by_key(|(_, questions)| count(questions));
        return best.into_iter().flat_map(|(_, questions)| questions).map(|one| (String::new(), one)).collect();
    }
    let mut complete: Vec<_> = sets.into_iter().filter(|(_, questions)| complete(questions)).collect();
    if let [(label, _)] = &mut complete[..] {
        label.clear();
    }
    complete
        .into_iter()
        .flat_map(|(label, questions)| questions.into_iter().map(move |one| (label.clone(), one)))
        .collect()
}

/// Decides the parts of a claim, and counts the trials of their cells that were left out.
pub(super) fn parts(questions: Vec<Labelled<'_>>, replicates: usize) -> (Vec<Part>, LeftOut) {
    let tests: Vec<Vec<Test>> = questions.iter().map(|(_, question)| question.tests(replicates)).collect();
    let raw: Vec<f64> = tests.iter().flatten().flatten().map(|(p, _)| *p).collect();
    let mut adjusted = holm(&raw).into_iter();
    let mut left_out = LeftOut::default();
    let mut counted: Vec<(String, IoPath, Shape)> = Vec::new();
    let mut parts = Vec::new();
    for ((label, question), tests) in questions.into_iter().zip(tests) {
        let mut corrected = |test: Test| test.and_then(|(_, holds)| Some((adjusted.next()?, holds)));
        let tested: Vec<Test> = tests.into_iter().map(&mut corrected).collect();
        for cell in question.cells() {
            let key = (label.clone(), cell.path, cell.shape);
            if !counted.contains(&key) {
                left_out += cell.left_out;
                counted.push(key);
            }
        }
        let Some(mut part) = part(question, tested, replicates) else { continue };
        if !label.is_empty() {
            part.at = format!("{}, {label}", part.at);
        }
        parts.push(part);
    }
    (parts, left_out)
}

/// The part that a question makes; `None` if it makes none.
fn part(question: Question<'_>, tested: Vec<Test>, replicates: usize) -> Option<Part> {
    match question {
        Question::LeftOut(_) => None,
        Question::Missing { text, at, need } => {
            Some(Part { text, at, answer: Answer::NotMeasured(vec![need]), figures: Vec::new(), p: None })
        }
        Question::Somewhere(somewhere) => Some(somewhere.part(&tested, replicates)),
        Question::Stated(stated) => Some(stated.part()),
        Question::Derived(derived) => Some(derived.part(tested.into_iter().next().flatten())),
        Question::Compare(comparison) => {
            let tested = tested.into_iter().next().flatten();
            let missing = comparison.missing(replicates);
            let answer =
                if missing.is_empty() { answer(comparison.relation, tested) } else { Answer::NotMeasured(missing) };
            let (text, at) = (comparison.text(), comparison.cell.shape.to_string());
            Some(Part { text, at, answer, figures: comparison.figures(), p: tested.map(|(p, _)| p) })
        }
    }
}
