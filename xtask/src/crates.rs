//! Which crate of the workspace may use which other: a table, compared with `cargo metadata`.

use serde_json::Value;

/// Each library `iopj-NAME` and the libraries that it may use. Some do not exist yet.
const LIBRARIES: &[(&str, &[&str])] = &[
    ("core", &[]),
    ("engine", &["core"]),
    ("meter", &["core"]),
    ("probe", &["core"]),
    ("store", &["core"]),
    ("study", &["core"]),
    ("host", &["core", "engine"]),
    ("load", &["core", "engine", "probe", "auto"]),
    ("run", &["core", "engine", "fabric", "host", "load", "meter", "probe", "store", "study"]),
    ("fabric", &["core", "engine", "host", "meter", "probe"]),
    ("model", &["core", "store"]),
    ("auto", &["core", "engine", "model"]),
    ("ffi", &["core", "engine", "auto"]),
    ("preload", &["core", "engine", "auto"]),
    ("fleet", &["core", "fabric", "model", "report", "store"]),
    ("report", &["core", "store"]),
    ("lab", &["core", "probe", "store"]),
];

/// Whether one crate may use another, both by their full names; nothing if the first is not in the table.
fn may_use(user: &str, used: &str) -> Option<bool> {
    match user {
        "iopj" => Some(true),
        "xtask" => Some(false),
        library => {
            let is_user = |(name, _): &&(&str, _)| library.strip_prefix("iopj-") == Some(*name);
            let (_, allowed) = LIBRARIES.iter().find(is_user)?;
            Some(used.strip_prefix("iopj-").is_some_and(|name| allowed.contains(&name)))
        }
    }
}

/// A line for each crate that is not in the table, and for each use that the table does not allow. Tests may
/// use any crate.
pub(crate) fn findings(metadata: &Value) -> Vec<String> {
    let packages = metadata["packages"].as_array().map_or(&[][..], Vec::as_slice);
    let is_ours = |crate_name: &str| packages.iter().any(|package| package["name"] == crate_name);
    let mut findings = Vec::new();
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let manifest = package["manifest_path"].as_str().unwrap_or_default();
        if may_use(name, "").is_none() {
            findings.push(format!("{manifest}: {name} is not in the table of crates"));
            continue;
        }
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let used = dependency["name"].as_str().unwrap_or_default();
            if is_ours(used) && dependency["kind"] != "dev" && may_use(name, used) != Some(true) {
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
            findings(&metadata),
            [
                "iopj-report/Cargo.toml: iopj-report uses iopj-engine: the table of crates forbids it",
                "iopj-probe/Cargo.toml: iopj-probe uses iopj-store: the table of crates forbids it",
                "xtask/Cargo.toml: xtask uses iopj-core: the table of crates forbids it",
                "iopj-extra/Cargo.toml: iopj-extra is not in the table of crates",
            ]
        );
    }
}
