//! What the distributions offer: the suites that hold kernels, and the kernels in a package list.

use super::sources::{Distribution, Mirror, Mirrors};
use super::version;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Debian's releases with kernels, old to new, each with the series that it was released with.
const DEBIAN: [(&str, &str); 3] = [("bullseye", "5.10"), ("bookworm", "6.1"), ("trixie", "6.12")];
/// Ubuntu's releases with long-term support: their updates bring newer kernels too.
const UBUNTU_MAIN: [&str; 5] =
    ["focal-updates", "jammy-updates", "noble-updates", "resolute", "resolute-updates"];

/// A kernel that can be fetched, or is in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// Version and patch level: `5.10`.
    pub series: String,
    /// As `uname -r` says: `5.10.0-46-amd64`.
    pub release: String,
    /// The distribution's suite that offers it; empty if only the cache holds it.
    pub suite: String,
    /// Bytes to download if it is not cached.
    pub download_bytes: u64,
    /// It is in the cache and needs no network.
    pub cached: bool,
}

/// A kernel in a package list with the packages that it consists of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Candidate {
    pub release: String,
    pub suite: String,
    pub packages: Vec<Package>,
    version: String,
}

/// A binary package of one version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Package {
    pub name: String,
    pub version: String,
    pub depends: String,
    pub download_bytes: u64,
}

impl Candidate {
    pub(super) fn download_bytes(&self) -> u64 {
        self.packages.iter().map(|package| package.download_bytes).sum()
    }

    pub(super) fn matches(&self, wanted: &str) -> bool {
        self.release == wanted || series(&self.release) == Some(wanted)
    }
}

/// The suites to read first on the host's mirrors: short lists with the newest kernels.
pub(super) fn suites(mirrors: &Mirrors) -> Vec<(String, &Mirror)> {
    if mirrors.distribution == Distribution::Ubuntu {
        return UBUNTU_MAIN.iter().map(|suite| ((*suite).to_owned(), &mirrors.main)).collect();
    }
    let of =
        |mirror, kind: &'static str| DEBIAN.iter().map(move |(name, _)| (format!("{name}-{kind}"), mirror));
    let security = mirrors.security.iter().flat_map(|mirror| of(mirror, "security"));
    security.chain(of(&mirrors.main, "updates")).chain(of(&mirrors.main, "backports")).collect()
}

/// The suites with long lists and the series of their kernels; to be read only if that series is lacking.
pub(super) fn releases(mirrors: &Mirrors) -> &'static [(&'static str, &'static str)] {
    match mirrors.distribution {
        Distribution::Debian => &DEBIAN,
        Distribution::Ubuntu => &[],
    }
}

/// The series of a kernel release: `5.10` of `5.10.0-46-amd64`; `None` if it is not the release of an
/// ordinary kernel (Debian's `amd64` and `arm64`, Ubuntu's `generic`; not `cloud`, not `rt`, not a package
/// that only points to others).
pub(super) fn series(release: &str) -> Option<&str> {
    let fit = |c: char| c.is_ascii_alphanumeric() || ".+~_-".contains(c);
    let (numbers, flavour) = release.rsplit_once('-')?;
    let mut parts = numbers.split('-');
    let mut levels = parts.next()?.splitn(3, '.');
    let (version, patch_level, sublevel) = (levels.next()?, levels.next()?, levels.next()?);
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let starts_with_digit = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
    (release.chars().all(fit)
        && matches!(flavour, "amd64" | "arm64" | "generic")
        && is_number(version)
        && is_number(patch_level)
        && starts_with_digit(sublevel)
        && parts.all(starts_with_digit))
    .then(|| &release[..version.len() + 1 + patch_level.len()])
}

/// The kernels in the text of a `Packages` file (Debian's repository format) whose packages are all offered.
pub(super) fn candidates(suite: &str, packages_file: &str) -> Vec<Candidate> {
    let packages = newest_packages(packages_file);
    let mut found: BTreeMap<&str, Candidate> = BTreeMap::new();
    // The signed image comes first; an unsigned one serves if there is no other.
    for prefix in ["linux-image-", "linux-image-unsigned-"] {
        for (name, package) in &packages {
            let Some(release) = name.strip_prefix(prefix).filter(|release| series(release).is_some()) else {
                continue;
            };
            if found.contains_key(release) {
                continue;
            }
            if let Some(packages) = parts(release, package, &packages) {
                let (release_text, suite) = (release.to_owned(), suite.to_owned());
                let version = package.version.clone();
                found.insert(release, Candidate { release: release_text, suite, packages, version });
            }
        }
    }
    found.into_values().collect()
}

/// The packages of a kernel: its image, and what the image depends on for the same release. Debian from 6.19
/// splits image, modules and `linux-base` (configuration and lists), Ubuntu image and modules; rarer modules
/// are Ubuntu's `linux-modules-extra`. A kernel boots without `linux-base`, which Debian no longer offers for
/// some that name it.
fn parts(release: &str, image: &Package, packages: &BTreeMap<String, Package>) -> Option<Vec<Package>> {
    let mut parts = vec![image.clone()];
    for dependency in
        image.depends.split([',', '|']).filter_map(|dependency| dependency.split_whitespace().next())
    {
        let is_part = dependency.starts_with("linux-") && dependency.ends_with(&format!("-{release}"));
        if is_part && parts.iter().all(|part| part.name != dependency) {
            match packages.get(dependency) {
                Some(part) => parts.push(part.clone()),
                None if dependency.starts_with("linux-base-") => {}
                None => return None,
            }
        }
    }
    parts.extend(packages.get(&format!("linux-modules-extra-{release}")).cloned());
    Some(parts)
}

/// The newest version of each package whose name begins with `linux-`.
fn newest_packages(packages_file: &str) -> BTreeMap<String, Package> {
    let mut newest: BTreeMap<String, Package> = BTreeMap::new();
    for package in packages_file.split("\n\n").filter_map(package) {
        let older = newest
            .get(&package.name)
            .is_none_or(|known| version::compare(&known.version, &package.version) == Ordering::Less);
        if older {
            newest.insert(package.name.clone(), package);
        }
    }
    newest
}

fn package(stanza: &str) -> Option<Package> {
    let mut package = Package::default();
    for line in stanza.lines() {
        match line.split_once(": ") {
            Some(("Package", name)) => package.name = name.to_owned(),
            Some(("Version", version)) => package.version = version.to_owned(),
            Some(("Depends", depends)) => package.depends = depends.to_owned(),
            Some(("Size", bytes)) => package.download_bytes = bytes.parse().ok()?,
            _ => {}
        }
    }
    (package.name.starts_with("linux-") && !package.version.is_empty()).then_some(package)
}

/// The newest kernel that is the release or of the series `wanted`.
pub(super) fn pick<'a>(candidates: &'a [Candidate], wanted: &str) -> Option<&'a Candidate> {
    candidates
        .iter()
        .filter(|candidate| candidate.matches(wanted))
        .max_by(|left, right| version::compare(&left.version, &right.version))
}

/// The newest kernel of each series and every cached one, oldest first.
pub(super) fn offers(candidates: &[Candidate], cached: &[String]) -> Vec<Offer> {
    let newest = all_series(candidates).into_iter().filter_map(|series| pick(candidates, &series));
    let mut releases: Vec<&str> = newest.map(|candidate| candidate.release.as_str()).collect();
    releases.extend(cached.iter().map(String::as_str));
    releases.sort_by(|left, right| version::compare(left, right));
    releases.dedup();
    let offer = |release: &str| {
        let candidate = pick(candidates, release);
        Offer {
            series: series(release).unwrap_or_default().to_owned(),
            release: release.to_owned(),
            suite: candidate.map_or_else(String::new, |candidate| candidate.suite.clone()),
            download_bytes: candidate.map_or(0, Candidate::download_bytes),
            cached: cached.iter().any(|cached| cached == release),
        }
    };
    releases.into_iter().map(offer).collect()
}

/// The series on offer, oldest first.
pub(super) fn all_series(candidates: &[Candidate]) -> Vec<String> {
    let mut all: Vec<_> =
        candidates.iter().filter_map(|candidate| series(&candidate.release)).map(str::to_owned).collect();
    all.sort_by(|left, right| version::compare(left, right));
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stanza(name: &str, version: &str, size: u64, depends: &str) -> String {
        format!(
            "Package: {name}\nVersion: {version}\nArchitecture: amd64\nDepends: {depends}\nSize: {size}\n\n"
        )
    }

    fn debian() -> Vec<Candidate> {
        let old = stanza("linux-image-5.10.0-45-amd64", "5.10.257-1", 50, "kmod, linux-base (>= 4.3~)")
            + &stanza("linux-image-5.10.0-46-amd64", "5.10.262-1", 57, "kmod, linux-base (>= 4.3~)")
            + &stanza("linux-image-5.10.0-46-amd64-dbg", "5.10.262-1", 900, "")
            + &stanza("linux-image-5.10.0-46-cloud-amd64", "5.10.262-1", 9, "")
            + &stanza("linux-image-5.10.0-46-rt-amd64", "5.10.262-1", 9, "")
            + &stanza("linux-image-5.10.0-46-amd64-unsigned", "5.10.262-1", 9, "")
            + &stanza("linux-image-6.1-amd64", "6.1.180-1~deb11u1", 1, "linux-image-6.1.0-0.deb11.52-amd64")
            + &stanza("linux-image-6.1.0-0.deb11.52-amd64", "6.1.180-1~deb11u1", 60, "kmod")
            + &stanza("aptitude", "1", 1, "");
        let mut all = candidates("bullseye-security", &old);
        all.extend(candidates(
            "bookworm-security",
            &stanza("linux-image-6.1.0-56-amd64", "6.1.192-2", 70, "kmod"),
        ));
        let v = "7.2.12+deb13-amd64";
        let split = format!(
            "dracut | initramfs-tools, linux-base-{v} (= 7), linux-binary-{v} (= 7), linux-modules-{v} (= 7)"
        );
        let new = stanza(&format!("linux-image-{v}"), "7.2.12-1~bpo13+1", 1, &split)
            + &stanza(&format!("linux-base-{v}"), "7.2.12-1~bpo13+1", 10, "")
            + &stanza(&format!("linux-binary-{v}"), "7.2.12-1~bpo13+1", 140, "")
            + &stanza(&format!("linux-modules-{v}"), "7.2.12-1~bpo13+1", 1500, "kmod")
            + &stanza(
                "linux-image-6.18.15+deb13-amd64",
                "6.18.15-1~bpo13+1",
                167,
                "linux-base-6.18.15+deb13-amd64 (= 6)",
            )
            // Not yet signed: the image waits for a package that is not there.
            + &stanza("linux-image-7.3.4+deb13-amd64", "7.3.4-1", 1, "linux-binary-7.3.4+deb13-amd64 (= 7)");
        all.extend(candidates("trixie-backports", &new));
        all
    }

    #[test]
    fn a_series_is_found_with_the_newest_ordinary_kernel() {
        let all = debian();
        let release = |wanted| pick(&all, wanted).map(|candidate| candidate.release.as_str());
        assert_eq!(release("5.10"), Some("5.10.0-46-amd64"));
        assert_eq!(release("5.10.0-45-amd64"), Some("5.10.0-45-amd64"));
        assert_eq!(release("6.1"), Some("6.1.0-56-amd64"));
        assert_eq!(release("6.1.0-0.deb11.52-amd64"), Some("6.1.0-0.deb11.52-amd64"));
        assert_eq!(release("6.18"), Some("6.18.15+deb13-amd64"));
        assert_eq!(release("7.3"), None);
        assert_eq!(release("5"), None);
        assert_eq!(all_series(&all), ["5.10", "6.1", "6.18", "7.2"]);
    }

    #[test]
    fn a_kernel_in_parts_is_fetched_whole() {
        let all = debian();
        let new = pick(&all, "7.2").unwrap();
        let names: Vec<_> =
            new.packages.iter().map(|package| package.name.split("-7").next().unwrap()).collect();
        assert_eq!(names, ["linux-image", "linux-base", "linux-binary", "linux-modules"]);
        assert_eq!((new.download_bytes(), new.suite.as_str()), (1651, "trixie-backports"));
        assert_eq!(pick(&all, "5.10").unwrap().packages.len(), 1);
    }

    #[test]
    fn ubuntu_s_kernels_bring_their_modules() {
        let v = "5.15.0-200-generic";
        let list =
            stanza(&format!("linux-image-{v}"), "5.15.0-200.1", 11, &format!("kmod, linux-modules-{v}"))
                + &stanza(
                    &format!("linux-image-unsigned-{v}"),
                    "5.15.0-200.1",
                    12,
                    &format!("linux-modules-{v}"),
                )
                + &stanza(&format!("linux-modules-{v}"), "5.15.0-200.1", 20, "")
                + &stanza(&format!("linux-modules-extra-{v}"), "5.15.0-200.1", 30, "")
                + &stanza("linux-image-5.15.0-200-lowlatency", "5.15.0-200.1", 1, "")
                + &stanza(
                    "linux-image-unsigned-6.8.0-9-generic",
                    "6.8.0-9.9",
                    5,
                    "linux-modules-6.8.0-9-generic",
                )
                + &stanza("linux-modules-6.8.0-9-generic", "6.8.0-9.9", 6, "");
        let all = candidates("jammy-updates", &list);
        assert_eq!(all_series(&all), ["5.15", "6.8"]);
        assert_eq!(pick(&all, "5.15").unwrap().download_bytes(), 61);
        assert_eq!(pick(&all, "6.8").unwrap().download_bytes(), 11);
    }

    #[test]
    fn what_is_offered_says_what_is_cached() {
        let cached = ["5.10.0-45-amd64".to_owned(), "6.1.0-56-amd64".to_owned(), "4.19.0-9-amd64".to_owned()];
        let offers = offers(&debian(), &cached);
        let short: Vec<_> = offers.iter().map(|o| (o.release.as_str(), o.download_bytes, o.cached)).collect();
        assert_eq!(
            short,
            [
                ("4.19.0-9-amd64", 0, true),
                ("5.10.0-45-amd64", 50, true),
                ("5.10.0-46-amd64", 57, false),
                ("6.1.0-56-amd64", 70, true),
                ("6.18.15+deb13-amd64", 167, false),
                ("7.2.12+deb13-amd64", 1651, false),
            ]
        );
        assert_eq!((offers[0].suite.as_str(), offers[1].suite.as_str()), ("", "bullseye-security"));
    }

    #[test]
    fn only_ordinary_releases_have_a_series() {
        for (release, wanted) in [
            ("5.10.0-46-amd64", Some("5.10")),
            ("6.18.15+deb13-amd64", Some("6.18")),
            ("6.8.0-31-generic", Some("6.8")),
            ("6.18.15+deb13-arm64", Some("6.18")),
            ("6.18.15+deb13-arm64-16k", None),
            ("6.1-amd64", None),
            ("5.10.0-46-cloud-amd64", None),
            ("5.10.0-46-rt-amd64", None),
            ("6.1.0-9-amd64-unsigned", None),
            ("6.1.0-../../x-amd64", None),
            ("5.10", None),
            ("", None),
        ] {
            assert_eq!(series(release), wanted, "{release}");
        }
    }

    proptest! {
        #[test]
        fn whatever_list_comes_only_whole_kernels_leave_it(
            text in "((Package|Version|Depends|Size): (linux-image-|linux-modules-)?\
                     [0-9.]{0,6}(-1-amd64)?\n\n?)*\\PC*",
        ) {
            for candidate in candidates("suite", &text) {
                prop_assert!(series(&candidate.release).is_some());
                prop_assert!(!candidate.packages.is_empty());
            }
        }
    }
}
