//! What `ipmitool dcmi power reading` prints.

use thiserror::Error;

/// A power reading of the Data Center Manageability Interface (DCMI 1.5, section 6.6.1, Get Power Reading in
/// mode 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DcmiPower {
    /// Power now, in W.
    pub instant_watts: u32,
    /// Least power in the sampling period, in W.
    pub minimum_watts: u32,
    /// Greatest power in the sampling period, in W.
    pub maximum_watts: u32,
    /// Mean power of the sampling period, in W.
    pub average_watts: u32,
    /// The sampling period in s, rounded down; 0 if the BMC does not say.
    pub sampling_s: u32,
    /// Whether the BMC says that it measures. Some deny it and give good figures (OpenBMC).
    pub activated: bool,
}

/// A label is missing, or no number follows it.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("`{0}` has no value")]
pub struct DcmiError(pub &'static str);

/// Reads the text. Its figures are found by their labels, wherever these are: spacing differs between
/// versions, and 1.8.19 does not end the line after the time stamp.
///
/// # Errors
/// [`DcmiError`] names the first label without a value.
pub fn parse_dcmi(text: &str) -> Result<DcmiPower, DcmiError> {
    let number = |label: &'static str| {
        let value = after(text, label).ok_or(DcmiError(label))?;
        let end = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
        value[..end].parse::<u32>().map_err(|_| DcmiError(label))
    };
    let state = "Power reading state is";
    Ok(DcmiPower {
        instant_watts: number("Instantaneous power reading")?,
        minimum_watts: number("Minimum during sampling period")?,
        maximum_watts: number("Maximum during sampling period")?,
        average_watts: number("Average power reading over sample period")?,
        sampling_s: number("Sampling period")?,
        activated: after(text, state).ok_or(DcmiError(state))?.starts_with("activated"),
    })
}

/// The text after the first `label:`.
fn after<'a>(text: &'a str, label: &str) -> Option<&'a str> {
    text.match_indices(label)
        .find_map(|(at, _)| text[at + label.len()..].trim_start().strip_prefix(':'))
        .map(str::trim_start)
}
