//! Kernels for the guests: what is offered, fetching one into the cache, and kernels that the user brings.
//!
//! Packages come from the host's own mirrors through a private apt, which checks their signatures; nothing is
//! installed and nothing of the host's apt is touched.

mod apt;
mod arm_image;
mod busybox;
mod catalogue;
mod error;
mod kernel;
mod modules;
mod own;
mod packed;
mod sources;
mod tools;
mod unpack;
mod version;
mod vmlinux;

pub use busybox::busybox;
pub use catalogue::Offer;
pub use error::{Asked, ImageFault, KernelError};
pub use kernel::Kernel;
pub use tools::missing_tools;

use crate::arch::Arch;
use crate::cache::Cache;
use apt::Apt;
use catalogue::{Candidate, all_series, pick, series};
use sources::Mirrors;
use std::fs;
use std::path::Path;

/// The kernels for a processor that can be fetched, the newest of each series, and all that are cached;
/// oldest first. `note` gets progress messages. Without the network the cached ones are returned, if there
/// are any, and `note` gets the reason.
///
/// # Errors
/// [`KernelError::MissingTools`], [`KernelError::NoSource`], [`KernelError::Unreachable`],
/// [`KernelError::Cache`].
pub fn list(cache: &Cache, arch: Arch, note: &mut dyn FnMut(&str)) -> Result<Vec<Offer>, KernelError> {
    let cached = cached_releases(cache, arch);
    let known = tools::require(&["apt-get"]).and_then(|()| {
        let _lock = cache.lock(note)?;
        PackageLists::open(cache, arch, None, false, note)
    });
    match known {
        Ok(lists) => Ok(catalogue::offers(&lists.candidates, &cached)),
        Err(error) if cached.is_empty() => Err(error),
        Err(error) => {
            note(&error.to_string());
            Ok(catalogue::offers(&[], &cached))
        }
    }
}

/// A kernel for a processor by its series (`5.10`: the newest cached one, else the newest offered), by its
/// whole release, or the running host's own (`host`). One that is not cached is fetched; `note` gets progress
/// messages.
///
/// # Errors
/// [`KernelError::NotOffered`] with what is offered; [`KernelError::Unreachable`], [`KernelError::Cache`],
/// [`KernelError::MissingTools`], [`KernelError::NoSource`] and those of programs; for `host` those of
/// [`from_files`] and [`KernelError::NoHostKernel`].
pub fn fetch(
    cache: &Cache,
    arch: Arch,
    wanted: &str,
    note: &mut dyn FnMut(&str),
) -> Result<Kernel, KernelError> {
    if wanted == "host" && arch == Arch::HOST {
        return own::host(cache, note);
    }
    if let Some(kernel) = cached(cache, arch, wanted) {
        return Ok(kernel);
    }
    tools::require(&["apt-get", "dpkg-deb", "depmod"])?;
    let _lock = cache.lock(note)?;
    // Another process may have fetched it while this one waited.
    if let Some(kernel) = cached(cache, arch, wanted) {
        return Ok(kernel);
    }
    let lists = PackageLists::open(cache, arch, Some(wanted), false, note)?;
    match lists.fetch(cache, wanted, note) {
        // A package in yesterday's list may have been replaced by a newer one.
        Err(KernelError::Unreachable { .. }) if !lists.is_fresh => {
            PackageLists::open(cache, arch, Some(wanted), true, note)?.fetch(cache, wanted, note)
        }
        done => done,
    }
}

/// A kernel made of an image (a bzImage or an uncompressed vmlinux) and a folder that holds
/// `lib/modules/RELEASE`, or is itself that folder. Both are copied into the cache with the modules unpacked,
/// and copied again when they change.
///
/// # Errors
/// [`KernelError::NotAKernel`], [`KernelError::NoModules`], [`KernelError::Mismatch`] if a module was
/// built for another kernel, [`KernelError::MissingTools`], and [`KernelError::Cache`].
pub fn from_files(cache: &Cache, image: &Path, modules: &Path) -> Result<Kernel, KernelError> {
    own::from_files(cache, image, modules, None, &mut |_| {})
}

/// The private apts and what their lists offer.
struct PackageLists {
    arch: Arch,
    /// That of the short lists, then one per release whose series they lacked.
    apts: Vec<Apt>,
    candidates: Vec<Candidate>,
    /// The suites of all lists.
    asked: Vec<Asked>,
    /// All lists were read just now.
    is_fresh: bool,
    /// Why a list could not be read.
    complaint: Option<String>,
    /// The releases in the cache, for messages.
    cached: Vec<String>,
}

impl PackageLists {
    /// Reads the lists: all if `anew`, else those that are old or lack what is wanted. The cache is locked.
    fn open(
        cache: &Cache,
        arch: Arch,
        wanted: Option<&str>,
        anew: bool,
        note: &mut dyn FnMut(&str),
    ) -> Result<PackageLists, KernelError> {
        let mirrors = sources::mirrors(Path::new("/etc"))?;
        let apt = cache.folder().join("apt");
        let folder = if arch == Arch::X86_64 { apt } else { apt.join(arch.as_str()) };
        let cached = cached_releases(cache, arch);
        let (apts, candidates, asked) = (Vec::new(), Vec::new(), Vec::new());
        let mut lists =
            PackageLists { arch, apts, candidates, asked, is_fresh: true, complaint: None, cached };
        lists.add(Apt::open(&folder, arch, &catalogue::suites(&mirrors))?, wanted, anew, note)?;
        lists.add_releases(&folder, &mirrors, wanted, anew, note)?;
        if lists.candidates.is_empty() && (wanted.is_none() || lists.complaint.is_some()) {
            let complaint = lists.complaint.take().unwrap_or_else(|| "the lists hold no kernels".to_owned());
            return Err(lists
                .unreachable(&format!("the package lists of {}", error::places(&lists.asked)), complaint));
        }
        if let Some(complaint) = &lists.complaint {
            note(&format!("not every package list could be read: {complaint}"));
        }
        Ok(lists)
    }

    /// Adds the long lists of the releases whose series is wanted (or any is) and missing: a mirror may have
    /// no security archive.
    fn add_releases(
        &mut self,
        folder: &Path,
        mirrors: &Mirrors,
        wanted: Option<&str>,
        anew: bool,
        note: &mut dyn FnMut(&str),
    ) -> Result<(), KernelError> {
        for (release, own) in catalogue::releases(mirrors) {
            let is_wanted = wanted.is_none_or(|wanted| series(wanted).unwrap_or(wanted) == *own);
            if is_wanted && pick(&self.candidates, wanted.unwrap_or(own)).is_none() {
                let suites = [((*release).to_owned(), &mirrors.main)];
                self.add(Apt::open(&folder.join(release), self.arch, &suites)?, wanted, anew, note)?;
            }
        }
        Ok(())
    }

    /// Adds what an apt's lists offer.
    fn add(
        &mut self,
        apt: Apt,
        wanted: Option<&str>,
        anew: bool,
        note: &mut dyn FnMut(&str),
    ) -> Result<(), KernelError> {
        let (mut candidates, mut asked) = apt.read()?;
        let lacks = wanted.is_some_and(|wanted| pick(&candidates, wanted).is_none());
        if anew || lacks || apt.is_stale() {
            let complaint = apt.update(note)?;
            self.complaint = self.complaint.take().or(complaint);
            (candidates, asked) = apt.read()?;
        } else {
            self.is_fresh = false;
        }
        self.candidates.extend(candidates);
        self.asked.extend(asked);
        self.apts.push(apt);
        Ok(())
    }

    fn unreachable(&self, what: &str, complaint: String) -> KernelError {
        KernelError::Unreachable { what: what.to_owned(), complaint, cached: self.cached.clone() }
    }

    /// The newest kernel that is wanted, and the apt whose lists offer it.
    fn find(&self, wanted: &str) -> Option<(&Candidate, &Apt)> {
        let candidate = pick(&self.candidates, wanted)?;
        let apt = self.apts.iter().find(|apt| apt.names().contains(&candidate.suite.as_str()))?;
        Some((candidate, apt))
    }

    /// Downloads and unpacks a kernel into the cache.
    fn fetch(&self, cache: &Cache, wanted: &str, note: &mut dyn FnMut(&str)) -> Result<Kernel, KernelError> {
        let (candidate, apt) = self.find(wanted).ok_or_else(|| KernelError::NotOffered {
            wanted: wanted.to_owned(),
            asked: self.asked.clone(),
            offered: all_series(&self.candidates),
            complaint: self.complaint.clone(),
        })?;
        let release = &candidate.release;
        // Packages unpack to at most seven times their size (5.10: 6.5, 6.18: 5), beside an image of 64 MB.
        cache.need_room(&format!("kernel {release}"), 8 * candidate.download_bytes() + 100_000_000)?;
        let place = unpack::make_whole(&unpack::folder(cache, self.arch), release, |partial| {
            let packages = partial.join("packages");
            fs::create_dir(&packages).map_err(KernelError::io("make", &packages))?;
            for package in &candidate.packages {
                let megabytes = package.download_bytes as f64 / 1e6;
                note(&format!("fetching {} ({megabytes:.0} MB) from {}", package.name, candidate.suite));
            }
            let named = candidate.packages.iter().map(|one| format!("{}={}", one.name, one.version));
            if let Some(complaint) = apt.download(&named.collect::<Vec<_>>(), &packages)? {
                return Err(self.unreachable(&format!("kernel {release}"), complaint));
            }
            note(&format!("unpacking {release}"));
            unpack::from_packages(partial, release)
        })?;
        unpack::kernel_in(&place, release)
            .ok_or_else(|| KernelError::BadPackage { release: release.clone(), missing: "modules" })
    }
}

/// The newest cached kernel that is the release or of the series `wanted`.
fn cached(cache: &Cache, arch: Arch, wanted: &str) -> Option<Kernel> {
    let releases = cached_releases(cache, arch);
    let release = releases.iter().rfind(|release| *release == wanted || series(release) == Some(wanted))?;
    unpack::kernel_in(&unpack::folder(cache, arch).join(release), release)
}

/// The releases of the whole kernels in the cache, oldest first.
fn cached_releases(cache: &Cache, arch: Arch) -> Vec<String> {
    let folder = unpack::folder(cache, arch);
    let mut releases: Vec<_> = fs::read_dir(&folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| series(name).is_some() && unpack::kernel_in(&folder.join(name), name).is_some())
        .collect();
    releases.sort_by(|left, right| version::compare(left, right));
    releases
}
