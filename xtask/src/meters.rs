//! The meters of the tests' studies. Without a word about them a run reads whatever counters the machine
//! happens to have, rests for them, and keeps joules. Found are texts that are whole studies, and texts that
//! begin a command line in a function that speaks neither of meters nor of a study or a store, which has its
//! own.

use crate::workspace::Workspace;
use anyhow::{Context, Result};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::BTreeMap;
use std::fs;

/// Where tests start runs.
const FOLDERS: [&str; 2] = ["crates/iopj/tests", "python/tests"];
/// What gives a run its meters: the option, a study file, or the store that is continued.
const GIVEN: [&str; 3] = ["--meters", ".toml", "--resume"];

/// A text in a test, with all those of its function.
struct Literal {
    line: usize,
    text: String,
    beside: Vec<String>,
}

/// The constants of tests by their names.
type Constants = BTreeMap<String, String>;

/// A line `file:line: ...` for each study, and each command line of a run, that says nothing of meters.
///
/// # Errors
/// A file cannot be read, or is not Rust.
pub(crate) fn findings(workspace: &Workspace) -> Result<Vec<String>> {
    let (mut constants, mut literals, mut findings) = (Constants::new(), Vec::new(), Vec::new());
    for file in
        FOLDERS.map(|folder| workspace.tracked(folder)).into_iter().collect::<Result<Vec<_>>>()?.concat()
    {
        let text = fs::read(workspace.root.join(&file)).with_context(|| file.clone())?;
        let text = String::from_utf8_lossy(&text);
        if file.ends_with(".rs") {
            let code: TokenStream = syn::parse_str(&text).with_context(|| file.clone())?;
            let mut own = Vec::new();
            collect(code, &mut own, &mut constants);
            literals.extend(own.into_iter().map(|literal| (file.clone(), literal)));
        } else if is_study(&text) && !text.contains("meters") {
            findings.push(finding(&file, 1));
        }
    }
    let lacking = literals.iter().filter(|(_, literal)| lacks(literal, &constants));
    findings.extend(lacking.map(|(file, literal)| finding(file, literal.line)));
    Ok(findings)
}

fn finding(file: &str, line: usize) -> String {
    format!("{file}:{line}: the study names no meters: add `meters = \"none\"` to it, or `--meters none`")
}

fn is_study(text: &str) -> bool {
    text.contains("[[workload]]") && ["name =", "paths ="].iter().all(|key| text.contains(key))
}

/// Whether a text is a study that says nothing of meters, or begins a command line of a run in a function
/// that says nothing of them.
fn lacks(literal: &Literal, constants: &Constants) -> bool {
    if is_study(&literal.text) {
        return !literal.text.contains("meters");
    }
    // An option of all commands may stand before the command.
    let after_an_option = || literal.text.starts_with("--") && literal.text.contains(" run ");
    let begins_run = ["run --", "run {"].iter().any(|run| literal.text.starts_with(run)) || after_an_option();
    let says = |text: &String| GIVEN.iter().any(|given| text.contains(given));
    let named = || literal.beside.iter().filter_map(|name| constants.get(name));
    begins_run && !literal.beside.iter().chain(named()).any(says)
}

/// The texts of some code, and its constants.
fn collect(code: TokenStream, literals: &mut Vec<Literal>, constants: &mut Constants) {
    let (mut is_function, mut name, mut before) = (false, None, String::new());
    for token in code {
        match &token {
            TokenTree::Group(group) if is_function && group.delimiter() == Delimiter::Brace => {
                is_function = false;
                let first = literals.len();
                collect(group.stream(), literals, constants);
                let mut all = Vec::new();
                texts(group.stream(), &mut all);
                literals[first..].iter_mut().for_each(|literal| literal.beside.clone_from(&all));
            }
            TokenTree::Group(group) => collect(group.stream(), literals, constants),
            TokenTree::Ident(ident) if before == "const" => name = Some(ident.to_string()),
            TokenTree::Ident(ident) => is_function |= ident == "fn",
            TokenTree::Punct(punct) if punct.as_char() == ';' => name = None,
            TokenTree::Literal(literal) => {
                if let Ok(text) = syn::parse_str::<syn::LitStr>(&literal.to_string()) {
                    name.take().into_iter().for_each(|name| drop(constants.insert(name, text.value())));
                    let line = literal.span().start().line;
                    literals.push(Literal { line, text: text.value(), beside: vec![text.value()] });
                }
            }
            TokenTree::Punct(_) => {}
        }
        before = token.to_string();
    }
}

/// All texts and names of some code, and the names that texts have in braces.
fn texts(code: TokenStream, all: &mut Vec<String>) {
    for token in code {
        match token {
            TokenTree::Group(group) => texts(group.stream(), all),
            TokenTree::Literal(literal) => {
                let text = literal.to_string();
                let named = text.split('{').skip(1).filter_map(|rest| rest.split_once('}'));
                all.extend(named.map(|(name, _)| name.to_owned()));
                all.push(text);
            }
            TokenTree::Ident(name) => all.push(name.to_string()),
            TokenTree::Punct(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lacking(code: &str) -> Vec<usize> {
        let (mut literals, mut constants) = (Vec::new(), Constants::new());
        collect(code.parse().unwrap(), &mut literals, &mut constants);
        let lacking = literals.iter().filter(|literal| lacks(literal, &constants));
        lacking.map(|literal| literal.line).collect()
    }

    #[test]
    fn a_study_without_meters_is_found_and_so_is_a_command_line() {
        let code = "const A: &str = \"name = 'a'\\npaths = 'b'\\n[[workload]]\";\nconst B: &str = \"name = \
                    'b'\\npaths = 'b'\\nmeters = 'none'\\n[[workload]]\";\nfn f() { g(\"run --ios 5\"); }\n\
                    fn h() { let a = A; g(\"run {a}\"); }\n\
                    fn i() { g(\"--log-format json run --ios 5\"); }";
        assert_eq!(lacking(code), [1, 3, 4, 5]);
    }

    #[test]
    fn a_command_line_has_its_meters_from_a_constant_a_study_or_a_store() {
        let code = "const PLAIN: &str = \"--ios 5 --meters none\"; fn f() { g(\"run --a {PLAIN}\"); } \
                    fn a() { let line = PLAIN.replace(\"a\", \"b\"); g(\"run {line}\"); } fn b() { \
                    g(\"run {more} s.toml\"); } fn c() { g(\"run --resume s.iopj\"); }";
        assert_eq!(lacking(code), [0_usize; 0]);
    }
}
