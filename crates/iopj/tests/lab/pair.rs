//! A drive of another host, in two guests: what both see, that nothing can be written, and that nothing is
//! left when either side is killed.

use crate::common::{folder, kernel};
use crate::{have_lab, lab, lab_run, trials};
use iopj_core::evidence::{Completions, Finding};
use iopj_core::path::CompletionMode;
use iopj_core::{Transport, VerdictKind};
use iopj_lab::cache::Cache;
use iopj_lab::image::Program;
use iopj_lab::session::{Device, Guest, GuestStudy, Pair};
use iopj_lab::vm::Nic;
use iopj_store::{Store, Trial};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

pub(crate) const KERNEL: &str = "6.18";

#[test]
fn both_hosts_are_watched_and_every_io_reaches_the_drive() {
    let Some((_alone, folder)) = lab(&[KERNEL]) else { return };
    let change = [
        ("replicates = 3", "replicates = 1"),
        ("[1, 4, 16, 32]", "[1, 32]"),
        ("ios = 1000", "ios = 500"),
        // The paper's target of one core.
        ("transport = [", "target.cpus_online = 1\ntransport = ["),
    ];
    let output = lab_run(&folder, "fabric-lab", &change, &format!("--pair --kernel {KERNEL}"));
    let trials = trials(&folder, "fabric-lab", &output);
    assert_eq!(trials.len(), 9);
    for trial in &trials {
        let measured = trial.outcome.measurement().unwrap();
        let transport: Transport = trial.settings["transport"].parse().unwrap();
        by_interrupt(trial);
        let fabric = measured.evidence.fabric.as_ref().unwrap();
        assert_eq!(fabric.transport, transport);
        assert!(fabric.context_switches > 0);
        assert_eq!((measured.ios, measured.latency.count), (500, 500));
        assert!(!measured.latency.histogram.is_empty(), "{transport}");
        let Some(target) = &fabric.target else {
            assert_ne!(transport, Transport::Tcp);
            continue;
        };
        // Conservation: this host's reads are those of the drive there.
        let far = &target.devices[..];
        let [here] = &measured.evidence.devices[..] else { panic!("{:?}", measured.evidence.devices) };
        assert_eq!((far.len(), far[0].name.as_str()), (1, "nvme0n1"));
        assert_eq!([far[0].reads, far[0].read_sectors], [here.reads, here.read_sectors]);
        assert_eq!(far[0].writes, 0);
        // The bytes crossed the wire, with the interrupts of both cards counted.
        let ([near], [far]) = (&fabric.nics[..], &target.nics[..]) else { panic!("{fabric:?}") };
        for (bytes, nic) in [(near.rx_bytes, near), (far.tx_bytes, far)] {
            assert!((500 * 4096..600 * 4096).contains(&bytes), "{nic:?}");
            assert_eq!(nic.driver.as_deref(), Some("virtio_net"));
            assert!(nic.interrupts().is_some_and(|interrupts| interrupts > 0), "{nic:?}");
        }
        assert_eq!(target.cpu.cores, 1);
        assert!(target.window_ns >= measured.window_ns && target.cpu.total_ns() > 0);
    }
    let over_tcp = |depth: u32| {
        let is = |trial: &&Trial| trial.settings["transport"] == "tcp" && trial.workload.iodepth == depth;
        let of = |trial: &Trial| {
            let measured = trial.outcome.measurement().unwrap();
            let target = measured.evidence.fabric.as_ref().unwrap().target.as_ref().unwrap();
            target.devices[0].interrupts.unwrap() as f64 / measured.ios as f64
        };
        trials.iter().filter(is).map(of).fold(0.0, f64::max)
    };
    // One interrupt for each I/O alone in flight; at depth, completions share them.
    assert!((0.99..1.02).contains(&over_tcp(1)), "{}", over_tcp(1));
    assert!(over_tcp(32) < 0.8 * over_tcp(1), "{}", over_tcp(32));
    let study = Store::open(&folder.join("fabric-lab.iopj")).unwrap().study().unwrap();
    assert_eq!(study.target, "/dev/iopj.agent:/dev/nvme0n1");
    assert_eq!(study.provenance["target_host.nvme0n1.serial"], "iopjlab");
}

/// Who completed the I/Os of the pass before a trial's window.
fn counts(trial: &Trial) -> Completions {
    let evidence = &trial.outcome.measurement().unwrap().evidence;
    let Some(Finding::Seen(counts)) = &evidence.completions else { panic!("{:?}", evidence.completions) };
    assert!(counts.total() > 0);
    *counts
}

/// Demands that no thread that waits completed an I/O, and that nothing else was seen. A busy machine may
/// leave a trial unproven.
#[track_caller]
fn by_interrupt(trial: &Trial) {
    let verdict = &trial.outcome.measurement().unwrap().verdict;
    assert_ne!(verdict.kind, VerdictKind::Refuted, "{:?} {:?}", trial.settings, verdict.reasons);
    assert!(counts(trial).waiting * 100 <= counts(trial).total(), "{:?}", counts(trial));
}

/// By soft RoCE on the two cards.
#[test]
fn a_drive_is_reached_by_rdma_on_interrupts_and_polled() {
    let Some((_alone, folder)) = lab(&[KERNEL]) else { return };
    let change = [
        ("replicates = 3", "replicates = 1"),
        ("[\"local\", \"loop\", \"tcp\"]", "\"rdma\""),
        ("\"posix-sio/syscall/interrupt\"", "\"io_uring/syscall/poll\""),
        ("[1, 4, 16, 32]", "1"),
    ];
    let output = lab_run(&folder, "fabric-lab", &change, &format!("--pair --kernel {KERNEL}"));
    let trials = trials(&folder, "fabric-lab", &output);
    assert_eq!(trials.len(), 2);
    for trial in &trials {
        let measured = trial.outcome.measurement().unwrap();
        let fabric = measured.evidence.fabric.as_ref().unwrap();
        assert_eq!(fabric.transport, Transport::Rdma);
        match trial.path.completion() {
            CompletionMode::Interrupt => by_interrupt(trial),
            _ => assert!(counts(trial).waiting * 10 > counts(trial).total() * 9, "{:?}", counts(trial)),
        }
        assert_ne!(measured.verdict.kind, VerdictKind::Refuted, "{:?}", measured.verdict.reasons);
        assert_eq!(fabric.target.as_ref().unwrap().devices[0].reads, 1000);
    }
}

/// Runs scripts in the two guests: what they print.
pub(crate) fn scripts(host: String, target: String) -> Vec<String> {
    let (kernel, folder) = (kernel(KERNEL).unwrap(), folder());
    let guest = Guest {
        kernel: &kernel,
        device: Device::Nvme,
        vcpus: 2,
        exact: false,
        vmlinux: None,
        time_limit: Duration::from_secs(1800),
        fault: None,
    };
    let scripts = Some([host, target]);
    let pair = Pair { host: guest.clone(), target: guest, nic: Nic::Virtio, scripts };
    let study = GuestStudy {
        name: "scripts".to_owned(),
        store: folder.join("scripts.iopj"),
        text: STUDY,
        programs: vec![Program { name: "iopj".to_owned(), host: env!("CARGO_BIN_EXE_iopj").into() }],
        ..GuestStudy::default()
    };
    let mut lines = Vec::new();
    let cache = Cache::open().unwrap();
    let done = pair.run(&cache, &study, &AtomicBool::new(false), &mut |line| {
        // Where a test fails, or hangs, this says how far it came.
        eprintln!("{line}");
        lines.push(line.to_owned());
    });
    // Scripts leave no store.
    assert!(done.is_err_and(|error| error.to_string().contains("left no store")), "{lines:#?}");
    lines
}

/// A study that takes a while.
const STUDY: &str = "name = \"s\"\npaths = \"io_uring/syscall/interrupt\"\nreplicates = \
                     100\n[fabric]\ntarget_host = \"/dev/iopj.agent\"\ndevice = \"/dev/nvme0n1\"\naddress = \
                     \"10.1.0.1\"\ntransport = [\"tcp\", \"local\", \"loop\"]\n[[workload]]\nios = \
                     300\niodepth = 4\n";

/// Serves one run after the other.
pub(crate) const SERVE: &str = "while :; do\n\tiopj agent <>/dev/iopj.agent >&0\n\tsleep 0.1\ndone";

/// What is left on a side: controllers over fabrics, exports, journals.
pub(crate) const LEFT: &str = "left() {\n\techo $(cat /sys/class/nvme/*/transport 2>/dev/null | \
                               grep -v pcie) $(ls /sys/kernel/config/nvmet/subsystems \
                               /sys/kernel/config/nvmet/hosts /sys/kernel/config/nvmet/ports \
                               2>/dev/null | grep -v :$) $(ls /run/iopj 2>/dev/null | grep \
                               journal)\n}\n";

/// Waits until nothing is left, and says so.
pub(crate) const NOTHING: &str = "tries=900\nwhile [ -n \"$(left)\" ] && [ $tries -gt 0 ]; do\n\t\
                                  tries=$((tries - 1))\n\tsleep 0.1\ndone\necho \"left: \
                                  [$(left)]\"\n";

#[test]
fn a_namespace_that_is_only_read_refuses_writes() {
    if !have_lab(&[KERNEL]) {
        return;
    }
    let _alone = crate::common::alone();
    let host = format!(
        "{LEFT}iopj run /lab/study-1.toml >/dev/null 2>&1 &\nrun=$!\nuntil [ \"$(cat /sys/block/nvme0n1/ro \
         2>/dev/null)\" = 1 ]; do sleep 0.02; done\ndd if=/dev/zero of=/dev/nvme0n1 bs=4096 count=1 2>&1 | \
         head -1\nkill $run\nwait $run\n{NOTHING}"
    );
    let lines = scripts(host, SERVE.to_owned());
    assert!(lines.iter().any(|line| line.contains("dd: ") && line.contains("not permitted")), "{lines:#?}");
    assert!(lines.iter().any(|line| line == "left: []"), "{lines:#?}");
}

/// Kills the run and the agent in turn, each so many times, at moments of a seeded generator; then demands
/// that nothing is left on either side.
fn killed(times: u32) {
    if !have_lab(&[KERNEL]) {
        return;
    }
    let _alone = crate::common::alone();
    // A moment after each other, in tenths of a second.
    let random = "seed=13\nmoment() {\n\tseed=$(((seed * 1103515245 + 12345) % 2147483648))\n\tsleep \
                  $((seed / 65536 % 4)).$((seed / 4096 % 10))\n}\n";
    let host = format!(
        "{LEFT}{random}number=0\nwhile [ $number -lt {times} ]; do\n\tnumber=$((number + 1))\n\tiopj run \
         /lab/study-1.toml --store /tmp/$number.iopj >/dev/null 2>&1 &\n\trun=$!\n\tmoment\n\tsleep 1\n\t[ \
         -z \"$(left)\" ] || busy=$((busy + 1))\n\tkill -9 $run\n\twait $run 2>/dev/null\n\trm -f \
         /tmp/*.iopj*\ndone\necho \"killed $number while ${{busy:-0}} had something to \
         leave\"\n{NOTHING}sleep 30\n"
    );
    let target = format!(
        "{LEFT}{random}({SERVE}) &\n(while :; do\n\tmoment\n\tpid=$(pidof iopj | tr ' ' '\\n' | while read \
         -r pid; do grep -q agent /proc/$pid/cmdline && echo $pid; done)\n\t[ -z \"$pid\" ] || kill -9 \
         $pid\n\tsleep 1\ndone) &\nkiller=$!\nsleep 10\nwhile :; do\n\tsleep 1\n\techo \"there: \
         [$(left)]\"\ndone\n"
    );
    let lines = scripts(host, target);
    let killed =
        lines.iter().find(|line| line.starts_with("killed ")).unwrap_or_else(|| panic!("{lines:#?}"));
    let busy: u32 = killed.split(' ').nth(3).unwrap().parse().unwrap();
    assert!(busy * 2 >= times, "{killed}");
    assert!(lines.iter().any(|line| line == "left: []"), "{lines:#?}");
    let last = lines.iter().rev().find(|line| line.starts_with("target: there: "));
    assert_eq!(last.map(String::as_str), Some("target: there: []"), "{lines:#?}");
}

#[test]
fn nothing_is_left_after_either_side_is_killed() {
    killed(4);
}

#[test]
#[ignore = "takes ten minutes"]
fn soak_nothing_is_left_after_either_side_is_killed() {
    killed(50);
}
