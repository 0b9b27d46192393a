//! What `cargo test` prints, read line by line: binaries and tests with their times, failed and skipped
//! tests.
//!
//! libtest does not print the time of a test. It starts tests in the order of their names, as many at once as
//! it has threads, and the next one when one ends: so the line about a test's end says when another began.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// No test may take longer on two cores of its own.
const TEST_LIMIT: Duration = Duration::from_secs(180);
/// How many tests are named with their time.
const TESTS: usize = 20;
/// How many binaries are named with their time.
const BINARIES: usize = 12;
/// How much of what a binary's failed tests print is repeated.
const FAILURE_LINES: usize = 100;
/// The place of a panic, and the beginning of its message.
const PANIC_LINES: usize = 4;

/// What was read so far of a run of all test binaries.
pub(crate) struct Results {
    /// Tests that a binary runs at once.
    threads: usize,
    binaries: Vec<Binary>,
    /// The test whose output is being read.
    test: String,
    /// True while the lines being read are names of failed tests.
    in_failures: bool,
    skipped: Vec<String>,
    /// True if cargo failed but no test did.
    failed_otherwise: bool,
}

/// One test binary, or a crate's doc-tests.
#[derive(Default)]
struct Binary {
    name: String,
    begin: Duration,
    end: Duration,
    /// Its tests in the order in which they ended, with the time of that.
    ends: Vec<(String, Duration)>,
    /// How long tests waited for the machine, which tests that measure take in turns.
    waited: BTreeMap<String, Duration>,
    failed: BTreeSet<String>,
    /// What its failed tests printed.
    failures: Vec<String>,
    /// True if its last line was seen, and it did not die.
    is_whole: bool,
}

impl Results {
    pub(crate) fn new(threads: usize) -> Results {
        let (binaries, skipped) = (Vec::new(), Vec::new());
        Results {
            threads,
            binaries,
            test: String::new(),
            in_failures: false,
            skipped,
            failed_otherwise: false,
        }
    }

    /// Reads a line that was printed this long after the start.
    pub(crate) fn see(&mut self, line: &str, at: Duration) {
        if let Some(name) = binary_name(line) {
            self.binaries.push(Binary { name, begin: at, end: at, ..Binary::default() });
            self.in_failures = false;
            return;
        }
        let in_failures = std::mem::replace(&mut self.in_failures, line == "failures:");
        let Some(binary) = self.binaries.last_mut() else { return };
        if !binary.is_whole && (line == "failures:" || !binary.failures.is_empty()) {
            binary.failures.push(line.to_owned());
        }
        if let (true, Some(name)) = (in_failures, line.strip_prefix("    ")) {
            binary.failed.insert(name.to_owned());
            self.in_failures = true;
        } else if line.starts_with("test result: ") {
            (binary.is_whole, binary.end) = (true, at);
        } else if let Some((name, _)) = line.strip_prefix("test ").and_then(|rest| rest.rsplit_once(" ... "))
        {
            binary.ends.push((name.to_owned(), at));
        } else if let Some(test) =
            line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----"))
        {
            test.clone_into(&mut self.test);
        } else if let Some(seconds) =
            line.strip_prefix("waited ").and_then(|rest| rest.strip_suffix(" s for the machine"))
        {
            binary.waited.insert(self.test.clone(), Duration::from_secs(seconds.parse().unwrap_or(0)));
        } else if let Some(reason) = line.strip_prefix("skipped: ") {
            self.skipped.push(format!("{}: {reason}", self.test));
        }
    }

    /// Notes whether the last binary succeeded: it can fail after it has told that no test did.
    pub(crate) fn end_binary(&mut self, well: bool) {
        if let Some(binary) = self.binaries.last_mut() {
            binary.is_whole &= well || !binary.failed.is_empty();
        }
    }

    /// Notes whether `cargo test` succeeded: it can fail without a failed test.
    pub(crate) fn end(&mut self, well: bool) {
        self.failed_otherwise = !well && self.failed().is_empty();
    }

    /// Adds those of a later run.
    pub(crate) fn join(&mut self, later: Results) {
        self.binaries.extend(later.binaries);
        self.skipped.extend(later.skipped);
        self.failed_otherwise |= later.failed_otherwise;
    }

    /// Skipped tests, each with its reason.
    pub(crate) fn skipped(&self) -> &[String] {
        &self.skipped
    }

    /// A line for each test that failed and each binary that died.
    pub(crate) fn failed(&self) -> Vec<String> {
        let of = |binary: &Binary| {
            let died = (!binary.is_whole).then(|| format!("{}: did not end normally", binary.name));
            let tests = binary.failed.iter().map(|test| format!("{}: {test}", binary.name));
            tests.chain(died).collect::<Vec<_>>()
        };
        let otherwise = self.failed_otherwise.then(|| "cargo test failed, as it says above".to_owned());
        self.binaries.iter().flat_map(of).chain(otherwise).collect()
    }

    /// What failed tests printed: of each binary the last lines, and where its tests panicked before those.
    pub(crate) fn failures(&self) -> Vec<&str> {
        let mut lines: Vec<&str> = Vec::new();
        for Binary { failures, .. } in self.binaries.iter().filter(|binary| !binary.failed.is_empty()) {
            let (before, last) = failures.split_at(failures.len().saturating_sub(FAILURE_LINES));
            for (place, line) in before.iter().enumerate() {
                if line.contains(" panicked at ") {
                    lines.extend(before[place..].iter().take(PANIC_LINES).map(String::as_str));
                }
            }
            lines.extend(last.iter().map(String::as_str));
        }
        lines
    }

    /// The binaries and the tests that took longest.
    pub(crate) fn times(&self) -> Vec<String> {
        let mut binaries: Vec<(Duration, &str)> =
            self.binaries.iter().map(|one| (one.end.saturating_sub(one.begin), one.name.as_str())).collect();
        binaries.sort_by(|left, right| right.cmp(left));
        let mut tests: Vec<(Duration, String)> =
            self.binaries.iter().flat_map(|one| one.tests(self.threads)).collect();
        tests.sort_by(|left, right| right.cmp(left));
        let text = |time: Duration, name: &str| format!("{:7.1} s  {name}", time.as_secs_f64());
        let mark = |time| if time > TEST_LIMIT { "  (over 3 minutes)" } else { "" };
        let mut lines = vec!["the test binaries that took longest:".to_owned()];
        lines.extend(binaries.into_iter().take(BINARIES).map(|(time, name)| text(time, name)));
        lines.push("the tests that took longest:".to_owned());
        lines.extend(tests.into_iter().take(TESTS).map(|(time, name)| text(time, &name) + mark(time)));
        lines
    }
}

impl Binary {
    /// How long each test took, without waiting for others.
    fn tests(&self, threads: usize) -> Vec<(Duration, String)> {
        let mut waiting: Vec<&str> = self.ends.iter().map(|(name, _)| name.as_str()).collect();
        waiting.sort_unstable();
        let mut waiting = waiting.into_iter();
        let mut running: BTreeMap<&str, Duration> =
            waiting.by_ref().take(threads).map(|one| (one, self.begin)).collect();
        let mut tests = Vec::new();
        for (name, end) in &self.ends {
            let begin = running.remove(name.as_str());
            let waited = self.waited.get(name).copied().unwrap_or_default();
            tests.extend(
                begin.map(|begin| (end.saturating_sub(begin + waited), format!("{}: {name}", self.name))),
            );
            running.extend(waiting.next().map(|next| (next, *end)));
        }
        tests
    }
}

/// The name of the binary that cargo says it runs: its crate and source file, or the crate of doc-tests.
fn binary_name(line: &str) -> Option<String> {
    if let Some(name) = line.strip_prefix("   Doc-tests ") {
        return Some(format!("{name} (documentation)"));
    }
    let (source, binary) = line.strip_prefix("     Running ")?.split_once(" (")?;
    let stem = binary.trim_end_matches(')').rsplit('/').next()?;
    let name = stem.rsplit_once('-').map_or(stem, |(name, _)| name);
    Some(format!("{name} ({})", source.trim_start_matches("unittests ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(threads: usize, lines: &[(u64, &str)]) -> Results {
        let mut results = Results::new(threads);
        for (seconds, line) in lines {
            results.see(line, Duration::from_secs(*seconds));
        }
        results
    }

    #[test]
    fn failed_tests_are_named_and_so_are_binaries_that_died() {
        let results = seen(
            2,
            &[
                (0, "     Running unittests src/lib.rs (target/debug/deps/iopj_core-0123456789abcdef)"),
                (1, "test path::one ... FAILED"),
                (1, "test path::two ... ok"),
                (1, "failures:"),
                (1, ""),
                (1, "---- path::one stdout ----"),
                (1, "failures:"),
                (1, "no name"),
                (1, ""),
                (1, "failures:"),
                (1, "    path::one"),
                (1, "    path::three - should panic"),
                (1, ""),
                (1, "test result: FAILED. 1 passed; 2 failed; 0 ignored; finished in 0.1s"),
                (2, "     Running tests/crash.rs (target/debug/deps/crash-0123456789abcdef)"),
                (3, "test dies ... "),
                (4, "   Doc-tests iopj_core"),
                (5, "test result: ok. 0 passed"),
            ],
        );
        assert_eq!(
            results.failed(),
            [
                "iopj_core (src/lib.rs): path::one",
                "iopj_core (src/lib.rs): path::three - should panic",
                "crash (tests/crash.rs): did not end normally",
            ]
        );
        let printed =
            ["failures:", "", "---- path::one stdout ----", "failures:", "no name", "", "failures:"];
        assert_eq!(results.failures()[..printed.len()], printed);
    }

    #[test]
    fn a_panic_with_a_long_message_keeps_its_place() {
        let mut lines = vec![
            (0, "     Running tests/lab/main.rs (target/debug/deps/lab-0123456789abcdef)"),
            (1, "failures:"),
            (1, "thread 'one' panicked at tests/lab/main.rs:79:5:"),
            (1, "left: 1"),
        ];
        lines.extend([(1, "a line of the guest"); 300]);
        lines.push((1, "test result: FAILED. 0 passed; 1 failed"));
        assert_eq!(seen(1, &lines).failures(), Vec::<&str>::new(), "no test is named");
        lines.splice(304..304, [(1, "failures:"), (1, "    one")]);
        let results = seen(1, &lines);
        let printed = results.failures();
        assert_eq!(printed[..2], [lines[2].1, lines[3].1]);
        assert_eq!((printed.len(), printed.last()), (PANIC_LINES + FAILURE_LINES, Some(&lines[306].1)));
    }

    #[test]
    fn a_tests_time_begins_when_the_one_before_it_ends() {
        let results = seen(
            2,
            &[
                (10, "     Running tests/lab/main.rs (target/debug/deps/lab-0123456789abcdef)"),
                (50, "test b ... ok"),
                (60, "test a ... ok"),
                (240, "test d ... ignored"),
                (250, "test c ... ok"),
                (290, "test e ... ok"),
                (290, "---- e stdout ----"),
                (290, "waited 35 s for the machine"),
                (290, "test result: ok. 5 passed"),
            ],
        );
        let times: BTreeMap<_, _> =
            results.binaries[0].tests(2).into_iter().map(|(time, name)| (name, time)).collect();
        let seconds = |name: &str| times[&format!("lab (tests/lab/main.rs): {name}")].as_secs();
        assert_eq!(["a", "b", "c", "d", "e"].map(seconds), [50, 40, 200, 180, 15]);
        assert_eq!(
            results.times(),
            [
                "the test binaries that took longest:",
                "  280.0 s  lab (tests/lab/main.rs)",
                "the tests that took longest:",
                "  200.0 s  lab (tests/lab/main.rs): c  (over 3 minutes)",
                "  180.0 s  lab (tests/lab/main.rs): d",
                "   50.0 s  lab (tests/lab/main.rs): a",
                "   40.0 s  lab (tests/lab/main.rs): b",
                "   15.0 s  lab (tests/lab/main.rs): e",
            ]
        );
    }

    #[test]
    fn a_binary_that_fails_after_its_last_line_did_not_end_normally() {
        let lines = [
            (0, "     Running tests/crash.rs (target/debug/deps/crash-0123456789abcdef)"),
            (1, "test one ... ok"),
            (1, "test result: ok. 1 passed"),
        ];
        let failed = |well| {
            let mut results = seen(2, &lines);
            results.end_binary(well);
            results.failed()
        };
        assert_eq!(failed(true), [""; 0]);
        assert_eq!(failed(false), ["crash (tests/crash.rs): did not end normally"]);
    }

    #[test]
    fn skipped_tests_are_named_with_their_reason() {
        let results = seen(
            1,
            &[
                (0, "     Running unittests src/main.rs (target/debug/deps/iopj-0123456789abcdef)"),
                (1, "---- fio::tests::runs stdout ----"),
                (1, "skipped: needs fio"),
                (1, "---- other stdout ----"),
                (1, "fine"),
            ],
        );
        assert_eq!(results.skipped(), ["fio::tests::runs: needs fio"]);
    }
}
