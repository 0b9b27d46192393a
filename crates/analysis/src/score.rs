//! Whether a path that chooses its way at run time comes up to the best static path: a test of
//! non-inferiority in each cell, and what choosing brings over all cells.
//!
//! `docs/statistics.md`, "Paths that choose", gives the rules with their reasons. `cell` compares the paths
//! of one cell, `used` says what of them counts, and `together` compares a path over all cells.

mod cell;
mod question;
mod together;
mod used;

pub use question::{Answer, Kind, Row, ScoreQuestion, ScoredCell};
use question::{Role, word};
pub use together::{More, Together};
pub use used::Used;

use super::axis::Axis;
use super::contrast::in_blocks;
use super::figure::FigureName;
use super::grouping::{TrialSetup, grouped, paths, setup};
use super::least::{self, beyond_a_bound};
use super::stats::holm_over_tested;
use cell::Cell;
use iopj_core::Scope;
use iopj_record::{EnergySource, StudyRecord, Trial};
use serde::Serialize;

/// Why a store cannot be scored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScoreError {
    /// There is no trial.
    #[error("the store holds no trial: `iopj run --resume STORE` runs the missing ones")]
    Empty,
    /// A program did its own I/O.
    #[error("a program did the I/O, so no path was chosen: score the store of a study with the path `auto`")]
    Program,
    /// The processor was emulated.
    #[error("times and joules mean nothing under {0}, so no path can be scored: measure on a real machine")]
    Emulated(String),
    /// The trials were imported.
    #[error("imported trials have no blocks, and the test is within blocks: run the study with `iopj run`")]
    NoBlocks,
    /// No path chooses.
    #[error("no path of this store chooses its way: add `auto` to the paths of the study")]
    NoneChooses,
}

/// The evaluation of a store.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Score {
    /// The share of the best static path's figure that is to be reached.
    pub margin: f64,
    /// The confidence of each limit.
    pub level: f64,
    /// True if the study states both.
    pub frozen: bool,
    /// The number of looks that decided how many blocks there are: p-values are multiplied by it.
    pub looks: u32,
    /// Planned trials that the store lacks.
    pub absent: u64,
    /// Why no trial of the store competes; absent if one does.
    pub nobody: Option<String>,
    /// The meter and scope of all joules: of the whole machine, or absent.
    pub energy: Option<EnergySource>,
    /// Each cell that has a path that chooses, once for each metric that one chooses for.
    pub cells: Vec<ScoredCell>,
    /// What each path that chooses brings over all of its cells.
    pub together: Vec<Together>,
}

/// How many more blocks would decide, four times out of five, if ratio and spread are those observed. Every
/// second one tests. The fewest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(untagged)]
pub enum MoreBlocks {
    /// About this many.
    About(u32),
    /// More than [`MoreBlocks::MOST`].
    Many,
}

impl MoreBlocks {
    /// The most that are named.
    pub const MOST: u32 = 2 * least::MOST_MORE;
}

impl Score {
    /// The answers of the paths that choose, in all cells.
    pub fn answers(&self) -> impl Iterator<Item = &Answer> {
        self.cells.iter().flat_map(|cell| &cell.rows).filter_map(|row| row.answer.as_ref())
    }

    /// True if a path that chooses is shown not to reach the margin in some cell.
    pub fn fails(&self) -> bool {
        self.answers().any(|answer| *answer == Answer::Fails)
    }

    /// Why nothing was tested; `None` if something was.
    pub fn nothing(&self) -> Option<&str> {
        let mut reasons = self.answers().map(|answer| match answer {
            Answer::NotTested(why) => Some(why.as_str()),
            _ => None,
        });
        let first = reasons.next().flatten();
        first.filter(|_| reasons.all(|reason| reason.is_some()))
    }
}

/// Scores the paths of a store that choose their way.
///
/// # Errors
/// What is missing to score any.
pub fn score(
    study: &StudyRecord,
    trials: &[Trial],
    question: &ScoreQuestion<'_>,
) -> Result<Score, ScoreError> {
    admits(study, trials)?;
    let question = ScoreQuestion { admission: question.admission.of(study), ..*question };
    let looks = study.looks();
    let is_whole = |source: &EnergySource| matches!(source.scope, Scope::System | Scope::Psys);
    let energy = EnergySource::measured(&[trials]).filter(is_whole);
    let cells = cells(trials, &question, energy.as_ref());
    let mut scored: Vec<ScoredCell> = cells.iter().flat_map(|cell| cell.scored(looks)).collect();
    if scored.is_empty() {
        return Err(ScoreError::NoneChooses);
    }
    correct(&mut scored, question.level);
    look_ahead(&mut scored, question.level, looks);
    let together = together::together(&cells, &question, looks);
    let ScoreQuestion { margin, level, frozen, .. } = question;
    let absent = study.planned_trials.saturating_sub(trials.len() as u64);
    let nobody = question.admission.why_none_competes(trials);
    Ok(Score { margin, level, frozen, looks, absent, nobody, energy, cells: scored, together })
}

/// Refuses a store of which nothing can be said.
///
/// # Errors
/// The reason.
pub fn admits(study: &StudyRecord, trials: &[Trial]) -> Result<(), ScoreError> {
    if trials.is_empty() {
        return Err(ScoreError::Empty);
    }
    if FigureName::of(trials).is_some() {
        return Err(ScoreError::Program);
    }
    if let Some(emulator) = &study.emulated {
        return Err(ScoreError::Emulated(emulator.clone()));
    }
    if in_blocks(study) { Ok(()) } else { Err(ScoreError::NoBlocks) }
}

/// The cells of a store that have a path that chooses, in the order of the axes.
fn cells<'a>(
    trials: &'a [Trial],
    question: &'a ScoreQuestion<'a>,
    energy: Option<&'a EnergySource>,
) -> Vec<Cell<'a>> {
    let of = |trials: Vec<&'a Trial>| {
        let mut paths = paths(&trials);
        paths.sort_unstable();
        Cell { setup: TrialSetup::of(trials[0]), paths, trials, question, energy }
    };
    let cells = grouped(trials.iter().map(|trial| (setup(trial), trial)));
    let cells = cells.into_iter().map(|(_, trials)| of(trials));
    let mut cells: Vec<Cell<'a>> = cells.filter(|cell| cell.chooses().next().is_some()).collect();
    cells.sort_by_key(|cell| Axis::ALL.map(|axis| axis.value(&cell.setup.workload)));
    cells
}

/// Holm's correction over all cells: of reaching the margin, and, as a family of its own, of not reaching it.
fn correct(cells: &mut [ScoredCell], level: f64) {
    let mut rows: Vec<&mut Row> = cells.iter_mut().flat_map(|cell| &mut cell.rows).collect();
    rows.retain(|row| row.p.is_some());
    let corrected = |side: usize| {
        holm_over_tested(&rows.iter().map(|row| row.p.map(|p| p[side])).collect::<Vec<Option<f64>>>())
    };
    let both = [corrected(0), corrected(1)];
    for (at, row) in rows.iter_mut().enumerate() {
        row.p = both[0][at].zip(both[1][at]).map(|(holds, fails)| [holds, fails]);
        row.answer = row.p.map(|p| Answer::of(p, level));
    }
}

/// How many more blocks would decide what is undecided. Holm's rule gives each of these the level divided by
/// the number of answers that are not of its kind yet.
fn look_ahead(cells: &mut [ScoredCell], level: f64, looks: u32) {
    let count = |answer: &Answer| {
        let rows = cells.iter().flat_map(|cell| &cell.rows);
        rows.filter(|row| row.p.is_some() && row.answer.as_ref() != Some(answer)).count()
    };
    let [to_hold, to_fail] = [Answer::Holds, Answer::Fails].map(|answer| count(&answer) as f64);
    for row in cells.iter_mut().flat_map(|cell| &mut cell.rows) {
        let Some(above) = row.above.filter(|_| row.answer == Some(Answer::Undecided)) else { continue };
        let tests = f64::from(looks) * if above > 0.0 { to_hold } else { to_fail };
        row.more = Some(match beyond_a_bound(row.blocks, (1.0 - level) / tests, above.abs()) {
            least::More::Replicates(blocks) => MoreBlocks::About(2 * blocks),
            least::More::Many | least::More::Untested => MoreBlocks::Many,
        });
    }
}
