//! Makes a file to measure on: written in full, incompressible, synced, and marked as iopj's. The mark itself
//! is in `header`.

use super::error::{TargetError, TargetFault};
use super::header::{FileId, HEADER_LEN, Header};
use super::sys::{self, AlignedBuffer};
use super::{Target, file_logical_block, metadata, read_header, refuse_page_cache, safety};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const CHUNK: u64 = 1 << 20;

/// Makes a file with a header of [`HEADER_LEN`] bytes and `data_len` bytes of data: random bytes, written
/// past the page cache, synced, mode 0600. `progress` gets the bytes of data written so far after every MiB,
/// and returns false to stop.
///
/// The header is written last: a file that was not finished does not carry iopj's mark. Any error removes the
/// file.
///
/// # Errors
/// The path exists; the file system has no direct I/O or no room; `data_len` is 0 or not a multiple of the
/// logical block; `progress` returned false; a write failed.
pub fn make_file(
    path: &Path,
    data_len: u64,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<FileId, TargetError> {
    let id = FileId::random().map_err(TargetError::system(path, "drawing random bytes"))?;
    make_file_as(id, path, data_len, progress).map(|()| id)
}

/// As [`make_file`], with a given identity: for a file that was made before and is gone.
///
/// # Errors
/// As for [`make_file`].
pub fn make_file_as(
    id: FileId,
    path: &Path,
    data_len: u64,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<(), TargetError> {
    if data_len == 0 {
        return Err(TargetFault::Empty("ask for a size of at least one logical block").of(path));
    }
    let mut created = Unfinished::create(path)?;
    let file = open_direct(path, &created.file, data_len)?;
    fill(path, &file, id, data_len, progress)?;
    created.name()?;
    let sync_error = TargetError::system(path, "syncing its folder");
    File::open(folder(path)).and_then(|folder| folder.sync_all()).map_err(sync_error)?;
    created.named = false;
    Ok(())
}

/// Removes a file that was made under an identity. False if nothing has its name.
///
/// # Errors
/// Another file has it, or it cannot be read or removed.
pub fn remove_file_made_as(id: FileId, path: &Path) -> Result<bool, TargetError> {
    if !is_file_made_as(id, path)? {
        return Ok(false);
    }
    fs::remove_file(path).map_err(TargetError::system(path, "removing it"))?;
    Ok(true)
}

/// True if the file of this name was made under an identity; false if nothing has its name.
///
/// # Errors
/// Another file has it, or it cannot be read.
pub fn is_file_made_as(id: FileId, path: &Path) -> Result<bool, TargetError> {
    let node = match sys::open_path(path, false) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
        opened => opened.map_err(|e| TargetError::opening(path, "reached", false, e))?,
    };
    let inode = metadata(path, &node)?;
    safety::require_own_inode(path, &inode)?;
    let (size, file) = (inode.size(), super::open_direct(path, &node, false)?);
    let header = read_header(path, &file, size, file_logical_block(path, &node)?)?;
    safety::require_own_header(path, header.as_ref(), size, &id)?;
    Ok(true)
}

/// A target that stands in for the file of `data_len` bytes that [`make_file`] would make at `path`: shorter
/// and without a name, so it is gone with the target.
///
/// # Errors
/// As for [`make_file`].
pub fn make_stand_in(path: &Path, data_len: u64) -> Result<Target, TargetError> {
    let id = FileId::random().map_err(TargetError::system(path, "drawing random bytes"))?;
    let created = match create_unnamed(path)? {
        Some(file) => file,
        None => create_and_unlink(path)?,
    };
    let file = open_direct(path, &created, data_len)?;
    fill(path, &file, id, data_len.min(CHUNK), &mut |_| true)?;
    Target::of_file(path, &created, None)
}

/// A new file without a name in the folder of `path`, where nothing is yet; `None` if the file system makes
/// none.
fn create_unnamed(path: &Path) -> Result<Option<File>, TargetError> {
    if path.symlink_metadata().is_ok() {
        return Err(TargetFault::Exists.of(path));
    }
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600).custom_flags(libc::O_TMPFILE);
    match options.open(folder(path)) {
        Ok(file) => Ok(Some(file)),
        Err(e) if matches!(e.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR | libc::EINVAL)) => {
            Ok(None)
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => Err(TargetFault::NotFound.of(&folder(path))),
        Err(e) => Err(TargetError::opening(path, "created", false, e)),
    }
}

/// A new file at `path`.
fn create_named(path: &Path) -> Result<File, TargetError> {
    let mut options = OpenOptions::new();
    // Not with O_DIRECT: a file system without it would make the file and then refuse to open it.
    options.read(true).write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    options.open(path).map_err(|e| match e.kind() {
        io::ErrorKind::AlreadyExists => TargetFault::Exists.of(path),
        io::ErrorKind::NotFound => TargetFault::NotFound.of(&folder(path)),
        _ => TargetError::opening(path, "created", false, e),
    })
}

/// A new file in the folder of `path`. It had a name for a moment, and never this one, which a run gives to
/// its own file and refuses if it is there.
fn create_and_unlink(path: &Path) -> Result<File, TargetError> {
    let name = folder(path).join(format!(".iopj-plan-{}", std::process::id()));
    let file = create_named(&name)?;
    fs::remove_file(&name).map_err(TargetError::system(&name, "removing it"))?;
    Ok(file)
}

/// A file without a name, which vanishes however the process ends; where the file system cannot do that
/// (open(2), `O_TMPFILE`), a file that is removed unless it is finished.
struct Unfinished<'a> {
    path: &'a Path,
    file: File,
    named: bool,
}

impl<'a> Unfinished<'a> {
    fn create(path: &'a Path) -> Result<Unfinished<'a>, TargetError> {
        Ok(match create_unnamed(path)? {
            Some(file) => Unfinished { path, file, named: false },
            None => Unfinished { path, file: create_named(path)?, named: true },
        })
    }

    fn name(&mut self) -> Result<(), TargetError> {
        if self.named {
            return Ok(());
        }
        match sys::link(&self.file, self.path) {
            Ok(()) => self.named = true,
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                return Err(TargetFault::Exists.of(self.path));
            }
            Err(e) => return Err(TargetError::opening(self.path, "created", false, e)),
        }
        Ok(())
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if self.named {
            // A failure cannot be reported to anyone; the file carries no mark.
            let _ = fs::remove_file(self.path);
        }
    }
}

fn folder(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// The file opened for direct I/O, after checks of the free space and of the logical block.
fn open_direct(path: &Path, created: &File, data_len: u64) -> Result<File, TargetError> {
    refuse_page_cache(path, created)?;
    let logical_block = file_logical_block(path, created)?;
    if !data_len.is_multiple_of(logical_block.into()) {
        return Err(TargetFault::NotMultiple { bytes: data_len, logical_block }.of(path));
    }
    let free = sys::free_bytes(created).map_err(TargetError::system(path, "asking for free space"))?;
    let needed = data_len.saturating_add(HEADER_LEN);
    if needed > free {
        return Err(TargetFault::NoSpace { needed, free }.of(path));
    }
    super::open_direct(path, created, true)
}

fn fill(
    path: &Path,
    file: &File,
    id: FileId,
    data_len: u64,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<(), TargetError> {
    let write_error = |source: io::Error| match source.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT) => {
            let free = sys::free_bytes(file).unwrap_or(0);
            TargetFault::NoSpace { needed: data_len.saturating_add(HEADER_LEN), free }.of(path)
        }
        _ => TargetError::system(path, "writing it")(source),
    };
    let entropy_error = || TargetError::system(path, "drawing random bytes");
    let mut random = Xoshiro256PlusPlus::from_seed(sys::random_bytes().map_err(entropy_error())?);
    let mut buffer = AlignedBuffer::new(CHUNK as usize);
    let mut done = 0;
    while done < data_len {
        let length = CHUNK.min(data_len - done);
        let bytes = &mut buffer.bytes()[..length as usize];
        random.fill_bytes(bytes);
        file.write_all_at(bytes, HEADER_LEN + done).map_err(write_error)?;
        done += length;
        if !progress(done) {
            return Err(TargetFault::Interrupted.of(path));
        }
    }
    file.sync_data().map_err(write_error)?;
    let bytes = buffer.bytes();
    random.fill_bytes(bytes);
    bytes[..Header::ENCODED_LEN].copy_from_slice(&Header { id, data_len }.encode());
    file.write_all_at(bytes, 0).map_err(write_error)?;
    file.sync_all().map_err(write_error)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder on a disk: direct I/O does not work in memory.
    fn on_disk() -> tempfile::TempDir {
        tempfile::tempdir_in(std::env::current_exe().unwrap().parent().unwrap()).unwrap()
    }

    #[test]
    fn only_the_file_that_was_made_is_removed() {
        let folder = on_disk();
        let path = folder.path().join("made");
        let id = make_file(&path, 8192, &mut |_| true).unwrap();
        let other = FileId::random().unwrap();
        let message = remove_file_made_as(other, &path).unwrap_err().to_string();
        assert!(message.contains(&format!("its id is {id}, not {other}")), "{message}");
        let linked = folder.path().join("linked");
        fs::hard_link(&path, &linked).unwrap();
        assert!(remove_file_made_as(id, &path).unwrap_err().to_string().contains("2 links"));
        fs::remove_file(&linked).unwrap();
        std::os::unix::fs::symlink(&path, &linked).unwrap();
        assert!(remove_file_made_as(id, &linked).unwrap_err().to_string().contains("symbolic link"));
        assert!(path.exists());
        assert_eq!(remove_file_made_as(id, &path).ok(), Some(true));
        assert!(!path.exists());
        assert_eq!(remove_file_made_as(id, &path).ok(), Some(false));
    }

    /// It had the name of the run's own file until it was filled.
    #[test]
    fn a_stand_in_never_has_the_name_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.iopj-data");
        let name = folder.path().join(format!(".iopj-plan-{}", std::process::id()));
        let file = create_and_unlink(&path).unwrap();
        assert_eq!((file.metadata().unwrap().nlink(), fs::read_dir(folder.path()).unwrap().count()), (0, 0));
        // What it is made under is its own name: one that is taken is in the way, the file's is not.
        fs::write(&path, "kept").unwrap();
        assert!(create_and_unlink(&path).is_ok());
        fs::write(&name, "").unwrap();
        let message = create_and_unlink(&path).unwrap_err().to_string();
        assert!(message.contains(".iopj-plan-") && message.contains("already exists"), "{message}");
        assert_eq!(fs::read(&path).unwrap(), b"kept");
    }
}
