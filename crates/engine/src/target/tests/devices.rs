//! Block devices: loop devices of our own, and the root disk, which must be refused.

use super::*;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tempfile::TempDir;

/// A program that undoes what a test did.
pub(super) struct Undo(Vec<String>);

impl Drop for Undo {
    fn drop(&mut self) {
        let _ = Command::new(&self.0[0]).args(&self.0[1..]).status();
    }
}

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn undo(words: &[&str]) -> Undo {
    Undo(words.iter().map(|word| (*word).to_owned()).collect())
}

/// A loop device, detached when dropped.
struct Loop {
    path: PathBuf,
    _undo: Undo,
}

impl Loop {
    fn new(image: &Path, options: &[&str]) -> Loop {
        let image = image.to_str().unwrap();
        let path = run("losetup", &[options, &["-f", "--show", image]].concat());
        Loop { _undo: undo(&["losetup", "-d", &path]), path: path.into() }
    }

    fn text(&self) -> &str {
        self.path.to_str().unwrap()
    }
}

/// A file system in memory, mounted on a new folder in this one until the guard is dropped. Only for root.
pub(super) fn in_memory(folder: &TempDir) -> (Undo, PathBuf) {
    let place = folder.path().join("memory");
    fs::create_dir(&place).unwrap();
    let text = place.to_str().unwrap();
    run("mount", &["-t", "tmpfs", "tmpfs", text]);
    (undo(&["umount", text]), place)
}

/// One test at a time: a program that is being started holds copies of all descriptors, and so of claims,
/// until it runs.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An image of 16 MiB in a folder of its own; `None` if this machine has no loop devices.
fn image() -> Option<(MutexGuard<'static, ()>, TempDir, PathBuf)> {
    let alone = alone();
    let tools =
        ["losetup", "mkfs.ext4", "mount"].iter().all(|tool| Command::new(tool).arg("-V").output().is_ok());
    if !have(is_root() && tools && Path::new("/dev/loop-control").exists(), "root, losetup and mkfs.ext4") {
        return None;
    }
    let folder = folder();
    let path = folder.path().join("image");
    File::create(&path).unwrap().set_len(16 << 20).unwrap();
    Some((alone, folder, path))
}

fn destroy(path: &Path, i_know: bool) -> Result<Target, TargetError> {
    Target::open_for_writing(path, WritePermission::DestroyData { device: path, i_know })
}

fn destroy_refusal(path: &Path) -> String {
    let sober = destroy(path, false).unwrap_err().to_string();
    // --i-know overrides a signature, but nothing else that forbids a write.
    assert_eq!(destroy(path, true).unwrap_err().to_string(), sober);
    assert_eq!(Target::check_destroy(path, path, true).unwrap_err().to_string(), sober);
    sober
}

/// The whole disk below `/`, where there is one.
fn root_disk() -> Option<PathBuf> {
    let device = fs::metadata("/").unwrap().dev();
    let leaf = leaf_devices(Path::new(SYSFS), device).ok()?.into_iter().next()?;
    Some(Path::new("/dev").join(leaf)).filter(|path| path.exists())
}

#[test]
fn root_disk_is_never_opened_for_writing() {
    let Some(disk) = root_disk().filter(|_| is_root()) else {
        have(false, "root and a root file system on a disk");
        return;
    };
    let folder = folder();
    let link = folder.path().join("link");
    symlink(&disk, &link).unwrap();
    // In a chroot whose root is not a mount point that mount is not seen, and the disk is refused for another
    // reason.
    let is_seen = mounts::all().unwrap().iter().any(|mount| mount.mount_point == Path::new("/"));
    let words = ["cannot be written:", "is mounted on /", "unmount it, or name another target"];
    for path in [&disk, &link] {
        let message = destroy_refusal(path);
        assert_says(&message, if is_seen { &words } else { &[] });
    }
    let target = match Target::open(&disk) {
        Ok(target) => target,
        // On some machines not even root may read the disk.
        Err(error) => return assert_says(&error.to_string(), &["the system forbids it even to root"]),
    };
    assert_eq!(
        (target.kind(), target.is_writable(), target.data_offset()),
        (TargetKind::BlockDevice, false, 0)
    );
    assert_eq!(target.devices(), [disk.file_name().unwrap().to_string_lossy()]);
    assert_eq!(target.device_id(), fs::metadata(&disk).unwrap().rdev());
}

#[test]
fn free_device_is_written_and_claimed_while_open() {
    let Some((_alone, _folder, image)) = image() else { return };
    let device = Loop::new(&image, &[]);
    Target::check_destroy(&device.path, &device.path, false).unwrap();
    let target = destroy(&device.path, false).unwrap();
    assert_eq!((target.data_len(), target.logical_block(), target.is_writable()), (16 << 20, 512, true));
    assert_eq!(target.devices(), [device.path.file_name().unwrap().to_string_lossy()]);
    let message = destroy_refusal(&device.path);
    assert_says(&message, &["cannot be written: something", "holds loop", "name another target"]);
    let mut buffer = AlignedBuffer::new(4096);
    buffer.bytes().fill(0x5a);
    target.reopen().unwrap().file.write_all_at(buffer.bytes(), 8192).unwrap();
    drop(target);
    let target = destroy(&device.path, false).unwrap();
    let mut seen = AlignedBuffer::new(4096);
    target.reopen().unwrap().file.read_exact_at(seen.bytes(), 8192).unwrap();
    assert_eq!(seen.bytes(), buffer.bytes());
}

#[test]
fn device_stays_claimed_while_an_engine_may_write_it() {
    let Some((_alone, _folder, image)) = image() else { return };
    let device = Loop::new(&image, &[]);
    for path in ["posix-sio", "posix-aio", "libaio", "io_uring"] {
        let target = destroy(&device.path, false).unwrap();
        let pool = crate::Pool::new(1, 4096).unwrap();
        let engine =
            match crate::open(format!("{path}/syscall/interrupt").parse().unwrap(), &target, &pool, 1) {
                Ok(engine) => engine,
                Err(error) => {
                    have(false, &format!("{path}: {error}"));
                    continue;
                }
            };
        drop(target);
        assert_says(&destroy_refusal(&device.path), &["cannot be written: something"]);
        drop(engine);
    }
    assert!(destroy(&device.path, false).unwrap().is_writable());
}

#[test]
fn device_must_be_named_twice_and_be_a_device() {
    let Some((_alone, folder, image)) = image() else { return };
    let device = Loop::new(&image, &[]);
    let link = folder.path().join("link");
    symlink(&device.path, &link).unwrap();
    let open = |target: &Path, named: &Path| {
        Target::open_for_writing(target, WritePermission::DestroyData { device: named, i_know: true })
    };
    for named in ["/dev/null", "/dev/nothing", image.to_str().unwrap()] {
        let message = open(&device.path, named.as_ref()).unwrap_err().to_string();
        let expected = format!("`{}` is not `{named}`, which --destroy-data names", device.text());
        assert_says(&message, &[&expected, "name the same device in both"]);
    }
    assert_says(&destroy_refusal(&image), &["is a file: --destroy-data is for whole devices"]);
    assert_says(&destroy_refusal("/dev/null".as_ref()), &["character device that is not an NVMe namespace"]);
    assert!(open(&link, &device.path).unwrap().is_writable());
}

#[test]
fn mounted_device_is_refused_and_unmounted_one_for_its_signature() {
    let Some((_alone, folder, image)) = image() else { return };
    run("mkfs.ext4", &["-q", image.to_str().unwrap()]);
    let device = Loop::new(&image, &[]);
    let mount_point = folder.path().join("mount point");
    fs::create_dir(&mount_point).unwrap();
    let link = folder.path().join("link");
    symlink(&device.path, &link).unwrap();
    {
        run("mount", &[device.text(), mount_point.to_str().unwrap()]);
        let _mounted = undo(&["umount", mount_point.to_str().unwrap()]);
        for path in [&device.path, &link] {
            assert_says(&destroy_refusal(path), &["is mounted on ", "/mount point; unmount it"]);
        }
        let file = mount_point.join("file");
        written(&file, 4096);
        let target = Target::open(&file).unwrap();
        assert_eq!(target.devices(), [device.path.file_name().unwrap().to_string_lossy()]);
    }
    let message = destroy(&link, false).unwrap_err().to_string();
    assert_says(&message, &["carries an ext2, ext3 or ext4 file system: wipe it", "--i-know"]);
    assert!(destroy(&link, true).unwrap().is_writable());
}

#[test]
fn inline_data_is_refused() {
    let Some((_alone, folder, image)) = image() else { return };
    run("mkfs.ext4", &["-q", "-I", "1024", "-O", "inline_data", image.to_str().unwrap()]);
    let device = Loop::new(&image, &[]);
    let mount_point = folder.path().join("mounted");
    fs::create_dir(&mount_point).unwrap();
    run("mount", &[device.text(), mount_point.to_str().unwrap()]);
    let _mounted = undo(&["umount", mount_point.to_str().unwrap()]);
    let file = mount_point.join("file");
    written(&file, 512);
    assert_says(
        &refusal(&file),
        &["has data inside the inode or a shared block at byte 0", "cp --sparse=never"],
    );
}

#[test]
fn mount_in_another_namespace_is_caught_by_the_claim() {
    let Some((_alone, folder, image)) = image() else { return };
    run("mkfs.ext4", &["-q", image.to_str().unwrap()]);
    let device = Loop::new(&image, &[]);
    // Mounts spread from the mount that they are made on. That of the root cannot be kept from it where the
    // root is no mount point, as in a plain chroot, so this is made on one of the test's own.
    let (_memory, memory) = in_memory(&folder);
    fs::create_dir(memory.join("mounted")).unwrap();
    let script = "mount --make-private \"$1\" && mount \"$0\" \"$1/mounted\" && echo ready && read line";
    let unshare = ["--mount", "--propagation", "unchanged", "sh", "-c", script, device.text()];
    let mut other = Command::new("unshare")
        .args(unshare)
        .arg(&memory)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = [0; 6];
    io::Read::read_exact(other.stdout.as_mut().unwrap(), &mut ready).unwrap();
    let message = destroy(&device.path, true).unwrap_err().to_string();
    let name = device.path.file_name().unwrap().to_str().unwrap();
    let disk = Sysfs::new(Path::new(SYSFS)).named(name).unwrap();
    let unclaimed = || taking::claim_disks("0000:01:00.0".parse().unwrap(), std::slice::from_ref(&disk));
    let taking = unclaimed().unwrap_err().to_string();
    drop(other.stdin.take());
    other.wait().unwrap();
    assert_says(&message, &["cannot be written: something (a mount in another namespace"]);
    assert_says(
        &taking,
        &["0000:01:00.0 cannot be taken: something (a mount in another", &format!("holds {name};")],
    );
    unclaimed().unwrap();
}

#[test]
fn partition_is_refused_and_protects_its_disk() {
    let Some((_alone, folder, image)) = image() else { return };
    // An MBR with one partition of type 83h: 8192 sectors from the 2048th.
    let file = fs::OpenOptions::new().write(true).open(&image).unwrap();
    file.write_all_at(&[0, 0, 0, 0, 0x83, 0, 0, 0, 0, 8, 0, 0, 0, 32, 0, 0], 446).unwrap();
    file.write_all_at(&[0x55, 0xaa], 510).unwrap();
    let device = Loop::new(&image, &["-P"]);
    // The kernel itself may not read partition tables.
    run("partx", &["--update", "--nr", "1", device.text()]);
    let _deleted = undo(&["partx", "--delete", "--nr", "1", device.text()]);
    let partition = PathBuf::from(format!("{}p1", device.text()));
    let name = device.path.file_name().unwrap().to_string_lossy();
    let expected = format!("is a partition: name the whole device `/dev/{name}`");
    assert_says(&destroy_refusal(&partition), &[&expected]);
    let target = Target::open(&partition).unwrap();
    assert_eq!((target.data_len(), target.devices()), (4 << 20, [name.clone().into_owned()].as_slice()));
    assert_says(&destroy(&device.path, false).unwrap_err().to_string(), &["carries an MBR partition table"]);
    {
        let node = sys::open_path(&partition, true).unwrap();
        let _claim = sys::reopen(&node, false, libc::O_EXCL).unwrap();
        assert_says(&destroy_refusal(&device.path), &["cannot be written: something"]);
    }
    {
        // The claim on the whole disk keeps everyone else from claiming, and so from mounting, its partition.
        let _target = destroy(&device.path, true).unwrap();
        let node = sys::open_path(&partition, true).unwrap();
        assert_eq!(sys::reopen(&node, false, libc::O_EXCL).unwrap_err().raw_os_error(), Some(libc::EBUSY));
    }
    run("mkfs.ext4", &["-q", partition.to_str().unwrap()]);
    let mount_point = folder.path().join("mounted");
    fs::create_dir(&mount_point).unwrap();
    run("mount", &[partition.to_str().unwrap(), mount_point.to_str().unwrap()]);
    let _mounted = undo(&["umount", mount_point.to_str().unwrap()]);
    for path in [&device.path, &partition] {
        assert_says(&destroy_refusal(path), &[&format!("{name}p1 is mounted on "), "unmount it"]);
    }
}

#[test]
fn loop_over_a_device_holds_it() {
    let Some((_alone, _folder, image)) = image() else { return };
    let lower = Loop::new(&image, &[]);
    let upper = Loop::new(&lower.path, &[]);
    let name = |device: &Loop| device.path.file_name().unwrap().to_string_lossy().into_owned();
    let expected = format!("{0} is built on {1}; take {0} down", name(&upper), name(&lower));
    assert_says(&destroy_refusal(&lower.path), &[&expected]);
}

#[test]
fn read_only_device_is_refused() {
    let Some((_alone, _folder, image)) = image() else { return };
    let device = Loop::new(&image, &["-r"]);
    assert_says(&destroy_refusal(&device.path), &["is read-only", "blockdev --setrw"]);
    assert!(!Target::open(&device.path).unwrap().is_writable());
}

/// Its mounted file system was overwritten through the second one.
#[test]
fn a_second_loop_device_on_the_file_of_a_mounted_one_is_refused() {
    let Some((_alone, folder, image)) = image() else { return };
    run("mkfs.ext4", &["-q", image.to_str().unwrap()]);
    let device = Loop::new(&image, &[]);
    // The same file by another name, and a part of it.
    let other = folder.path().join("other");
    fs::hard_link(&image, &other).unwrap();
    let seconds = [Loop::new(&other, &[]), Loop::new(&other, &["--offset", "1048576"])];
    let mount_point = folder.path().join("mounted");
    fs::create_dir(&mount_point).unwrap();
    run("mount", &[device.text(), mount_point.to_str().unwrap()]);
    let mounted = undo(&["umount", mount_point.to_str().unwrap()]);
    fs::remove_file(&image).unwrap();
    for second in &seconds {
        assert_says(&destroy_refusal(&second.path), &["is mounted on ", "/mounted; unmount it"]);
    }
    drop(mounted);
    assert!(destroy(&seconds[0].path, true).unwrap().is_writable());
}

/// The device below was overwritten through it, under whoever used that.
#[test]
fn what_a_loop_device_lies_on_is_used_by_nobody_else() {
    let Some((_alone, folder, image)) = image() else { return };
    run("mkfs.ext4", &["-q", image.to_str().unwrap()]);
    let lower = Loop::new(&image, &[]);
    let upper = Loop::new(&lower.path, &[]);
    let name = lower.path.file_name().unwrap().to_string_lossy().into_owned();
    let place = folder.path().join("mounted");
    fs::create_dir(&place).unwrap();
    // Where another mount is not seen, the kernel knows of it.
    let apart = "unshare --mount sh -c 'mount \"$0\" \"$1\" && echo && read line' \"$0\" \"$1\"";
    let writes = "exec 3<>\"$0\"; echo; read line";
    for (script, words) in
        [(apart, format!("holds {name}")), (writes, format!("has {name} open for writing"))]
    {
        let mut other = Command::new("sh")
            .args(["-c", script, lower.text(), place.to_str().unwrap()])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        std::io::Read::read_exact(other.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        assert_says(&destroy_refusal(&upper.path), &[&words]);
        drop(other.stdin.take());
        other.wait().unwrap();
    }
    assert!(destroy(&upper.path, true).unwrap().is_writable());
    run("mount", &[lower.text(), place.to_str().unwrap()]);
    let _mounted = undo(&["umount", place.to_str().unwrap()]);
    assert_says(&destroy_refusal(&upper.path), &[&format!("{name} is mounted on ")]);
}

/// A loop device was found by the name of what it lies on, which may be another node of it, or gone.
#[test]
fn a_loop_device_is_known_by_what_it_lies_on_and_not_by_a_name() {
    let Some((_alone, folder, image)) = image() else { return };
    run("mkfs.ext4", &["-q", image.to_str().unwrap()]);
    let lower = Loop::new(&image, &[]);
    let node = folder.path().join("node");
    let minor = libc::minor(fs::metadata(&lower.path).unwrap().rdev()).to_string();
    run("mknod", &[node.to_str().unwrap(), "b", "7", &minor]);
    let by_node = Loop::new(&node, &[]);
    fs::remove_file(&node).unwrap();
    let other = Loop::new(&lower.path, &[]);
    let place = folder.path().join("mounted");
    fs::create_dir(&place).unwrap();
    run("mount", &[by_node.text(), place.to_str().unwrap()]);
    let _mounted = undo(&["umount", place.to_str().unwrap()]);
    for device in [&lower, &other] {
        assert_says(&destroy_refusal(&device.path), &["is mounted on ", "/mounted; unmount it"]);
    }
}

/// Not everybody who writes claims: it was overwritten under the other program.
#[test]
fn a_device_that_a_program_has_open_for_writing_is_refused_and_the_program_named() {
    let Some((_alone, _folder, image)) = image() else { return };
    let device = Loop::new(&image, &[]);
    let holds = |mode: &str| {
        let script = format!("exec 3{mode}{}; echo; read line", device.text());
        let mut shell = Command::new("sh")
            .args(["-c", &script])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        std::io::Read::read_exact(shell.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        shell
    };
    let mut writer = holds("<>");
    let who = format!("the program `sh` (process {}) has ", writer.id());
    assert_says(&destroy_refusal(&device.path), &[&who, "open for writing; end it"]);
    drop(writer.stdin.take());
    writer.wait().unwrap();
    let mut reader = holds("<");
    assert!(destroy(&device.path, false).unwrap().is_writable());
    drop(reader.stdin.take());
    reader.wait().unwrap();
}

/// VxFS is in no table of ours.
#[test]
fn a_format_that_blkid_alone_knows_is_refused_by_its_name() {
    let Some((_alone, _folder, image)) = image() else { return };
    File::options().write(true).open(&image).unwrap().write_all_at(b"\xf5\xfc\x01\xa5\x04", 1024).unwrap();
    let device = Loop::new(&image, &[]);
    let message = destroy(&device.path, false).unwrap_err().to_string();
    assert_says(&message, &["carries the format `vxfs`, as blkid calls it: wipe it", "--i-know"]);
    assert!(destroy(&device.path, true).unwrap().is_writable());
}
