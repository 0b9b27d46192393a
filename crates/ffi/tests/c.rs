//! C programs against the static library: the example, and random misuse under the address sanitizer.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::SystemTime;
use tempfile::TempDir;

/// What Rust's standard library needs of the system (`rustc --print native-static-libs`).
const LIBRARIES: [&str; 6] = ["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl"];

/// Calls and seed of the short run.
const CALLS: u32 = 6_000;
const SEED: u32 = 10;

/// Below `target/`, which is on a disk's file system.
fn folder() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn in_crate(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// True to go on; otherwise the test is skipped, or fails under CI.
fn have(condition: bool, what: &str) -> bool {
    if !condition {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "needs {what}");
        eprintln!("skipped: needs {what}");
    }
    condition
}

/// The static library that cargo built for these tests. Cargo keeps those of other features beside it; the
/// newest is of the present sources, whatever its features are.
fn library() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let entries = fs::read_dir(program.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        name.starts_with("libiopj_ffi-") && name.ends_with(".a")
    };
    let built =
        |path: &PathBuf| fs::metadata(path).and_then(|it| it.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    entries.filter(is_ours).max_by_key(built).expect("cargo built libiopj_ffi.a beside its tests")
}

/// Compiles a C program of the crate with the static library; `None` without a compiler.
fn compile(folder: &Path, source: &str, options: &[&str]) -> Option<PathBuf> {
    let has_compiler = Command::new("cc").arg("--version").output().is_ok();
    if !have(has_compiler, "a C compiler (apt-get install gcc libc6-dev)") {
        return None;
    }
    let program = folder.join("program");
    let mut command = Command::new("cc");
    command.args(["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-g"]).args(options);
    command.arg("-I").arg(in_crate("include")).arg("-o").arg(&program).arg(in_crate(source));
    said(command.arg(library()).args(LIBRARIES).output().unwrap());
    Some(program)
}

/// What a program that must succeed says.
fn said(output: Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}: {}", output.status, text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn the_example_reads_a_file_on_the_path_that_is_named() {
    let folder = folder();
    let Some(program) = compile(folder.path(), "examples/read.c", &["-O1"]) else { return };
    let file = folder.path().join("data");
    iopj_engine::target::make_file(&file, 1 << 20, &mut |_| true).unwrap();
    let read =
        |path: &str, file: &Path| Command::new(&program).arg(path).arg(file).arg("500").output().unwrap();
    for path in ["posix-aio/syscall/interrupt", "libaio/syscall/interrupt"] {
        assert_eq!(said(read(path, &file)), format!("500 reads, 2048000 bytes on {path}\n"));
    }
    // An engine that chooses its way reads the same; what it decided comes by itself.
    for path in ["auto", "auto:cpu"] {
        assert_eq!(said(read(path, &file)), format!("500 reads, 2048000 bytes on {path}\n"));
    }
    let refused = String::from_utf8(read("auto:speed", &file).stderr).unwrap();
    assert!(refused.contains("`speed` is no aim"), "{refused}");
    let refused = read("nvme-user/doorbell/poll", &file);
    let reason = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(reason.starts_with("nvme-user/doorbell/poll: ") && reason.contains("; "), "{reason}");
    let refused = String::from_utf8(read("posix-sio/syscall/interrupt", &file).stderr).unwrap();
    assert!(refused.contains("cannot keep iodepth 32: use iodepth 1"), "{refused}");
    let missing = read("libaio/syscall/interrupt", &folder.path().join("nothing"));
    assert!(String::from_utf8(missing.stderr).unwrap().contains("does not exist: name a file"));
}

/// Runs the C program that misuses the interface, under the address sanitizer.
fn misuse(seeds: impl Iterator<Item = u32>, calls: u32) {
    let folder = folder();
    let sanitizer = Command::new("cc").arg("-print-file-name=libasan.so").output();
    // Without the file, the compiler prints the name that it was asked for.
    let has_sanitizer = sanitizer.is_ok_and(|output| output.stdout.starts_with(b"/"));
    if !have(has_sanitizer, "the address sanitizer (apt-get install gcc libc6-dev)") {
        return;
    }
    let options = ["-O1", "-fsanitize=address", "-fno-omit-frame-pointer"];
    let Some(program) = compile(folder.path(), "tests/misuse.c", &options) else { return };
    for seed in seeds {
        let data = folder.path().join(seed.to_string());
        fs::create_dir(&data).unwrap();
        let mut command = Command::new(&program);
        let text = said(command.arg(&data).arg(calls.to_string()).arg(seed.to_string()).output().unwrap());
        eprintln!("seed {seed}: {}", text.trim());
        let numbers: Vec<u32> = text.split(' ').filter_map(|word| word.parse().ok()).collect();
        let [good, bad, completions] = numbers[..] else { panic!("{text}") };
        // All come often, or the program tests some of them alone.
        assert!(good > calls / 5 && bad > calls / 5 && completions > calls / 20, "{text}");
        fs::remove_dir_all(data).unwrap();
    }
}

#[test]
fn misuse_from_c_is_an_error() {
    misuse(std::iter::once(SEED), CALLS);
}

#[test]
#[ignore = "a soak: cargo xtask soak"]
fn soak_misuse_from_c_is_an_error() {
    misuse(0..200, 20_000);
}
