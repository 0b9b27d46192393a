//! SPDK's NVMe driver as an engine of fio: finds its plugin, checks that fio can load it, and counts the huge
//! pages that it needs. Binding the drive is left to the settings.
//!
//! Sources: SPDK's app/fio/nvme/{README.md,fio_plugin.c}, Documentation/admin-guide/mm/hugetlbpage.rst.

use iopj_core::Workload;
use iopj_engine::PciAddress;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The plugin's file name.
const PLUGIN: &str = "spdk_nvme";
/// What SPDK needs beside the jobs' buffers: what the plugin reserved at its start (`-m 512`) before it
/// allocated as it goes.
const BASE_BYTES: u64 = 512 << 20;

/// Why fio cannot drive SPDK here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what each field is")]
pub enum SpdkLack {
    /// No plugin where it is usually built or installed.
    #[error(
        "spdk needs SPDK's plugin for fio, and there is none as {}: build SPDK with `./configure \
         --with-fio=DIR`, DIR being the sources of the installed fio, and name build/fio/spdk_nvme by \
         `spdk_plugin` in the study's [fio]",
        .0.join(", ")
    )]
    NoPlugin(Vec<String>),
    /// The file that was named cannot be read.
    #[error(
        "SPDK's plugin `{plugin}` cannot be read ({reason}): name build/fio/spdk_nvme of a built SPDK by \
         `spdk_plugin`"
    )]
    Unreadable { plugin: PathBuf, reason: String },
    /// The dynamic linker would cut the name.
    #[error("SPDK's plugin `{0}` cannot be loaded: its path holds a blank or a colon; name a link to it")]
    Path(PathBuf),
    /// Found, not named, and not only this user's to write.
    #[error(
        "SPDK's plugin `{plugin}` {reason}, so it is not run unasked: name it by `spdk_plugin` in the \
         study's [fio], with --allow exec"
    )]
    Untrusted { plugin: PathBuf, reason: &'static str },
    /// Built against another fio.
    #[error(
        "SPDK's plugin `{plugin}` was built for another fio than {fio} (engine interface {built}, not \
         {wanted}): build SPDK with `./configure --with-fio=DIR`, DIR being the sources of {fio}, or name \
         the fio that it was built for by `program` in [fio]"
    )]
    OtherFio {
        plugin: PathBuf,
        /// The fio that is used, as it prints its version.
        fio: String,
        /// The version of fio's engine interface (`FIO_IOOPS_VERSION`) that the plugin has.
        built: String,
        /// That of the fio.
        wanted: String,
    },
    /// fio with it does not know the engine `spdk`.
    #[error(
        "SPDK's plugin `{plugin}` is not loaded by {fio} ({words}): check that it is build/fio/spdk_nvme, \
         built on this machine"
    )]
    NotLoaded {
        plugin: PathBuf,
        /// The fio that is used, as it prints its version.
        fio: String,
        /// The messages of fio and of the dynamic linker.
        words: String,
    },
    /// Too few free huge pages.
    #[error(
        "SPDK needs {needed_mib} MiB of free huge pages, and there are {free_mib} MiB: `{remedy}`, as root"
    )]
    HugePages {
        /// What SPDK and the jobs' buffers need, in MiB.
        needed_mib: u64,
        /// What is free, in MiB.
        free_mib: u64,
        /// The command that adds what is missing.
        remedy: String,
    },
    /// Huge pages cannot be mapped by a file.
    #[error(
        "SPDK needs a hugetlbfs, and none is mounted: `mkdir -p /dev/hugepages && mount -t hugetlbfs none \
         /dev/hugepages`, as root"
    )]
    NoHugetlbfs,
}

/// The plugin that was named, or the first one in a known place. It runs fio with the plugin to see that fio
/// loads it, so name only one that the user allows.
///
/// # Errors
/// What is missing.
pub(super) fn find(named: Option<&Path>, program: &Path, fio: &str) -> Result<PathBuf, SpdkLack> {
    let plugin = match named {
        Some(plugin) => named_plugin(plugin)?,
        None => known_plugin(&known_places(std::env::var_os("HOME").as_deref()))?,
    };
    if plugin.as_os_str().to_string_lossy().contains([' ', ':', '\t']) {
        return Err(SpdkLack::Path(plugin));
    }
    require_loaded(&plugin, program, fio)?;
    Ok(plugin)
}

fn named_plugin(plugin: &Path) -> Result<PathBuf, SpdkLack> {
    let unreadable =
        |error: io::Error| SpdkLack::Unreadable { plugin: plugin.to_owned(), reason: error.to_string() };
    fs::File::open(plugin).map_err(unreadable)?;
    std::path::absolute(plugin).map_err(unreadable)
}

/// Where SPDK is usually built, and where its packages and its own `make install` put it.
fn known_places(home: Option<&OsStr>) -> Vec<PathBuf> {
    let own = home.map(Path::new).filter(|home| home.is_absolute()).map(|home| home.join("spdk/build/fio"));
    let others =
        ["/usr/local/lib/spdk/fio", "/opt/spdk/build/fio", "/usr/local/spdk/build/fio", "/usr/lib/spdk/fio"];
    own.into_iter().chain(others.map(PathBuf::from)).map(|folder| folder.join(PLUGIN)).collect()
}

fn known_plugin(places: &[PathBuf]) -> Result<PathBuf, SpdkLack> {
    let Some((plugin, metadata)) = places.iter().find_map(|place| Some((place, place.metadata().ok()?)))
    else {
        return Err(SpdkLack::NoPlugin(places.iter().map(|place| place.display().to_string()).collect()));
    };
    let untrusted = |reason| Err(SpdkLack::Untrusted { plugin: plugin.clone(), reason });
    if ![0, rustix::process::geteuid().as_raw()].contains(&metadata.uid()) {
        return untrusted("belongs to another user");
    }
    if metadata.mode() & 0o022 != 0 {
        return untrusted("can be written by other users");
    }
    Ok(plugin.clone())
}

/// Asks fio for its engine `spdk` with the plugin loaded, as it is for a run.
fn require_loaded(plugin: &Path, program: &Path, fio: &str) -> Result<(), SpdkLack> {
    let asked = super::answer(
        Command::new(program).arg("--enghelp=spdk").env("LD_PRELOAD", plugin),
        super::ANSWER_LIMIT,
    );
    let (plugin, fio) = (plugin.to_owned(), fio.to_owned());
    let output = match asked {
        Ok(output) => output,
        Err(error) => return Err(SpdkLack::NotLoaded { plugin, fio, words: error.to_string() }),
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    if let Some((built, wanted)) = other_interface(&errors) {
        return Err(SpdkLack::OtherFio { plugin, fio, built, wanted });
    }
    if output.status.success() && !errors.contains("cannot be preloaded") {
        return Ok(());
    }
    let answer = String::from_utf8_lossy(&output.stdout);
    let words = super::words(errors.lines().chain(answer.lines()));
    Err(SpdkLack::NotLoaded { plugin, fio, words })
}

/// The versions in fio's `bad ioops version 34 (want 31)` (ioengines.c, `check_engine_ops`).
fn other_interface(errors: &str) -> Option<(String, String)> {
    let line = errors.lines().find_map(|line| line.trim().strip_prefix("bad ioops version "))?;
    let (built, rest) = line.split_once(" (want ")?;
    Some((built.to_owned(), rest.strip_suffix(')')?.to_owned()))
}

/// The name that the plugin takes for a namespace. The address has dots for colons: fio splits names there.
pub(super) fn filename(address: PciAddress, nsid: u32) -> String {
    format!("trtype=PCIe traddr={} ns={nsid}", address.to_string().replace(':', "."))
}

/// Counts the free huge pages: 512 MiB, and the buffers of the workload's jobs.
///
/// # Errors
/// [`SpdkLack::HugePages`] with the command that adds what is missing (on the drive's NUMA node, where there
/// are several), or [`SpdkLack::NoHugetlbfs`].
pub(super) fn require_huge_pages(address: PciAddress, workload: &Workload) -> Result<(), SpdkLack> {
    require_huge_pages_in(Path::new("/sys"), Path::new("/proc"), address, workload)
}

fn require_huge_pages_in(
    sys: &Path,
    proc: &Path,
    address: PciAddress,
    workload: &Workload,
) -> Result<(), SpdkLack> {
    // The plugin gives each I/O a page for metadata as well.
    let io = u64::from(workload.bs).next_multiple_of(4096) + 4096;
    let ios = u64::from(workload.iodepth) * u64::from(workload.numjobs);
    let needed = BASE_BYTES.saturating_add(io.saturating_mul(ios));
    let pools = huge_page_sizes(&sys.join("kernel/mm/hugepages"));
    let free_of =
        |(size, folder): &(u64, PathBuf)| size * number(&folder.join("free_hugepages")).unwrap_or(0);
    let free: u64 = pools.iter().map(free_of).sum();
    if free < needed {
        // The smallest: pages of 1 GiB can seldom be had once the machine runs.
        let size = pools.first().map_or(2 << 20, |(size, _)| *size);
        let pool = pool_for(sys, address, size);
        let pages = number(&sys.join(&pool)).unwrap_or(0) + (needed - free).div_ceil(size);
        let remedy = format!("echo {pages} > /sys/{pool}");
        return Err(SpdkLack::HugePages {
            needed_mib: needed.div_ceil(1 << 20),
            free_mib: free >> 20,
            remedy,
        });
    }
    let mounts = fs::read_to_string(proc.join("self/mounts")).unwrap_or_default();
    let is_hugetlbfs = |line: &str| line.split(' ').nth(2) == Some("hugetlbfs");
    if mounts.lines().any(is_hugetlbfs) { Ok(()) } else { Err(SpdkLack::NoHugetlbfs) }
}

/// The file below `/sys` that sets the number of pages of `size` bytes: that of the drive's node if there are
/// several nodes.
fn pool_for(sys: &Path, address: PciAddress, size: u64) -> String {
    let pool = format!("hugepages/hugepages-{}kB/nr_hugepages", size >> 10);
    let node = number(&sys.join(format!("bus/pci/devices/{address}/numa_node")));
    let of_node = node.map(|node| format!("devices/system/node/node{node}/{pool}"));
    let has_others = sys.join("devices/system/node/node1").exists();
    of_node
        .filter(|file| has_others && sys.join(file).exists())
        .unwrap_or_else(|| format!("kernel/mm/{pool}"))
}

/// The sizes of huge pages in bytes, ascending, each with its folder.
fn huge_page_sizes(folder: &Path) -> Vec<(u64, PathBuf)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut sizes: Vec<(u64, PathBuf)> = entries
        .filter_map(|entry| {
            let name = entry.file_name();
            let kib: u64 = name.to_str()?.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
            Some((kib << 10, entry.path()))
        })
        .collect();
    sizes.sort();
    sizes
}

/// A number in a file; `None` if there is none, or one below zero.
fn number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const ADDRESS: &str = "0000:81:00.0";

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let tree = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let file = tree.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, format!("{text}\n")).unwrap();
        }
        tree
    }

    fn huge_pages(files: &[(&str, &str)], workload: &Workload) -> Result<(), String> {
        let tree = tree(files);
        let root = tree.path();
        let done =
            require_huge_pages_in(&root.join("sys"), &root.join("proc"), ADDRESS.parse().unwrap(), workload);
        done.map_err(|lack| lack.to_string())
    }

    const POOL: &str = "sys/kernel/mm/hugepages/hugepages-2048kB";
    const MOUNTED: (&str, &str) = ("proc/self/mounts", "hugetlbfs /dev/hugepages hugetlbfs rw 0 0");

    #[test]
    fn huge_pages_are_counted_and_the_remedy_adds_what_is_missing() {
        let (nr, free) = (format!("{POOL}/nr_hugepages"), format!("{POOL}/free_hugepages"));
        let one = Workload::default();
        let message = huge_pages(&[(&nr, "10"), (&free, "4")], &one).unwrap_err();
        // 512 MiB and two pages of 4 KiB make 257 huge pages, of which 4 are there.
        let expected = "SPDK needs 513 MiB of free huge pages, and there are 8 MiB: `echo 263 > \
                        /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages`, as root";
        assert_eq!(message, expected);
        assert!(huge_pages(&[], &one).unwrap_err().contains("`echo 257 > /sys/kernel/mm"));
        huge_pages(&[(&nr, "257"), (&free, "257"), MOUNTED], &one).unwrap();
        let message =
            huge_pages(&[(&nr, "257"), (&free, "257"), ("proc/self/mounts", "hugetlbfs / ext4 rw")], &one);
        assert!(message.unwrap_err().contains("mount -t hugetlbfs none /dev/hugepages"));
        // Deep and large, the buffers count.
        let large = Workload { bs: 1 << 20, iodepth: 256, numjobs: 4, ..Workload::default() };
        let message = huge_pages(&[(&nr, "257"), (&free, "257"), MOUNTED], &large).unwrap_err();
        assert!(message.contains("SPDK needs 1540 MiB") && message.contains("`echo 770 >"), "{message}");
        // Pages of another size count as well.
        let gigantic = "sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages";
        huge_pages(&[(&nr, "0"), (&free, "0"), (gigantic, "1"), MOUNTED], &one).unwrap();
    }

    #[test]
    fn several_nodes_make_the_remedy_that_of_the_drives_node() {
        let node = "sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages";
        let numa = ("sys/bus/pci/devices/0000:81:00.0/numa_node", "1");
        let free = format!("{POOL}/free_hugepages");
        let message = huge_pages(&[(node, "2"), numa, (&free, "1")], &Workload::default()).unwrap_err();
        assert!(message.contains("`echo 258 > /sys/devices/system/node/node1/hugepages/"), "{message}");
        let unknown = ("sys/bus/pci/devices/0000:81:00.0/numa_node", "-1");
        let message = huge_pages(&[(node, "2"), unknown, (&free, "1")], &Workload::default()).unwrap_err();
        assert!(message.contains("`echo 256 > /sys/kernel/mm/hugepages/"), "{message}");
    }

    #[test]
    fn plugins_that_others_may_write_are_not_run_unasked() {
        let tree = tree(&[("spdk/build/fio/spdk_nvme", "")]);
        let places = known_places(Some(tree.path().as_os_str()));
        assert_eq!(places.len(), 5);
        assert!(known_places(Some(OsStr::new("relative"))).iter().all(|place| place.is_absolute()));
        let set = |mode| fs::set_permissions(&places[0], fs::Permissions::from_mode(mode)).unwrap();
        set(0o755);
        assert_eq!(known_plugin(&places[..1]), Ok(places[0].clone()));
        set(0o775);
        let message = known_plugin(&places[..1]).unwrap_err().to_string();
        assert!(
            message.contains("can be written by other users") && message.contains("--allow exec"),
            "{message}"
        );
        let nowhere = [tree.path().join("a/spdk_nvme"), tree.path().join("b/spdk_nvme")];
        let message = known_plugin(&nowhere).unwrap_err().to_string();
        assert!(message.contains("a/spdk_nvme, ") && message.contains("--with-fio=DIR"), "{message}");
    }

    #[test]
    fn named_plugins_must_be_files_that_the_linker_takes() {
        let message = find(Some(Path::new("/nowhere/spdk_nvme")), Path::new("fio"), "fio-3.33")
            .unwrap_err()
            .to_string();
        assert!(message.contains("`/nowhere/spdk_nvme` cannot be read (No such file"), "{message}");
        let tree = tree(&[("with blank/spdk_nvme", "")]);
        let plugin = tree.path().join("with blank/spdk_nvme");
        let message = find(Some(&plugin), Path::new("fio"), "fio-3.33").unwrap_err().to_string();
        assert!(message.contains("a blank or a colon; name a link to it"), "{message}");
    }

    #[test]
    fn interfaces_are_read_from_fios_words() {
        // As fio 3.33 prints it for an engine of another version.
        let found = other_interface("bad ioops version 1 (want 31)\n");
        assert_eq!(found, Some(("1".to_owned(), "31".to_owned())));
        assert_eq!(other_interface("fio: engine spdk not loadable\n"), None);
    }

    #[test]
    fn namespaces_are_named_with_dots() {
        assert_eq!(filename(ADDRESS.parse().unwrap(), 3), "trtype=PCIe traddr=0000.81.00.0 ns=3");
    }
}
