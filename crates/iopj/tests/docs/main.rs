//! The documents: every command in them is run, or at least understood; and the book made of them.

mod blocks;
mod book;
#[path = "../common/mod.rs"]
mod common;
mod known;
mod sandbox;
#[path = "../../src"]
#[allow(
    dead_code,
    unused_imports,
    reason = "the program's own; a test only asks whether a line is understood"
)]
mod source {
    pub(crate) mod args;
}

use blocks::{Command, Document, words};
use clap::Parser;
use common::{have, is_root};
use known::{Instead, KNOWN};
use sandbox::Sandbox;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Documents beside `docs/`.
const DOCUMENTS: [&str; 2] = ["README.md", "CONTRIBUTING.md"];
/// 1 is an answer of these: no path can be advised, a policy is of another machine, something got worse.
const ANSWERS: [&str; 3] = ["iopj advise", "iopj policy check", "--fail-on-regression"];

/// The `study.toml` of a document that shows none.
const STUDY: &str = "name = \"study\"\npaths = \"available\"\nmeters = \"none\"\n[[workload]]\nrw = \
                     \"randread\"\nbs = \"4k\"\n";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// All documents, taken apart.
fn documents() -> Vec<Document> {
    let root = root();
    let mut files: Vec<PathBuf> = DOCUMENTS.iter().map(|name| root.join(name)).collect();
    for folder in ["docs", "docs/guides"] {
        let entries = std::fs::read_dir(root.join(folder)).unwrap().map(|entry| entry.unwrap().path());
        files.extend(entries.filter(|file| file.extension().is_some_and(|end| end == "md")));
    }
    files.sort();
    let read = |file: &PathBuf| {
        let name = file.strip_prefix(&root).unwrap().display().to_string();
        Document::read(&name, &std::fs::read_to_string(file).unwrap())
    };
    files.iter().map(read).collect()
}

/// Why the program does not understand a command that is its own; `cargo run ... -- WORDS` is.
fn misunderstood(text: &str) -> Option<String> {
    let words = words(text);
    let own = match words.first().map(String::as_str) {
        Some("iopj") => &words[1..],
        Some("cargo") if words[1] == "run" => words.split(|word| word == "--").nth(1).unwrap_or_default(),
        _ => return None,
    };
    let line = std::iter::once("iopj").chain(own.iter().map(String::as_str));
    let error = source::args::Cli::try_parse_from(line).err()?;
    error.use_stderr().then(|| error.to_string())
}

fn instead(text: &str) -> Option<&'static Instead> {
    KNOWN.iter().find(|(pattern, _)| text.contains(pattern)).map(|(_, instead)| instead)
}

#[test]
fn every_command_is_marked_and_understood() {
    let documents = documents();
    let unmarked: Vec<&String> = documents.iter().flat_map(|one| &one.unmarked).collect();
    assert!(unmarked.is_empty(), "a block of commands begins with ```sh: {unmarked:?}");
    let commands: Vec<&Command> = documents.iter().flat_map(|one| &one.commands).collect();
    assert!(commands.len() > 150, "{}", commands.len());
    let faults: Vec<String> = commands
        .iter()
        .filter_map(|one| Some(format!("{}: {}\n{}", one.place, one.text, misunderstood(&one.text)?)))
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    for (pattern, _) in KNOWN {
        assert!(commands.iter().any(|one| one.text.contains(pattern)), "no command has `{pattern}`");
    }
    for task in commands.iter().filter_map(|one| one.text.strip_prefix("cargo xtask ")) {
        let name = task.split_whitespace().next().unwrap();
        let tasks = std::fs::read_to_string(root().join("xtask/src/main.rs")).unwrap();
        assert!(tasks.contains(&format!("\"{name}\" => ")), "there is no task `{name}`");
    }
}

/// A command in the text may lack its store, be cut short, or stand for others by words in capitals; but it
/// has no option that the program lacks.
#[test]
fn what_the_text_mentions_is_understood() {
    let mut faults = Vec::new();
    for one in documents().iter().flat_map(|one| &one.mentioned) {
        let error = misunderstood(&one.text).unwrap_or_default();
        let value = error.split_once("invalid value '").and_then(|(_, rest)| rest.split('\'').next());
        let stands_for_others = |text: &str| text.chars().all(|one| one.is_ascii_uppercase() || one == '-');
        let is_bad = value.is_some_and(|value| !stands_for_others(value));
        if is_bad || ["unexpected argument", "unrecognized subcommand"].iter().any(|why| error.contains(why))
        {
            faults.push(format!("{}: {}\n{error}", one.place, one.text));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_command_works() {
    let documents = documents();
    let studies: Vec<_> = documents.iter().flat_map(|one| one.studies.clone()).collect();
    let sandbox = Sandbox::new(&studies);
    let mut work = Work { sandbox, seen: BTreeSet::new(), faults: Vec::new() };
    documents.iter().for_each(|document| work.through(document, true));
    work.sandbox.stores();
    documents.iter().for_each(|document| work.through(document, false));
    let (ran, faults) = (work.seen.len(), work.faults);
    assert!(faults.is_empty(), "{} of {ran} commands fail\n{}", faults.len(), faults.join("\n"));
    assert!(ran > 80, "only {ran} commands were run");
}

/// Documents worked through in a sandbox.
struct Work {
    sandbox: Sandbox,
    /// Commands that were run.
    seen: BTreeSet<String>,
    faults: Vec<String>,
}

impl Work {
    /// Runs the commands of a document that run a study, or else the others.
    fn through(&mut self, document: &Document, runs: bool) {
        self.sandbox.call_study(document.studies.first().map_or(STUDY, |(_, text)| text));
        for one in &document.commands {
            let is_run = words(&one.text).starts_with(&["iopj".to_owned(), "run".to_owned()]);
            if is_run == runs {
                self.try_out(one, is_run);
            }
        }
    }

    fn try_out(&mut self, one: &Command, is_run: bool) {
        let (expected, says) = match instead(&one.text) {
            Some(Instead::Understood(reason)) => {
                eprintln!("{}: {}\n    not run: {reason}", one.place, one.text);
                return;
            }
            Some(Instead::Ends(code, says)) => (*code, *says),
            None => (0, ""),
        };
        let is_new = self.seen.insert(one.text.clone());
        let lacks =
            |option: &str, is_here: fn() -> bool, what| one.text.contains(option) && !have(is_here(), what);
        if !is_new || lacks("--allow-exec", has_fio, "fio") || lacks("--profile", is_root, "root") {
            return;
        }
        // A run is planned: the same steps up to the first change, without the hours.
        let plan = if is_run && !one.text.contains("--dry-run") { " --dry-run" } else { "" };
        let output = self.sandbox.run(&format!("{}{plan}", one.text));
        let code = output.status.code().unwrap_or(-1);
        let messages = String::from_utf8_lossy(&output.stderr);
        let is_answer = code == 1 && ANSWERS.iter().any(|answer| one.text.contains(answer));
        if (code != expected && !is_answer) || !messages.contains(says) || messages.contains("panicked") {
            self.faults.push(format!("{}: {}{plan}\nends with {code}: {messages}", one.place, one.text));
        }
    }
}

fn has_fio() -> bool {
    std::process::Command::new("fio").arg("--version").output().is_ok()
}
