//! The name of a way in which a program was run, which takes the place of a path.

use std::fmt;
use std::str::FromStr;

/// The most bytes of a name.
const MOST: usize = 40;

/// A variant of a program's set-up, by its name in the study: up to 40 letters, digits, `-`, `_` and `.`.
///
/// The bytes stand in place, so that a path stays a value that is copied.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProgramName([u8; MOST]);

impl ProgramName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        let len = self.0.iter().position(|byte| *byte == 0).unwrap_or(MOST);
        // Only ASCII is taken.
        std::str::from_utf8(&self.0[..len]).unwrap_or_default()
    }
}

impl FromStr for ProgramName {
    type Err = BadProgramName;

    fn from_str(text: &str) -> Result<ProgramName, BadProgramName> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        if text.is_empty() || text.len() > MOST || !text.bytes().all(is_plain) {
            return Err(BadProgramName(text.to_owned()));
        }
        let mut bytes = [0; MOST];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        Ok(ProgramName(bytes))
    }
}

impl fmt::Display for ProgramName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for ProgramName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// A text that cannot name a variant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` cannot name a variant of a program: write up to 40 letters, digits, `-`, `_` and `.`")]
pub struct BadProgramName(pub String);
