//! The names of this host, by which a request may ask it.

use std::fs;
use std::net::{IpAddr, SocketAddr};

/// The host's name, and the domains in which it may have it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct OwnName {
    host: String,
    /// Whole names from `/etc/hosts`.
    aliases: Vec<String>,
    domains: Vec<String>,
}

impl OwnName {
    /// As the kernel, `/etc/hosts` (hosts(5)) and `/etc/resolv.conf` (resolv.conf(5)) say.
    pub(super) fn read() -> OwnName {
        let text = |path| fs::read_to_string(path).unwrap_or_default();
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        OwnName::of(&host, &text("/etc/hosts"), &text("/etc/resolv.conf"))
    }

    fn of(host: &str, hosts: &str, resolver: &str) -> OwnName {
        let host = host.to_ascii_lowercase();
        let words = |text: &str| text.to_ascii_lowercase().split_whitespace().map(str::to_owned).collect();
        let without_comment = |line: &str| line.split('#').next().unwrap_or_default().to_owned();
        let lines = hosts.lines().map(|line| -> Vec<String> { words(&without_comment(line)) });
        let aliases = lines.filter(|names| names.iter().skip(1).any(|name| *name == host));
        let searched = resolver.lines().map(|line| -> Vec<String> { words(line) });
        let searched =
            searched.filter(|line| line.first().is_some_and(|key| key == "search" || key == "domain"));
        OwnName {
            aliases: aliases.flat_map(|names| names.into_iter().skip(1)).collect(),
            domains: searched.flat_map(|line| line.into_iter().skip(1)).collect(),
            host,
        }
    }

    /// Whether the value of a `Host` line (RFC 9110, section 7.2) is this host: an address, `localhost`, or
    /// its own name, also in a domain of its own.
    pub(super) fn is(&self, asked: &str) -> bool {
        if asked.parse::<SocketAddr>().is_ok() || asked.trim_matches(['[', ']']).parse::<IpAddr>().is_ok() {
            return true;
        }
        let name = asked.split(':').next().unwrap_or_default().to_ascii_lowercase();
        let name = name.strip_suffix('.').unwrap_or(&name);
        let in_domain = |rest: &str| {
            let domain = rest.strip_prefix('.');
            domain.is_some_and(|domain| domain == "local" || self.domains.iter().any(|own| own == domain))
        };
        let rest = name.strip_prefix(&self.host).filter(|_| !self.host.is_empty());
        name == "localhost"
            || self.aliases.iter().any(|alias| alias == name)
            || rest.is_some_and(|rest| rest.is_empty() || in_domain(rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever knew the host's name could lead `NAME.evil.example` here.
    #[test]
    fn the_hosts_own_names_are_those_that_its_files_say() {
        let hosts = "127.0.0.1 localhost\n127.0.1.1 n1.rack.example n1 # n1.comment.example\n10.0.0.2 n2\n";
        let name = OwnName::of("N1", hosts, "nameserver 10.0.0.1\nsearch io.example lab.example\n");
        for own in
            ["n1", "n1:9187", "n1.", "n1.io.example", "N1.lab.example:80", "n1.rack.example", "n1.local"]
        {
            assert!(name.is(own), "{own}");
        }
        for foreign in ["n2", "n1.evil.example", "n1.comment.example", "io.example", "n1io.example", ""] {
            assert!(!name.is(foreign), "{foreign}");
        }
        let nameless = OwnName::of("", "", "");
        assert!(
            nameless.is("10.0.0.1:9187") && nameless.is("localhost") && !nameless.is("x") && !nameless.is("")
        );
    }
}
