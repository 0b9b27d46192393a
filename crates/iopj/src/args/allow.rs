//! `--allow`: what the files of others may do.

use clap::Args;
use iopj_core::{Allow, Grant};

#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct AllowArgs {
    /// Let the study do what it asks for, with commas: `exec` (run programs), `secrets` (read passwords from
    /// files and variables, and send them), `hosts` (reach other hosts)
    #[arg(long, value_name = "WHAT", default_value_t, hide_default_value = true)]
    allow: AllowedWords,
    /// The same as --allow exec
    #[arg(long)]
    allow_exec: bool,
}

impl AllowArgs {
    pub(crate) fn get(self) -> Allow {
        if self.allow_exec { self.allow.0.with(Grant::Exec) } else { self.allow.0 }
    }
}

/// The value of `--allow`; the default allows nothing.
#[derive(Clone, Copy, Debug, Default)]
struct AllowedWords(Allow);

impl std::str::FromStr for AllowedWords {
    type Err = String;

    fn from_str(text: &str) -> Result<AllowedWords, String> {
        if text.is_empty() { Ok(AllowedWords::default()) } else { text.parse().map(AllowedWords) }
    }
}

impl std::fmt::Display for AllowedWords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
