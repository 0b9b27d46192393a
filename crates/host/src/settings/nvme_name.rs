//! Names of NVMe over fabrics: the UUIDs that iopj draws, and qualified names (NQNs) that are made of them.

use rustix::rand::{GetRandomFlags, getrandom};
use std::fmt;
use std::io;
use std::str::FromStr;

/// What comes before the UUID in a qualified name that is made of one (NVM Express Base Specification 2.0,
/// 4.5).
pub const NQN_OF_UUID: &str = "nqn.2014-08.org.nvmexpress:uuid:";
/// The longest qualified name in bytes (NVM Express Base Specification 2.0, 4.5).
const LONGEST_NQN: usize = 223;

/// A UUID in its text form: lower-case, with hyphens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Uuid(String);

/// A text that is no UUID.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not a UUID: write 32 lower-case hexadecimal digits in groups of 8, 4, 4, 4 and 12")]
pub struct NotUuid(String);

impl Uuid {
    /// A new one, drawn at random (RFC 9562, version 4).
    ///
    /// # Errors
    /// The kernel gives no random bytes.
    pub fn random() -> io::Result<Uuid> {
        let mut bytes = [0_u8; 16];
        // Up to 256 bytes come whole.
        getrandom(&mut bytes, GetRandomFlags::empty())?;
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
        Ok(Uuid(parts.join("-")))
    }

    /// The qualified name that is made of it.
    pub fn nqn(&self) -> String {
        format!("{NQN_OF_UUID}{self}")
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Uuid {
    type Err = NotUuid;

    fn from_str(text: &str) -> Result<Uuid, NotUuid> {
        let is_hex = |part: &str| part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let lengths = text.split('-').map(str::len);
        if lengths.eq([8, 4, 4, 4, 12]) && text.split('-').all(is_hex) {
            return Ok(Uuid(text.to_owned()));
        }
        Err(NotUuid(text.to_owned()))
    }
}

impl TryFrom<String> for Uuid {
    type Error = NotUuid;

    fn try_from(text: String) -> Result<Uuid, NotUuid> {
        text.parse()
    }
}

impl From<Uuid> for String {
    fn from(uuid: Uuid) -> String {
        uuid.0
    }
}

/// True for a qualified name of an NVMe host or subsystem, in the characters that need no escape anywhere.
pub fn is_nqn(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
    text.starts_with("nqn.") && text.len() <= LONGEST_NQN && text.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_are_random_and_of_their_form() {
        let (one, other) = (Uuid::random().unwrap(), Uuid::random().unwrap());
        assert_ne!(one, other);
        assert_eq!(one.to_string().parse::<Uuid>().unwrap(), one);
        assert_eq!(&one.to_string()[14..15], "4");
        assert!(is_nqn(&one.nqn()) && one.nqn().len() == 32 + 36);
        for bad in ["", "1", "11111111-2222-4333-8444-55555555555G", "11111111-2222-4333-8444-5555555555555"]
        {
            assert!(bad.parse::<Uuid>().is_err(), "{bad}");
        }
    }

    #[test]
    fn qualified_names_have_no_separators() {
        assert!(is_nqn("nqn.2016-06.io.spdk:cnode1"));
        for bad in ["", "nqn", "nqn.a/b", "nqn.a,b=c", "nqn.a b", "nqn.a\n", "iqn.2016"] {
            assert!(!is_nqn(bad), "{bad}");
        }
        assert!(!is_nqn(&format!("nqn.{}", "a".repeat(220))));
    }
}
