//! A store on its way from a host: its length and hash, then its bytes; and its arrival, whole or not at all.

use crate::error::FleetError;
use crate::files;
use iopj_store::Store;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;

/// The line before a store's bytes.
#[derive(Serialize, Deserialize)]
struct Header {
    iopj_store: u32,
    bytes: u64,
    sha256: String,
}

const VERSION: u32 = 1;
/// The longest header that is read.
const LONGEST: u64 = 4096;

/// Writes a store as it is now, by SQLite's backup.
///
/// # Errors
/// It is no store, or nobody reads `out`.
pub fn send(store: &Path, out: &mut dyn Write) -> Result<(), FleetError> {
    let bytes = Store::whole(store)?;
    let header =
        Header { iopj_store: VERSION, bytes: bytes.len() as u64, sha256: hex(&Sha256::digest(&bytes)) };
    let mut line =
        serde_json::to_vec(&header).map_err(|source| FleetError::Form { path: store.to_owned(), source })?;
    line.push(b'\n');
    out.write_all(&line)
        .and_then(|()| out.write_all(&bytes))
        .and_then(|()| out.flush())
        .map_err(FleetError::io("send", store))
}

/// Takes what [`send`] wrote to `to`. It gets its name once its hash is right and it is a store that is not
/// damaged.
///
/// # Errors
/// It did not arrive whole, or there is no room; what was at `to` stays.
pub fn receive(stream: &mut dyn Read, to: &Path) -> Result<(), FleetError> {
    let new = files::new_name(to);
    arrive(receive_as(&mut BufReader::new(stream), &new, to), &new, to)
}

/// Copies a store as it is now, as if it had been sent.
///
/// # Errors
/// As for [`send`] and [`receive`].
pub fn copy(store: &Path, to: &Path) -> Result<(), FleetError> {
    put(&Store::whole(store)?, to)
}

/// Gives a store that is in memory a name.
pub(crate) fn put(bytes: &[u8], to: &Path) -> Result<(), FleetError> {
    let new = files::new_name(to);
    let written =
        File::create_new(&new).and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()));
    arrive(written.map_err(FleetError::io("write", to)), &new, to)
}

/// Gives what has come its name, if it is a store without damage; otherwise removes it.
fn arrive(come: Result<(), FleetError>, new: &Path, to: &Path) -> Result<(), FleetError> {
    let arrived = come.and_then(|()| {
        Store::open(new)?.check()?;
        fs::rename(new, to).map_err(FleetError::io("write", to))
    });
    arrived.inspect_err(|_| drop(fs::remove_file(new)))
}

fn receive_as(stream: &mut dyn BufRead, new: &Path, to: &Path) -> Result<(), FleetError> {
    let mut line = Vec::new();
    stream.take(LONGEST).read_until(b'\n', &mut line).map_err(FleetError::io("receive", to))?;
    let header: Header = match serde_json::from_slice(&line) {
        Ok(header) => header,
        Err(_) => {
            let said = String::from_utf8_lossy(&line);
            return Err(FleetError::NoStore(said.trim().to_owned()));
        }
    };
    if header.iopj_store != VERSION {
        return refuse(to, "it comes from a newer iopj: use the same iopj on both sides");
    }
    if let Some(free) = free_bytes(to).filter(|free| header.bytes > *free) {
        return refuse(to, &format!("it has {} bytes, and {free} are free there", header.bytes));
    }
    let mut file = File::create_new(new).map_err(FleetError::io("write", to))?;
    // What was announced, and not a byte more: a host could send without end.
    let mut stream = stream.take(header.bytes);
    let (mut digest, mut length, mut block) = (Sha256::new(), 0, vec![0; 1 << 20]);
    loop {
        let read = match stream.read(&mut block) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(FleetError::io("receive", to)(error)),
        };
        length += read as u64;
        digest.update(&block[..read]);
        file.write_all(&block[..read]).map_err(FleetError::io("write", to))?;
    }
    file.sync_all().map_err(FleetError::io("write", to))?;
    if (length, hex(&digest.finalize())) != (header.bytes, header.sha256) {
        return refuse(to, &format!("{length} of {} bytes arrived as they were sent", header.bytes));
    }
    Ok(())
}

/// The bytes that this user may still write where a file is to be.
fn free_bytes(to: &Path) -> Option<u64> {
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    rustix::fs::statvfs(folder).ok().map(|found| found.f_bavail.saturating_mul(found.f_frsize))
}

fn refuse(to: &Path, reason: &str) -> Result<(), FleetError> {
    let to = to.display();
    Err(FleetError::Refused(format!("the store did not arrive at `{to}`: {reason}; fetch it again")))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopj_record::StudyRecord;

    fn sent(bytes: &[u8]) -> Vec<u8> {
        let (length, sha256) = (bytes.len(), hex(&Sha256::digest(bytes)));
        let mut all =
            format!("{{\"iopj_store\":1,\"bytes\":{length},\"sha256\":\"{sha256}\"}}\n").into_bytes();
        all.extend(bytes);
        all
    }

    /// The disk filled.
    #[test]
    fn a_store_without_end_ends_where_it_was_announced_to() {
        struct Endless(Vec<u8>, usize);
        impl Read for Endless {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                assert!(self.1 < 4 << 20, "it is read without end");
                let rest = &self.0[self.1.min(self.0.len())..];
                let count = if rest.is_empty() { buffer.len() } else { rest.len().min(buffer.len()) };
                buffer[..count].fill(9);
                buffer[..rest.len().min(count)].copy_from_slice(&rest[..rest.len().min(count)]);
                self.1 += count;
                Ok(count)
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let (store, to) = (folder.path().join("store"), folder.path().join("to"));
        drop(Store::create(&store, &StudyRecord::default()).unwrap());
        let mut stream = Vec::new();
        send(&store, &mut stream).unwrap();
        receive(&mut Endless(stream, 0), &to).unwrap();
        let header = b"{\"iopj_store\":1,\"bytes\":9223372036854775807,\"sha256\":\"\"}\n".to_vec();
        let error = receive(&mut Endless(header, 0), &folder.path().join("huge")).unwrap_err().to_string();
        assert!(error.contains("it has 9223372036854775807 bytes, and "), "{error}");
        assert!(!folder.path().join("huge").exists());
    }

    #[test]
    fn what_arrives_torn_or_is_no_store_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("n1.iopj");
        let why = |stream: &[u8]| receive(&mut &stream[..], &to).unwrap_err().to_string();
        let all = sent(&[7; 100]);
        assert!(why(&all[..all.len() - 1]).contains("99 of 100 bytes"));
        let mut changed = all.clone();
        *changed.last_mut().unwrap() = 8;
        assert!(why(&changed).contains("as they were sent"));
        assert!(why(b"Welcome to n1!\n").contains("but `Welcome to n1!`"));
        assert!(why(b"").contains("no store comes from there"));
        assert!(why(&all).contains("is not an iopj store"));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    /// It took the place of the sound one that was fetched before.
    #[test]
    fn a_damaged_store_does_not_take_the_place_of_a_sound_one() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        drop(Store::create(&at("store"), &StudyRecord::default()).unwrap());
        copy(&at("store"), &at("to")).unwrap();
        let sound = fs::read(at("to")).unwrap();
        let mut damaged = fs::read(at("store")).unwrap();
        let last = damaged.len() - 4096;
        damaged[last..].fill(0xff);
        fs::write(at("store"), damaged).unwrap();
        let mut stream = Vec::new();
        send(&at("store"), &mut stream).unwrap();
        for arrived in [copy(&at("store"), &at("to")), receive(&mut &stream[..], &at("to"))] {
            let error = arrived.unwrap_err().to_string();
            assert!(error.contains("it is damaged ("), "{error}");
        }
        assert_eq!(fs::read(at("to")).unwrap(), sound);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
