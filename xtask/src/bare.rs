//! A bare Debian in a folder, with one line of apt sources, in which commands run.

use crate::workspace::Workspace;
use crate::{needs, shell};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs in a mount namespace of its own: its mounts vanish with its last process, however that ends, and are
/// invisible to the code that removes the folder.
const ENTER: &str = "\
set -e
mount --bind \"$1\" \"$1\"
mount -t proc proc \"$1/proc\"
mount --rbind /sys \"$1/sys\"
mount --rbind /dev \"$1/dev\"
exec chroot \"$1\" env -i HOME=/root CI=true LANG=C.UTF-8 TERM=dumb \\
    PATH=/root/.cargo/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \\
    sh -ec \"$2\"
";

/// As people make it: the root directory is no mount point, and nothing of the user's environment is there.
const ENTER_PLAIN: &str = "\
set -e
mount -t proc proc \"$1/proc\"
mount --rbind /sys \"$1/sys\"
mount --rbind /dev \"$1/dev\"
exec chroot \"$1\" env -i LANG=C.UTF-8 TERM=dumb \\
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \\
    su - \"$2\" -c \"$3\"
";

/// Where Debian keeps the certificates of the authorities that are trusted.
const AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// The folder of the bare system, removed when dropped.
pub(crate) struct Bare(PathBuf);

impl Drop for Bare {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.0) {
            println!("{error:#}");
        }
    }
}

impl Bare {
    /// Makes a bare system of a release below the folder `of` of the target folder, with these packages.
    ///
    /// # Errors
    /// This is not root, or the release cannot be made.
    pub(crate) fn new(workspace: &Workspace, of: &str, release: &str, packages: &str) -> Result<Bare> {
        needs::ensure_here(&[("debootstrap", "debootstrap"), ("unshare", "util-linux")])?;
        if !rustix::process::geteuid().is_root() {
            bail!("only root can make a bare {release}: run this as root");
        }
        let bare = Bare(workspace.target.join(of).join(release));
        remove(&bare.0)?;
        fs::create_dir_all(&bare.0)?;
        let mut make = Command::new("debootstrap");
        make.args(["--variant=minbase", &format!("--include={packages}"), release]);
        shell::step(&format!("a bare {release}"), make.arg(&bare.0).arg(mirror()?))?;
        trust(&bare.0)?;
        let sources = fs::read_to_string(bare.0.join("etc/apt/sources.list"))?;
        if sources.lines().filter(|line| line.starts_with("deb")).count() != 1 {
            bail!("the bare {release} does not have exactly one line of apt sources: {sources}");
        }
        Ok(bare)
    }

    /// Its folder.
    pub(crate) fn folder(&self) -> &Path {
        &self.0
    }

    /// A shell in it that runs `script` and ends with the first command that fails.
    pub(crate) fn shell(&self, script: &str) -> Command {
        self.enter(ENTER, &[script])
    }

    /// A plain `chroot` in which this user has logged in.
    pub(crate) fn plain(&self, user: &str, script: &str) -> Command {
        self.enter(ENTER_PLAIN, &[user, script])
    }

    fn enter(&self, how: &str, words: &[&str]) -> Command {
        let mut enter = Command::new("unshare");
        enter.args(["--mount", "--propagation", "private", "sh", "-c", how, "enter"]);
        enter.arg(&self.0).args(words);
        enter
    }
}

/// Gives a bare system the authorities that this machine trusts, if it has any: a mirror may be asked by
/// https, and downloads may go through the site's own.
fn trust(folder: &Path) -> Result<()> {
    let own = Path::new(AUTHORITIES);
    if own.exists() {
        let to = folder.join(own.strip_prefix("/").unwrap_or(own));
        fs::create_dir_all(to.parent().context("a file without a folder")?)?;
        fs::copy(own, &to).with_context(|| to.display().to_string())?;
    }
    Ok(())
}

/// The mirror that this machine's own packages come from.
fn mirror() -> Result<String> {
    let first = archives()?.into_iter().next();
    let (place, _) =
        first.context("apt knows no mirror of Debian: name one in /etc/apt, and run apt-get update")?;
    Ok(place)
}

/// Debian's own archives that this machine's packages come from: the place and the suite of each.
///
/// # Errors
/// apt's own.
pub(crate) fn archives() -> Result<Vec<(String, String)>> {
    let words = ["indextargets", "--format", "$(LABEL)|$(COMPONENT)|$(REPO_URI)|$(RELEASE)"];
    let text = shell::output(Command::new("apt-get").args(words).arg("Created-By: Packages"))?;
    Ok(archives_in(&text))
}

/// The main archive's suites come first.
fn archives_in(targets: &str) -> Vec<(String, String)> {
    let labelled = |label: &str| {
        let lines = targets.lines().filter_map(|line| line.strip_prefix(label)?.strip_prefix("|main|"));
        lines.filter_map(|line| line.split_once('|')).collect::<Vec<_>>()
    };
    let mut all = [labelled("Debian"), labelled("Debian-Security")].concat();
    all.dedup();
    all.into_iter().map(|(place, suite)| (place.to_owned(), suite.to_owned())).collect()
}

/// Removes a bare system unless something is mounted in it.
fn remove(folder: &Path) -> Result<()> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    if let Some(place) = mount_below(&mounts, folder) {
        bail!("`{place}` is mounted: unmount it, then remove `{}`", folder.display());
    }
    if !folder.exists() {
        return Ok(());
    }
    shell::output(Command::new("rm").args(["-rf", "--one-file-system"]).arg(folder)).map(|_| ())
}

/// The first mount point at or below a folder (proc_pid_mountinfo(5)).
fn mount_below<'a>(mounts: &'a str, folder: &Path) -> Option<&'a str> {
    mounts
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .find(|place| Path::new(place).starts_with(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_in_which_something_is_mounted_is_not_removed() {
        let mounts = "22 1 254:0 / / rw - ext4 /dev/vda rw\n90 22 0:5 / /w/target/soak/trixie/dev rw - \
                      devtmpfs dev rw\n";
        assert_eq!(
            mount_below(mounts, Path::new("/w/target/soak/trixie")),
            Some("/w/target/soak/trixie/dev")
        );
        assert_eq!(mount_below(mounts, Path::new("/w/target/soak/trix")), None);
        assert_eq!(mount_below(mounts, Path::new("/w/target/soak/bookworm")), None);
    }

    #[test]
    fn a_bare_system_without_certificates_can_ask_a_mirror_by_https() {
        let folder = tempfile::tempdir().unwrap();
        trust(folder.path()).unwrap();
        let given = folder.path().join("etc/ssl/certs/ca-certificates.crt");
        assert_eq!(given.exists(), Path::new(AUTHORITIES).exists());
    }

    #[test]
    fn the_mirror_is_the_distributions_main_archive() {
        let targets = "other|main|http://o.example/|s\nDebian-Security|main|http://s.example/|s-security\n\
                       Debian|contrib|http://c.example/debian/|s\nDebian|main|http://m.example/debian/|s\n";
        let archives = archives_in(targets);
        let expected = [("http://m.example/debian/", "s"), ("http://s.example/", "s-security")];
        assert_eq!(archives, expected.map(|(place, suite)| (place.to_owned(), suite.to_owned())));
        assert!(archives_in("Ubuntu|main|http://u.example/|s\n").is_empty());
    }
}
