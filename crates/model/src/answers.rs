//! Answers to questions about workloads: the predictions of every path, which is the best and how sure that
//! is, for those who print them or pass them on.

mod cases;
pub mod json;

pub use cases::Wanted;

use crate::case::{Case, Quantity};
use crate::model::Model;
use crate::open::{OpenError, OpenPrediction};
use crate::predict::{CannotPredict, Prediction};
use crate::score::Scored;
use crate::sensitivity::Turn;

/// What paths are ranked by.
pub const RANKED: [Quantity; 4] =
    [Quantity::Iops, Quantity::LatencyP99, Quantity::CpuPerIo, Quantity::IosPerJoule];

/// Which path is the best in a quantity, how sure it is that it beats the next, and what would change
/// their order.
#[derive(Clone, Debug)]
pub struct Lead {
    /// What it leads in.
    pub quantity: Quantity,
    /// It, and the next.
    pub pair: [Case; 2],
    /// That it beats the next.
    pub probability: f64,
    /// Absent under an open load, for which they are not sought.
    pub turns: Option<Vec<Turn>>,
}

/// Predictions of one workload, the path with the most IOPS first.
#[derive(Clone, Debug)]
pub struct Group {
    /// In fio's words.
    pub workload: String,
    /// The quantities of each path.
    pub rows: Vec<Vec<Prediction>>,
    /// One for each quantity that paths are ranked by.
    pub leads: Vec<Lead>,
    /// Paths that fall behind an open load, and the share of the parameters' draws in which they do.
    pub behind: Vec<(Case, f64)>,
    /// True if the latency of those is as long as the simulation is; a trace that is simulated whole has an
    /// end, and its latency is a figure.
    pub grows: bool,
    /// Paths without a prediction, and why.
    pub without: Vec<(Case, String)>,
}

/// Predictions beside measurements.
#[derive(Clone, Debug)]
pub struct Scores {
    /// Each with its measurement.
    pub scored: Vec<Scored>,
    /// Measurements for which the model lacks a parameter.
    pub lacking: usize,
    /// How the model came not to see them.
    pub held_back: String,
}

/// Predictions of a closed workload.
pub fn closed(model: &Model, workload: String, cases: &[Case]) -> Group {
    let (mut rows, mut without) = (Vec::new(), Vec::new());
    for case in cases {
        match model.predict(case, Quantity::Iops) {
            Err(CannotPredict::Crowded { .. }) => match model.closed(case) {
                Ok(simulated) => rows.push(simulated.predictions),
                Err(why) => without.push((*case, why.to_string())),
            },
            Err(why) => without.push((*case, why.to_string())),
            Ok(_) => {
                let all = Quantity::ALL.into_iter().filter_map(|one| model.predict(case, one).ok());
                rows.push(all.collect::<Vec<Prediction>>());
            }
        }
    }
    // The first quantity is the rate, of which each row has one.
    rows.sort_by(|a, b| b[0].value.total_cmp(&a[0].value));
    let sure = |[first, second]: [&Case; 2], quantity| model.better([first, second], quantity).ok();
    let turns = |pair: [&Case; 2], quantity| Some(model.turns(pair, quantity));
    let leads = RANKED.into_iter().filter_map(|quantity| lead(&rows, quantity, sure, turns)).collect();
    Group { workload, rows, leads, behind: Vec::new(), grows: false, without }
}

/// Predictions of an open load or a trace. Those that keep up are ranked, but not by a rate that is the
/// load's.
pub fn simulated(
    model: &Model,
    workload: String,
    cases: &[Case],
    ranked: &[Quantity],
    simulate: impl Fn(&Case) -> Result<OpenPrediction, OpenError>,
) -> Group {
    let (mut rows, mut behind, mut without) = (Vec::new(), Vec::new(), Vec::new());
    let mut known: Vec<(Case, OpenPrediction)> = Vec::new();
    for case in cases {
        match simulate(case) {
            Err(why) => without.push((*case, why.to_string())),
            Ok(open) => {
                rows.push(open.predictions.clone());
                match open.overload {
                    true => behind.push((*case, open.overloaded)),
                    false => known.push((*case, open)),
                }
            }
        }
    }
    let of = |case: &Case| known.iter().find(|(one, _)| one == case).map(|(_, open)| open);
    let sure = |[first, second]: [&Case; 2], quantity| model.better_open([of(first)?, of(second)?], quantity);
    let keep_up: Vec<Vec<Prediction>> = known.iter().map(|(_, open)| open.predictions.clone()).collect();
    let leads = ranked.iter().filter_map(|quantity| lead(&keep_up, *quantity, sure, |_, _| None)).collect();
    Group { workload, rows, leads, behind, grows: false, without }
}

/// The lead in a quantity, of which two paths at least have a prediction.
fn lead(
    rows: &[Vec<Prediction>],
    quantity: Quantity,
    sure: impl Fn([&Case; 2], Quantity) -> Option<f64>,
    turns: impl Fn([&Case; 2], Quantity) -> Option<Vec<Turn>>,
) -> Option<Lead> {
    let mut all: Vec<&Prediction> = rows.iter().flatten().filter(|one| one.quantity == quantity).collect();
    all.sort_by(|a, b| match quantity.more_is_better() {
        true => b.value.total_cmp(&a.value),
        false => a.value.total_cmp(&b.value),
    });
    let pair = [all.first()?.case, all.get(1)?.case];
    let [first, second] = &pair;
    let probability = sure([first, second], quantity)?;
    Some(Lead { quantity, pair, probability, turns: turns([first, second], quantity) })
}
