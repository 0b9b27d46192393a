//! What a drive loses when it changes its driver: as it was under the kernel's driver, and as it is under
//! this one.
//!
//! Sources: NVM Express Base Specification 2.0, sections 5.15 (Get Features) and 5.27 (Set Features); Linux,
//! drivers/base/power/sysfs.c (`pm_qos_latency_tolerance_us`).

use super::admin::{Admin, AdminFailure};
use super::command::Command;
use std::fmt;
use std::time::Duration;

/// A drive's state under the kernel's driver, as far as another driver would change it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Its serial number: another drive in its place gets none of this. Absent where the kernel showed none.
    pub serial: Option<String>,
    /// Features that a reset loses.
    pub features: Vec<KeptFeature>,
    /// The kernel did not let it enter power states by itself.
    pub apst_off: bool,
    /// How long leaving a power state that it enters by itself may take in us, `u64::MAX` for any time;
    /// absent where the kernel did not say.
    pub latency_tolerance_us: Option<u64>,
}

/// A feature with the value that it had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptFeature {
    /// Its name in words.
    pub name: &'static str,
    /// Its identifier.
    pub id: u8,
    /// Its value.
    pub value: u32,
    /// The bits of dword 0 that are its value.
    pub mask: u32,
}

/// A feature with the value that it has under this driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeatureState {
    /// As it was under the kernel.
    pub kept: KeptFeature,
    /// The drive's answer, or the NVMe status of its refusal to answer.
    pub current: Result<u32, u16>,
    /// The NVMe status of the drive's refusal to take the value that it had.
    pub refusal: Option<u16>,
}

impl FeatureState {
    /// True if it has the value that it had.
    pub fn is_as_kept(&self) -> bool {
        self.current == Ok(self.kept.value)
    }
}

impl fmt::Display for FeatureState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wanted = self.kept.value;
        match (self.current, self.refusal) {
            (Ok(current), _) if current == wanted => write!(f, "{current:#x} as under the kernel"),
            (Ok(current), Some(status)) => {
                write!(
                    f,
                    "{current:#x}, {wanted:#x} under the kernel: it refuses that (NVMe status {status:#x})"
                )
            }
            (Ok(current), None) => {
                write!(f, "{current:#x}, {wanted:#x} under the kernel: it does not accept that")
            }
            (Err(status), _) => {
                write!(f, "unknown, {wanted:#x} under the kernel: it does not say (NVMe status {status:#x})")
            }
        }
    }
}

/// Gives a controller's features the values that they had, where a reset gave them others.
///
/// # Errors
/// A command did not end, and the name of its feature.
pub(super) fn set_features(
    admin: &mut Admin,
    features: &[KeptFeature],
    limit: Duration,
) -> Result<Vec<FeatureState>, (&'static str, AdminFailure)> {
    let set = |&kept: &KeptFeature| set_feature(admin, kept, limit).map_err(|failure| (kept.name, failure));
    features.iter().map(set).collect()
}

fn set_feature(admin: &mut Admin, kept: KeptFeature, limit: Duration) -> Result<FeatureState, AdminFailure> {
    let mut current = get(admin, kept, limit)?;
    let mut refusal = None;
    if current != Ok(kept.value) {
        refusal = answer(admin.execute(Command::set_feature(kept.id, kept.value), limit))?.err();
        current = get(admin, kept, limit)?;
    }
    Ok(FeatureState { kept, current, refusal })
}

fn get(admin: &mut Admin, feature: KeptFeature, limit: Duration) -> Result<Result<u32, u16>, AdminFailure> {
    let value = answer(admin.execute(Command::get_feature(feature.id), limit))?;
    Ok(value.map(|value| value & feature.mask))
}

/// A refusal is an answer, no failure.
fn answer(outcome: Result<u32, AdminFailure>) -> Result<Result<u32, u16>, AdminFailure> {
    match outcome {
        Ok(value) => Ok(Ok(value)),
        Err(AdminFailure::Status(status)) => Ok(Err(status)),
        Err(failure) => Err(failure),
    }
}
