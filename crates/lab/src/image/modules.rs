//! Which kernel modules a guest must load, and in which order, from depmod's index (modules.dep(5),
//! modules.builtin).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::ImageError;
use crate::elf::{MAGIC, module_release};

/// A kernel module for the guest, and its options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleWish {
    /// The module's name; `-` and `_` are the same.
    pub name: String,
    /// Options as `NAME=VALUE` (`poll_queues=2`). For a module built into the kernel they belong on the
    /// kernel's command line: [`built_in_options`].
    pub options: Vec<String>,
}

impl ModuleWish {
    /// A module without options.
    pub fn plain(name: &str) -> ModuleWish {
        ModuleWish { name: name.to_owned(), options: Vec::new() }
    }
}

/// A module to load: its path from the folder that holds modules.dep, and its options.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Load {
    pub(super) path: String,
    pub(super) options: Vec<String>,
}

/// The index of a kernel's modules.
struct Index {
    /// By name: the path and the paths that it needs, as modules.dep has them.
    loadable: BTreeMap<String, (String, Vec<String>)>,
    built_in: BTreeSet<String>,
}

impl Index {
    fn read(folder: &Path) -> Result<Index, ImageError> {
        let read = |name: &str| {
            let path = folder.join(name);
            fs::read_to_string(&path).map_err(|source| ImageError::File { path, source })
        };
        Ok(Index {
            loadable: dependencies(&read("modules.dep")?),
            built_in: names(&read("modules.builtin")?),
        })
    }
}

/// The options of those modules that are built into the kernel, as its command line takes them:
/// `NAME.OPTION=VALUE`.
///
/// # Errors
/// [`ImageError::File`] if the folder has no index.
pub fn built_in_options(folder: &Path, wishes: &[ModuleWish]) -> Result<Vec<String>, ImageError> {
    let built_in = Index::read(folder)?.built_in;
    let wishes = wishes.iter().map(|wish| (canonical(&wish.name), &wish.options));
    let own = wishes.filter(|(name, _)| built_in.contains(name));
    Ok(own.flat_map(|(name, options)| options.iter().map(move |option| format!("{name}.{option}"))).collect())
}

/// Whether the kernel has a module, as a file or built in.
///
/// # Errors
/// [`ImageError::File`] if the folder has no index.
pub fn has_module(folder: &Path, name: &str) -> Result<bool, ImageError> {
    let (index, name) = (Index::read(folder)?, canonical(name));
    Ok(index.loadable.contains_key(&name) || index.built_in.contains(&name))
}

/// The modules to load for these requests, each after what it needs, each once.
pub(super) fn order(folder: &Path, release: &str, wishes: &[ModuleWish]) -> Result<Vec<Load>, ImageError> {
    let index = Index::read(folder)?;
    let mut options: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for wish in wishes {
        options.entry(canonical(&wish.name)).or_default().extend_from_slice(&wish.options);
    }
    let mut loads: Vec<Load> = Vec::new();
    for wish in wishes {
        let name = canonical(&wish.name);
        let Some((path, needs)) = index.loadable.get(&name) else {
            if index.built_in.contains(&name) {
                continue;
            }
            return Err(ImageError::NoModule { module: wish.name.clone(), release: release.to_owned() });
        };
        // modules.dep lists all that a module needs, the last to be loaded first.
        for path in needs.iter().rev().chain([path]) {
            if loads.iter().all(|load| load.path != *path) {
                let options = options.get(&module_name(path)).cloned().unwrap_or_default();
                loads.push(Load { path: path.clone(), options });
            }
        }
    }
    Ok(loads)
}

/// The file of a module, checked to be uncompressed and made for this kernel.
pub(super) fn file(folder: &Path, release: &str, load: &Load) -> Result<PathBuf, ImageError> {
    let path = folder.join(&load.path);
    let bytes = fs::read(&path).map_err(|source| ImageError::File { path: path.clone(), source })?;
    if !bytes.starts_with(MAGIC) {
        return Err(ImageError::PackedModule(path));
    }
    match module_release(&bytes) {
        Some(other) if other != release => {
            Err(ImageError::ForeignModule { path, made_for: other, release: release.to_owned() })
        }
        // It names its kernel in an unknown form.
        None if memchr::memmem::find(&bytes, b"\0vermagic=").is_some() => Err(ImageError::ForeignModule {
            path,
            made_for: "an unknown release".to_owned(),
            release: release.to_owned(),
        }),
        _ => Ok(path),
    }
}

fn dependencies(text: &str) -> BTreeMap<String, (String, Vec<String>)> {
    let line = |line: &str| {
        let (path, needs) = line.split_once(':')?;
        let needs = needs.split_ascii_whitespace().map(str::to_owned).collect();
        Some((module_name(path), (path.to_owned(), needs)))
    };
    text.lines().filter_map(line).collect()
}

fn names(text: &str) -> BTreeSet<String> {
    text.lines().map(module_name).collect()
}

/// `kernel/drivers/nvme/host/nvme-core.ko` is `nvme_core`.
fn module_name(path: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or(path);
    canonical(file.split(".ko").next().unwrap_or(file))
}

fn canonical(name: &str) -> String {
    name.replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let dep = "kernel/drivers/nvme/host/nvme.ko: kernel/drivers/nvme/host/nvme-core.ko \
                   kernel/block/t10-pi.ko kernel/lib/crc64.ko\nkernel/drivers/nvme/host/nvme-core.ko: \
                   kernel/block/t10-pi.ko kernel/lib/crc64.ko\nkernel/block/t10-pi.ko: \
                   kernel/lib/crc64.ko\nkernel/lib/crc64.ko:\n";
        fs::write(folder.path().join("modules.dep"), dep).unwrap();
        fs::write(folder.path().join("modules.builtin"), "kernel/drivers/virtio/virtio_pci.ko\n").unwrap();
        folder
    }

    fn paths(loads: &[Load]) -> Vec<&str> {
        loads.iter().map(|load| load.path.rsplit('/').next().unwrap()).collect()
    }

    #[test]
    fn what_is_needed_comes_first_and_once() {
        let folder = folder();
        let wishes = [
            ModuleWish { name: "nvme".into(), options: vec!["poll_queues=2".into()] },
            ModuleWish { name: "nvme-core".into(), options: vec!["io_timeout=3".into()] },
            ModuleWish::plain("virtio-pci"),
        ];
        let loads = order(folder.path(), "6.1", &wishes).unwrap();
        assert_eq!(paths(&loads), ["crc64.ko", "t10-pi.ko", "nvme-core.ko", "nvme.ko"]);
        assert_eq!(loads[2].options, ["io_timeout=3"]);
        assert_eq!(loads[3].options, ["poll_queues=2"]);
        let options = |name: &str| {
            let wish =
                ModuleWish { name: name.to_owned(), options: vec!["a=1".to_owned(), "b=2".to_owned()] };
            built_in_options(folder.path(), &[wish]).unwrap()
        };
        assert_eq!(options("virtio-pci"), ["virtio_pci.a=1", "virtio_pci.b=2"]);
        assert_eq!(options("nvme"), Vec::<String>::new(), "given when it is loaded");
    }

    #[test]
    fn a_missing_module_is_named_with_the_kernel() {
        let error = order(folder().path(), "5.10.0-46-amd64", &[ModuleWish::plain("ublk_drv")])
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            "kernel 5.10.0-46-amd64 has no module `ublk_drv`: choose a kernel that has it, or another device"
        );
    }

    #[test]
    fn a_module_of_another_kernel_is_refused() {
        let folder = folder();
        let place = folder.path().join("kernel/lib");
        fs::create_dir_all(&place).unwrap();
        fs::write(place.join("crc64.ko"), b"\x7fELF...\0vermagic=6.1.0-9 SMP mod_unload\0").unwrap();
        let load = Load { path: "kernel/lib/crc64.ko".into(), options: Vec::new() };
        assert_eq!(file(folder.path(), "6.1.0-9", &load).unwrap(), place.join("crc64.ko"));
        let error = file(folder.path(), "6.18", &load).unwrap_err().to_string();
        assert!(error.contains("is made for kernel 6.1.0-9, not for 6.18"), "{error}");
        fs::write(place.join("crc64.ko"), b"\x7fELF...\0vermagic= SMP\0").unwrap();
        let error = file(folder.path(), "6.18", &load).unwrap_err().to_string();
        assert!(error.contains("is made for kernel an unknown release"), "{error}");
        fs::write(place.join("crc64.ko"), b"\x7fELF...").unwrap();
        assert!(file(folder.path(), "6.18", &load).is_ok(), "a module without `vermagic`");
        fs::write(place.join("crc64.ko"), b"\xfd7zXZ").unwrap();
        assert!(matches!(file(folder.path(), "6.1.0-9", &load), Err(ImageError::PackedModule(_))));
    }

    proptest::proptest! {
        #[test]
        fn any_index_is_read_without_panic(text in "(?s).{0,200}") {
            dependencies(&text);
            names(&text);
            module_release(text.as_bytes());
        }
    }
}
