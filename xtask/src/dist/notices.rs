//! The licences and notices of all that is linked in: as files for any package, and as Debian's copyright.

use crate::dist::bill::Crate;
use crate::shell;
use crate::tree::{Tree, gzip, read};
use crate::workspace::Workspace;
use anyhow::{Context, Result, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// Libraries in C that crates carry along, and where their licence is in the crate.
const CARRIED: [(&str, &str); 2] = [("liblzma-sys", "xz/COPYING.0BSD"), ("ring", "third_party/fiat/LICENSE")];
/// What a file of a licence is called, in capitals.
const NAMES: [&str; 6] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];
/// The notices of Rust's standard library, as Rust comes with them below the compiler's folder.
const RUST: (&str, &str) = ("share/doc/rust", "COPYRIGHT-library.html");
/// What the text of the Apache licence begins and ends with.
const APACHE: [&str; 2] =
    ["TERMS AND CONDITIONS FOR USE, REPRODUCTION, AND DISTRIBUTION", "END OF TERMS AND CONDITIONS"];
/// What takes its place where Debian has it already.
const APACHE_OF_DEBIAN: &str = "On Debian systems, the text is in /usr/share/common-licenses/Apache-2.0.";

/// What is linked in besides crates, with the file of its licence.
pub(crate) type Added = Vec<(String, PathBuf)>;

/// The licences of what a program or a library is linked of.
#[derive(Debug)]
pub(crate) struct Notices {
    /// A line for each crate of others.
    list: String,
    /// Whose texts: what has the same text, by its names.
    texts: Vec<(String, String)>,
    /// Those of Rust's standard library.
    rust: Vec<u8>,
    /// iopj's own: the names of the files, and their texts.
    own: [(&'static str, String); 2],
}

impl Notices {
    /// Those of these crates, and of what else is linked in.
    ///
    /// # Errors
    /// A text is missing.
    pub(crate) fn of(workspace: &Workspace, crates: &[Crate], added: &Added) -> Result<Notices> {
        let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut list = String::new();
        for one in crates.iter().filter(|one| one.checksum.is_some()) {
            let _ = writeln!(list, "{} {}: {}", one.name, one.version, one.licence);
            for text in texts_of(one)? {
                texts.entry(text).or_default().push(format!("{}-{}", one.name, one.version));
            }
        }
        for (name, file) in added {
            let _ = writeln!(list, "{name}: see its text");
            texts.entry(text(file)?).or_default().push(name.clone());
        }
        let mut texts: Vec<_> = texts.into_iter().map(|(text, of)| (of.join(" "), text)).collect();
        texts.sort();
        let sysroot = shell::output(&mut workspace.program("rustc", "--print sysroot"))?;
        let rust = Path::new(sysroot.trim()).join(RUST.0).join(RUST.1);
        let rust = read(&rust).context("Rust's own notices, which its packages by rustup have")?;
        let own = |name| Ok::<_, anyhow::Error>((name, text(&workspace.root.join(name))?));
        Ok(Notices { list, texts, rust, own: [own("LICENSE-MIT")?, own("LICENSE-APACHE")?] })
    }

    /// iopj's licences, the crates with theirs, and the notices of Rust's standard library, in a folder.
    pub(crate) fn files(&self, folder: &str) -> Tree {
        let mut tree = Tree::default();
        for (name, text) in &self.own {
            tree.file(format!("{folder}/{name}"), format!("{text}\n"));
        }
        let mut crates = format!("This is linked of these works of others.\n\n{}", self.list);
        for (of, text) in &self.texts {
            let _ = write!(crates, "\n{}\n{of}\n\n{text}\n", "=".repeat(72));
        }
        tree.file(format!("{folder}/crates.txt"), crates);
        tree.file(format!("{folder}/{}", RUST.1), self.rust.clone());
        tree
    }

    /// What Debian's policy asks of a package: `copyright` with every text, after `head`, which is about
    /// iopj's own; and beside it the notices of Rust's standard library.
    ///
    /// # Errors
    /// The licence is not as it should be.
    pub(crate) fn debian(&self, head: &str, folder: &str) -> Result<Tree> {
        let [(_, mit), _] = &self.own;
        let (_, mit) = mit.split_once("Permission").context("LICENSE-MIT does not permit anything")?;
        let (list, mit) = (indented(&self.list), indented(&format!("Permission{mit}")));
        let mut copyright = head.replace("@CRATES@", list.trim_end()).replace("@MIT@", mit.trim_end());
        let mut texts: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for (of, text) in &self.texts {
            texts.entry(without_apache(text)?).or_default().push(of);
        }
        let mut texts: Vec<_> = texts.into_iter().map(|(text, of)| (of.join(" "), text)).collect();
        texts.sort();
        for (number, (of, text)) in texts.iter().enumerate() {
            let text = indented(text);
            let _ =
                write!(copyright, "\nFiles: {of}\nCopyright: see the text\nLicense: text-{number}\n{text}");
        }
        let mut tree = Tree::default();
        tree.file(format!("{folder}/copyright"), copyright);
        tree.file(format!("{folder}/{}.gz", RUST.1), gzip(&self.rust, 9)?);
        Ok(tree)
    }
}

/// As a field of Debian's control files goes on.
fn indented(text: &str) -> String {
    let line = |line: &str| if line.trim().is_empty() { " .\n".to_owned() } else { format!(" {line}\n") };
    text.lines().map(line).collect()
}

/// A text whose terms of the Apache licence, if it has them, are named instead.
fn without_apache(text: &str) -> Result<String> {
    let Some((before, terms)) = text.split_once(APACHE[0]) else { return Ok(text.to_owned()) };
    let (_, after) = terms.split_once(APACHE[1]).unwrap_or((terms, ""));
    ensure!(before.contains("Apache License"), "a licence has Apache's terms, but not its name");
    Ok(format!("{before}{APACHE_OF_DEBIAN}{after}"))
}

/// The files of licences and notices beside a crate's manifest, and of what it carries along.
fn texts_of(one: &Crate) -> Result<BTreeSet<String>> {
    let folder = Path::new(&one.manifest).parent().context("a manifest without a folder")?;
    let mut texts = BTreeSet::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_uppercase();
        if entry.file_type()?.is_file() && NAMES.iter().any(|start| name.starts_with(start)) {
            texts.insert(text(&entry.path())?);
        }
    }
    for (_, file) in CARRIED.iter().filter(|(name, _)| *name == one.name) {
        texts.insert(text(&folder.join(file))?);
    }
    Ok(texts)
}

fn text(file: &Path) -> Result<String> {
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    Ok(text.replace(['\r', '\u{c}'], "").trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notices(folder: &Path) -> Notices {
        fs::write(folder.join("LICENSE-APACHE"), apache("\nEND OF TERMS AND CONDITIONS\nof a")).unwrap();
        fs::write(folder.join("NOTICE"), "a's\r\n\r\nnotice\n").unwrap();
        let crates = [Crate::of_others("a", &folder.join("Cargo.toml"))];
        let linker = folder.join("linker.txt");
        fs::write(&linker, "linker's text").unwrap();
        Notices::of(&Workspace::find().unwrap(), &crates, &vec![("linker".to_owned(), linker)]).unwrap()
    }

    fn apache(end: &str) -> String {
        format!("Apache License\nVersion 2.0\n{}\n1. Definitions.{end}", APACHE[0])
    }

    fn file(tree: &Tree, path: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        fs::read_to_string(tree.write(folder.path()).unwrap().join(path)).unwrap()
    }

    #[test]
    fn the_notices_of_what_is_linked_in_are_in_every_package() {
        let folder = tempfile::tempdir().unwrap();
        let notices = notices(folder.path());
        let files = notices.files("licences");
        let names: Vec<&str> = files.files().collect();
        let expected = ["COPYRIGHT-library.html", "LICENSE-APACHE", "LICENSE-MIT", "crates.txt"];
        assert_eq!(names, expected.map(|name| format!("licences/{name}")));
        let crates = file(&files, "licences/crates.txt");
        for text in ["a 1.0.0: MIT", "\na-1.0.0\n\na's\n\nnotice\n", "1. Definitions.", "linker's text"] {
            assert!(crates.contains(text), "{text} is not in {crates}");
        }
    }

    #[test]
    fn debians_copyright_has_every_text_but_that_of_apache() {
        let folder = tempfile::tempdir().unwrap();
        let head = "Files: *\nComment:\n@CRATES@\n\nLicense: MIT\n@MIT@\n";
        let debian = notices(folder.path()).debian(head, "doc").unwrap();
        let copyright = file(&debian, "doc/copyright");
        assert!(!copyright.contains("Definitions") && copyright.contains(APACHE_OF_DEBIAN), "{copyright}");
        for text in ["\n a 1.0.0: MIT\n", "\nFiles: a-1.0.0\n", "\n a's\n .\n notice\n", "\n linker's text\n"]
        {
            assert!(copyright.contains(text), "{text} is not in {copyright}");
        }
        assert!(copyright.contains("\nLicense: MIT\n Permission is hereby granted"), "{copyright}");
        assert!(debian.files().any(|name| name == "doc/COPYRIGHT-library.html.gz"));
        let llvm = without_apache(&apache("\nEND OF TERMS AND CONDITIONS\nexceptions")).unwrap();
        assert!(llvm.ends_with("\nexceptions") && !llvm.contains("Definitions"), "{llvm}");
    }
}
