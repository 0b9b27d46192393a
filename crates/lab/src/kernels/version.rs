//! The order of package versions and kernel releases (Debian Policy, 5.6.12; dpkg's `--compare-versions`).

use std::cmp::Ordering;

/// Compares two versions `[epoch:]upstream[-revision]`.
pub(super) fn compare(left: &str, right: &str) -> Ordering {
    let (left_epoch, left_rest) = epoch(left);
    let (right_epoch, right_rest) = epoch(right);
    let (left_upstream, left_revision) = revision(left_rest);
    let (right_upstream, right_revision) = revision(right_rest);
    left_epoch
        .cmp(&right_epoch)
        .then_with(|| compare_part(left_upstream, right_upstream))
        .then_with(|| compare_part(left_revision, right_revision))
}

fn epoch(version: &str) -> (u64, &str) {
    match version.split_once(':') {
        Some((epoch, rest)) => (epoch.parse().unwrap_or(0), rest),
        None => (0, version),
    }
}

fn revision(version: &str) -> (&str, &str) {
    version.rsplit_once('-').unwrap_or((version, ""))
}

/// Compares runs of non-digits and numbers in turn, as the policy says.
fn compare_part(mut left: &str, mut right: &str) -> Ordering {
    while !left.is_empty() || !right.is_empty() {
        let (left_text, left_rest) = split(left, |c| !c.is_ascii_digit());
        let (right_text, right_rest) = split(right, |c| !c.is_ascii_digit());
        let (left_number, left_next) = split(left_rest, |c| c.is_ascii_digit());
        let (right_number, right_next) = split(right_rest, |c| c.is_ascii_digit());
        let order =
            compare_text(left_text, right_text).then_with(|| compare_number(left_number, right_number));
        if order != Ordering::Equal {
            return order;
        }
        (left, right) = (left_next, right_next);
    }
    Ordering::Equal
}

fn split(text: &str, belongs: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !belongs(c)).unwrap_or(text.len()))
}

/// A tilde sorts before the end, the end before letters, letters before all else.
fn compare_text(left: &str, right: &str) -> Ordering {
    let weight = |c: char| match c {
        '~' => -1,
        c if c.is_ascii_alphabetic() => i64::from(u32::from(c)),
        c => i64::from(u32::from(c)) + 256,
    };
    let end = [0];
    left.chars().map(weight).chain(end).cmp(right.chars().map(weight).chain(end))
}

/// Compares numbers of any length; the empty one is zero.
fn compare_number(left: &str, right: &str) -> Ordering {
    let (left, right) = (left.trim_start_matches('0'), right.trim_start_matches('0'));
    left.len().cmp(&right.len()).then_with(|| left.cmp(right))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::process::Command;

    #[test]
    fn kernels_are_ordered_as_they_were_released() {
        let ascending = [
            "5.4.0-26.30",
            "5.10.257-1",
            "5.10.262-1~deb11u1",
            "5.10.262-1",
            "6.1.180-1~deb11u1",
            "6.1.192-2",
            "6.18.9-1~bpo13+1",
            "6.18.15-1~bpo13+1",
            "7.2.12-1~bpo13+1",
            "1:0.1",
        ];
        for pair in ascending.windows(2) {
            assert_eq!(compare(pair[0], pair[1]), Ordering::Less, "{pair:?}");
            assert_eq!(compare(pair[1], pair[0]), Ordering::Greater, "{pair:?}");
        }
        assert_eq!(compare("6.1.0-9-amd64", "6.1.0-56-amd64"), Ordering::Less);
        assert_eq!(compare("6.12.99+deb12-amd64", "6.12.117+deb12-amd64"), Ordering::Less);
        assert_eq!(compare("0:1.0", "1.00"), Ordering::Equal);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(150))]
        #[test]
        fn the_order_is_dpkgs(left in version(), right in version()) {
            let compared = Command::new("dpkg").args(["--compare-versions", &left, "lt", &right]).status();
            let Ok(less) = compared else {
                assert!(std::env::var_os("CI").is_none(), "dpkg is missing");
                eprintln!("skipped: needs dpkg");
                return Ok(());
            };
            prop_assert_eq!(compare(&left, &right) == Ordering::Less, less.success());
            prop_assert_eq!(compare(&left, &right), compare(&right, &left).reverse());
        }
    }

    /// Short versions of few characters: equal prefixes are frequent.
    fn version() -> impl Strategy<Value = String> {
        "(0:|1:)?[0-2][0-2a.+~]{0,5}(-[0-2a+~]{1,3})?"
    }
}
