//! The questions of a claim, put to the trials that have the data, and Holm's correction over their tests.
//! `comparison` decides one comparison.

use super::comparison::{Comparison, Test, answer};
use super::data::{ClaimCell, Shape, TrialSet};
use super::fixed::FixedPart;
use super::parts::{DerivedFigures, MostCells, SomeWorkload};
use super::{Answer, Part};
use iopj_analysis::admission::BarredCounts;
use iopj_analysis::stats::holm;
use std::collections::HashSet;

/// One part of a claim.
pub(super) enum Question<'a> {
    Compare(Comparison<'a>),
    /// A part that cannot be put to the trials.
    Missing {
        /// What is claimed.
        text: String,
        /// The workload.
        at: String,
        need: String,
    },
    /// A part that holds if its comparisons do under at least one workload.
    SomeWorkload(SomeWorkload<'a>),
    /// A part about figures derived from several cells.
    DerivedFigures(DerivedFigures<'a>),
    /// A part that holds in more than half of the cells that are decided.
    MostCells(MostCells<'a>),
    /// A part decided by a rule of its own, and its cells.
    Decided(Part, Vec<ClaimCell<'a>>),
    /// A part about the fixed parts of two paths' costs.
    Fixed(FixedPart<'a>),
    /// A part that is shown but does not count in the answer to the claim.
    Apart(Box<Question<'a>>),
    /// Not a part, but a cell that would be in one if a trial of it were verified: its trials are counted as
    /// left out.
    LeftOut(ClaimCell<'a>),
}

impl<'a> Question<'a> {
    /// A part that cannot be put to the trials, because they lack `need`.
    pub(super) fn missing_for(text: impl Into<String>, at: impl ToString, need: String) -> Question<'a> {
        Question::Missing { text: text.into(), at: at.to_string(), need }
    }

    /// Its cells.
    fn cells(&self) -> Vec<&ClaimCell<'a>> {
        match self {
            Question::Compare(comparison) => comparison.cells().collect(),
            Question::Missing { .. } => Vec::new(),
            Question::SomeWorkload(somewhere) => {
                somewhere.comparisons().flat_map(Comparison::cells).collect()
            }
            Question::DerivedFigures(derived) => derived.cells.iter().collect(),
            Question::MostCells(generally) => generally.cells().collect(),
            Question::Decided(_, cells) => cells.iter().collect(),
            Question::Fixed(fixed) => fixed.cells.iter().collect(),
            Question::Apart(question) => question.cells(),
            Question::LeftOut(cell) => vec![cell],
        }
    }

    fn is_apart(&self) -> bool {
        matches!(self, Question::Apart(_))
    }

    /// True if it is a part that counts in the claim's answer.
    fn counts(&self) -> bool {
        !matches!(self, Question::Apart(_) | Question::LeftOut(_))
    }

    /// What it lacks to be decided; nothing if the claim does not need it.
    fn missing(&self, replicates: usize) -> Vec<String> {
        match self {
            Question::Compare(comparison) => comparison.missing(replicates),
            Question::Missing { need, .. } => vec![need.clone()],
            Question::SomeWorkload(somewhere) => somewhere.missing(replicates),
            Question::DerivedFigures(derived) => derived.missing.clone(),
            Question::Fixed(_) | Question::Apart(_) => Vec::new(),
            Question::MostCells(_) | Question::Decided(..) | Question::LeftOut(_) => Vec::new(),
        }
    }

    /// Its tests that Holm's correction covers: the p-value of the answer that the means suggest, and whether
    /// that answer is that it holds.
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

/// A question, with what its trials share if a claim is put to several such sets of trials.
pub(super) type Labelled<'a> = (String, Question<'a>);

/// The questions of a claim: put to every set of trials that has everything needed, or to the one that has
/// most.
pub(super) fn questions<'a>(
    data: &[TrialSet<'a>],
    parts: for<'b> fn(&TrialSet<'b>) -> Vec<Question<'b>>,
    replicates: usize,
) -> Vec<Labelled<'a>> {
    let answerable = |question: &Question<'_>| question.missing(replicates).is_empty();
    let sets: Vec<(String, Vec<Question<'a>>)> =
        data.iter().map(|data| (data.label(), parts(data))).collect();
    // Parts that are reported separately do not affect which trials decide.
    let complete = |questions: &[Question<'_>]| questions.iter().filter(|one| one.counts()).all(answerable);
    if !sets.iter().any(|(_, questions)| complete(questions)) {
        let count = |questions: &[Question<'_>]| {
            questions.iter().filter(|one| one.counts() && answerable(one)).count()
        };
        // The first of the sets that have most.
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

/// The tests of each question after Holm's correction, and the number of tests that it covers. Parts that are
/// reported separately are a family of their own.
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

/// Decides the parts of a claim, and counts the trials that were left out of the cells behind its answer.
pub(super) fn parts(questions: Vec<Labelled<'_>>, replicates: usize) -> (Vec<Part>, BarredCounts, bool) {
    let tests = corrected(&questions, replicates);
    let (mut left_out, mut marked) = (BarredCounts::default(), false);
    let mut counted = HashSet::<(String, String, Shape)>::new();
    let mut parts = Vec::new();
    for ((label, question), (tested, family)) in questions.into_iter().zip(tests) {
        for cell in question.cells().into_iter().filter(|_| !question.is_apart()) {
            let key = (label.clone(), cell.full_name.clone(), cell.shape);
            if counted.insert(key) {
                left_out += cell.left_out;
                marked |= cell.verified.iter().any(|one| cell.machine.admission.is_marked(one));
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

/// The part that a question makes, in a family of this many tests; `None` if it makes none.
fn part(question: Question<'_>, tested: Vec<Test>, (replicates, family): (usize, usize)) -> Option<Part> {
    match question {
        Question::LeftOut(_) => None,
        Question::Missing { text, at, need } => {
            Some(Part::new(text, at, Answer::NotMeasured(vec![need]), Vec::new(), None))
        }
        Question::SomeWorkload(somewhere) => Some(somewhere.part(&tested, replicates)),
        Question::Decided(part, _) => Some(part),
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
            let (text, at) = (comparison.text(), comparison.cell.place());
            let effect = comparison.effect(family);
            let p = tested.map(|(p, _)| p);
            Some(Part { effect, ..Part::new(text, at, answer, comparison.figures(), p) })
        }
    }
}
