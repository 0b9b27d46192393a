//! `cargo xtask ffi`: the libraries of the C interface, with its header and its pkg-config file; and whether
//! header, symbols and example agree.

use crate::options::Options;
use crate::shell;
use crate::workspace::Workspace;
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The crate's folder.
pub(crate) const CRATE: &str = "crates/ffi";
/// The library's name for those that link to it.
pub(crate) const SONAME: &str = "libiopj.so.0";
/// The version of every symbol.
pub(crate) const VERSION: &str = "IOPJ_0";
/// What Rust's standard library needs of the system (`rustc --print native-static-libs`).
const LIBRARIES: &str = "-lutil -lrt -lpthread -lm -ldl -lc";
/// The compiler's library that unwinds the stack; Debian's compiler has it here.
const UNWINDER: &str = "-lgcc_s";
/// Told to the test that compares the header, it writes the header.
const WRITE_HEADER: &str = "IOPJ_WRITE_HEADER";

pub(crate) fn run(workspace: &Workspace, mut options: Options) -> Result<()> {
    let (checks, writes) = (options.flag("--check"), options.flag("--header"));
    options.end()?;
    if writes {
        let mut command = header_test(workspace);
        shell::step("header", command.env(WRITE_HEADER, "1"))?;
    }
    let folder = build(workspace)?;
    if checks { check(workspace, &folder) } else { Ok(()) }
}

/// Builds the libraries and checks them.
pub(crate) fn check_built(workspace: &Workspace) -> Result<()> {
    check(workspace, &build(workspace)?)
}

/// The test by which cbindgen writes the header, or what it would write is compared.
fn header_test(workspace: &Workspace) -> Command {
    // With the features of all tests, whose build it shares.
    workspace
        .cargo("test --workspace --all-features --test header the_committed_header_is_what_cbindgen_writes")
}

/// Builds the libraries; returns their folder.
fn build(workspace: &Workspace) -> Result<PathBuf> {
    // Of the crate's two kinds of library, only the one that is shipped.
    let words = "rustc --release --package iopj-ffi --lib --crate-type staticlib";
    shell::step("static library", &mut workspace.cargo(words))?;
    let (folder, source) = (workspace.target.join("ffi"), workspace.root.join(CRATE));
    fs::create_dir_all(&folder)?;
    let put = |from: PathBuf, name: &str| {
        fs::copy(&from, folder.join(name)).with_context(|| format!("{} cannot be copied", from.display()))
    };
    put(workspace.target.join("release/libiopj_ffi.a"), "libiopj.a")?;
    put(source.join("include/iopj.h"), "iopj.h")?;
    let version = workspace.metadata["packages"][0]["version"].as_str().context("no version")?;
    fs::write(folder.join("iopj.pc"), pkg_config(version, "${pcfiledir}", "${prefix}", "${prefix}"))?;
    link(workspace, &folder, &mut Command::new("cc"), UNWINDER)?;
    let size = |name: &str| Ok::<_, anyhow::Error>(fs::metadata(folder.join(name))?.len() as f64 / 1e6);
    println!(
        "{}: {SONAME} {:.1} MB, libiopj.a {:.1} MB",
        folder.display(),
        size(SONAME)?,
        size("libiopj.a")?
    );
    Ok(folder)
}

/// Links the shared library from the static one: cargo's own would have no SONAME, and export what the
/// version script hides. It is never unloaded, because threads may be about to run its destructors.
///
/// # Errors
/// The compiler's own.
pub(crate) fn link(
    workspace: &Workspace,
    folder: &Path,
    command: &mut Command,
    unwinder: &str,
) -> Result<()> {
    let map = workspace.root.join(CRATE).join("iopj.map");
    command.current_dir(folder).args(["-shared", "-o", SONAME, &format!("-Wl,-soname,{SONAME}")]);
    command.arg(format!("-Wl,--version-script={}", map.display()));
    command.args(["-Wl,--gc-sections", "-Wl,-z,defs", "-Wl,-z,relro,-z,now", "-Wl,-z,nodelete", "-Wl,-s"]);
    command.args(["-Wl,--whole-archive", "libiopj.a", "-Wl,--no-whole-archive"]);
    shell::step("shared library", command.arg(unwinder).args(LIBRARIES.split(' ')))?;
    let name = folder.join("libiopj.so");
    if name.symlink_metadata().is_ok() {
        fs::remove_file(&name)?;
    }
    std::os::unix::fs::symlink(SONAME, &name).context("libiopj.so")
}

/// The pkg-config file of a library whose files are in these folders.
pub(crate) fn pkg_config(version: &str, prefix: &str, headers: &str, libraries: &str) -> String {
    format!(
        "prefix={prefix}\nincludedir={headers}\nlibdir={libraries}\n\nName: iopj\n\
         Description: Every way that Linux offers to do one I/O\nVersion: {version}\n\
         Cflags: -I${{includedir}}\nLibs: -L${{libdir}} -liopj\nLibs.private: {UNWINDER} {LIBRARIES}\n"
    )
}

/// Whether the header is what cbindgen writes, the symbols are the header's, and the example works.
fn check(workspace: &Workspace, folder: &Path) -> Result<()> {
    shell::step("the header is cbindgen's", &mut header_test(workspace))?;
    shell::timed("symbols", || {
        let library = folder.join(SONAME);
        let dynamic = shell::output(Command::new("readelf").args(["--dynamic", "--wide"]).arg(&library))?;
        ensure!(dynamic.contains(&format!("soname: [{SONAME}]")), "the library has not the SONAME {SONAME}");
        let symbols = ["--dynamic", "--defined-only", "--with-symbol-versions"];
        let symbols = exported(&shell::output(Command::new("nm").args(symbols).arg(&library))?);
        let functions = functions(&fs::read_to_string(folder.join("iopj.h"))?);
        let differ: Vec<&String> = symbols.symmetric_difference(&functions).collect();
        if functions.is_empty() || !differ.is_empty() {
            bail!("only the header or only the library has {differ:?}; both have {}", functions.len());
        }
        println!("{} functions", functions.len());
        Ok(())
    })?;
    shell::timed("the example in C", || example(workspace, folder))
}

/// What `nm` lists, each with its version, but for the name of the version itself.
fn exported(listed: &str) -> BTreeSet<String> {
    let names = listed.lines().filter_map(|line| line.split_whitespace().next_back());
    names
        .filter(|name| *name != VERSION && *name != format!("{VERSION}@@{VERSION}"))
        .map(str::to_owned)
        .collect()
}

/// The functions that a header declares, each with its version.
pub(crate) fn functions(header: &str) -> BTreeSet<String> {
    let lines = header.lines().filter(|line| !line.starts_with(['/', ' ', '#']));
    let names = lines.filter_map(|line| line.split_once('(')?.0.rsplit([' ', '*']).next());
    names.filter(|name| name.starts_with("iopj_")).map(|name| format!("{name}@@{VERSION}")).collect()
}

/// Compiles the example by pkg-config, and lets it read a file with the shared library.
fn example(workspace: &Workspace, folder: &Path) -> Result<()> {
    let mut command = Command::new("pkg-config");
    let flags = shell::output(command.env("PKG_CONFIG_PATH", folder).args(["--cflags", "--libs", "iopj"]))?;
    let (program, data) = (folder.join("read"), folder.join("read-data"));
    let mut compiler = Command::new("cc");
    compiler.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-O2", "-o"]).arg(&program);
    compiler.arg(workspace.root.join(CRATE).join("examples/read.c")).args(flags.split_whitespace());
    shell::output(&mut compiler)?;
    let bytes: Vec<u8> = (0..1_u32 << 20).map(|at| at.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    fs::write(&data, bytes)?;
    fs::File::open(&data)?.sync_all()?;
    let mut read = Command::new(&program);
    read.env("LD_LIBRARY_PATH", folder).arg("libaio/syscall/interrupt").arg(&data).arg("1000");
    let said = shell::output(&mut read);
    [program, data].iter().try_for_each(fs::remove_file)?;
    let said = said?;
    ensure!(said.starts_with("1000 reads, 4096000 bytes"), "the example says {said}");
    print!("{said}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_and_functions_are_compared_with_their_version() {
        let listed = "0000000000001000 T iopj_a@@IOPJ_0\n0000000000000000 A IOPJ_0@@IOPJ_0\n";
        assert_eq!(Vec::from_iter(exported(listed)), ["iopj_a@@IOPJ_0"]);
        let header = "// iopj_x(y) says\nconst char *iopj_b(void);\nint32_t iopj_a(int a,\n    int b);\n\
                      struct iopj_s {\n    int x;\n};\n#define iopj_y(x) x\n";
        assert_eq!(Vec::from_iter(functions(header)), ["iopj_a@@IOPJ_0", "iopj_b@@IOPJ_0"]);
        assert_ne!(exported("0 T iopj_a\n"), functions("int iopj_a(void);\n"), "it has no version");
    }

    #[test]
    fn the_pkg_config_file_finds_its_own_folder() {
        let text = pkg_config("1.2.3", "${pcfiledir}", "${prefix}", "${prefix}");
        assert!(text.starts_with("prefix=${pcfiledir}\n") && text.contains("\nVersion: 1.2.3\n"), "{text}");
    }
}
