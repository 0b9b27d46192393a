//! Targets by a descriptor that somebody else has opened and goes on using: for a library that does the I/O
//! of a program which does not know of it.

use super::descriptor::Handle;
use super::error::{TargetError, TargetFault};
use super::{Target, TargetKind, file_devices, file_logical_block, metadata, no_direct_io, sys};
use std::os::fd::RawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

impl Target {
    /// A file or a block device by the number of a descriptor that the caller has opened with O_DIRECT, and
    /// goes on using. Its engines give the kernel that number with each I/O, as the caller's own system call
    /// would: they have no descriptor of their own, keep nothing open, and end no lock of the caller's
    /// (`F_SETLK` ends when any descriptor of the file is closed). Whoever closes the number and opens
    /// something else under it does the next I/O there.
    ///
    /// Nothing is asked of its contents, and no check tries a path on it by a read. Paths whose I/O would
    /// look the number up later, or hold the file open, are refused: submission polling, registered files.
    ///
    /// # Errors
    /// It is closed, no file or block device, or not open for direct I/O.
    ///
    /// # Safety
    /// While the target or an engine of it lives, I/O under this number is I/O that the caller means:
    /// requests write to whatever is open under it when they are submitted.
    pub unsafe fn of_callers(fd: RawFd) -> Result<Target, TargetError> {
        let path = PathBuf::from(format!("/proc/self/fd/{fd}"));
        let closed =
            || TargetError::system(&path, "asking how it is open")(std::io::ErrorKind::NotFound.into());
        if fd < 0 {
            return Err(closed());
        }
        // SAFETY: by this function's condition.
        let file = unsafe { Handle::callers(fd) };
        let inode = metadata(&path, &file)?;
        let asked = TargetError::system(&path, "asking how it is open");
        let flags = rustix::fs::fcntl_getfl(&file).map_err(|errno| asked(errno.into()))?;
        if !flags.contains(rustix::fs::OFlags::DIRECT) {
            return Err(no_direct_io(&path, &file));
        }
        let mut warnings = Vec::new();
        let (kind, device_id, devices) = if inode.file_type().is_block_device() {
            let leaves = super::leaf_devices(Path::new(super::SYSFS), inode.rdev()).unwrap_or_default();
            (TargetKind::BlockDevice, inode.rdev(), leaves)
        } else if inode.file_type().is_file() {
            (TargetKind::File, inode.dev(), file_devices(&path, &file, inode.dev(), &mut warnings)?)
        } else {
            return Err(TargetFault::WrongKind("descriptor of something else").of(&path));
        };
        let logical_block = match kind {
            TargetKind::File => file_logical_block(&path, &file)?,
            _ => sys::logical_block_size(&*file)
                .map_err(TargetError::system(&path, "asking its logical block (BLKSSZGET)"))?,
        };
        Ok(Target {
            logical_block,
            kind,
            writable: flags.intersects(rustix::fs::OFlags::RDWR | rustix::fs::OFlags::WRONLY),
            file: Some(file),
            claims: super::Claims::default(),
            data_offset: 0,
            data_len: inode.size(),
            devices,
            device_id,
            nvme: None,
            bypass: None,
            warnings,
            file_id: None,
            is_callers: true,
            path,
        })
    }

    /// True if the descriptor is the caller's.
    pub(crate) fn is_callers(&self) -> bool {
        self.is_callers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Engine, IoUring, Pool, PosixSio, Request};
    use std::fs::{File, OpenOptions};
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::OpenOptionsExt;
    use std::ptr::NonNull;

    const BLOCK: usize = 4096;

    /// A block of memory as direct I/O needs it.
    #[repr(align(4096))]
    struct Block([u8; BLOCK]);

    /// A file of two blocks of one byte, on a disk.
    fn file(folder: &Path, byte: u8) -> File {
        let path = folder.join(byte.to_string());
        std::fs::write(&path, [byte; 2 * BLOCK]).unwrap();
        OpenOptions::new().read(true).write(true).custom_flags(libc::O_DIRECT).open(path).unwrap()
    }

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir_in(std::env::current_exe().unwrap().parent().unwrap()).unwrap()
    }

    /// Reads one block at `offset` into the caller's memory.
    fn read(engine: &mut impl Engine, pool: &Pool, offset: u64, memory: &mut Block) -> u32 {
        // SAFETY: the memory outlives the wait.
        let buffer = unsafe { pool.lend(NonNull::from(&mut memory.0).cast(), BLOCK as u32) }.unwrap();
        engine.push(Request::read(buffer, BLOCK as u32, offset)).unwrap();
        let mut result = None;
        engine.wait(1, None, |completion| result = Some(completion.result)).unwrap();
        result.unwrap().unwrap()
    }

    #[test]
    fn engines_do_their_io_by_the_number_into_the_callers_memory() {
        let folder = folder();
        let (first, second) = (file(folder.path(), 1), file(folder.path(), 2));
        let fd = first.as_raw_fd();
        // SAFETY: the number is of files of this test alone.
        let target = unsafe { Target::of_callers(fd) }.unwrap();
        assert!(target.is_writable() && target.data_len() == 2 * BLOCK as u64);
        let pool = Pool::lent(2);
        let mut ring = IoUring::builder().open(&target, &pool).unwrap();
        let mut sio = PosixSio::builder().open(&target, &pool).unwrap();
        let mut memory = Block([0; BLOCK]);
        assert_eq!(read(&mut ring, &pool, 0, &mut memory), BLOCK as u32);
        assert_eq!(memory.0, [1; BLOCK]);
        // What is open under the number now is what is read.
        rustix::io::dup2(&second, &mut std::mem::ManuallyDrop::new(std::os::fd::OwnedFd::from(first)))
            .unwrap();
        for offset in [0, BLOCK as u64] {
            assert_eq!(read(&mut ring, &pool, offset, &mut memory), BLOCK as u32);
            assert_eq!(memory.0, [2; BLOCK]);
            memory.0.fill(0);
            assert_eq!(read(&mut sio, &pool, offset, &mut memory), BLOCK as u32);
            assert_eq!(memory.0, [2; BLOCK]);
        }
        assert_eq!(read(&mut ring, &pool, 2 * BLOCK as u64, &mut memory), 0, "at the end");
        drop((ring, sio, target));
        // SAFETY: the number is still open, and is closed once, here.
        drop(unsafe { <File as std::os::fd::FromRawFd>::from_raw_fd(fd) });
    }

    #[test]
    fn only_what_is_open_for_direct_io_is_taken_and_not_by_every_path() {
        let folder = folder();
        let direct = file(folder.path(), 1);
        let buffered = File::open(folder.path().join("1")).unwrap();
        // SAFETY: nothing is written.
        let of = |fd| unsafe { Target::of_callers(fd) };
        for (fd, says) in [(-1, "asking how it is open"), (buffered.as_raw_fd(), "direct I/O")] {
            let message = of(fd).unwrap_err().to_string();
            assert!(message.contains(says), "{message}");
        }
        let (socket, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(of(socket.as_raw_fd()).is_err());
        let target = of(direct.as_raw_fd()).unwrap();
        let path = |text: &str| crate::check::check(text.parse().unwrap(), &target).is_available();
        assert!(path("io_uring/syscall/interrupt") && path("posix-sio/syscall/interrupt"));
        assert!(!path("io_uring/sqpoll/interrupt") && !path("io_uring/syscall/interrupt+registered"));
    }
}
