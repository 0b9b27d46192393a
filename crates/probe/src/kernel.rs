//! What the kernel's version and configuration say about the counters, and about where its sqpoll threads
//! run.

use crate::root::{Root, text_if_there};
use flate2::read::GzDecoder;
use std::io::Read;
use std::path::Path;
use std::sync::OnceLock;

/// True if the kernel charges irq time by the tick: then interrupts shorter than a tick mostly escape
/// `/proc/stat`. Absent if neither `/proc/config.gz` nor
/// `/boot/config-$(uname -r)` can be read.
///
/// Every interrupt is timed only by `CONFIG_IRQ_TIME_ACCOUNTING` and
/// `CONFIG_VIRT_CPU_ACCOUNTING_NATIVE` (init/Kconfig, kernel/sched/cputime.c);
/// `CONFIG_VIRT_CPU_ACCOUNTING_GEN` times entries from user space, not interrupts.
pub fn irq_time_sampled() -> Option<bool> {
    static SAMPLED: OnceLock<Option<bool>> = OnceLock::new();
    *SAMPLED.get_or_init(|| Root::new(Path::new("/")).ok().and_then(|root| read(&root)))
}

fn read(root: &Root) -> Option<bool> {
    let packed = std::fs::read(root.path("proc/config.gz")).ok();
    packed.and_then(|packed| is_sampled(&unpack(&packed)?)).or_else(|| {
        let release = root.text("proc/sys/kernel/osrelease").ok()?;
        let file = root.path("boot").join(format!("config-{}", release.trim()));
        is_sampled(&text_if_there(&file).ok()??)
    })
}

/// Far more than any kernel's configuration: a bound for a file that is not one.
const CONFIG_MAX_BYTES: u64 = 16 << 20;

fn unpack(packed: &[u8]) -> Option<String> {
    let mut config = String::new();
    GzDecoder::new(packed).take(CONFIG_MAX_BYTES).read_to_string(&mut config).ok()?;
    Some(config)
}

fn is_sampled(config: &str) -> Option<bool> {
    if !config.lines().any(|line| line.starts_with("CONFIG_")) {
        return None;
    }
    let is_timed =
        |line: &str| matches!(line, "CONFIG_IRQ_TIME_ACCOUNTING=y" | "CONFIG_VIRT_CPU_ACCOUNTING_NATIVE=y");
    Some(!config.lines().any(|line| is_timed(line.trim_end())))
}

/// True before Linux 5.12, when io_uring's submission poller is a kernel thread outside the process; since
/// then it is one of the process's threads.
pub(crate) fn sqpoll_is_kernel_thread(root: &Root) -> bool {
    let release = root.text("proc/sys/kernel/osrelease").unwrap_or_default();
    version(&release).is_some_and(|version| version < (5, 12))
}

fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn configurations_are_distinguished() {
        assert_eq!(is_sampled("CONFIG_SMP=y\n# CONFIG_IRQ_TIME_ACCOUNTING is not set\n"), Some(true));
        assert_eq!(is_sampled("CONFIG_VIRT_CPU_ACCOUNTING_GEN=y\n"), Some(true));
        assert_eq!(
            is_sampled("CONFIG_VIRT_CPU_ACCOUNTING_GEN=y\nCONFIG_IRQ_TIME_ACCOUNTING=y\n"),
            Some(false)
        );
        assert_eq!(is_sampled("CONFIG_VIRT_CPU_ACCOUNTING_NATIVE=y\n"), Some(false));
        assert_eq!(is_sampled("nothing of the kind"), None);
    }

    #[test]
    fn a_configuration_is_found_in_either_place() {
        let tree = tempfile::tempdir().unwrap();
        let root = Root::new(tree.path()).unwrap();
        assert_eq!(read(&root), None);
        std::fs::create_dir_all(tree.path().join("proc/sys/kernel")).unwrap();
        std::fs::create_dir_all(tree.path().join("boot")).unwrap();
        std::fs::write(tree.path().join("proc/sys/kernel/osrelease"), "5.10.0-30-amd64\n").unwrap();
        std::fs::write(tree.path().join("boot/config-5.10.0-30-amd64"), "CONFIG_IRQ_TIME_ACCOUNTING=y\n")
            .unwrap();
        assert_eq!(read(&root), Some(false));
        std::fs::write(tree.path().join("proc/config.gz"), pack("CONFIG_SMP=y\n")).unwrap();
        assert_eq!(read(&root), Some(true));
        std::fs::write(tree.path().join("proc/config.gz"), "no gzip").unwrap();
        assert_eq!(read(&root), Some(false));
    }

    fn pack(text: &str) -> Vec<u8> {
        use std::io::Write;
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(text.as_bytes()).unwrap();
        packer.finish().unwrap()
    }

    #[test]
    fn the_running_kernel_is_known_where_its_configuration_is_readable() {
        if Path::new("/proc/config.gz").exists() {
            assert!(irq_time_sampled().is_some());
        }
        assert_eq!(irq_time_sampled(), irq_time_sampled());
    }

    #[test]
    fn versions_are_compared_by_number() {
        assert_eq!(version("6.18.44-fc-v657"), Some((6, 18)));
        assert_eq!(version("5.4\n"), Some((5, 4)));
        assert_eq!(version("linux"), None);
        assert!(version("5.9.0").unwrap() < (5, 12));
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in "\\PC*", bytes: Vec<u8>) {
            let _ = (is_sampled(&text), version(&text), unpack(&bytes));
        }
    }
}
