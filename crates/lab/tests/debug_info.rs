//! Source directories from debug information, of a small program laid out and compiled as a kernel is.

use iopj_lab::profile::DebugInfo;
use iopj_probe::Symbols;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn succeed(command: &mut Command) -> String {
    let done = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

/// A tree with a function in each of three folders, one of them of a header.
fn sources(tree: &Path) {
    for folder in ["init", "drivers/nvme/host", "include/linux", "build"] {
        fs::create_dir_all(tree.join(folder)).unwrap();
    }
    let header = "__attribute__((noinline)) static int from_header(int x) { return x + 1; }\n";
    fs::write(tree.join("include/linux/header.h"), header).unwrap();
    let main = "int nvme_poll(int);\nint start_kernel(void) { return nvme_poll(1); }\n";
    fs::write(tree.join("init/main.c"), main).unwrap();
    let pci =
        "#include \"../../../include/linux/header.h\"\nint nvme_poll(int x) { return from_header(x); }\n";
    fs::write(tree.join("drivers/nvme/host/pci.c"), pci).unwrap();
}

/// Compiles it in a folder, with a prefix on the sources' paths.
fn compile(from: &Path, prefix: &str, arguments: &[&str]) -> (PathBuf, Symbols) {
    let vmlinux = from.join("vmlinux");
    let mut compiler = Command::new(std::env::var_os("CC").unwrap_or("cc".into()));
    compiler.current_dir(from).args([
        "-O1",
        "-nostdlib",
        "-static",
        "-no-pie",
        "-Wl,-e,start_kernel",
        "-o",
        "vmlinux",
    ]);
    compiler
        .args(arguments)
        .args(["init/main.c", "drivers/nvme/host/pci.c"].map(|file| format!("{prefix}{file}")));
    succeed(&mut compiler);
    let symbols = Symbols::parse(&succeed(Command::new("nm").arg(&vmlinux))).unwrap();
    (vmlinux, symbols)
}

fn directories(vmlinux: &Path, symbols: &Symbols) -> Vec<Option<String>> {
    let debug_info = DebugInfo::open(vmlinux, symbols).unwrap();
    let addresses =
        ["start_kernel", "nvme_poll", "from_header"].map(|name| symbols.address_of(name).unwrap());
    let outside = [0x10];
    addresses.into_iter().chain(outside).map(|address| debug_info.directory(address)).collect()
}

#[test]
fn functions_are_found_in_the_folders_of_their_files() {
    let expected = ["init/", "drivers/nvme/host/", "include/linux/"].map(|folder| Some(folder.to_owned()));
    let tree = tempfile::tempdir().unwrap();
    sources(tree.path());
    let absolute = format!("{}/", tree.path().display());
    let build = tree.path().join("build");
    for (from, prefix) in
        [(tree.path(), ""), (tree.path(), "./"), (build.as_path(), "../"), (&build, absolute.as_str())]
    {
        for arguments in [&["-g"][..], &["-g", "-gdwarf-4", "-gz"]] {
            let (vmlinux, symbols) = compile(from, prefix, arguments);
            let found = directories(&vmlinux, &symbols);
            assert_eq!((&found[..3], &found[3]), (&expected[..], &None), "{prefix} {arguments:?}");
        }
    }
}

#[test]
fn files_without_lines_or_of_another_kernel_are_refused() {
    let tree = tempfile::tempdir().unwrap();
    sources(tree.path());
    let (vmlinux, symbols) = compile(tree.path(), "", &[]);
    let message = DebugInfo::open(&vmlinux, &symbols).unwrap_err().to_string();
    assert!(
        message.contains("vmlinux` gives no source files (it has no lines for start_kernel"),
        "{message}"
    );

    let (vmlinux, symbols) = compile(tree.path(), "", &["-g"]);
    let shifted = format!("{:x} T start_kernel\n", symbols.address_of("nvme_poll").unwrap());
    let message = DebugInfo::open(&vmlinux, &Symbols::parse(&shifted).unwrap()).unwrap_err().to_string();
    assert!(message.contains("pci.c: it is another kernel's): name the vmlinux"), "{message}");

    fs::write(&vmlinux, "no ELF").unwrap();
    assert!(DebugInfo::open(&vmlinux, &symbols).is_err());
}
