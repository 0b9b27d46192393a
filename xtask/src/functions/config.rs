//! A kernel's `.config`, and conditions on it that are true, false or unknown.

use std::collections::{HashMap, HashSet};

/// The options of a `.config`, and the other names that the preprocessor knows.
pub(super) struct Config {
    options: HashMap<String, String>,
    /// Names that the architecture's headers define.
    architecture: HashSet<String>,
}

impl Config {
    pub(super) fn parse(text: &str) -> Config {
        let option =
            |line: &str| line.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
        let options = text.lines().filter(|line| line.starts_with("CONFIG_")).filter_map(option).collect();
        Config { options, architecture: HashSet::new() }
    }

    /// Adds a name that the architecture's headers define.
    pub(super) fn define(&mut self, name: &str) {
        self.architecture.insert(name.to_owned());
    }

    /// The value of `CONFIG_…`; empty if the option is not set.
    pub(super) fn value(&self, name: &str) -> &str {
        self.options.get(name).map_or("", String::as_str)
    }

    /// Whether the condition of an `#if` holds; `None` if it depends on more than the configuration.
    pub(super) fn condition(&self, text: &str) -> Option<bool> {
        let mut words = Words { rest: text, config: self };
        let value = words.either();
        if words.rest.trim_start().is_empty() { value } else { None }
    }

    /// Whether the preprocessor sees `name` defined; a module's option is defined as `CONFIG_…_MODULE`.
    pub(super) fn defined(&self, name: &str) -> Option<bool> {
        match name {
            "__KERNEL__" | "__x86_64__" => return Some(true),
            "__i386__" | "__ASSEMBLY__" | "__ASSEMBLER__" | "__UML__" => return Some(false),
            name if self.architecture.contains(name) => return Some(true),
            // Only the architecture's headers define these.
            name if name.starts_with("__HAVE_ARCH_") || name.starts_with("__ARCH_WANT_") => {
                return Some(false);
            }
            name if !name.starts_with("CONFIG_") => return None,
            _ => {}
        }
        let module = name.strip_suffix("_MODULE").is_some_and(|option| self.value(option) == "m");
        Some(module || !matches!(self.value(name), "" | "m"))
    }
}

/// The rest of a condition's text: `!`, `&&`, `||`, brackets, `defined` and `IS_ENABLED`.
struct Words<'a> {
    rest: &'a str,
    config: &'a Config,
}

impl Words<'_> {
    fn take(&mut self, word: &str) -> bool {
        let rest = self.rest.trim_start().strip_prefix(word);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn name(&mut self) -> String {
        let text = self.rest.trim_start();
        let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        self.rest = rest;
        name.to_owned()
    }

    fn either(&mut self) -> Option<bool> {
        let mut value = self.both();
        while self.take("||") {
            let next = self.both();
            value = if value == Some(true) || next == Some(true) { Some(true) } else { value.and(next) };
        }
        value
    }

    fn both(&mut self) -> Option<bool> {
        let mut value = self.one();
        while self.take("&&") {
            let next = self.one();
            value = if value == Some(false) || next == Some(false) { Some(false) } else { value.and(next) };
        }
        value
    }

    fn one(&mut self) -> Option<bool> {
        if self.take("!") {
            return self.one().map(|value| !value);
        }
        if self.take("(") {
            let value = self.either();
            return if self.take(")") { value } else { None };
        }
        match self.name().as_str() {
            "0" => Some(false),
            "1" => Some(true),
            "defined" => {
                let bracket = self.take("(");
                let name = self.name();
                let closed = !bracket || self.take(")");
                self.config.defined(&name).filter(|_| closed)
            }
            "IS_ENABLED" | "IS_REACHABLE" => self.option(|value| matches!(value, "y" | "m")),
            "IS_BUILTIN" => self.option(|value| value == "y"),
            "IS_MODULE" => self.option(|value| value == "m"),
            _ => None,
        }
    }

    fn option(&mut self, holds: impl Fn(&str) -> bool) -> Option<bool> {
        let opened = self.take("(");
        let name = self.name();
        (opened && self.take(")") && name.starts_with("CONFIG_")).then(|| holds(self.config.value(&name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_true_false_or_unknown() {
        let config = Config::parse("CONFIG_SMP=y\nCONFIG_NVME=m\nCONFIG_HZ=250\n# CONFIG_NUMA is not set\n");
        assert_eq!(config.condition("defined(CONFIG_SMP) && !defined CONFIG_NUMA"), Some(true));
        assert_eq!(config.condition("defined(CONFIG_NVME)"), Some(false));
        assert_eq!(config.condition("defined(CONFIG_NVME_MODULE)"), Some(true));
        assert_eq!(config.condition("IS_ENABLED(CONFIG_NVME) && (IS_BUILTIN(CONFIG_NVME) || 1)"), Some(true));
        assert_eq!(config.condition("IS_ENABLED(CONFIG_NUMA)"), Some(false));
        assert_eq!(config.condition("CONFIG_HZ > 100"), None);
        assert_eq!(config.condition("defined(MODULE)"), None);
        assert_eq!(config.condition("defined(MODULE) && defined(CONFIG_NUMA)"), Some(false));
        assert_eq!(config.condition("defined(MODULE) || defined(CONFIG_SMP)"), Some(true));
    }

    #[test]
    fn the_architecture_defines_names() {
        let mut config = Config::parse("");
        config.define("__HAVE_ARCH_MEMCPY");
        assert_eq!(config.defined("__HAVE_ARCH_MEMCPY"), Some(true));
        assert_eq!(config.defined("__HAVE_ARCH_MEMSCAN"), Some(false));
        assert_eq!(config.defined("__x86_64__"), Some(true));
        assert_eq!(config.defined("DEBUG"), None);
    }
}
