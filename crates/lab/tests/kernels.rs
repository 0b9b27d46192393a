//! A kernel is fetched for real: from the host's mirrors, by its series, into a folder of its own or the
//! user's cache.

use iopj_lab::Arch;
use iopj_lab::cache::Cache;
use iopj_lab::kernels::{Kernel, KernelError, fetch, from_files, list, missing_tools};
use std::fs;
use std::io::Read;

/// The user's cache if it holds 5.10, and always in CI; else `None`, with the reason on stderr.
fn cache() -> Option<Cache> {
    let cache = Cache::open().unwrap();
    let cached = fs::read_dir(cache.folder().join("kernels")).is_ok_and(|mut entries| {
        entries.any(|entry| entry.unwrap().file_name().to_string_lossy().starts_with("5.10.0-"))
    });
    if std::env::var_os("CI").is_none() && !cached {
        eprintln!("skipped: needs kernel 5.10 in the cache");
        return None;
    }
    Some(cache)
}

fn beginning(kernel: &Kernel) -> [u8; 4] {
    let mut magic = [0; 4];
    fs::File::open(&kernel.image).unwrap().read_exact(&mut magic).unwrap();
    magic
}

#[test]
fn kernel_5_10_is_fetched_ready_to_boot() {
    let Some(cache) = cache() else { return };
    assert_eq!(missing_tools(), []);
    let kernel = fetch(&cache, Arch::HOST, "5.10", &mut |line| eprintln!("{line}")).unwrap();
    assert!(
        kernel.release.starts_with("5.10.0-") && kernel.release.ends_with("-amd64"),
        "{}",
        kernel.release
    );
    assert_eq!(&beginning(&kernel), b"\x7fELF");
    for module in
        ["drivers/nvme/host/nvme.ko", "drivers/block/null_blk/null_blk.ko", "drivers/block/virtio_blk.ko"]
    {
        let module = kernel.modules.join("kernel").join(module);
        assert_eq!(fs::read(&module).unwrap()[..4], *b"\x7fELF", "{}", module.display());
    }
    let dependencies = fs::read_to_string(kernel.modules.join("modules.dep")).unwrap();
    assert!(dependencies.contains("kernel/drivers/nvme/host/nvme.ko: kernel/drivers/nvme/host/nvme-core.ko"));
    let config = fs::read_to_string(kernel.config.as_ref().unwrap()).unwrap();
    assert!(config.contains("CONFIG_BLK_DEV_NVME=m"));

    let mut notes = 0;
    let again = fetch(&cache, Arch::HOST, &kernel.release, &mut |_| notes += 1).unwrap();
    assert_eq!((&again, notes), (&kernel, 0), "a cached kernel needs neither network nor a word");
}

#[test]
fn the_fetched_kernel_refuses_modules_of_another() {
    let Some(cache) = cache() else { return };
    let kernel = fetch(&cache, Arch::HOST, "5.10", &mut |_| {}).unwrap();
    let temporary = tempfile::tempdir().unwrap();
    let own = Cache::at(&temporary.path().join("cache")).unwrap();
    let folder = temporary.path().join("modules/kernel");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("odd.ko"), "\x7fELF vermagic=6.1.0-9-amd64 SMP \0").unwrap();
    let refused = from_files(&own, &kernel.image, folder.parent().unwrap()).unwrap_err();
    assert!(
        matches!(
            refused,
            KernelError::Mismatch { ref image_release, .. } if *image_release == kernel.release
        ),
        "{refused}"
    );
}

#[test]
fn what_is_not_offered_is_refused_with_what_is() {
    let Some(cache) = cache() else { return };
    let offers = list(&cache, Arch::HOST, &mut |line| eprintln!("{line}")).unwrap();
    assert!(offers.iter().any(|offer| offer.series == "5.10" && offer.cached));
    let refused = fetch(&cache, Arch::HOST, "2.6", &mut |line| eprintln!("{line}")).unwrap_err();
    match refused {
        KernelError::NotOffered { wanted, offered, .. } => {
            assert_eq!(wanted, "2.6");
            assert!(offered.iter().any(|series| series == "5.10"), "{offered:?}");
        }
        // Without the network the message says what is cached.
        KernelError::Unreachable { cached, .. } => {
            assert!(cached.iter().any(|release| release.starts_with("5.10.0-")), "{cached:?}");
        }
        other => panic!("{other}"),
    }
}
