//! The index of features, `docs/features.md`: each option of the command line and what has no option, with
//! the page that explains it and the place where it is. Lint compares the index with the code and the pages.

use crate::shell;
use crate::workspace::Workspace;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use syn::{Attribute, Field, Fields, Item};

const INDEX: &str = "docs/features.md";
/// Where the options are defined.
const ARGS: &str = "ls-files crates/iopj/src/args.rs crates/iopj/src/args/*.rs";
/// The pages that may explain one; the first with the most about it does.
const PAGES: &str = "ls-files README.md docs/*.md docs/guides/*.md";
/// Pages that only list.
const LISTS: [&str; 3] = [INDEX, "docs/files.md", "docs/json.md"];

const HEAD: &str = "\
# Features

What iopj has already, with the page that explains it and the place in the code where a change begins.
`cargo xtask files` writes this page, and lint compares it.
";

/// What has no option: its name, its page, and its place in the code.
const WITHOUT: [(&str, &str, &str); 24] = [
    ("adaptive engine: which way is taken", "docs/auto.md", "crates/auto/src/chooser.rs:Chooser"),
    ("adaptive engine: exploration and its budget", "docs/auto.md", "crates/auto/src/policy.rs:EXPLORATION"),
    ("adaptive engine: policies as files", "docs/auto.md", "crates/auto/src/policy.rs:Policy"),
    ("agent on the target host", "docs/fabric.md", "crates/run/src/agent.rs:serve_agent"),
    ("checksums of a store", "docs/studies.md", "crates/store/src/checksum.rs:Kind"),
    ("control run", "docs/verdicts.md", "crates/run/src/control.rs:run"),
    ("co-runner", "docs/studies.md", "crates/load/src/corunner.rs:start"),
    ("damaged stores", "docs/trust.md", "crates/store/src/verify.rs:Checked"),
    ("disk full while a store is written", "docs/studies.md", "crates/store/src/error.rs:of_sqlite"),
    ("drive's firmware and model", "docs/studies.md", "crates/host/src/machine.rs:facts"),
    ("exact profiler", "docs/lab.md", "crates/lab/src/profile/attribute.rs:profiles"),
    ("interrupts of network cards", "docs/fabric.md", "crates/report/src/two_hosts.rs"),
    ("comparison of two stores", "docs/statistics.md", "crates/analysis/src/compare.rs:compare"),
    ("preconditioning", "docs/studies.md", "crates/run/src/precondition.rs:Preconditioning"),
    ("preload library", "docs/preload.md", "crates/preload/src/lib.rs"),
    ("provenance: facts of machine and drive", "docs/studies.md", "crates/run/src/new_store.rs:provenance"),
    ("metrics for Prometheus: served", "docs/watch.md", "crates/metering/src/metrics/serve.rs:MetricsServer"),
    ("Python package", "docs/python.md", "python/src/lib.rs"),
    ("settings put back after any death", "docs/settings.md", "crates/host/src/settings/restore.rs:put_back"),
    ("steady state of a ramp", "docs/studies.md", "crates/load/src/steadystate.rs"),
    ("traces", "docs/studies.md", "crates/load/src/trace.rs:Format"),
    ("tracepoints of a watch", "docs/watch.md", "crates/probe/src/watch/events.rs:Meaning"),
    ("uncertainty of joules", "docs/meters.md", "crates/meter/src/uncertainty.rs"),
    ("verdict on the path that was taken", "docs/verdicts.md", "crates/probe/src/judge.rs:judge"),
];

/// Writes the index.
pub(crate) fn write(workspace: &Workspace) -> Result<()> {
    fs::write(workspace.root.join(INDEX), index(workspace)?).context(INDEX)
}

/// A line if the index is not that of the code.
pub(crate) fn findings(workspace: &Workspace) -> Result<Vec<String>> {
    let stored = fs::read_to_string(workspace.root.join(INDEX)).context(INDEX)?;
    let is_old = stored != index(workspace)?;
    Ok(is_old.then(|| format!("{INDEX} is old: run `cargo xtask files`")).into_iter().collect())
}

fn index(workspace: &Workspace) -> Result<String> {
    let texts = |command: &str| -> Result<Vec<(String, String)>> {
        let files = shell::output(&mut workspace.program("git", command))?;
        let read = |file: &str| {
            let text = fs::read_to_string(workspace.root.join(file)).with_context(|| file.to_owned())?;
            Ok((file.to_owned(), text))
        };
        files.lines().filter(|file| !LISTS.contains(file)).map(read).collect()
    };
    let pages = texts(PAGES)?;
    let mut options = BTreeMap::<String, Vec<String>>::new();
    for (file, text) in texts(ARGS)? {
        for (option, field) in options_of(&text).with_context(|| file.clone())? {
            options.entry(option).or_default().push(format!("{file}:{field}"));
        }
    }
    let mut index = format!("{HEAD}\n## Options\n\n| option | page | place |\n|---|---|---|\n");
    for (option, mut places) in options {
        places.dedup();
        let places: Vec<String> = places.iter().map(|place| format!("`{place}`")).collect();
        let _ = writeln!(index, "| `--{option}` | {} | {} |", page(&option, &pages), places.join(", "));
    }
    let _ = write!(index, "\n## Without an option\n\n| feature | page | place |\n|---|---|---|\n");
    for (feature, page, place) in WITHOUT {
        let _ = writeln!(index, "| {feature} | {} | `{place}` |", link(page));
    }
    Ok(index)
}

/// The page with the most about an option; none where no page has it.
fn page(option: &str, pages: &[(String, String)]) -> String {
    let word = format!("--{option}");
    let is_end = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '-');
    let count =
        |text: &str| text.match_indices(&word).filter(|(at, _)| is_end(&text[at + word.len()..])).count();
    let counted = pages.iter().map(|(page, text)| (count(text), page));
    let most = counted.filter(|(count, _)| *count > 0).rev().max_by_key(|(count, _)| *count);
    most.map_or_else(|| "`--help`".to_owned(), |(_, page)| link(page))
}

fn link(page: &str) -> String {
    let name = page.rsplit('/').next().unwrap_or(page);
    match page.strip_prefix("docs/") {
        Some(below) => format!("[{name}]({below})"),
        None => format!("[{name}](../{page})"),
    }
}

/// The long options that a file defines, each with its field.
fn options_of(text: &str) -> Result<Vec<(String, String)>> {
    let mut options = Vec::new();
    for item in syn::parse_file(text)?.items {
        let fields = match item {
            Item::Struct(item) => vec![item.fields],
            Item::Enum(item) => item.variants.into_iter().map(|variant| variant.fields).collect(),
            _ => continue,
        };
        let named = fields.into_iter().filter_map(|fields| match fields {
            Fields::Named(fields) => Some(fields.named),
            _ => None,
        });
        options.extend(named.flatten().filter_map(|field| option(&field)));
    }
    Ok(options)
}

/// The long option of a field, if it has one.
fn option(field: &Field) -> Option<(String, String)> {
    let name = field.ident.as_ref()?.to_string();
    let long = field.attrs.iter().find_map(long)?;
    Some((long.unwrap_or_else(|| name.replace('_', "-")), name))
}

/// What `long` in `#[arg(...)]` says: nothing, or the option's own name.
fn long(attribute: &Attribute) -> Option<Option<String>> {
    let list = attribute.meta.require_list().ok().filter(|list| list.path.is_ident("arg"))?;
    let text = list.tokens.to_string();
    let parts = text.split(',').map(str::trim);
    let long = parts.clone().find(|part| *part == "long" || part.starts_with("long ="))?;
    Some(long.split_once('=').map(|(_, name)| name.trim().trim_matches('"').to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_found_with_their_fields() {
        let of_struct =
            "struct A {\n#[arg(long)]\nwait_for: u8,\n#[arg(long = \"csv\")]\nof_csv: u8,\ny: u8,\n}\n";
        let of_enum = "enum B {\nC {\n#[arg(long, num_args = 2)]\nx: u8,\n},\nD,\n}\n";
        let text = [of_struct, of_enum].concat();
        let found = options_of(&text).unwrap();
        let pairs: Vec<(&str, &str)> =
            found.iter().map(|(option, field)| (&option[..], &field[..])).collect();
        assert_eq!(pairs, [("wait-for", "wait_for"), ("csv", "of_csv"), ("x", "x")]);
    }

    #[test]
    fn the_page_is_the_one_with_the_most_about_an_option() {
        let pages = [("README.md", "--by-x"), ("docs/a.md", "--by and --by=1"), ("docs/b.md", "--by, --by")];
        let pages = pages.map(|(page, text)| (page.to_owned(), text.to_owned()));
        assert_eq!(page("by", &pages), "[a.md](a.md)");
        assert_eq!(page("by-x", &pages), "[README.md](../README.md)");
        assert_eq!(page("none", &pages), "`--help`");
    }
}
