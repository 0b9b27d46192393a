//! Another kernel in place of the one that a model was calibrated on: what a path takes in software changes
//! as the instructions of its I/O do, of which another kernel changes its own.

use crate::parameter::Front;
use iopj_core::IoPath;
use std::collections::BTreeMap;

/// How the instructions of an I/O change with another kernel, by path.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kernel {
    /// What the kernel is, and where its instructions were counted, in words.
    pub name: String,
    /// The paths of which both kernels were counted.
    pub changes: BTreeMap<IoPath, Change>,
    /// Why others have none.
    pub without: BTreeMap<IoPath, String>,
}

/// How the instructions of an I/O change on a path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// Instructions with the other kernel over those with the one that calibrated the model. Those of user
    /// space are in both, and the same.
    pub ratio: f64,
    /// The same of the kernel's instructions alone.
    pub kernel_ratio: f64,
    /// Standard deviation of the logarithm of `ratio`, as far as the counts leave it open.
    pub spread: f64,
}

/// How the logarithm of a path's times in software changes, and the standard deviation of that.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Shift {
    pub(crate) log: f64,
    pub(crate) spread: f64,
}

/// What is assumed of the instructions that come or go: the time of one is within a factor of two of the mean
/// time of the others, with a probability of two thirds (the standard deviation of a logarithm).
const OF_CHANGED: f64 = 0.7;
/// What is assumed of all others: another compiler, configuration and layout change their time by 5 %.
const OF_ALL: f64 = 0.05;

impl Change {
    fn shift(self) -> Shift {
        // The share of the new time in software that came; of what went, over it.
        let changed = (1.0 - 1.0 / self.ratio).abs();
        let squares = [self.spread, OF_CHANGED * changed, OF_ALL].map(|one| one.powi(2));
        Shift { log: self.ratio.ln(), spread: squares.iter().sum::<f64>().sqrt() }
    }
}

impl Kernel {
    /// What it does to a path; nothing to those that bypass the kernel.
    ///
    /// # Errors
    /// Why that is not known.
    pub(crate) fn shift(&self, path: IoPath) -> Result<Shift, String> {
        if matches!(Front::of(path), Some(Front::NvmeUser | Front::Spdk)) {
            return Ok(Shift::default());
        }
        match self.changes.get(&path) {
            Some(change) if change.ratio.is_finite() && change.ratio > 0.0 => Ok(change.shift()),
            Some(_) => Err("its instructions were not counted".to_owned()),
            None => Err(match self.without.get(&path) {
                Some(why) => why.clone(),
                None => "neither store has it".to_owned(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_instructions_do_not_say_widens_with_the_change() {
        let path: IoPath = "libaio/syscall/interrupt".parse().unwrap();
        let shift = |ratio| {
            let changes = BTreeMap::from([(path, Change { ratio, kernel_ratio: ratio, spread: 0.0 })]);
            Kernel { changes, ..Kernel::default() }.shift(path).unwrap()
        };
        assert_eq!(shift(1.0), Shift { log: 0.0, spread: OF_ALL });
        // Half of the new time is new: 0.7 of it, and 5 %.
        let twice = shift(2.0);
        assert!((twice.log - 2_f64.ln()).abs() < 1e-12);
        assert!((twice.spread - 0.35_f64.hypot(0.05)).abs() < 1e-12, "{twice:?}");
        let bypass = Kernel::default().shift("nvme-user/doorbell/poll".parse().unwrap());
        assert_eq!(bypass, Ok(Shift::default()));
        assert_eq!(Kernel::default().shift(path), Err("neither store has it".to_owned()));
        let change = Change { ratio: f64::NAN, kernel_ratio: 1.0, spread: 0.0 };
        let nothing = BTreeMap::from([(path, change)]);
        assert!(Kernel { changes: nothing, ..Kernel::default() }.shift(path).is_err());
    }
}
