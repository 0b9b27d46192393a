//! When the I/Os of a job are due, and of which kind they are.

use super::scenario::{Arrivals, Scenario, TraceIo};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// The next I/O of a trace that no job has taken.
pub(super) type Ticket = Rc<Cell<usize>>;

/// The I/Os of a job, one after the other.
pub(super) struct Stream {
    source: Source,
    due: f64,
    /// Upper ends of the classes' shares.
    shares: Vec<f64>,
    /// Draws of times and of kinds are kept apart, so that scenarios that differ in one share the other.
    times: Xoshiro256PlusPlus,
    kinds: Xoshiro256PlusPlus,
}

enum Source {
    Closed,
    Open {
        interval: f64,
        poisson: bool,
        bursts: Option<(f64, f64)>,
        arrived: f64,
    },
    /// `held` is the I/O that the job has taken and not yet submitted.
    Trace {
        ios: Arc<[TraceIo]>,
        held: Cell<Option<usize>>,
        ticket: Ticket,
    },
}

impl Stream {
    /// The stream of a job.
    pub(super) fn new(scenario: &Scenario, job: u32, ticket: &Ticket) -> Stream {
        let mut sum = 0.0;
        let shares = scenario.mix.iter().map(|class| {
            sum += class.share;
            sum
        });
        let seed = scenario.seed ^ u64::from(job) << 32;
        let random = |purpose: u64| Xoshiro256PlusPlus::seed_from_u64(seed ^ purpose);
        let mut stream = Stream {
            source: Source::Closed,
            due: 0.0,
            shares: shares.collect(),
            times: random(0x7469_6d65),
            kinds: random(0x6b69_6e64),
        };
        stream.source = match &scenario.arrivals {
            Arrivals::Closed => Source::Closed,
            Arrivals::Trace(ios) => {
                Source::Trace { ios: Arc::clone(ios), held: Cell::new(None), ticket: Rc::clone(ticket) }
            }
            &Arrivals::Open { per_job_iops, poisson, bursts } => {
                let interval = 1e9 / per_job_iops;
                let first = match poisson {
                    true => stream.exponential() * interval,
                    false => interval * f64::from(job) / f64::from(scenario.jobs),
                };
                Source::Open { interval, poisson, bursts, arrived: first }
            }
        };
        stream.due = stream.next_due();
        stream
    }

    /// True if a job issues I/Os when others complete.
    pub(super) fn is_closed(&self) -> bool {
        matches!(self.source, Source::Closed)
    }

    /// When the next I/O is due: 0 under a closed load, infinity after the end of a trace. To ask takes the
    /// next I/O of a trace, so only a job that has room for it asks.
    pub(super) fn due(&self) -> f64 {
        match &self.source {
            Source::Trace { ios, held, ticket } => {
                let at = held.get().unwrap_or_else(|| ticket.replace(ticket.get() + 1));
                held.set(Some(at));
                ios.get(at).map_or(f64::INFINITY, |io| io.due_ns)
            }
            _ => self.due,
        }
    }

    /// Takes the next I/O: the class it is of.
    pub(super) fn take(&mut self) -> u32 {
        let class = match &self.source {
            Source::Trace { ios, held, .. } => return held.take().map_or(0, |at| ios[at].class),
            _ => self.kind(),
        };
        match &mut self.source {
            Source::Closed | Source::Trace { .. } => return class,
            &mut Source::Open { interval, poisson, .. } => {
                let step = if poisson { self.exponential() * interval } else { interval };
                if let Source::Open { arrived, .. } = &mut self.source {
                    *arrived += step;
                }
            }
        }
        self.due = self.next_due();
        class
    }

    fn next_due(&self) -> f64 {
        match &self.source {
            Source::Closed | Source::Trace { .. } => 0.0,
            Source::Open { bursts: None, arrived, .. } => *arrived,
            // The time on the clock of a time that counts only while I/Os arrive.
            Source::Open { bursts: Some((on, off)), arrived, .. } => arrived + (arrived / on).floor() * off,
        }
    }

    fn kind(&mut self) -> u32 {
        if self.shares.len() < 2 {
            return 0;
        }
        let draw = (self.kinds.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let last = self.shares.len() - 1;
        self.shares[..last].iter().position(|end| draw < *end).unwrap_or(last) as u32
    }

    /// A draw from the exponential distribution of mean 1, by inversion.
    fn exponential(&mut self) -> f64 {
        // In (0, 1], so that the logarithm is finite.
        -(((self.times.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64).ln()
    }
}
