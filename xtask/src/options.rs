//! The words after a task's name: flags, values, parts and the rest.

use crate::workspace::Workspace;
use anyhow::Error;
use std::collections::VecDeque;

/// A command line that cannot be understood; the program ends with exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Usage(pub(crate) String);

/// The name and the function of a task's part.
pub(crate) type Part = (&'static str, fn(&Workspace) -> anyhow::Result<()>);

/// Words that are not understood yet; each question removes its own.
pub(crate) struct Options(VecDeque<String>);

impl Options {
    pub(crate) fn new(words: impl Iterator<Item = String>) -> Options {
        Options(words.collect())
    }

    /// Whether `name` is among the words.
    pub(crate) fn flag(&mut self, name: &str) -> bool {
        let before = self.0.len();
        self.0.retain(|word| word != name);
        self.0.len() < before
    }

    /// The word after `name`, if `name` is given.
    pub(crate) fn value(&mut self, name: &str) -> Result<Option<String>, Usage> {
        let Some(at) = self.0.iter().position(|word| word == name) else { return Ok(None) };
        self.0.remove(at);
        match self.0.remove(at) {
            Some(value) => Ok(Some(value)),
            None => Err(Usage(format!("`{name}` needs a value"))),
        }
    }

    /// The number after `name`, or `default` where `name` is not given.
    pub(crate) fn number(&mut self, name: &str, default: u64) -> Result<u64, Usage> {
        let Some(at) = self.0.iter().position(|word| word == name) else {
            return Ok(default);
        };
        self.0.remove(at);
        let value = self.0.remove(at).unwrap_or_default();
        value.parse().map_err(|_| Usage(format!("`{name}` needs a whole number, not `{value}`")))
    }

    /// The words that are left; none may be an option.
    pub(crate) fn rest(self) -> Result<Vec<String>, Usage> {
        match self.0.iter().find(|word| word.starts_with('-')) {
            Some(option) => Err(Usage(format!("there is no option `{option}` here"))),
            None => Ok(self.0.into()),
        }
    }

    /// Runs the parts of a task that the words name, all of them if there are no words; the failures of
    /// each. Every part runs, so one run names everything that fails.
    pub(crate) fn run_parts(
        self,
        parts: &[Part],
        workspace: &Workspace,
    ) -> Result<Vec<(&'static str, Error)>, Usage> {
        let words = self.rest()?;
        if let Some(word) = words.iter().find(|word| parts.iter().all(|(name, _)| name != word)) {
            let names: Vec<_> = parts.iter().map(|(name, _)| *name).collect();
            return Err(Usage(format!("there is no part `{word}`: choose from {}", names.join(", "))));
        }
        let is_named = |name: &str| words.is_empty() || words.iter().any(|word| word == name);
        let named = parts.iter().filter(|(name, _)| is_named(name));
        Ok(named.filter_map(|(name, part)| Some((*name, part(workspace).err()?))).collect())
    }

    /// Refuses words that are left.
    pub(crate) fn end(self) -> Result<(), Usage> {
        match self.rest()?.first() {
            Some(word) => Err(Usage(format!("`{word}` means nothing here"))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(text: &str) -> Options {
        Options::new(text.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn questions_remove_their_words() {
        let mut options = options("--check libaio --seconds 5 io_uring");
        assert!(options.flag("--check"));
        assert!(!options.flag("--check"));
        assert_eq!(options.number("--seconds", 60).unwrap(), 5);
        assert_eq!(options.number("--seconds", 60).unwrap(), 60);
        assert_eq!(options.rest().unwrap(), ["libaio", "io_uring"]);
    }

    #[test]
    fn a_value_is_the_next_word() {
        let mut options = options("--chroot trixie --program");
        assert_eq!(options.value("--chroot").unwrap().as_deref(), Some("trixie"));
        assert_eq!(options.value("--chroot").unwrap(), None);
        assert_eq!(options.value("--program").unwrap_err().0, "`--program` needs a value");
    }

    #[test]
    fn a_word_that_is_not_understood_is_named() {
        assert_eq!(options("--chekc").rest().unwrap_err().0, "there is no option `--chekc` here");
        assert_eq!(options("more").end().unwrap_err().0, "`more` means nothing here");
        assert_eq!(
            options("--seconds x").number("--seconds", 1).unwrap_err().0,
            "`--seconds` needs a whole number, not `x`"
        );
        assert_eq!(
            options("--seconds").number("--seconds", 1).unwrap_err().0,
            "`--seconds` needs a whole number, not ``"
        );
    }
}
