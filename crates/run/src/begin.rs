//! What every run begins with: its meters and its seed.

use crate::error::RunError;
use crate::options::Options;
use iopj_metering::Progress;
use iopj_metering::energy::{FarHost, Meters};
use iopj_study::Study;
use iopj_study::plan::Cell;
use std::sync::atomic::AtomicBool;

/// The meters of a study, open and read once, before a file is made, a drive locked or a setting changed.
pub(crate) fn open_meters(
    (study, cells): (&Study, &[Cell]),
    far: Option<&dyn FarHost>,
    options: &Options,
    progress: &mut dyn Progress,
    stop: &AtomicBool,
) -> Result<Meters, RunError> {
    let mut meters = Meters::open(study, far, options.allow, progress, stop)?;
    meters.check_windows(cells, progress);
    Ok(meters)
}

/// A seed of 63 bits, which TOML can hold.
pub(crate) fn random_seed() -> Result<u64, RunError> {
    let mut bytes = [0u8; 8];
    // Up to 256 bytes come whole.
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) {
        Ok(8) => Ok(u64::from_ne_bytes(bytes) >> 1),
        Ok(_) => RunError::refuse("the kernel gives half a random seed: set `seed` in the study"),
        Err(error) => {
            RunError::refuse(format!("the kernel gives no random seed ({error}): set `seed` in the study"))
        }
    }
}
