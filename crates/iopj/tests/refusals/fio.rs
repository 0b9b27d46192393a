//! fio as a generator where it is missing, too old, no fio, or without an engine.

use crate::common::{folder, iopj, tool};
use crate::{PLAIN, refused, refuses};
use std::fs;
use std::path::Path;

/// A program that answers as fio would.
fn program(folder: &Path, version: &str, engines: &str) {
    let path = folder.join("fio");
    let answers =
        format!("--version) echo '{version}';; --enghelp) printf 'Available IO engines:\\n{engines}';;");
    let source = folder.join("source");
    fs::write(&source, format!("#!/bin/sh\ncase $1 in {answers} *) exit 9;; esac\n")).unwrap();
    // By a program of its own: what this process writes could still be open in a child of another test, and
    // then not be run.
    tool(&format!("install -m 755 {} {}", source.display(), path.display()));
    fs::remove_file(&source).unwrap();
}

#[test]
fn missing_fio_is_said() {
    let folder = folder().with_data(1 << 20);
    for path in ["", "/nonexistent", "."] {
        // A relative folder in PATH is not searched.
        program(&folder, "fio-3.33", "");
        let mut command = iopj(&folder, &format!("run --target data --generator fio {PLAIN}"));
        let parts = ["fio is not on PATH", "install the package `fio`, or use --generator native"];
        refused(command.env("PATH", path), &folder, &parts);
    }
}

#[test]
fn unfit_fio_is_refused() {
    let here = &*folder().with_data(1 << 20);
    let study = format!(
        "name = \"t\"\npaths = \"posix-aio/syscall/interrupt\"\ngenerator = \"fio\"\n[fio]\nprogram = \
         \"{}\"\n[[workload]]\nios = 200\n",
        here.join("fio").display()
    );
    fs::write(here.join("t.toml"), study).unwrap();
    let run = |parts: &[&str]| {
        // Both as the study's own program and as the installed one.
        refuses(here, "run t.toml --target data --allow-exec", parts);
        let line =
            "run --target data --generator fio --path posix-aio/syscall/interrupt --ios 200 --ramp-time 0s";
        refused(iopj(here, line).env("PATH", format!("{}:/usr/bin:/bin", here.display())), here, parts);
    };
    let name = format!("`{}", here.join("fio").display());
    let remedy = "or use --generator native";
    program(here, "fio-3.27", "posixaio\\n");
    run(&[&name, "is fio-3.27, but 3.28 or newer is needed", remedy]);
    program(here, "fio-3.33", "psync\\nio_uring\\n");
    run(&[
        "fio-3.33 has no engine `posixaio`, which posix-aio/syscall/interrupt needs",
        "install a fio built with it",
        remedy,
    ]);
    program(here, "flexible tester 3.33", "posixaio\\n");
    run(&[&name, "--version` gave no answer (flexible tester 3.33)", "check that this is fio"]);
    fs::write(here.join("fio"), "#!/bin/sh\nexit 3\n").unwrap();
    run(&[&name, "gave no answer (exit status: 3)", "reinstall the package `fio`"]);
    fs::remove_file(here.join("fio")).unwrap();
    let parts = [&*name, "No such file"];
    refuses(here, "run t.toml --target data --allow-exec", &parts);
}
