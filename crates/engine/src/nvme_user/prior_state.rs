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
pub struct PriorState {
    /// Its serial number: another drive in its place gets none of this. Absent where the kernel showed none.
    pub serial: Option<String>,
    /// Features that a reset loses.
    pub features: Vec<FeatureValue>,
    /// The kernel did not let it enter power states by itself.
    pub apst_off: bool,
    /// How long it may take to leave a power state that it entered by itself, in us; `u64::MAX` for any time,
    /// absent where the kernel did not say.
    pub latency_tolerance_us: Option<u64>,
}

/// A feature and a value of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeatureValue {
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
    /// Its value under the kernel.
    pub prior: FeatureValue,
    /// The drive's answer, or the NVMe status of its refusal to answer.
    pub current: Result<u32, u16>,
    /// The NVMe status of the drive's refusal to take the prior value.
    pub refusal: Option<u16>,
}

impl FeatureState {
    /// True if it has its prior value.
    pub fn is_as_before(&self) -> bool {
        self.current == Ok(self.prior.value)
    }
}

impl fmt::Display for FeatureState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wanted = self.prior.value;
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

/// Gives a controller's features their prior values where a reset changed them.
///
/// # Errors
/// The name of the feature whose command did not end, and why.
pub(super) fn set_features(
    admin: &mut Admin,
    features: &[FeatureValue],
    limit: Duration,
) -> Result<Vec<FeatureState>, (&'static str, AdminFailure)> {
    let set =
        |&prior: &FeatureValue| set_feature(admin, prior, limit).map_err(|failure| (prior.name, failure));
    features.iter().map(set).collect()
}

fn set_feature(
    admin: &mut Admin,
    prior: FeatureValue,
    limit: Duration,
) -> Result<FeatureState, AdminFailure> {
    let mut current = get(admin, prior, limit)?;
    let mut refusal = None;
    if current != Ok(prior.value) {
        refusal = answer(admin.execute(Command::set_feature(prior.id, prior.value), limit))?.err();
        current = get(admin, prior, limit)?;
    }
    Ok(FeatureState { prior, current, refusal })
}

fn get(admin: &mut Admin, feature: FeatureValue, limit: Duration) -> Result<Result<u32, u16>, AdminFailure> {
    let value = answer(admin.execute(Command::get_feature(feature.id), limit))?;
    Ok(value.map(|value| value & feature.mask))
}

/// A refusal is an answer, not a failure.
fn answer(outcome: Result<u32, AdminFailure>) -> Result<Result<u32, u16>, AdminFailure> {
    match outcome {
        Ok(value) => Ok(Ok(value)),
        Err(AdminFailure::Status(status)) => Ok(Err(status)),
        Err(failure) => Err(failure),
    }
}
