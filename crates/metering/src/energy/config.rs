//! `meters` of a study: which meters run beside the trials, as their tables say.

use super::kinds::{KINDS, OpenMeter, parsed};
use iopj_core::energy::Scope;
use iopj_meter::log::LogConfig;
use iopj_meter::{Cadence, ChannelKind};
use iopj_store::{Store, StoreError};
use iopj_study::keys::{check_keys, fields_of};
use iopj_study::{Fabric, Meters, MetersAsked, Study, StudyError, duration};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::path::PathBuf;
use std::time::Duration;

/// Keys of a log's table and their values.
pub(crate) type JsonMap = Map<String, Value>;

/// A meter that is read out afterwards, and attached by `iopj meter attach`.
pub(crate) const LOG: &str = "log";
/// A log's key for what its values mean, which its own configuration calls `kind`.
const VALUES: &str = "values";
/// An estimate by a model.
pub(crate) const MODEL: &str = "model";
/// Keys that every kind takes.
const COMMON: &[&str] = &["kind", "interval", "clock", "bridge"];
/// Readings that may be missing in a row unless the study says otherwise.
const BRIDGED: u32 = 3;
/// Whose time stamps place a meter's readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClockChoice {
    Host,
    Own,
}

/// A meter as a study asks for it.
pub struct MeterSpec {
    pub name: String,
    pub(crate) kind: &'static str,
    pub(crate) interval: Duration,
    pub(crate) clock: ClockChoice,
    pub(crate) age: Duration,
    /// Gaps up to this are bridged.
    pub(crate) bridge: Duration,
}

impl MeterSpec {
    /// How often a channel of this kind gives a value: as the study says, or less often, as it was seen.
    pub(crate) fn cadence(&self, kind: ChannelKind, seen_s: Option<f64>) -> Cadence {
        let period_s = self.interval.as_secs_f64().max(seen_s.unwrap_or(0.0));
        Cadence { kind, period_s, age_s: self.age.as_secs_f64(), bridge_s: self.bridge.as_secs_f64() }
    }
}

/// Where a meter's figures come from.
pub enum MeterSource {
    /// Readings beside the trials.
    Live(Box<dyn OpenMeter>),
    /// A log that is attached later.
    Log(Box<LogConfig>),
    /// A model, applied to what was counted.
    Model(ModelTable),
}

/// The own keys of `kind = "model"`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelTable {
    /// The coefficients, as `iopj meter fit` writes them.
    pub(crate) file: PathBuf,
    /// What the meter measured that they were fitted to.
    #[serde(default = "system")]
    pub(crate) scope: Scope,
}

fn system() -> Scope {
    Scope::System
}

/// The meters of a study, their tables read.
pub enum MeterSpecs {
    None,
    Local,
    Named(Vec<(MeterSpec, MeterSource)>),
}

/// Reads the value of `meters`; without one, the machine's own meters are used.
///
/// # Errors
/// An unknown kind or key, with the nearest right one, or a value that cannot be. No text holds a value that
/// may be secret.
pub fn meter_specs(meters: Option<&Meters>, source: &str) -> Result<MeterSpecs, StudyError> {
    specs(meters, source, Meters::TABLE)
}

/// Reads the value of `fabric.meters`: the meters of a target host, which are read there.
///
/// # Errors
/// As for [`meter_specs`], or a meter that is not read while the study runs, or not by its host's clock.
pub fn target_meter_specs(meters: Option<&Meters>, source: &str) -> Result<MeterSpecs, StudyError> {
    let specs = specs(meters, source, Fabric::METERS)?;
    let MeterSpecs::Named(named) = &specs else { return Ok(specs) };
    for (spec, kind) in named {
        let why = match kind {
            MeterSource::Live(_) if spec.clock == ClockChoice::Host => continue,
            MeterSource::Live(_) => {
                "the load pattern that finds a meter's own clock is played on this host: leave `clock` out"
            }
            MeterSource::Log(_) => {
                "the load pattern that aligns a log is played on this host: name a meter that is read while \
                 the study runs"
            }
            MeterSource::Model(_) => {
                "a model estimates the host that does the I/O: name a meter of the target host"
            }
        };
        return Err(StudyError(format!("{source}: [{}.{}]: {why}", Fabric::METERS, spec.name)));
    }
    Ok(specs)
}

fn specs(meters: Option<&Meters>, source: &str, table: &str) -> Result<MeterSpecs, StudyError> {
    let tables = match meters.map_or(Ok(MetersAsked::Local), |meters| meters.asked(source, table))? {
        MetersAsked::Local => return Ok(MeterSpecs::Local),
        MetersAsked::None => return Ok(MeterSpecs::None),
        MetersAsked::Tables(tables) => tables,
    };
    let specs = tables.iter().map(|(name, keys)| spec(name, keys, (source, table)));
    specs.collect::<Result<Vec<_>, _>>().map(MeterSpecs::Named)
}

/// Where meters will be asked over a network, for the user to see before the first request; none if nowhere.
pub(crate) fn addresses_in_words(specs: &[(MeterSpec, MeterSource)]) -> Option<String> {
    let of = |(spec, source): &(MeterSpec, MeterSource)| match source {
        MeterSource::Live(source) => {
            source.address().map(|address| format!("`{}` at {}", spec.name, address.escape_debug()))
        }
        MeterSource::Log(_) | MeterSource::Model(_) => None,
    };
    let all: Vec<String> = specs.iter().filter_map(of).collect();
    (!all.is_empty()).then(|| format!("meters asked over the network: {}", all.join(", ")))
}

/// The programs that the meters of a study run, on either host.
///
/// # Errors
/// As for [`meter_specs`] and [`target_meter_specs`].
pub fn programs(study: &Study) -> Result<Vec<String>, StudyError> {
    let there = study.fabric.as_ref().and_then(|fabric| fabric.meters.as_ref());
    let all = [meter_specs(study.meters.as_ref(), "the study")?, target_meter_specs(there, "the study")?];
    let program = |source: &MeterSource| match source {
        MeterSource::Live(source) => source.program().map(str::to_owned),
        MeterSource::Log(_) | MeterSource::Model(_) => None,
    };
    let named = all.iter().filter_map(|specs| match specs {
        MeterSpecs::Named(named) => Some(named),
        MeterSpecs::None | MeterSpecs::Local => None,
    });
    Ok(named.flatten().filter_map(|(_, source)| program(source)).collect())
}

/// The names and scopes of the meters whose logs a store's study attaches later. A store whose study cannot
/// be read has none.
///
/// # Errors
/// The store cannot be read.
pub(super) fn logs_of(store: &Store) -> Result<Vec<(String, Scope)>, StoreError> {
    let text = store.study()?.text;
    let specs = Study::parse(&text, "the store's study")
        .and_then(|study| meter_specs(study.meters.as_ref(), "the store's study"));
    let Ok(MeterSpecs::Named(specs)) = specs else { return Ok(Vec::new()) };
    let log = |(spec, source): (MeterSpec, MeterSource)| match source {
        MeterSource::Log(config) => Some((spec.name, config.scope)),
        _ => None,
    };
    Ok(specs.into_iter().filter_map(log).collect())
}

/// The spec of a kind that needs no table.
pub(crate) fn plain(
    name: &str,
    kind: &str,
    keys: &[(&str, &str)],
) -> Result<(MeterSpec, MeterSource), StudyError> {
    let pairs = [("kind", kind)].into_iter().chain(keys.iter().copied());
    let table = pairs.map(|(key, value)| (key.to_owned(), toml::Value::from(value))).collect();
    spec(name, &table, ("the machine's own meters", Meters::TABLE))
}

/// A meter by its table; `source` names the study in messages, and `meters` is where in it the table is.
fn spec(
    name: &str,
    table: &toml::Table,
    (source, meters): (&str, &str),
) -> Result<(MeterSpec, MeterSource), StudyError> {
    let place = format!(" in [{meters}.{name}]");
    let wrong = |text: String| StudyError(format!("{source}: {}: {text}", place.trim_start_matches(" in ")));
    let text = |key: &str| match table.get(key) {
        None => Ok(None),
        Some(toml::Value::String(text)) => Ok(Some(text.as_str())),
        Some(_) => Err(wrong(format!("`{key}` is not a text: write it in quotation marks"))),
    };
    let names: Vec<&str> = KINDS.iter().map(|kind| kind.name).chain([LOG, MODEL]).collect();
    let Some(word) = text("kind")? else {
        return Err(wrong(format!("it has no `kind`: there are {}", names.join(", "))));
    };
    let Some(word) = names.iter().find(|name| **name == word).copied() else {
        return Err(wrong(format!("there is no kind of meter `{word}`: there are {}", names.join(", "))));
    };
    let kind = KINDS.iter().find(|kind| kind.name == word);
    check_keys(table, &[COMMON, &own_keys(word)].concat(), source, &place)?;
    let time = |key: &str| text(key)?.map(|text| duration(key, text).map_err(|e| wrong(e.0))).transpose();
    let interval =
        time("interval")?.unwrap_or_else(|| kind.map_or(Duration::from_secs(1), |kind| kind.interval));
    if !(Duration::from_millis(10)..=Duration::from_secs(3600)).contains(&interval) {
        return Err(wrong("`interval` lies between 10ms and 1h: choose another".to_owned()));
    }
    let clock = match text("clock")? {
        None if word == LOG => ClockChoice::Own,
        None | Some("host") => ClockChoice::Host,
        Some("own") => ClockChoice::Own,
        Some(_) => return Err(wrong("`clock` is `host` or `own`: write one of them".to_owned())),
    };
    let own =
        table.iter().filter(|(key, _)| !COMMON.contains(&key.as_str())).map(|(k, v)| (k.clone(), v.clone()));
    let source = read_source(word, own.collect()).map_err(|error| wrong(error.0))?;
    let spec = MeterSpec {
        name: name.to_owned(),
        kind: word,
        interval,
        clock,
        age: if let MeterSource::Live(source) = &source { source.age() } else { Duration::ZERO },
        bridge: time("bridge")?.unwrap_or(interval * BRIDGED),
    };
    Ok((spec, source))
}

/// The keys of a kind beside the common ones.
fn own_keys(word: &str) -> Vec<&'static str> {
    match word {
        LOG => {
            fields_of::<LogConfig>().iter().copied().filter(|key| *key != "kind").chain([VALUES]).collect()
        }
        MODEL => fields_of::<ModelTable>().to_vec(),
        _ => KINDS.iter().find(|kind| kind.name == word).map_or(Vec::new(), |kind| (kind.keys)().to_vec()),
    }
}

fn read_source(word: &str, mut own: toml::Table) -> Result<MeterSource, StudyError> {
    match word {
        LOG => {
            if let Some(values) = own.remove(VALUES) {
                own.insert("kind".to_owned(), values);
            }
            parsed(own).map(|config| MeterSource::Log(Box::new(config)))
        }
        MODEL => parsed(own).map(MeterSource::Model),
        _ => match KINDS.iter().find(|kind| kind.name == word) {
            Some(kind) => (kind.read)(own).map(MeterSource::Live),
            None => Err(StudyError(format!("there is no kind of meter `{word}`"))),
        },
    }
}

/// A log's configuration with other values for these keys of its table. Power and energy replace each other.
///
/// # Errors
/// A value that the key cannot have.
pub(crate) fn with(config: &LogConfig, said: JsonMap) -> Result<LogConfig, StudyError> {
    let wrong = |error: serde_json::Error| StudyError(error.to_string());
    let mut table: JsonMap = serde_json::to_value(config).and_then(serde_json::from_value).map_err(wrong)?;
    for (one, other) in [("watts", "energy"), ("energy", "watts")] {
        if said.contains_key(one) {
            table.remove(other);
        }
    }
    let own = |key: String| if key == VALUES { "kind".to_owned() } else { key };
    table.extend(said.into_iter().map(|(key, value)| (own(key), value)));
    serde_json::from_value(table.into()).map_err(wrong)
}

#[cfg(test)]
mod tests;
