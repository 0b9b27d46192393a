//! Who has a device, or the file below it, open for writing: the descriptors and the mappings of all
//! processes, and the files that their rings of io_uring hold (proc(5)).

use super::error::DiskUse;
use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// What may be written past us, with the kernel name of the device.
#[derive(Debug, Default)]
pub(super) struct Watched {
    /// By device number.
    pub(super) devices: BTreeMap<u64, String>,
    /// Files that loop devices lie on, by file system and inode.
    pub(super) files: BTreeMap<(u64, u64), String>,
}

impl Watched {
    fn name(&self, file: &Metadata) -> Option<&String> {
        let kind = file.file_type();
        match kind.is_block_device() || kind.is_char_device() {
            true => self.devices.get(&file.rdev()),
            false => self.files.get(&(file.dev(), file.ino())).filter(|_| kind.is_file()),
        }
    }
}

/// The first process, other than this one, that has one of these open for writing. Processes that this user
/// may not look into are not seen, nor is a descriptor on its way from one process to another.
pub(super) fn find(proc: &Path, watched: &Watched) -> Option<DiskUse> {
    let own = std::process::id();
    numbers(proc).filter(|pid| *pid != own).find_map(|pid| {
        let folder = proc.join(pid.to_string());
        let device = by_threads(&folder, pid, watched).or_else(|| mapped(&folder, watched))?;
        let program = fs::read_to_string(folder.join("comm")).unwrap_or_default().trim_end().to_owned();
        Some(DiskUse::Written { device, pid, program: program.escape_debug().to_string() })
    })
}

fn numbers(folder: &Path) -> impl Iterator<Item = u32> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
}

/// What a process has open: by its own descriptors, and by those of its threads that have others.
fn by_threads(folder: &Path, pid: u32, watched: &Watched) -> Option<String> {
    let has_own = |tid: &u32| *tid != pid && !shares_descriptors(pid, *tid);
    let threads = numbers(&folder.join("task")).filter(has_own);
    let folders = threads.map(|tid| folder.join("task").join(tid.to_string()));
    std::iter::once(folder.to_owned()).chain(folders).find_map(|folder| open(&folder, watched))
}

/// True if a thread has the descriptors of its process (kcmp(2), `KCMP_FILES`); false if nobody can tell, and
/// where the first thread has ended.
fn shares_descriptors(pid: u32, tid: u32) -> bool {
    const KCMP_FILES: libc::c_int = 2;
    // SAFETY: it takes plain numbers.
    let compared = unsafe { libc::syscall(libc::SYS_kcmp, pid, tid, KCMP_FILES, 0_u64, 0_u64) };
    compared == 0
}

/// What a thread has open for writing.
fn open(folder: &Path, watched: &Watched) -> Option<String> {
    fs::read_dir(folder.join("fd")).ok()?.flatten().find_map(|descriptor| {
        let info = || fs::read_to_string(folder.join("fdinfo").join(descriptor.file_name())).ok();
        let file = fs::metadata(descriptor.path()).ok()?;
        if let Some(name) = watched.name(&file) {
            return is_for_writing(&info()?)?.then(|| name.clone());
        }
        let is_ring = || {
            let leads = fs::read_link(descriptor.path());
            leads.is_ok_and(|leads| leads.as_os_str().as_encoded_bytes() == b"anon_inode:[io_uring]")
        };
        // Most descriptors are files; a ring is none.
        if file.is_file() || !is_ring() { None } else { in_ring(&info()?, watched) }
    })
}

/// Whether a descriptor writes, by the octal flags of its `fdinfo`.
fn is_for_writing(info: &str) -> Option<bool> {
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"))?;
    let flags = i32::from_str_radix(flags.trim(), 8).ok()?;
    Some(flags & libc::O_ACCMODE != libc::O_RDONLY)
}

/// What a ring holds, by the names in its `fdinfo` (io_uring/fdinfo.c); it does not say whether for writing.
fn in_ring(info: &str, watched: &Watched) -> Option<String> {
    let held = info.lines().skip_while(|line| !line.starts_with("UserFiles:")).skip(1);
    let names =
        held.map_while(|line| line.split_once(": ").filter(|(at, _)| at.trim().parse::<u32>().is_ok()));
    names.filter_map(|(_, name)| fs::metadata(name.trim()).ok()).find_map(|file| watched.name(&file).cloned())
}

/// What a process writes by its memory: mappings that are shared and writable.
fn mapped(folder: &Path, watched: &Watched) -> Option<String> {
    let maps = fs::read(folder.join("maps")).ok()?;
    let maps = String::from_utf8_lossy(&maps);
    // `7f12-7f13 rw-s 00000000 00:06 342 /dev/loop0`
    let written = maps.lines().filter_map(|line| {
        let mut fields = line.splitn(6, ' ');
        let (place, rights) = (fields.next()?, fields.next()?);
        let name = fields.nth(3).map(str::trim).filter(|name| name.starts_with('/'))?;
        (rights.as_bytes().get(1) == Some(&b'w') && rights.ends_with('s')).then_some((place, name))
    });
    let file = |(place, name): (&str, &str)| {
        // Root sees the file itself, whatever its name is by now.
        let by_place: PathBuf = folder.join("map_files").join(place);
        fs::metadata(by_place).or_else(|_| fs::metadata(name)).ok()
    };
    written.filter_map(file).find_map(|file| watched.name(&file).cloned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn null(number: u64) -> Watched {
        Watched { devices: BTreeMap::from([(number, "null".to_owned())]), ..Watched::default() }
    }

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
        let number = fs::metadata("/dev/null").unwrap().rdev();
        let process = |pid: &str, flags: &str| {
            let folder = proc.path().join(pid);
            fs::create_dir_all(folder.join("fd")).unwrap();
            fs::create_dir_all(folder.join("fdinfo")).unwrap();
            fs::write(folder.join("comm"), "qemu\n").unwrap();
            symlink("/dev/null", folder.join("fd/3")).unwrap();
            fs::write(folder.join("fdinfo/3"), format!("flags:\t{flags}\n")).unwrap();
        };
        process("999999998", "0100000");
        assert_eq!(find(proc.path(), &null(number)), None);
        process("999999999", "0100002");
        let text = find(proc.path(), &null(number)).unwrap().to_string();
        assert_eq!(text, "the program `qemu` (process 999999999) has null open for writing; end it");
        assert_eq!(find(proc.path(), &null(number + 1)), None);
        // A thread with descriptors of its own, where the first thread has none.
        fs::rename(proc.path().join("999999999"), proc.path().join("moved")).unwrap();
        fs::create_dir_all(proc.path().join("999999999/task")).unwrap();
        fs::rename(proc.path().join("moved"), proc.path().join("999999999/task/1000000000")).unwrap();
        assert!(find(proc.path(), &null(number)).is_some());
    }

    #[test]
    fn a_ring_and_a_mapping_are_seen() {
        let number = fs::metadata("/dev/null").unwrap().rdev();
        let info = "SqThread:\t-1\nUserFiles:\t2\n    0: /etc/hosts\n    1: /dev/null\nUserBufs:\t0\n";
        assert_eq!(in_ring(info, &null(number)).as_deref(), Some("null"));
        assert_eq!(in_ring("UserFiles:\t0\nUserBufs:\t1\n", &null(number)), None);
        let proc = tempfile::tempdir().unwrap();
        let maps = |rights: &str| {
            let line =
                format!("7f1200000000-7f1200001000 {rights} 00000000 00:06 4                  /dev/null\n");
            fs::write(proc.path().join("maps"), line).unwrap();
            mapped(proc.path(), &null(number))
        };
        assert_eq!(maps("rw-s").as_deref(), Some("null"));
        assert_eq!([maps("r--s"), maps("rw-p")], [None, None]);
    }

    /// Of a loop device's file only the device was looked for.
    #[test]
    fn a_file_below_a_device_is_looked_for_too() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        let _held = fs::File::create(&path).unwrap();
        let found = fs::metadata(&path).unwrap();
        let files = BTreeMap::from([((found.dev(), found.ino()), "loop7".to_owned())]);
        let watched = Watched { files, ..Watched::default() };
        let own = Path::new("/proc").join(std::process::id().to_string());
        assert_eq!(open(&own, &watched).as_deref(), Some("loop7"));
        assert_eq!(open(&own, &Watched::default()), None);
    }
}
