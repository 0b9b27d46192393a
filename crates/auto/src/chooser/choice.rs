//! What a chooser may choose among, by what rule, and for how long.

use crate::policy::Policy;
use crate::way::Way;

/// I/Os of an epoch at least.
pub const EPOCH_IOS: u32 = 2048;
/// Time of an epoch at least, in ns.
pub const EPOCH_NS: u64 = 10_000_000;
/// I/Os that try another way, in a burst.
pub const BURST_IOS: u32 = 256;

/// What decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The policy, and what is seen.
    Follow,
    /// Nothing: this way is always taken.
    Pinned(Way),
    /// Chance, anew in each epoch.
    Random,
}

/// How long epochs are; a test makes them short.
#[derive(Clone, Copy, Debug)]
pub struct Epochs {
    /// I/Os of an epoch at least.
    pub ios: u32,
    /// Time of an epoch at least, in ns.
    pub ns: u64,
    /// I/Os that try another way.
    pub burst_ios: u32,
}

impl Default for Epochs {
    fn default() -> Epochs {
        Epochs { ios: EPOCH_IOS, ns: EPOCH_NS, burst_ios: BURST_IOS }
    }
}

/// What may be chosen among, and how.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The policy, which was checked.
    pub policy: Policy,
    /// The ways that the target has, the fallback among them.
    pub ways: Vec<Way>,
    /// The driver is this process's own: one engine, which waits in one way for all kinds at a time.
    pub is_bypass: bool,
    /// What decides.
    pub rule: Rule,
    /// The most requests in flight.
    pub iodepth: u32,
    /// Seed of what is left to chance.
    pub seed: u64,
    /// How long epochs are.
    pub epochs: Epochs,
}

/// The next epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// I/Os that end before it begins, because those of other routes end among them.
    pub settle: u32,
    /// Its I/Os at least.
    pub ios: u32,
    /// Its time at least, in ns.
    pub ns: u64,
    /// True while another way is tried.
    pub explores: bool,
}
