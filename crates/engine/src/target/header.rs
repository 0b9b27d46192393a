//! The header that marks a file as made by iopj, and the file's identity. `make` makes such files.

use super::sys;
use std::fmt;
use std::io;
use std::str::FromStr;

/// Bytes before the data in a file that iopj made. I/O never touches them, so a file that is written in full
/// keeps its mark.
pub const HEADER_LEN: u64 = 1 << 20;

const MAGIC: &[u8; 16] = b"iopj data file 1";

/// 128 random bits that tell one file from all others; 32 hexadecimal digits as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId([u8; 16]);

impl FileId {
    /// A new identity from getrandom(2).
    ///
    /// # Errors
    /// The kernel gives no random bytes.
    pub fn random() -> io::Result<FileId> {
        sys::random_bytes().map(FileId)
    }
}

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A text that is not a [`FileId`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not a file id: write its 32 hexadecimal digits", .0.escape_debug())]
pub struct ParseFileIdError(String);

impl FromStr for FileId {
    type Err = ParseFileIdError;

    fn from_str(text: &str) -> Result<FileId, ParseFileIdError> {
        let whole = text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit());
        let bits = whole.then(|| u128::from_str_radix(text, 16).ok()).flatten();
        bits.map(|bits| FileId(bits.to_be_bytes())).ok_or_else(|| ParseFileIdError(text.to_owned()))
    }
}

impl serde::Serialize for FileId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for FileId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<FileId, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// The first bytes of a file that iopj made: magic (16 bytes), id (16), data length (8, little
/// endian).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) id: FileId,
    pub(super) data_len: u64,
}

impl Header {
    pub(super) const ENCODED_LEN: usize = 40;

    pub(super) fn encode(&self) -> [u8; Header::ENCODED_LEN] {
        let mut bytes = [0; Header::ENCODED_LEN];
        bytes[..16].copy_from_slice(MAGIC);
        bytes[16..32].copy_from_slice(&self.id.0);
        bytes[32..].copy_from_slice(&self.data_len.to_le_bytes());
        bytes
    }

    /// The header at the start of `bytes`, if there is one.
    pub(super) fn decode(bytes: &[u8]) -> Option<Header> {
        let rest = bytes.strip_prefix(MAGIC)?;
        let (id, rest) = rest.split_first_chunk()?;
        let (data_len, _) = rest.split_first_chunk()?;
        Some(Header { id: FileId(*id), data_len: u64::from_le_bytes(*data_len) })
    }

    /// The length in bytes of the file that this header belongs to.
    pub(super) fn file_len(&self) -> Option<u64> {
        self.data_len.checked_add(HEADER_LEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn id_round_trips(bits: [u8; 16]) {
            prop_assert_eq!(FileId(bits).to_string().parse(), Ok(FileId(bits)));
        }

        #[test]
        fn header_round_trips(bits: [u8; 16], data_len: u64, rest: Vec<u8>) {
            let header = Header { id: FileId(bits), data_len };
            let bytes = [&header.encode()[..], &rest].concat();
            prop_assert_eq!(Header::decode(&bytes), Some(header));
            prop_assert_eq!(Header::decode(&bytes[..Header::ENCODED_LEN - 1]), None);
        }

        #[test]
        fn parsers_never_panic(text in "\\PC{0,40}", bytes: Vec<u8>) {
            let _ = (text.parse::<FileId>(), Header::decode(&bytes));
        }
    }

    #[test]
    fn id_is_32_hexadecimal_digits() {
        let id: FileId = "00112233445566778899aabbccddeeff".parse().unwrap();
        assert_eq!(id.to_string(), "00112233445566778899aabbccddeeff");
        for bad in [
            "",
            "00112233445566778899aabbccddeef",
            "+0112233445566778899aabbccddeeff",
            "é0112233445566778899aabbccddeef",
        ] {
            assert!(
                bad.parse::<FileId>().unwrap_err().to_string().contains("32 hexadecimal digits"),
                "{bad}"
            );
        }
        assert_ne!(FileId::random().unwrap(), FileId::random().unwrap());
    }
}
