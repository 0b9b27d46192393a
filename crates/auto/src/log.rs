//! The decisions of an adaptive engine: the latest of them, and how many there were.

use crate::key::{Band, Kind};
use crate::policy::Aim;
use crate::way::Way;
use std::collections::VecDeque;
use std::fmt;

/// Decisions that are kept until they are drained; the oldest go first.
pub const LOG_LEN: usize = 256;

/// Why a route was changed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Why {
    /// It costs less by the aim, and did in epochs running: what an I/O costs on the way that was left
    /// (absent: not known), and on the new one. In ns, or joules.
    Better {
        /// The aim.
        aim: Aim,
        /// The cost of an I/O on the way that was left.
        from: Option<f64>,
        /// The cost of an I/O on the new one.
        to: f64,
    },
    /// The 99th percentile of latency was over the bound.
    OverBound {
        /// The percentile that was seen, in ns.
        p99_ns: u64,
        /// The bound in ns.
        bound_ns: u64,
    },
    /// More requests are in flight, or fewer, and the policy or the figures prefer another way there.
    InFlight {
        /// The band that they were in.
        from: Band,
    },
    /// Kinds of request that are in flight together go one way, and did not.
    Together,
    /// Threads wait for processors, and the way keeps one busy.
    Crowded,
    /// The way failed, and is left for good.
    Failed(String),
    /// Chance, by which [`random_switching`](crate::AutoBuilder::random_switching) goes.
    Random,
}

/// One change of route.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// When, in ns since the engine was opened.
    pub at_ns: u64,
    /// Which requests; `None` for all.
    pub kind: Option<Kind>,
    /// How many are in flight.
    pub band: Band,
    /// The way that was left.
    pub from: Way,
    /// The way that is taken.
    pub to: Way,
    /// Why.
    pub why: Why,
    /// I/Os since the decision before.
    pub ios: u64,
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} s, after {} I/Os: ", self.at_ns as f64 / 1e9, self.ios)?;
        match self.kind {
            Some(kind) => write!(f, "{kind}, {} in flight or more", self.band.least())?,
            None => f.write_str("everything")?,
        }
        write!(f, ": from {} to {}: {}", self.from, self.to, self.why)
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Better { aim, from, to } => {
                let unit = if *aim == Aim::IosPerJoule { "J" } else { "ns" };
                let what = match aim {
                    Aim::Latency => "mean latency",
                    Aim::Cpu => "CPU time of an I/O",
                    Aim::IosPerJoule => "energy of an I/O",
                };
                let number = |value: f64| {
                    if *aim == Aim::IosPerJoule { format!("{value:.3e}") } else { format!("{value:.0}") }
                };
                match from {
                    Some(from) => {
                        write!(f, "{what} {} {unit} instead of {} {unit}", number(*to), number(*from))
                    }
                    None => write!(f, "{what} {} {unit} instead of an unknown one", number(*to)),
                }
            }
            Why::OverBound { p99_ns, bound_ns } => {
                write!(f, "the 99th percentile was {p99_ns} ns, over the bound of {bound_ns} ns")
            }
            Why::InFlight { from } => {
                write!(f, "the requests in flight were {} or more before", from.least())
            }
            Why::Together => f.write_str("kinds that are in flight together go one way"),
            Why::Crowded => f.write_str("threads wait for processors, and it keeps one busy"),
            Why::Failed(error) => write!(f, "it failed and is left for good: {error}"),
            Why::Random => f.write_str("by chance"),
        }
    }
}

/// How often things happened since an engine was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Reads and writes of one buffer, by the route of their kind, in the order of [`Way::ALL`]: those of the
    /// epoch that runs are not in it yet.
    pub by_way: [u64; Way::COUNT],
    /// Changes of route.
    pub switches: u64,
    /// I/Os that tried a way other than the chosen one.
    pub explored: u64,
    /// Ways that were left for good.
    pub failures: u64,
    /// I/Os that a way refused, or lost in its failure, and the fallback did.
    pub redone: u64,
}

/// The latest decisions.
#[derive(Debug, Default)]
pub(crate) struct Log {
    decisions: VecDeque<Decision>,
    /// I/Os in all when the last decision was made.
    ios: u64,
}

impl Log {
    /// Notes a decision that was made after `ios` I/Os in all.
    pub(crate) fn note(&mut self, ios: u64, mut decision: Decision) {
        decision.ios = ios - self.ios;
        self.ios = ios;
        if self.decisions.len() == LOG_LEN {
            self.decisions.pop_front();
        }
        self.decisions.push_back(decision);
    }

    /// Takes the decisions, the oldest first.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Decision> + '_ {
        self.decisions.drain(..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Direction;

    fn decision(why: Why) -> Decision {
        let kind = Some(Kind::new(Direction::Read, 4096));
        let (from, to) = (Way::Poll, Way::Interrupt);
        Decision { at_ns: 1_500_000_000, kind, band: Band::of(5), from, to, why, ios: 0 }
    }

    #[test]
    fn a_decision_is_one_plain_line() {
        let why = Why::Better { aim: Aim::Cpu, from: Some(9000.4), to: 2000.0 };
        assert_eq!(
            decision(why).to_string(),
            "1.500 s, after 0 I/Os: read 4k, 4 in flight or more: from io_uring/syscall/poll to \
             io_uring/syscall/interrupt: CPU time of an I/O 2000 ns instead of 9000 ns"
        );
        let why = Why::Better { aim: Aim::IosPerJoule, from: None, to: 1.25e-5 };
        assert!(decision(why).to_string().ends_with("energy of an I/O 1.250e-5 J instead of an unknown one"));
        let why = Why::OverBound { p99_ns: 7, bound_ns: 5 };
        let all = Decision { kind: None, ..decision(why) };
        let says = ": everything: from io_uring/syscall/poll to io_uring/syscall/interrupt: the 99th \
                    percentile was 7 ns, over the bound of 5 ns";
        assert!(all.to_string().ends_with(says), "{all}");
    }

    #[test]
    fn the_log_keeps_the_latest_and_counts_between() {
        let mut log = Log::default();
        for number in 0..LOG_LEN as u64 + 10 {
            log.note(3 * number, decision(Why::Random));
        }
        let kept: Vec<u64> = log.drain().map(|decision| decision.ios).collect();
        assert_eq!(kept, [3; LOG_LEN]);
        assert_eq!(log.drain().count(), 0);
    }
}
