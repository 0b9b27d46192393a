//! A private apt with its own lists, state, cache and sources beside the kernels: the host's are never
//! touched. apt checks every signature and hash.

use super::KernelError;
use super::catalogue::{self, Candidate};
use super::error::Asked;
use super::sources::Mirror;
use super::tools;
use crate::arch::Arch;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

/// How long package lists are used.
const LISTS_AGE: Duration = Duration::from_secs(24 * 3600);

/// Settings that override the host's: hooks would clean the host's own cache, others would let unsigned
/// packages through. The network settings (proxies, credentials) are the host's.
const SETTINGS: &str = "\
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
APT::Get::AllowUnauthenticated \"false\";
Acquire::AllowInsecureRepositories \"false\";
Acquire::AllowDowngradeToInsecureRepositories \"false\";
Acquire::AllowWeakRepositories \"false\";
Acquire::GzipIndexes \"false\";
Acquire::Languages \"none\";
Acquire::Retries \"1\";
Acquire::http::Timeout \"20\";
Acquire::https::Timeout \"20\";
Dir::Cache::pkgcache \"\";
Dir::Cache::srcpkgcache \"\";
";

/// The private apt in one folder.
pub(super) struct Apt {
    folder: PathBuf,
    /// Each suite and its mirror's address; a suite may be read at two mirrors.
    suites: Vec<(String, String)>,
}

impl Apt {
    /// Makes the folder ready to read the suites on these mirrors, of packages for this processor.
    pub(super) fn open(folder: &Path, arch: Arch, suites: &[(String, &Mirror)]) -> Result<Apt, KernelError> {
        for part in ["lists/partial", "cache/archives/partial", "sources.list.d", "preferences.d"] {
            make_folder(&folder.join(part))?;
        }
        let sources: String = suites.iter().map(|(suite, mirror)| stanza(suite, arch, mirror)).collect();
        let suites = suites.iter().map(|(suite, mirror)| (suite.clone(), mirror.uris.join(" "))).collect();
        let apt = Apt { folder: folder.to_owned(), suites };
        if apt.write("sources.list.d/kernels.sources", &sources)? {
            crate::cache::remove(&apt.stamp())?;
        }
        apt.write("apt.conf", &format!("{SETTINGS}APT::Architecture \"{}\";\n", arch.of_packages()))?;
        // No package counts as installed.
        apt.write("status", "")?;
        Ok(apt)
    }

    /// Writes a file; returns whether that changed it.
    fn write(&self, name: &str, text: &str) -> Result<bool, KernelError> {
        let path = self.folder.join(name);
        if fs::read_to_string(&path).is_ok_and(|old| old == text) {
            return Ok(false);
        }
        fs::write(&path, text).map_err(KernelError::io("write", &path))?;
        Ok(true)
    }

    /// A file whose time says when all lists were last read.
    fn stamp(&self) -> PathBuf {
        self.folder.join("lists-read")
    }

    /// The lists are older than a day, or of other mirrors, or were not all read.
    pub(super) fn is_stale(&self) -> bool {
        let read = fs::metadata(self.stamp()).and_then(|metadata| metadata.modified());
        // A time in the future means that the clock was set back: the age is not known.
        !read.is_ok_and(|read| read.elapsed().is_ok_and(|age| age < LISTS_AGE))
    }

    /// Reads all lists again; returns apt's complaint if some could not be read. Their old lists stay in use.
    pub(super) fn update(&self, note: &mut dyn FnMut(&str)) -> Result<Option<String>, KernelError> {
        note(&format!("reading the package lists of {}", self.names().join(", ")));
        let output = tools::output("apt-get", "the package lists", self.command().args(["-q", "update"]))?;
        let complaint = complaint(&output);
        if complaint.is_none() {
            let stamp = self.stamp();
            fs::write(&stamp, "").map_err(KernelError::io("write", &stamp))?;
        }
        Ok(complaint)
    }

    /// The names of the suites, each once.
    pub(super) fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for (suite, _) in &self.suites {
            if !names.contains(&suite.as_str()) {
                names.push(suite);
            }
        }
        names
    }

    /// The kernels in the lists that were read, and which lists those are.
    pub(super) fn read(&self) -> Result<(Vec<Candidate>, Vec<Asked>), KernelError> {
        let mut command = self.command();
        command.args(["indextargets", "--format", "$(RELEASE) $(FILENAME)", "Created-By: Packages"]);
        let output = tools::output("apt-get", "the package lists", &mut command)?;
        let mut candidates = Vec::new();
        let mut found = Vec::new();
        let text = String::from_utf8_lossy(&output.stdout);
        for (suite, file) in text.lines().filter_map(|line| line.split_once(' ')) {
            // apt also names lists that it could not read.
            if let Ok(text) = fs::read(file) {
                candidates.extend(catalogue::candidates(suite, &String::from_utf8_lossy(&text)));
                found.push(suite);
            }
        }
        let asked = |(suite, mirror): &(String, String)| {
            let read = found.contains(&suite.as_str());
            Asked { suite: suite.clone(), mirror: mirror.clone(), read }
        };
        Ok((candidates, self.suites.iter().map(asked).collect()))
    }

    /// Downloads packages, each as apt names it, into a folder; returns apt's complaint if it could not.
    #[must_use = "a failed download is the complaint"]
    pub(super) fn download(&self, packages: &[String], into: &Path) -> Result<Option<String>, KernelError> {
        let mut command = self.command();
        command.args(["-q", "download"]).args(packages).current_dir(into);
        let output = tools::output("apt-get", &packages.join(", "), &mut command)?;
        let failed = !output.status.success();
        Ok(failed.then(|| complaint(&output).unwrap_or_else(|| output.status.to_string())))
    }

    fn command(&self) -> Command {
        let mut command = tools::command("apt-get");
        command.arg("-c").arg(self.folder.join("apt.conf"));
        for (option, place) in [
            ("Dir::State", "."),
            ("Dir::State::lists", "lists"),
            ("Dir::State::status", "status"),
            ("Dir::Cache", "cache"),
            ("Dir::Cache::archives", "cache/archives"),
            ("Dir::Etc::sourceparts", "sources.list.d"),
            ("Dir::Etc::preferencesparts", "preferences.d"),
        ] {
            let mut assignment = std::ffi::OsString::from(format!("{option}="));
            assignment.push(self.folder.join(place));
            command.arg("-o").arg(assignment);
        }
        // As root, apt would change to a user that cannot reach a cache in root's home.
        command.args(["-o", "Dir::Etc::sourcelist=/dev/null", "-o", "Dir::Etc::preferences=/dev/null"]);
        command.args(["-o", "APT::Sandbox::User=root"]);
        command
    }
}

/// One suite on its mirror. An old suite's Release file expires when the distribution no longer renews it,
/// but stays signed: its signature is checked, its date is not.
fn stanza(suite: &str, arch: Arch, mirror: &Mirror) -> String {
    format!(
        "Types: deb\nURIs: {}\nSuites: {suite}\nComponents: main\nArchitectures: {}\nTargets: \
         Packages\nPDiffs: no\nCheck-Valid-Until: no\nSigned-By: {}\n\n",
        mirror.uris.join(" "),
        arch.of_packages(),
        mirror.signed_by
    )
}

/// apt's words for a suite that its mirror does not have: not the network's fault, and no reason to retry.
const NOT_THERE: [&str; 2] = ["does not have a Release file", "no longer has a Release file"];

/// apt's line that best says what went wrong, if anything did: apt exits with success even if it could not
/// read a list. A suite that the mirror does not have is no complaint.
fn complaint(output: &Output) -> Option<String> {
    let (errors, progress) =
        (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
    let is_absence = |line: &str| NOT_THERE.iter().any(|words| line.contains(words));
    let first = |marks: &[&str]| {
        errors
            .lines()
            .filter(|line| !is_absence(line))
            .find(|line| marks.iter().any(|mark| line.starts_with(mark)))
    };
    let line = first(&["W: GPG error", "W: Failed to fetch"]).or_else(|| first(&["E: "]));
    if let Some(line) = line {
        return Some(line.to_owned());
    }
    // If another suite is not there, apt says nothing on stderr about one that could not be reached.
    let unreached = progress
        .lines()
        .zip(progress.lines().skip(1))
        .find(|(line, _)| line.starts_with("Err:") && line.ends_with(" InRelease"));
    if let Some((line, reason)) = unreached {
        let place = line.split_once(' ').map_or(line, |(_, place)| place.trim_end_matches(" InRelease"));
        return Some(format!("{place}: {}", reason.trim()));
    }
    let failed = !output.status.success() && !errors.lines().any(is_absence);
    failed.then(|| errors.lines().last().unwrap_or("no reason").to_owned())
}

fn make_folder(path: &Path) -> Result<(), KernelError> {
    fs::create_dir_all(path).map_err(KernelError::io("make", path))
}

#[cfg(test)]
mod tests {
    use super::super::sources::{Distribution, Mirrors};
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    fn output(code: i32, stderr: &str) -> Output {
        Output { status: ExitStatus::from_raw(code << 8), stdout: Vec::new(), stderr: stderr.into() }
    }

    #[test]
    fn apt_s_complaints_are_found_even_where_it_ends_well() {
        let offline = "W: Failed to fetch http://m.example/InRelease  Could not resolve 'm.example'\nW: \
                       Some index files failed to download. They have been ignored, or old ones used \
                       instead.\n";
        assert_eq!(
            complaint(&output(0, offline)).unwrap(),
            "W: Failed to fetch http://m.example/InRelease  Could not resolve 'm.example'"
        );
        let unsigned = "W: GPG error: http://m.example x InRelease: NO_PUBKEY 12\nE: The repository 'x' is \
                        not signed.\n";
        assert_eq!(
            complaint(&output(100, unsigned)).unwrap(),
            "W: GPG error: http://m.example x InRelease: NO_PUBKEY 12"
        );
        assert_eq!(
            complaint(&output(100, "W: odd\nE: Version '1' was not found\n")).unwrap(),
            "E: Version '1' was not found"
        );
        assert_eq!(complaint(&output(1, "")).unwrap(), "no reason");
        assert_eq!(complaint(&output(0, "W: Target Packages is configured multiple times\n")), None);
    }

    #[test]
    fn a_suite_that_the_mirror_does_not_have_is_no_complaint_and_hides_none() {
        let absent = "E: The repository 'http://m.example/debian x-backports Release' does not have a \
                      Release file.\n\
                      E: The repository 'http://m.example/debian y Release' no longer has a Release file.\n";
        assert_eq!(complaint(&output(100, absent)), None);
        let beside = Output {
            stdout: b"Ign:1 http://m.example/debian x-backports InRelease\n\
                      Err:2 http://m.example/debian x-backports Release\n  \
                      404  Not Found [IP: 203.0.113.80 80]\n\
                      Err:3 http://s.example/debian-security y-security InRelease\n  \
                      Could not resolve 's.example'\n"
                .to_vec(),
            ..output(100, absent)
        };
        assert_eq!(
            complaint(&beside).unwrap(),
            "http://s.example/debian-security y-security: Could not resolve 's.example'"
        );
        assert_eq!(complaint(&output(100, &format!("{absent}E: odd\n"))).unwrap(), "E: odd");
    }

    #[test]
    fn the_private_sources_name_the_host_s_mirrors_and_keys() {
        let temporary = tempfile::tempdir().unwrap();
        let mirror =
            |uri: &str| Mirror { uris: vec![uri.to_owned()], signed_by: "/k/archive.gpg".to_owned() };
        let mut mirrors = Mirrors {
            distribution: Distribution::Debian,
            main: mirror("http://main.example/debian"),
            security: vec![mirror("http://security.example"), mirror("http://main.example/debian-security")],
        };
        let open = |mirrors: &Mirrors| {
            Apt::open(temporary.path(), Arch::X86_64, &catalogue::suites(mirrors)).unwrap()
        };
        let apt = open(&mirrors);
        let releases = ["bullseye", "bookworm", "trixie"];
        let wanted: Vec<_> = ["security", "updates", "backports"]
            .iter()
            .flat_map(|kind| releases.map(|release| format!("{release}-{kind}")))
            .collect();
        assert_eq!(apt.names(), wanted);
        let sources = fs::read_to_string(temporary.path().join("sources.list.d/kernels.sources")).unwrap();
        assert!(
            sources.contains("URIs: http://security.example\nSuites: bullseye-security\nComponents: main\n")
        );
        assert!(sources.contains("URIs: http://main.example/debian\nSuites: trixie-backports\n"));
        assert!(sources.contains("URIs: http://main.example/debian-security\nSuites: bookworm-security\n"));
        assert_eq!(sources.matches("Signed-By: /k/archive.gpg\n").count(), 12);
        assert_eq!(sources.to_lowercase().matches("trusted").count(), 0);

        assert!(apt.is_stale());
        fs::write(apt.stamp(), "").unwrap();
        assert!(!open(&mirrors).is_stale());
        let old = std::time::SystemTime::now() - LISTS_AGE;
        fs::File::open(apt.stamp()).unwrap().set_modified(old).unwrap();
        assert!(apt.is_stale());

        fs::write(apt.stamp(), "").unwrap();
        mirrors.security.clear();
        let changed = open(&mirrors);
        assert!(changed.is_stale(), "lists of other mirrors are no lists");
        assert_eq!(changed.names(), wanted[3..]);
    }
}
