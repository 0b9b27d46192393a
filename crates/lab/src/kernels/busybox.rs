//! A busybox for guests whose processor is not this host's: fetched once, as kernels are.

use super::apt::Apt;
use super::sources::{self, Distribution};
use super::{KernelError, tools, unpack};
use crate::arch::Arch;
use crate::cache::Cache;
use std::fs;
use std::path::{Path, PathBuf};

const PACKAGE: &str = "busybox-static";
const NAME: &str = "busybox";

/// The file of a statically linked busybox for this processor. One that is not cached is fetched; `note` gets
/// progress messages.
///
/// # Errors
/// [`KernelError::NoBusybox`], [`KernelError::MissingTools`], [`KernelError::NoSource`], those of programs
/// and of the cache.
pub fn busybox(cache: &Cache, arch: Arch, note: &mut dyn FnMut(&str)) -> Result<PathBuf, KernelError> {
    let kernels = unpack::folder(cache, arch);
    let file = kernels.join(NAME).join(NAME);
    if file.is_file() {
        return Ok(file);
    }
    tools::require(&["apt-get", "dpkg-deb"])?;
    let _lock = cache.lock(note)?;
    if file.is_file() {
        return Ok(file);
    }
    let mirrors = sources::mirrors(Path::new("/etc"))?;
    let suite = match mirrors.distribution {
        Distribution::Debian => "bookworm",
        Distribution::Ubuntu => "noble",
    };
    let folder = cache.folder().join("apt").join(arch.as_str()).join(suite);
    let apt = Apt::open(&folder, arch, &[(suite.to_owned(), &mirrors.main)])?;
    let unreachable = |complaint| KernelError::NoBusybox { arch, complaint };
    if apt.is_stale() {
        apt.update(note)?.map_or(Ok(()), |complaint| Err(unreachable(complaint)))?;
    }
    note(&format!("fetching {PACKAGE} for {arch} from {suite}"));
    unpack::make_whole(&kernels, NAME, |partial| {
        let packages = partial.join("packages");
        fs::create_dir(&packages).map_err(KernelError::io("make", &packages))?;
        apt.download(&[PACKAGE.to_owned()], &packages)?
            .map_or(Ok(()), |complaint| Err(unreachable(complaint)))?;
        let tree = unpack::unpack_packages(&packages)?;
        let programs = ["bin", "usr/bin"].map(|folder| tree.join(folder).join(NAME));
        let lacks = || unreachable(format!("the package {PACKAGE} holds no {NAME}"));
        let program = programs.into_iter().find(|program| program.is_file()).ok_or_else(lacks)?;
        fs::rename(&program, partial.join(NAME)).map_err(KernelError::io("rename", &program))?;
        Ok(crate::cache::remove(&tree)?)
    })?;
    Ok(file)
}
