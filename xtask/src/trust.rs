//! The table of `docs/trust.md`: each key of a study has a row, and each row a test that exists.

use crate::workspace::Workspace;
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fs;
use syn::{Attribute, Field, Item, ItemStruct, Meta};

/// The page.
const PAGE: &str = "docs/trust.md";
/// Where the tables of studies are.
const FOLDERS: [&str; 3] = ["crates/study/src", "crates/meter/src", "crates/metering/src/energy"];
/// What stands before the keys of each table in the page; a table of none is no study's.
const TABLES: [(&str, Option<&str>); 23] = [
    ("Study", Some("")),
    ("FioOptions", Some("fio.")),
    ("Fabric", Some("fabric.")),
    ("Program", Some("program.")),
    ("FigureKeys", Some("program.figure.")),
    ("Variant", Some("program.variants.")),
    ("WorkloadMatrix", Some("workload.")),
    ("Until", Some("replicates.")),
    ("ScoreKeys", Some("score.")),
    ("HttpConfig", Some("meters.http.")),
    ("HttpValue", Some("meters.http.values.")),
    ("RedfishConfig", Some("meters.redfish.")),
    ("SnmpConfig", Some("meters.snmp.")),
    ("SnmpChannel", Some("meters.snmp.channels.")),
    ("IpmiConfig", Some("meters.ipmi.")),
    ("RaplTable", Some("meters.rapl.")),
    ("HwmonTable", Some("meters.hwmon.")),
    ("NvmeTable", Some("meters.nvme.")),
    ("CommandTable", Some("meters.command.")),
    ("ModelTable", Some("meters.model.")),
    ("LogConfig", Some("meters.log.")),
    // The file of a model's coefficients, which `meters.model.file` names.
    ("Coefficient", None),
    ("Coefficients", None),
];

/// A line for each key without a row, each row without a test, and each row of no key.
///
/// # Errors
/// A file cannot be read, or is not Rust.
pub(crate) fn findings(workspace: &Workspace) -> Result<Vec<String>> {
    let page = fs::read_to_string(workspace.root.join(PAGE)).context(PAGE)?;
    let (mut sources, mut tests) = (Vec::new(), BTreeSet::new());
    for file in workspace.tracked("crates")?.into_iter().filter(|file| file.ends_with(".rs")) {
        let text = fs::read_to_string(workspace.root.join(&file)).with_context(|| file.clone())?;
        let after = |text: &str| text.split(['(', '<']).next().unwrap_or_default().to_owned();
        tests.extend(text.split("fn ").skip(1).map(after));
        if FOLDERS.iter().any(|folder| file.starts_with(folder)) && text.contains("deny_unknown_fields") {
            sources.push((file, text));
        }
    }
    found(&page, &sources, &tests)
}

fn found(page: &str, sources: &[(String, String)], tests: &BTreeSet<String>) -> Result<Vec<String>> {
    let rows = rows(page);
    let mut findings = Vec::new();
    let mut tables = Vec::new();
    for (file, text) in sources {
        let code = syn::parse_file(text).with_context(|| file.clone())?;
        let structs = code.items.iter().filter_map(|item| match item {
            Item::Struct(item) => Some(item),
            _ => None,
        });
        tables.extend(structs.filter_map(keys_of));
    }
    for (table, keys) in &tables {
        let Some((_, prefix)) = TABLES.iter().find(|(name, _)| name == table) else {
            findings.push(format!("{PAGE}: xtask does not know what the keys of `{table}` are called there"));
            continue;
        };
        let named = prefix.iter().flat_map(|prefix| keys.iter().map(move |key| format!("{prefix}{key}")));
        let lacking = named.filter(|key| !rows.iter().any(|row| row.keys.contains(key)));
        findings.extend(lacking.map(|key| format!("{PAGE}: the key `{key}` has no row")));
    }
    for row in &rows {
        let has_one = row.tests.iter().any(|test| tests.contains(test));
        if !has_one || !row.tests.iter().all(|test| tests.contains(test)) {
            findings
                .push(format!("{PAGE}: the row of `{}` names no test that exists", row.keys.join("`, `")));
        }
    }
    Ok(findings)
}

/// A row of the table by key.
struct Row {
    keys: Vec<String>,
    tests: Vec<String>,
}

fn rows(page: &str) -> Vec<Row> {
    let table = page.lines().skip_while(|line| !line.starts_with("| key |")).skip(2);
    let quoted = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    let row = |line: &str| {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").collect();
        Row { keys: quoted(cells[0]), tests: quoted(cells[cells.len() - 1]) }
    };
    table.take_while(|line| line.starts_with('|')).map(row).collect()
}

/// The keys of a struct that refuses others, with its name.
fn keys_of(item: &ItemStruct) -> Option<(String, Vec<String>)> {
    serde_words(&item.attrs, "deny_unknown_fields")?;
    let key = |field: &Field| {
        let renamed = serde_words(&field.attrs, "rename");
        let renamed = renamed.and_then(|text| text.split('"').nth(1).map(str::to_owned));
        renamed.or_else(|| field.ident.as_ref().map(ToString::to_string))
    };
    Some((item.ident.to_string(), item.fields.iter().filter_map(key).collect()))
}

/// The words of serde's attribute that has this one.
fn serde_words(attributes: &[Attribute], word: &str) -> Option<String> {
    attributes.iter().find_map(|attribute| {
        let Meta::List(list) = &attribute.meta else { return None };
        let text = list.tokens.to_string();
        (list.path.is_ident("serde") && text.contains(word)).then_some(text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "#[derive(Deserialize)]\n#[serde(deny_unknown_fields)]\nstruct Until { min: u32, \
                          #[serde(rename = \"most\")] max: u32 }\nstruct Other { x: u8 }\n";

    fn of(page: &str) -> Vec<String> {
        let page = format!(
            "| option | allows |\n|---|---|\n| `x` | y |\n\n| key | a | test |\n|---|---|---|\n{page}"
        );
        let tests = BTreeSet::from(["it_works".to_owned()]);
        found(&page, &[("a.rs".to_owned(), SOURCE.to_owned())], &tests).unwrap()
    }

    #[test]
    fn a_key_without_a_row_and_a_row_without_a_test_are_found() {
        assert!(of("| `replicates.min`, `replicates.most` | `no key` | `it_works` |\n").is_empty());
        assert_eq!(
            of("| `replicates.min` | x | `it_works` |\n"),
            ["docs/trust.md: the key `replicates.most` has no row"]
        );
        let row = "docs/trust.md: the row of `replicates.min`, `replicates.most` names no test that exists";
        assert_eq!(of("| `replicates.min`, `replicates.most` | x | `it_fails` |\n"), [row]);
        assert_eq!(of("| `replicates.min`, `replicates.most` | x | none |\n"), [row]);
    }
}
