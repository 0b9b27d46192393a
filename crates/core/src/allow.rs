//! What a user allows the files of others: the rule of `docs/trust.md`.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Something that a file may ask for, and that only its user can allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grant {
    /// Programs that the file names are run.
    Exec,
    /// Passwords are read from files and variables, and sent.
    Secrets,
    /// Other hosts are reached.
    Hosts,
}

impl Grant {
    /// All of them.
    pub const ALL: [Grant; 3] = [Grant::Exec, Grant::Secrets, Grant::Hosts];

    /// Its word in `--allow`.
    pub const fn word(self) -> &'static str {
        match self {
            Grant::Exec => "exec",
            Grant::Secrets => "secrets",
            Grant::Hosts => "hosts",
        }
    }
}

/// What is allowed: nothing, unless the user says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Allow {
    /// [`Grant::Exec`].
    pub exec: bool,
    /// [`Grant::Secrets`].
    pub secrets: bool,
    /// [`Grant::Hosts`].
    pub hosts: bool,
}

impl Allow {
    /// Nothing.
    pub const NOTHING: Allow = Allow { exec: false, secrets: false, hosts: false };
    /// Everything: for files of the user's own.
    pub const ALL: Allow = Allow { exec: true, secrets: true, hosts: true };

    /// Whether it is allowed.
    pub const fn grants(self, grant: Grant) -> bool {
        match grant {
            Grant::Exec => self.exec,
            Grant::Secrets => self.secrets,
            Grant::Hosts => self.hosts,
        }
    }

    /// This, and one more.
    #[must_use]
    pub const fn with(self, grant: Grant) -> Allow {
        match grant {
            Grant::Exec => Allow { exec: true, ..self },
            Grant::Secrets => Allow { secrets: true, ..self },
            Grant::Hosts => Allow { hosts: true, ..self },
        }
    }

    /// As an option of a command line, with a space before it; nothing if nothing is allowed.
    pub fn option(self) -> String {
        if self == Allow::NOTHING { String::new() } else { format!(" --allow {self}") }
    }
}

/// The words of `--allow`, with commas.
impl fmt::Display for Allow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let granted = Grant::ALL.into_iter().filter(|grant| self.grants(*grant));
        f.write_str(&granted.map(Grant::word).collect::<Vec<_>>().join(","))
    }
}

impl FromStr for Allow {
    type Err = String;

    fn from_str(text: &str) -> Result<Allow, String> {
        text.split(',').try_fold(Allow::NOTHING, |allow, word| {
            let grant = Grant::ALL.into_iter().find(|grant| grant.word() == word);
            grant
                .map(|grant| allow.with(grant))
                .ok_or_else(|| format!("`{}` is not exec, secrets or hosts", word.escape_debug()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_read_and_written() {
        for text in ["exec", "secrets", "hosts", "exec,hosts", "exec,secrets,hosts"] {
            assert_eq!(text.parse::<Allow>().unwrap().to_string(), text);
        }
        assert_eq!("hosts,exec".parse::<Allow>().unwrap().option(), " --allow exec,hosts");
        assert_eq!(Allow::NOTHING.option(), "");
        for bad in ["", "exec,", "Exec", "all"] {
            assert!(bad.parse::<Allow>().is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_added_is_allowed_and_no_more() {
        let exec = Allow::NOTHING.with(Grant::Exec);
        assert_eq!(exec.with(Grant::Hosts).to_string(), "exec,hosts");
        assert!(Grant::ALL.into_iter().all(|grant| Allow::ALL.grants(grant)));
        assert!(!exec.grants(Grant::Secrets));
    }
}
