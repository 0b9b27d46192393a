//! Who has a device open for writing, from the descriptors of all processes (proc(5), `/proc/PID/fd`).

use super::error::DiskUse;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// The first process, other than this one, that has one of these devices open for writing; they have names by
/// their numbers. Processes that this user may not look into are not seen.
pub(super) fn find(proc: &Path, devices: &BTreeMap<u64, String>) -> Option<DiskUse> {
    let own = std::process::id();
    let processes = fs::read_dir(proc).ok()?.flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| *pid != own).find_map(|pid| {
        let folder = proc.join(pid.to_string());
        let device = written(&folder, devices)?;
        let program = fs::read_to_string(folder.join("comm")).unwrap_or_default().trim_end().to_owned();
        Some(DiskUse::Written { device, pid, program: program.escape_debug().to_string() })
    })
}

/// The device that a process has open for writing.
fn written(folder: &Path, devices: &BTreeMap<u64, String>) -> Option<String> {
    fs::read_dir(folder.join("fd")).ok()?.flatten().find_map(|descriptor| {
        let file = fs::metadata(descriptor.path()).ok()?;
        let kind = file.file_type();
        let name = devices.get(&file.rdev()).filter(|_| kind.is_block_device() || kind.is_char_device())?;
        let info = fs::read_to_string(folder.join("fdinfo").join(descriptor.file_name())).ok()?;
        is_for_writing(&info)?.then(|| name.clone())
    })
}

/// Whether a descriptor writes, by the octal flags of its `fdinfo`.
fn is_for_writing(info: &str) -> Option<bool> {
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"))?;
    let flags = i32::from_str_radix(flags.trim(), 8).ok()?;
    Some(flags & libc::O_ACCMODE != libc::O_RDONLY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn flags_of_a_descriptor_say_whether_it_writes() {
        for (flags, writes) in [("02100000", false), ("0100001", true), ("02100002", true), ("0", false)] {
            assert_eq!(is_for_writing(&format!("pos:\t0\nflags:\t{flags}\nmnt_id:\t9\n")), Some(writes));
        }
        assert_eq!(is_for_writing("pos:\t0\n"), None);
    }

    #[test]
    fn a_process_that_writes_is_named_and_one_that_reads_is_not() {
        let proc = tempfile::tempdir().unwrap();
        let null = fs::metadata("/dev/null").unwrap().rdev();
        let process = |pid: &str, flags: &str| {
            let folder = proc.path().join(pid);
            fs::create_dir_all(folder.join("fd")).unwrap();
            fs::create_dir_all(folder.join("fdinfo")).unwrap();
            fs::write(folder.join("comm"), "qemu\n").unwrap();
            symlink("/dev/null", folder.join("fd/3")).unwrap();
            fs::write(folder.join("fdinfo/3"), format!("flags:\t{flags}\n")).unwrap();
        };
        let devices = BTreeMap::from([(null, "null".to_owned())]);
        process("999999998", "0100000");
        assert_eq!(find(proc.path(), &devices), None);
        process("999999999", "0100002");
        let text = find(proc.path(), &devices).unwrap().to_string();
        assert_eq!(text, "the program `qemu` (process 999999999) has null open for writing; end it");
        assert_eq!(find(proc.path(), &BTreeMap::from([(null + 1, "zero".to_owned())])), None);
    }
}
