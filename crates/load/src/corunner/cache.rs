//! The size of a processor's caches, as sysfs shows them
//! (Documentation/ABI/testing/sysfs-devices-system-cpu: `cache/index*`).

use std::fs;
use std::path::Path;

/// The largest cache of these processors in bytes; `None` if none is shown.
pub(super) fn largest(sys: &Path, cpus: &[u32]) -> Option<u64> {
    let of_cpu = |cpu: &u32| {
        let folder = sys.join(format!("devices/system/cpu/cpu{cpu}/cache"));
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| bytes(&fs::read_to_string(entry.path().join("size")).ok()?)).max()
    };
    cpus.iter().filter_map(of_cpu).max()
}

/// Bytes of a size such as `32768K`.
fn bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.trim_end_matches(|unit: char| unit.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_largest_cache_of_any_of_the_processors_counts() {
        let sys = tempfile::tempdir().unwrap();
        for (cpu, index, size) in [(0, 0, "48K"), (0, 3, "32768K"), (1, 3, "96M"), (2, 0, "none")] {
            let folder = sys.path().join(format!("devices/system/cpu/cpu{cpu}/cache/index{index}"));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("size"), format!("{size}\n")).unwrap();
        }
        assert_eq!(largest(sys.path(), &[0]), Some(32 << 20));
        assert_eq!(largest(sys.path(), &[0, 1]), Some(96 << 20));
        assert_eq!(largest(sys.path(), &[2, 7]), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in "[0-9]{0,22}[KMGTé]{0,2}|\\PC*") {
            let _ = bytes(&text);
        }
    }
}
