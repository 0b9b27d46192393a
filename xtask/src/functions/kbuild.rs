//! Kernel makefiles, as far as they say what a source file becomes part of: the kernel, a module or nothing.

use super::config::Config;
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

/// Where a definition ends up in a kernel that is built with the tree's configuration.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Unit {
    /// The kernel's own image.
    BuiltIn,
    /// In whatever includes the header.
    Header,
    /// A module, by the name that `/proc/modules` gives it.
    Module(String),
    /// Nothing: the configuration leaves it out.
    Unbuilt,
}

/// Units of the tree's source files, by path without the ending.
#[derive(Default)]
pub(super) struct Build {
    units: HashMap<PathBuf, BTreeSet<Unit>>,
}

impl Build {
    /// Evaluates the makefiles of `folders`, all folders of the tree at `root`, relative to it.
    pub(super) fn evaluate(root: &Path, folders: &[PathBuf], config: &Config) -> Build {
        let makefiles: HashMap<&Path, Makefile> = folders
            .iter()
            .filter_map(|folder| Some((folder.as_path(), Makefile::read(root, folder, config)?)))
            .collect();
        let named: BTreeSet<PathBuf> =
            makefiles.values().flat_map(Makefile::subfolders).map(|(path, _)| path).collect();
        let mut build = Build::default();
        // The makefiles of the tree and of the architecture name their folders in their own ways.
        let own_rules = |folder: &Path| {
            ["", "arch/x86"].into_iter().any(|above| folder.parent() == Some(Path::new(above)))
        };
        let top = |folder: &Path| {
            folder.parent().is_none_or(|parent| own_rules(folder) || !makefiles.contains_key(parent))
        };
        for folder in makefiles.keys().filter(|folder| !named.contains(**folder) && top(folder)) {
            build.descend(&makefiles, folder, &mut BTreeSet::new());
        }
        build
    }

    fn descend(&mut self, makefiles: &HashMap<&Path, Makefile>, folder: &Path, seen: &mut BTreeSet<PathBuf>) {
        let Some(makefile) = makefiles.get(folder) else { return };
        if !seen.insert(folder.to_owned()) {
            return;
        }
        for (object, unit) in makefile.objects() {
            self.units.entry(object).or_default().insert(unit);
        }
        for (subfolder, built) in makefile.subfolders() {
            if built {
                self.descend(makefiles, &subfolder, seen);
            }
        }
    }

    #[cfg(test)]
    pub(super) fn of(objects: &[(&str, Unit)]) -> Build {
        let unit = |(path, unit): &(&str, Unit)| (PathBuf::from(path), BTreeSet::from([unit.clone()]));
        Build { units: objects.iter().map(unit).collect() }
    }

    /// Units of a source file.
    pub(super) fn units(&self, file: &Path) -> BTreeSet<Unit> {
        self.units.get(&file.with_extension("")).cloned().unwrap_or_default()
    }
}

/// A folder's makefile: its variables after expansion. An assignment in a branch that may not hold adds.
struct Makefile {
    folder: PathBuf,
    variables: HashMap<String, Vec<String>>,
}

impl Makefile {
    fn read(root: &Path, folder: &Path, config: &Config) -> Option<Makefile> {
        let path = root.join(folder);
        let text = fs::read_to_string(path.join("Kbuild"))
            .or_else(|_| fs::read_to_string(path.join("Makefile")))
            .ok()?;
        let mut makefile = Makefile { folder: folder.to_owned(), variables: HashMap::new() };
        makefile.parse(&text, root, config);
        Some(makefile)
    }

    fn parse(&mut self, text: &str, root: &Path, config: &Config) {
        let text = text.replace("\\\n", " ");
        let mut conditions: Vec<Option<bool>> = Vec::new();
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or_default().trim_end();
            let (word, rest) = line.trim_start().split_once(char::is_whitespace).unwrap_or((line.trim(), ""));
            match word {
                "ifdef" => {
                    conditions.push(Some(!self.expand(&format!("$({})", rest.trim()), config).is_empty()))
                }
                "ifndef" => {
                    conditions.push(Some(self.expand(&format!("$({})", rest.trim()), config).is_empty()))
                }
                "ifeq" => conditions.push(self.equal(rest, config)),
                "ifneq" => conditions.push(self.equal(rest, config).map(|equal| !equal)),
                "else" => {
                    let before = conditions.pop().flatten();
                    let own = match rest.trim().split_once(char::is_whitespace) {
                        Some(("ifeq", condition)) => self.equal(condition, config),
                        Some(("ifneq", condition)) => self.equal(condition, config).map(|equal| !equal),
                        Some(_) => None,
                        None => Some(true),
                    };
                    conditions.push(if before == Some(true) {
                        Some(false)
                    } else {
                        own.filter(|_| before.is_some())
                    });
                }
                "endif" => drop(conditions.pop()),
                _ if conditions.contains(&Some(false)) => {}
                "include" => {
                    let file = rest
                        .trim()
                        .replace("$(srctree)/", "")
                        .replace("$(src)", &self.folder.to_string_lossy());
                    let included = fs::read_to_string(root.join(file)).unwrap_or_default();
                    self.parse(&included, root, config);
                }
                _ => self.assign(line, !conditions.contains(&None), config),
            }
        }
    }

    fn assign(&mut self, line: &str, certain: bool, config: &Config) {
        let Some((name, value)) = line.split_once('=') else { return };
        let adds = !certain || name.ends_with(['+', '?']);
        let name = self.expand(name.trim_end_matches([':', '+', '?']).trim(), config);
        if name.contains(char::is_whitespace) {
            return;
        }
        let words = self.expand(value, config);
        let list = self.variables.entry(name).or_default();
        if !adds {
            list.clear();
        }
        list.extend(words.split_whitespace().map(str::to_owned));
    }

    /// Whether `(a,b)` of an `ifeq` are equal; `None` if they contain a function.
    fn equal(&self, text: &str, config: &Config) -> Option<bool> {
        let inner = text.trim().strip_prefix('(')?.strip_suffix(')')?;
        let (left, right) = inner.rsplit_once(',')?;
        let sides = [left, right].map(|side| self.expand(side.trim(), config));
        (!sides.iter().any(|side| side.contains('$'))).then(|| sides[0] == sides[1])
    }

    /// `text` with options and variables replaced; anything else in `$(…)` stays.
    fn expand(&self, text: &str, config: &Config) -> String {
        let Some((before, rest)) = text.split_once("$(") else { return text.to_owned() };
        let mut depth = 1;
        let close = rest.find(|c| {
            depth += i32::from(c == '(') - i32::from(c == ')');
            depth == 0
        });
        let Some(close) = close else { return text.to_owned() };
        let inner = self.expand(&rest[..close], config);
        let value = match inner.split_once(' ') {
            Some(("addprefix", words)) => {
                let (prefix, words) = words.split_once(',').unwrap_or_default();
                words
                    .split_whitespace()
                    .map(|word| format!("{}{word}", prefix.trim()))
                    .collect::<Vec<_>>()
                    .join(" ")
            }
            Some(("subst", words)) => match words.splitn(3, ',').map(str::trim).collect::<Vec<_>>()[..] {
                [from, to, text] => text.replace(from, to),
                _ => String::new(),
            },
            Some(("if", words)) => {
                let (condition, words) = words.split_once(',').unwrap_or_default();
                let (then, other) = words.split_once(',').unwrap_or((words, ""));
                if condition.trim().is_empty() { other.to_owned() } else { then.to_owned() }
            }
            Some(("strip", words)) => words.trim().to_owned(),
            Some(_) => format!("$({inner})"),
            None if inner.starts_with("CONFIG_") => config.value(&inner).trim_matches('"').to_owned(),
            None => match inner.as_str() {
                "BITS" => "64".to_owned(),
                "obj" | "src" => ".".to_owned(),
                "SRCARCH" | "ARCH" => "x86".to_owned(),
                name => self.variables.get(name).map(|words| words.join(" ")).unwrap_or_default(),
            },
        };
        format!("{before}{value}{}", self.expand(&rest[close + 1..], config))
    }

    fn words(&self, names: &[&str]) -> impl Iterator<Item = &str> {
        let lists: Vec<_> = names.iter().filter_map(|name| self.variables.get(*name)).collect();
        lists.into_iter().flatten().map(String::as_str)
    }

    /// Folders below, and whether anything of them is built.
    fn subfolders(&self) -> impl Iterator<Item = (PathBuf, bool)> + '_ {
        let built = ["obj-y", "obj-m", "lib-y", "core-y", "drivers-y", "libs-y"];
        let all = |names: &[&str], built: bool| {
            self.words(names)
                .filter_map(|word| word.strip_suffix('/'))
                .map(move |word| (self.path(word), built))
                .collect::<Vec<_>>()
        };
        all(&built, true).into_iter().chain(all(&["obj-", "obj-n"], false))
    }

    /// Objects of the folder, by path without the ending, with the units that they belong to.
    fn objects(&self) -> Vec<(PathBuf, Unit)> {
        let mut objects = Vec::new();
        for word in self.words(&["obj-y", "lib-y", "extra-y"]) {
            self.parts(word, &Unit::BuiltIn, 0, &mut objects);
        }
        for word in self.words(&["obj-m", "lib-m"]) {
            let name = word.trim_end_matches(".o").rsplit('/').next().unwrap_or_default().replace('-', "_");
            self.parts(word, &Unit::Module(name), 0, &mut objects);
        }
        objects
    }

    fn parts(&self, word: &str, unit: &Unit, depth: usize, objects: &mut Vec<(PathBuf, Unit)>) {
        let Some(name) = word.strip_suffix(".o") else { return };
        objects.push((self.path(name), unit.clone()));
        let lists = ["-y", "-objs", "-m"].map(|ending| format!("{name}{ending}"));
        // An object may have the name of the unit that it belongs to.
        if depth < 4 {
            for part in self.words(&[&lists[0], &lists[1], &lists[2]]).filter(|part| *part != word) {
                self.parts(part, unit, depth + 1, objects);
            }
        }
    }

    fn path(&self, relative: &str) -> PathBuf {
        let mut path = self.folder.clone();
        for part in relative.split('/') {
            match part {
                "" | "." => {}
                ".." => drop(path.pop()),
                part => path.push(part),
            }
        }
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Objects of a makefile in `folder`, with their units.
    fn objects(folder: &str, text: &str, config: &str) -> Vec<(String, Unit)> {
        let mut makefile = Makefile { folder: PathBuf::from(folder), variables: HashMap::new() };
        makefile.parse(text, Path::new("/nowhere"), &Config::parse(config));
        makefile
            .objects()
            .into_iter()
            .map(|(path, unit)| (path.to_string_lossy().into_owned(), unit))
            .collect()
    }

    fn module(name: &str) -> Unit {
        Unit::Module(name.to_owned())
    }

    #[test]
    fn objects_are_built_in_modules_or_left_out() {
        let text = "obj-$(CONFIG_A) += a.o\nobj-$(CONFIG_B) := b-c.o # why\nobj-$(CONFIG_D) += d.o\nlib-y = \
                    e.o \\\n\tf.o\n";
        assert_eq!(
            objects("lib", text, "CONFIG_A=y\nCONFIG_B=m\n"),
            [
                ("lib/a".to_owned(), Unit::BuiltIn),
                ("lib/e".to_owned(), Unit::BuiltIn),
                ("lib/f".to_owned(), Unit::BuiltIn),
                ("lib/b-c".to_owned(), module("b_c")),
            ]
        );
    }

    #[test]
    fn parts_belong_to_the_whole() {
        let text = "obj-m += whole.o\nwhole-y += a.o $(addprefix sub/, b.o)\nKVM := ../../virt\nwhole-y += \
                    $(KVM)/c.o\nwhole-$(CONFIG_X) += d.o\n";
        let parts: Vec<String> =
            objects("arch/x86", text, "CONFIG_X=y\n").into_iter().map(|(path, _)| path).collect();
        assert_eq!(parts, ["arch/x86/whole", "arch/x86/a", "arch/x86/sub/b", "virt/c", "arch/x86/d"]);
    }

    #[test]
    fn branches_follow_the_configuration() {
        let text = "ifdef CONFIG_A\n\tobj-y += a.o\nelse\nobj-y += b.o\nendif\nifeq ($(CONFIG_C),y)\nobj-y \
                    += c.o\nelse ifeq ($(CONFIG_A),y)\nobj-y += d.o\nendif\nifneq ($(call cc,x),)\nobj-y += \
                    e.o\nelse\nobj-y += f.o\nendif\nobj-$(if $(CONFIG_A),y) += g.o\nobj-$(subst \
                    m,y,$(CONFIG_M)) += h.o\n";
        let built: Vec<String> =
            objects("", text, "CONFIG_A=y\nCONFIG_M=m\n").into_iter().map(|(path, _)| path).collect();
        assert_eq!(built, ["a", "d", "e", "f", "g", "h"]);
    }
}
