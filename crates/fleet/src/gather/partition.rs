//! Names of partitions, as Hive writes them: `machine=KIND/drive=MODEL/kernel=RELEASE`.

use crate::table::Kind;
use sha2::{Digest, Sha256};
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
/// would be too long is cut, and ends with a hash of the whole value.
pub fn escape(value: &str) -> String {
    let mut name = String::new();
    // Where a name that gets too long is cut: no character, and no escape, is halved.
    let mut cut = 0;
    for one in value.chars() {
        let mut buffer = [0; 4];
        let text: &str = one.encode_utf8(&mut buffer);
        let text = match one.is_ascii_control() || ESCAPED.contains(one) {
            true => text.bytes().map(|byte| format!("%{byte:02X}")).collect(),
            false => text.to_owned(),
        };
        name += &text;
        if name.len() + 1 + HASH_DIGITS <= MOST_BYTES {
            cut = name.len();
        }
    }
    if name.len() > MOST_BYTES {
        name.truncate(cut);
        name += &format!("-{}", hash([value]));
    }
    name
}

/// A kind of machine as the name of a file: what is plain of it, and a hash, for two kinds may be alike in
/// what is plain.
pub fn file_name(kind: &Kind) -> String {
    let values = [&kind.machine, &kind.drive, &kind.kernel].map(String::as_str);
    let safe = |c: char| if c.is_ascii_alphanumeric() || ".-".contains(c) { c } else { '_' };
    let parts = values.map(|value| value.chars().map(safe).take(60).collect::<String>());
    format!("{}--{}", parts.join("--"), hash(values))
}

/// Hexadecimal digits of a hash in a name.
const HASH_DIGITS: usize = 12;

/// A hash of texts, which says where each ends.
fn hash<'t>(texts: impl IntoIterator<Item = &'t str>) -> String {
    let mut digest = Sha256::new();
    for text in texts {
        digest.update((text.len() as u64).to_le_bytes());
        digest.update(text);
    }
    let digits: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    digits[..HASH_DIGITS].to_owned()
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

    /// Twelve drives of one model and twelve with another one at the end were one kind.
    #[test]
    fn long_values_that_begin_alike_are_two_kinds() {
        let drives = |last: &str| ["SAMSUNG MZQL2960HCJR-00A07"; 12].join(", ") + last;
        let [one, other] = ["a", "b"].map(|last| escape(&drives(last)));
        assert!(one != other && one.len() <= MOST_BYTES && one.starts_with(&other[..180]), "{one} {other}");
        let kind = |last: &str| Kind { machine: "m".into(), drive: drives(last), kernel: "6.1".into() };
        assert_ne!(file_name(&kind("a")), file_name(&kind("b")));
        assert!(file_name(&kind("a")).starts_with("m--SAMSUNG_MZQL2960HCJR"), "{}", file_name(&kind("a")));
    }
}
