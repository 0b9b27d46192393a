//! Tests of kernels that the user brings, on small images and modules made here.

use super::super::vmlinux::tests::{bz_image, gzip, vmlinux, xz};
use super::*;

const RELEASE: &str = "6.1.0-9-amd64";

struct Bench {
    folder: tempfile::TempDir,
    cache: Cache,
}

impl Bench {
    /// A root folder with an image and two modules; `None` where depmod is missing.
    fn new(module_release: &str) -> Option<Bench> {
        if !crate::kernels::missing_tools().is_empty() {
            assert!(std::env::var_os("CI").is_none(), "apt, dpkg or kmod is missing");
            eprintln!("skipped: needs apt, dpkg and kmod");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(&folder.path().join("cache")).unwrap();
        let bench = Bench { folder, cache };
        bench.put("boot/vmlinuz-6.1.0-9-amd64", &bz_image(RELEASE, &gzip(&vmlinux(RELEASE))));
        bench.put("boot/config-6.1.0-9-amd64", b"CONFIG_PVH=y\n");
        bench.put("lib/modules/6.1.0-9-amd64/modules.order", b"kernel/drivers/nvme.ko\nkernel/fs/ext4.ko\n");
        bench.put("lib/modules/6.1.0-9-amd64/modules.builtin", b"");
        bench.module("drivers/nvme.ko.xz", module_release);
        bench.module("fs/ext4.ko.xz", RELEASE);
        Some(bench)
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// A module as far as depmod reads it: an ELF file without sections is passed over with a warning.
    fn module(&self, name: &str, release: &str) {
        let text =
            [vmlinux("6.1.0"), format!("\0vermagic={release} SMP mod_unload \0").into_bytes()].concat();
        self.put(&format!("lib/modules/{RELEASE}/kernel/{name}"), &xz(&text));
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn image(&self) -> PathBuf {
        self.path("boot/vmlinuz-6.1.0-9-amd64")
    }

    fn from(&self, modules: &str) -> Result<Kernel, KernelError> {
        crate::kernels::from_files(&self.cache, &self.image(), &self.path(modules))
    }
}

#[test]
fn an_image_and_its_modules_become_a_kernel_from_either_folder() {
    let Some(bench) = Bench::new(RELEASE) else { return };
    let kernel = bench.from("").unwrap();
    assert_eq!(kernel.release, RELEASE);
    assert_eq!(fs::read(&kernel.image).unwrap(), vmlinux(RELEASE));
    assert!(kernel.image.ends_with("kernels/own-6.1.0-9-amd64/vmlinux"));
    assert!(kernel.modules.join("kernel/drivers/nvme.ko").is_file());
    assert!(!kernel.modules.join("kernel/drivers/nvme.ko.xz").exists());
    assert!(kernel.modules.join("modules.dep").is_file());
    assert_eq!(kernel.config, None);
    for folder in ["lib/modules", "lib/modules/6.1.0-9-amd64"] {
        assert_eq!(bench.from(folder).unwrap(), kernel);
    }
    assert!(
        bench.path("lib/modules/6.1.0-9-amd64/kernel/drivers/nvme.ko.xz").is_file(),
        "the source is left alone"
    );
}

#[test]
fn a_copy_is_made_again_only_where_a_file_has_changed() {
    let Some(bench) = Bench::new(RELEASE) else { return };
    let mut notes = Vec::new();
    let mut get = || {
        from_files(&bench.cache, &bench.image(), &bench.path(""), None, &mut |line| {
            notes.push(line.to_owned())
        })
        .unwrap()
    };
    get();
    get();
    bench.module("drivers/new.ko.xz", RELEASE);
    assert!(get().modules.join("kernel/drivers/new.ko").is_file());
    assert_eq!(notes, ["copying kernel 6.1.0-9-amd64 and its modules"; 2]);
}

#[test]
fn a_module_of_another_kernel_is_refused_and_leaves_nothing() {
    let Some(bench) = Bench::new("5.10.0-46-amd64") else { return };
    let message = bench.from("").unwrap_err().to_string();
    let module = bench.path("lib/modules/6.1.0-9-amd64/kernel/drivers/nvme.ko");
    assert_eq!(
        message,
        format!(
            "`{}` is Linux 6.1.0-9-amd64 but `{}` is for 5.10.0-46-amd64: name the modules that were built \
             with this image",
            bench.image().display(),
            module.display()
        )
    );
    assert_eq!(fs::read_dir(bench.cache.folder().join("kernels")).unwrap().count(), 0);
}

#[test]
fn a_folder_with_modules_of_another_kernel_only_is_refused() {
    let Some(bench) = Bench::new(RELEASE) else { return };
    bench.put("other/lib/modules/5.10.0-46-amd64/kernel/x.ko", b"");
    let refused = bench.from("other").unwrap_err();
    assert!(
        matches!(
            refused,
            KernelError::Mismatch { ref modules_release, .. } if modules_release == "5.10.0-46-amd64"
        ),
        "{refused}"
    );
    bench.put("etc/kernel/postinst.d/x", b"");
    assert!(matches!(bench.from("etc"), Err(KernelError::NoModules(_))));
    assert!(
        matches!(bench.from("boot"), Err(KernelError::NoModules(ref path)) if *path == bench.path("boot"))
    );
}

#[test]
fn an_image_that_is_no_kernel_is_refused() {
    let Some(bench) = Bench::new(RELEASE) else { return };
    bench.put("boot/vmlinuz-6.1.0-9-amd64", b"#!/bin/sh\n");
    let message = bench.from("").unwrap_err().to_string();
    assert!(
        message.starts_with(&format!(
            "`{}` is not a kernel for a guest: it has neither",
            bench.image().display()
        ))
    );
}

#[test]
fn a_packed_image_of_an_unknown_kind_is_booted_as_it_is() {
    let Some(bench) = Bench::new(RELEASE) else { return };
    let image = bz_image(RELEASE, b"some other compression");
    bench.put("boot/vmlinuz-6.1.0-9-amd64", &image);
    let kernel = bench.from("").unwrap();
    assert!(kernel.image.ends_with("bzImage"));
    assert_eq!(fs::read(kernel.image).unwrap(), image);
}

#[test]
fn the_running_kernel_is_taken_with_its_configuration_or_what_is_missing_is_named() {
    let Some(bench) = Bench::new(RELEASE) else { return };
    let kernel = host_in(&bench.cache, bench.folder.path(), RELEASE, &mut |_| {}).unwrap();
    assert_eq!(fs::read_to_string(kernel.config.unwrap()).unwrap(), "CONFIG_PVH=y\n");
    let refused = host_in(&bench.cache, bench.folder.path(), "6.6.6", &mut |_| {}).unwrap_err().to_string();
    let missing = bench.path("boot/vmlinuz-6.6.6");
    assert!(
        refused.starts_with(&format!("the running kernel 6.6.6 has no `{}`: install", missing.display()))
    );
}
