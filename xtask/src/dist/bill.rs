//! The crates that are linked in, and a bill of materials of the program in CycloneDX's JSON.

use crate::dist::arch::Arch;
use crate::shell;
use crate::workspace::Workspace;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// A crate that is linked in.
#[derive(Debug)]
pub(crate) struct Crate {
    pub(crate) name: String,
    pub(crate) version: String,
    /// SPDX's expression.
    pub(crate) licence: String,
    description: String,
    /// SHA-256 of what the registry has; the workspace's own crates have none.
    pub(crate) checksum: Option<String>,
    pub(crate) manifest: String,
    /// What it uses itself, by reference.
    uses: Vec<String>,
}

impl Crate {
    fn reference(&self) -> String {
        format!("pkg:cargo/{}@{}", self.name, self.version)
    }
}

/// What tells a crate from every other: name and version.
type Named = (String, String);

/// What cargo knows of all crates of an architecture.
pub(crate) struct Graph<'a> {
    workspace: &'a Workspace,
    arch: &'a Arch,
    metadata: Value,
    checksums: BTreeMap<Named, String>,
}

impl Graph<'_> {
    /// # Errors
    /// cargo's own.
    pub(crate) fn read<'a>(workspace: &'a Workspace, arch: &'a Arch) -> Result<Graph<'a>> {
        let words = format!("metadata --format-version 1 --locked --filter-platform {}", arch.rust);
        let mut command = workspace.cargo(&words);
        command.args(["--features", "parquet", "--manifest-path", "crates/iopj/Cargo.toml"]);
        let metadata = serde_json::from_str(&shell::output(&mut command)?)?;
        let lock = fs::read_to_string(workspace.root.join("Cargo.lock")).context("Cargo.lock")?;
        Ok(Graph { workspace, arch, metadata, checksums: checksums(&lock) })
    }

    /// The crates that this package of the workspace is linked of when it is built alone (`words` choose it),
    /// by name and version; without those that only build or test it, and macros, which run in the compiler.
    ///
    /// # Errors
    /// cargo's own.
    pub(crate) fn linked(&self, words: &str) -> Result<Vec<Crate>> {
        let mut tree = self.workspace.cargo("tree --locked --edges normal,no-proc-macro --prefix none");
        tree.args(["--format", "{p}", "--target", self.arch.rust]).args(words.split(' '));
        let listed = listed(&shell::output(&mut tree)?);
        linked(&self.metadata, &listed, &self.checksums)
    }
}

/// The crates in what `cargo tree` prints: a name, a version after `v`, and where it is from.
fn listed(tree: &str) -> BTreeSet<Named> {
    let named = |line: &str| {
        let mut words = line.split(' ');
        Some((words.next()?.to_owned(), words.next()?.strip_prefix('v')?.to_owned()))
    };
    tree.lines().filter_map(named).collect()
}

/// The crates of this list, each with those of the list that it uses.
fn linked(
    metadata: &Value,
    list: &BTreeSet<Named>,
    checksums: &BTreeMap<Named, String>,
) -> Result<Vec<Crate>> {
    let items = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let id = |value: &Value| value["id"].as_str().unwrap_or_default().to_owned();
    let nodes: BTreeMap<String, Value> =
        items(&metadata["resolve"]["nodes"]).into_iter().map(|node| (id(&node), node)).collect();
    let crates = items(&metadata["packages"]).into_iter().map(|package| (id(&package), package));
    let crates = crates.filter_map(|(id, package)| Some((id, made(&package, checksums)?)));
    let mut crates: BTreeMap<String, Crate> =
        crates.filter(|(_, one)| list.contains(&(one.name.clone(), one.version.clone()))).collect();
    ensure!(crates.len() == list.len(), "cargo metadata has {} crates of {list:?}", crates.len());
    let references: BTreeMap<String, String> =
        crates.iter().map(|(id, one)| (id.clone(), one.reference())).collect();
    for (id, one) in &mut crates {
        let uses = nodes.get(id).map(normal_uses).unwrap_or_default();
        one.uses = uses.iter().filter_map(|id| references.get(id).cloned()).collect();
    }
    let mut crates: Vec<Crate> = crates.into_values().collect();
    crates.sort_by_key(Crate::reference);
    Ok(crates)
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

/// A crate, without what it uses.
fn made(package: &Value, checksums: &BTreeMap<Named, String>) -> Option<Crate> {
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
        uses: Vec::new(),
    })
}

/// The checksums in `Cargo.lock`, by name and version.
fn checksums(lock: &str) -> BTreeMap<Named, String> {
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

/// The bill of materials of the program or module `root`, in CycloneDX 1.5. It has no time and no random
/// number, so it is the same whenever it is made.
pub(crate) fn cyclonedx(root: &str, crates: &[Crate], version: &str, arch: &Arch) -> Result<String> {
    let component = |one: &Crate| {
        let mut component = json!({
            "type": if one.name == root { "application" } else { "library" },
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
    let own = crates.iter().find(|one| one.name == root).with_context(|| format!("no crate {root}"))?;
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
        "components": crates.iter().filter(|one| one.name != root).map(component).collect::<Vec<_>>(),
        "dependencies": crates.iter().map(uses).collect::<Vec<_>>(),
    });
    Ok(serde_json::to_string_pretty(&bill)? + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    impl Crate {
        /// One with this name, as if a registry had it.
        pub(crate) fn of_others(name: &str, manifest: &Path) -> Crate {
            let package =
                json!({"name": name, "version": "1.0.0", "license": "MIT", "manifest_path": manifest});
            let checksums = [((name.to_owned(), "1.0.0".to_owned()), "12ab".to_owned())];
            made(&package, &checksums.into()).unwrap()
        }
    }

    fn metadata() -> Value {
        let package = |name: &str| {
            json!({"id": format!("#{name}"), "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0",
                "manifest_path": "/x/Cargo.toml", "description": "a\nb"})
        };
        let uses =
            |name: &str, kind: Value| json!({"pkg": format!("#{name}"), "dep_kinds": [{"kind": kind}]});
        let packages = ["iopj", "a", "b", "builds", "macros", "unused"].map(package);
        json!({
            "packages": packages,
            "resolve": {"nodes": [
                {"id": "#iopj", "deps": [uses("a", Value::Null), uses("builds", json!("build"))]},
                {"id": "#a", "deps": [uses("b", Value::Null), uses("macros", Value::Null)]},
                {"id": "#b", "deps": []},
            ]},
        })
    }

    #[test]
    fn no_macros_and_nothing_that_another_package_switches_on_is_linked() {
        let workspace = Workspace::find().unwrap();
        let graph = Graph::read(&workspace, &crate::dist::arch::ALL[0]).unwrap();
        let linked = graph.linked("--package iopj-ffi").unwrap();
        let has = |name: &str| linked.iter().any(|one| one.name == name);
        assert!(has("serde") && has("toml") && !has("serde_derive") && !has("syn"), "{linked:?}");
        // A map that keeps order is toml's only where somebody asks for it.
        assert!(!has("indexmap"), "{linked:?}");
    }

    #[test]
    fn the_bill_has_what_is_linked_and_nothing_that_only_builds() {
        let lock = "[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nsource = \"r\"\nchecksum = \"12ab\"\n\n\
                    [[package]]\nname = \"iopj\"\nversion = \"1.0.0\"\n";
        let tree = "iopj v1.0.0 (/x)\na v1.0.0\nb v1.0.0\na v1.0.0 (*)\n";
        let crates = linked(&metadata(), &listed(tree), &checksums(lock)).unwrap();
        let names: Vec<&str> = crates.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "iopj"]);
        let bill = cyclonedx("iopj", &crates, "0.2.0", &crate::dist::arch::ALL[0]).unwrap();
        let bill: Value = serde_json::from_str(&bill).unwrap();
        assert_eq!(bill["metadata"]["component"]["purl"], "pkg:cargo/iopj@1.0.0");
        assert_eq!(bill["components"][0]["hashes"][0]["content"], "12ab");
        assert_eq!(bill["components"][0]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        let uses = |at: usize| bill["dependencies"][at]["dependsOn"].clone();
        assert_eq!((uses(0), uses(2)), (json!(["pkg:cargo/b@1.0.0"]), json!(["pkg:cargo/a@1.0.0"])));
    }
}
