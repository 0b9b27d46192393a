//! Names of RAPL domains, what they measure, and which of several counters count the same joules.
//!
//! Which counters may be one is a matter of topology: dies of one package (`package-0-die-0`,
//! `package-0-die-1`) may each show the counter of the whole package, as those of AMD's first Zen processors
//! do, whose register is the package's; platform counters (`psys`, `psys-1`) may do so too. Counters of
//! different packages are never one. Topology decides no more: Intel's Cascade Lake-AP names its dies the
//! same way, and each has a counter of its own. Readings decide: [`compare`] compares a few of them.

use crate::meter::Scope;

/// The scope of a domain with this name; `None` for names that are not RAPL's.
pub(super) fn scope(name: &str) -> Option<Scope> {
    let (outer, inner) = name.split_once('/').map_or((name, None), |(outer, inner)| (outer, Some(inner)));
    let package = package(outer).is_some();
    match inner {
        None if package => Some(Scope::Package),
        None if outer == "psys" || numbered(outer, "psys-").is_some() => Some(Scope::Psys),
        Some("core") if package => Some(Scope::Core),
        Some("uncore") if package => Some(Scope::Uncore),
        Some("dram") if package => Some(Scope::Dram),
        _ => None,
    }
}

/// The name that a domain's possible mirrors share: `package-0/dram` of `package-0-die-1/dram`.
pub(super) fn group(name: &str) -> String {
    let (outer, inner) = name.split_once('/').map_or((name, ""), |(outer, inner)| (outer, inner));
    match package(outer) {
        Some(package) => format!("package-{package}/{inner}"),
        None if outer.starts_with("psys") => "psys".to_owned(),
        None => name.to_owned(),
    }
}

/// The package of `package-0` or `package-0-die-1`.
fn package(outer: &str) -> Option<u32> {
    let name =
        outer.split_once("-die-").map_or(Some(outer), |(name, die)| die.parse::<u32>().ok().map(|_| name))?;
    numbered(name, "package-")
}

fn numbered(name: &str, prefix: &str) -> Option<u32> {
    name.strip_prefix(prefix)?.parse().ok()
}

/// What the readings of two counters show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    /// They are one counter, shown twice.
    Same,
    /// They are two.
    Different,
    /// Both are 0.
    Unknown,
}

/// How far a counter went between two values, across at most one wrap-around of `range` values.
pub(super) fn gained(from: u64, to: u64, range: u64) -> u64 {
    let (from, to) = (from % range, to % range);
    if to >= from { to - from } else { to + (range - from) }
}

/// Compares two counters by readings of the first, the other, and the first again, some milliseconds apart.
///
/// One counter read three times does not go back: the other's value lies between the first's two. The
/// register may be copied to the dies one after the other, each update of about 1 ms (Intel SDM, volume 3,
/// "RAPL interfaces"), so a value may lag or lead by as much as the counter grew between two rounds. Two
/// counters of joules since the last reset agree to these tenths of a joule with a probability of about one
/// in a million; the meter keeps comparing them while it reads.
pub(super) fn compare(rounds: &[[u64; 3]], range: u64) -> Comparison {
    if rounds.iter().flatten().all(|&value| value == 0) {
        return Comparison::Unknown;
    }
    let update = rounds.windows(2).map(|pair| gained(pair[0][2], pair[1][0], range)).max().unwrap_or(0);
    let same = rounds.iter().all(|&[first, other, again]| {
        let from = (first % range + range - update.min(range - 1)) % range;
        gained(from, other, range) <= gained(first, again, range).saturating_add(2 * update)
    });
    if same { Comparison::Same } else { Comparison::Different }
}

/// The distance between two values, whichever is ahead.
pub(super) fn apart(one: u64, other: u64, range: u64) -> u64 {
    gained(one, other, range).min(gained(other, one, range))
}

/// A note if powercap and perf disagree about a domain's joules over `seconds`. The two are read one after
/// the other and the counter moves about once a millisecond, so 2 ms of its mean power and 1 % are tolerated.
pub(super) fn disagreement(name: &str, powercap_j: f64, perf_j: f64, seconds: f64) -> Option<String> {
    let greater = powercap_j.max(perf_j);
    let tolerated = 0.01 * greater + 0.002 * greater / seconds.max(0.002);
    // Below a joule, single updates dominate.
    ((powercap_j - perf_j).abs() > tolerated && greater > 1.0).then(|| {
        format!(
            "`{name}`: powercap counted {powercap_j:.3} J and perf {perf_j:.3} J in the same {seconds:.1} \
             s: do not trust this domain until the cause is known (another kernel version may fix it)"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_have_scopes() {
        for (name, want) in [
            ("package-0", Some(Scope::Package)),
            ("package-12-die-3", Some(Scope::Package)),
            ("package-0/core", Some(Scope::Core)),
            ("package-1-die-0/uncore", Some(Scope::Uncore)),
            ("package-1/dram", Some(Scope::Dram)),
            ("psys", Some(Scope::Psys)),
            ("psys-1", Some(Scope::Psys)),
            ("package-x", None),
            ("package-0-die-", None),
            ("psys-", None),
            ("core", None),
            ("package-0/core/dram", None),
        ] {
            assert_eq!(scope(name), want, "{name}");
        }
    }

    #[test]
    fn only_dies_of_one_package_and_platforms_can_mirror() {
        assert_eq!(group("package-0-die-0/dram"), group("package-0-die-1/dram"));
        assert_ne!(group("package-0-die-0"), group("package-0-die-0/dram"));
        assert_ne!(group("package-0-die-0"), group("package-1-die-0"));
        assert_ne!(group("package-1"), group("package-10"));
        assert_eq!(group("psys"), group("psys-1"));
    }

    #[test]
    fn one_counter_lies_between_its_own_readings() {
        assert_eq!(compare(&[[500, 500, 500]], 1000), Comparison::Same);
        assert_eq!(compare(&[[500, 501, 502], [510, 510, 514]], 1000), Comparison::Same);
        // One update behind, and one ahead.
        assert_eq!(compare(&[[500, 492, 500], [508, 516, 508]], 1000), Comparison::Same);
        assert_eq!(compare(&[[998, 1, 2], [9, 9, 9]], 1000), Comparison::Same);
        assert_eq!(compare(&[[500, 501, 500]], 1000), Comparison::Different);
        assert_eq!(compare(&[[500, 500, 500], [510, 600, 510]], 1000), Comparison::Different);
        assert_eq!(compare(&[[500, 100, 500], [510, 110, 510]], 1000), Comparison::Different);
        assert_eq!(compare(&[[0; 3], [0; 3]], 1000), Comparison::Unknown);
        assert_eq!(compare(&[], 1000), Comparison::Unknown);
    }

    #[test]
    fn a_disagreement_needs_more_than_one_percent() {
        assert_eq!(disagreement("package-0", 100.0, 100.9, 10.0), None);
        assert_eq!(disagreement("package-0", 0.2, 0.5, 10.0), None);
        let text = disagreement("package-0", 100.0, 200.0, 10.0).unwrap();
        assert!(
            text.starts_with("`package-0`: powercap counted 100.000 J and perf 200.000 J in the same 10.0 s"),
            "{text}"
        );
    }

    proptest! {
        #[test]
        fn a_gain_is_what_was_added(
            from in 0..1_000_000u64,
            gain in 0..1_000_000u64,
            range in 1_000_000..u64::MAX / 4,
        ) {
            prop_assert_eq!(gained(from, (from + gain) % range, range), gain % range);
        }

        #[test]
        fn a_counter_is_its_own_mirror(
            start in 1..1_000_000u64,
            steps in prop::collection::vec(0..50u64, 9),
        ) {
            let mut at = start;
            let values: Vec<u64> = steps
                .iter()
                .map(|step| {
                    at += step;
                    at % 900_000
                })
                .collect();
            let rounds: Vec<[u64; 3]> =
                values.chunks_exact(3).map(|three| [three[0], three[1], three[2]]).collect();
            prop_assume!(values.iter().any(|&value| value != 0));
            prop_assert_eq!(compare(&rounds, 900_000), Comparison::Same);
        }

        #[test]
        fn any_name_and_any_values_are_taken(
            name in ".{0,40}",
            rounds in prop::collection::vec(any::<[u64; 3]>(), 0..5),
            range in 1..u64::MAX / 4,
        ) {
            scope(&name);
            group(&name);
            compare(&rounds, range);
        }
    }
}
