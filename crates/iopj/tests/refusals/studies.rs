//! Study files that cannot be run: misspelt, empty, with paths that no machine has, or with a program to run.

use crate::common::folder;
use crate::{PLAIN, refuses};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const STUDY: &str = "name = \"t\"\npaths = [\"posix-sio/syscall/interrupt\"]\nmeters = \
                     \"none\"\n[[workload]]\nios = 200\n";

/// Asserts that the study, with `from` replaced by `to`, is refused.
fn refused_study(folder: &Path, from: &str, to: &str, parts: &[&str]) {
    assert!(STUDY.contains(from), "{from}");
    fs::write(folder.join("t.toml"), STUDY.replace(from, to)).unwrap();
    refuses(folder, "run t.toml --target data", parts);
}

#[test]
fn misspelt_keys_get_the_nearest_right_one() {
    let folder = folder().with_data(1 << 20);
    for (from, to, parts) in [
        ("name =", "nmae =", ["t.toml: unknown key `nmae`", "did you mean `name`?"]),
        ("paths =", "path =", ["unknown key `path`", "did you mean `paths`?"]),
        ("ios =", "iodpeth = 1\nios =", ["unknown key `iodpeth` in [[workload]]", "did you mean `iodepth`?"]),
        (
            "[[workload]]",
            "[fio]\nprogramm = \"x\"\n[[workload]]",
            ["unknown key `programm` in [fio]", "`program`?"],
        ),
        (
            "[[workload]]",
            "[settings]\nnomerge = 1\n[[workload]]",
            ["no setting `nomerge`", "did you mean `nomerges`?"],
        ),
        ("[[workload]]", "[[workloads]]", ["unknown key `workloads`", "did you mean `workload`?"]),
        ("name =", "xyzzyxyzzy = 1\nname =", ["unknown key `xyzzyxyzzy`", "there are name, paths"]),
    ] {
        refused_study(&folder, from, to, &parts);
    }
}

#[test]
fn a_name_that_leads_elsewhere_is_refused() {
    let folder = folder().with_data(1 << 20);
    for name in ["../t", "/tmp/t", ".hidden", "a/b", ""] {
        refused_study(&folder, "\"t\"", &format!("\"{name}\""), &["t.toml: name: ", "cannot name a store"]);
    }
}

#[test]
fn an_unknown_setting_is_refused() {
    let folder = folder().with_data(1 << 20);
    for setting in ["\"../../kernel/sysrq\"", "vm_swappiness", "\"queue/nomerges\""] {
        let to = format!("[settings]\n{setting} = 1\n[[workload]]");
        refused_study(&folder, "[[workload]]", &to, &["there is no setting"]);
    }
}

#[test]
fn a_co_runner_that_cannot_run_here_is_refused() {
    let folder = folder().with_data(1 << 20);
    for (keys, parts) in [
        ("corunner = \"spinn\"", ["`spinn` is not a co-runner", "write spin, memory, branch or none"]),
        ("corunner = \"spin\"\ncorunner_nice = 20", ["20 is not a niceness", "write -20"]),
        ("corunner_nice = 1", ["`corunner` is missing", "give its kind"]),
        (
            "corunner = \"spin\"\ncorunner_cpus = \"4000\"",
            ["corunner_cpus names cpu 4000, which this process may not use", "leave it out"],
        ),
    ] {
        refused_study(&folder, "ios =", &format!("{keys}\nios ="), &parts);
    }
}

#[test]
fn empty_matrices_are_refused() {
    let folder = folder().with_data(1 << 20);
    for (from, to, parts) in [
        ("[\"posix-sio/syscall/interrupt\"]", "[]", ["`paths` is an empty list", "name at least one path"]),
        ("ios =", "bs = []\nios =", ["`bs` is an empty list", "give it a value"]),
        (
            "[[workload]]",
            "[settings]\nnomerges = []\n[[workload]]",
            ["`nomerges` has no value", "give it one"],
        ),
        ("paths =", "generator = []\npaths =", ["`generator` is an empty list", "native, fio or both"]),
        (
            "[[workload]]\nios = 200\n",
            "workload = []\n",
            ["t.toml has no workload", "write the line [[workload]]"],
        ),
        ("[[workload]]\nios = 200\n", "", ["workload", "[[workload]]"]),
        ("paths =", "replicates = 0\npaths =", ["replicates", "0"]),
    ] {
        refused_study(&folder, from, to, &parts);
    }
}

#[test]
fn wrong_values_are_refused() {
    let folder = folder().with_data(1 << 20);
    for (from, to, parts) in [
        ("ios = 200", "ios = \"many\"", ["t.toml: line 5", "many"]),
        ("paths =", "size = \"100\"\npaths =", ["size", "not a multiple of 4k"]),
        ("ios =", "iodepth = \"many\"\nios =", ["t.toml: line 5", "iodepth"]),
        ("ios =", "cpus_allowed = \"4095\"\nios =", ["cpus_allowed", "cpu 4095"]),
        ("name = \"t\"", "name =", ["t.toml is not TOML: line 1", ""]),
        ("[[workload]]", "[workload]", ["`workload` is a list of tables", "write [[workload]]"]),
        ("ios =", "runtime = \"1s\"\nios =", ["both `runtime` and `ios`", "leave one out"]),
        // The name is the store's: it may not lead out of the folder.
        ("name = \"t\"", "name = \"../t\"", ["name", "../t"]),
        ("name = \"t\"", "name = \"\"", ["name", ""]),
    ] {
        refused_study(&folder, from, to, &parts);
    }
    let parts = ["`nope.toml` cannot be read", "No such file", "name a study file"];
    refuses(&folder, "run nope.toml --target data", &parts);
    // It was read until memory was full.
    let parts = ["`/dev/zero` cannot be read (it is a device or socket, not a file)", "name a study file"];
    refuses(&folder, "run /dev/zero --target data", &parts);
    refuses(&folder, "run . --target data", &["`.` cannot be read", "it is a folder"]);
}

#[test]
fn loads_that_cannot_be_are_refused() {
    let folder = folder().with_data(1 << 20);
    for (to, parts) in [
        ("rate_iops = 0\nios =", ["rate_iops: 0 is no load", "the least is 1"]),
        ("rate_iops = 20000000\nios =", ["faster than the clock can pace", "the most is 10000000"]),
        ("rate_iops_end = 5\nrate_iops = 9\nios =", ["the rate at the window's end", "give `runtime`"]),
        ("rw = \"randwrite\"\nbssplit = \"4k/30\"\nios =", ["`4k/30` are 30 % together", "must be 100 %"]),
        ("sync = \"dsync\"\nios =", ["`sync` and rw = \"randread\"", "no writes to make durable"]),
        ("rw = \"write\"\nsync = \"1\"\nios =", ["`1` is not a value of sync", "none, sync, dsync"]),
        ("bssplit = \"1000:4k\"\nios =", ["bssplit: ", "is not a multiple of data's logical block"]),
    ] {
        let study = STUDY.replace("ios =", to);
        fs::write(folder.join("t.toml"), study).unwrap();
        refuses(&folder, "run t.toml --target data", &parts);
    }
}

#[test]
fn traces_that_cannot_be_replayed_are_refused() {
    let folder = folder().with_data(1 << 20);
    let read = |at: u64, time: u64| format!("{time},host,0,Read,{at},4096,9\n");
    for (name, text, parts) in [
        ("empty", String::new(), ["the trace empty: it is empty", "record one"]),
        ("prose", "one two three\n".to_owned(), ["its first line is of no format", "MSR Cambridge"]),
        ("beyond", read(1 << 30, 5), ["reaches", "replay_map = \"wrap\""]),
        ("torn", read(0, 5) + "6,host,0,Read,x\n", ["line 2", "6,host,0,Read,x"]),
    ] {
        fs::write(folder.join(name), text).unwrap();
        let line = format!("run --target data {PLAIN} --read-iolog {name} --replay-skip write,discard");
        refuses(&folder, &line, &parts);
    }
    let line = format!("run --target data {PLAIN} --read-iolog nowhere --replay-skip write,discard");
    refuses(&folder, &line, &["the trace nowhere: it cannot be read", "No such file"]);
    fs::write(folder.join("one"), read(0, 5)).unwrap();
    // Its writes would go to a file that is not iopj's.
    let line = format!("run --target data {PLAIN} --read-iolog one");
    refuses(&folder, &line, &["data is not a file that iopj made", ""]);
}

#[test]
fn paths_that_nobody_has_are_refused() {
    let folder = folder().with_data(1 << 20);
    for (path, parts) in [
        (
            "nvme-kernel/syscall/poll",
            ["no interface `nvme-kernel`", "posix-sio, posix-aio, libaio, io_uring"],
        ),
        ("libaio/syscall/poll", ["libaio has no completion `poll`", "interrupt"]),
        ("io_uring/doorbell/poll", ["io_uring has no submission `doorbell`", "syscall"]),
        ("io_uring/syscall/poll+fast", ["`io_uring/syscall/poll+fast` is not an I/O path", "+registered"]),
        // A path that exists, but not on a file.
        ("nvme-passthrough/syscall/interrupt", ["none of the study's paths works on data", "/dev/ngXnY"]),
    ] {
        let from = "posix-sio/syscall/interrupt";
        refused_study(&folder, from, path, &parts);
        let line = format!("run --target data {}", PLAIN.replace(from, path));
        refuses(&folder, &line, &parts);
    }
    // Only `--path` takes a pattern.
    let parts = ["`io_uring` is not an I/O path", "interface/submission/completion"];
    refused_study(&folder, "posix-sio/syscall/interrupt", "io_uring", &parts);
    let parts = ["`io_urin/*` matches no I/O path", "similar ones are io_uring/"];
    refuses(&folder, "run --target data --path io_urin/*", &parts);
}

#[test]
fn programs_run_only_where_they_are_allowed() {
    let folder = folder().with_data(1 << 20);
    let program = folder.join("program");
    fs::write(&program, "#!/bin/sh\ntouch ran\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let line = format!("generator = \"fio\"\n[fio]\nprogram = \"{}\"\n[[workload]]", program.display());
    let thing = format!("`fio.program` = `{}` runs a program", program.display());
    // The folder shows that it was not run.
    refused_study(&folder, "[[workload]]", &line, &[&thing, "allow it by --allow exec"]);
}
