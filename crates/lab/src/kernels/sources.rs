//! The host's own apt sources (sources.list(5)): its mirrors and the keys that sign them.

use super::KernelError;
use std::fs;
use std::path::Path;

/// The distributions whose packages hold kernels for the lab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Distribution {
    Debian,
    Ubuntu,
}

/// A source of binary packages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct AptSource {
    pub uris: Vec<String>,
    pub suites: Vec<String>,
    pub components: Vec<String>,
    /// Keyrings, fingerprints or an embedded key, as written; an embedded key keeps its lines.
    pub signed_by: Option<String>,
}

/// Where an archive is served, and the keys that check its signatures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mirror {
    pub uris: Vec<String>,
    pub signed_by: String,
}

/// The distribution's archives as this host uses them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mirrors {
    pub distribution: Distribution,
    pub main: Mirror,
    /// Debian's security archive is elsewhere: where the host's sources say, and beside the main archive.
    pub security: Vec<Mirror>,
}

/// Keyrings of the distributions' packages, for sources that name none.
const DEBIAN_KEYRINGS: [&str; 2] =
    ["/usr/share/keyrings/debian-archive-keyring.gpg", "/usr/share/keyrings/debian-archive-keyring.pgp"];
const UBUNTU_KEYRINGS: [&str; 1] = ["/usr/share/keyrings/ubuntu-archive-keyring.gpg"];

/// Reads the host's mirrors from `etc`, which is `/etc`.
///
/// # Errors
/// [`KernelError::NoSource`] if the host is neither Debian nor Ubuntu or names no source of it.
pub(super) fn mirrors(etc: &Path) -> Result<Mirrors, KernelError> {
    let os_release = fs::read_to_string(etc.join("os-release")).unwrap_or_default();
    let no_source = |reason: &str| KernelError::NoSource(reason.to_owned());
    let distribution =
        distribution(&os_release).ok_or_else(|| no_source("this system is neither Debian nor Ubuntu"))?;
    let (names, sources) = (suite_names(distribution, &os_release), read_all(&etc.join("apt")));
    let lacking = "/etc/apt names no source of the distribution's component `main`, or no keyring is \
                   installed for it";
    choose(distribution, &names, &sources).ok_or_else(|| no_source(lacking))
}

/// All sources of the folder `apt`, in apt's order. apt itself complains about those that cannot be read.
fn read_all(apt: &Path) -> Vec<AptSource> {
    let mut files: Vec<_> = fs::read_dir(apt.join("sources.list.d"))
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    files.sort();
    files.insert(0, apt.join("sources.list"));
    let mut sources = Vec::new();
    for file in files {
        let Ok(text) = fs::read_to_string(&file) else { continue };
        match file.extension().and_then(|extension| extension.to_str()) {
            Some("list") => sources.extend(parse_lines(&text)),
            Some("sources") => sources.extend(parse_deb822(&text)),
            _ => {}
        }
    }
    sources
}

/// Parses the one-line style: `deb [ option=value … ] uri suite component …`.
pub(super) fn parse_lines(text: &str) -> Vec<AptSource> {
    text.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<AptSource> {
    let line = line.split('#').next()?.trim();
    let rest = line.strip_prefix("deb")?;
    if !rest.starts_with([' ', '\t', '[']) {
        return None;
    }
    let rest = rest.trim_start();
    let (options, rest) = match rest.strip_prefix('[') {
        Some(bracket) => bracket.split_once(']')?,
        None => ("", rest),
    };
    let signed_by = options.split_whitespace().find_map(|option| {
        let (name, value) = option.split_once('=')?;
        name.eq_ignore_ascii_case("signed-by").then(|| value.replace(',', " "))
    });
    let mut words = rest.split_whitespace().map(str::to_owned);
    let (uri, suite) = (words.next()?, words.next()?);
    Some(AptSource { uris: vec![uri], suites: vec![suite], components: words.collect(), signed_by })
}

/// Parses the deb822 style: stanzas of `Name: value` with continuation lines.
pub(super) fn parse_deb822(text: &str) -> Vec<AptSource> {
    let mut sources = Vec::new();
    let mut fields: Vec<(String, String)> = Vec::new();
    for line in text.lines().chain([""]) {
        if line.starts_with('#') {
        } else if line.trim().is_empty() {
            sources.extend(source(&std::mem::take(&mut fields)));
        } else if line.starts_with([' ', '\t']) {
            if let Some((_, value)) = fields.last_mut() {
                value.push('\n');
                value.push_str(line.trim_end());
            }
        } else if let Some((name, value)) = line.split_once(':') {
            fields.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
        }
    }
    sources
}

/// The source that a stanza's fields describe; `None` if it is disabled or for source packages only.
fn source(fields: &[(String, String)]) -> Option<AptSource> {
    let field =
        |wanted: &str| fields.iter().find(|(name, _)| name == wanted).map_or("", |(_, value)| value.as_str());
    let list = |name| field(name).split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let off = ["no", "false", "without", "off", "disable", "0"];
    if off.iter().any(|word| field("enabled").eq_ignore_ascii_case(word))
        || !list("types").iter().any(|t| t == "deb")
    {
        return None;
    }
    let (uris, suites) = (list("uris"), list("suites"));
    if uris.is_empty() || suites.is_empty() {
        return None;
    }
    let signed_by = Some(field("signed-by").to_owned()).filter(|value| !value.is_empty());
    Some(AptSource { uris, suites, components: list("components"), signed_by })
}

/// Reads os-release(5): the system itself, or one that it names as similar (Mint is like Ubuntu, Ubuntu like
/// Debian).
fn distribution(os_release: &str) -> Option<Distribution> {
    let (id, like) = (value(os_release, "ID")?, value(os_release, "ID_LIKE").unwrap_or_default());
    [id].into_iter().chain(like.split_whitespace().map(str::to_owned)).find_map(|name| match name.as_str() {
        "debian" => Some(Distribution::Debian),
        "ubuntu" => Some(Distribution::Ubuntu),
        _ => None,
    })
}

fn value(os_release: &str, name: &str) -> Option<String> {
    os_release.lines().find_map(|line| {
        let value = line.trim().strip_prefix(name)?.strip_prefix('=')?;
        Some(value.trim_matches(['"', '\'']).to_owned())
    })
}

/// The names that a source may use for the host's own suite.
fn suite_names(distribution: Distribution, os_release: &str) -> Vec<String> {
    let aliases: &[&str] = match distribution {
        Distribution::Debian => &["stable", "oldstable", "testing", "unstable", "sid"],
        Distribution::Ubuntu => &["devel"],
    };
    ["UBUNTU_CODENAME", "DEBIAN_CODENAME", "VERSION_CODENAME"]
        .iter()
        .filter_map(|name| value(os_release, name))
        .chain(aliases.iter().map(|&alias| alias.to_owned()))
        .collect()
}

/// Chooses the distribution's archives among all sources. Others use the same names of suites and components;
/// a wrong choice does no harm, because their signatures do not fit the distribution's keys.
fn choose(distribution: Distribution, names: &[String], sources: &[AptSource]) -> Option<Mirrors> {
    let named = |source: &AptSource, suffix: &str| {
        source
            .suites
            .iter()
            .any(|suite| suite.strip_suffix(suffix).is_some_and(|base| names.iter().any(|n| n == base)))
    };
    let usable = |source: &&AptSource| {
        source.components.iter().any(|component| component == "main")
            && !source.uris.iter().any(|uri| uri.starts_with("cdrom:"))
    };
    let best = |suffixes: &[&str]| {
        let candidates =
            sources.iter().filter(usable).filter(|source| suffixes.iter().any(|s| named(source, s)));
        // max_by_key keeps the last of equals, apt prefers the first.
        candidates.rev().max_by_key(|source| {
            let of_archive = source.signed_by.as_deref().is_some_and(is_archive_keyring);
            let updated = sources.iter().any(|other| other.uris == source.uris && named(other, "-updates"));
            (of_archive, updated)
        })
    };
    let keyrings: &[&str] = match distribution {
        Distribution::Debian => &DEBIAN_KEYRINGS,
        Distribution::Ubuntu => &UBUNTU_KEYRINGS,
    };
    let installed = || keyrings.iter().find(|path| Path::new(path).exists()).map(|path| (*path).to_owned());
    let mirror = |source: &AptSource| {
        Some(Mirror { uris: source.uris.clone(), signed_by: source.signed_by.clone().or_else(installed)? })
    };
    let main = mirror(best(&[""])?)?;
    let mut security: Vec<Mirror> = best(&["-security", "/updates"]).and_then(mirror).into_iter().collect();
    if distribution == Distribution::Debian {
        security.extend(
            security_beside(&main).filter(|beside| security.iter().all(|named| !is_same(named, beside))),
        );
    }
    Some(Mirrors { distribution, main, security })
}

/// The security archive beside a mirror's main one: `debian-security` beside `debian`, Debian's layout.
fn security_beside(main: &Mirror) -> Option<Mirror> {
    let uris: Vec<String> = main.uris.iter().filter_map(|uri| beside(uri)).collect();
    (!uris.is_empty()).then(|| Mirror { uris, signed_by: main.signed_by.clone() })
}

fn beside(uri: &str) -> Option<String> {
    let mut parts: Vec<&str> = uri.split('/').collect();
    // A host may have this name too.
    let first = if uri.contains("://") { 3 } else { 1 };
    let last = parts.iter().rposition(|part| *part == "debian").filter(|at| *at >= first)?;
    parts[last] = "debian-security";
    Some(parts.join("/"))
}

fn is_same(left: &Mirror, right: &Mirror) -> bool {
    let bare = |mirror: &Mirror| {
        mirror.uris.iter().map(|uri| uri.trim_end_matches('/').to_owned()).collect::<Vec<_>>()
    };
    bare(left) == bare(right)
}

fn is_archive_keyring(signed_by: &str) -> bool {
    signed_by.contains("debian-archive-") || signed_by.contains("ubuntu-archive-")
}

#[cfg(test)]
mod tests;
