//! The modules of a crate: what each one defines and imports, and the paths in its code.

use super::paths;
use anyhow::{Context, Result};
use quote::ToTokens;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use syn::{Attribute, Item, ItemMod};

/// The index of a module in [`Tree::modules`]; the root's is 0.
pub(super) type Id = usize;

/// What a name means in a module. It may have several meanings, such as a module and a function.
#[derive(PartialEq)]
pub(super) enum Meaning {
    Item,
    Module(Id),
    /// Whatever this path means.
    Import(Vec<String>),
}

impl Meaning {
    pub(super) fn module(&self) -> Option<Id> {
        if let Meaning::Module(id) = self { Some(*id) } else { None }
    }
}

pub(super) struct Module {
    pub(super) file: PathBuf,
    /// The module that declares this one; the root's is the root.
    parent: Id,
    pub(super) names: BTreeMap<String, Vec<Meaning>>,
    /// Modules and types from which every name is imported.
    pub(super) globs: Vec<Vec<String>>,
    /// Every path in the module's code, including its imports but not its children.
    pub(super) paths: Vec<Vec<String>>,
}

impl Module {
    fn add(&mut self, name: String, meaning: Meaning) {
        let meanings = self.names.entry(name).or_default();
        if !meanings.contains(&meaning) {
            meanings.push(meaning);
        }
    }
}

pub(super) struct Tree {
    pub(super) modules: Vec<Module>,
}

impl Tree {
    /// Reads the crate with this root file, without its tests.
    ///
    /// # Errors
    /// A file cannot be read, or is not Rust.
    pub(super) fn read(root: &Path) -> Result<Tree> {
        let mut tree = Tree { modules: Vec::new() };
        tree.add_file(root, 0, root.parent().unwrap_or(root))?;
        Ok(tree)
    }

    /// The module that `crate`, `self` or `super` means here; none for any other word.
    pub(super) fn start(&self, module: Id, word: &str) -> Option<Id> {
        match word {
            "crate" => Some(0),
            "self" => Some(module),
            "super" => Some(self.modules[module].parent),
            _ => None,
        }
    }

    /// Where the ways to two modules part: the last module above both, and what each way takes there, a child
    /// or the module itself.
    pub(super) fn parting(&self, one: Id, other: Id) -> (Id, Id, Id) {
        let (one, other) = (self.way(one), self.way(other));
        let shared = one.iter().zip(&other).take_while(|(one, other)| one == other).count();
        let above = one[shared - 1];
        let next = |way: &[Id]| way.get(shared).copied().unwrap_or(above);
        (above, next(&one), next(&other))
    }

    /// The modules from the root to this one.
    fn way(&self, module: Id) -> Vec<Id> {
        let mut way = vec![module];
        while let Some(last) = way.last().copied().filter(|last| *last != 0) {
            way.push(self.modules[last].parent);
        }
        way.reverse();
        way
    }

    /// Adds the module in a file; `folder` is where its children's files are.
    fn add_file(&mut self, file: &Path, parent: Id, folder: &Path) -> Result<Id> {
        let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
        let syntax = syn::parse_file(&text).with_context(|| file.display().to_string())?;
        self.add(file, parent, folder, &syntax.items)
    }

    fn add(&mut self, file: &Path, parent: Id, folder: &Path, items: &[Item]) -> Result<Id> {
        let id = self.modules.len();
        self.modules.push(Module {
            file: file.to_owned(),
            parent,
            names: BTreeMap::new(),
            globs: Vec::new(),
            paths: Vec::new(),
        });
        for item in items {
            if let Item::Mod(child) = item {
                if !is_test(&child.attrs) && !is_test_name(&child.ident.to_string()) {
                    self.add_child(id, folder, child)?;
                }
                continue;
            }
            let module = &mut self.modules[id];
            if let Some(name) = defined(item) {
                module.add(name, Meaning::Item);
            }
            let found = paths::paths(item.to_token_stream());
            module.paths.extend(found.paths);
            module.globs.extend(found.globs);
            for (name, import) in found.imports {
                module.add(name, Meaning::Import(import));
            }
        }
        Ok(id)
    }

    fn add_child(&mut self, parent: Id, folder: &Path, child: &ItemMod) -> Result<()> {
        let file = self.modules[parent].file.clone();
        let name = child.ident.to_string();
        let id = if let Some((_, items)) = &child.content {
            self.add(&file, parent, &folder.join(&name), items)?
        } else if let Some(named) = path_attribute(&child.attrs) {
            let named = file.with_file_name(named);
            self.add_file(&named, parent, named.parent().unwrap_or(folder))?
        } else {
            let own = folder.join(&name);
            let beside = own.with_extension("rs");
            let file = if beside.exists() { beside } else { own.join("mod.rs") };
            self.add_file(&file, parent, &own)?
        };
        self.modules[parent].add(name, Meaning::Module(id));
        Ok(())
    }
}

/// Whether an item is compiled only for tests.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| paths::is_test_attribute(&attribute.to_token_stream().to_string()))
}

fn is_test_name(module: &str) -> bool {
    module == "tests" || module.starts_with("tests_") || module.ends_with("_tests")
}

/// The file in `#[path = "..."]`.
fn path_attribute(attributes: &[Attribute]) -> Option<String> {
    let value =
        attributes.iter().find(|attribute| attribute.path().is_ident("path"))?.meta.require_name_value();
    match &value.ok()?.value {
        syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
        _ => None,
    }
}

/// The name that an item defines.
fn defined(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}
