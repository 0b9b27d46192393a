//! Width of lines in code, scripts and documents. What cannot be broken may be wider: a word without a blank,
//! a raw string, a row of a Markdown table. So may the code blocks of Markdown, which show programs' output.

use crate::shell;
use crate::workspace::Workspace;
use anyhow::{Context, Result};
use proc_macro2::{TokenStream, TokenTree};
use std::fs;
use std::ops::RangeInclusive;

/// Characters of a line.
const WIDTH: usize = 110;
/// The files that are checked, as `git ls-files` takes them.
const FILES: [&str; 5] = ["*.rs", "*.toml", "*.sh", "*.md", ".ci/run"];

/// A line `file:line: ...` for each line that is too wide.
///
/// # Errors
/// git cannot list the files, or one of them cannot be read or is not Rust.
pub(crate) fn findings(workspace: &Workspace) -> Result<Vec<String>> {
    let files = shell::output(workspace.program("git", "ls-files --").args(FILES))?;
    let mut findings = Vec::new();
    for file in files.lines() {
        let text = fs::read_to_string(workspace.root.join(file)).with_context(|| file.to_owned())?;
        findings.extend(file_findings(file, &text).with_context(|| file.to_owned())?);
    }
    Ok(findings)
}

fn file_findings(name: &str, text: &str) -> Result<Vec<String>> {
    let mut unbreakable = Vec::new();
    if name.ends_with(".rs") {
        raw_strings(syn::parse_str(text)?, &mut unbreakable);
    }
    let (is_markdown, mut in_block) = (name.ends_with(".md"), false);
    let mut findings = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        in_block ^= is_markdown && line.trim_start().starts_with("```");
        let may_be_wide = is_markdown && (in_block || line.starts_with('|'))
            || unbreakable.iter().any(|lines| lines.contains(&number));
        let width = line.chars().count();
        if width > WIDTH && !may_be_wide && has_break(line) {
            findings.push(format!(
                "{name}:{number}: the line has {width} characters, at most {WIDTH} are allowed"
            ));
        }
    }
    Ok(findings)
}

/// Whether a line has a blank at which it could be broken, other than those before its first and second words
/// (the first may be `//!` or `-`).
fn has_break(line: &str) -> bool {
    line.split_whitespace().count() > 2
}

/// The lines of each raw string.
fn raw_strings(code: TokenStream, lines: &mut Vec<RangeInclusive<usize>>) {
    for token in code {
        match token {
            TokenTree::Group(group) => raw_strings(group.stream(), lines),
            TokenTree::Literal(literal)
                if literal.to_string().trim_start_matches(['b', 'c']).starts_with('r') =>
            {
                lines.push(literal.span().start().line..=literal.span().end().line);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, text: &str) -> Vec<String> {
        file_findings(name, text).unwrap()
    }

    #[test]
    fn characters_are_counted() {
        let words = "// é ".to_owned() + &"word ".repeat(21);
        let (fits, wide) = (format!("{words}\n"), format!("\n{words}x\n"));
        assert_eq!(fits.trim_end_matches('\n').chars().count(), 110);
        assert_eq!(found("a.rs", &fits), [""; 0]);
        let finding =
            |name: &str| [format!("{name}:2: the line has 111 characters, at most 110 are allowed")];
        for name in ["a.rs", "a.md", "a.toml", "a.sh", ".ci/run"] {
            assert_eq!(
                found(name, &wide.replace("// ", if name == "a.rs" { "// " } else { "## " })),
                finding(name)
            );
        }
    }

    #[test]
    fn what_cannot_be_broken_may_be_wide() {
        let (word, words) = ("x".repeat(200), "word ".repeat(40));
        assert_eq!(
            found("a.md", &format!("- <https://{word}>\n| {words} |\n```\n$ {words}\n```\n")),
            [""; 0]
        );
        assert_eq!(
            found("a.rs", &format!("//! {word}\nconst A: &str = r#\"{words}\n{words}\"#;\n")),
            [""; 0]
        );
        assert_eq!(found("a.md", &format!("```\n```\n{words}\n")).len(), 1);
        assert_eq!(found("a.rs", &format!("const A: &str = \"{words}\n{words}\";\n")).len(), 2);
        assert_eq!(found("a.toml", &format!("# | {words}\n| {words}\n")).len(), 2);
    }
}
