//! Passwords and tokens: read from a file or the environment, and never shown.

use crate::meter::OpenError;
use iopj_core::files::read_regular_text;
use std::fmt;
use std::path::Path;

/// The longest secret, in bytes.
const LONGEST: u64 = 4096;

/// A password or a token. `Debug` and `Display` print `***`, it is never serialised, and only a meter reads
/// it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Reads the secret that a configuration names as `password_file` or `password_env`; `None` if it names
    /// neither. The line break at the end of a file is not part of it.
    ///
    /// # Errors
    /// [`OpenError`] if both are named, or if the secret cannot be read, is empty, or holds control
    /// characters.
    pub fn read(file: Option<&Path>, variable: Option<&str>) -> Result<Option<Self>, OpenError> {
        Self::read_named("password", file, variable)
    }

    /// The same for a configuration with several secrets: the keys are `NAME_file` and `NAME_env`.
    pub(crate) fn read_named(
        name: &str,
        file: Option<&Path>,
        variable: Option<&str>,
    ) -> Result<Option<Self>, OpenError> {
        match (file, variable) {
            (None, None) => Ok(None),
            (Some(_), Some(_)) => {
                Err(OpenError(format!("{name}_file and {name}_env are both given: remove one of them")))
            }
            (Some(path), None) => Self::from_file(name, path).map(Some),
            (None, Some(variable)) => Self::from_variable(name, variable).map(Some),
        }
    }

    fn from_file(name: &str, path: &Path) -> Result<Self, OpenError> {
        let text = read_regular_text(path, LONGEST).map_err(|error| {
            OpenError(format!(
                "{name}_file `{}` cannot be read ({error}): name a file with the password on one line",
                path.display()
            ))
        })?;
        let line =
            text.strip_suffix('\n').map_or(text.as_str(), |line| line.strip_suffix('\r').unwrap_or(line));
        Self::new(line).map_err(|fault| OpenError(format!("{name}_file `{}` {fault}", path.display())))
    }

    fn from_variable(name: &str, variable: &str) -> Result<Self, OpenError> {
        let text = std::env::var_os(variable).ok_or_else(|| {
            OpenError(format!("{name}_env `{variable}` is not set: export it, or use {name}_file"))
        })?;
        let text = text.to_str().ok_or("is not UTF-8: set it again");
        text.and_then(Self::new).map_err(|fault| OpenError(format!("{name}_env `{variable}` {fault}")))
    }

    /// Control characters would end a header or a line of the protocol that carries the secret.
    pub(crate) fn new(text: &str) -> Result<Self, &'static str> {
        match text {
            "" => Err("is empty: put the password into it"),
            long if long.len() as u64 > LONGEST => {
                Err("is longer than 4096 bytes: it holds more than a password")
            }
            odd if odd.contains(char::is_control) => {
                Err("holds control characters: it must be one line with the password")
            }
            good => Ok(Self(good.to_owned())),
        }
    }

    /// The secret itself, only for the wire.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_file(bytes: &[u8]) -> Result<Secret, OpenError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        std::fs::write(&path, bytes).unwrap();
        Secret::read(Some(&path), None).map(|secret| secret.unwrap())
    }

    #[test]
    fn a_secret_shows_itself_to_nobody() {
        let secret = of_file(b"open sesame\n").unwrap();
        assert_eq!(secret.expose(), "open sesame");
        assert_eq!(format!("{secret} {secret:?} {:?}", Some(&secret)), "*** *** Some(***)");
    }

    #[test]
    fn one_line_break_at_the_end_is_not_part_of_it() {
        assert_eq!(of_file(b"a \r\n").unwrap().expose(), "a ");
        assert_eq!(of_file("π".as_bytes()).unwrap().expose(), "π");
    }

    #[test]
    fn what_is_no_password_is_refused_without_being_shown() {
        let long = vec![b'x'; 5000];
        let bad: [(&[u8], &str); 5] = [
            (b"", "empty"),
            (b"\n", "empty"),
            (b"se\nsame", "control"),
            (b"se\0same", "control"),
            (&long, "longer than 4k"),
        ];
        for (bytes, word) in bad {
            let OpenError(text) = of_file(bytes).unwrap_err();
            assert!(text.contains(word), "{text}");
            assert!(!text.contains("same") && !text.contains("xxx"), "{text}");
        }
        assert!(of_file(&[0xff, 0xfe]).is_err());
    }

    #[test]
    fn the_environment_is_read_and_a_missing_variable_is_named() {
        let path = std::env::var("PATH").unwrap();
        assert_eq!(Secret::read(None, Some("PATH")).unwrap().unwrap().expose(), path);
        let OpenError(text) = Secret::read(None, Some("IOPJ_NOT_SET")).unwrap_err();
        assert!(text.contains("`IOPJ_NOT_SET` is not set"), "{text}");
        assert_eq!(Secret::read(None, None).unwrap(), None);
        assert!(Secret::read(Some(Path::new("/x")), Some("Y")).is_err());
        assert!(Secret::read(Some(Path::new("/no/such/file")), None).is_err());
    }
}
