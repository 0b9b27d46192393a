//! Real targets: files on the disk's file system, tmpfs, loop devices, the root disk.

use super::*;
use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::symlink;

mod devices;

impl Descriptor {
    /// A descriptor of nothing in particular, for engines on a kernel that is simulated.
    pub(crate) fn of_nothing() -> Descriptor {
        Descriptor::new(File::open("/dev/null").expect("every system has it").into(), &Claims::default())
    }
}

/// A folder on the file system of the build, which lies on a disk where `/tmp` may not.
fn folder() -> tempfile::TempDir {
    let executable = std::env::current_exe().unwrap();
    tempfile::tempdir_in(executable.parent().unwrap()).unwrap()
}

/// A folder, and the path of a file in it that does not exist yet.
fn data() -> (tempfile::TempDir, PathBuf) {
    let folder = folder();
    let path = folder.path().join("data");
    (folder, path)
}

/// True to go on; otherwise the test is skipped, or fails under CI.
fn have(condition: bool, what: &str) -> bool {
    if !condition {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "needs {what}");
        eprintln!("skipped: needs {what}");
    }
    condition
}

fn is_root() -> bool {
    sys::effective_user() == 0
}

fn make(path: &Path, data_len: u64) -> FileId {
    make_file(path, data_len, &mut |_| true).unwrap()
}

fn refusal(path: &Path) -> String {
    Target::open(path).unwrap_err().to_string()
}

fn own_refusal(path: &Path, id: &FileId) -> String {
    Target::open_for_writing(path, WritePermission::OwnFile { id }).unwrap_err().to_string()
}

fn assert_says(message: &str, parts: &[&str]) {
    assert!(parts.iter().all(|part| message.contains(part)), "{message}");
}

fn written(path: &Path, bytes: usize) {
    let file = File::create(path).unwrap();
    file.write_all_at(&vec![7; bytes], 0).unwrap();
    file.sync_all().unwrap();
}

#[test]
fn made_file_is_a_target_behind_its_header() {
    let (_folder, path) = data();
    let mut steps = Vec::new();
    let id = make_file(&path, (2 << 20) + 8192, &mut |done| {
        steps.push(done);
        true
    });
    let id = id.unwrap();
    assert_eq!(steps, [1 << 20, 2 << 20, (2 << 20) + 8192]);
    let target = Target::open(&path).unwrap();
    assert_eq!((target.data_offset(), target.data_len()), (HEADER_LEN, (2 << 20) + 8192));
    assert_eq!((target.file_id(), target.kind(), target.is_writable()), (Some(&id), TargetKind::File, false));
    let inode = fs::metadata(&path).unwrap();
    assert_eq!((inode.mode() & 0o777, target.device_id()), (0o600, inode.dev()));
    assert!(target.logical_block().is_power_of_two() && target.logical_block() <= 4096);
    for device in target.devices() {
        assert!(Path::new("/sys/block").join(device).exists(), "{device}");
    }
    assert_eq!(target.devices().is_empty(), target.warnings().iter().any(|w| w.contains("no block device")));
}

#[test]
fn made_file_is_incompressible_and_has_no_two_equal_blocks() {
    let (_folder, path) = data();
    make(&path, 3 << 20);
    let bytes = fs::read(&path).unwrap();
    assert_eq!(bytes.len(), 4 << 20);
    let blocks: HashSet<&[u8]> = bytes.chunks(4096).collect();
    assert_eq!(blocks.len(), 1024);
    for block in blocks {
        // In 4096 random bytes each of 256 values is expected some 16 times.
        assert!(block.iter().collect::<HashSet<_>>().len() > 250);
    }
}

#[test]
fn reopened_descriptor_is_direct_and_of_the_same_inode() {
    let (folder, path) = data();
    let id = make(&path, 1 << 20);
    for (write, target) in [
        (libc::O_RDONLY, Target::open(&path).unwrap()),
        (libc::O_RDWR, Target::open_for_writing(&path, WritePermission::OwnFile { id: &id }).unwrap()),
    ] {
        // A rename, and a new file under the old name, must not mislead it.
        let inode = fs::metadata(&path).unwrap().ino();
        fs::rename(&path, folder.path().join("moved")).unwrap();
        written(&path, 4096);
        let fd = target.reopen().unwrap();
        // SAFETY: F_GETFL and F_GETFD touch no memory.
        let (status, flags) = unsafe {
            (libc::fcntl(fd.as_raw_fd(), libc::F_GETFL), libc::fcntl(fd.as_raw_fd(), libc::F_GETFD))
        };
        assert_eq!((status & libc::O_ACCMODE, status & libc::O_DIRECT), (write, libc::O_DIRECT));
        assert_eq!(flags & libc::FD_CLOEXEC, libc::FD_CLOEXEC);
        assert_eq!(fd.file.metadata().unwrap().ino(), inode);
        fs::rename(folder.path().join("moved"), &path).unwrap();
    }
}

#[test]
fn own_file_is_written_and_stays_own_and_real() {
    let (_folder, path) = data();
    let id = make(&path, 1 << 20);
    let target = Target::open_for_writing(&path, WritePermission::OwnFile { id: &id }).unwrap();
    let mut buffer = AlignedBuffer::new(4096);
    buffer.bytes().fill(9);
    target.reopen().unwrap().file.write_all_at(buffer.bytes(), target.data_offset()).unwrap();
    assert_eq!(Target::open(&path).unwrap().file_id(), Some(&id));
    assert_eq!(&fs::read(&path).unwrap()[HEADER_LEN as usize..][..4096], buffer.bytes());
}

#[test]
fn file_that_is_not_our_own_is_not_written() {
    let (folder, path) = data();
    let id = make(&path, 1 << 20);
    let at = |name: &str| folder.path().join(name);
    let other = make(&at("other"), 4096);
    assert_says(&own_refusal(&path, &other), &["was not made by iopj", "its id is", &other.to_string()]);
    symlink(&path, at("link")).unwrap();
    assert_says(&own_refusal(&at("link"), &id), &["was not made by iopj: it is a symbolic link"]);
    assert_says(&own_refusal(folder.path(), &id), &["was not made by iopj: it is not a regular file"]);
    written(&at("plain"), 8192);
    assert_says(
        &own_refusal(&at("plain"), &id),
        &["was not made by iopj: it has no iopj header", "--destroy-data"],
    );
    fs::hard_link(&path, at("second")).unwrap();
    assert_says(&own_refusal(&path, &id), &["it has 2 links"]);
    fs::remove_file(at("second")).unwrap();
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&[1; 4096], 2 << 20).unwrap();
    assert_says(&own_refusal(&path, &id), &["its header gives a length other than 2101248 bytes"]);
    let target = Target::open(&path).unwrap();
    assert_eq!((target.file_id(), target.data_offset(), target.data_len()), (None, 0, 2_101_248));
    file.set_len(2 << 20).unwrap();
    if have(is_root(), "root, to give a file away") {
        std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
        assert_says(&own_refusal(&path, &id), &["it belongs to user 65534"]);
    }
}

#[test]
fn what_cannot_be_a_target_is_refused() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    assert_says(&refusal(&at("nothing")), &["/nothing` does not exist: name a file"]);
    assert_says(&refusal(folder.path()), &["is a directory: name a file in it"]);
    let name = std::ffi::CString::new(at("fifo").to_str().unwrap()).unwrap();
    // SAFETY: the name is a C string.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    assert_says(&refusal(&at("fifo")), &["is a fifo: name a file, a block device or an NVMe namespace"]);
    let _socket = std::os::unix::net::UnixListener::bind(at("s")).unwrap();
    assert_says(&refusal(&at("s")), &["is a socket: name a file"]);
    assert_says(
        &refusal("/dev/null".as_ref()),
        &["`/dev/null` is a character device that is not an NVMe namespace"],
    );
    written(&at("empty"), 0);
    assert_says(&refusal(&at("empty")), &["is empty: name a file with data"]);
    written(&at("small"), 100);
    assert_says(&refusal(&at("small")), &["has 100 bytes, which is not a multiple of the logical block of"]);
    written(&at("odd"), 8193);
    assert_says(&refusal(&at("odd")), &["has 8193 bytes, which is not a multiple of the logical block of"]);
}

#[test]
fn file_that_is_not_all_on_the_device_is_refused() {
    let (_folder, path) = data();
    File::create(&path).unwrap().set_len(1 << 20).unwrap();
    assert_says(&refusal(&path), &["has a hole at byte 0, ", "cp --sparse=never"]);
    written(&path, 65_536);
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    assert_eq!(Target::open(&path).unwrap().data_len(), 65_536);
    file.write_all_at(&[1; 4096], 131_072).unwrap();
    assert_says(&refusal(&path), &["has a hole at byte 65536, which is read without the device"]);
    file.set_len(131_072).unwrap();
    assert_says(&refusal(&path), &["has a hole at byte 65536"]);
    // SAFETY: fallocate touches no memory; the descriptor is open.
    let allocated = unsafe { libc::fallocate(file.as_raw_fd(), 0, 65_536, 65_536) };
    assert_eq!(allocated, 0, "{}", io::Error::last_os_error());
    assert_says(&refusal(&path), &["was never written at byte 65536 (fallocate)"]);
    file.write_all_at(&[1; 65_536], 65_536).unwrap();
    assert_eq!(Target::open(&path).unwrap().data_len(), 131_072);
}

#[test]
fn file_of_more_extents_than_one_batch_is_walked_to_its_end() {
    let (_folder, path) = data();
    let kept = sys::EXTENT_BATCH as i64 + 100;
    written(&path, (2 * kept as usize - 1) * 4096);
    let file = fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    // Removing every second block leaves blocks that are not adjacent on the device: one extent each, and no
    // hole.
    for block in (0..kept - 1).rev() {
        // SAFETY: fallocate touches no memory; the descriptor is open.
        let result = unsafe {
            libc::fallocate(file.as_raw_fd(), libc::FALLOC_FL_COLLAPSE_RANGE, (2 * block + 1) * 4096, 4096)
        };
        let errno = if result == 0 { 0 } else { io::Error::last_os_error().raw_os_error().unwrap() };
        if !have(errno != libc::EOPNOTSUPP, "a file system with collapse_range") {
            return;
        }
        assert_eq!(errno, 0);
    }
    let size = kept as u64 * 4096;
    assert_eq!(sys::extents(&file, 0, size).unwrap().len(), sys::EXTENT_BATCH);
    assert_eq!(Target::open(&path).unwrap().data_len(), size);
    file.set_len(size + 4096).unwrap();
    assert_says(&refusal(&path), &[&format!("has a hole at byte {size}")]);
}

#[test]
fn tmpfs_is_refused_to_read_and_to_make() {
    let above = folder();
    let own = is_root().then(|| devices::in_memory(&above));
    // It may be a folder on a disk.
    let shm = Path::new("/dev/shm");
    let is_tmpfs =
        |node: File| sys::file_system_magic(&node).is_ok_and(|magic| magic == libc::TMPFS_MAGIC as u64);
    if !have(own.is_some() || File::open(shm).is_ok_and(is_tmpfs), "root, or /dev/shm in memory") {
        return;
    }
    let folder = tempfile::tempdir_in(own.as_ref().map_or(shm, |(_, place)| place.as_path())).unwrap();
    let path = folder.path().join("data");
    written(&path, 8192);
    assert_says(
        &refusal(&path),
        &["is on tmpfs, which has no direct I/O", "name a file on a disk's file system"],
    );
    fs::remove_file(&path).unwrap();
    let message = make_file(&path, 4096, &mut |_| true).unwrap_err().to_string();
    assert_says(&message, &["is on tmpfs"]);
    assert!(!path.exists());
}

#[test]
fn what_stands_in_for_a_file_has_no_name() {
    let (folder, path) = data();
    let target = make_stand_in(&path, 1 << 30).unwrap();
    assert_eq!((target.data_len(), target.path(), target.kind()), (1 << 20, &*path, TargetKind::File));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    assert_says(
        &make_stand_in(&path, 1 << 60).unwrap_err().to_string(),
        &["its file system has", "make room"],
    );
}

#[test]
fn file_that_cannot_be_made_leaves_nothing() {
    let (folder, path) = data();
    let make = |path: &Path, len, go_on| make_file(path, len, &mut |_| go_on).unwrap_err().to_string();
    assert_says(&make(&path, 0, true), &["is empty: ask for a size"]);
    assert_says(&make(&path, 1000, true), &["has 1000 bytes, which is not a multiple"]);
    assert_says(
        &make(&path, 1 << 60, true),
        &["needs 1152921504607895552 bytes and its file system has", "make room"],
    );
    assert_says(&make(&path, u64::MAX - 4095, true), &["needs 18446744073709551615 bytes"]);
    assert_says(&make(&path, 2 << 20, false), &["was not made: it was interrupted"]);
    assert!(!path.exists());
    assert_says(&make(&path.join("x"), 4096, true), &["does not exist"]);
    fs::write(&path, "kept").unwrap();
    assert_says(&make(&path, 4096, true), &["already exists: name a path that does not"]);
    assert_eq!(fs::read(&path).unwrap(), b"kept");
    symlink(folder.path().join("elsewhere"), folder.path().join("link")).unwrap();
    assert_says(&make(&folder.path().join("link"), 4096, true), &["exists"]);
    assert!(!folder.path().join("elsewhere").exists());
}

/// Runs `work` on a thread of the user nobody: the raw system call changes only that thread.
fn as_nobody<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: setresuid touches no memory; this thread ends with the closure.
            let result = unsafe { libc::syscall(libc::SYS_setresuid, 65_534, 65_534, 65_534) };
            assert_eq!(result, 0);
            work()
        });
        thread.join().unwrap()
    })
}

#[test]
fn missing_permission_is_named_with_its_remedy() {
    if !have(is_root(), "root, to become nobody") {
        return;
    }
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = folder.path().join("data");
    make(&path, 4096);
    let message = as_nobody(|| refusal(&path));
    assert_says(
        &message,
        &["cannot be opened for reading: permission denied", "change its owner or mode, or run as root"],
    );
    let device = Path::new("/dev/loop-control").with_file_name("loop0");
    if have(device.exists(), "/dev/loop0") {
        let message = as_nobody(|| refusal(&device));
        assert_says(
            &message,
            &["`/dev/loop0` cannot be opened for reading: permission denied", "join the group", "`disk`"],
        );
    }
}

#[test]
fn zram_warns_of_what_it_does_not_store() {
    assert_eq!(zram_stored("8192 100 200 0 300 1 0 0 0"), Some(8192 - rustix::param::page_size() as u64));
    assert_eq!(zram_stored("0 0"), None);
    let zram = Path::new("/dev/zram0");
    if !have(is_root() && zram.exists(), "root and /dev/zram0") {
        return;
    }
    let dir = Path::new("/sys/block/zram0");
    let size = attribute::<u64>(dir, "disksize").unwrap();
    if size == 0 {
        assert_says(&refusal(zram), &["`/dev/zram0` is empty: give it a capacity (zram: disksize"]);
        return;
    }
    let target = Target::open(zram).unwrap();
    assert_eq!((target.data_len(), target.devices()), (size, ["zram0".to_owned()].as_slice()));
}

#[test]
fn zram_warning_and_discard_warning_depend_on_sysfs() {
    let tree = fixtures::SysfsTree::new();
    let disk = tree.disk("zram0", "253:0");
    fs::create_dir(disk.join("queue")).unwrap();
    fs::write(disk.join("queue/discard_max_bytes"), "4096\n").unwrap();
    assert_says(&device_warnings("/dev/x".as_ref(), &disk, 1 << 20)[0], &["`/dev/x` supports discard"]);
    fs::write(disk.join("queue/discard_max_bytes"), "0\n").unwrap();
    assert_eq!(device_warnings("x".as_ref(), &disk, 1 << 20), Vec::<String>::new());
    fs::write(disk.join("mm_stat"), "  1048576 9 9 0 9 0 0 0 0\n").unwrap();
    assert_eq!(device_warnings("x".as_ref(), &disk, 1 << 20), Vec::<String>::new());
    assert_says(&device_warnings("x".as_ref(), &disk, 2 << 20)[0], &["stores 1048576 of its 2097152 bytes"]);
}
