//! Sizes of files and functions, counted over rustfmt's layout. Functions of tests may be longer.

use anyhow::Result;
use std::fs;
use std::path::Path;

/// Lines of a file: about 500, and an error above this.
const FILE_LINES: usize = 520;
/// Lines of a function, from `fn` to its closing brace.
const FUNCTION_LINES: usize = 60;
/// Folders of the repository that hold Rust.
const FOLDERS: &[&str] = &["crates", "python/src", "xtask", "fuzz/fuzz_targets"];

/// A line `file:line: ...` for each file and function that is too long.
pub(crate) fn findings(root: &Path) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for folder in FOLDERS {
        visit(root, &root.join(folder), &mut findings)?;
    }
    Ok(findings)
}

fn visit(root: &Path, folder: &Path, findings: &mut Vec<String>) -> Result<()> {
    let mut entries = fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(fs::DirEntry::path);
    for entry in entries {
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            visit(root, &path, findings)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
            findings.extend(file_findings(&name, &fs::read_to_string(&path)?));
        }
    }
    Ok(())
}

fn file_findings(name: &str, text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let mut findings = Vec::new();
    if lines.len() > FILE_LINES {
        findings
            .push(format!("{name}:1: the file has {} lines, at most {FILE_LINES} are allowed", lines.len()));
    }
    let first_test = if name.contains("/tests") { 0 } else { test_module(&lines) };
    for (index, line) in lines.iter().enumerate().take(first_test) {
        let length = if is_function(line) { function_length(&lines[index..]) } else { 0 };
        if length > FUNCTION_LINES {
            findings.push(format!(
                "{name}:{}: the function has {length} lines, at most {FUNCTION_LINES} are allowed",
                index + 1
            ));
        }
    }
    findings
}

/// The line at which the file's tests begin, by convention its last part.
fn test_module(lines: &[&str]) -> usize {
    let opens =
        |pair: &[&str]| pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod ") && pair[1].ends_with('{');
    lines.windows(2).position(opens).unwrap_or(lines.len())
}

/// Whether a function's signature begins on this line.
fn is_function(line: &str) -> bool {
    let before_name = line.split_once("fn ").map(|(before, _)| before.trim_start());
    let qualifier = |word: &str| {
        matches!(word, "pub" | "const" | "async" | "unsafe" | "extern" | "\"C\"") || word.starts_with("pub(")
    };
    before_name.is_some_and(|before| before.split_whitespace().all(qualifier))
}

/// Lines from the signature's first to the closing brace, which rustfmt puts at the same indentation.
fn function_length(lines: &[&str]) -> usize {
    let first = lines[0];
    let indentation = &first[..first.len() - first.trim_start().len()];
    if first.ends_with(['}', ';']) {
        return 1;
    }
    let is_last = |line: &&str| {
        let at_same = line.strip_prefix(indentation).unwrap_or_default();
        at_same.starts_with('}') || (at_same.starts_with(')') && at_same.ends_with(';'))
    };
    lines.iter().skip(1).position(is_last).map_or(lines.len(), |position| position + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(signature: &str, body_lines: usize) -> String {
        format!("{signature} {{\n{}}}\n", "    call();\n".repeat(body_lines))
    }

    #[test]
    fn a_function_counts_from_its_signature_to_its_brace() {
        assert_eq!(file_findings("a.rs", &function("fn f()", 58)), [""; 0]);
        assert_eq!(
            file_findings("a.rs", &format!("use x;\n\n{}", function("pub(crate) const unsafe fn f()", 59))),
            ["a.rs:3: the function has 61 lines, at most 60 are allowed"]
        );
    }

    #[test]
    fn signatures_of_several_lines_are_followed_to_the_body() {
        let long = format!(
            "fn f(\n    a: u8,\n) -> u8\nwhere\n    u8: Copy,\n{{\n{}}}\n",
            "    call();\n".repeat(55)
        );
        assert_eq!(
            file_findings("a.rs", &long),
            ["a.rs:1: the function has 62 lines, at most 60 are allowed"]
        );
        let declaration = format!("    fn f(\n        a: u8,\n    ) -> u8;\n{}", "\n".repeat(100));
        assert_eq!(file_findings("a.rs", &declaration), [""; 0]);
    }

    #[test]
    fn words_that_hold_fn_are_no_functions() {
        for line in [
            "// a fn of ours",
            "let f: fn (u8);",
            "impl Fn for X {",
            "    callback: unsafe extern \"C\" fn(u8),",
        ] {
            assert!(!is_function(line), "{line}");
        }
        assert!(is_function("    pub(crate) unsafe extern \"C\" fn f() {"));
    }

    #[test]
    fn tests_may_have_long_functions_but_no_long_files() {
        let long = function("fn f()", 100);
        assert_eq!(file_findings("crates/a/tests/b.rs", &long), [""; 0]);
        assert_eq!(file_findings("a.rs", &format!("#[cfg(test)]\nmod tests {{\n{long}")), [""; 0]);
        assert_eq!(file_findings("a.rs", &format!("#[cfg(test)]\nmod fixtures;\n{long}")).len(), 1);
        assert_eq!(
            file_findings("crates/a/tests/b.rs", &"\n".repeat(521)),
            ["crates/a/tests/b.rs:1: the file has 521 lines, at most 520 are allowed"]
        );
    }
}
