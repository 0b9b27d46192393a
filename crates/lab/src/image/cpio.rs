//! An archive in cpio's "newc" format, which the kernel unpacks into its root
//! (Documentation/driver-api/early-userspace/buffer-format.rst). The same content always gives the same
//! bytes.

use iopj_core::files::open_regular;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// What a name refers to.
enum Entry {
    Folder,
    File { content: Content, mode: u32 },
    Link { to: String },
    Character { major: u32, minor: u32 },
}

/// Where a file's bytes come from: small files are in memory, programs and modules are read when the archive
/// is written.
enum Content {
    Bytes(Vec<u8>),
    Host(PathBuf),
}

const TRAILER: &str = "TRAILER!!!";
const S_IFREG: u32 = 0o100_000;
const S_IFDIR: u32 = 0o040_000;
const S_IFLNK: u32 = 0o120_000;
const S_IFCHR: u32 = 0o020_000;

/// The tree that becomes the guest's root. Names are paths from the root; a leading `/` is dropped. A later
/// entry replaces an earlier one of the same name.
#[derive(Default)]
pub(super) struct Archive {
    entries: BTreeMap<String, Entry>,
}

impl Archive {
    pub(super) fn folder(&mut self, name: &str) {
        self.add(name, Entry::Folder);
    }

    pub(super) fn bytes(&mut self, name: &str, bytes: Vec<u8>, mode: u32) {
        self.add(name, Entry::File { content: Content::Bytes(bytes), mode });
    }

    pub(super) fn host_file(&mut self, name: &str, host: &Path, mode: u32) {
        self.add(name, Entry::File { content: Content::Host(host.to_path_buf()), mode });
    }

    pub(super) fn link(&mut self, name: &str, to: &str) {
        self.add(name, Entry::Link { to: to.to_owned() });
    }

    pub(super) fn character(&mut self, name: &str, major: u32, minor: u32) {
        self.add(name, Entry::Character { major, minor });
    }

    /// Adds an entry and the folders above it.
    fn add(&mut self, name: &str, entry: Entry) {
        let name = name.trim_matches('/');
        for (at, _) in name.match_indices('/') {
            self.entries.entry(name[..at].to_owned()).or_insert(Entry::Folder);
        }
        self.entries.insert(name.to_owned(), entry);
    }

    /// Writes the archive. A name sorts before the names under it, so a folder comes before what it holds.
    ///
    /// # Errors
    /// The path at fault and why: a host file that cannot be read or is over 4 GiB, the format's limit.
    pub(super) fn write(&self, out: &mut impl Write) -> Result<(), (PathBuf, io::Error)> {
        let mut writer = Newc { out, inode: 0 };
        for (name, entry) in &self.entries {
            let at = |error| (PathBuf::from(name), error);
            match entry {
                Entry::Folder => writer.entry(name, S_IFDIR | 0o755, (0, 0), &[]).map_err(at)?,
                Entry::File { content: Content::Bytes(bytes), mode } => {
                    writer.entry(name, S_IFREG | mode, (0, 0), bytes).map_err(at)?;
                }
                Entry::File { content: Content::Host(host), mode } => {
                    writer.host_file(name, S_IFREG | mode, host).map_err(|error| (host.clone(), error))?;
                }
                Entry::Link { to } => {
                    writer.entry(name, S_IFLNK | 0o777, (0, 0), to.as_bytes()).map_err(at)?
                }
                Entry::Character { major, minor } => {
                    writer.entry(name, S_IFCHR | 0o600, (*major, *minor), &[]).map_err(at)?;
                }
            }
        }
        writer.header(TRAILER, 0, (0, 0), 0).map_err(|error| (PathBuf::from(TRAILER), error))
    }
}

struct Newc<'a, W: Write> {
    out: &'a mut W,
    inode: u32,
}

impl<W: Write> Newc<'_, W> {
    fn entry(&mut self, name: &str, mode: u32, device: (u32, u32), body: &[u8]) -> io::Result<()> {
        self.header(name, mode, device, body.len() as u64)?;
        self.out.write_all(body)?;
        self.pad(body.len() as u64)
    }

    fn host_file(&mut self, name: &str, mode: u32, host: &Path) -> io::Result<()> {
        let mut file = open_regular(host)?;
        let length = file.metadata()?.len();
        self.header(name, mode, (0, 0), length)?;
        let copied = io::copy(&mut file, self.out)?;
        if copied != length {
            return Err(io::Error::other("the file changed while it was read"));
        }
        self.pad(length)
    }

    /// Thirteen fields of eight hexadecimal digits, then the name and its NUL.
    fn header(&mut self, name: &str, mode: u32, device: (u32, u32), length: u64) -> io::Result<()> {
        let length = u32::try_from(length).map_err(|_| io::Error::other("the file is over 4 GiB"))?;
        let name_length = u32::try_from(name.len() + 1).map_err(io::Error::other)?;
        // Every name is its own file: links among files would share an inode.
        self.inode += 1;
        let (major, minor) = device;
        write!(self.out, "070701")?;
        for field in [self.inode, mode, 0, 0, 1, 0, length, 0, 0, major, minor, name_length, 0] {
            write!(self.out, "{field:08x}")?;
        }
        self.out.write_all(name.as_bytes())?;
        self.out.write_all(b"\0")?;
        // The header's 110 bytes and the name are padded together.
        self.pad(110 + u64::from(name_length))
    }

    fn pad(&mut self, length: u64) -> io::Result<()> {
        let missing = (4 - length % 4) % 4;
        self.out.write_all(&[0; 3][..missing as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;
    use std::fs::File;
    use std::process::{Command, Stdio};

    fn written(archive: &Archive) -> Vec<u8> {
        let mut bytes = Vec::new();
        archive.write(&mut bytes).unwrap();
        bytes
    }

    /// Name, mode, device and content.
    type Parsed = (String, u32, (u32, u32), Vec<u8>);

    /// Every entry, read as buffer-format.rst has it.
    fn parsed(mut bytes: &[u8]) -> Vec<Parsed> {
        let mut entries = Vec::new();
        loop {
            let field = |number: usize| {
                let at = 6 + 8 * number;
                u32::from_str_radix(std::str::from_utf8(&bytes[at..at + 8]).unwrap(), 16).unwrap()
            };
            assert_eq!(&bytes[..6], b"070701");
            let (length, name_length) = (field(6) as usize, field(11) as usize);
            let name = std::str::from_utf8(&bytes[110..110 + name_length - 1]).unwrap().to_owned();
            assert_eq!(bytes[110 + name_length - 1], 0);
            let body = (110 + name_length).next_multiple_of(4);
            let content = bytes[body..body + length].to_vec();
            let entry = (name, field(1), (field(9), field(10)), content);
            bytes = &bytes[(body + length).next_multiple_of(4)..];
            if entry.0 == TRAILER {
                assert!(bytes.is_empty());
                return entries;
            }
            entries.push(entry);
        }
    }

    #[test]
    fn cpio_unpacks_it() {
        if crate::host_tools::find("cpio").is_none() {
            assert!(std::env::var_os("CI").is_none(), "needs cpio");
            eprintln!("skipped: needs cpio (apt-get install cpio)");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let host = folder.path().join("host");
        fs::write(&host, "of the host").unwrap();
        let mut archive = Archive::default();
        archive.bytes("/init", b"#!/bin/sh\n".to_vec(), 0o755);
        archive.host_file("a/b/file", &host, 0o640);
        archive.link("a/link", "b/file");
        let packed = folder.path().join("packed");
        fs::write(&packed, written(&archive)).unwrap();
        let status = Command::new("cpio")
            .args(["-i", "--quiet", "-d"])
            .stdin(Stdio::from(File::open(&packed).unwrap()))
            .current_dir(folder.path())
            .status()
            .unwrap();
        assert!(status.success());
        assert_eq!(fs::read_to_string(folder.path().join("a/link")).unwrap(), "of the host");
        let mode = |name: &str| {
            std::os::unix::fs::PermissionsExt::mode(
                &fs::metadata(folder.path().join(name)).unwrap().permissions(),
            )
        };
        assert_eq!((mode("init") & 0o777, mode("a/b/file") & 0o777), (0o755, 0o640));
    }

    #[test]
    fn a_missing_host_file_is_named() {
        let mut archive = Archive::default();
        archive.host_file("bin/x", Path::new("/nonexistent/x"), 0o755);
        let (path, error) = archive.write(&mut Vec::new()).unwrap_err();
        assert_eq!((path, error.kind()), (PathBuf::from("/nonexistent/x"), io::ErrorKind::NotFound));
    }

    proptest! {
        #[test]
        fn what_is_put_in_stands_there(
            files in prop::collection::btree_map("[a-z]{1,9}/[a-z]{1,9}", any::<Vec<u8>>(), 0..8),
            major in 0..512_u32,
        ) {
            let mut archive = Archive::default();
            archive.character("DEV/console", major, 1);
            for (name, content) in &files {
                archive.bytes(name, content.clone(), 0o644);
            }
            let bytes = written(&archive);
            prop_assert_eq!(&bytes, &written(&archive));
            let entries = parsed(&bytes);
            let found: BTreeMap<String, Vec<u8>> = entries
                .iter()
                .filter(|entry| entry.1 == S_IFREG | 0o644)
                .map(|entry| (entry.0.clone(), entry.3.clone()))
                .collect();
            prop_assert_eq!(found, files);
            let console = ("DEV/console".to_owned(), S_IFCHR | 0o600, (major, 1), Vec::new());
            prop_assert!(entries.contains(&console));
            for (at, entry) in entries.iter().enumerate() {
                if let Some((folder, _)) = entry.0.rsplit_once('/') {
                    let is_above = |above: &Parsed| above.0 == folder && above.1 & S_IFDIR != 0;
                    prop_assert!(entries[..at].iter().any(is_above));
                }
            }
        }
    }
}
