//! Values of a workload's keys, read from their texts.

use crate::axis::Axis;
use crate::error::{StudyError, error};
use iopj_core::{IoPath, format_bytes, parse_bytes};
use std::fmt::Display;
use std::str::FromStr;

pub(crate) fn parsed<T: FromStr<Err: Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|e: T::Err| e.to_string())
}

pub(crate) fn count(number: &u32) -> Result<u32, String> {
    if *number == 0 { Err("0 is too few: the least is 1".to_owned()) } else { Ok(*number) }
}

/// The largest `bs`: what the kernel moves in one system call is a little under 2 GiB.
const MAX_BS: u64 = 1 << 30;

#[allow(clippy::ptr_arg)] // the axis holds Strings
pub(crate) fn block_size(text: &String) -> Result<u32, String> {
    let bytes = parse_bytes(text).map_err(|e| e.to_string())?;
    match bytes {
        1..=MAX_BS => Ok(bytes as u32),
        _ => Err(format!("{} is not between 1 and {}", format_bytes(bytes), format_bytes(MAX_BS))),
    }
}

/// The paths of a `paths` key; `None` if it says `available`.
///
/// # Errors
/// A text that does not name a path, an empty list, or `available` beside others.
pub fn parse_paths(paths: &Axis<String>) -> Result<Option<Vec<IoPath>>, StudyError> {
    let texts = paths.values();
    if texts.is_empty() {
        return error("`paths` is an empty list: name at least one path, or `available`");
    }
    if texts == ["available"] {
        return Ok(None);
    }
    if texts.iter().any(|text| text == "available") {
        return error(
            "`available` means every path that works, so it must be alone in `paths`: leave the others out",
        );
    }
    texts
        .iter()
        .map(|text| text.parse().map_err(|e| StudyError(format!("{e}"))))
        .collect::<Result<Vec<_>, _>>()
        .map(Some)
}

/// Processors from a list such as `0-3,8`.
pub(crate) fn parse_cpus(key: &str, text: &str) -> Result<Vec<u32>, StudyError> {
    let range = |part: &str| -> Option<std::ops::RangeInclusive<u32>> {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        (first <= last && last < 4096).then_some(first..=last)
    };
    let ranges: Option<Vec<_>> = text.split(',').map(range).collect();
    match ranges {
        Some(ranges) => Ok(ranges.into_iter().flatten().collect()),
        None => error(format!("{key}: `{text}` is not a list of processors; write it as 0-3,8")),
    }
}
