//! The crates that are linked into the program: a bill of materials in CycloneDX's JSON, and their licences.

use crate::dist::arch::Arch;
use crate::shell;
use crate::workspace::Workspace;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// A crate that is linked in.
pub(crate) struct Crate {
    name: String,
    version: String,
    /// SPDX's expression.
    licence: String,
    description: String,
    /// SHA-256 of what the registry has; the workspace's own crates have none.
    checksum: Option<String>,
    manifest: String,
    /// What it uses itself, by reference.
    uses: Vec<String>,
}

impl Crate {
    fn reference(&self) -> String {
        format!("pkg:cargo/{}@{}", self.name, self.version)
    }
}

/// The crates that the program of this architecture is linked of, by name and version; without those that
/// only build or test it.
///
/// # Errors
/// cargo's own.
pub(crate) fn crates(workspace: &Workspace, arch: &Arch) -> Result<Vec<Crate>> {
    let words = format!("metadata --format-version 1 --locked --filter-platform {}", arch.rust);
    let mut command = workspace.cargo(&words);
    command.args(["--features", "parquet", "--manifest-path", "crates/iopj/Cargo.toml"]);
    let metadata: Value = serde_json::from_str(&shell::output(&mut command)?)?;
    let lock = fs::read_to_string(workspace.root.join("Cargo.lock")).context("Cargo.lock")?;
    let checksums = checksums(&lock);
    linked(&metadata, "iopj", &checksums)
}

/// What is reached from the crate `root` by normal uses.
fn linked(
    metadata: &Value,
    root: &str,
    checksums: &BTreeMap<(String, String), String>,
) -> Result<Vec<Crate>> {
    let by_id = |list: &'static str, value: &Value| -> BTreeMap<String, Value> {
        let items = value[list].as_array().into_iter().flatten();
        items.filter_map(|item| Some((item["id"].as_str()?.to_owned(), item.clone()))).collect()
    };
    let (packages, nodes) = (by_id("packages", metadata), by_id("nodes", &metadata["resolve"]));
    let first = packages.iter().find(|(_, package)| package["name"] == root);
    let mut open = vec![first.with_context(|| format!("cargo metadata has no crate {root}"))?.0.clone()];
    let mut seen: BTreeSet<String> = open.iter().cloned().collect();
    let mut found = BTreeMap::new();
    while let Some(id) = open.pop() {
        let package = packages.get(&id).with_context(|| format!("cargo metadata lacks {id}"))?;
        let uses = nodes.get(&id).map(normal_uses).unwrap_or_default();
        open.extend(uses.iter().filter(|id| seen.insert((*id).clone())).cloned());
        let uses = uses.iter().filter_map(|id| packages.get(id));
        let uses = uses.filter_map(|package| Some(made(package, checksums, Vec::new())?.reference()));
        let one = made(package, checksums, uses.collect()).with_context(|| format!("{id} has no name"))?;
        found.insert(one.reference(), one);
    }
    Ok(found.into_values().collect())
}

/// The crates of which this one needs the code when it runs.
fn normal_uses(node: &Value) -> Vec<String> {
    let uses = node["deps"].as_array().into_iter().flatten();
    let is_normal = |one: &&Value| {
        let kinds = one["dep_kinds"].as_array();
        kinds.is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()))
    };
    uses.filter(is_normal).filter_map(|one| Some(one["pkg"].as_str()?.to_owned())).collect()
}

fn made(package: &Value, checksums: &BTreeMap<(String, String), String>, uses: Vec<String>) -> Option<Crate> {
    let text = |key: &str| package[key].as_str().map(|text| text.trim().to_owned());
    let (name, version) = (text("name")?, text("version")?);
    Some(Crate {
        checksum: checksums.get(&(name.clone(), version.clone())).cloned(),
        // An older way to write the same.
        licence: text("license").unwrap_or_default().replace('/', " OR ").replace("  ", " "),
        description: text("description").unwrap_or_default().replace('\n', " "),
        manifest: text("manifest_path")?,
        name,
        version,
        uses,
    })
}

/// The checksums in `Cargo.lock`, by name and version.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let blocks = lock.split("[[package]]");
    let value = |block: &str, key: &str| {
        let mut lines = block.lines();
        let quoted = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "))?;
        Some(quoted.trim_matches('"').to_owned())
    };
    let checksum =
        |block| Some(((value(block, "name")?, value(block, "version")?), value(block, "checksum")?));
    blocks.filter_map(checksum).collect()
}

/// The bill of materials of the program, in CycloneDX 1.5. It has no time and no random number, so it is the
/// same whenever it is made.
pub(crate) fn cyclonedx(crates: &[Crate], version: &str, arch: &Arch) -> Result<String> {
    let component = |one: &Crate| {
        let mut component = json!({
            "type": if one.name == "iopj" { "application" } else { "library" },
            "bom-ref": one.reference(),
            "name": one.name,
            "version": one.version,
            "description": one.description,
            "licenses": [{"expression": one.licence}],
            "purl": one.reference(),
        });
        if let Some(checksum) = &one.checksum {
            component["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
        }
        component
    };
    let uses = |one: &Crate| json!({"ref": one.reference(), "dependsOn": one.uses});
    let own = crates.iter().find(|one| one.name == "iopj").context("no crate iopj")?;
    let bill = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": component(own),
            "properties": [
                {"name": "iopj:version", "value": version},
                {"name": "iopj:target", "value": arch.rust},
            ],
        },
        "components": crates.iter().filter(|one| one.name != "iopj").map(component).collect::<Vec<_>>(),
        "dependencies": crates.iter().map(uses).collect::<Vec<_>>(),
    });
    Ok(serde_json::to_string_pretty(&bill)? + "\n")
}

/// The licences of the crates of others, each text once, with the crates that have it.
///
/// # Errors
/// A crate's folder cannot be read.
pub(crate) fn licences(crates: &[Crate]) -> Result<String> {
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut list = String::from("The program is linked of these crates of others.\n\n");
    for one in crates.iter().filter(|one| one.checksum.is_some()) {
        let name = format!("{} {}", one.name, one.version);
        list += &format!("{name}: {}\n", one.licence);
        for text in texts_of(Path::new(&one.manifest))? {
            texts.entry(text).or_default().push(name.clone());
        }
    }
    let mut by_crates: Vec<(Vec<String>, String)> = texts.into_iter().map(|(text, of)| (of, text)).collect();
    by_crates.sort();
    for (of, text) in by_crates {
        list += &format!("\n{}\n{}\n\n{}\n", "=".repeat(72), of.join(", "), text);
    }
    Ok(list)
}

/// The files of licences and notices beside a manifest.
fn texts_of(manifest: &Path) -> Result<BTreeSet<String>> {
    let folder = manifest.parent().context("a manifest without a folder")?;
    let mut texts = BTreeSet::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_uppercase();
        let is_text = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];
        if entry.file_type()?.is_file() && is_text.iter().any(|start| name.starts_with(start)) {
            texts.insert(fs::read_to_string(entry.path())?.replace('\r', "").trim_end().to_owned());
        }
    }
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata() -> Value {
        let package = |name: &str| {
            json!({"id": format!("#{name}"), "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0",
                "manifest_path": "/x/Cargo.toml", "description": "a\nb"})
        };
        let uses =
            |name: &str, kind: Value| json!({"pkg": format!("#{name}"), "dep_kinds": [{"kind": kind}]});
        let packages = ["iopj", "a", "b", "builds", "unused"].map(package);
        json!({
            "packages": packages,
            "resolve": {"nodes": [
                {"id": "#iopj", "deps": [uses("a", Value::Null), uses("builds", json!("build"))]},
                {"id": "#a", "deps": [uses("b", Value::Null)]},
                {"id": "#b", "deps": []},
            ]},
        })
    }

    #[test]
    fn the_bill_has_what_is_linked_and_nothing_that_only_builds() {
        let lock = "[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nsource = \"r\"\nchecksum = \"12ab\"\n\n\
                    [[package]]\nname = \"iopj\"\nversion = \"1.0.0\"\n";
        let crates = linked(&metadata(), "iopj", &checksums(lock)).unwrap();
        let names: Vec<&str> = crates.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "iopj"]);
        let bill = cyclonedx(&crates, "0.2.0", &crate::dist::arch::ALL[0]).unwrap();
        let bill: Value = serde_json::from_str(&bill).unwrap();
        assert_eq!(bill["metadata"]["component"]["purl"], "pkg:cargo/iopj@1.0.0");
        assert_eq!(bill["components"][0]["hashes"][0]["content"], "12ab");
        assert_eq!(bill["components"][0]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(bill["dependencies"][2]["dependsOn"], json!(["pkg:cargo/a@1.0.0"]));
    }
}
