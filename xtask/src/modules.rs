//! Finds cycles among the files of a crate. One file uses another if a path in its code names something that
//! the other one defines; files that only re-export it do not count.
//!
//! A module and its descendants may use each other, and tests may use anything. Method calls are not seen:
//! they have no path.

mod paths;
mod tree;

#[cfg(test)]
mod tests;

use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use tree::{Id, Meaning, Tree};

/// How many re-exports are followed for one path, to end the search whatever the code says.
const STEPS: usize = 32;

/// What a file uses: the names by the file that defines them.
type Uses<'a> = BTreeMap<&'a Path, BTreeSet<&'a str>>;

/// One text per cycle in the libraries and programs of the workspace: what each of its files uses of the
/// others.
///
/// # Errors
/// A file cannot be read, or is not Rust.
pub(crate) fn findings(root: &Path, metadata: &Value) -> Result<Vec<String>> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let targets = packages.flat_map(|package| package["targets"].as_array().into_iter().flatten());
    let mut findings = Vec::new();
    for target in targets.filter(|target| target["kind"][0] == "lib" || target["kind"][0] == "bin") {
        let source = target["src_path"].as_str().context("cargo metadata names no source of a target")?;
        findings.extend(cycles(&Tree::read(Path::new(source))?, root));
    }
    Ok(findings)
}

/// One text per cycle: a line with the number of its files, then one line per use of one by another.
fn cycles(tree: &Tree, root: &Path) -> Vec<String> {
    let uses = uses(tree);
    let reached: BTreeMap<&Path, BTreeSet<&Path>> =
        uses.keys().map(|file| (*file, reached(&uses, file))).collect();
    let mut reported = BTreeSet::new();
    let mut findings = Vec::new();
    for (first, from_first) in &reached {
        let in_cycle = |file: &&&Path| reached.get(**file).is_some_and(|back| back.contains(first));
        let files: BTreeSet<&Path> = from_first.iter().filter(in_cycle).copied().collect();
        if files.is_empty() || !reported.insert(files.clone()) {
            continue;
        }
        let mut finding = format!("{} files use each other in a cycle:", files.len());
        for user in &files {
            for (used, names) in uses[user].iter().filter(|(used, _)| files.contains(**used)) {
                let names = names.iter().copied().collect::<Vec<_>>().join(", ");
                let [user, used] = [user, used].map(|file| file.strip_prefix(root).unwrap_or(file).display());
                finding += &format!("\n  {user} -> {used}: {names}");
            }
        }
        findings.push(finding);
    }
    findings
}

/// The files that `first` uses, directly or through others; `first` itself only if it is in a cycle.
fn reached<'a>(uses: &BTreeMap<&'a Path, Uses<'a>>, first: &'a Path) -> BTreeSet<&'a Path> {
    let mut reached = BTreeSet::new();
    let mut next = vec![first];
    while let Some(used) = next.pop().and_then(|file| uses.get(file)) {
        next.extend(used.keys().filter(|file| reached.insert(**file)));
    }
    reached
}

fn uses(tree: &Tree) -> BTreeMap<&Path, Uses<'_>> {
    let mut uses = BTreeMap::<_, Uses>::new();
    for (id, module) in tree.modules.iter().enumerate() {
        let of_file = uses.entry(module.file.as_path()).or_default();
        let mut search = Search::of(tree);
        for named in module.paths.iter().flat_map(|path| search.resolve(id, path, STEPS)) {
            let Named::Item(definer, name) = named else { continue };
            let file = tree.modules[definer].file.as_path();
            if file != module.file && !tree.are_related(&module.file, file) {
                of_file.entry(file).or_default().insert(name);
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
