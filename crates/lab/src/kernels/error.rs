//! Why there is no kernel to boot, each reason with its remedy.

use crate::arch::Arch;
use crate::cache::CacheError;
use std::io;
use std::path::{Path, PathBuf};

/// Why there is no kernel to boot, or the cache cannot be used.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what each field is")]
pub enum KernelError {
    /// Programs that fetching needs are not installed: program and Debian package of each.
    #[error(
        "the lab's kernels need {}: install {}; --kernel IMAGE --modules DIR needs only kmod",
        words(.0.iter().map(|(tool, _)| tool)),
        words(.0.iter().map(|(_, package)| package))
    )]
    MissingTools(Vec<(&'static str, &'static str)>),
    /// The host has no package source from which kernels could come.
    #[error("no kernel can be fetched because {0}: give one with --kernel IMAGE --modules DIR")]
    NoSource(String),
    /// No package list could be read, or a package could not be downloaded.
    #[error(
        "{what} could not be fetched, apt says `{complaint}`: check the network and the mirror, or use {}",
        usable(.cached)
    )]
    Unreachable {
        what: String,
        /// apt's own first error line.
        complaint: String,
        /// The releases in the cache, which need no network.
        cached: Vec<String>,
    },
    /// No kernel of that series or release is offered.
    #[error(
        "no kernel `{wanted}` is offered by {}: {}name a mirror in /etc/apt that has it, or give it with \
         --kernel IMAGE --modules DIR{}",
        places(.asked), choice(.offered), unread(.complaint)
    )]
    NotOffered {
        wanted: String,
        asked: Vec<Asked>,
        offered: Vec<String>,
        /// apt's complaint about a list that could not be read, which may hide kernels.
        complaint: Option<String>,
    },
    /// A program of the system failed.
    #[error("{tool} failed on {what}: {complaint}; run `iopj lab clean` and try again")]
    Tool {
        tool: &'static str,
        what: String,
        /// Its own first error line.
        complaint: String,
    },
    /// A guest of another processor than this host's lacks a busybox.
    #[error(
        "a guest with the processor {arch} needs a busybox for it, which apt cannot fetch: `{complaint}`; \
         check the network and the mirror"
    )]
    NoBusybox { arch: Arch, complaint: String },
    /// A package lacks what a kernel's package should hold.
    #[error("the package of {release} holds no {missing}: choose another release with `iopj lab kernels`")]
    BadPackage { release: String, missing: &'static str },
    /// A compressed module cannot be read.
    #[error("the module `{path}` cannot be unpacked: {reason}; install or build the modules again")]
    BadModule { path: PathBuf, reason: String },
    /// The image is not a kernel that a guest can boot.
    #[error(
        "`{path}` is not a kernel for a guest: {reason}; name a bzImage (/boot/vmlinuz-…), an uncompressed \
         vmlinux, or an Arm `Image`"
    )]
    NotAKernel { path: PathBuf, reason: ImageFault },
    /// The folder holds no modules.
    #[error(
        "`{0}` holds no kernel modules: name a folder with lib/modules/RELEASE, or the one with modules.dep"
    )]
    NoModules(PathBuf),
    /// The modules belong to another kernel.
    #[error(
        "`{image}` is Linux {image_release} but `{modules}` is for {modules_release}: name the modules that \
         were built with this image"
    )]
    Mismatch {
        image: PathBuf,
        image_release: String,
        /// The folder or the module that does not fit.
        modules: PathBuf,
        modules_release: String,
    },
    /// The running kernel's image or modules are not installed.
    #[error(
        "the running kernel {release} has no `{path}`: install its package, or choose another kernel with \
         `iopj lab kernels`"
    )]
    NoHostKernel { release: String, path: PathBuf },
    /// The cache cannot be used, or one of its files.
    #[error(transparent)]
    Cache(#[from] CacheError),
}

/// Why no guest could boot an image.
#[derive(Debug, thiserror::Error)]
pub enum ImageFault {
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] io::Error),
    /// Neither a bzImage nor an ELF file nor an image for Arm.
    #[error("it has neither the boot protocol's header nor that of an ELF file or of an Arm image")]
    NoHeader,
    /// A bzImage that does not say which kernel it is.
    #[error("its boot header has no version")]
    NoVersion,
    /// An ELF file of another architecture.
    #[error("it is an ELF file for another processor")]
    OtherProcessor,
    /// An ELF file that is no program.
    #[error("it is an ELF file without anything to load")]
    NothingToLoad,
    /// An ELF file or an image for Arm that is no kernel.
    #[error("it lacks the words `Linux version`")]
    NoRelease,
    /// A kernel where QEMU finds no entry.
    #[error("it is a vmlinux without a PVH entry (CONFIG_PVH), name its bzImage")]
    NoPvhEntry,
}

/// A suite whose package list was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// Its name, as `bookworm-security`.
    pub suite: String,
    /// Its mirror's address.
    pub mirror: String,
    /// Its list could be read.
    pub read: bool,
}

impl KernelError {
    /// For `map_err`: what was tried on which file.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> KernelError {
        move |source| CacheError::io(action, path)(source).into()
    }
}

fn words<T: AsRef<str>>(items: impl IntoIterator<Item = T>) -> String {
    items.into_iter().map(|item| item.as_ref().to_owned()).collect::<Vec<_>>().join(", ")
}

fn choice(offered: &[String]) -> String {
    if offered.is_empty() { String::new() } else { format!("choose one of {}, ", words(offered)) }
}

fn usable(cached: &[String]) -> String {
    if cached.is_empty() {
        "--kernel IMAGE --modules DIR".to_owned()
    } else {
        format!("what is cached ({})", words(cached))
    }
}

/// The suites by mirror, and those that no mirror has.
pub(super) fn places(asked: &[Asked]) -> String {
    let mut mirrors: Vec<(&str, Vec<&str>)> = Vec::new();
    for one in asked.iter().filter(|one| one.read) {
        match mirrors.iter_mut().find(|(mirror, _)| *mirror == one.mirror) {
            Some((_, suites)) => suites.push(&one.suite),
            None => mirrors.push((&one.mirror, vec![&one.suite])),
        }
    }
    let read: Vec<_> =
        mirrors.into_iter().map(|(at, suites)| format!("{} at {}", words(suites), public(at))).collect();
    let mut lacking: Vec<_> = asked.iter().filter(|one| !one.read).map(|one| one.suite.as_str()).collect();
    lacking.sort_unstable();
    lacking.dedup();
    let lacking =
        if lacking.is_empty() { String::new() } else { format!(" (not there: {})", words(lacking)) };
    format!("{}{lacking}", if read.is_empty() { "any mirror".to_owned() } else { read.join("; ") })
}

/// A mirror's address without the name and password that it may hold.
fn public(uri: &str) -> String {
    match uri.split_once("://").and_then(|(scheme, rest)| Some((scheme, rest.split_once('@')?.1))) {
        Some((scheme, rest)) => format!("{scheme}://{rest}"),
        None => uri.to_owned(),
    }
}

fn unread(complaint: &Option<String>) -> String {
    complaint
        .as_ref()
        .map_or_else(String::new, |line| format!(" (not every package list could be read: `{line}`)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_is_not_offered_is_refused_with_the_suites_that_were_asked() {
        let asked = |suite: &str, mirror: &str, read| Asked {
            suite: suite.to_owned(),
            mirror: mirror.to_owned(),
            read,
        };
        let error = KernelError::NotOffered {
            wanted: "5.10".to_owned(),
            asked: vec![
                asked("bullseye-security", "http://m.example/debian-security", false),
                asked("bookworm-security", "http://m.example/debian-security", true),
                asked("bookworm-updates", "http://ann:secret@m.example/debian", true),
                asked("trixie-updates", "http://ann:secret@m.example/debian", true),
            ],
            offered: vec!["6.1".to_owned(), "7.2".to_owned()],
            complaint: None,
        };
        assert_eq!(
            error.to_string(),
            "no kernel `5.10` is offered by bookworm-security at http://m.example/debian-security; \
             bookworm-updates, trixie-updates at http://m.example/debian (not there: bullseye-security): \
             choose one of 6.1, 7.2, name a mirror in /etc/apt that has it, or give it with --kernel IMAGE \
             --modules DIR"
        );
    }
}
