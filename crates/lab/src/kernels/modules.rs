//! A kernel's modules: found, unpacked to plain `.ko` files, checked against the kernel, and indexed by
//! depmod(8).

use super::packed::decompress;
use super::{KernelError, tools};
use crate::cache::remove;
use crate::elf::module_release;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Unpacks every compressed module under `folder` in its place.
pub(super) fn unpack_all(folder: &Path) -> Result<(), KernelError> {
    let packed = files(folder, &|name| is_module(name) && !name.ends_with(".ko"))?;
    each(&packed, |path| {
        let bytes = fs::read(path).map_err(KernelError::io("read", path))?;
        let plain = decompress(&bytes).map_err(|error| bad(path, &error))?;
        // `nvme.ko.xz` becomes `nvme.ko`.
        let unpacked = path.with_extension("");
        fs::write(&unpacked, plain).map_err(KernelError::io("write", &unpacked))?;
        Ok(remove(path)?)
    })
}

/// The first unpacked module under `folder` that was not built for `release`, with the release that it was
/// built for.
pub(super) fn check_all(folder: &Path, release: &str) -> Result<Option<(PathBuf, String)>, KernelError> {
    let modules = files(folder, &|name| name.ends_with(".ko"))?;
    let strangers = std::sync::Mutex::new(Vec::new());
    each(&modules, |path| {
        let bytes = fs::read(path).map_err(KernelError::io("read", path))?;
        let found =
            module_release(&bytes).ok_or_else(|| bad(path, &io::Error::other("it has no `vermagic`")))?;
        if found != release {
            strangers.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push((path.to_owned(), found));
        }
        Ok(())
    })?;
    Ok(strangers.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()).into_iter().min())
}

fn bad(path: &Path, error: &io::Error) -> KernelError {
    KernelError::BadModule { path: path.to_owned(), reason: error.to_string() }
}

/// True for the name of a module, packed or not.
pub(super) fn is_module(name: &str) -> bool {
    [".ko", ".ko.xz", ".ko.zst", ".ko.gz"].iter().any(|ending| name.ends_with(ending))
}

/// Writes the indexes of the modules in `base/lib/modules/release`.
pub(super) fn index(base: &Path, release: &str) -> Result<(), KernelError> {
    // A distribution's depmod may look in usr/lib/modules: it must find the same folder.
    let usr = base.join("usr");
    symlink(".", &usr).map_err(KernelError::io("make", &usr))?;
    let done = tools::run("depmod", release, tools::command("depmod").arg("-b").arg(base).arg(release));
    remove(&usr)?;
    done
}

/// Copies the modules and their lists from one modules folder to another; links to folders, such as `build`,
/// are left out.
pub(super) fn copy_all(from: &Path, to: &Path) -> Result<(), KernelError> {
    for file in all(from)? {
        let Ok(inside) = file.strip_prefix(from) else { continue };
        let target = to.join(inside);
        let folder = target.parent().unwrap_or(to);
        fs::create_dir_all(folder).map_err(KernelError::io("make", folder))?;
        fs::copy(&file, &target).map_err(KernelError::io("copy", &file))?;
    }
    Ok(())
}

/// Bytes that the modules need when unpacked: packed ones become at most six times as large.
pub(super) fn unpacked_bytes(folder: &Path) -> Result<u64, KernelError> {
    let mut sum = 0;
    for file in files(folder, &is_module)? {
        let bytes = fs::metadata(&file).map_err(KernelError::io("read", &file))?.len();
        sum += if file.extension().is_some_and(|extension| extension == "ko") { bytes } else { bytes * 6 };
    }
    Ok(sum)
}

/// All modules and lists under a modules folder.
pub(super) fn all(folder: &Path) -> Result<Vec<PathBuf>, KernelError> {
    files(folder, &|name| is_module(name) || name.starts_with("modules."))
}

/// The files under `folder` with a wanted name, in order; links to files count, links to folders are not
/// followed.
fn files(folder: &Path, wanted: &dyn Fn(&str) -> bool) -> Result<Vec<PathBuf>, KernelError> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(KernelError::io("list", &folder))? {
            let entry = entry.map_err(KernelError::io("list", &folder))?;
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(path);
            } else if entry.file_name().to_str().is_some_and(wanted) && path.is_file() {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Works on every file, on all processors; returns one of the errors.
fn each(
    files: &[PathBuf],
    work: impl Fn(&Path) -> Result<(), KernelError> + Sync,
) -> Result<(), KernelError> {
    let next = AtomicUsize::new(0);
    let worker = || {
        while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            work(file)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..thread::available_parallelism().map_or(1, usize::from))
            .map(|_| scope.spawn(worker))
            .collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

#[cfg(test)]
mod tests {
    use super::super::vmlinux::tests::{gzip, xz, zstd_packed};
    use super::*;

    fn module(release: &str) -> Vec<u8> {
        format!("\x7fELF code vermagic=%s\0license=GPL\0vermagic={release} SMP mod_unload \0tail")
            .into_bytes()
    }

    #[test]
    fn modules_of_every_packing_become_plain_ones() {
        let folder = tempfile::tempdir().unwrap();
        let drivers = folder.path().join("kernel/drivers");
        fs::create_dir_all(&drivers).unwrap();
        let plain = module("6.1.0-9-amd64");
        fs::write(drivers.join("a.ko.xz"), xz(&plain)).unwrap();
        fs::write(drivers.join("b.ko.zst"), zstd_packed(&plain)).unwrap();
        fs::write(drivers.join("c.ko.gz"), gzip(&plain)).unwrap();
        fs::write(drivers.join("d.ko"), &plain).unwrap();
        fs::write(drivers.join("notes.txt.xz"), "left alone").unwrap();
        unpack_all(folder.path()).unwrap();
        let names: Vec<_> =
            all(folder.path()).unwrap().iter().map(|f| f.file_name().unwrap().to_owned()).collect();
        assert_eq!(names, ["a.ko", "b.ko", "c.ko", "d.ko"]);
        assert!(names.iter().all(|name| fs::read(drivers.join(name)).unwrap() == plain));
        assert!(drivers.join("notes.txt.xz").exists());
        assert_eq!(check_all(folder.path(), "6.1.0-9-amd64").unwrap(), None);
        assert_eq!(unpacked_bytes(folder.path()).unwrap(), 4 * plain.len() as u64);
    }

    #[test]
    fn a_module_of_another_kernel_is_named_with_its_release() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.ko"), module("6.1.0-9-amd64")).unwrap();
        fs::write(folder.path().join("nvme.ko"), module("5.10.0-46-amd64")).unwrap();
        let stranger = (folder.path().join("nvme.ko"), "5.10.0-46-amd64".to_owned());
        assert_eq!(check_all(folder.path(), "6.1.0-9-amd64").unwrap(), Some(stranger));
    }

    #[test]
    fn a_broken_module_is_named_with_what_is_wrong() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.ko.xz"), &xz(&module("6.1.0"))[..40]).unwrap();
        let message = unpack_all(folder.path()).unwrap_err().to_string();
        assert!(message.contains("a.ko.xz` cannot be unpacked:"), "{message}");
        fs::remove_file(folder.path().join("a.ko.xz")).unwrap();
        fs::write(folder.path().join("b.ko"), "no module").unwrap();
        let message = check_all(folder.path(), "6.1.0").unwrap_err().to_string();
        assert!(message.contains("it has no `vermagic`"), "{message}");
    }

    #[test]
    fn copies_leave_the_links_to_build_folders_behind() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir_all(from.path().join("kernel/fs")).unwrap();
        fs::write(from.path().join("kernel/fs/ext4.ko"), "m").unwrap();
        fs::write(from.path().join("modules.order"), "o").unwrap();
        symlink("/", from.path().join("build")).unwrap();
        copy_all(from.path(), to.path()).unwrap();
        let copied: Vec<_> = all(to.path()).unwrap();
        assert_eq!(copied, [to.path().join("kernel/fs/ext4.ko"), to.path().join("modules.order")]);
        assert!(!to.path().join("build").exists());
    }
}
