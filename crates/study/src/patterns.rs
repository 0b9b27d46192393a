//! Patterns of paths, as options name them: an interface, the beginning of a path, or a text with `*`.

use crate::error::StudyError;
use iopj_core::{AutoPath, IoPath, Way};

/// What patterns of an adaptive engine begin with: others do not name its rules, which take the same ways.
const AUTO: &str = "auto";

/// The paths that a pattern names, among all without variants; a pattern's own variants are added to each.
/// A path names itself.
///
/// # Errors
/// It names none; the message names near ones.
pub fn matching(pattern: &str) -> Result<Vec<IoPath>, StudyError> {
    if let Ok(path) = pattern.parse() {
        return Ok(vec![path]);
    }
    let (stem, variants) = pattern.split_at(pattern.find('+').unwrap_or(pattern.len()));
    let names = |path: &str| match stem.contains('*') {
        true => is_match(stem, path),
        false => path.strip_prefix(stem).is_some_and(|rest| rest.starts_with('/')),
    };
    let all: Vec<String> = match stem.starts_with(AUTO) {
        true => rules().map(|rule| IoPath::Auto(rule).to_string()).collect(),
        false => IoPath::all().iter().map(IoPath::to_string).collect(),
    };
    let named = all.iter().filter(|path| names(path));
    let found: Vec<IoPath> = named.filter_map(|path| format!("{path}{variants}").parse().ok()).collect();
    if found.is_empty() { Err(no_match(pattern, &all)) } else { Ok(found) }
}

/// The rules of an adaptive engine that need no file and no joules.
fn rules() -> impl Iterator<Item = AutoPath> {
    let pinned = Way::ALL.map(AutoPath::Pinned);
    [AutoPath::Latency, AutoPath::Cpu, AutoPath::Random].into_iter().chain(pinned)
}

/// Whether `*`, which stands for any text, makes the pattern this path. The first place of each text between
/// two stars is as good as any later one.
fn is_match(pattern: &str, path: &str) -> bool {
    let Some((begin, rest)) = pattern.split_once('*') else { return pattern == path };
    let Some(mut path) = path.strip_prefix(begin) else { return false };
    let (between, end) = rest.rsplit_once('*').unwrap_or(("", rest));
    for text in between.split('*') {
        let Some(at) = path.find(text) else { return false };
        path = &path[at + text.len()..];
    }
    path.ends_with(end)
}

/// The message about a pattern that names no path, with the near ones.
fn no_match(pattern: &str, all: &[String]) -> StudyError {
    let parts = pattern.matches('/').count() + 1;
    // A whole path is refused by the part that is wrong.
    let is_whole = parts == 3 || pattern.starts_with(AUTO);
    if let (true, false, Err(error)) = (is_whole, pattern.contains('*'), pattern.parse::<IoPath>()) {
        return StudyError(error.to_string());
    }
    let begin = |path: &String| path.splitn(parts + 1, '/').take(parts).collect::<Vec<_>>().join("/");
    let mut near: Vec<String> = all.iter().map(begin).collect();
    near.dedup();
    near.sort_by_key(|name| strsim::damerau_levenshtein(name, pattern));
    near.truncate(3);
    StudyError(format!(
        "`{pattern}` matches no I/O path: similar ones are {}; `iopj check` lists all",
        near.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(pattern: &str) -> Vec<String> {
        matching(pattern).unwrap().iter().map(IoPath::to_string).collect()
    }

    #[test]
    fn an_interface_a_beginning_and_a_star_name_paths() {
        assert_eq!(texts("libaio"), ["libaio/syscall/interrupt"]);
        assert_eq!(texts("io_uring").len(), 6);
        assert_eq!(
            texts("io_uring/sqpoll"),
            ["interrupt", "poll", "hybrid"].map(|completion| format!("io_uring/sqpoll/{completion}"))
        );
        assert_eq!(
            texts("io_uring/*/interrupt"),
            ["io_uring/syscall/interrupt", "io_uring/sqpoll/interrupt"]
        );
        let polled = ["posix-sio/syscall", "io_uring/syscall", "io_uring/sqpoll", "nvme-passthrough/syscall"];
        assert_eq!(texts("*/poll")[..4], polled.map(|path| format!("{path}/poll")));
        // Only what can have the variant.
        assert_eq!(texts("io_uring/*/poll+split"), ["io_uring/syscall/poll+split"]);
        assert_eq!(texts("posix-sio/syscall/hybrid:4us"), ["posix-sio/syscall/hybrid:4us"]);
        assert_eq!(texts("auto"), ["auto"]);
        assert_eq!(
            texts("auto*")[..4],
            ["auto", "auto:cpu", "auto:random", "auto:io_uring/syscall/interrupt"]
        );
        assert_eq!((texts("auto*").len(), texts("auto:*/sqpoll/*").len()), (12, 1));
        assert_eq!(texts("auto:nvme-user/*/poll"), ["auto:nvme-user/doorbell/poll"]);
        assert!(texts("*interrupt").iter().all(|path| !path.starts_with("auto")));
        assert_eq!(texts("*").len(), IoPath::all().len());
    }

    /// Each star tried every rest of the path: 40 of them took for ever.
    #[test]
    fn a_pattern_of_many_stars_is_decided_at_once() {
        for (pattern, matches) in [
            ("a*a", [false, true, true]),
            ("a*b*a", [false, false, true]),
            ("**a***b**a*", [false, false, true]),
        ] {
            assert_eq!(["a", "aa", "abba"].map(|path| is_match(pattern, path)), matches, "{pattern}");
        }
        let begin = std::time::Instant::now();
        assert!(!is_match(&format!("{}x", "*".repeat(40)), "io_uring/syscall/interrupt+registered"));
        assert!(!is_match(&format!("{}x", "*r*".repeat(20)), &"r".repeat(60)));
        assert!(begin.elapsed().as_secs() < 5);
    }

    #[test]
    fn a_pattern_without_a_match_is_answered_with_near_ones() {
        let message = |pattern: &str| matching(pattern).unwrap_err().to_string();
        assert!(
            message("io_urin").starts_with("`io_urin` matches no I/O path: similar ones are io_uring, "),
            "{}",
            message("io_urin")
        );
        assert!(message("io_urin/*/poll").contains("io_uring/syscall/poll"), "{}", message("io_urin/*/poll"));
        assert!(message("libaio/syscall/poll").contains("no completion `poll`"));
        assert!(message("").contains("matches no I/O path"));
    }
}
