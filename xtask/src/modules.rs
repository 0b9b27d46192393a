//! Finds knots of modules in a crate: siblings of a folder that use each other in a circle, each with all
//! that is below it. One module uses another if a path in its code names something that the other one
//! defines; modules that only re-export it do not count.
//!
//! Tests may use anything. Method calls are not seen: they have no path.

mod paths;
mod tree;

#[cfg(test)]
mod tests;

use anyhow::Result;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use tree::{Id, Meaning, Tree};

/// How many re-exports are followed for one path, to end the search whatever the code says.
const STEPS: usize = 32;

/// The kinds of targets whose code is looked at.
const CODE: [&str; 5] = ["lib", "rlib", "cdylib", "staticlib", "bin"];

/// The one knot that stays until `nvme-user` opens its targets from above: a target holds a controller, and
/// that is opened on a target.
const STAYS: [&str; 4] = [
    "crates/engine/src/gate.rs",
    "crates/engine/src/nvme_user.rs",
    "crates/engine/src/obstacle.rs",
    "crates/engine/src/target.rs",
];

/// What each module of a folder uses of the others: the names.
type Uses<'a> = BTreeMap<Id, BTreeMap<Id, BTreeSet<&'a str>>>;

/// One text per knot in the libraries and programs of the workspace: what each of its modules uses of the
/// others.
///
/// # Errors
/// A file cannot be read, or is not Rust.
pub(crate) fn findings(root: &Path, metadata: &Value) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for source in sources(metadata) {
        findings.extend(knots(&Tree::read(Path::new(source))?, root));
    }
    Ok(findings)
}

/// The root files of all libraries, whatever they are linked as, and of all programs.
fn sources(metadata: &Value) -> BTreeSet<&str> {
    let is_code = |kind: &Value| CODE.contains(&kind.as_str().unwrap_or_default());
    let targets = elements(&metadata["packages"]).flat_map(|package| elements(&package["targets"]));
    let ours = targets.filter(|target| elements(&target["kind"]).any(is_code));
    ours.filter_map(|target| target["src_path"].as_str()).collect()
}

fn elements(array: &Value) -> impl Iterator<Item = &Value> {
    array.as_array().into_iter().flatten()
}

/// One text per knot: a line with the number of its modules, then one line per use of one by another.
fn knots(tree: &Tree, root: &Path) -> Vec<String> {
    let mut findings = Vec::new();
    for uses in uses(tree).into_values() {
        let reached: BTreeMap<Id, BTreeSet<Id>> =
            uses.keys().map(|module| (*module, reached(&uses, *module))).collect();
        let mut reported = BTreeSet::new();
        for (first, from_first) in &reached {
            let is_in_knot = |module: &&Id| reached.get(module).is_some_and(|back| back.contains(first));
            let modules: BTreeSet<Id> = from_first.iter().filter(is_in_knot).copied().collect();
            if !modules.is_empty() && reported.insert(modules.clone()) && !stays(tree, root, &modules) {
                findings.push(finding(tree, root, &uses, &modules));
            }
        }
    }
    findings
}

/// True for the knot that stays, as long as it has no further module.
fn stays(tree: &Tree, root: &Path, modules: &BTreeSet<Id>) -> bool {
    let is_known = |module: &Id| STAYS.iter().any(|file| root.join(file) == tree.modules[*module].file);
    modules.iter().all(is_known)
}

fn finding(tree: &Tree, root: &Path, uses: &Uses<'_>, modules: &BTreeSet<Id>) -> String {
    let place = |module: Id| {
        let file = &tree.modules[module].file;
        file.strip_prefix(root).unwrap_or(file).display()
    };
    let mut finding = format!("{} modules use each other in a knot:", modules.len());
    for user in modules {
        for (used, names) in uses[user].iter().filter(|(used, _)| modules.contains(used)) {
            let names = names.iter().copied().collect::<Vec<_>>().join(", ");
            finding += &format!("\n  {} -> {}: {names}", place(*user), place(*used));
        }
    }
    finding
}

/// The modules that `first` uses, directly or through others; `first` itself only if it is in a knot.
fn reached(uses: &Uses<'_>, first: Id) -> BTreeSet<Id> {
    let mut reached = BTreeSet::new();
    let mut next = vec![first];
    while let Some(used) = next.pop().and_then(|module| uses.get(&module)) {
        next.extend(used.keys().filter(|module| reached.insert(**module)));
    }
    reached
}

/// Who uses whom in each folder, by the module above it.
fn uses(tree: &Tree) -> BTreeMap<Id, Uses<'_>> {
    let mut uses = BTreeMap::<Id, Uses<'_>>::new();
    for (id, module) in tree.modules.iter().enumerate() {
        let mut search = Search::of(tree);
        for named in module.paths.iter().flat_map(|path| search.resolve(id, path, STEPS)) {
            let Named::Item(definer, name) = named else { continue };
            let (above, user, used) = tree.parting(id, definer);
            if user != used && user != above && used != above {
                let of_folder = uses.entry(above).or_default();
                of_folder.entry(user).or_default().entry(used).or_default().insert(name);
                of_folder.entry(used).or_default();
            }
        }
    }
    uses
}

/// What a path names.
#[derive(Clone)]
enum Named<'a> {
    /// An item, by the module that defines it and its name there.
    Item(Id, &'a str),
    /// A module. Only what is used through it counts as a use of its file.
    Module(Id),
}

/// A search for what paths name.
struct Search<'a> {
    tree: &'a Tree,
    /// What paths in modules were found to name; nothing yet for those that are being looked for. Without it
    /// each of several globs would be looked for through all the others, again and again.
    known: BTreeMap<(Id, Vec<String>), Vec<Named<'a>>>,
}

impl<'a> Search<'a> {
    fn of(tree: &'a Tree) -> Search<'a> {
        Search { tree, known: BTreeMap::new() }
    }

    /// What `path` names in `module`; nothing if it is local, or of another crate.
    fn resolve(&mut self, module: Id, path: &[String], steps: usize) -> Vec<Named<'a>> {
        let Some(steps) = steps.checked_sub(1) else { return Vec::new() };
        let key = (module, path.to_vec());
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        self.known.insert(key.clone(), Vec::new());
        let named = self.look(module, path, steps);
        self.known.insert(key, named.clone());
        named
    }

    fn look(&mut self, module: Id, path: &[String], steps: usize) -> Vec<Named<'a>> {
        let Some((first, rest)) = path.split_first() else { return vec![Named::Module(module)] };
        if let Some(start) = self.tree.start(module, first) {
            return self.resolve(start, rest, steps);
        }
        let here = &self.tree.modules[module];
        let Some((name, meanings)) = here.names.get_key_value(first) else {
            return self.through_globs(module, path, steps);
        };
        let mut named = Vec::new();
        for meaning in meanings {
            match meaning {
                Meaning::Item => named.push(Named::Item(module, name)),
                Meaning::Module(child) => named.extend(self.resolve(*child, rest, steps)),
                // `use anyhow::anyhow;` begins at a crate or at a child, never at itself.
                Meaning::Import(import) if import[0] == *name => {
                    for child in meanings.iter().filter_map(Meaning::module) {
                        named.extend(self.resolve(child, &[&import[1..], rest].concat(), steps));
                    }
                }
                Meaning::Import(import) => {
                    named.extend(self.resolve(module, &[import.as_slice(), rest].concat(), steps));
                }
            }
        }
        named
    }

    /// What a path names by one of the globs of `module`.
    fn through_globs(&mut self, module: Id, path: &[String], steps: usize) -> Vec<Named<'a>> {
        let mut named = Vec::new();
        for glob in &self.tree.modules[module].globs {
            for source in self.resolve(module, glob, steps) {
                match source {
                    Named::Module(source) if source != module => {
                        named.extend(self.resolve(source, path, steps));
                    }
                    _ => {}
                }
            }
        }
        named
    }
}
