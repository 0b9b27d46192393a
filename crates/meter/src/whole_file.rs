//! Files that a user names and that are read whole: never a device, and never more than a limit.

use iopj_core::format_bytes;
use std::fs::{self, File};
use std::io::{Error, ErrorKind, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Reads a whole regular file or pipe of at most `most` bytes.
///
/// # Errors
/// It is neither, it is longer, or it cannot be read.
pub fn read_whole(path: &Path, most: u64) -> Result<Vec<u8>, Error> {
    // Before it is opened: opening a device may do something to it.
    let kind = fs::metadata(path)?.file_type();
    if !kind.is_file() && !kind.is_fifo() {
        let what = if kind.is_dir() { "folder" } else { "device or socket" };
        return Err(Error::new(ErrorKind::InvalidInput, format!("it is a {what}, not a file")));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let text = format!("it is longer than {}", format_bytes(most));
        return Err(Error::new(ErrorKind::FileTooLarge, text));
    }
    Ok(bytes)
}

/// The same for a text.
///
/// # Errors
/// As for [`read_whole`], and for bytes that are not UTF-8.
pub fn read_whole_text(path: &Path, most: u64) -> Result<String, Error> {
    let text = String::from_utf8(read_whole(path, most)?);
    text.map_err(|_| Error::new(ErrorKind::InvalidData, "it is not UTF-8 text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_folders_and_long_files_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "12345678").unwrap();
        assert_eq!(read_whole_text(&file, 8).unwrap(), "12345678");
        let refused = |path: &Path, most| read_whole(path, most).unwrap_err().to_string();
        assert_eq!(refused(&file, 7), "it is longer than 7");
        assert_eq!(refused(Path::new("/dev/zero"), 8), "it is a device or socket, not a file");
        assert_eq!(refused(folder.path(), 8), "it is a folder, not a file");
        fs::write(&file, [0xff]).unwrap();
        assert_eq!(read_whole_text(&file, 8).unwrap_err().to_string(), "it is not UTF-8 text");
    }
}
