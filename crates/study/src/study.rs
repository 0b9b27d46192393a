//! Study files: a matrix of paths and workloads as TOML, and its validation.
//!
//! The schema stands in `docs/studies.md`. Values may be single or lists; a list is an axis of the
//! matrix. Unknown keys are refused with the nearest right one.

mod replicates;

pub use replicates::Replicates;

use crate::energy::{self, Meters};
use crate::settings::{Setting, validate_value};
use crate::steadystate::Declared;
use iopj_core::workload::{Length, RandomDistribution, Rw, Workload};
use iopj_core::{IoPath, format_bytes, format_duration, parse_bytes, parse_duration};
use iopj_store::Generator;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Why a study cannot be used; one message with thing, cause and remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct StudyError(pub String);

fn error<T>(message: impl Into<String>) -> Result<T, StudyError> {
    Err(StudyError(message.into()))
}

/// A value or a list of values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "write one value or a list of them, of the right type and range")]
pub enum Axis<T> {
    /// Several values.
    Many(Vec<T>),
    /// One value.
    One(T),
}

impl<T: Clone> Axis<T> {
    fn values(&self) -> Vec<T> {
        match self {
            Axis::One(value) => vec![value.clone()],
            Axis::Many(values) => values.clone(),
        }
    }
}

/// A study as its file has it: texts in the users' units.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Study {
    /// Name of the study, and of its store.
    pub name: String,
    /// I/O paths; `available` stands for every path without variants that works on the target.
    pub paths: Axis<String>,
    /// What issues the I/O: `native`, `fio`, or both.
    #[serde(default = "native")]
    pub generator: Axis<String>,
    /// Times that each cell is measured.
    #[serde(default)]
    pub replicates: Replicates,
    /// Seed of the order and of the offsets; drawn and stored if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Size of the file that is made where no target is named.
    #[serde(default = "one_gib")]
    pub size: String,
    /// Bring the target to the state of each class of workloads before it is measured.
    #[serde(default)]
    pub precondition: bool,
    /// When a ramp has been long enough: `iops_slope:N%`, or `none`; ten per cent over `steadystate_duration`
    /// if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steadystate: Option<String>,
    /// The stretch at a ramp's end that is looked at; `ramp_time` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steadystate_duration: Option<String>,
    /// The longest ramp; ten of the shortest if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steadystate_limit: Option<String>,
    /// Sample every trial by function.
    #[serde(default)]
    pub profile: bool,
    /// Settings by name that hold while trials run; a list is an axis.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, Axis<toml::Value>>,
    /// Meters that run beside the trials; those of the machine itself if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meters: Option<Meters>,
    /// Length of an idle stretch between trials; ten readings of the slowest meter if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<String>,
    /// The longest wait for power to be flat before an idle stretch; told by the meters and the time of the
    /// trials if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settle_limit: Option<String>,
    /// How fio is run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fio: Option<FioOptions>,
    /// Workloads; each table is a matrix of its own.
    #[serde(rename = "workload")]
    pub workloads: Vec<WorkloadMatrix>,
}

/// `[fio]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FioOptions {
    /// The fio to run instead of the installed one; needs `--allow-exec`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<PathBuf>,
    /// SPDK's plugin for fio instead of the one in a known place; needs `--allow-exec`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spdk_plugin: Option<PathBuf>,
}

/// `[[workload]]`: every key in fio's words.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct WorkloadMatrix {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paths: Option<Axis<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rw: Option<Axis<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rwmixread: Option<Axis<u8>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bs: Option<Axis<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iodepth: Option<Axis<u32>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iodepth_batch_submit: Option<Axis<u32>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iodepth_batch_complete_min: Option<Axis<u32>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numjobs: Option<Axis<u32>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub random_distribution: Option<Axis<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus_allowed: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ramp_time: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ios: Option<u64>,
}

fn native() -> Axis<String> {
    Axis::One("native".to_owned())
}

fn one_gib() -> String {
    "1g".to_owned()
}

const STUDY_KEYS: &[&str] = &[
    "name",
    "paths",
    "generator",
    "replicates",
    "seed",
    "size",
    "precondition",
    "steadystate",
    "steadystate_duration",
    "steadystate_limit",
    "profile",
    "meters",
    "idle",
    "settle_limit",
    "settings",
    "fio",
    "workload",
];
const WORKLOAD_KEYS: &[&str] = &[
    "paths",
    "rw",
    "rwmixread",
    "bs",
    "iodepth",
    "iodepth_batch_submit",
    "iodepth_batch_complete_min",
    "numjobs",
    "random_distribution",
    "cpus_allowed",
    "ramp_time",
    "runtime",
    "ios",
];

impl Study {
    /// Reads a study file's text; `source` names it in messages.
    ///
    /// # Errors
    /// TOML that is none, an unknown key with the nearest right one, or a value of the wrong type.
    pub fn parse(text: &str, source: &str) -> Result<Study, StudyError> {
        let table: toml::Table = text.parse().map_err(|e: toml::de::Error| {
            StudyError(format!("{source} is no TOML: {}", toml_message(text, &e)))
        })?;
        check_keys(&table, STUDY_KEYS, source, "")?;
        if let Some(toml::Value::Array(workloads)) = table.get("workload") {
            for workload in workloads.iter().filter_map(toml::Value::as_table) {
                check_keys(workload, WORKLOAD_KEYS, source, " in [[workload]]")?;
            }
        } else if table.contains_key("workload") {
            return error(format!("{source}: `workload` is a list of tables: write [[workload]]"));
        } else {
            return error(format!("{source} has no workload: write a [[workload]]"));
        }
        if let Some(toml::Value::Table(fio)) = table.get("fio") {
            check_keys(fio, &["program", "spdk_plugin"], source, " in [fio]")?;
        }
        if let Some(toml::Value::Table(blocks)) = table.get("replicates") {
            check_keys(blocks, replicates::KEYS, source, " in replicates")?;
        }
        let study: Study =
            toml::from_str(text).map_err(|e| StudyError(format!("{source}: {}", toml_message(text, &e))))?;
        check_name(&study.name, source)?;
        study.replicates.sequential().map_err(|StudyError(why)| StudyError(format!("{source}: {why}")))?;
        energy::check(&study, source)?;
        Declared::of(&study)?;
        Ok(study)
    }

    /// The study as TOML.
    ///
    /// # Errors
    /// A value that TOML cannot hold, such as a seed above 2^63.
    pub fn to_toml(&self) -> Result<String, StudyError> {
        toml::to_string(self).map_err(|e| StudyError(format!("the study cannot be written: {e}")))
    }

    /// The settings' combinations: one empty combination where there are none.
    ///
    /// # Errors
    /// An unknown setting, a value that it cannot have, an empty list.
    pub fn settings_matrix(&self) -> Result<Vec<BTreeMap<Setting, String>>, StudyError> {
        let mut combinations = vec![BTreeMap::new()];
        for (name, axis) in &self.settings {
            let setting: Setting = name.parse().map_err(|e| StudyError(format!("{e}")))?;
            let mut values = Vec::new();
            for value in axis.values() {
                let text = match value {
                    toml::Value::String(text) => text,
                    toml::Value::Integer(number) => number.to_string(),
                    toml::Value::Boolean(on) => if on { "1" } else { "0" }.to_owned(),
                    other => {
                        return error(format!(
                            "the setting `{name}` cannot be {other}: write a text or a whole number"
                        ));
                    }
                };
                validate_value(setting, &text).map_err(|e| StudyError(e.to_string()))?;
                values.push(text);
            }
            if values.is_empty() {
                return error(format!("the setting `{name}` has no value: give it one, or leave it out"));
            }
            combinations = product(&combinations, &values, |combination, value| {
                combination.insert(setting, value.clone());
            });
        }
        Ok(combinations)
    }

    /// The generators.
    ///
    /// # Errors
    /// A name that is none, or none at all.
    pub fn generators(&self) -> Result<Vec<Generator>, StudyError> {
        let parse = |name: String| match name.as_str() {
            "native" => Ok(Generator::Native),
            "fio" => Ok(Generator::Fio),
            other => error(format!("there is no generator `{other}`: there are native and fio")),
        };
        let generators = self.generator.values().into_iter().map(parse).collect::<Result<Vec<_>, _>>()?;
        if generators.is_empty() {
            error("`generator` is an empty list: name native, fio or both")
        } else {
            Ok(generators)
        }
    }

    /// The size of a file to be made, in bytes.
    ///
    /// # Errors
    /// It is no size.
    pub fn file_size(&self) -> Result<u64, StudyError> {
        let size = parse_bytes(&self.size).map_err(|e| StudyError(format!("size: {e}")))?;
        if size == 0 || !size.is_multiple_of(4096) {
            return error(format!("size: {} is not a multiple of 4k: choose one, such as 1g", self.size));
        }
        Ok(size)
    }
}

/// The paths of a `paths` key: `None` where it says `available`.
///
/// # Errors
/// A text that names no path, an empty list, or `available` beside others.
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
            "`available` stands for every path that works, so it stands alone in `paths`: leave the others \
             out",
        );
    }
    texts
        .iter()
        .map(|text| text.parse().map_err(|e| StudyError(format!("{e}"))))
        .collect::<Result<Vec<_>, _>>()
        .map(Some)
}

impl WorkloadMatrix {
    /// Every workload of the matrix.
    ///
    /// # Errors
    /// A value that is none, or an empty list.
    pub fn workloads(&self) -> Result<Vec<Workload>, StudyError> {
        let length = match (&self.runtime, self.ios) {
            (Some(_), Some(_)) => return error("a workload has both `runtime` and `ios`: leave one out"),
            (Some(text), None) => Length::Runtime(duration("runtime", text)?),
            (None, Some(0)) => return error("`ios` is 0: give the number of I/Os of each job"),
            (None, Some(ios)) => Length::Ios(ios),
            (None, None) => Workload::default().length,
        };
        if length == Length::Runtime(Duration::ZERO) {
            return error("`runtime` is 0: give a time such as 10s");
        }
        let ramp_time =
            self.ramp_time.as_deref().map_or(Ok(Duration::ZERO), |text| duration("ramp_time", text))?;
        let cpus_allowed = self.cpus_allowed.as_deref().map_or(Ok(Vec::new()), parse_cpus)?;
        let mut all = vec![Workload { length, ramp_time, cpus_allowed, ..Workload::default() }];
        spread(&mut all, "rw", &self.rw, |text| parsed::<Rw>(text), |w, rw| w.rw = *rw)?;
        let percent =
            |text: &u8| if *text <= 100 { Ok(*text) } else { Err(format!("{text} is above 100 per cent")) };
        spread(&mut all, "rwmixread", &self.rwmixread, percent, |w, share| w.rwmixread = *share)?;
        spread(&mut all, "bs", &self.bs, block_size, |w, bs| w.bs = *bs)?;
        spread(&mut all, "iodepth", &self.iodepth, count, |w, depth| w.iodepth = *depth)?;
        let batch = &self.iodepth_batch_submit;
        spread(&mut all, "iodepth_batch_submit", batch, count, |w, batch| w.iodepth_batch_submit = *batch)?;
        let least = &self.iodepth_batch_complete_min;
        spread(&mut all, "iodepth_batch_complete_min", least, count, |w, least| {
            w.iodepth_batch_complete_min = *least
        })?;
        spread(&mut all, "numjobs", &self.numjobs, count, |w, jobs| w.numjobs = *jobs)?;
        let spreads = &self.random_distribution;
        spread(
            &mut all,
            "random_distribution",
            spreads,
            |text| parsed::<RandomDistribution>(text),
            |w, spread| {
                w.random_distribution = *spread;
            },
        )?;
        Ok(all)
    }
}

fn spread<T: Clone, V>(
    all: &mut Vec<Workload>,
    key: &str,
    axis: &Option<Axis<T>>,
    parse: impl Fn(&T) -> Result<V, String>,
    set: impl Fn(&mut Workload, &V),
) -> Result<(), StudyError> {
    let Some(axis) = axis else { return Ok(()) };
    let values: Result<Vec<V>, String> = axis.values().iter().map(parse).collect();
    let values = values.map_err(|e| StudyError(format!("{key}: {e}")))?;
    if values.is_empty() {
        return error(format!("`{key}` is an empty list: give it a value, or leave it out"));
    }
    *all = product(all, &values, set);
    Ok(())
}

/// Every element with every value set in it.
fn product<T: Clone, V>(all: &[T], values: &[V], set: impl Fn(&mut T, &V)) -> Vec<T> {
    let each = |element: &T| {
        let with = |value: &V| {
            let mut element = element.clone();
            set(&mut element, value);
            element
        };
        values.iter().map(with).collect::<Vec<_>>()
    };
    all.iter().flat_map(each).collect()
}

fn parsed<T: FromStr<Err: Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|e: T::Err| e.to_string())
}

fn count(number: &u32) -> Result<u32, String> {
    if *number == 0 { Err("0 is too few: the least is 1".to_owned()) } else { Ok(*number) }
}

/// The largest `bs`: what the kernel moves in one system call is a little under 2 GiB.
const MAX_BS: u64 = 1 << 30;

#[allow(clippy::ptr_arg)] // the axis holds Strings
fn block_size(text: &String) -> Result<u32, String> {
    let bytes = parse_bytes(text).map_err(|e| e.to_string())?;
    match bytes {
        1..=MAX_BS => Ok(bytes as u32),
        _ => Err(format!("{} is not between 1 and {}", format_bytes(bytes), format_bytes(MAX_BS))),
    }
}

pub(crate) fn duration(key: &str, text: &str) -> Result<Duration, StudyError> {
    let time = parse_duration(text).map_err(|e| StudyError(format!("{key}: {e}")))?;
    let most = Duration::from_secs(7 * 24 * 3600);
    if time > most {
        return error(format!("{key}: {} is longer than {}", format_duration(time), format_duration(most)));
    }
    Ok(time)
}

/// Processors from a list such as `0-3,8`.
fn parse_cpus(text: &str) -> Result<Vec<u32>, StudyError> {
    let range = |part: &str| -> Option<std::ops::RangeInclusive<u32>> {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        (first <= last && last < 4096).then_some(first..=last)
    };
    let ranges: Option<Vec<_>> = text.split(',').map(range).collect();
    match ranges {
        Some(ranges) => Ok(ranges.into_iter().flatten().collect()),
        None => error(format!("cpus_allowed: `{text}` is no list of processors; write it as 0-3,8")),
    }
}

pub(crate) fn check_keys(
    table: &toml::Table,
    known: &[&str],
    source: &str,
    place: &str,
) -> Result<(), StudyError> {
    let Some(unknown) = table.keys().find(|key| !known.contains(&key.as_str())) else { return Ok(()) };
    let distance = |name: &&&str| strsim::damerau_levenshtein(name, unknown);
    let advice = match known.iter().min_by_key(distance) {
        Some(nearest) if distance(&nearest) <= 1 + nearest.len() / 3 => format!("did you mean `{nearest}`?"),
        _ => format!("there are {}", known.join(", ")),
    };
    error(format!("{source}: unknown key `{unknown}`{place}: {advice}"))
}

/// The name is that of the store, so that it must not lead to another folder.
fn check_name(name: &str, source: &str) -> Result<(), StudyError> {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | ' ');
    if name.chars().all(plain) && !name.starts_with('.') && (1..=100).contains(&name.len()) {
        return Ok(());
    }
    error(format!(
        "{source}: name: `{name}` cannot name a store: write up to 100 letters, digits, `-`, `_` and `.`"
    ))
}

/// A TOML error in one line, with the line where it stands.
fn toml_message(text: &str, error: &toml::de::Error) -> String {
    let message = error.message().replace('\n', ", ");
    match error.span() {
        Some(span) => {
            let line = 1 + text.as_bytes()[..span.start.min(text.len())]
                .iter()
                .filter(|byte| **byte == b'\n')
                .count();
            // Where the error is of one line, its words name the key.
            match text.get(span).filter(|part| !part.is_empty() && !part.contains('\n')) {
                Some(_) => {
                    format!(
                        "line {line}, `{}`: {message}",
                        shown(text.lines().nth(line - 1).unwrap_or_default().trim())
                    )
                }
                None => format!("line {line}: {message}"),
            }
        }
        None => message,
    }
}

/// A line of a study in a message: what may be a secret in the wrong place is left out.
fn shown(line: &str) -> &str {
    const SECRET: [&str; 5] = ["pass", "secret", "token", "community", "://"];
    let lower = line.to_lowercase();
    match line.split_once('=') {
        _ if !SECRET.iter().any(|word| lower.contains(word)) => line,
        Some((key, _)) if key.len() < 40 => key.trim(),
        _ => "...",
    }
}

#[cfg(test)]
mod tests;
