//! The archive that the guest hands out: tar (ustar, POSIX 1003.1, pax "ustar Interchange Format", with GNU's
//! long names, which busybox writes), unpacked without trust: files and folders only, none outside the given
//! folder.

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Component, Path, PathBuf};

use crate::image::init::{EXIT_MEMBER, OUT_FOLDER};

const BLOCK: usize = 512;

/// Unpacks `out/` into `folder`, and returns the exit status of the guest's script; `None` if the archive is
/// empty or cut short.
///
/// # Errors
/// The file system's, or `InvalidData` with the member at fault.
pub(crate) fn unpack(archive: &Path, folder: &Path) -> io::Result<Option<i32>> {
    let mut reader = BufReader::new(File::open(archive)?);
    let mut status = None;
    let mut long_name = None;
    loop {
        let mut block = [0; BLOCK];
        if let Err(error) = reader.read_exact(&mut block) {
            return if error.kind() == io::ErrorKind::UnexpectedEof { Ok(None) } else { Err(error) };
        }
        // Two blocks of zeros end the archive; without them it was cut short.
        if block == [0; BLOCK] {
            return Ok(status);
        }
        let header = Header::parse(&block).ok_or_else(|| invalid("a header that is not ustar's"))?;
        let mut body = reader.by_ref().take(header.size.next_multiple_of(BLOCK as u64));
        let name = long_name.take().unwrap_or(header.name);
        match header.kind {
            b'L' => long_name = Some(text(&mut body, header.size)?),
            b'0' | 0 if name == EXIT_MEMBER => status = text(&mut body, header.size)?.trim().parse().ok(),
            b'0' | 0 => {
                if let Some(path) = inside(folder, &name)? {
                    write(&path, &mut body, header.size)?;
                }
            }
            b'5' => {
                if let Some(path) = inside(folder, &name)? {
                    fs::create_dir_all(path)?;
                }
            }
            _ => return Err(invalid(&format!("`{name}`, which is neither a file nor a folder"))),
        }
        io::copy(&mut body, &mut io::sink())?;
    }
}

struct Header {
    name: String,
    size: u64,
    kind: u8,
}

impl Header {
    fn parse(block: &[u8; BLOCK]) -> Option<Header> {
        let sum: u64 = block.iter().map(|&byte| u64::from(byte)).sum();
        // The sum is taken with spaces in its own field.
        let own: u64 = block[148..156].iter().map(|&byte| u64::from(byte)).sum();
        if octal(&block[148..156])? != sum - own + 8 * u64::from(b' ') {
            return None;
        }
        Some(Header { name: until_nul(&block[..100]), size: octal(&block[124..136])?, kind: block[156] })
    }
}

/// Digits between spaces and NULs.
fn octal(field: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(field).ok()?.trim_matches([' ', '\0']);
    u64::from_str_radix(digits, 8).ok()
}

fn until_nul(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// A member that is text: a long name or a status.
fn text(body: &mut impl Read, size: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    body.take(size.min(4096)).read_to_end(&mut bytes)?;
    Ok(until_nul(&bytes))
}

/// Where a member goes; `None` for the folder itself.
fn inside(folder: &Path, name: &str) -> io::Result<Option<PathBuf>> {
    let outside = || invalid(&format!("`{name}`, which is outside {OUT_FOLDER}/"));
    let relative = Path::new(name).strip_prefix(OUT_FOLDER).map_err(|_| outside())?;
    if !relative.components().all(|component| matches!(component, Component::Normal(_))) {
        return Err(outside());
    }
    Ok((relative != Path::new("")).then(|| folder.join(relative)))
}

fn write(path: &Path, body: &mut impl Read, size: u64) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let copied = io::copy(&mut body.take(size), &mut File::create(path)?)?;
    if copied == size { Ok(()) } else { Err(invalid(&format!("`{}`, cut short", path.display()))) }
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the guest's archive holds {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// A tree, archived by the system's tar as the guest's busybox does it.
    fn archived(folder: &Path, members: &[&str]) -> PathBuf {
        let archive = folder.join("out.tar");
        let status = Command::new("tar")
            .args(["--format=gnu", "--owner=0", "-cf"])
            .arg(&archive)
            .arg("-C")
            .arg(folder)
            .args(members)
            .status()
            .unwrap();
        assert!(status.success());
        archive
    }

    fn tree() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("lab")).unwrap();
        fs::create_dir_all(folder.path().join("out/sub")).unwrap();
        fs::write(folder.path().join("lab/exit"), "3\n").unwrap();
        fs::write(folder.path().join("out/store"), vec![7; 1000]).unwrap();
        folder
    }

    #[test]
    fn files_folders_and_long_names_come_out() {
        let tree = tree();
        let long = format!("sub/{}", "n".repeat(150));
        fs::write(tree.path().join("out").join(&long), "long").unwrap();
        let archive = archived(tree.path(), &["lab/exit", "out"]);
        let out = tempfile::tempdir().unwrap();
        assert_eq!(unpack(&archive, out.path()).unwrap(), Some(3));
        assert_eq!(fs::read(out.path().join("store")).unwrap(), vec![7; 1000]);
        assert_eq!(fs::read(out.path().join(long)).unwrap(), b"long");
    }

    #[test]
    fn a_torn_or_empty_archive_has_no_status() {
        let tree = tree();
        let archive = archived(tree.path(), &["lab/exit", "out"]);
        let whole = fs::read(&archive).unwrap();
        let out = tempfile::tempdir().unwrap();
        fs::write(&archive, &whole[..1536]).unwrap();
        assert_eq!(unpack(&archive, out.path()).unwrap(), None);
        fs::write(&archive, b"").unwrap();
        assert_eq!(unpack(&archive, out.path()).unwrap(), None);
    }

    #[test]
    fn nothing_is_written_outside() {
        let out = tempfile::tempdir().unwrap();
        for name in ["/etc/passwd", "out/../x", "lab/run", "x"] {
            assert_eq!(inside(out.path(), name).unwrap_err().kind(), io::ErrorKind::InvalidData, "{name}");
        }
        assert_eq!(inside(out.path(), "out/").unwrap(), None);
        let tree = tree();
        std::os::unix::fs::symlink("/etc", tree.path().join("out/link")).unwrap();
        let error = unpack(&archived(tree.path(), &["out"]), out.path()).unwrap_err().to_string();
        assert_eq!(error, "the guest's archive holds `out/link`, which is neither a file nor a folder");
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic(at in 0..2048_usize, byte in proptest::num::u8::ANY, cut in 0..4096_usize) {
            let tree = tree();
            let archive = archived(tree.path(), &["lab/exit", "out"]);
            let mut bytes = fs::read(&archive).unwrap();
            bytes[at] = byte;
            bytes.truncate(cut.max(at));
            fs::write(&archive, bytes).unwrap();
            let out = tempfile::tempdir().unwrap();
            let _ = unpack(&archive, out.path());
        }
    }
}
