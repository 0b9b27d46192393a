//! `meters` of a study, and `fabric.meters` of its target host: none, the machine's own, or a table for each.
//! What the tables' kinds take is checked by who opens meters.

use crate::error::{StudyError, error};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The most meters of a study: each takes a thread.
const MOST: usize = 32;

/// The value of `meters`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "write false for no meters, or a [meters.NAME] table for each")]
pub enum Meters {
    /// `false`: none; `true`: those that this machine has itself.
    Switch(bool),
    /// `"none"` or `"local"`.
    Word(String),
    /// One table per meter.
    Tables(BTreeMap<String, toml::Table>),
}

/// Which meters a study asks for.
#[derive(Debug)]
pub enum MetersAsked<'a> {
    /// None.
    None,
    /// Those of the machine itself.
    Local,
    /// These, by name.
    Tables(&'a BTreeMap<String, toml::Table>),
}

impl Meters {
    /// Where a study names the meters of the host.
    pub const TABLE: &str = "meters";

    /// The meters that are asked for; `source` names the study in messages, and `table` is where in it they
    /// stand: `meters` or `fabric.meters`.
    ///
    /// # Errors
    /// An unknown word, too many tables, or a name or an address that the store cannot keep. No message shows
    /// a value that may be secret.
    pub fn asked(&self, source: &str, table: &str) -> Result<MetersAsked<'_>, StudyError> {
        let tables = match self {
            Meters::Switch(true) => return Ok(MetersAsked::Local),
            Meters::Switch(false) => return Ok(MetersAsked::None),
            Meters::Word(word) if word == "none" => return Ok(MetersAsked::None),
            Meters::Word(word) if word == "local" => return Ok(MetersAsked::Local),
            Meters::Word(_) => {
                return error(format!(
                    "{source}: `{table}` has an unknown value: write \"none\", \"local\", or a \
                     [{table}.NAME] table for each"
                ));
            }
            Meters::Tables(tables) => tables,
        };
        if tables.len() > MOST {
            return error(format!("{source}: {} meters are more than {MOST}: leave some out", tables.len()));
        }
        for (name, keys) in tables {
            check_name(name, source)?;
            no_credentials(keys).map_err(|text| StudyError(format!("{source}: [{table}.{name}]: {text}")))?;
        }
        Ok(MetersAsked::Tables(tables))
    }
}

fn check_name(name: &str, source: &str) -> Result<(), StudyError> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:@".contains(c);
    if (1..=40).contains(&name.len()) && name.chars().all(is_plain) {
        return Ok(());
    }
    error(format!("{source}: a meter cannot be named `{name}`: write up to 40 letters, digits, `-` and `_`"))
}

/// Refuses an address that holds a password: the store keeps the study's text.
fn no_credentials(table: &toml::Table) -> Result<(), String> {
    for (key, value) in table {
        let texts: Vec<&str> = match value {
            toml::Value::String(text) => vec![text],
            toml::Value::Array(values) => values.iter().filter_map(toml::Value::as_str).collect(),
            _ => Vec::new(),
        };
        let authority = |text: &'_ str| -> Option<String> {
            let (_, rest) = text.split_once("://")?;
            rest.split(['/', '?', '#']).next().map(str::to_owned)
        };
        if texts.into_iter().filter_map(authority).any(|authority| authority.contains('@')) {
            return Err(format!(
                "the address of `{key}` holds a user or a password, which the store would keep: take it \
                 out, and name a file or a variable that holds the password"
            ));
        }
    }
    Ok(())
}
