//! A kernel source tree: every function that its x86-64 kernel may hold, with folder and unit.

use super::config::Config;
use super::expand::{Found, Macros};
use super::kbuild::{Build, Unit};
use super::scan::{Lines, Scan};
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};

/// Folders whose code never runs in an x86-64 kernel: it boots, builds or documents the kernel, or runs in
/// user space.
const FOREIGN: &str = "\
    Documentation LICENSES debian rust samples scripts tools usr arch/x86/boot arch/x86/purgatory \
    arch/x86/realmode arch/x86/tools arch/x86/um arch/x86/math-emu lib/raid6/test include/xen/arm \
    drivers/gpu/drm/amd/include";

/// Functions that assembler in headers and strings defines, and the folders of the code that uses it.
const ASSEMBLED: &[(&str, &[&str])] = &[
    ("arch/x86/entry/", &["irq_entries_start", "spurious_entries_start"]),
    (
        "arch/x86/kernel/",
        &["_paravirt_nop", "_paravirt_ident_64", "__static_call_return", "int3_magic", "paravirt_BUG"],
    ),
    (
        "kernel/locking/",
        &["__raw_callee_save___pv_queued_spin_unlock", "__raw_callee_save___pv_queued_spin_unlock_slowpath"],
    ),
];

/// A function that the sources define.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Definition {
    pub(super) name: String,
    /// Folder of the source file, ends with a slash.
    pub(super) folder: String,
    pub(super) unit: Unit,
}

/// The series, such as `5.10`, of the tree at `root`.
pub(super) fn series(root: &Path) -> Result<String> {
    let makefile = root.join("Makefile");
    let text = fs::read_to_string(&makefile)
        .with_context(|| format!("`{}` is not a kernel tree", root.display()))?;
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix('='));
        line.map(|value| value.trim().to_owned())
            .with_context(|| format!("`{}` has no {name}", makefile.display()))
    };
    Ok(format!("{}.{}", value("VERSION")?, value("PATCHLEVEL")?))
}

/// Every definition of the tree at `root`, whose `.config` is the kernel's.
pub(super) fn definitions(root: &Path) -> Result<BTreeSet<Definition>> {
    let path = root.join(".config");
    let config = fs::read_to_string(&path)
        .with_context(|| format!("`{}` is needed: the kernel's own", path.display()))?;
    let mut config = Config::parse(&config);
    let (folders, files) = sources(root)?;
    let build = Build::evaluate(root, &folders, &config);
    for file in files.iter().filter(|file| file.starts_with("arch/x86/include")) {
        define(&read(root, file)?, &mut config);
    }
    let scans = scans(root, &files, &config)?;
    let units = units(&files, &scans, &build);
    let mut names: BTreeMap<&str, Vec<Candidate>> = BTreeMap::new();
    for (file, scan) in &scans {
        // A header's code for other configurations is mostly a stub.
        let header = file.extension().is_some_and(|ending| ending == "h");
        for found in scan.functions.iter().filter(|found| !header || found.kept != Some(false)) {
            let folder = found.folder.map_or_else(|| parent(file), str::to_owned);
            let unbuilt = BTreeSet::from([Unit::Unbuilt]);
            for unit in units.get(*file).filter(|_| found.kept != Some(false)).unwrap_or(&unbuilt) {
                let candidate = Candidate { folder: folder.clone(), unit: unit.clone(), found };
                names.entry(&found.name).or_default().push(candidate);
            }
        }
    }
    let mut definitions: BTreeSet<Definition> = names.into_values().flat_map(decide).collect();
    for (folder, name) in
        ASSEMBLED.iter().flat_map(|(folder, names)| names.iter().map(move |name| (*folder, *name)))
    {
        if !definitions.iter().any(|one| one.name == name && one.unit == Unit::BuiltIn) {
            definitions.insert(Definition {
                name: name.to_owned(),
                folder: folder.to_owned(),
                unit: Unit::BuiltIn,
            });
        }
    }
    Ok(definitions)
}

fn read(root: &Path, file: &Path) -> Result<String> {
    let bytes = fs::read(root.join(file)).with_context(|| format!("`{}` cannot be read", file.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Adds the names that a header of the architecture defines to `config`.
fn define(text: &str, config: &mut Config) {
    let lines = Lines::new(text, config);
    for (_, line) in text.lines().enumerate().filter(|(number, _)| lines.kept(number + 1) == Some(true)) {
        let definition = line.strip_prefix('#').and_then(|line| line.trim_start().strip_prefix("define"));
        let name = definition.and_then(|text| text.split_whitespace().next()).unwrap_or_default();
        config.define(name.split('(').next().unwrap_or_default());
    }
}

/// Reads every file, the headers twice: their macros come first.
fn scans<'a>(root: &Path, files: &'a [PathBuf], config: &Config) -> Result<HashMap<&'a Path, Scan>> {
    let mut shared = Macros::default();
    let mut folders: HashMap<&Path, Macros> = HashMap::new();
    for file in files.iter().filter(|file| file.extension().is_some_and(|ending| ending == "h")) {
        let for_all = file.starts_with("include") || file.starts_with("arch/x86/include");
        let folder = file.parent().unwrap_or(Path::new(""));
        let macros = if for_all { &mut shared } else { folders.entry(folder).or_default() };
        let text = read(root, file)?;
        let lines = Lines::new(&text, config);
        macros.read(&text, |line| lines.kept(line) != Some(false));
    }
    let mut scans = HashMap::new();
    let none = Macros::default();
    for file in files {
        let text = read(root, file)?;
        let near = file.parent().and_then(|folder| folders.get(folder)).unwrap_or(&none);
        let assembler = file.extension().is_some_and(|ending| ending == "S");
        let scan = if assembler {
            Scan::of_assembler(&text, config)
        } else {
            Scan::of_c(&text, config, [near, &shared])
        };
        scans.insert(file.as_path(), scan);
    }
    Ok(scans)
}

/// A definition before it is compared with others of its name.
struct Candidate<'a> {
    folder: String,
    unit: Unit,
    found: &'a Found,
}

/// The definitions of one name that count. A weak function does not count if another one is built in. A
/// header's inline function replaces a global one of its name if a kernel lacks that: if it is under a
/// condition, or if the header is for all architectures and the other one is built in, which C would not
/// accept together. One of asm-generic replaces the architecture's.
fn decide(candidates: Vec<Candidate<'_>>) -> Vec<Definition> {
    let any = |holds: &dyn Fn(&Candidate<'_>) -> bool| candidates.iter().any(holds);
    let for_all = |one: &Candidate<'_>| {
        one.folder.starts_with("include/") || one.folder.starts_with("arch/x86/include/")
    };
    let strong = any(&|one| one.unit == Unit::BuiltIn && !one.found.weak && one.found.kept.is_some());
    let built_in = any(&|one| {
        let part = one.unit == Unit::BuiltIn || one.unit == Unit::Header && !for_all(one);
        part && !one.found.local && one.found.kept.is_some()
    });
    let global = any(&|one| !one.found.local && matches!(one.unit, Unit::BuiltIn | Unit::Module(_)));
    let own = any(&|one| one.unit == Unit::Header && one.folder.starts_with("arch/x86/include/"));
    let stands_in = |one: &Candidate<'_>| {
        let generic = one.folder.starts_with("include/asm-generic/");
        one.found.kept.is_none() && global || for_all(one) && built_in || generic && own
    };
    let counts = |one: &Candidate<'_>| match one.unit {
        Unit::BuiltIn => !(one.found.weak && strong),
        Unit::Header => !(one.found.local && stands_in(one)),
        _ => true,
    };
    let counted: Vec<bool> = candidates.iter().map(counts).collect();
    let definition =
        |one: Candidate<'_>| Definition { name: one.found.name.clone(), folder: one.folder, unit: one.unit };
    candidates
        .into_iter()
        .zip(counted)
        .filter(|(_, counted)| *counted)
        .map(|(one, _)| definition(one))
        .collect()
}

/// The file's folder with a slash at its end.
fn parent(file: &Path) -> String {
    format!("{}/", file.parent().unwrap_or(Path::new("")).display())
}

/// Folders and source files of the tree, relative to it.
fn sources(root: &Path) -> Result<(Vec<PathBuf>, Vec<PathBuf>)> {
    let (mut folders, mut files) = (Vec::new(), Vec::new());
    let mut open = vec![PathBuf::new()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(root.join(&folder))? {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            // The architecture's headers for 32 bits.
            let narrow = path.starts_with("arch/x86/include") && path.to_string_lossy().ends_with("_32.h");
            let foreign = narrow
                || FOREIGN.split_whitespace().any(|foreign| path == Path::new(foreign))
                || (path.starts_with("arch")
                    && path.components().count() > 1
                    && !path.starts_with("arch/x86"));
            if entry.file_type()?.is_dir() && !foreign {
                open.push(path);
            } else if !foreign
                && path.extension().is_some_and(|ending| ["c", "h", "S"].iter().any(|known| ending == *known))
            {
                files.push(path);
            }
        }
        folders.push(folder);
    }
    Ok((folders, files))
}

/// Units of each file: a header's own, a makefile's word, or those of the source that includes it.
fn units(files: &[PathBuf], scans: &HashMap<&Path, Scan>, build: &Build) -> HashMap<PathBuf, BTreeSet<Unit>> {
    let mut units = HashMap::new();
    let mut open = VecDeque::new();
    for file in files {
        let own = if file.extension().is_some_and(|ending| ending == "h") {
            BTreeSet::from([Unit::Header])
        } else {
            build.units(file)
        };
        open.push_back((file.clone(), own));
    }
    while let Some((file, own)) = open.pop_front() {
        if own.is_empty() {
            continue;
        }
        let known: &mut BTreeSet<Unit> = units.entry(file.clone()).or_default();
        let before = known.len();
        known.extend(own.iter().cloned());
        if known.len() > before {
            let folder = file.parent().unwrap_or(Path::new(""));
            let included = scans.get(file.as_path()).into_iter().flat_map(|scan| &scan.included);
            open.extend(included.map(|name| (normal(&folder.join(name)), own.clone())));
        }
    }
    units
}

fn normal(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut normal, part| {
        if part.as_os_str() == ".." {
            normal.pop();
        } else {
            normal.push(part);
        }
        normal
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(kept: Option<bool>, weak: bool, local: bool) -> Found {
        Found { name: "f".to_owned(), folder: None, kept, weak, local }
    }

    fn folders(candidates: &[(&str, Unit, Found)]) -> Vec<String> {
        let candidate = |(folder, unit, found)| Candidate { folder: str::to_owned(folder), unit, found };
        let candidates =
            candidates.iter().map(|(folder, unit, found)| candidate((*folder, unit.clone(), found)));
        decide(candidates.collect()).into_iter().map(|definition| definition.folder).collect()
    }

    #[test]
    fn a_weak_function_gives_way() {
        let weak = || ("kernel/", Unit::BuiltIn, found(Some(true), true, false));
        assert_eq!(
            folders(&[weak(), ("arch/x86/mm/", Unit::BuiltIn, found(Some(true), false, false))]),
            ["arch/x86/mm/"]
        );
        assert_eq!(
            folders(&[weak(), ("mm/", Unit::Module("m".to_owned()), found(Some(true), false, false))]).len(),
            2
        );
        assert_eq!(folders(&[weak()]), ["kernel/"]);
    }

    #[test]
    fn a_header_stands_in_for_what_a_kernel_lacks() {
        let inline = |folder, kept| (folder, Unit::Header, found(kept, false, true));
        let global = || ("mm/", Unit::BuiltIn, found(Some(true), false, false));
        let local = || ("mm/", Unit::BuiltIn, found(Some(true), false, true));
        assert_eq!(folders(&[inline("include/linux/", Some(true)), global()]), ["mm/"]);
        assert_eq!(folders(&[inline("drivers/a/", None), global()]), ["mm/"]);
        assert_eq!(folders(&[inline("drivers/a/", Some(true)), global()]).len(), 2);
        assert_eq!(folders(&[inline("include/linux/", Some(true)), local()]).len(), 2);
        let both = [inline("include/asm-generic/", Some(true)), inline("arch/x86/include/asm/", Some(true))];
        assert_eq!(folders(&both), ["arch/x86/include/asm/"]);
    }

    #[test]
    fn an_included_source_belongs_to_what_includes_it() {
        let config = Config::parse("");
        let none = Macros::default();
        let files = ["kernel/sched/build.c", "kernel/sched/rt.c", "include/a.h"].map(PathBuf::from);
        let scan = Scan::of_c("#include \"../sched/rt.c\"\n", &config, [&none, &none]);
        let scans = HashMap::from([(files[0].as_path(), scan)]);
        let build = Build::of(&[("kernel/sched/build", Unit::BuiltIn)]);
        let units = units(&files, &scans, &build);
        assert_eq!(units[&files[1]], BTreeSet::from([Unit::BuiltIn]));
        assert_eq!(units[&files[2]], BTreeSet::from([Unit::Header]));
    }

    #[test]
    fn a_path_is_made_plain() {
        assert_eq!(normal(Path::new("arch/x86/kvm/../../../virt/kvm/a.c")), Path::new("virt/kvm/a.c"));
        assert_eq!(parent(Path::new("block/blk-mq.c")), "block/");
    }
}
