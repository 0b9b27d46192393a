//! The module as cargo builds it: Python loads it, and it needs no library of Python's.

use std::path::PathBuf;
use std::process::Command;

/// What cargo builds beside this test.
fn module() -> PathBuf {
    std::env::current_exe().unwrap().with_file_name("libiopj_native.so")
}

/// One wheel is for every Python from 3.11 on: the interpreter that loads the module has what it needs.
#[test]
fn the_module_needs_no_library_of_one_python_and_has_its_entry() {
    let read = |option: &str| {
        let output = Command::new("readelf").args(["--wide", option]).arg(module()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let needed = read("--dynamic");
    assert!(needed.contains("NEEDED") && !needed.contains("libpython"), "{needed}");
    assert!(read("--dyn-syms").lines().any(|line| line.ends_with(" PyInit__native")));
}
