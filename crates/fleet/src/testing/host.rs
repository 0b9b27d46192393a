//! A host of the fleet, and what is known of it.

use iopj_core::VerdictKind;

/// A host and its kind, by numbers.
#[derive(Clone, Copy, Debug)]
pub struct Host {
    /// Its number.
    pub number: usize,
    /// Its kind of machine.
    pub machine: usize,
    /// Its drive, of `DRIVES`.
    pub drive: usize,
    /// Its kernel, of `KERNELS`.
    pub kernel: usize,
}

impl Host {
    /// Slow for no reason that its kind has.
    pub fn is_outlier(self) -> bool {
        self.number % 37 == 5
    }

    /// Its latency grows from month to month.
    pub fn drifts(self) -> bool {
        self.drive == 1 && self.machine.is_multiple_of(3)
    }

    /// A meter at the plug watched it.
    pub fn has_energy(self) -> bool {
        self.machine % 3 != 2
    }

    /// What the trials of a path are judged to be.
    pub fn verdict(self, path: &str) -> VerdictKind {
        let is_refuted = self.kernel == 0 && self.number.is_multiple_of(4) && path == "io_uring/syscall/poll";
        if is_refuted { VerdictKind::Refuted } else { VerdictKind::Verified }
    }

    /// This trial of each store failed.
    pub fn fails(self, position: u64) -> bool {
        self.number % 10 == 3 && position == 7
    }

    /// Its name.
    pub fn name(self) -> String {
        format!("host-{:04}", self.number)
    }
}
