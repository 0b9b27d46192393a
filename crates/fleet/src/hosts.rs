//! Lists of hosts.

use crate::error::FleetError;
use crate::serials::without_mark;
use iopj_core::files::read_regular_text;
use iopj_fabric::Destination;
use std::collections::BTreeSet;
use std::path::Path;

/// More than any list of hosts has, in bytes.
const LONGEST: u64 = 16 << 20;

/// The hosts of a file, one a line, or of a list with commas.
///
/// # Errors
/// A line is no host, a host is named twice, or there is none.
pub fn parse(words: &str) -> Result<Vec<String>, FleetError> {
    let path = Path::new(words);
    if !path.is_file() {
        let hint = if words.contains('/') { " (there is no file of that name)" } else { "" };
        return of(words.split(',').map(|word| (None, word)), &format!("`{words}`{hint}"));
    }
    let text = read_regular_text(path, LONGEST).map_err(FleetError::io("read", path))?;
    let lines = without_mark(&text).lines().enumerate();
    let lines = lines.map(|(number, line)| (Some(number + 1), line.split('#').next().unwrap_or_default()));
    of(lines, &format!("`{words}`"))
}

fn of<'a>(
    words: impl Iterator<Item = (Option<usize>, &'a str)>,
    source: &str,
) -> Result<Vec<String>, FleetError> {
    let (mut hosts, mut seen) = (Vec::new(), BTreeSet::new());
    for (line, word) in words.map(|(line, word)| (line, word.trim())).filter(|(_, word)| !word.is_empty()) {
        let place = line.map_or(String::new(), |line| format!(", line {line}"));
        if !is_host(word) {
            return Err(FleetError::Refused(format!(
                "{source}{place}: `{}` is not a host: write one a line as ssh takes it, such as \
                 `storage1`, `root@storage1` or `root@storage1:2222`",
                word.escape_debug()
            )));
        }
        if !seen.insert(word) {
            return Err(FleetError::Refused(format!(
                "{source}{place}: `{word}` is named twice: name it once"
            )));
        }
        hosts.push(word.to_owned());
    }
    if hosts.is_empty() {
        return Err(FleetError::Refused(format!(
            "{source} names no host: write one a line as ssh takes it, such as `root@storage1`"
        )));
    }
    Ok(hosts)
}

/// Whether a word is a host as ssh takes it, and no option of it.
pub(crate) fn is_host(word: &str) -> bool {
    matches!(word.parse(), Ok(Destination::Ssh(_)))
}

/// A host as ssh takes it on its command line: one with a port as a URI (ssh(1)).
pub(crate) fn destination(host: &str) -> String {
    let name = host.rsplit_once('@').map_or(host, |(_, name)| name);
    let has_port = match name.strip_prefix('[') {
        Some(rest) => rest.contains("]:"),
        None => {
            name.matches(':').count() == 1
                && name.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok())
        }
    };
    if has_port { format!("ssh://{host}") } else { host.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn hosts_are_listed_by_commas_or_lines() {
        assert_eq!(parse("n1, root@n2").unwrap(), ["n1", "root@n2"]);
        let file = tempfile::NamedTempFile::new().unwrap();
        let name = file.path().to_str().unwrap();
        fs::write(file.path(), "# rack 1\nn1\n\nroot@n2:22 # spare\n").unwrap();
        assert_eq!(parse(name).unwrap(), ["n1", "root@n2:22"]);
        fs::write(file.path(), "\u{feff}n1\n").unwrap();
        assert_eq!(parse(name).unwrap(), ["n1"]);
        fs::write(file.path(), "n1\n-oProxyCommand=x\n").unwrap();
        let error = parse(name).unwrap_err().to_string();
        assert!(error.contains(", line 2: `-oProxyCommand=x` is not a host"), "{error}");
        fs::write(file.path(), "n1\nn1\n").unwrap();
        assert!(parse(name).unwrap_err().to_string().contains("line 2: `n1` is named twice"));
        fs::write(file.path(), "#\n").unwrap();
        assert!(parse(name).unwrap_err().to_string().contains("names no host"));
        assert!(parse("/no/hosts").unwrap_err().to_string().contains("no file of that name"));
    }

    #[test]
    fn a_port_makes_a_uri() {
        for (host, asked) in [
            ("n1", "n1"),
            ("root@n1:2222", "ssh://root@n1:2222"),
            ("fe80::1", "fe80::1"),
            ("[fe80::1]:22", "ssh://[fe80::1]:22"),
        ] {
            assert_eq!(destination(host), asked);
        }
    }
}
