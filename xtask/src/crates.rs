//! DESIGN.md's table of crates held against `cargo metadata`: which crate may use which of ours.

use serde_json::Value;

/// Every crate of the workspace, and those of ours that it may use.
const TABLE: &[(&str, &[&str])] = &[
    ("iopj-core", &[]),
    ("iopj-engine", &["iopj-core"]),
    ("iopj-meter", &["iopj-core"]),
    ("iopj-probe", &["iopj-core"]),
    ("iopj-store", &["iopj-core"]),
    ("iopj-study", &["iopj-core", "iopj-engine", "iopj-meter", "iopj-probe", "iopj-store"]),
    ("iopj-report", &["iopj-core", "iopj-store"]),
    ("iopj-lab", &["iopj-core", "iopj-probe", "iopj-store"]),
    (
        "iopj",
        &[
            "iopj-core",
            "iopj-engine",
            "iopj-meter",
            "iopj-probe",
            "iopj-store",
            "iopj-study",
            "iopj-report",
            "iopj-lab",
        ],
    ),
    ("xtask", &[]),
];

/// A line for each crate that is not in the table, and for each use that the table does not allow. Tests may
/// use whatever they like.
pub(crate) fn findings(metadata: &Value) -> Vec<String> {
    let mut findings = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = package["name"].as_str().unwrap_or_default();
        let manifest = package["manifest_path"].as_str().unwrap_or_default();
        let Some((_, allowed)) = TABLE.iter().find(|(crate_name, _)| *crate_name == name) else {
            findings.push(format!("{manifest}: {name} is not in DESIGN.md's table of crates"));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let used = dependency["name"].as_str().unwrap_or_default();
            let ours = TABLE.iter().any(|(crate_name, _)| *crate_name == used);
            if ours && dependency["kind"] != "dev" && !allowed.contains(&used) {
                findings
                    .push(format!("{manifest}: {name} may not use {used}, says DESIGN.md's table of crates"));
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
        let metadata = json!({ "packages": [
            package("iopj-core", &[("serde", None)]),
            package("iopj-report", &[("iopj-core", None), ("iopj-store", None), ("iopj-engine", None)]),
            package("iopj-probe", &[("iopj-engine", Some("dev")), ("iopj-store", Some("build"))]),
            package("xtask", &[("iopj-core", None)]),
            package("iopj-extra", &[]),
        ] });
        assert_eq!(
            findings(&metadata),
            [
                "iopj-report/Cargo.toml: iopj-report may not use iopj-engine, says DESIGN.md's table of \
                 crates",
                "iopj-probe/Cargo.toml: iopj-probe may not use iopj-store, says DESIGN.md's table of crates",
                "xtask/Cargo.toml: xtask may not use iopj-core, says DESIGN.md's table of crates",
                "iopj-extra/Cargo.toml: iopj-extra is not in DESIGN.md's table of crates",
            ]
        );
    }
}
