//! How a comparison of a claim is decided: a test within blocks or Welch's, two one-sided tests, and Holm's
//! correction over the comparisons of the claim at 5 %. Which comparisons a claim is made of is not told
//! here.

pub(super) use super::data::{ClaimCell, Shape, TrialSet};
use super::fixed::FixedPart;
pub(super) use super::metrics::{
    BYTES_PER_JOULE, CPU, ClaimMetric, IOPS, IOS_PER_JOULE, MEAN_LATENCY, P50, P99, SWITCHES, WATTS,
    millions_per_s,
};
use super::parts::{DerivedFigures, MostCells, OwnRule, SomeWorkload};
use super::{Answer, ClaimFigure, Effect, Part};
use crate::analysis::admission::BarredCounts;
use crate::analysis::contrast::{Sample, TestPlan, pairs};
use crate::analysis::stats::{
    LEVEL, Method, equivalent, equivalent_paired, holm, over, ratio_of_means, summarize, t_test,
};
use iopj_core::IoPath;

/// What a cell's figure is claimed to be, compared with another.
#[derive(Clone, Copy)]
pub(super) enum Relation {
    /// Significantly less.
    Less,
    /// Significantly more.
    More,
    /// Equivalent within this share of the other figure.
    Equal(f64),
    /// At most this share below the other figure: one-sided.
    NotLess(f64),
}

/// What a cell is compared with.
pub(super) enum Against<'a> {
    /// Another cell.
    ClaimCell(ClaimCell<'a>),
    /// A share of another cell's figure.
    Share(f64, ClaimCell<'a>),
    /// Another cell's figure and so much more, in the metric's unit.
    Beyond(f64, ClaimCell<'a>),
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
    SomeWorkload(SomeWorkload<'a>),
    /// A part about figures that are made of several cells.
    DerivedFigures(DerivedFigures<'a>),
    /// A part that holds in more than half of the cells that are decided.
    MostCells(MostCells<'a>),
    /// A part that is decided by a rule of its own.
    OwnRule(OwnRule<'a>),
    /// A part about the fixed parts of two paths' costs.
    Fixed(FixedPart<'a>),
    /// A part that is shown and does not count in the answer to the claim.
    Apart(Box<Question<'a>>),
    /// No part, but a cell that would be in one if a trial of it were verified: its trials are counted as
    /// left out.
    LeftOut(ClaimCell<'a>),
}

impl<'a> Question<'a> {
    /// The cells that it is about.
    fn cells(&self) -> Vec<&ClaimCell<'a>> {
        match self {
            Question::Compare(comparison) => comparison.cells().collect(),
            Question::Missing { .. } => Vec::new(),
            Question::SomeWorkload(somewhere) => {
                somewhere.comparisons().flat_map(Comparison::cells).collect()
            }
            Question::DerivedFigures(derived) => derived.cells.iter().collect(),
            Question::MostCells(generally) => generally.cells().collect(),
            Question::OwnRule(stated) => stated.cells.iter().collect(),
            Question::Fixed(fixed) => fixed.cells.iter().collect(),
            Question::Apart(question) => question.cells(),
            Question::LeftOut(cell) => vec![cell],
        }
    }

    fn is_apart(&self) -> bool {
        matches!(self, Question::Apart(_))
    }

    /// It is a part that the claim's answer is made of.
    fn counts(&self) -> bool {
        !matches!(self, Question::Apart(_) | Question::LeftOut(_))
    }

    /// What it lacks to be decided; nothing where the claim can do without.
    fn missing(&self, replicates: usize) -> Vec<String> {
        match self {
            Question::Compare(comparison) => comparison.missing(replicates),
            Question::Missing { need, .. } => vec![need.clone()],
            Question::SomeWorkload(somewhere) => somewhere.missing(replicates),
            Question::DerivedFigures(derived) => derived.missing.clone(),
            Question::Fixed(_) | Question::Apart(_) => Vec::new(),
            Question::MostCells(_) | Question::OwnRule(_) | Question::LeftOut(_) => Vec::new(),
        }
    }

    /// Its tests that Holm's correction is over: the p-value of the answer that the means suggest, and
    /// whether that is that it holds.
    fn tests(&self, replicates: usize, family: usize) -> Vec<Test> {
        match self {
            Question::Compare(comparison) if comparison.missing(replicates).is_empty() => {
                vec![comparison.test(family)]
            }
            Question::SomeWorkload(somewhere) => somewhere.tests(replicates, family),
            Question::MostCells(generally) => generally.tests(family),
            Question::DerivedFigures(derived) if derived.missing.is_empty() => vec![derived.test(family)],
            Question::Fixed(fixed) => vec![fixed.test()],
            Question::Apart(question) => question.tests(replicates, family),
            _ => Vec::new(),
        }
    }
}

/// A figure of a cell, compared with another.
pub(super) struct Comparison<'a> {
    pub(super) metric: ClaimMetric,
    pub(super) cell: ClaimCell<'a>,
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
            Relation::NotLess(_) => "not less than",
        };
        let against = match &self.against {
            Against::ClaimCell(cell) => cell.path.to_string(),
            Against::Share(share, cell) => format!("{share} of {}", cell.path),
            Against::Beyond(more, cell) => {
                format!("{} above {}", join(&more.to_string(), self.metric.unit), cell.path)
            }
            Against::Number(number) => join(&number.to_string(), self.metric.unit),
        };
        let tolerance = match self.relation {
            Relation::Equal(tolerance) | Relation::NotLess(tolerance) if tolerance > 0.0 => {
                format!(" within {:.0} %", 100.0 * tolerance)
            }
            _ => String::new(),
        };
        format!("{}: {} {relation} {against}{tolerance}", self.metric.name, self.cell.path)
    }

    pub(super) fn cells(&self) -> impl Iterator<Item = &ClaimCell<'a>> {
        let other = match &self.against {
            Against::ClaimCell(cell) | Against::Share(_, cell) | Against::Beyond(_, cell) => Some(cell),
            Against::Number(_) => None,
        };
        std::iter::once(&self.cell).chain(other)
    }

    pub(super) fn missing(&self, replicates: usize) -> Vec<String> {
        let mut missing: Vec<String> =
            self.cells().filter_map(|cell| cell.lacks(self.metric, replicates)).collect();
        missing.dedup();
        missing
    }

    pub(super) fn figures(&self) -> Vec<ClaimFigure> {
        let figure = |(cell, published): (&ClaimCell<'_>, Option<f64>)| cell.figure(self.metric, published);
        let mut figures: Vec<ClaimFigure> = self.cells().zip(self.published).map(figure).collect();
        if let Against::ClaimCell(other) | Against::Share(_, other) = &self.against {
            figures.extend(ratio(self.metric, &self.cell, other));
        }
        figures
    }

    /// How large the difference of the two cells is; absent where there are no two, or no test.
    fn effect(&self, family: usize) -> Option<Effect> {
        let (Against::ClaimCell(other) | Against::Share(_, other)) = &self.against else { return None };
        let plan = self.cell.plan(self.metric, family);
        plan.contrast(&self.cell.sample(self.metric), &other.sample(self.metric)).map(|one| Effect::of(&one))
    }

    /// The p-value of the answer that the figures suggest, and whether that is that the part holds; `None`
    /// where there is no test of so few replicates.
    pub(super) fn test(&self, family: usize) -> Test {
        let sample = self.cell.sample(self.metric);
        let by = |other: &ClaimCell<'_>, of: &dyn Fn(f64) -> f64| -> Sample {
            other.sample(self.metric).into_iter().map(|(block, value)| (block, of(value))).collect()
        };
        let plan = self.cell.plan(self.metric, family);
        let (plan, against) = match &self.against {
            Against::ClaimCell(cell) => (plan, by(cell, &|value| value)),
            Against::Share(share, cell) => (plan, by(cell, &|value| share * value)),
            // A sum of percentiles has no sense in logarithms.
            Against::Beyond(more, cell) => {
                (TestPlan { logs: false, ..plan }, by(cell, &|value| value + more))
            }
            // With a sample of no variance Welch's tests are the tests of one sample against a number.
            Against::Number(number) => {
                (TestPlan { method: Method::Welch, logs: false, ..plan }, vec![(0, *number), (1, *number)])
            }
        };
        held(self.relation, plan, &sample, &against)
    }
}

/// The p-value of the answer that the figures suggest, and whether that is that the relation holds.
pub(super) fn held(relation: Relation, plan: TestPlan, a: &Sample, b: &Sample) -> Test {
    let scaled =
        |factor: f64| -> Sample { b.iter().map(|(block, value)| (*block, factor * value)).collect() };
    match relation {
        Relation::Less => plan.test(a, b).map(|(p, sign)| (p, sign < 0.0)),
        Relation::More => plan.test(a, b).map(|(p, sign)| (p, sign > 0.0)),
        // One side alone is asked about.
        Relation::NotLess(tolerance) => {
            plan.test(a, &scaled(1.0 - tolerance)).map(|(p, sign)| (p / 2.0, sign >= 0.0))
        }
        Relation::Equal(tolerance) => {
            let (values, others) = both(plan, a, b);
            let (mean, other) = (summarize(&values)?.mean, summarize(&others)?.mean);
            if (mean - other).abs() <= tolerance * other.abs() {
                let p = match plan.method {
                    Method::Paired => equivalent_paired(&values, &others, tolerance),
                    _ => equivalent(&values, &others, tolerance),
                };
                return Some((over(plan.looks, p?), true));
            }
            // It is shown not to be equal if it lies beyond the nearer limit.
            let limit = if mean > other { 1.0 + tolerance } else { 1.0 - tolerance };
            let limits: Vec<f64> = others.iter().map(|value| value * limit).collect();
            Some((over(plan.looks, t_test(plan.method, &values, &limits)?.p), false))
        }
    }
}

/// The values of both samples; by blocks of those that hold both.
fn both(plan: TestPlan, a: &Sample, b: &Sample) -> (Vec<f64>, Vec<f64>) {
    if plan.method == Method::Paired {
        return pairs(a, b).into_iter().unzip();
    }
    let values = |sample: &Sample| sample.iter().map(|(_, value)| *value).collect();
    (values(a), values(b))
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
fn ratio(metric: ClaimMetric, cell: &ClaimCell<'_>, other: &ClaimCell<'_>) -> Option<ClaimFigure> {
    let (values, others) = (cell.values(metric), other.values(metric));
    let by_plan = || cell.plan(metric, 1).contrast(&cell.sample(metric), &other.sample(metric))?.ratio;
    let ratio = if cell.machine.in_blocks { by_plan() } else { ratio_of_means(&values, &others) };
    let ratio = ratio.filter(|_| metric.is_energy())?;
    let replicates = values.len().min(others.len());
    let (mean, interval) = (Some(ratio.ratio), Some((ratio.low, ratio.high)));
    Some(ClaimFigure { of: "ratio".to_owned(), unit: "times", replicates, mean, interval, published: None })
}

/// A number with its unit.
fn join(number: &str, unit: &str) -> String {
    format!("{number} {unit}").trim_end().to_owned()
}

/// A question with what its trials share, where a claim is put to several such sets of trials.
pub(super) type Labelled<'a> = (String, Question<'a>);

/// The questions of a claim: put to every set of trials that has all that is needed, or to the one that has
/// most.
pub(super) fn questions<'a>(
    data: &[TrialSet<'a>],
    parts: for<'b> fn(&TrialSet<'b>) -> Vec<Question<'b>>,
    replicates: usize,
) -> Vec<Labelled<'a>> {
    let answerable = |question: &Question<'_>| question.missing(replicates).is_empty();
    let sets: Vec<(String, Vec<Question<'a>>)> =
        data.iter().map(|data| (data.label(), parts(data))).collect();
    // What is reported apart does not choose which trials decide.
    let complete = |questions: &[Question<'_>]| questions.iter().filter(|one| one.counts()).all(answerable);
    if !sets.iter().any(|(_, questions)| complete(questions)) {
        let count = |questions: &[Question<'_>]| {
            questions.iter().filter(|one| one.counts() && answerable(one)).count()
        };
        // The first of those that have most.
        let best = sets.into_iter().rev().max_by_key(|(_, questions)| count(questions));
        return best
            .into_iter()
            .flat_map(|(_, questions)| questions)
            .map(|one| (String::new(), one))
            .collect();
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

/// The tests of each question after Holm's correction, and how many tests that is over. What is reported
/// apart is a family of its own.
fn corrected(questions: &[Labelled<'_>], replicates: usize) -> Vec<(Vec<Test>, usize)> {
    let tests = |families: [usize; 2]| -> Vec<(usize, Vec<Test>)> {
        let of = |question: &Question<'_>| {
            let family = usize::from(question.is_apart());
            (family, question.tests(replicates, families[family]))
        };
        questions.iter().map(|(_, question)| of(question)).collect()
    };
    let raw = |all: &[(usize, Vec<Test>)], family: usize| -> Vec<f64> {
        let own = all.iter().filter(|(of, _)| *of == family);
        own.flat_map(|(_, tests)| tests).flatten().map(|(p, _)| *p).collect()
    };
    let counted = tests([1, 1]);
    let families = [0, 1].map(|family| raw(&counted, family).len());
    let tests = tests(families);
    let mut adjusted = [0, 1].map(|family| holm(&raw(&tests, family)).into_iter());
    let correct = |(family, tests): (usize, Vec<Test>)| {
        let tests =
            tests.into_iter().map(|test| test.and_then(|(_, holds)| Some((adjusted[family].next()?, holds))));
        (tests.collect(), families[family])
    };
    tests.into_iter().map(correct).collect()
}

/// Decides the parts of a claim, and counts the trials that were left out of the cells that its answer rests
/// on.
pub(super) fn parts(questions: Vec<Labelled<'_>>, replicates: usize) -> (Vec<Part>, BarredCounts, bool) {
    let tests = corrected(&questions, replicates);
    let (mut left_out, mut marked) = (BarredCounts::default(), false);
    let mut counted: Vec<(String, IoPath, Shape)> = Vec::new();
    let mut parts = Vec::new();
    for ((label, question), (tested, family)) in questions.into_iter().zip(tests) {
        for cell in question.cells().into_iter().filter(|_| !question.is_apart()) {
            let key = (label.clone(), cell.path, cell.shape);
            if !counted.contains(&key) {
                left_out += cell.left_out;
                marked |= cell.verified.iter().any(|one| cell.machine.admission.is_marked(one));
                counted.push(key);
            }
        }
        let Some(mut part) = part(question, tested, (replicates, family)) else { continue };
        if !label.is_empty() {
            part.at = format!("{}, {label}", part.at);
        }
        parts.push(part);
    }
    (parts, left_out, marked)
}

/// The part that a question makes, one of a family of so many tests; `None` if it makes none.
fn part(question: Question<'_>, tested: Vec<Test>, (replicates, family): (usize, usize)) -> Option<Part> {
    match question {
        Question::LeftOut(_) => None,
        Question::Missing { text, at, need } => {
            let (answer, figures) = (Answer::NotMeasured(vec![need]), Vec::new());
            Some(Part { text, at, answer, figures, p: None, effect: None, apart: false })
        }
        Question::SomeWorkload(somewhere) => Some(somewhere.part(&tested, replicates)),
        Question::OwnRule(stated) => Some(stated.part()),
        Question::Fixed(fixed) => Some(fixed.part(tested.into_iter().next().flatten())),
        Question::Apart(question) => {
            Some(Part { apart: true, ..part(*question, tested, (replicates, family))? })
        }
        Question::MostCells(generally) => Some(generally.part(&tested)),
        Question::DerivedFigures(derived) => Some(derived.part(tested.into_iter().next().flatten(), family)),
        Question::Compare(comparison) => {
            let tested = tested.into_iter().next().flatten();
            let missing = comparison.missing(replicates);
            let answer = if missing.is_empty() {
                answer(comparison.relation, tested)
            } else {
                Answer::NotMeasured(missing)
            };
            let (text, at) = (comparison.text(), comparison.cell.shape.to_string());
            let effect = comparison.effect(family);
            let (figures, p) = (comparison.figures(), tested.map(|(p, _)| p));
            Some(Part { text, at, answer, figures, p, effect, apart: false })
        }
    }
}
