//! Names of partitions, as Hive writes them: `machine=KIND/drive=MODEL/kernel=RELEASE`.

use crate::table::Kind;
use std::path::PathBuf;

/// The longest name of a value: a folder's name has at most 255 bytes on Linux, the column's included.
const MOST_BYTES: usize = 200;

/// What Hive escapes in a value, besides control characters.
const ESCAPED: &str = "\"#%'*/:=?\\{}[]^\u{7f}";

/// The folder of a kind of machine within a table.
pub fn folder(kind: &Kind) -> PathBuf {
    let Kind { machine, drive, kernel } = kind;
    [("machine", machine), ("drive", drive), ("kernel", kernel)]
        .iter()
        .map(|(column, value)| format!("{column}={}", escape(value)))
        .collect()
}

/// A value as a part of a folder's name: `%XX` for each byte that means something else there. A name that
/// would be too long is cut.
pub fn escape(value: &str) -> String {
    let mut name = String::new();
    for one in value.chars() {
        let mut buffer = [0; 4];
        let text: &str = one.encode_utf8(&mut buffer);
        let text = match one.is_ascii_control() || ESCAPED.contains(one) {
            true => text.bytes().map(|byte| format!("%{byte:02X}")).collect(),
            false => text.to_owned(),
        };
        if name.len() + text.len() > MOST_BYTES {
            break;
        }
        name += &text;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_cannot_leave_their_folder_and_names_are_short_enough() {
        let kind = Kind { machine: "../a/b".into(), drive: "x=y%".into(), kernel: "6.1 \u{e9}".into() };
        let path = folder(&kind);
        assert_eq!(path.to_str().unwrap(), "machine=..%2Fa%2Fb/drive=x%3Dy%25/kernel=6.1 \u{e9}");
        assert_eq!(path.components().count(), 3);
        assert!(escape(&"\u{e9}/".repeat(300)).len() <= MOST_BYTES);
        assert_eq!(escape("a\nb"), "a%0Ab");
    }
}
