//! Another kernel in place of the one that a model was calibrated on: what a path takes in software changes
//! as the instructions of its I/O do, of which another kernel changes its own.

use crate::parameter::{Front, Parameter};
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
    /// The same of `kernel_ratio`.
    pub kernel_spread: f64,
}

/// How a logarithm changes, and the standard deviation of that.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Step {
    pub(crate) log: f64,
    pub(crate) spread: f64,
}

/// How the logarithms of a path's parameters change. They are off together: what an instruction takes that
/// came or went is the same in all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Shift {
    /// Of what the program has a part in.
    shared: Step,
    /// Of what the kernel alone takes.
    of_kernel: Step,
}

impl Shift {
    /// That of a parameter; none of one that is no software's.
    pub(crate) fn of(self, parameter: Parameter) -> Step {
        match parameter {
            one if one.is_of_kernel() => self.of_kernel,
            one if one.is_of_software() => self.shared,
            _ => Step::default(),
        }
    }
}

/// What is assumed of the instructions that come or go: the time of one is within a factor of two of the mean
/// time of the others, with a probability of two thirds (the standard deviation of a logarithm).
const OF_CHANGED: f64 = 0.7;
/// What is assumed of all others: another compiler, configuration and layout change their time by 5 %.
const OF_ALL: f64 = 0.05;

impl Change {
    /// `None` if a ratio is not a positive number.
    fn shift(self) -> Option<Shift> {
        let shared = step(self.ratio, self.spread)?;
        Some(Shift { shared, of_kernel: step(self.kernel_ratio, self.kernel_spread)? })
    }
}

fn step(ratio: f64, spread: f64) -> Option<Step> {
    if !ratio.is_finite() || ratio <= 0.0 {
        return None;
    }
    // The share of the new time that came; of what went, over it.
    let changed = (1.0 - 1.0 / ratio).abs();
    let squares = [spread, OF_CHANGED * changed, OF_ALL].map(|one| one.powi(2));
    Some(Step { log: ratio.ln(), spread: squares.iter().sum::<f64>().sqrt() })
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
            Some(change) => change.shift().ok_or_else(|| "its instructions were not counted".to_owned()),
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
        let of = |ratio, kernel_ratio| {
            let change = Change { ratio, kernel_ratio, spread: 0.0, kernel_spread: 0.03 };
            Kernel { changes: BTreeMap::from([(path, change)]), ..Kernel::default() }.shift(path)
        };
        let shift = |ratio, kernel_ratio| of(ratio, kernel_ratio).unwrap();
        let [time, wake] = [Parameter::Time(Front::Libaio), Parameter::Wake];
        assert_eq!(shift(1.0, 1.0).of(time), Step { log: 0.0, spread: OF_ALL });
        // Half of the new time is new: 0.7 of it, and 5 %.
        let twice = shift(2.0, 4.0);
        assert!((twice.of(time).log - 2_f64.ln()).abs() < 1e-12);
        assert!((twice.of(time).spread - 0.35_f64.hypot(0.05)).abs() < 1e-12, "{twice:?}");
        // Of what the kernel alone takes it is three quarters, and the counts leave 3 % open.
        assert!((twice.of(wake).log - 4_f64.ln()).abs() < 1e-12);
        assert!((twice.of(wake).spread - 0.525_f64.hypot(0.05).hypot(0.03)).abs() < 1e-12, "{twice:?}");
        assert_eq!(twice.of(Parameter::Gap), Step::default(), "it is no software's");
        let bypass = Kernel::default().shift("nvme-user/doorbell/poll".parse().unwrap());
        assert_eq!(bypass, Ok(Shift::default()));
        assert_eq!(Kernel::default().shift(path), Err("neither store has it".to_owned()));
        for (ratio, kernel_ratio) in [(f64::NAN, 1.0), (1.0, f64::NAN), (1.0, f64::INFINITY), (0.0, 1.0)] {
            assert!(of(ratio, kernel_ratio).is_err(), "{ratio} {kernel_ratio}");
        }
    }
}
