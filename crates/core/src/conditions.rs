//! The conditions of a trial: what else used the processors, and what changed on the machine meanwhile.
//!
//! Only types: `iopj-probe` decides from the evidence. Conditions are shown beside the verdict and never
//! change it.

use crate::evidence::ThreadRole;
use crate::power_change::PowerChange;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What disturbed a trial. A disturbed trial is kept but not ranked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// Everything that is known to have disturbed it.
    #[serde(default)]
    pub disturbances: Vec<Disturbance>,
    /// The thread of a spinning path that waited longest for a core; absent on paths that do not spin, in
    /// older stores, and where nothing counts that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spinner: Option<Spinner>,
}

impl Conditions {
    /// True if something disturbed the trial.
    pub fn are_disturbed(&self) -> bool {
        !self.disturbances.is_empty()
    }

    /// The thread that spins for I/O and lost its core, if one did. Such a trial keeps its verdict and its
    /// rank, and is marked.
    pub fn starved(&self) -> Option<&Spinner> {
        self.spinner.as_ref().filter(|spinner| spinner.starved)
    }
}

/// All disturbances in one line; empty if there are none.
impl fmt::Display for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, disturbance) in self.disturbances.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{disturbance}")?;
        }
        Ok(())
    }
}

/// One thing that disturbed a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Disturbance {
    /// Other processes used the processors more than is allowed.
    Others {
        /// How many processors they used, on average.
        cores: f64,
        /// How many they may use.
        allowed: f64,
    },
    /// A hypervisor gave the processors to others.
    Stolen {
        /// Share of all cores' time.
        share: f64,
    },
    /// Processors were throttled for heat.
    Throttled {
        /// Throttling events of all processors.
        times: u64,
    },
    /// A setting of the power state changed.
    Changed(PowerChange),
}

impl fmt::Display for Disturbance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Disturbance::Others { cores, allowed } => {
                write!(f, "other processes used {cores:.2} processors; {allowed:.2} are allowed")
            }
            Disturbance::Stolen { share } => {
                write!(f, "the hypervisor took {:.1} % of the processors' time", 100.0 * share)
            }
            Disturbance::Throttled { times } => {
                write!(f, "processors were throttled for heat ({times} more events)")
            }
            Disturbance::Changed(change) => write!(f, "{change}"),
        }
    }
}

/// How much of a core a thread had that spins for I/O: io_uring's submission poller, or a job that polls.
/// Such a thread needs a core of its own.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spinner {
    /// Its part in the I/O.
    pub role: ThreadRole,
    /// Share of the window that it ran.
    pub ran: f64,
    /// Share of the window that it was ready to run and waited for a core.
    pub waited: f64,
    /// Cores that the trial could use.
    pub cores: u32,
    /// Other threads of the trial that were busy on them.
    pub busy_threads: u32,
    /// How many cores other processes used, on average; absent where not all of them can be seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others: Option<f64>,
    /// True if it waited longer than is allowed: it lost its core.
    pub starved: bool,
}

impl fmt::Display for Spinner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Spinner { cores, busy_threads, .. } = *self;
        let who = if self.role == ThreadRole::Sqpoll { "submission poller" } else { "job" };
        let (ran, waited) = (100.0 * self.ran, 100.0 * self.waited);
        write!(f, "the {who} had {ran:.0} % of a core and waited for one {waited:.0} % of the time")?;
        let threads = match busy_threads {
            0 => None,
            1 => Some("1 other busy thread".to_owned()),
            _ => Some(format!("{busy_threads} other busy threads")),
        };
        let others = self.others.map(|used| format!("{used:.2}")).filter(|used| used != "0.00");
        let others = others.map(|used| format!("other processes (they used {used})"));
        let sharers: Vec<String> = threads.into_iter().chain(others).collect();
        if sharers.is_empty() {
            return Ok(());
        }
        let what = if cores == 1 { "one core".to_owned() } else { format!("{cores} cores") };
        write!(f, ": it shared {what} with {}", sharers.join(" and "))
    }
}
