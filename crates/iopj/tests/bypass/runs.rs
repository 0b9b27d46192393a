//! Runs on a taken drive that do not end as planned: what is kept of them, and which driver has the drive
//! afterwards.

use crate::chosen;
use crate::common::written;
use crate::guest::{MIB, digest};
use crate::host::{Bench, Left, qmp};
use crate::refusals::refused;
use iopj_core::{IoPath, Verdict, VerdictKind};
use iopj_lab::vm::{Backend, Drive, Nvme, RunFolder};
use iopj_record::{Measurement, Outcome};
use iopj_store::Store;
use std::time::Duration;

/// A study of two trials, which its seed puts in this order: a short one, and one that is cut short by a
/// fault of the drive or the end of the run, before its own. A fault that comes late still finds it.
const TWO: &str = "cat >/tmp/two.toml <<END
name = \"two\"
seed = 1
replicates = 1
meters = \"none\"
paths = \"nvme-user/doorbell/poll\"
[[workload]]
ios = 200
[[workload]]
runtime = \"40s\"
END
";
const SHORT: &str = "--path nvme-user/doorbell/poll --iodepth 1 --ios 200 --replicates 1";
/// From the line that announces the second trial until its drive is in use.
const UNDER_WAY: Duration = Duration::from_millis(1500);

/// The outcomes of an attempt's trials.
fn outcomes(left: &Left, name: &str) -> Vec<Outcome> {
    let store = Store::open(&left.path(&format!("{name}.iopj"))).unwrap();
    store.trials().unwrap().into_iter().map(|trial| trial.outcome).collect()
}

/// Asserts that the first of two trials was measured and the second failed with these words.
#[track_caller]
fn second_failed(left: &Left, name: &str, words: &str) {
    let outcomes = outcomes(left, name);
    let messages = left.text(&format!("{name}.messages"));
    assert_eq!(left.text(&format!("{name}.status")), "1", "{messages}");
    assert_eq!(outcomes.len(), 2, "{outcomes:?}");
    assert!(outcomes[0].measurement().is_some(), "{outcomes:?}");
    let Outcome::Failed(reason) = &outcomes[1] else { panic!("{outcomes:?}") };
    assert!(reason.contains(words), "{reason}");
}

/// Asserts that the kernel's driver has the drive again.
#[track_caller]
fn is_back(left: &Left, name: &str) {
    let messages = left.text(&format!("{name}.messages"));
    assert_eq!(left.text(&format!("{name}.driver")), "nvme", "{messages}");
    assert_eq!(left.text(&format!("{name}.node")), "0", "{messages}");
}

#[test]
fn a_drive_that_fails_in_a_trial_fails_the_trial_and_is_given_back() {
    let Some(mut bench) = Bench::new("6.18") else { return };
    let size_bytes = 1 << 30;
    let nothing = Backend::Null { size_bytes, latency_ns: 0 };
    let backends =
        [Backend::Failable { size_bytes }, Backend::Stallable { size_bytes }, nothing.clone(), nothing];
    bench.drives = backends.map(|backend| Drive::Nvme(Nvme::new(4, backend))).into();
    let script = format!(
        "{TWO}drives 4\nerrors=$(address 0) silence=$(address 1) fatal=$(address 2) pulled=$(address \
         3)\nattempt errors $errors two.toml\nattempt silence $silence two.toml\n(\nunder_way fatal $fatal; \
         printf '\\002' | dd of=/sys/bus/pci/devices/$fatal/config bs=1 seek=4 2>/dev/null\n) &\nattempt \
         fatal $fatal two.toml\nattempt pulled $pulled two.toml\nls /sys/bus/pci/devices/$pulled \
         >/out/pulled.folder 2>&1\niopj restore >/out/restore 2>&1; echo $? >/out/restore.status\n"
    );
    let mut attempt = String::new();
    let left = bench.run(&script, |line, run| {
        if let Some((_, name)) = line.split_once("attempt ") {
            attempt = name.to_owned();
        } else if line.starts_with("2/2 ") {
            std::thread::sleep(UNDER_WAY);
            inject_fault(&attempt, run);
        } else if attempt == "silence" && line.starts_with("failed: 2/2 ") {
            // The kernel's driver reads the partition table when it gets the drive back.
            qmp(run).resume(1).unwrap();
        }
    });
    second_failed(&left, "errors", "NVMe status");
    is_back(&left, "errors");
    second_failed(&left, "silence", "a command did not come back");
    is_back(&left, "silence");
    second_failed(&left, "fatal", "CSTS.CFS");
    is_back(&left, "fatal");
    let outcomes = outcomes(&left, "pulled");
    assert!(outcomes[0].measurement().is_some(), "{outcomes:?}");
    assert_ne!(left.text("pulled.status"), "0", "{}", left.text("pulled.messages"));
    assert!(left.text("pulled.folder").contains("No such file"), "{}", left.text("pulled.folder"));
    assert_eq!(left.text("restore.status"), "0", "{}", left.text("restore"));
}

/// A drive that answers after 1 ms keeps any poller waiting, on any host.
#[test]
fn each_way_to_wait_for_a_slow_drive_is_verified_by_itself_and_where_an_engine_chooses_it() {
    let Some(mut bench) = Bench::new("6.18") else { return };
    bench.drives =
        vec![Drive::Nvme(Nvme::new(4, Backend::Null { size_bytes: 1 << 30, latency_ns: 1_000_000 }))];
    let ways = ["interrupt", "poll", "hybrid", "hybrid:300us"];
    let paths = ways.map(|way| format!("--path nvme-user/doorbell/{way}")).join(" ");
    let script = format!(
        "drives 1\ndrive=$(address 0)\nattempt slow $drive {paths} --iodepth 1 --ios 500 --replicates 3\n{}",
        chosen::script()
    );
    let left = bench.run(&script, |_, _| {});
    let messages = left.text("slow.messages");
    assert_eq!(left.text("slow.status"), "0", "{messages}");
    let trials = Store::open(&left.path("slow.iopj")).unwrap().trials().unwrap();
    for way in ways {
        let path: IoPath = format!("nvme-user/doorbell/{way}").parse().unwrap();
        let own = trials.iter().filter(|trial| trial.path == path);
        let own: Vec<&Measurement> = own.map(|trial| trial.outcome.measurement().unwrap()).collect();
        let verdicts: Vec<&Verdict> = own.iter().map(|one| &one.verdict).collect();
        assert_eq!(verdicts.len(), 3, "{messages}");
        assert!(verdicts.iter().any(|verdict| verdict.kind == VerdictKind::Verified), "{path}: {verdicts:?}");
        assert!(verdicts.iter().all(|verdict| verdict.kind != VerdictKind::Refuted), "{path}: {verdicts:?}");
        let mut sleeps: Vec<u64> = own.iter().map(|one| one.evidence.process.voluntary_switches).collect();
        sleeps.sort_unstable();
        assert_eq!(sleeps[1] > 250, way != "poll", "{path}: {sleeps:?} sleeps in 500 I/Os");
    }
    chosen::check(&left);
}

/// Causes the fault that this attempt is about.
fn inject_fault(attempt: &str, run: &RunFolder) {
    match attempt {
        "errors" => qmp(run).fail(0).unwrap(),
        "silence" => qmp(run).stall(1).unwrap(),
        "pulled" => qmp(run).pull(3).unwrap(),
        _ => {}
    }
}

#[test]
fn a_run_that_is_cut_short_leaves_the_drive_to_its_driver() {
    let Some(mut bench) = Bench::new("6.18") else { return };
    let image = bench.file_drive("kept", 4, 512);
    written(&image, 64 * MIB);
    let before = digest(&std::fs::read(&image).unwrap());
    let cut = |name: &str, signal: &str| {
        format!(
            "(\nunder_way {name} $drive; driver $drive >/out/{name}.during; kill -{signal} $(pidof iopj)\n) \
             &\nattempt {name} $drive two.toml\n"
        )
    };
    let (interrupted, killed) = (cut("interrupted", "INT"), cut("killed", "KILL"));
    let script = format!(
        "{TWO}drives 1\ndrive=$(address 0) cache=/sys/block/$(basename $(node \
         $drive))/queue/write_cache\ncat $cache >/out/default.cache; echo 'write through' \
         >$cache\n{interrupted}cat $cache >/out/interrupted.cache\n{killed}cat \
         /run/iopj/journal-*.jsonl >/out/killed.journal\niopj restore >/out/restore 2>&1; echo $? \
         >/out/restore.status\ndrives 1\ndriver $drive >/out/restored; cat \
         $cache >/out/restored.cache\nattempt again $drive {SHORT}\n"
    );
    let left = bench.run(&script, |_, _| {});
    assert_eq!(left.text("interrupted.status"), "130", "{}", left.text("interrupted.messages"));
    assert_eq!(left.text("interrupted.during"), "vfio-pci");
    is_back(&left, "interrupted");
    assert_eq!(left.text("killed.status"), "137", "{}", left.text("killed.messages"));
    assert_eq!(left.text("killed.driver"), "vfio-pci", "nobody was there to give it back");
    assert_eq!(left.text("restore.status"), "0", "{}", left.text("restore"));
    assert_eq!(left.text("restored"), "nvme", "{}", left.text("restore"));
    // The kernel's driver sets the cache to its own default when it gets the drive.
    assert_eq!(left.text("default.cache"), "write back");
    assert_eq!(left.text("interrupted.cache"), "write through", "{}", left.text("interrupted.messages"));
    assert_eq!(left.text("restored.cache"), "write through", "{}", left.text("restore"));
    let journal = left.text("killed.journal");
    for feature in ["06h\",\"old\":\"0x1\"", "08h\",\"old\":\"0x0\""] {
        assert!(journal.contains(&format!("/nvme/feature/{feature}")), "{journal}");
    }
    assert_eq!(left.text("again.status"), "0", "{}", left.text("again.messages"));
    is_back(&left, "again");
    for outcome in outcomes(&left, "again") {
        let settings = &outcome.measurement().unwrap().evidence.devices[0].settings;
        let kept = ["volatile_write_cache", "interrupt_coalescing", "power_state"]
            .map(|name| settings[name].as_str());
        assert_eq!(kept, ["0x1 as under the kernel", "0x0 as under the kernel", "0x0 as under the kernel"]);
    }
    assert_eq!(digest(&std::fs::read(&image).unwrap()), before);
    let script =
        format!("drives 1\nattempt writes $(address 0) {SHORT} --rw randwrite --destroy-data /dev/nvme0n1\n");
    let left = bench.run(&script, |_, _| {});
    assert_eq!(left.text("writes.status"), "0", "{}", left.text("writes.messages"));
    is_back(&left, "writes");
    assert_ne!(digest(&std::fs::read(&image).unwrap()), before);
}

#[test]
#[ignore = "needs a kernel that no distribution builds: see CONTRIBUTING.md"]
fn a_run_without_an_iommu_says_what_it_lacks_and_measures() {
    let mut bench = Bench::with_own_kernel();
    bench.iommu = false;
    bench.file_drive("drive", 4, 512);
    std::fs::File::create(bench.folder.join("drive")).unwrap().set_len(64 << 20).unwrap();
    let run = "--i-know-no-iommu --path nvme-user/doorbell/poll,nvme-user/doorbell/interrupt --ios 500 \
               --replicates 1";
    let script = format!(
        "drives 1\ndrive=$(address 0)\nattempt unsaid $drive {SHORT}\nattempt mode $drive {run}\necho 1 \
         >/sys/module/vfio/parameters/enable_unsafe_noiommu_mode\nattempt pages $drive {run}\necho 64 \
         >/proc/sys/vm/nr_hugepages\nattempt taken $drive {run} --iodepth 1,8\nawk '/HugePages_Free/ {{ \
         print $2 }}' /proc/meminfo >/out/free\n"
    );
    let left = bench.run(&script, |_, _| {});
    refused(&left, "unsaid", &["has no IOMMU", "--i-know-no-iommu"]);
    refused(
        &left,
        "mode",
        &["has no IOMMU", "echo 1 > /sys/module/vfio/parameters/enable_unsafe_noiommu_mode"],
    );
    refused(&left, "pages", &["too few huge pages of 2 MiB are free", "nr_hugepages"]);
    assert_eq!(left.text("taken.status"), "0", "{}", left.text("taken.messages"));
    is_back(&left, "taken");
    for outcome in outcomes(&left, "taken") {
        let measured = outcome.measurement().unwrap_or_else(|| panic!("{outcome:?}"));
        assert_ne!(measured.verdict.kind, VerdictKind::Refuted, "{:?}", measured.verdict);
    }
    assert_eq!(left.text("free"), "64", "every page is free again");
}
