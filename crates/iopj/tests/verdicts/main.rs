//! Verdicts on this machine: on a file on a disk, without distinct vectors, and on paths that something
//! falsifies.

mod adaptive;
#[path = "../common/mod.rs"]
mod common;
mod corunner;
mod faults;
mod kinds;

use common::{alone, folder, have, iopj, is_root, output, written};
use serde_json::Value;
use std::path::Path;

/// One run without meters, as JSON.
fn run(folder: &Path, line: &str) -> Value {
    let (output, messages) = output(&mut iopj(folder, &format!("run --json --meters none {line}")));
    assert!(output.status.success(), "{line}: {messages}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Path, verdict and reasons of each trial.
fn verdicts(report: &Value) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let trial = |t: &Value| (text(&t["path"]), text(&t["verdict"]), t["verdict_reasons"].to_string());
    report["trials"].as_array().unwrap().iter().map(trial).collect()
}

/// The paths that `iopj check` calls available.
fn available(folder: &Path, target: &str) -> Vec<String> {
    let output = iopj(folder, &format!("check --json {target}")).output().unwrap();
    let check: Value = serde_json::from_slice(&output.stdout).unwrap();
    let paths = check["paths"].as_array().unwrap().iter().filter(|path| path["state"] == "available");
    paths.map(|path| path["path"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn on_a_disk_every_path_is_verified_but_the_one_that_linux_fakes() {
    let _alone = alone();
    let folder = folder().with_data(32 << 20);
    let expected = available(&folder, "data");
    assert!(expected.len() >= 5, "{expected:?}");
    let fakes_polling = fakes_polling(&folder);
    // It is the machine's own disk: others may use it meanwhile, which iopj notices. Each path is tried until
    // there is a quiet moment.
    let (mut open, mut why) = (expected, String::new());
    for attempt in 0..100 {
        let line = format!(
            "--target data --path {} --iodepth 1 --ios 1000 --ramp-time 50ms --replicates 1 --store \
             {attempt}.iopj",
            open.join(",")
        );
        let now = verdicts(&run(&folder, &line));
        let mut ran: Vec<&String> = now.iter().map(|(path, ..)| path).collect();
        ran.sort();
        open.sort();
        assert_eq!(ran, open.iter().collect::<Vec<_>>(), "every path that check calls available runs");
        open = Vec::new();
        for (path, verdict, reasons) in now {
            let fakes = fakes_polling && path == "posix-sio/syscall/poll";
            if verdict == "unproven" {
                why = format!("{path}: {reasons}");
                open.push(path);
                continue;
            }
            assert_eq!(verdict, if fakes { "refuted" } else { "verified" }, "{path}: {reasons}");
            assert!(!fakes || reasons.contains("asked for poll, seen interrupt"), "{reasons}");
        }
        if open.is_empty() {
            return;
        }
    }
    panic!("in 100 trials no verdict on {}, at last {why}", open.join(", "));
}

/// True if the kernel takes RWF_HIPRI and ignores it: without poll queues, or since 5.19.
fn fakes_polling(folder: &Path) -> bool {
    let output = iopj(folder, "check --json data").output().unwrap();
    let check: Value = serde_json::from_slice(&output.stdout).unwrap();
    let poll = check["paths"]
        .as_array()
        .unwrap()
        .iter()
        .find(|path| path["path"] == "posix-sio/syscall/poll")
        .unwrap();
    poll["notes"].as_array().is_some_and(|notes| !notes.is_empty())
}

/// The processors that this process may use.
fn cpus_allowed() -> Vec<u32> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim();
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        first.parse::<u32>().unwrap()..=last.parse::<u32>().unwrap()
    };
    list.split(',').flat_map(range).collect()
}

#[test]
fn pollers_keep_to_cpus_allowed_and_what_they_ran_on_is_recorded() {
    let folder = folder().with_data(1 << 20);
    let path = "io_uring/sqpoll/interrupt".to_owned();
    let allowed = cpus_allowed();
    if !have(
        allowed.len() >= 2 && available(&folder, "data").contains(&path),
        "two processors and io_uring with sqpoll",
    ) {
        return;
    }
    let study = format!(
        "name = \"cpus\"\npaths = \"{path}\"\nmeters = \"none\"\n[[workload]]\nnumjobs = 2\nios = \
         100\ncpus_allowed = "
    );
    let [first, second] = [allowed[0], allowed[1]].map(|cpu| cpu.to_string());
    let both =
        if allowed[1] == allowed[0] + 1 { format!("{first}-{second}") } else { format!("{first},{second}") };
    for (cpus, pollers) in [(second.clone(), [&second, &second]), (both, [&first, &second])] {
        let (cpus, pollers) = (format!("\"{cpus}\""), pollers.map(String::as_str));
        std::fs::write(folder.join("cpus.toml"), format!("{study}{cpus}\n")).unwrap();
        let store = format!("{}.iopj", pollers.join("-"));
        run(&folder, &format!("cpus.toml --target data --store {store}"));
        let exported = iopj(&folder, &format!("export {store} --json")).output().unwrap();
        let exported: Value = serde_json::from_slice(&exported.stdout).unwrap();
        let evidence = &exported["trials"][0]["evidence"];
        let threads = evidence["threads"].as_array().unwrap();
        let of = |role: &str| threads.iter().filter(|thread| thread["role"] == role).collect::<Vec<_>>();
        let mut bound: Vec<&str> = of("sqpoll").iter().map(|t| t["cpus_allowed"].as_str().unwrap()).collect();
        bound.sort_unstable();
        assert_eq!(bound, pollers, "{threads:?}");
        for thread in of("sqpoll") {
            assert_eq!(thread["last_cpu"].to_string(), thread["cpus_allowed"].as_str().unwrap(), "{thread}");
        }
        assert!(of("job").iter().all(|job| format!("{}", job["cpus_allowed"]) == cpus), "{threads:?}");
        assert!(evidence["engine"]["ring_flags"].to_string().contains("SQ_AFF"), "{evidence}");
    }
}

#[test]
fn without_distinct_vectors_nothing_is_proven() {
    let disksize = Path::new("/sys/block/zram0/disksize");
    let _alone = alone();
    if is_left_over(disksize) {
        drop(Reset);
    }
    let unused = std::fs::read_to_string(disksize).is_ok_and(|size| size.trim() == "0");
    if !have(is_root() && unused, "root and an unused /dev/zram0") {
        return;
    }
    std::fs::write(disksize, "64M").unwrap();
    let _reset = Reset;
    let folder = folder();
    written(Path::new("/dev/zram0"), 64 << 20);
    let line = "--target /dev/zram0 --path available --iodepth 1 --ios 2000 --ramp-time 0s --replicates 1 \
                --store z.iopj";
    let verdicts = verdicts(&run(&folder, line));
    assert_eq!(verdicts.len(), available(&folder, "/dev/zram0").len());
    for (path, verdict, reasons) in verdicts {
        assert_eq!(verdict, "unproven", "{path}: {reasons}");
        assert!(reasons.contains("zram0"), "{path}: {reasons}");
    }
}

/// True for a zram0 that a killed run of this test left: it has its size, and is neither swap nor mounted.
fn is_left_over(disksize: &Path) -> bool {
    let is_used = |list| std::fs::read_to_string(list).is_ok_and(|text: String| text.contains("/dev/zram0"));
    std::fs::read_to_string(disksize).is_ok_and(|size| size.trim() == (64 << 20).to_string())
        && !is_used("/proc/swaps")
        && !is_used("/proc/mounts")
}

/// Gives zram0 back as it was: without a size.
struct Reset;

impl Drop for Reset {
    fn drop(&mut self) {
        let _ = std::fs::write("/sys/block/zram0/reset", "1");
    }
}
