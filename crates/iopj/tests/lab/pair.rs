//! A drive of another host, in two guests: what both see, that nothing can be written, and that nothing is
//! left when either side is killed.

use crate::common::kernel;
use crate::{lab_of_two, lab_run, trials};
use iopj_core::evidence::{Completions, Finding};
use iopj_core::fabric::{HostSide, NetworkBaseline};
use iopj_core::path::CompletionMode;
use iopj_core::{EnergyOutcome, Scope, Transport, VerdictKind};
use iopj_lab::cache::Cache;
use iopj_lab::image::Program;
use iopj_lab::session::{AGAIN, Device, Guest, GuestStudy, Pair};
use iopj_lab::vm::Nic;
use iopj_record::Trial;
use iopj_store::Store;
use iopj_study::plan;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

pub(crate) const KERNEL: &str = "6.18";

#[test]
fn both_hosts_are_watched_and_every_io_reaches_the_drive() {
    let Some((_alone, folder)) = lab_of_two(&[KERNEL]) else { return };
    let change = [
        ("replicates = 3", "replicates = 1\nidle = \"1s\"\nsettle_limit = \"1s\""),
        ("[1, 4, 16, 32]", "[1, 32]"),
        ("ios = 1000", "ios = 500"),
        // The paper's target of one core, and interrupts of this host's card on one.
        (
            "transport = [",
            "target.cpus_online = 1\nbaseline = true\nhost.nic_irq_affinity = \"1\"\nhere = \
             \"/dev/nvme0n1\"\ntransport = [\"here\", ",
        ),
        ("[[workload]]", METERS),
    ];
    let output = lab_run(&folder, "fabric-lab", &change, &format!("--pair --allow-exec --kernel {KERNEL}"));
    let trials = trials(&folder, "fabric-lab", &output);
    assert_eq!(trials.len(), 12);
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
            let cores = if transport == Transport::Here { 2 } else { 1 };
            assert_eq!((measured.evidence.cpu.cores, measured.evidence.devices[0].reads), (cores, 500));
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
    eprintln!("{} and {} interrupts per I/O at depth 1 and 32", over_tcp(1), over_tcp(32));
    assert!(over_tcp(32) < 0.8 * over_tcp(1), "{}", over_tcp(32));
    let store = Store::open(&folder.join("fabric-lab.iopj")).unwrap();
    let events = store.events().unwrap();
    let is_set = |words: [&str; 2]| {
        events.iter().any(|(_, kind, detail)| kind == "set" && words.iter().all(|word| detail.contains(word)))
    };
    assert!(is_set(["/smp_affinity_list: ", "-> 1"]), "{events:?}");
    assert!(is_set(["/dev/iopj.agent:devices/system/cpu/cpu1/online", "1 -> 0"]), "{events:?}");
    let study = store.study().unwrap();
    assert_eq!(study.target, "/dev/iopj.agent:/dev/nvme0n1");
    joules_of_both(&trials);
    network_by_itself(&Store::open(&folder.join("fabric-lab.iopj")).unwrap().networks().unwrap());
    assert_eq!(study.provenance["target_host.nvme0n1.serial"], "iopjlab");
    assert_eq!(study.provenance["here.nvme0n1.serial"], "iopjlab");
}

/// A meter of either host that always says the same. An emulated machine pauses.
const METERS: &str = "[meters.wall]\nkind = \"command\"\ninterval = \"50ms\"\nbridge = \"1m\"\nscope = \
                      \"system\"\ncommand = [\"sh\", \"-c\", \"while echo 20; do sleep 0.05; \
                      done\"]\n[fabric.meters.wall]\nkind = \"command\"\ninterval = \"50ms\"\nbridge = \
                      \"1m\"\nscope = \"system\"\ncommand = [\"sh\", \"-c\", \"while echo 30; do sleep \
                      0.05; done\"]\n[[workload]]";

/// The joules of each host are its meter's watts over the trial's own window, and over the wire they are
/// added. A window may be too short for four readings.
fn joules_of_both(trials: &[Trial]) {
    let mut sums = 0;
    for trial in trials {
        let measured = trial.outcome.measurement().unwrap();
        let of = |meter: &str| {
            let mut of_meter = measured.energy.iter().filter(|energy| energy.meter == meter);
            let one = of_meter.next().unwrap_or_else(|| panic!("{meter}: {:?}", measured.energy));
            assert!(of_meter.next().is_none() && one.scope == Scope::System);
            one
        };
        let seconds = measured.window_ns as f64 * 1e-9;
        for (meter, watts) in [("wall", 20.0), ("target.wall", 30.0), ("host+target", 50.0)] {
            if let Some(joules) = of(meter).joules() {
                assert!((joules.seconds - seconds).abs() < 0.02 * seconds, "{joules:?}, {seconds} s");
                assert!((joules.joules - watts * joules.seconds).abs() < 1e-3, "{meter}: {joules:?}");
            }
        }
        let [both, here, there] = ["host+target", "wall", "target.wall"].map(|meter| of(meter).joules());
        let transport = trial.settings["transport"].as_str();
        let is_remote = transport == "tcp";
        assert_eq!(both.is_some(), is_remote && here.is_some() && there.is_some(), "{:?}", measured.energy);
        sums += u32::from(both.is_some());
        if !is_remote {
            let EnergyOutcome::Incomplete(why) = &of("host+target").outcome else { panic!() };
            let (who, idle) = match transport {
                "here" => ("this host", there),
                _ => ("the target host", here),
            };
            assert!(why.contains(&format!("{who} does the I/O alone")) && idle.is_none(), "{why}");
        }
    }
    assert!(sums > 0);
}

/// Before the only block, by our own test: neither guest has iperf3.
fn network_by_itself(networks: &[NetworkBaseline]) {
    let which = |one: &NetworkBaseline| (one.server, one.latency_ns.is_some(), one.bits_per_s.is_some());
    assert_eq!(
        networks.iter().map(which).collect::<Vec<_>>(),
        [(HostSide::Target, true, false), (HostSide::Target, false, true), (HostSide::Host, false, true)],
        "{networks:?}"
    );
    for one in networks {
        assert_eq!((one.block, one.transport, one.failure.as_deref()), (0, Transport::Tcp, None));
        assert!(one.tool.starts_with("iopj "), "{}", one.tool);
    }
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
    let Some((_alone, folder)) = lab_of_two(&[KERNEL]) else { return };
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

/// Runs scripts in the two guests: what they print. A store that the host's leaves is in the folder.
pub(crate) fn scripts(folder: &Path, host: String, target: String) -> Vec<String> {
    scripts_with(folder, &crate::iopj_of_guests(), [host, target], [&[], &[]])
}

/// As [`scripts`], with this iopj, and with more programs of this machine in the host and in the target host.
pub(crate) fn scripts_with(
    folder: &Path,
    iopj: &Path,
    scripts: [String; 2],
    more: [&[&str]; 2],
) -> Vec<String> {
    let kernel = kernel(KERNEL).unwrap();
    // Messages of the kernel would stand amid lines.
    let scripts = scripts.map(|script| format!("dmesg -n 1\n{script}"));
    let guest = Guest {
        kernel: &kernel,
        device: Device::Nvme,
        vcpus: 2,
        exact: false,
        vmlinux: None,
        time_limit: Duration::from_secs(1800),
        fault: None,
    };
    let iopj = Program { name: "iopj".to_owned(), host: iopj.to_owned() };
    let [programs, target_programs] = more.map(|more| {
        let more = more.iter().flat_map(|program| Program::called(program).unwrap());
        std::iter::once(iopj.clone()).chain(more).collect::<Vec<_>>()
    });
    let (scripts, nic) = (Some(scripts), Nic::Virtio);
    let pair = Pair { host: guest.clone(), target: guest, target_programs, nic, scripts };
    let study = GuestStudy {
        name: "scripts".to_owned(),
        store: folder.join("scripts.iopj"),
        text: STUDY,
        programs,
        ..GuestStudy::default()
    };
    let mut lines = Vec::new();
    let cache = Cache::open().unwrap();
    let done = pair.run(&cache, &study, &AtomicBool::new(false), &mut |line| {
        // Where a test fails, or hangs, this says how far it came.
        eprintln!("{line}");
        if line == AGAIN {
            lines.clear();
        }
        lines.push(line.to_owned());
    });
    let is_fine = match &done {
        Ok(_) => folder.join("scripts.iopj").exists(),
        Err(error) => error.to_string().contains("left no store"),
    };
    assert!(is_fine, "{lines:#?}");
    lines
}

/// A study that takes a while.
const STUDY: &str = "name = \"s\"\npaths = \"io_uring/syscall/interrupt\"\nreplicates = 100\nmeters = \
                     \"none\"\n[fabric]\ntarget_host = \"/dev/iopj.agent\"\ndevice = \
                     \"/dev/nvme0n1\"\naddress = \"10.1.0.1\"\ntransport = [\"tcp\", \"local\", \
                     \"loop\"]\n[[workload]]\nios = 300\niodepth = 4\n";

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

/// Makes a file system on a drive in the target's memory (the emulated drive keeps nothing), and says every
/// second what is left there.
const SERVE_FILES: &str = r#"mkdir /sys/kernel/config/nullb/nullb0 && cd /sys/kernel/config/nullb/nullb0 &&
echo 1 >memory_backed && echo 64 >size && echo 4096 >blocksize && echo 1 >power && cd /tmp &&
mke2fs -b 4096 /dev/nullb0 >/dev/null && mkdir -p /mnt && mount -t ext4 /dev/nullb0 /mnt ||
echo 'no file system'
(while :; do
	sleep 1
	echo "there: [$(left)$(ls /mnt | grep iopj)]"
done) &
"#;

/// The study on a file that iopj makes there: its changes as arguments of sed.
fn on_a_file(changes: &str, file: &str) -> String {
    let folder = "-e '1i size = \"4m\"' -e 's#^device.*#folder = \"/mnt\"#'";
    format!("sed {folder} {changes} /lab/study-1.toml >/tmp/{file}.toml\n")
}

/// A seed with which the target host measures first.
fn seed_of_local_first() -> u64 {
    // Two cells, of which the second is `local`.
    let is_first = |seed: &u64| plan::order(&[0, 0], 1, *seed)[0].cell == 1;
    (0..).find(is_first).unwrap()
}

/// What the host does on files of the target host. A run that ends too early ends the wait for it.
const ON_FILES: &str = r#"
iopj run /tmp/reads.toml --allow hosts >/dev/null 2>/tmp/log &
run=$!
until [ "$(cat /sys/block/nvme0n1/ro 2>/dev/null)" = 1 ] || ! kill -0 $run; do sleep 0.02; done
dd if=/dev/zero of=/dev/nvme0n1 bs=4096 count=1 2>&1 | head -1
kill $run
wait $run
cat /tmp/log
NOTHING
iopj run /tmp/long.toml --allow hosts >/dev/null 2>/tmp/log &
run=$!
until grep -q '^1/2' /tmp/log || ! kill -0 $run; do sleep 0.1; done
sleep 2
kill -INT $run
wait $run
echo "interrupted with status $?"
cat /tmp/log
cd /sys/kernel/config/nullb && mkdir nullb0 && cd nullb0 && echo 1 >memory_backed && echo 64 >size &&
echo 1 >power && cd /tmp || echo 'no drive here'
nomerges=$(cat /sys/block/nullb0/queue/nomerges)
iopj run /tmp/writes.toml --allow hosts --store /tmp/study-1.iopj >/dev/null 2>/tmp/log
echo "unnamed with status $?: $(cat /tmp/log)"
iopj run /tmp/writes.toml --allow hosts --destroy-data /dev/nullb0 --store /tmp/study-1.iopj >/dev/null 2>/tmp/log
echo "written with status $?, nomerges from $nomerges to $(cat /sys/block/nullb0/queue/nomerges)"
cat /tmp/log
cp /tmp/study-1.iopj* /out/
NOTHING
sleep 3
"#;

/// On a file that iopj makes on the target host: it may be written without leave, and nothing else may, a
/// drive of this host beside it neither; Ctrl-C does not wait for a trial there; and the file goes.
#[test]
fn a_file_is_made_there_and_only_written_by_a_study_that_writes() {
    let Some((_alone, folder)) = lab_of_two(&[KERNEL]) else { return };
    let once = "-e '/^replicates/d'";
    let (seed, both) = (seed_of_local_first(), "transport = [\"tcp\", \"local\"]");
    let long =
        format!("{once} -e '1i seed = {seed}' -e 's#^transport.*#{both}#' -e 's#^ios.*#runtime = \"10h\"#'");
    let both = "here = \"/dev/nullb0\"\\ntransport = [\"tcp\", \"here\"]\\n[settings]\\nnomerges = 2";
    let writes = format!("{once} -e 's#^transport.*#{both}#' -e '/^ios/a rw = \"randwrite\"'");
    let host = [
        LEFT,
        &on_a_file("", "reads"),
        &on_a_file(&long, "long"),
        &on_a_file(&writes, "writes"),
        &ON_FILES.replace("NOTHING", NOTHING),
    ]
    .concat();
    let lines = scripts(&folder, host, format!("{LEFT}{SERVE_FILES}{SERVE}"));
    let has = |line: &str| lines.iter().any(|other| other == line);
    assert!(lines.iter().any(|line| line.contains("dd: ") && line.contains("not permitted")), "{lines:#?}");
    assert!(has("interrupted with status 130"), "{lines:#?}");
    let refused = |line: &&String| line.contains("allow it by --destroy-data /dev/nullb0, if all data");
    let refused = lines.iter().find(refused).unwrap_or_else(|| panic!("{lines:#?}"));
    assert!(refused.starts_with("unnamed with status 2: "), "{refused}");
    assert!(has("written with status 0, nomerges from 0 to 0"), "{lines:#?}");
    assert_eq!(lines.iter().filter(|line| *line == "left: []").count(), 2, "{lines:#?}");
    let there: Vec<&String> = lines.iter().filter(|line| line.starts_with("target: there: ")).collect();
    assert!(there.iter().any(|line| line.contains("iopj-")), "{lines:#?}");
    assert_eq!(there.last().map(|line| line.as_str()), Some("target: there: []"), "{lines:#?}");
    let store = Store::open(&folder.join("scripts.iopj")).unwrap();
    assert_eq!(store.study().unwrap().target, "/dev/iopj.agent:/mnt");
    let trials = store.trials().unwrap();
    let over =
        |transport: &str| trials.iter().find(|trial| trial.settings["transport"] == transport).unwrap();
    let (trial, here) = (over("tcp"), over("here").outcome.measurement().unwrap());
    let drive = &here.evidence.devices[0];
    assert_eq!((trials.len(), here.writes, drive.writes, &*drive.name), (2, 300, 300, "nullb0"));
    assert_eq!(drive.settings["nomerges"], "2");
    by_interrupt(trial);
    let measured = trial.outcome.measurement().unwrap();
    let target = measured.evidence.fabric.as_ref().unwrap().target.as_ref().unwrap();
    assert_eq!((measured.writes, &*target.devices[0].name), (300, "nullb0"));
    // The file system may add a few.
    assert!((300..=316).contains(&target.devices[0].writes), "{:?}", target.devices);
}

/// Kills runs, every other one once it has something to leave; a run that ends because its agent was killed
/// begins again.
const KILLED: &str = r#"
begin() {
	rm -f /tmp/*.iopj*
	iopj run /lab/study-1.toml --allow hosts --store /tmp/s.iopj >/dev/null 2>&1 &
	run=$!
}
number=0
while [ $number -lt TIMES ]; do
	number=$((number + 1))
	begin
	if [ $((number % 2)) = 1 ]; then
		tries=600
		until [ -n "$(left)" ] || [ $tries = 0 ]; do
			tries=$((tries - 1))
			kill -0 $run 2>/dev/null || begin
			sleep 0.1
		done
	else
		moment
		sleep 1
	fi
	[ -z "$(left)" ] || busy=$((busy + 1))
	kill -9 $run
	wait $run 2>/dev/null
done
rm -f /tmp/*.iopj*
echo "killed $number while ${busy:-0} had something to leave"
NOTHING
sleep 30
"#;

/// Kills the run and the agent in turn, each so many times, at moments of a seeded generator; then demands
/// that nothing is left on either side.
fn killed(times: u32) {
    let Some((_alone, folder)) = lab_of_two(&[KERNEL]) else { return };
    // A moment after each other, in tenths of a second.
    let random = "seed=13\nmoment() {\n\tseed=$(((seed * 1103515245 + 12345) % 2147483648))\n\tsleep \
                  $((seed / 65536 % 4)).$((seed / 4096 % 10))\n}\n";
    let host =
        [LEFT, random, &KILLED.replace("TIMES", &times.to_string()).replace("NOTHING", NOTHING)].concat();
    let target = format!(
        "{LEFT}{random}({SERVE}) &\n(while :; do\n\tmoment\n\tsleep 2\n\tpid=$(pidof iopj | tr ' ' '\\n' | \
         while read -r pid; do grep -q agent /proc/$pid/cmdline && echo $pid; done)\n\t[ -z \"$pid\" ] \
         || {{ kill -9 $pid && \
         echo killed; }}\n\tsleep 1\ndone) &\nkiller=$!\nsleep 10\nwhile :; do\n\tsleep 1\n\techo \"there: \
         [$(left)]\"\ndone\n"
    );
    let lines = scripts(&folder, host, target);
    let killed =
        lines.iter().find(|line| line.starts_with("killed ")).unwrap_or_else(|| panic!("{lines:#?}"));
    let busy: u32 = killed.split(' ').nth(3).unwrap().parse().unwrap();
    assert!(busy * 2 >= times, "{killed}");
    assert!(lines.iter().any(|line| line == "target: killed"), "no agent was killed: {lines:#?}");
    assert!(lines.iter().any(|line| line == "left: []"), "{lines:#?}");
    let last = lines.iter().rev().find(|line| line.starts_with("target: there: "));
    assert_eq!(last.map(String::as_str), Some("target: there: []"), "{lines:#?}");
}

#[test]
fn nothing_is_left_after_either_side_is_killed() {
    killed(4);
}

#[test]
#[ignore = "a soak: cargo xtask soak"]
fn soak_nothing_is_left_after_either_side_is_killed() {
    killed(50);
}
