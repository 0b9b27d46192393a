//! The rule that nothing is written to a drive whose serial number the user has not listed.

use crate::error::FleetError;
use crate::job::Drive;

/// The serial numbers of a list: one a line; `#` begins a comment where a line begins or after a blank.
///
/// # Errors
/// There is none in it.
pub fn parse(text: &str, source: &str) -> Result<Vec<String>, FleetError> {
    let lines = without_mark(text).lines().enumerate();
    let numbered = lines.map(|(number, line)| (number + 1, trimmed(without_comment(line))));
    let serials: Vec<(usize, &str)> = numbered.filter(|(_, serial)| !serial.is_empty()).collect();
    // What nobody sees on a screen is no drive's.
    let is_hidden = |c: char| !"\"'\\".contains(c) && c.escape_debug().count() > 1;
    let is_strange = |serial: &str| serial.contains(is_hidden);
    if let Some((number, serial)) = serials.iter().find(|(_, serial)| is_strange(serial)) {
        return Err(FleetError::Refused(format!(
            "{source}, line {number}: `{}` is not a serial number: write it as `lsblk -d -o NAME,SERIAL` \
             shows it",
            serial.escape_debug()
        )));
    }
    let serials: Vec<String> = serials.into_iter().map(|(_, serial)| serial.to_owned()).collect();
    if serials.is_empty() {
        return Err(FleetError::Refused(format!(
            "{source} lists no serial number: write one a line, as `lsblk -d -o NAME,SERIAL` shows them"
        )));
    }
    Ok(serials)
}

/// A text without the mark that some editors begin files with.
pub(crate) fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// A serial number may hold `#`.
fn without_comment(line: &str) -> &str {
    let begins = |(at, _): &(usize, &str)| line[..*at].chars().next_back().is_none_or(char::is_whitespace);
    line.match_indices('#').find(begins).map_or(line, |(at, _)| &line[..at])
}

/// A serial number without the blanks and zero bytes that fill it up (NVMe pads it to 20 bytes).
fn trimmed(serial: &str) -> &str {
    serial.trim_matches(|c: char| c.is_whitespace() || c == '\0')
}

/// Why a study that writes may not run on these drives: one has no serial number, or it is not listed.
pub fn refusal(drives: &[Drive], listed: Option<&[String]>) -> Option<String> {
    let Some(listed) = listed else {
        return Some(
            "the study writes, and no serial numbers are listed: name a list by --serials".to_owned(),
        );
    };
    if drives.is_empty() {
        return Some(
            "the study writes, and the target's drive is not known: name a target on a drive with a serial \
             number"
                .to_owned(),
        );
    }
    drives.iter().find_map(|drive| {
        let name = &drive.name;
        match drive.serial.as_deref().map(trimmed).filter(|serial| !serial.is_empty()) {
            None => Some(format!(
                "the study writes, and {name} has no serial number, so it cannot be listed: choose a target \
                 on a drive that has one"
            )),
            Some(serial) if listed.iter().any(|one| trimmed(one) == serial) => None,
            Some(serial) => Some(format!(
                "the study writes, and the serial number of {name}, `{serial}`, is not listed: if it may be \
                 written, add it to the list of --serials and submit again"
            )),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drive(serial: Option<&str>) -> Drive {
        Drive { name: "nvme0n1".to_owned(), serial: serial.map(str::to_owned) }
    }

    #[test]
    fn a_serial_must_be_listed_whole() {
        let listed = parse("# ours\nS4EV1234 \n\nWD-9 # spare\n", "list").unwrap();
        assert_eq!(listed, ["S4EV1234", "WD-9"]);
        let may = |serial| refusal(&[drive(serial)], Some(&listed)).is_none();
        assert!(may(Some("S4EV1234")));
        assert!(may(Some("S4EV1234            ")), "as NVMe pads it");
        assert!(may(Some("WD-9\0\0")));
        for other in ["S4EV123", "S4EV12345", "s4ev1234", "", "   "] {
            assert!(!may(Some(other)), "{other}");
        }
        assert!(!may(None));
    }

    /// Such a number was cut, and its drive never listed.
    #[test]
    fn a_serial_may_hold_what_begins_a_comment_after_a_blank() {
        let listed = parse("  # ours\nQM#00001 # spare\n#QM2\nÄ#1\t#x\nS1#\n", "list").unwrap();
        assert_eq!(listed, ["QM#00001", "Ä#1", "S1#"]);
    }

    /// The mark became a part of the first number, and its drive was never listed.
    #[test]
    fn a_list_may_begin_with_a_mark_and_holds_nothing_that_nobody_sees() {
        assert_eq!(parse("\u{feff}S1\nS2\n", "list").unwrap(), ["S1", "S2"]);
        for hidden in ["S1\0S2", "S1\u{1b}[2J", "S1\u{200b}", "S1\u{202e}"] {
            let error = parse(&format!("S0\n{hidden}\n"), "list").unwrap_err().to_string();
            let named = format!("list, line 2: `{}` is not a serial number", hidden.escape_debug());
            assert!(error.starts_with(&named), "{error}");
        }
    }

    #[test]
    fn every_drive_of_a_target_must_be_listed() {
        let listed = ["A".to_owned()];
        let why = refusal(&[drive(Some("A")), drive(Some("AB"))], Some(&listed)).unwrap();
        assert!(why.contains("`AB`, is not listed"), "{why}");
        assert!(refusal(&[], Some(&listed)).unwrap().contains("not known"));
        assert!(refusal(&[drive(Some("A"))], None).unwrap().contains("--serials"));
    }

    #[test]
    fn a_list_without_a_serial_is_refused() {
        let error = parse("# none yet\n \n", "serials.txt").unwrap_err().to_string();
        assert!(error.starts_with("serials.txt lists no serial number"), "{error}");
    }
}
