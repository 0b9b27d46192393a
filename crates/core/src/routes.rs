//! What an engine that chooses its way did over a window, by way.

use iopj_path::path::Way;
use serde::{Deserialize, Serialize};

/// The most decisions that are kept of a window.
pub const MOST_DECISIONS: usize = 10;

/// What the adaptive engines of all jobs did over the window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Routes {
    /// The ways that were taken in the window, or in the pass before it, in the order of [`Way::ALL`].
    pub ways: Vec<Route>,
    /// Changes of route in the window.
    pub switches: u64,
    /// I/Os of the window that tried a way other than the chosen one.
    pub explored: u64,
    /// I/Os of the window that a way refused, or lost in its failure, and the fallback did.
    pub redone: u64,
    /// The same of the pass before the window.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub pass_redone: u64,
    /// Ways that were left for good in the window.
    pub failures: u64,
    /// The latest decisions of the window, a line each, ten at most, shared out evenly over the jobs; job by
    /// job with its number, if there are several, and of each the oldest first. Stores of older versions may
    /// have those of the first job alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<String>,
}

/// What went one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// The way.
    pub way: Way,
    /// Reads and writes of the window that were routed to it.
    pub ios: u64,
    /// Those of the pass before the window.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub pass_ios: u64,
}

impl Routes {
    /// Reads and writes of the window, on all ways.
    pub fn ios(&self) -> u64 {
        self.ways.iter().map(|route| route.ios).fold(0, u64::saturating_add)
    }

    /// Reads and writes of the window on the ways that `is_one` takes.
    pub fn ios_by(&self, is_one: impl Fn(Way) -> bool) -> u64 {
        self.of(is_one).map(|route| route.ios).fold(0, u64::saturating_add)
    }

    /// Reads and writes of the pass on the ways that `is_one` takes.
    pub fn pass_ios_by(&self, is_one: impl Fn(Way) -> bool) -> u64 {
        self.of(is_one).map(|route| route.pass_ios).fold(0, u64::saturating_add)
    }

    /// The I/Os of the window by way, as in `io_uring/syscall/interrupt=900 io_uring/sqpoll/interrupt=100`.
    pub fn text(&self) -> String {
        let taken = self.ways.iter().filter(|route| route.ios > 0);
        taken.map(|route| format!("{}={}", route.way, route.ios)).collect::<Vec<_>>().join(" ")
    }

    fn of(&self, is_one: impl Fn(Way) -> bool) -> impl Iterator<Item = &Route> {
        self.ways.iter().filter(move |route| is_one(route.way))
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}
