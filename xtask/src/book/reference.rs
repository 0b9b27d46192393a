//! The reference: what the program writes of itself, what its sources document, and what it prints of a
//! store.

use super::code::{Item, fields, items};
use super::json;
use crate::shell;
use crate::workspace::Workspace;
use anyhow::{Context, Result};
use serde_json::Value;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The folder of the book.
const FOLDER: &str = "reference";
/// The tables of a study: what each is, its struct, and the file that holds it.
const TABLES: [(&str, &str, &str); 7] = [
    ("The study", "Study", "study.rs"),
    ("`replicates` as a table", "Until", "replicates.rs"),
    ("`[fio]`", "FioOptions", "study.rs"),
    ("`[fabric]`", "Fabric", "fabric.rs"),
    ("`[program.figure]`", "FigureKeys", "program.rs"),
    ("`[[program.variants]]`", "Variant", "program.rs"),
    ("`[score]`", "ScoreKeys", "score.rs"),
];
/// The files of the rules of verdicts, in the order in which they are applied.
const RULES: [(&str, &str); 7] = [
    ("Who completed, by counts", "completion_by_counts.rs"),
    ("Who completed, by interrupts", "completion_by_interrupts.rs"),
    ("Polling and sleeping", "quantities.rs"),
    ("Over TCP", "over_tcp.rs"),
    ("Submission", "submission.rs"),
    ("Doubt", "doubt.rs"),
    ("Conditions", "conditions.rs"),
];
/// Commands that print JSON of a store, or of no store. Where other work disturbs every trial, they still
/// answer.
const JSON: [&str; 8] = [
    "check --json",
    "report STORE --with-unproven --json",
    "winners STORE --with-unproven --json",
    "advise STORE --with-unproven --json",
    "claims STORE --with-unproven --json",
    "compare STORE --by iodepth=1,8 --with-unproven --json",
    "predict STORE --with-unproven --json",
    "meter list --json",
];

/// A page: its title and its address in the book.
pub(super) type Page = (String, String);

/// Writes the pages below `folder`; their titles in the order of the book.
pub(super) fn write(workspace: &Workspace, iopj: &Path, store: &Path, folder: &Path) -> Result<Vec<Page>> {
    let here = folder.join(FOLDER);
    shell::output(Command::new(iopj).arg("reference").arg(&here))?;
    let mut pages = commands(&here)?;
    let own = [
        ("Study keys", "study-keys", study_keys(workspace)?),
        ("Workload keys", "workload-keys", fs::read_to_string(here.join("workload-keys.md"))?),
        ("Setting names", "setting-names", setting_names(workspace)?),
        ("Metrics", "metrics", fs::read_to_string(here.join("metrics.md"))?),
        ("Rules of verdicts", "rules", rules(workspace)?),
        ("Findings of the papers", "claims", claims(iopj, store)?),
        ("JSON keys", "json-keys", json_keys(iopj, store)?),
    ];
    for (title, name, text) in own {
        fs::write(here.join(format!("{name}.md")), text)?;
        pages.push((title.to_owned(), format!("{FOLDER}/{name}.md")));
    }
    Ok(pages)
}

/// The page of all commands, then those of each, by name.
fn commands(folder: &Path) -> Result<Vec<Page>> {
    let names = fs::read_dir(folder)?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name.starts_with("iopj-")).collect();
    names.sort();
    let all = ("Command line".to_owned(), format!("{FOLDER}/commands.md"));
    let title = |name: &str| format!("`{}`", name.trim_end_matches(".md").replacen('-', " ", 1));
    let each = names.into_iter().map(|name| (title(&name), format!("{FOLDER}/{name}")));
    Ok(std::iter::once(all).chain(each).collect())
}

fn source(workspace: &Workspace, file: &str) -> Result<String> {
    fs::read_to_string(workspace.root.join("crates").join(file)).with_context(|| file.to_owned())
}

/// A text of the sources as a table's cell takes it: without what is a link in their documentation.
fn cell(text: &str) -> String {
    text.replace("[`", "`").replace("`]", "`").replace('|', "\\|").replace('<', "&lt;")
}

fn study_keys(workspace: &Workspace) -> Result<String> {
    let mut text =
        "# Keys of a study\n\nFrom the types that read a study. [Studies](../studies.md) says what \
                    they are for; the keys\nof a `[[workload]]` have [their own page](workload-keys.md). \
                    `Axis` takes one value or a list; `Option` may\nbe left out.\n"
            .to_owned();
    for (title, name, file) in TABLES {
        let fields = fields(&source(workspace, &format!("study/src/{file}"))?, name);
        let rows: Vec<_> = fields.iter().filter_map(|item| Some((item.field()?, &item.meaning))).collect();
        anyhow::ensure!(!rows.is_empty(), "{file} has no struct {name}");
        let _ = write!(text, "\n## {title}\n\n| key | type | meaning |\n|---|---|---|\n");
        for ((key, of_type), meaning) in rows {
            anyhow::ensure!(!meaning.is_empty(), "{file}: the key `{key}` of {name} has no `///` comment");
            let _ = writeln!(text, "| `{key}` | `{of_type}` | {} |", cell(meaning));
        }
    }
    Ok(text)
}

fn setting_names(workspace: &Workspace) -> Result<String> {
    let items = items(&source(workspace, "core/src/setting.rs")?);
    let named: Vec<(&str, &Item)> = items.iter().filter_map(|item| Some((item.named()?, item))).collect();
    anyhow::ensure!(!named.is_empty(), "core/src/setting.rs has no settings");
    let mut text = "# Names of settings\n\nEvery setting that iopj can change, by its name in `[settings]`. \
                    Nothing else is ever written.\n[Settings](../settings.md) says which values each \
                    takes.\n\n| name | is |\n|---|---|\n"
        .to_owned();
    for (name, item) in named {
        let _ = writeln!(text, "| `{name}` | {} |", cell(&item.meaning));
    }
    Ok(text)
}

fn rules(workspace: &Workspace) -> Result<String> {
    let items_of =
        |file: &str| Ok::<_, anyhow::Error>(items(&source(workspace, &format!("probe/src/{file}"))?));
    let lib = items_of("lib.rs")?;
    let constant = |item: &Item| item.constant().map(|(name, value)| (name.to_owned(), value.to_owned()));
    let version = lib.iter().filter_map(constant).find(|(name, _)| name.starts_with("RULES"));
    let version = version.context("probe/src/lib.rs has no RULES")?.1;
    let mut text = format!(
        "# Rules of verdicts\n\nThe thresholds of version {version} of the rules, from the code that applies \
         them.\n[Verdicts](../verdicts.md) says how they work together.\n"
    );
    for (title, file) in RULES {
        let _ = write!(text, "\n## {title}\n\n| threshold | value | meaning |\n|---|---|---|\n");
        for item in &items_of(file)? {
            if let Some((name, value)) = constant(item) {
                let name = name.split(':').next().unwrap_or_default();
                let _ = writeln!(text, "| `{name}` | `{value}` | {} |", cell(&item.meaning));
            }
        }
    }
    Ok(text)
}

/// What a command of the program prints as JSON. A command whose answer is no may end with 1.
fn printed(iopj: &Path, store: &Path, words: &str) -> Result<Value> {
    let store = store.to_string_lossy();
    let words = words.split_whitespace().map(|word| if word == "STORE" { &*store } else { word });
    let mut command = Command::new(iopj);
    let output = command.args(words).output().with_context(|| format!("{command:?}"))?;
    let reason = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).with_context(|| format!("{command:?}: {reason}"))
}

fn claims(iopj: &Path, store: &Path) -> Result<String> {
    let value = printed(iopj, store, "claims STORE --with-unproven --json")?;
    let claims = value["claims"].as_array().context("`iopj claims --json` has no claims")?;
    let mut text =
        "# Findings of the papers\n\nEvery finding that `iopj claims` decides, what it needs, and \
                    what measures it. The answer is\nthat of the store of the [gallery](../gallery.md). [The \
                    papers, side by side](../papers.md) has their figures.\n"
            .to_owned();
    for claim in claims {
        // Some blanks in the words of a claim must not break on a terminal; here they may.
        let words = |key: &str| cell(claim[key].as_str().unwrap_or_default()).replace('\u{a0}', " ");
        let needs = claim["needs"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let needs = cell(&needs.collect::<Vec<_>>().join("; "));
        let answer = claim["answer"]["is"].as_str().unwrap_or_default().replace('_', " ");
        let (id, says, run) = (words("id"), words("text"), words("run"));
        let _ = write!(
            text,
            "\n## `{id}`\n\n{says}\n\n- needs: {needs}\n- measured by: {run}\n- here: {answer}\n"
        );
    }
    Ok(text)
}

fn json_keys(iopj: &Path, store: &Path) -> Result<String> {
    let mut text = "# Keys of JSON\n\nEvery key that these commands print for the store of the \
                    [gallery](../gallery.md), with an\nexample. [JSON](../json.md) says what they mean. `[]` \
                    stands for each entry of a list, `*` for each of many\nnames. What another store has \
                    besides (joules, costs, two hosts) is not here.\n"
        .to_owned();
    for words in JSON {
        let keys = json::keys(&printed(iopj, store, words)?);
        let _ = write!(text, "\n## `iopj {words}`\n\n| key | type | example |\n|---|---|---|\n");
        for (key, (of_type, example)) in keys {
            let example = example.replace('`', "'").replace(['\n', '|'], " ");
            let _ = writeln!(text, "| `{key}` | {of_type} | `{example}` |");
        }
    }
    Ok(text)
}
