//! A folder with a kernel ready to boot: completed under another name, then renamed.
//!
//! `kernels/RELEASE/` holds `vmlinux` (or `bzImage`, or Arm's `Image`), `config` if the packages have one,
//! and `lib/modules/RELEASE/`. The user's own kernels are in `kernels/own-RELEASE/`; what is for Arm is in
//! `kernels/aarch64/`.

use super::vmlinux::{self, Kind};
use super::{Kernel, KernelError, modules, tools};
use crate::arch::Arch;
use crate::cache::{Cache, remove};
use std::fs;
use std::path::{Path, PathBuf};

const PARTIAL: &str = ".partial-";

/// The folder of all cached kernels for a processor.
pub(super) fn folder(cache: &Cache, arch: Arch) -> PathBuf {
    let kernels = cache.folder().join("kernels");
    match arch {
        Arch::X86_64 => kernels,
        other => kernels.join(other.as_str()),
    }
}

/// The kernel that was made in `place`, if it is whole.
pub(super) fn kernel_in(place: &Path, release: &str) -> Option<Kernel> {
    let found = Kind::ALL.into_iter().find(|kind| place.join(kind.file()).is_file());
    let modules = modules_folder(place, release);
    let config = Some(place.join("config")).filter(|config| config.is_file());
    modules.join("modules.dep").is_file().then_some(())?;
    let kind = found?;
    let (release, image) = (release.to_owned(), place.join(kind.file()));
    Some(Kernel { release, arch: kind.arch(), image, modules, config })
}

pub(super) fn modules_folder(place: &Path, release: &str) -> PathBuf {
    place.join("lib/modules").join(release)
}

/// Makes `name` in the folder `kernels` with `make` in an empty folder beside it, under the cache's lock.
/// What an earlier process left unfinished is removed first.
pub(super) fn make_whole(
    kernels: &Path,
    name: &str,
    make: impl FnOnce(&Path) -> Result<(), KernelError>,
) -> Result<PathBuf, KernelError> {
    fs::create_dir_all(kernels).map_err(KernelError::io("make", kernels))?;
    for entry in fs::read_dir(kernels).map_err(KernelError::io("list", kernels))?.flatten() {
        if entry.file_name().to_str().is_some_and(|name| name.starts_with(PARTIAL)) {
            remove(&entry.path())?;
        }
    }
    let (partial, whole) = (kernels.join(format!("{PARTIAL}{name}")), kernels.join(name));
    fs::create_dir(&partial).map_err(KernelError::io("make", &partial))?;
    if let Err(error) = make(&partial) {
        // The first error says more than one from cleaning up would; the next fetch cleans up too.
        let _ = remove(&partial);
        return Err(error);
    }
    remove(&whole)?;
    fs::rename(&partial, &whole).map_err(KernelError::io("rename", &partial))?;
    Ok(whole)
}

/// Unpacks the packages in a folder into one tree beside it, whose folder is returned; the packages go.
pub(super) fn unpack_packages(packages: &Path) -> Result<PathBuf, KernelError> {
    let tree = packages.with_file_name("tree");
    for entry in fs::read_dir(packages).map_err(KernelError::io("list", packages))?.flatten() {
        let package = entry.file_name().to_string_lossy().into_owned();
        tools::run("dpkg-deb", &package, tools::command("dpkg-deb").arg("-x").arg(entry.path()).arg(&tree))?;
    }
    remove(packages)?;
    Ok(tree)
}

/// Turns the packages in `place/packages` into the kernel in `place`; nothing is installed.
pub(super) fn from_packages(place: &Path, release: &str) -> Result<(), KernelError> {
    let tree = unpack_packages(&place.join("packages"))?;
    let bad = |missing| KernelError::BadPackage { release: release.to_owned(), missing };
    let first = |candidates: &[PathBuf]| candidates.iter().find(|path| path.exists()).cloned();
    let beside = ["usr/lib/modules", "lib/modules"].map(|folder| tree.join(folder).join(release));
    let modules = first(&beside).ok_or_else(|| bad("modules"))?;
    let boot = tree.join("boot");
    let image = first(&[boot.join(format!("vmlinuz-{release}")), modules.join("vmlinuz")]);
    place_image(place, &image.ok_or_else(|| bad("kernel image"))?)?;
    if let Some(config) = first(&[boot.join(format!("config-{release}")), modules.join("config")]) {
        fs::copy(&config, place.join("config")).map_err(KernelError::io("copy", &config))?;
    }
    let target = modules_folder(place, release);
    let above = target.parent().unwrap_or(place);
    fs::create_dir_all(above).map_err(KernelError::io("make", above))?;
    fs::rename(&modules, &target).map_err(KernelError::io("rename", &modules))?;
    remove(&tree)?;
    modules::unpack_all(&target)?;
    modules::index(place, release)
}

/// Puts an image into `place`: of a bzImage its ELF image, which boots sooner, if it can be unpacked.
pub(super) fn place_image(place: &Path, path: &Path) -> Result<(), KernelError> {
    let image =
        vmlinux::read(path).map_err(|reason| KernelError::NotAKernel { path: path.to_owned(), reason })?;
    let elf = (image.kind == Kind::BzImage).then(|| vmlinux::unpack(&image.bytes)).flatten();
    let (kind, bytes) = elf.map_or((image.kind, image.bytes), |elf| (Kind::Vmlinux, elf));
    let target = place.join(kind.file());
    fs::write(&target, bytes).map_err(KernelError::io("write", &target))
}
