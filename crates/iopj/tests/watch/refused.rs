//! What cannot be watched: one message with thing, cause and remedy, exit code 2, and nothing is started.

use crate::common;
use iopj_store::Store;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

#[track_caller]
fn refuses(folder: &Path, line: &str, parts: &[&str]) {
    let words = common::refusal(folder, line);
    assert_eq!(words.lines().filter(|line| line.starts_with("iopj: ")).count(), 1, "{words}");
    common::says(&words, parts);
}

#[test]
fn a_program_that_is_missing_or_no_program_is_refused() {
    let folder = common::folder().with_data(10);
    let missing = "there is no program `no-such-program`: name a file, or a program in one of the folders";
    refuses(&folder, "watch -- no-such-program --flag", &[missing]);
    refuses(&folder, "watch -- ./data", &["the program `./data` cannot be started", "Permission denied"]);
}

#[test]
fn processes_groups_and_devices_that_are_not_there_are_refused() {
    let folder = common::folder().with_data(10);
    // The greatest number of a process on any Linux is 4,194,304.
    refuses(&folder, "watch --pid 4194305", &["there is no process 4194305", "ps -e"]);
    refuses(&folder, "watch --cgroup no/such.slice", &["no control group `no/such.slice`", "/sys/fs/cgroup"]);
    refuses(&folder, "watch --device ./data", &["`./data` is not a block device", "lsblk"]);
    refuses(&folder, "watch --device ./none", &["`./none` is not a block device", "No such file"]);
}

/// A folder that is everybody's, with iopj in it.
fn folder_of_nobody() -> Option<common::TestFolder> {
    if !common::have(common::is_root(), "root, to become nobody") {
        return None;
    }
    let folder = common::TestFolder::in_folder("/var/tmp").unwrap();
    common::install(Path::new(env!("CARGO_BIN_EXE_iopj")), &folder.join("iopj"));
    std::fs::set_permissions(&*folder, PermissionsExt::from_mode(0o777)).unwrap();
    Some(folder)
}

/// iopj, as nobody.
fn as_nobody(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(folder.join("iopj"));
    command.args(words).current_dir(folder).uid(65_534).gid(65_534);
    command
}

/// Linux 6.18.44 hides `/proc/PID/io` of a process that has ended from its own user.
#[test]
fn what_an_ordinary_users_program_wrote_is_whole_though_its_end_is_hidden() {
    let Some(folder) = folder_of_nobody() else { return };
    let words = "watch --store w.iopj -- dd if=/dev/zero of=file bs=64k count=160 status=none";
    let words: Vec<&str> = words.split(' ').collect();
    let (output, words) = common::output(&mut as_nobody(&folder, &words));
    assert_eq!(output.status.code(), Some(0), "{words}");
    let record = Store::open(&folder.join("w.iopj")).unwrap().watch().unwrap().unwrap();
    let counts = record.evidence.program.unwrap();
    assert!(counts.disk_bytes().unwrap()[1] >= 160 << 16, "{counts:?}");
    let is_whole = counts.io.unwrap().write_chars >= 160 << 16;
    let is_said =
        record.denied.iter().any(|text| text.contains("/proc/PID/io of the program could no longer"));
    assert!(is_whole || is_said, "{counts:?}: {:?}", record.denied);
}

#[test]
fn another_users_process_is_refused_by_name() {
    let Some(folder) = folder_of_nobody() else { return };
    let mut command = as_nobody(&folder, &["watch", "--pid", "1", "--for", "1s"]);
    let (output, words) = common::output(&mut command);
    assert_eq!(output.status.code(), Some(2), "{words}");
    common::says(&words, &["process 1 (", "is not yours to watch", "CAP_SYS_PTRACE", "CAP_PERFMON"]);
    // What is left for such a user is still shown, and what is missing is said by name.
    let mut command = as_nobody(&folder, &["watch", "--", "sh", "-c", "exit 4"]);
    let (output, words) = common::output(&mut command);
    assert_eq!(output.status.code(), Some(4), "{words}");
    common::says(&words, &["system calls, rings and completions are not counted", "CAP_PERFMON", "program"]);
}

#[test]
fn times_ports_and_stores_that_cannot_be_are_refused_before_anything_starts() {
    let folder = common::folder().with_data(10);
    let start = "-- touch started";
    for (options, part) in [
        ("--interval 1ms", "too short: name one of 0.1 s or more"),
        ("--listen 70000", "`70000` cannot be listened on"),
        ("--store data", "`data` already exists: name another file with --store"),
        ("--store no/such/w.iopj", "no/such"),
    ] {
        refuses(&folder, &format!("watch {options} {start}"), &[part]);
        assert!(!folder.join("started").exists(), "{options}");
    }
    refuses(&folder, "watch --pid 1 --for 0s", &["a watch of no time sees nothing"]);
}

#[test]
fn other_commands_say_what_such_a_store_holds() {
    let folder = common::folder();
    let (code, _, words) = common::run(&folder, "watch --store w.iopj -- true");
    assert_eq!(code, 0, "{words}");
    for command in ["winners w.iopj", "explain w.iopj", "export --csv w.iopj"] {
        refuses(&folder, command, &["`w.iopj` holds what `iopj watch` saw", "iopj report w.iopj"]);
    }
    refuses(&folder, "report --csv w.iopj", &["there are text, JSON, a page and figures"]);
    refuses(&folder, "report --html x.html --p99 1ms w.iopj", &["answers no question: leave --p99 out"]);
    assert!(!folder.join("x.html").exists());
    let (code, text, _) = common::run(&folder, "export --json w.iopj");
    assert_eq!(code, 0);
    assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap()["end"]["exited"], 0);
}
