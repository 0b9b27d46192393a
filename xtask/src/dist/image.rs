//! The container image, from scratch, as a tar of OCI's image layout: the program, the libraries of glibc
//! that it needs, the licences. Neither a registry nor a daemon is asked.
//!
//! It has glibc, and not a program of its own that is linked statically with musl, because it is to have the
//! one program of all packages, and because POSIX AIO is a part of the C library: another library's threads
//! would be another path.

use crate::dist::arch::Arch;
use crate::dist::contents::Sources;
use crate::dist::libc::Libc;
use crate::shell;
use crate::tree::{self, Tree, gzip, read, sha256, tar};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The user of the image; it needs no entry in a list of users.
const USER: &str = "65532:65532";
/// By what the image is called where it is loaded: a version alone would be taken for the name.
pub(crate) const REFERENCE: &str = "org.opencontainers.image.ref.name";
/// Where a user's folder is mounted.
const DATA: &str = "data";

/// What an image is made of, but for the program.
pub(crate) struct Image<'a> {
    pub(crate) sources: &'a Sources<'a>,
    pub(crate) arch: &'a Arch,
    pub(crate) epoch: u64,
    /// How much time to spend on compression, from 0 to 9.
    pub(crate) level: u32,
}

impl Image<'_> {
    /// Makes `NAME.oci.tar` in `out`, with `work` for what is in between; its name.
    ///
    /// # Errors
    /// A library is missing, or a tool fails.
    pub(crate) fn make(&self, program: &Path, work: &Path, out: &Path) -> Result<String> {
        let Image { sources, arch, epoch, level } = *self;
        let (root, libc) = root(sources, arch, program)?;
        let layer = work.join("layer.tar");
        tar(&root.write(&work.join("root"))?, ".", epoch, &layer)?;
        let layout = Layout::new(work.join("layout"))?;
        let bytes = read(&layer)?;
        let unpacked = layout.digest(&bytes)?;
        let layer = layout.blob("application/vnd.oci.image.layer.v1.tar+gzip", &gzip(&bytes, level)?)?;
        let config = config(sources.version, arch, &libc, &unpacked, &created(epoch)?);
        let config = layout.json("application/vnd.oci.image.config.v1+json", &config)?;
        let kind = "application/vnd.oci.image.manifest.v1+json";
        let manifest = json!({"schemaVersion": 2, "mediaType": kind, "config": config, "layers": [layer]});
        let mut manifest = layout.json(kind, &manifest)?;
        manifest["annotations"] = json!({REFERENCE: format!("iopj:{}", sources.version)});
        manifest["platform"] = json!({"architecture": arch.debian, "os": "linux"});
        layout.end(&manifest)?;
        let name = format!("iopj-{}-{}.oci.tar", sources.version, arch.gnu);
        tar(&layout.0, ".", epoch, &out.join(&name))?;
        Ok(name)
    }
}

/// The files of the image, and which glibc is in it.
fn root(sources: &Sources<'_>, arch: &Arch, program: &Path) -> Result<(Tree, String)> {
    let mut tree = Tree::default();
    tree.program("usr/bin/iopj", read(program)?);
    let libc = Libc::of(sources.workspace, arch)?;
    let libraries = format!("lib/{}", arch.gnu);
    for name in needed(program, &libc.folder)? {
        tree.program(format!("{libraries}/{name}"), read(&libc.folder.join(&name))?);
        if name.starts_with("ld-linux") {
            let loader = loader(program)?;
            let up = "../".repeat(loader.split('/').count() - 1);
            tree.link(loader, format!("{up}{libraries}/{name}"));
        }
    }
    tree = tree.with(&sources.notices.files("usr/share/doc/iopj"));
    tree.file("usr/share/doc/libc6/copyright", read(&libc.copyright)?);
    tree.copy("usr/share/iopj/studies", sources.workspace, "studies")?;
    tree.folder(DATA, 0o1777);
    tree.folder("tmp", 0o1777);
    Ok((tree, libc.name))
}

/// The libraries that the program needs, and those that they need, and the loader.
fn needed(program: &Path, folder: &Path) -> Result<Vec<String>> {
    let mut open = vec![program.to_owned()];
    let mut found: Vec<String> = Vec::new();
    while let Some(file) = open.pop() {
        let dynamic = shell::output(Command::new("readelf").args(["--dynamic", "--wide"]).arg(&file))?;
        for name in bracketed(&dynamic, "(NEEDED)") {
            if found.iter().all(|known| known != name) {
                found.push(name.to_owned());
                open.push(folder.join(name));
            }
        }
    }
    ensure!(
        found.iter().any(|name| name.starts_with("ld-linux")),
        "no library of {} needs the loader",
        program.display()
    );
    found.sort();
    Ok(found)
}

/// Where the program expects the loader, without the first slash.
fn loader(program: &Path) -> Result<String> {
    let headers = shell::output(Command::new("readelf").args(["--program-headers", "--wide"]).arg(program))?;
    let path = bracketed(&headers, "program interpreter").next();
    let path = path.and_then(|text| text.rsplit(": /").next()).context("the program names no loader")?;
    Ok(path.to_owned())
}

/// What stands in brackets in the lines with `word`.
fn bracketed<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = &'a str> {
    let lines = text.lines().filter(move |line| line.contains(word));
    lines.filter_map(|line| Some(line.split_once('[')?.1.split_once(']')?.0))
}

fn created(epoch: u64) -> Result<String> {
    let date = ["--utc", "--date", &format!("@{epoch}"), "+%Y-%m-%dT%H:%M:%SZ"];
    Ok(shell::output(Command::new("date").args(date))?.trim().to_owned())
}

fn config(version: &str, arch: &Arch, libc: &str, layer: &str, created: &str) -> Value {
    json!({
        "created": created,
        "architecture": arch.debian,
        "os": "linux",
        "config": {
            "User": USER,
            "WorkingDir": format!("/{DATA}"),
            "Entrypoint": ["/usr/bin/iopj"],
            "Cmd": ["--help"],
            "Env": ["PATH=/usr/bin", "HOME=/tmp"],
            "Labels": {
                "org.opencontainers.image.title": "iopj",
                "org.opencontainers.image.description": "Measures what one I/O costs on every Linux I/O path",
                "org.opencontainers.image.version": version,
                "org.opencontainers.image.licenses": "(MIT OR Apache-2.0) AND LGPL-2.1-or-later",
                "org.opencontainers.image.created": created,
                "iopj.glibc": libc,
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{layer}")]},
        "history": [{"created": created, "created_by": "cargo xtask dist"}],
    })
}

/// A folder in OCI's image layout.
struct Layout(PathBuf);

impl Layout {
    fn new(folder: PathBuf) -> Result<Layout> {
        let mut tree = Tree::default();
        tree.folder("blobs/sha256", 0o755);
        tree.file("oci-layout", json!({"imageLayoutVersion": "1.0.0"}).to_string());
        Ok(Layout(tree.write(&folder)?))
    }

    /// The SHA-256 of these bytes.
    fn digest(&self, bytes: &[u8]) -> Result<String> {
        let name = "blobs/new";
        fs::write(self.0.join(name), bytes)?;
        let line = sha256(&self.0, [name])?;
        fs::remove_file(self.0.join(name))?;
        Ok(line.split(' ').next().unwrap_or_default().to_owned())
    }

    /// Writes a blob; its descriptor.
    fn blob(&self, kind: &str, bytes: &[u8]) -> Result<Value> {
        let digest = self.digest(bytes)?;
        let path = self.0.join("blobs/sha256").join(&digest);
        fs::write(&path, bytes).with_context(|| path.display().to_string())?;
        tree::readable(&path)?;
        Ok(json!({"mediaType": kind, "digest": format!("sha256:{digest}"), "size": bytes.len()}))
    }

    fn json(&self, kind: &str, value: &Value) -> Result<Value> {
        self.blob(kind, value.to_string().as_bytes())
    }

    /// Writes the index.
    fn end(&self, manifest: &Value) -> Result<()> {
        let kind = "application/vnd.oci.image.index.v1+json";
        let index = json!({"schemaVersion": 2, "mediaType": kind, "manifests": [manifest]});
        let path = self.0.join("index.json");
        fs::write(&path, index.to_string()).with_context(|| path.display().to_string())?;
        tree::readable(&path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_and_the_loader_are_read_from_what_readelf_says() {
        let dynamic = " 0x1 (NEEDED)  Shared library: [libm.so.6]\n 0x1 (SONAME)  Library soname: [x]\n";
        assert_eq!(bracketed(dynamic, "(NEEDED)").collect::<Vec<_>>(), ["libm.so.6"]);
        let own = std::env::current_exe().unwrap();
        let loader = loader(&own).unwrap();
        assert!(loader.starts_with("lib") && loader.contains("/ld-linux"), "{loader}");
    }
}
