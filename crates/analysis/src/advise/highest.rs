//! The highest rate that each way carries within the bounds: the answer to which way does the most I/Os per
//! second, where I/Os arrive by themselves and every way that keeps up does the same number.

use super::candidate::{Candidate, Load, Way};
use crate::grouping::unique;
use serde::Serialize;

/// What the ways of a group carry.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Highest {
    /// The ways, the highest rate first, and of one rate that of the least latency.
    pub ways: Vec<Carried>,
    /// The least bound in ns under which a higher rate is carried than any is now, with that rate and its
    /// way; absent if all ways fall behind there.
    pub looser: Option<(f64, u64, Way)>,
}

/// What a way carries.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Carried {
    /// The way.
    pub way: Way,
    /// The greatest rate, with its figures there, up to which it keeps up and meets every bound wherever it
    /// was measured; absent if it does not at its least.
    pub at: Option<(u64, Candidate)>,
    /// The next rate at which it was measured, which it does not carry; absent if it carries all of them.
    pub beyond: Option<(u64, Candidate)>,
}

impl Carried {
    /// The highest rate.
    pub fn rate(&self) -> Option<u64> {
        self.at.as_ref().map(|(rate, _)| *rate)
    }
}

impl Highest {
    /// The highest rates at these loads, ascending; `None` if none has a rate.
    pub(super) fn of(loads: &[(Load, Vec<Candidate>)]) -> Option<Highest> {
        let rated = || loads.iter().filter_map(|(load, all)| Some((load.rate()?, all)));
        let mut ways: Vec<Carried> = unique(rated().flat_map(|(_, all)| all).map(|one| one.way.clone()))
            .into_iter()
            .map(|way| carried(way, rated()))
            .collect();
        let latency = |one: &Carried| {
            let tail = one.at.as_ref().and_then(|(_, own)| own.tail.as_ref());
            tail.map_or(f64::INFINITY, |tail| tail.ns)
        };
        ways.sort_by(|a, b| b.rate().cmp(&a.rate()).then_with(|| latency(a).total_cmp(&latency(b))));
        let most = ways.first()?.rate();
        let beyond = ways.iter().flat_map(|one| limits(&one.way, rated()));
        let higher = beyond.filter(|(_, rate, _)| most.is_none_or(|most| *rate > most));
        // Of one bound the higher rate.
        let looser = higher.min_by(|(a, low, _), (b, high, _)| a.total_cmp(b).then(high.cmp(low)));
        Some(Highest { ways, looser })
    }

    /// The highest rate of all, with the ways that carry it; `None` if none carries any.
    pub fn most(&self) -> Option<(u64, Vec<&Way>)> {
        let rate = self.ways.first()?.rate()?;
        let own = self.ways.iter().filter(|one| one.rate() == Some(rate));
        Some((rate, own.map(|one| &one.way).collect()))
    }
}

/// The least bound in ns under which a way carries each rate, of those up to which it keeps up.
fn limits<'a>(way: &Way, rated: impl Iterator<Item = (u64, &'a Vec<Candidate>)>) -> Vec<(f64, u64, Way)> {
    let own = rated.filter_map(|(rate, all)| Some((rate, all.iter().find(|one| one.way == *way)?)));
    let limited = own.map_while(|(rate, one)| {
        let upper = one.tail.as_ref().filter(|_| one.keeps_up())?.upper()?;
        Some((upper.0, rate))
    });
    let mut greatest: f64 = 0.0;
    let so_far = limited.map(|(upper, rate)| {
        greatest = greatest.max(upper);
        (greatest, rate, way.clone())
    });
    so_far.collect()
}

/// What a way carries of rates that ascend.
fn carried<'a>(way: Way, rated: impl Iterator<Item = (u64, &'a Vec<Candidate>)>) -> Carried {
    let own = rated.filter_map(|(rate, all)| Some((rate, all.iter().find(|one| one.way == way)?)));
    let (mut at, mut beyond) = (None, None);
    for (rate, one) in own {
        if !one.is_eligible() {
            beyond = Some((rate, one.clone()));
            break;
        }
        at = Some((rate, one.clone()));
    }
    Carried { way, at, beyond }
}
