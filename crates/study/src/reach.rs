//! What a study would touch beyond its own target and its own store: the rule of `docs/trust.md`.

use crate::error::{StudyError, error};
use crate::fabric::Fabric;
use crate::meters::Meters;
use crate::study::Study;
use iopj_core::{Allow, Grant};
use std::fmt::Write as _;
use std::path::Path;

/// A key of a study that asks for more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Where it stands, such as `meters.wall.password_file`.
    pub key: String,
    /// Its value, as text.
    pub value: String,
    /// What it needs.
    pub grant: Grant,
}

impl Ask {
    fn new(key: impl Into<String>, value: impl Into<String>, grant: Grant) -> Ask {
        Ask { key: key.into(), value: value.into(), grant }
    }

    fn in_words(&self) -> String {
        let what = match self.grant {
            Grant::Exec => "runs a program",
            Grant::Secrets => "reads a secret, which is sent to the meter",
            Grant::Hosts => "reaches another host",
        };
        format!("`{}` = `{}` {what}", self.key, self.value.escape_debug())
    }
}

impl Study {
    /// What its keys ask for. Addresses of meters are not among it: whether one is near shows only when its
    /// name is looked up, so who opens a meter asks then.
    pub fn asks_for(&self) -> Vec<Ask> {
        let mut asks = Vec::new();
        let path = |path: &Path| path.to_string_lossy().into_owned();
        let fio = self.fio.iter();
        let fio = fio.flat_map(|fio| [("fio.program", &fio.program), ("fio.spdk_plugin", &fio.spdk_plugin)]);
        asks.extend(fio.filter_map(|(key, file)| Some(Ask::new(key, path(file.as_ref()?), Grant::Exec))));
        for variant in self.program.iter().flat_map(|program| &program.variants) {
            let commands =
                [("before", &variant.before), ("command", &variant.command), ("after", &variant.after)];
            for (key, words) in commands.into_iter().filter(|(_, words)| !words.is_empty()) {
                asks.push(Ask::new(format!("program.variants.{key}"), words.join(" "), Grant::Exec));
            }
        }
        of_meters(self.meters.as_ref(), Meters::TABLE, &mut asks);
        if let Some(fabric) = &self.fabric {
            of_fabric(fabric, &mut asks);
        }
        asks
    }

    /// Refuses what the user has not allowed, all in one message.
    ///
    /// # Errors
    /// The keys with their values, and the option that would allow them.
    pub fn check_allowed(&self, allow: Allow) -> Result<(), StudyError> {
        refuse(self.asks_for(), allow)
    }
}

impl Meters {
    /// The same for meters alone, which another host asks this one to open; `table` is where they stand.
    ///
    /// # Errors
    /// As for [`Study::check_allowed`].
    pub fn check_allowed(&self, table: &str, allow: Allow) -> Result<(), StudyError> {
        let mut asks = Vec::new();
        of_meters(Some(self), table, &mut asks);
        refuse(asks, allow)
    }
}

fn refuse(asks: Vec<Ask>, allow: Allow) -> Result<(), StudyError> {
    let refused: Vec<Ask> = asks.into_iter().filter(|ask| !allow.grants(ask.grant)).collect();
    if refused.is_empty() {
        return Ok(());
    }
    let needed = refused.iter().fold(Allow::NOTHING, |needed, ask| needed.with(ask.grant));
    let mut says: Vec<String> = Vec::new();
    for words in refused.iter().map(Ask::in_words) {
        if !says.contains(&words) {
            says.push(words);
        }
    }
    let more = says.len().saturating_sub(MOST_SAID);
    let mut text = says.into_iter().take(MOST_SAID).collect::<Vec<_>>().join(", ");
    if more > 0 {
        let _ = write!(text, ", and {more} more");
    }
    error(format!("the study's {text}: read the study, then allow it by --allow {needed}"))
}

/// The most keys that a message names.
const MOST_SAID: usize = 4;

fn of_fabric(fabric: &Fabric, asks: &mut Vec<Ask>) {
    let mut host = |key: &str, value: String| {
        asks.push(Ask::new(format!("fabric.{key}"), value, Grant::Hosts));
    };
    if let Some(target_host) = &fabric.target_host {
        host("target_host", target_host.clone());
    }
    if let Some(address) = &fabric.address {
        host("address", address.clone());
    }
    if let Some(here) = &fabric.here {
        host("here", here.to_string_lossy().into_owned());
    }
    if let Some(agent) = &fabric.agent {
        asks.push(Ask::new("fabric.agent", agent.clone(), Grant::Exec));
    }
    of_meters(fabric.meters.as_ref(), Fabric::METERS, asks);
}

/// The keys of meters that name programs and secrets.
fn of_meters(meters: Option<&Meters>, table: &str, asks: &mut Vec<Ask>) {
    let Some(Meters::Tables(tables)) = meters else { return };
    for (name, keys) in tables {
        for (key, value) in keys {
            let Some(grant) = grant_of(key) else { continue };
            asks.push(Ask::new(format!("{table}.{name}.{key}"), text_of(value), grant));
        }
    }
}

/// What a key of a meter's table needs.
fn grant_of(key: &str) -> Option<Grant> {
    match key {
        "command" => Some(Grant::Exec),
        // Certificates of authorities are no secret, and are not sent.
        "ca_file" => None,
        _ if key.ends_with("_file") || key.ends_with("_env") => Some(Grant::Secrets),
        _ => None,
    }
}

fn text_of(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Array(words) => words.iter().map(text_of).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKLOAD: &str = "[[workload]]\nruntime = \"1s\"\n";

    fn study(tables: &str) -> Study {
        let head = "name = \"t\"\npaths = \"available\"\n";
        Study::parse(&format!("{head}{tables}\n{WORKLOAD}"), "t").unwrap()
    }

    fn refused(tables: &str, allow: &str) -> String {
        let allow = if allow.is_empty() { Allow::NOTHING } else { allow.parse().unwrap() };
        study(tables).check_allowed(allow).map_or_else(|error| error.to_string(), |()| String::new())
    }

    #[test]
    fn a_plain_study_asks_for_nothing() {
        let meters = "[meters.a]\nkind = \"http\"\nurl = \"http://10.0.0.1/\"\nca_file = \"ca.pem\"\n";
        assert_eq!(study(meters).asks_for(), []);
    }

    #[test]
    fn what_is_refused_names_the_key_the_value_and_the_option() {
        assert_eq!(
            refused("[fio]\nprogram = \"/opt/fio\"", "secrets,hosts"),
            "the study's `fio.program` = `/opt/fio` runs a program: read the study, then allow it by --allow \
             exec"
        );
        let meter = "[meters.a]\nkind = \"http\"\nurl = \"http://127.0.0.1/\"\npassword_env = \"TOKEN\"";
        assert_eq!(
            refused(meter, "exec,hosts"),
            "the study's `meters.a.password_env` = `TOKEN` reads a secret, which is sent to the meter: read \
             the study, then allow it by --allow secrets"
        );
        assert_eq!(refused(meter, "secrets"), "");
    }

    #[test]
    fn both_tables_of_meters_and_all_secrets_are_seen() {
        let fabric = "[fabric]\ntarget_host = \"s\"\ndevice = \"/dev/nvme0n1\"\naddress = \"10.0.0.1\"\n\
                      transport = \"tcp\"\nagent = \"sudo iopj\"\n[fabric.meters.p]\nkind = \"command\"\n\
                      command = [\"watts\", \"1\"]\n[meters.q]\nkind = \"snmp\"\nhost = \"10.0.0.2\"\n\
                      privacy_password_file = \"p\"";
        let asks: Vec<_> = study(fabric).asks_for().into_iter().map(|ask| (ask.key, ask.value)).collect();
        let text = |pair: (&str, &str)| (pair.0.to_owned(), pair.1.to_owned());
        assert_eq!(
            asks,
            [
                ("meters.q.privacy_password_file", "p"),
                ("fabric.target_host", "s"),
                ("fabric.address", "10.0.0.1"),
                ("fabric.agent", "sudo iopj"),
                ("fabric.meters.p.command", "watts 1"),
            ]
            .map(text)
        );
        let text = refused(fabric, "exec");
        assert!(text.ends_with("by --allow secrets,hosts") && !text.contains("watts"), "{text}");
        let text = refused(fabric, "");
        assert!(text.contains(", and 1 more: ") && text.ends_with("--allow exec,secrets,hosts"), "{text}");
    }
}
