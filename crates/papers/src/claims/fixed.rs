//! Parts of claims about the fixed parts of costs on two paths: what an I/O that neither spins nor sleeps
//! costs.

use super::comparison::{Relation, Test, answer};
use super::data::ClaimCell;
use super::{Answer, ClaimFigure, Part};
use iopj_analysis::explain::{FixedPartLack, FixedParts, FixedPartsTest, fixed_parts, is_counted};
use iopj_analysis::stats::over;
use iopj_core::{FunctionCost, IoPath};
use iopj_record::Measurement;

/// The fixed part of one path, claimed to be less or more than that of another.
pub(super) struct FixedPart<'a> {
    /// What is claimed.
    text: String,
    relation: Relation,
    /// The cells of the two.
    pub(super) cells: [ClaimCell<'a>; 2],
    /// Both parts with their test.
    found: Result<FixedPartsTest, FixedPartLack>,
}

/// The cells of paths under one workload.
pub(super) struct Fits<'a> {
    cells: Vec<ClaimCell<'a>>,
}

impl<'a> Fits<'a> {
    /// The path as an error if one of them has no trial with exact counts.
    pub(super) fn of(cells: Vec<ClaimCell<'a>>) -> Result<Fits<'a>, IoPath> {
        match cells.iter().find(|cell| !cell.verified.iter().any(|one| is_counted(one))) {
            Some(cell) => Err(cell.path),
            None => Ok(Fits { cells }),
        }
    }

    /// The fits of the loads and stores of the functions that `belongs` picks.
    pub(super) fn fit(&self, belongs: impl Fn(&FunctionCost) -> bool) -> FixedParts {
        let paths: Vec<(IoPath, &[&Measurement])> =
            self.cells.iter().map(|cell| (cell.path, &cell.verified[..])).collect();
        fixed_parts(&paths, belongs)
    }

    /// The part about two of the paths; `what` names what was fitted.
    pub(super) fn part(
        &self,
        (what, fit): (&str, &FixedParts),
        relation: Relation,
        places: [usize; 2],
    ) -> FixedPart<'a> {
        let cells = places.map(|at| self.cells[at].clone());
        let word = if matches!(relation, Relation::Less) { "less" } else { "more" };
        let text = format!("{what}: {} {word} than {}", cells[0].path, cells[1].path);
        FixedPart { text, relation, found: fit.apart(places), cells }
    }
}

impl FixedPart<'_> {
    /// The test, as of a comparison.
    pub(super) fn test(&self) -> Test {
        let apart = self.found.as_ref().ok()?;
        let p = over(self.cells[0].machine.looks.max(1), apart.test.p);
        Some((p, apart.test.t != 0.0 && (apart.test.t < 0.0) == matches!(self.relation, Relation::Less)))
    }

    /// `tested` is its test after Holm's correction.
    pub(super) fn part(self, tested: Test) -> Part {
        let (answer, figures) = match self.found {
            Err(lack) => (Answer::NotMeasured(vec![lack.to_string()]), Vec::new()),
            Ok(apart) => {
                type Found = (f64, (f64, f64), usize);
                let figure = |(cell, (mean, interval, replicates)): (&ClaimCell<'_>, Found)| {
                    let (of, mean, interval) = (cell.path.to_string(), Some(mean), Some(interval));
                    ClaimFigure { of, replicates, mean, interval, ..ClaimFigure::default() }
                };
                (answer(self.relation, tested), self.cells.iter().zip(apart.parts).map(figure).collect())
            }
        };
        let (at, p) = (self.cells[0].shape.to_string(), tested.map(|(p, _)| p));
        Part::new(self.text, at, answer, figures, p)
    }
}
