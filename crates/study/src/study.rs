//! Study files: a matrix of paths and workloads as TOML, and its validation.
//!
//! The schema is in `docs/studies.md`. Values may be single or lists; a list is an axis of the matrix. An
//! unknown key is refused with the nearest known one.

use crate::axis::Axis;
use crate::beside;
use crate::error::{StudyError, error};
use crate::fabric::Fabric;
use crate::keys::{check_keys, fields_of};
use crate::matrix::WorkloadMatrix;
use crate::meters::Meters;
use crate::mistakes;
use crate::program::{DEFAULT_SIZE, Program};
use crate::replicates::{Replicates, Until};
use crate::score::ScoreKeys;
use crate::settings;
use crate::steadystate::SteadyStateKeys;
use crate::time::duration;
use iopj_core::{Generator, Setting, parse_bytes};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// A study as in its file: texts in the user's units.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Study {
    /// Name of the study, and of its store.
    pub name: String,
    /// I/O paths; `available` stands for every path without variants that works on the target. None in the
    /// study of a program.
    #[serde(default = "no_path", skip_serializing_if = "is_no_path")]
    pub paths: Axis<String>,
    /// What issues the I/O: `native`, `fio`, or both; or `program`.
    #[serde(default = "native")]
    pub generator: Axis<String>,
    /// How often each cell is measured.
    #[serde(default)]
    pub replicates: Replicates,
    /// Seed of the order and of the offsets; drawn and stored if absent.
    pub seed: Option<u64>,
    /// Size of the file that is made if no target is named.
    #[serde(default = "one_gib")]
    pub size: String,
    /// Bring the target to the state of each class of workloads before it is measured.
    #[serde(default)]
    pub precondition: bool,
    /// When a ramp ends: `iops_slope:N%`, or `none`; ten per cent over `steadystate_duration` if absent.
    pub steadystate: Option<String>,
    /// The stretch at a ramp's end that must be steady; `ramp_time` if absent.
    pub steadystate_duration: Option<String>,
    /// The longest ramp; ten times the shortest if absent.
    pub steadystate_limit: Option<String>,
    /// Sample every trial by function.
    #[serde(default)]
    pub profile: bool,
    /// Settings by name, in force while trials run; a list is an axis.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, Axis<toml::Value>>,
    /// Meters that run beside the trials; those of the machine itself if absent.
    pub meters: Option<Meters>,
    /// Length of an idle stretch between trials; ten readings of the slowest meter if absent.
    pub idle: Option<String>,
    /// The longest wait for power to be flat before an idle stretch; if absent, it follows from the meters
    /// and the length of the trials.
    pub settle_limit: Option<String>,
    /// How fio is run.
    pub fio: Option<FioOptions>,
    /// The target host, if the drive is reached over fabrics.
    pub fabric: Option<Fabric>,
    /// The program that does its own I/O, if that is the generator.
    pub program: Option<Program>,
    /// What is demanded of the paths that choose their way.
    pub score: Option<ScoreKeys>,
    /// Workloads; each table is a matrix of its own.
    #[serde(rename = "workload")]
    pub workloads: Vec<WorkloadMatrix>,
}

/// `[fio]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FioOptions {
    /// The fio to run instead of the installed one; needs `--allow-exec`.
    pub program: Option<PathBuf>,
    /// SPDK's plugin for fio instead of the one in a known place; needs `--allow-exec`.
    pub spdk_plugin: Option<PathBuf>,
}

fn no_path() -> Axis<String> {
    Axis::Many(Vec::new())
}

fn is_no_path(paths: &Axis<String>) -> bool {
    paths.count() == 0
}

fn native() -> Axis<String> {
    Axis::One("native".to_owned())
}

fn one_gib() -> String {
    DEFAULT_SIZE.to_owned()
}

impl Study {
    /// Why a study with writes writes its target.
    pub const WRITES: &str = "the study writes";

    /// Why the study writes its target, where it does.
    ///
    /// # Errors
    /// A workload that cannot be.
    pub fn why_written(&self) -> Result<Option<&'static str>, StudyError> {
        for matrix in &self.workloads {
            if matrix.workloads()?.iter().any(iopj_core::Workload::writes) {
                return Ok(Some(Study::WRITES));
            }
        }
        let fills = "the study has `precondition = true`, which writes the whole target";
        Ok(self.precondition.then_some(fills))
    }

    /// Reads a study file's text; `source` names it in messages.
    ///
    /// # Errors
    /// Text that is not TOML, an unknown key with the nearest known one, or a value of the wrong type.
    pub fn parse(text: &str, source: &str) -> Result<Study, StudyError> {
        let table: toml::Table = text.parse().map_err(|e: toml::de::Error| {
            StudyError(format!("{source} is not TOML: {}", mistakes::message(text, &e)))
        })?;
        check_study_keys(&table, source)?;
        Program::check_table(&table, &generator_words(&table), source)?;
        if let Some(toml::Value::Table(fio)) = table.get("fio") {
            check_keys(fio, fields_of::<FioOptions>(), source, " in [fio]")?;
        }
        if let Some(toml::Value::Table(score)) = table.get("score") {
            check_keys(score, fields_of::<ScoreKeys>(), source, " in [score]")?;
        }
        if let Some(toml::Value::Table(fabric)) = table.get("fabric") {
            Fabric::check_table(fabric, source)?;
        }
        if let Some(toml::Value::Table(blocks)) = table.get("replicates") {
            check_keys(blocks, fields_of::<Until>(), source, " in replicates")?;
        }
        let study: Study = toml::from_str(text)
            .map_err(|e| StudyError(format!("{source}: {}", mistakes::message(text, &e))))?;
        check_name(&study.name, source)?;
        study.replicates.sequential().map_err(|StudyError(why)| StudyError(format!("{source}: {why}")))?;
        let score = study.score.as_ref().map_or(Ok(()), ScoreKeys::check);
        score.map_err(|StudyError(why)| StudyError(format!("{source}: {why}")))?;
        study.meters.iter().try_for_each(|meters| meters.asked(source, Meters::TABLE).map(drop))?;
        let fabric = study.fabric.as_ref().map_or(Ok(()), |fabric| fabric.check(study.meters.as_ref()));
        fabric.map_err(|StudyError(why)| StudyError(format!("{source}: {why}")))?;
        let far = study.fabric.as_ref().and_then(|fabric| fabric.meters.as_ref());
        far.map_or(Ok(()), |meters| meters.asked(source, Fabric::METERS).map(drop))?;
        let program = study.program.as_ref().map_or(Ok(()), |program| program.check(&study.workloads));
        program.map_err(|StudyError(why)| StudyError(format!("{source}: {why}")))?;
        study.idle()?;
        study.settle_limit()?;
        study.steadystate()?;
        Ok(study)
    }

    /// Gives the study another name; `source` says in a message who asks for it.
    ///
    /// # Errors
    /// A name that cannot name a store.
    pub fn rename(&mut self, name: &str, source: &str) -> Result<(), StudyError> {
        check_name(name, source)?;
        name.clone_into(&mut self.name);
        Ok(())
    }

    /// The study as TOML.
    ///
    /// # Errors
    /// A value that TOML cannot hold, such as a seed above 2^63.
    pub fn to_toml(&self) -> Result<String, StudyError> {
        toml::to_string(self).map_err(|e| StudyError(format!("the study cannot be written: {e}")))
    }

    /// The study as a store keeps it: as TOML, and without the tokens in addresses of meters.
    ///
    /// # Errors
    /// As for [`Study::to_toml`].
    pub fn to_store(&self) -> Result<String, StudyError> {
        let mut study = self.clone();
        study.meters = study.meters.as_ref().map(Meters::without_tokens);
        if let Some(fabric) = &mut study.fabric {
            fabric.meters = fabric.meters.as_ref().map(Meters::without_tokens);
        }
        study.to_toml()
    }

    /// Refuses a study of a store whose meters need a token that the store does not keep.
    ///
    /// # Errors
    /// The key, and what to do.
    pub fn check_tokens(&self) -> Result<(), StudyError> {
        let tables = [
            (Meters::TABLE, self.meters.as_ref()),
            (Fabric::METERS, self.fabric.as_ref().and_then(|fabric| fabric.meters.as_ref())),
        ];
        let lacking = tables.into_iter().find_map(|(table, meters)| Some((table, meters?.lacks_token()?)));
        lacking.map_or(Ok(()), |(table, key)| {
            error(format!(
                "the store does not keep the token in `{table}.{key}`, so its run cannot be continued with \
                 that meter: write {{password}} in the token's place, name its file or variable by \
                 password_file or password_env, and start a new store"
            ))
        })
    }

    /// The combinations of settings; one empty combination if there are no settings.
    ///
    /// # Errors
    /// An unknown setting, a value that it cannot have, an empty list.
    pub fn settings_matrix(&self) -> Result<Vec<BTreeMap<Setting, String>>, StudyError> {
        let of_nic = |name: &&String| name.parse().is_ok_and(Setting::is_of_nic);
        if let Some(name) = self.settings.keys().find(of_nic) {
            return error(format!(
                "`{name}` is a setting of the network card that leads to another host: write it in \
                 [fabric], as host.{name} or target.{name}"
            ));
        }
        settings::matrix(&self.settings)
    }

    /// The generators.
    ///
    /// # Errors
    /// An unknown name, or no name.
    pub fn generators(&self) -> Result<Vec<Generator>, StudyError> {
        let parse = |name: String| match name.as_str() {
            "native" => Ok(Generator::Native),
            "fio" => Ok(Generator::Fio),
            "program" => Ok(Generator::Program),
            other => error(format!("there is no generator `{other}`: there are native, fio and program")),
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
    /// It is not a size.
    pub fn file_size(&self) -> Result<u64, StudyError> {
        let size = parse_bytes(&self.size).map_err(|e| StudyError(format!("size: {e}")))?;
        if size == 0 || !size.is_multiple_of(4096) {
            return error(format!("size: {} is not a multiple of 4k: choose one, such as 1g", self.size));
        }
        Ok(size)
    }

    /// Its keys about the steady state that ends a ramp.
    ///
    /// # Errors
    /// A bad criterion, or a time that is bad or too short.
    pub fn steadystate(&self) -> Result<SteadyStateKeys, StudyError> {
        let time = |key, text: &Option<String>| text.as_deref().map(|text| duration(key, text)).transpose();
        let length = time("steadystate_duration", &self.steadystate_duration)?;
        let limit = time("steadystate_limit", &self.steadystate_limit)?;
        SteadyStateKeys::new(self.steadystate.as_deref(), length, limit)
    }

    /// The length of an idle stretch, if it is given.
    ///
    /// # Errors
    /// It is not a time.
    pub fn idle(&self) -> Result<Option<Duration>, StudyError> {
        self.idle.as_deref().map(|text| duration("idle", text)).transpose()
    }

    /// The longest wait for power to be flat, if it is given.
    ///
    /// # Errors
    /// It is not a time.
    pub fn settle_limit(&self) -> Result<Option<Duration>, StudyError> {
        self.settle_limit.as_deref().map(|text| duration("settle_limit", text)).transpose()
    }
}

/// The words of the generators, as far as they are words.
fn generator_words(table: &toml::Table) -> Vec<&str> {
    match table.get("generator") {
        None => vec!["native"],
        Some(toml::Value::Array(words)) => words.iter().filter_map(toml::Value::as_str).collect(),
        Some(word) => word.as_str().into_iter().collect(),
    }
}

/// Refuses a key of a study that is unknown or missing, with an example of what is needed.
fn check_study_keys(table: &toml::Table, source: &str) -> Result<(), StudyError> {
    let (study, workload) = (fields_of::<Study>(), fields_of::<WorkloadMatrix>());
    if let Some(key) =
        table.keys().find(|key| !study.contains(&key.as_str()) && workload.contains(&key.as_str()))
    {
        return error(format!(
            "{source}: `{key}` is a key of a workload: write it below a line [[workload]]"
        ));
    }
    check_keys(table, study, source, "")?;
    for (key, example) in [("name", "name = \"my-study\""), ("paths", "paths = \"available\"")] {
        let is_optional =
            key == "paths" && (table.contains_key("program") || generator_words(table).contains(&"program"));
        if !table.contains_key(key) && !is_optional {
            return error(format!(
                "{source}: `{key}` is missing: write {example} above the first [[workload]]"
            ));
        }
    }
    let workloads = match table.get("workload") {
        None => &[][..],
        Some(toml::Value::Array(all)) if all.iter().all(toml::Value::is_table) => all,
        Some(_) => return error(format!("{source}: `workload` is a list of tables: write [[workload]]")),
    };
    if workloads.is_empty() {
        return error(format!(
            "{source} has no workload: write the line [[workload]], and below it lines such as rw = \
             \"randread\", iodepth = [1, 32] and runtime = \"5s\""
        ));
    }
    for workload_table in workloads.iter().filter_map(toml::Value::as_table) {
        let misplaced = |key: &&String| !workload.contains(&key.as_str()) && study.contains(&key.as_str());
        if let Some(key) = workload_table.keys().find(misplaced) {
            return error(format!(
                "{source}: `{key}` is a key of the study: write it above the first [[workload]]"
            ));
        }
        check_keys(workload_table, workload, source, " in [[workload]]")?;
        beside::check_tables(workload_table, source)?;
    }
    Ok(())
}

/// Refuses a name that leads to another folder: the store gets the name of the study.
fn check_name(name: &str, source: &str) -> Result<(), StudyError> {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | ' ');
    if name.chars().all(plain) && !name.starts_with('.') && (1..=100).contains(&name.len()) {
        return Ok(());
    }
    error(format!(
        "{source}: name: `{name}` cannot name a store: write up to 100 letters, digits, `-`, `_` and `.`"
    ))
}

#[cfg(test)]
mod tests;
