//! A drive that is not at hand, by its data sheet, in place of the one that a model was calibrated on.

use crate::parameter::Kind;
use std::str::FromStr;

/// What a data sheet says of a drive.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DataSheet {
    /// Time of one read of 4 KiB that finds the drive idle, in ns.
    pub read_ns: Option<f64>,
    /// Time of one such write, in ns.
    pub write_ns: Option<f64>,
    /// I/Os that it serves at once: its greatest rate times its time.
    pub parallelism: Option<f64>,
}

/// Bytes of an I/O of which a data sheet says the time.
pub(crate) const SHEET_BYTES: f64 = 4096.0;
/// Standard deviation of the logarithm of a data sheet's figure: vendors measure in their own way.
pub(crate) const SPREAD: f64 = 0.1;

impl DataSheet {
    /// What it says of the time of a kind of I/O, in ns.
    pub(crate) fn time_ns(&self, kind: Kind) -> Option<f64> {
        if kind.writes() { self.write_ns } else { self.read_ns }
    }
}

/// A text that says nothing of a drive.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` does not describe a drive: write read=8us,write=10us,parallelism=7, or a part of it")]
pub struct ParseDataSheetError(pub String);

impl FromStr for DataSheet {
    type Err = ParseDataSheetError;

    fn from_str(text: &str) -> Result<DataSheet, ParseDataSheetError> {
        let error = || ParseDataSheetError(text.to_owned());
        let mut sheet = DataSheet::default();
        for part in text.split(',') {
            let (key, value) = part.split_once('=').ok_or_else(error)?;
            let time = || {
                let ns = iopj_core::parse_duration(value).ok()?.as_nanos();
                (ns > 0).then_some(ns as f64)
            };
            let place = match key.trim() {
                "read" => (&mut sheet.read_ns, time()),
                "write" => (&mut sheet.write_ns, time()),
                "parallelism" => {
                    let count = value.parse::<f64>().ok();
                    (&mut sheet.parallelism, count.filter(|count| count.is_finite() && *count >= 1.0))
                }
                _ => return Err(error()),
            };
            if place.0.is_some() {
                return Err(error());
            }
            *place.0 = Some(place.1.ok_or_else(error)?);
        }
        Ok(sheet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_sheet_is_read_in_parts() {
        let sheet: DataSheet = "read=8us,write=10us,parallelism=7".parse().unwrap();
        let exact = DataSheet { read_ns: Some(8_000.0), write_ns: Some(10_000.0), parallelism: Some(7.0) };
        assert_eq!(sheet, exact);
        assert_eq!("read=8us".parse(), Ok(DataSheet { read_ns: Some(8_000.0), ..DataSheet::default() }));
        for text in
            ["", "8us", "read", "read=0us", "read=-1us", "read=1us,read=2us", "parallelism=0.5", "x=1"]
        {
            assert!(text.parse::<DataSheet>().is_err(), "{text}");
        }
    }
}
