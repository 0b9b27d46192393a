//! What would change an order: the value of one parameter at which another case becomes the better.

use crate::case::{Case, Quantity};
use crate::formula::{Values, value};
use crate::model::Model;
use crate::parameter::Parameter;

/// A parameter whose value decides which of two cases is better.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Turn {
    /// The parameter.
    pub parameter: Parameter,
    /// Its value in the model.
    pub now: f64,
    /// The value beyond which the other case is better.
    pub at: f64,
}

/// Parameters are moved by no more than this factor, down and up.
const REACH: f64 = 16.0;
/// Steps of the search in each direction, and of the bisection.
const STEPS: u32 = 32;

impl Model {
    /// The parameters that turn the order of two cases within a factor of 16 of their values, the least
    /// change first. Factors of single paths are left out: nobody can set them.
    pub fn turns(&self, [better, other]: [&Case; 2], quantity: Quantity) -> Vec<Turn> {
        let lead = |parameter: Parameter, factor: f64| -> Option<f64> {
            let of = |case: &Case| {
                let values = self.on_path(case.path).ok()?;
                let moved = |one: Parameter| {
                    let known = values.get(one)?;
                    Some(if one == parameter { known * factor } else { known })
                };
                value(&moved, case, quantity).ok().map(f64::ln)
            };
            let lead = of(better)? - of(other)?;
            Some(if quantity.more_is_better() { lead } else { -lead })
        };
        let of = |(parameter, now, _): (Parameter, f64, f64)| {
            let is_own = matches!(
                parameter,
                Parameter::Deviation(_) | Parameter::CpuDeviation(_) | Parameter::TailDeviation(..)
            );
            if is_own || lead(parameter, 1.0)? <= 0.0 {
                return None;
            }
            let factors = [1.0 / REACH, REACH];
            let turns = factors.into_iter().filter_map(|end| turn(end, |factor| lead(parameter, factor)));
            let nearest = turns.min_by(|a, b| a.ln().abs().total_cmp(&b.ln().abs()))?;
            Some(Turn { parameter, now, at: now * nearest })
        };
        let mut all: Vec<Turn> = self.parameters().filter_map(of).collect();
        all.sort_by(|a, b| (a.at / a.now).ln().abs().total_cmp(&(b.at / b.now).ln().abs()));
        all
    }
}

/// The first factor between 1 and `end` at which the lead is lost.
fn turn(end: f64, lead: impl Fn(f64) -> Option<f64>) -> Option<f64> {
    let at = |step: u32| end.powf(f64::from(step) / f64::from(STEPS));
    let lost = (1..=STEPS).find(|step| lead(at(*step)).is_some_and(|lead| lead < 0.0))?;
    let (mut kept, mut lost) = (at(lost - 1), at(lost));
    for _ in 0..STEPS {
        let middle = (kept * lost).sqrt();
        if lead(middle).is_some_and(|lead| lead < 0.0) { lost = middle } else { kept = middle }
    }
    Some(lost)
}
