//! fio as a generator that is missing, too old, not fio, or without an engine.

use crate::common::{folder, install, iopj};
use crate::{PLAIN, refused, refuses};
use std::fs;
use std::path::Path;

/// A program that answers as fio would; asked for anything else, it runs this shell command and fails.
pub(crate) fn false_fio(folder: &Path, version: &str, engines: &str, command: &str) {
    let answers =
        format!("--version) echo '{version}';; --enghelp) printf 'Available IO engines:\\n{engines}';;");
    let source = folder.join("source");
    fs::write(&source, format!("#!/bin/sh\ncase $1 in {answers} *) {command} exit 9;; esac\n")).unwrap();
    install(&source, &folder.join("fio"));
    fs::remove_file(&source).unwrap();
}

#[test]
fn missing_fio_is_said() {
    let folder = folder().with_data(1 << 20);
    for path in ["", "/nonexistent", "."] {
        // A relative folder in PATH is not searched.
        false_fio(&folder, "fio-3.33", "", "");
        let mut command = iopj(&folder, &format!("run --target data --generator fio {PLAIN}"));
        let parts = ["fio is not on PATH", "install the package `fio`, or use --generator native"];
        refused(command.env("PATH", path), &folder, &parts);
    }
}

#[test]
fn unfit_fio_is_refused() {
    let here = &*folder().with_data(1 << 20);
    let study = format!(
        "name = \"t\"\npaths = \"posix-aio/syscall/interrupt\"\ngenerator = \"fio\"\nmeters = \
         \"none\"\n[fio]\nprogram = \"{}\"\n[[workload]]\nios = 200\n",
        here.join("fio").display()
    );
    fs::write(here.join("t.toml"), study).unwrap();
    let run = |parts: &[&str]| {
        // Both as the study's own program and as the installed one.
        refuses(here, "run t.toml --target data --allow-exec", parts);
        let line = "run --target data --meters none --generator fio --path posix-aio/syscall/interrupt \
                    --ios 200 --ramp-time 0s";
        refused(iopj(here, line).env("PATH", format!("{}:/usr/bin:/bin", here.display())), here, parts);
    };
    let name = format!("`{}", here.join("fio").display());
    let remedy = "or use --generator native";
    false_fio(here, "fio-3.27", "posixaio\\n", "");
    run(&[&name, "is fio-3.27, but 3.28 or newer is needed", remedy]);
    false_fio(here, "fio-3.33", "psync\\nio_uring\\n", "");
    run(&[
        "fio-3.33 has no engine `posixaio`, which posix-aio/syscall/interrupt needs",
        "install a fio built with it",
        remedy,
    ]);
    false_fio(here, "flexible tester 3.33", "posixaio\\n", "");
    run(&[&name, "--version` gave no answer (flexible tester 3.33)", "check that this is fio"]);
    fs::write(here.join("fio"), "#!/bin/sh\nexit 3\n").unwrap();
    run(&[&name, "gave no answer (exit status: 3)", "reinstall the package `fio`"]);
    fs::remove_file(here.join("fio")).unwrap();
    let parts = [&*name, "No such file"];
    refuses(here, "run t.toml --target data --allow-exec", &parts);
}
