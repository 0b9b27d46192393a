//! Kernels that the user brings: an image and modules by name, or the running host's own.

use super::{Kernel, KernelError, modules, tools, unpack, vmlinux};
use crate::cache::Cache;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

/// This file identifies the files that were copied.
const KEY: &str = "made-from";

/// The running host's own kernel.
pub(super) fn host(cache: &Cache, note: &mut dyn FnMut(&str)) -> Result<Kernel, KernelError> {
    let text = fs::read_to_string("/proc/sys/kernel/osrelease");
    let release = text.map_err(KernelError::io("read", Path::new("/proc/sys/kernel/osrelease")))?;
    host_in(cache, Path::new("/"), release.trim(), note)
}

/// The kernel `release` as a host with the root folder `root` has it.
fn host_in(
    cache: &Cache,
    root: &Path,
    release: &str,
    note: &mut dyn FnMut(&str),
) -> Result<Kernel, KernelError> {
    let missing =
        |path: &Path| KernelError::NoHostKernel { release: release.to_owned(), path: path.to_owned() };
    let modules = root.join("lib/modules").join(release);
    let boot = root.join("boot").join(format!("vmlinuz-{release}"));
    let images = [boot.clone(), modules.join("vmlinuz")];
    let image = images.iter().find(|image| image.is_file()).ok_or_else(|| missing(&boot))?;
    if !modules.join("kernel").is_dir() {
        return Err(missing(&modules));
    }
    let config = [root.join("boot").join(format!("config-{release}")), modules.join("config")];
    let config = config.iter().find(|config| config.is_file()).map(PathBuf::as_path);
    from_files(cache, image, &modules, config, note)
}

/// A kernel made of an image and the folder of its modules; [`super::from_files`] with a configuration.
pub(super) fn from_files(
    cache: &Cache,
    image: &Path,
    modules: &Path,
    config: Option<&Path>,
    note: &mut dyn FnMut(&str),
) -> Result<Kernel, KernelError> {
    tools::require(&["depmod"])?;
    let read =
        vmlinux::read(image).map_err(|reason| KernelError::NotAKernel { path: image.to_owned(), reason })?;
    let release = read.release;
    let mismatch = |folder: PathBuf, found: String| KernelError::Mismatch {
        image: image.to_owned(),
        image_release: release.clone(),
        modules: folder,
        modules_release: found,
    };
    let source = match find_modules(modules, &release) {
        FoundModules::Here(folder) => folder,
        FoundModules::Others(releases) => return Err(mismatch(modules.to_owned(), releases.join(", "))),
        FoundModules::None => return Err(KernelError::NoModules(modules.to_owned())),
    };
    let files = modules::all(&source)?;
    if !files.iter().any(|file| modules::is_module(&file.to_string_lossy())) {
        return Err(KernelError::NoModules(modules.to_owned()));
    }
    let key = key(&[&[image.to_owned()], &files[..]].concat())?;
    let name = format!("own-{release}");
    let kernels = unpack::folder(cache, read.kind.arch());
    let place = kernels.join(&name);
    let made = || {
        let same = fs::read_to_string(place.join(KEY)).is_ok_and(|old| old == key);
        same.then(|| unpack::kernel_in(&place, &release)).flatten()
    };
    let _lock = cache.lock(note)?;
    if let Some(kernel) = made() {
        return Ok(kernel);
    }
    let image_bytes = 8 * read.bytes.len() as u64;
    cache
        .need_room(&format!("a copy of kernel {release}"), image_bytes + modules::unpacked_bytes(&source)?)?;
    note(&format!("copying kernel {release} and its modules"));
    unpack::make_whole(&kernels, &name, |partial| {
        let target = unpack::modules_folder(partial, &release);
        fs::create_dir_all(&target).map_err(KernelError::io("make", &target))?;
        modules::copy_all(&source, &target)?;
        modules::unpack_all(&target)?;
        if let Some((module, found)) = modules::check_all(&target, &release)? {
            return Err(mismatch(source.join(module.strip_prefix(&target).unwrap_or(&module)), found));
        }
        modules::index(partial, &release)?;
        unpack::place_image(partial, image)?;
        if let Some(config) = config {
            fs::copy(config, partial.join("config")).map_err(KernelError::io("copy", config))?;
        }
        fs::write(partial.join(KEY), &key).map_err(KernelError::io("write", partial))
    })?;
    unpack::kernel_in(&place, &release).ok_or_else(|| KernelError::NoModules(modules.to_owned()))
}

/// The modules in a folder.
enum FoundModules {
    /// The modules of the wanted release.
    Here(PathBuf),
    /// Modules of these releases only.
    Others(Vec<String>),
    None,
}

/// Finds the modules of `release` in `folder`, which is itself a modules folder or holds lib/modules.
fn find_modules(folder: &Path, release: &str) -> FoundModules {
    if folder.join("modules.dep").is_file() || folder.join("kernel").is_dir() {
        return FoundModules::Here(folder.to_owned());
    }
    let mut others = Vec::new();
    for above in [folder.join("lib/modules"), folder.join("usr/lib/modules"), folder.to_owned()] {
        if above.join(release).join("kernel").is_dir() {
            return FoundModules::Here(above.join(release));
        }
        for entry in fs::read_dir(&above).into_iter().flatten().flatten() {
            if entry.path().join("kernel").is_dir() {
                others.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
    }
    if others.is_empty() { FoundModules::None } else { FoundModules::Others(others) }
}

/// Names, sizes and times of the files, as one number: if it differs, a copy is out of date.
fn key(files: &[PathBuf]) -> Result<String, KernelError> {
    let mut hasher = DefaultHasher::new();
    for file in files {
        let metadata = fs::metadata(file).map_err(KernelError::io("read", file))?;
        let modified = metadata.modified().map_err(KernelError::io("read", file))?;
        (fs::canonicalize(file).map_err(KernelError::io("read", file))?, metadata.len(), modified)
            .hash(&mut hasher);
    }
    Ok(format!("{:016x}\n", hasher.finish()))
}

#[cfg(test)]
mod tests;
