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

impl Meters {
    /// These meters as a store may keep them: without what the query of an address says of a password.
    #[must_use]
    pub fn without_tokens(&self) -> Meters {
        let Meters::Tables(tables) = self else { return self.clone() };
        let mut tables = tables.clone();
        for value in tables.values_mut().flat_map(|table| table.iter_mut().map(|(_, value)| value)) {
            hide_tokens(value);
        }
        Meters::Tables(tables)
    }

    /// The first key whose address a store has kept without its token.
    pub fn lacks_token(&self) -> Option<String> {
        let Meters::Tables(tables) = self else { return None };
        tables.iter().find_map(|(name, table)| {
            let (key, _) = table.iter().find(|(_, value)| lacks_token(value))?;
            Some(format!("{name}.{key}"))
        })
    }
}

/// What stands for a token.
const HIDDEN: &str = "=***";
/// What is called by a name that holds one of these words is secret, and so is what has one of these names.
const SECRET_WORDS: [&str; 10] =
    ["token", "key", "pass", "pwd", "secret", "auth", "sig", "cred", "session", "bearer"];
const SECRET_NAMES: [&str; 5] = ["sid", "pw", "pin", "code", "otp"];

/// True if what has this name may be secret.
pub(crate) fn is_secret(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    SECRET_WORDS.iter().any(|word| lower.contains(word))
        || lower.split(['-', '_', '.']).any(|part| SECRET_NAMES.contains(&part))
}

/// Hides the tokens of all addresses in a value.
fn hide_tokens(value: &mut toml::Value) {
    match value {
        toml::Value::String(text) => *text = without_token(text),
        toml::Value::Array(values) => values.iter_mut().for_each(hide_tokens),
        toml::Value::Table(table) => table.iter_mut().for_each(|(_, value)| hide_tokens(value)),
        _ => {}
    }
}

/// True if a value has an address whose token is hidden.
fn lacks_token(value: &toml::Value) -> bool {
    match value {
        toml::Value::String(text) => {
            text.contains("://")
                && text.split(['?', '&', ';', '#']).skip(1).any(|part| part.ends_with(HIDDEN))
        }
        toml::Value::Array(values) => values.iter().any(lacks_token),
        toml::Value::Table(table) => table.values().any(lacks_token),
        _ => false,
    }
}

/// An address without the values of its query that may be secret; other texts as they are.
fn without_token(text: &str) -> String {
    let Some((address, query)) = text.split_once('?').filter(|_| text.contains("://")) else {
        return text.to_owned();
    };
    let mut kept = format!("{address}?");
    for part in query.split_inclusive(['&', ';', '#']) {
        let end = part.trim_end_matches(['&', ';', '#']).len();
        let (whole, separator) = part.split_at(end);
        match whole.split_once('=') {
            // What iopj fills in is no secret yet.
            Some((name, value)) if !value.contains("{password}") && !value.is_empty() => {
                let hides = is_secret(&decoded(name));
                kept.push_str(&if hides { format!("{name}{HIDDEN}") } else { whole.to_owned() });
            }
            _ => kept.push_str(whole),
        }
        kept.push_str(separator);
    }
    kept
}

/// A name of a query without its escapes (RFC 3986, 2.1).
fn decoded(name: &str) -> String {
    let mut parts = name.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        match part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                bytes.extend(&part.as_bytes()[2..]);
            }
            None => bytes.extend([b"%", part.as_bytes()].concat()),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The page, the store and its JSON had it.
    #[test]
    fn a_token_in_an_address_is_not_kept() {
        for (text, kept) in [
            ("http://a/b?token=sesame", "http://a/b?token=***"),
            ("http://a/b?x=1&apikey=s&y=2", "http://a/b?x=1&apikey=***&y=2"),
            ("http://a/b?Access_Token=s&cmnd=Status%208", "http://a/b?Access_Token=***&cmnd=Status%208"),
            ("http://a/b?token={password}", "http://a/b?token={password}"),
            ("http://a/b?id=0", "http://a/b?id=0"),
            ("what? token=x", "what? token=x"),
            ("http://a/b?sid=s&pw=s&pin=s&code=s", "http://a/b?sid=***&pw=***&pin=***&code=***"),
            (
                "http://a/b?%74oken=s;session-id=s&x#token=s",
                "http://a/b?%74oken=***;session-id=***&x#token=***",
            ),
            (
                "http://a/b?spin=1&encode=2&%zz=3&auth=u:{password}",
                "http://a/b?spin=1&encode=2&%zz=3&auth=u:{password}",
            ),
        ] {
            assert_eq!(without_token(text), kept);
        }
        let meters = |url: &str| {
            let table: toml::Table = format!("[m]\nkind = \"http\"\nurl = \"{url}\"").parse().unwrap();
            toml::Value::Table(table).try_into::<Meters>().unwrap()
        };
        let kept = meters("http://a/b?token=sesame").without_tokens();
        assert_eq!(kept, meters("http://a/b?token=***"));
        assert_eq!(kept.lacks_token().unwrap(), "m.url");
        assert_eq!(meters("http://a/b?token={password}").without_tokens().lacks_token(), None);
        // Also as a word of a command, or in a table.
        let within = |token: &str| {
            let address = format!("http://a/?token={token}&x=1");
            let text = format!(
                "[m]\nkind = \"command\"\ncommand = [\"get\", \"{address}\"]\nvalues = [{{ url = \
                 \"{address}\" }}]"
            );
            toml::Value::Table(text.parse().unwrap()).try_into::<Meters>().unwrap()
        };
        let kept = within("sesame").without_tokens();
        assert_eq!((&kept, kept.lacks_token().as_deref()), (&within("***"), Some("m.command")));
    }
}
