//! Which crate of the workspace may use which other: the table in ARCHITECTURE.md, compared with
//! `cargo metadata`.

use serde_json::Value;

/// The rows of the table whose last column is "may use": the crate's name, and that column.
fn rows(architecture: &str) -> Vec<(&str, &str)> {
    architecture
        .lines()
        .skip_while(|line| !line.trim_end().ends_with("| may use |"))
        .take_while(|line| line.starts_with('|'))
        .skip(2)
        .filter_map(|line| {
            let mut columns = line.trim_matches('|').split('|').map(str::trim);
            Some((columns.next()?.trim_matches('`'), columns.next_back()?))
        })
        .collect()
}

/// Whether the words of the column allow the use of a crate: `all`, or names without `iopj-`.
fn allows(may_use: &str, used: &str) -> bool {
    may_use == "all" || may_use.split(", ").any(|name| used.strip_prefix("iopj-") == Some(name))
}

/// A line for each crate that only the table or only the workspace has, and for each use that the table does
/// not allow. Tests may use any crate.
pub(crate) fn findings(architecture: &str, metadata: &Value) -> Vec<String> {
    let rows = rows(architecture);
    let packages = metadata["packages"].as_array().map_or(&[][..], Vec::as_slice);
    let is_ours = |crate_name: &str| packages.iter().any(|package| package["name"] == crate_name);
    let missing = rows.iter().filter(|(name, _)| !is_ours(name));
    let mut findings: Vec<String> =
        missing.map(|(name, _)| format!("ARCHITECTURE.md: there is no crate {name}")).collect();
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let manifest = package["manifest_path"].as_str().unwrap_or_default();
        let Some((_, may_use)) = rows.iter().find(|(row, _)| *row == name) else {
            findings.push(format!("{manifest}: {name} is not in ARCHITECTURE.md's table of crates"));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let used = dependency["name"].as_str().unwrap_or_default();
            if is_ours(used) && dependency["kind"] != "dev" && !allows(may_use, used) {
                findings.push(format!("{manifest}: {name} uses {used}: the table of crates forbids it"));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn package(name: &str, uses: &[(&str, Option<&str>)]) -> Value {
        let dependencies: Vec<Value> =
            uses.iter().map(|(name, kind)| json!({ "name": name, "kind": kind })).collect();
        json!({ "name": name, "manifest_path": format!("{name}/Cargo.toml"), "dependencies": dependencies })
    }

    #[test]
    fn uses_outside_the_table_are_found() {
        let architecture = "\
            | another | table |\n|---|---|\n| `iopj-extra` | – |\n\n\
            | crate | holds | may use |\n|---|---|---|\n\
            | `iopj-core` | words | – |\n\
            | `iopj-engine` | engines | core |\n\
            | `iopj-store` | records | core |\n\
            | `iopj-report` | tables | core, store |\n\
            | `iopj-probe` | counters | core |\n\
            | `iopj-fabric` | fabrics | core |\n\
            | `iopj` | the command line | all |\n\
            | `xtask` | tasks | – |\n\nText.\n";
        let metadata = json!({ "packages": [
            package("iopj-core", &[("serde", None)]),
            package("iopj-engine", &[("iopj-core", None)]),
            package("iopj-store", &[("iopj-core", None)]),
            package("iopj-report", &[("iopj-core", None), ("iopj-store", None), ("iopj-engine", None)]),
            package("iopj-probe", &[("iopj-engine", Some("dev")), ("iopj-store", Some("build"))]),
            package("iopj", &[("iopj-core", None), ("iopj-report", None)]),
            package("xtask", &[("iopj-core", None)]),
            package("iopj-extra", &[]),
        ] });
        assert_eq!(
            findings(architecture, &metadata),
            [
                "ARCHITECTURE.md: there is no crate iopj-fabric",
                "iopj-report/Cargo.toml: iopj-report uses iopj-engine: the table of crates forbids it",
                "iopj-probe/Cargo.toml: iopj-probe uses iopj-store: the table of crates forbids it",
                "xtask/Cargo.toml: xtask uses iopj-core: the table of crates forbids it",
                "iopj-extra/Cargo.toml: iopj-extra is not in ARCHITECTURE.md's table of crates",
            ]
        );
    }
}
