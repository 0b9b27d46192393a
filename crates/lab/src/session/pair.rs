//! Two guests on one wire: the host, which runs a study over fabrics, and the target host, which has the
//! emulated drive and runs the agent. They are joined by a network and by a serial line for the agent.

use super::guest::HOLD_COUNTERS;
use super::{
    Device, Guest, GuestDone, GuestStudy, StudyDone, attempt, check, publish, status_file, store_file,
    study_file,
};
use crate::cache::Cache;
use crate::error::LabError;
use crate::image::init::{OUT_FOLDER, OUT_PORT};
use crate::image::{self, GuestFile, GuestSpec, ModuleWish, Program};
use crate::profile::{self, Profiler};
use crate::vm::{self, AGENT_PORT, Accelerator, MachineSpec, Nic, RunFolder, VmError, Wire};
use iopj_core::fabric::HostSide;
use iopj_core::{CostProfile, Transport};
use iopj_probe::marker::AT_REST;
use iopj_record::Trial;
use iopj_store::Store;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

/// Where the guests are on their network.
pub const TARGET_ADDRESS: &str = "10.1.0.1";
const HOST_ADDRESS: &str = "10.1.0.2";
/// The serial line's end, in both guests.
pub const AGENT_STREAM: &str = "/dev/iopj.agent";
/// The drive of the target guest, and of the host if it has one.
pub const TARGET_DEVICE: &str = "/dev/nvme0n1";
/// How long both hosts are counted at rest before each window.
const REST_MS: u64 = 1000;
/// How often the end of the other machine is looked for.
const TICK: Duration = Duration::from_millis(100);

/// Two guests.
#[derive(Clone, Debug)]
pub struct Pair<'a> {
    /// The host.
    pub host: Guest<'a>,
    /// The target host.
    pub target: Guest<'a>,
    /// The card of each.
    pub nic: Nic,
    /// The target host's programs: an iopj for its processor.
    pub target_programs: Vec<Program>,
    /// What the host and the target do once their network is up, instead of a study and its agent; for
    /// tests.
    pub scripts: Option<[String; 2]>,
}

impl Pair<'_> {
    /// Runs a study on the host and puts its store in its place. `line` gets what either guest prints. Both
    /// begin again if one ends by QEMU's fault, as [`Guest::run`] does.
    ///
    /// # Errors
    /// [`LabError`]: a guest did not start or end well; then there is no store. No process is left.
    pub fn run(
        &self,
        cache: &Cache,
        study: &GuestStudy<'_>,
        stop: &AtomicBool,
        line: &mut dyn FnMut(&str),
    ) -> Result<GuestDone, LabError> {
        attempt(line, |line| self.once(cache, study, stop, line))
    }

    /// Runs a study in two guests.
    fn once(
        &self,
        cache: &Cache,
        study: &GuestStudy<'_>,
        stop: &AtomicBool,
        line: &mut dyn FnMut(&str),
    ) -> Result<GuestDone, LabError> {
        check(std::slice::from_ref(study), self.host.exact)?;
        let folders = [RunFolder::create(cache.folder())?, RunFolder::create(cache.folder())?];
        let counting =
            |folder: &RunFolder| self.host.exact.then(|| Profiler::install(folder.path())).transpose();
        let profilers = [counting(&folders[0])?, counting(&folders[1])?];
        let host = self.prepare((&self.host, &profilers[0]), cache, &folders, Side::Host, study)?;
        let target = self.prepare((&self.target, &profilers[1]), cache, &folders, Side::Target, study)?;
        let outs = folders.each_ref().map(|folder| folder.path().join("out"));
        for out in &outs {
            fs::create_dir(out).map_err(LabError::at(out))?;
        }
        let (stop_target, target_ended) = (AtomicBool::new(false), AtomicBool::new(false));
        let (sender, lines) = channel();
        let ended = thread::scope(|scope| {
            let [host_folder, target_folder] = &folders;
            let served = scope.spawn(|| {
                let mut said = |text: &str| drop(sender.send(text.to_owned()));
                let served = vm::run(&target, target_folder, &outs[1], &stop_target, &mut said);
                target_ended.store(true, Ordering::Relaxed);
                served
            });
            let watched = Watched { stop, target_ended: &target_ended };
            let ended = watched.run(&host, host_folder, &outs[0], &lines, line);
            stop_target.store(true, Ordering::Relaxed);
            let served = served.join().unwrap_or(Err(VmError::Stopped));
            for text in lines.try_iter() {
                line(&format!("target: {text}"));
            }
            match (ended, served) {
                // The target guest failed first.
                (Err(VmError::Stopped), Err(error)) if !matches!(error, VmError::Stopped) => Err(error),
                (ended, _) => ended,
            }
        })?;
        let made = outs[0].join(store_file(1));
        let status = fs::read_to_string(outs[0].join(status_file(1))).ok();
        let status = status.and_then(|status| status.trim().parse().ok()).unwrap_or(ended.status);
        if !made.exists() {
            return Err(LabError::NoStore { study: study.name.clone(), status });
        }
        let counted = self.complete(&made, [&host, &target], &folders[1], &outs, &profilers)?;
        publish(&made, &study.store)?;
        let done = StudyDone { status, counted };
        Ok(GuestDone { studies: vec![Ok(done)], boot: ended.boot, total: ended.total })
    }

    /// Adds to the store what only this host knows: both machines, and what their plugins counted, less what
    /// they execute at rest. A trial that the target host measured by itself has the target's counts.
    fn complete(
        &self,
        made: &Path,
        machines: [&MachineSpec; 2],
        target_folder: &RunFolder,
        outs: &[PathBuf; 2],
        profilers: &[Option<Profiler>; 2],
    ) -> Result<usize, LabError> {
        let mut store = Store::open_for_run(made)?;
        for (guest, kind, machine) in [(&self.host, "lab", 0), (&self.target, "lab-target", 1)]
            .map(|(guest, kind, index)| (guest, kind, machines[index]))
        {
            guest.describe(&mut store, kind, machine)?;
        }
        let [Some(host), Some(target)] = profilers else { return Ok(0) };
        let archive = target_folder.path().join(vm::OUT_FILE);
        vm::unpack(&archive, &outs[1]).map_err(LabError::at(&archive))?;
        let (host, target) = (self.host.profiles(host, &outs[0])?, self.target.profiles(target, &outs[1])?);
        let mut counted = 0;
        for (position, side, profile) in both_sides(&store.trials()?, &host, &target) {
            counted += usize::from(store.add_costs(position, side, &profile)? && side == HostSide::Host);
        }
        Ok(counted)
    }

    /// A guest's machine with its end of the wire, and its root.
    fn prepare(
        &self,
        (guest, profiler): (&Guest<'_>, &Option<Profiler>),
        cache: &Cache,
        folders: &[RunFolder; 2],
        side: Side,
        study: &GuestStudy<'_>,
    ) -> Result<MachineSpec, LabError> {
        let folder = &folders[side as usize];
        let first = folders[0].path().file_name().unwrap_or_default().to_string_lossy();
        let place = |name: &str| format!("../{first}/{name}");
        let sockets = match side {
            Side::Host => [place("host"), place("target")],
            Side::Target => [place("target"), place("host")],
        };
        let wire = Wire {
            nic: self.nic,
            sockets,
            address: side as u8 + 1,
            serial: place("agent"),
            listens: side == Side::Host,
        };
        let mut plain = guest.machine(cache, folder, profiler.as_ref(), &[])?;
        if guest.exact {
            // At rest there are as many ticks as at work, so they can be taken off.
            plain.kernel_arguments.push("nohz=off".to_owned());
        }
        let has_drive = side == Side::Target || study.here;
        let drives = if has_drive { plain.drives } else { Vec::new() };
        let machine = MachineSpec { wire: Some(wire), drives, ..plain };
        let file = GuestFile { path: study_file(1), content: study.text.as_bytes().to_vec(), mode: 0o644 };
        let root = GuestSpec {
            programs: match side {
                Side::Host => study.programs.clone(),
                Side::Target => self.target_programs.clone(),
            },
            modules: self.modules(guest.vcpus, side, study),
            files: if side == Side::Host { vec![file] } else { Vec::new() },
            script: self.script(side, study, &machine.accelerator),
            ..guest.root(cache)?
        };
        image::build(&root, &guest.kernel.modules, &guest.kernel.release, &machine.initramfs)?;
        Ok(machine)
    }

    /// The modules of a side.
    fn modules(&self, vcpus: u32, side: Side, study: &GuestStudy<'_>) -> Vec<ModuleWish> {
        let mut wishes = match side {
            Side::Host if !study.here => Vec::new(),
            _ => Device::Nvme.modules(vcpus, None),
        };
        let (own, by_rdma) = match side {
            Side::Host => (&["nvme-tcp"][..], "nvme-rdma"),
            Side::Target => (&["configfs", "nvmet", "nvmet-tcp", "nvme-loop"][..], "nvmet-rdma"),
        };
        // Tests make a file system, on a drive that keeps what is written.
        if self.scripts.is_some() {
            let options = vec!["nr_devices=0".to_owned()];
            wishes.extend([ModuleWish::plain("ext4"), ModuleWish { name: "null_blk".to_owned(), options }]);
        }
        let names = own.iter().copied().chain([self.nic.module()]);
        let by_rdma = ["rdma_rxe", by_rdma].into_iter().filter(|_| study.rdma);
        wishes.extend(names.chain(by_rdma).map(ModuleWish::plain));
        wishes
    }
}

/// What each measured trial cost on each host, by its position. Over a wire what a host executes at rest is
/// taken off; what one host did alone is its own.
fn both_sides(
    trials: &[Trial],
    host: &BTreeMap<u32, CostProfile>,
    target: &BTreeMap<u32, CostProfile>,
) -> Vec<(u64, HostSide, CostProfile)> {
    let mut costs = Vec::new();
    for trial in trials {
        let Some(measured) = trial.outcome.measurement() else { continue };
        let place = trial.position as u32;
        let far =
            measured.evidence.fabric.as_deref().and_then(|fabric| Some((fabric, fabric.target.as_ref()?)));
        let Some((here, there)) = far else {
            let is_here =
                measured.evidence.fabric.as_ref().is_some_and(|fabric| fabric.transport == Transport::Here);
            let own = if is_here { host.get(&place) } else { target.get(&place) }.cloned();
            costs.extend(own.map(|profile| (trial.position, HostSide::Host, profile)));
            continue;
        };
        let sides = [
            (HostSide::Host, host, measured.window_ns, here.rest_ns),
            (HostSide::Target, target, there.window_ns, there.rest_ns),
        ];
        for (side, profiles, window_ns, rest_ns) in sides {
            let counted = profiles.get(&place).zip(profiles.get(&(place | AT_REST)));
            let Some(((whole, rest), rest_ns)) = counted.zip(rest_ns.filter(|rest_ns| *rest_ns > 0)) else {
                continue;
            };
            let share = window_ns as f64 / rest_ns as f64;
            costs.push((trial.position, side, profile::without(whole, rest, share)));
        }
    }
    costs
}

/// Which of the two guests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Host,
    Target,
}

/// The host's machine, which is stopped if the target's ends before it.
struct Watched<'a> {
    stop: &'a AtomicBool,
    target_ended: &'a AtomicBool,
}

impl Watched<'_> {
    /// Runs the machine; `lines` brings what the target prints meanwhile.
    fn run(
        &self,
        machine: &MachineSpec,
        folder: &RunFolder,
        out: &Path,
        lines: &Receiver<String>,
        line: &mut dyn FnMut(&str),
    ) -> Result<vm::Ended, VmError> {
        let (ended, stop) = (AtomicBool::new(false), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    if self.stop.load(Ordering::Relaxed) || self.target_ended.load(Ordering::Relaxed) {
                        stop.store(true, Ordering::Relaxed);
                    }
                    thread::sleep(TICK);
                }
            });
            let result = vm::run(machine, folder, out, &stop, &mut |text| {
                for other in lines.try_iter() {
                    line(&format!("target: {other}"));
                }
                if !text.contains(super::POWER_DOWN) {
                    line(text);
                }
            });
            ended.store(true, Ordering::Relaxed);
            result
        })
    }
}

/// Brings up the card, and names the serial line's end.
fn network(address: &str, rdma: bool) -> String {
    let emulated = if rdma { "iopj lab soft-roce \"$nic\" || exit 90\n" } else { "" };
    format!(
        "nic=\nfor folder in /sys/class/net/*; do\n\t[ ! -e \"$folder/device\" ] || \
         nic=${{folder##*/}}\ndone\n[ -n \"$nic\" ] || {{ echo 'lab: the guest has no network card'; exit \
         90; }}\nifconfig \"$nic\" {address} netmask 255.255.255.0 up || exit 90\n{emulated}{}",
        serial_line()
    )
}

/// Names the serial line's end. QEMU tells the ports' names to their driver after it is loaded.
fn serial_line() -> String {
    format!(
        "tries=300\nwhile [ $tries -gt 0 ]; do\n\tfor folder in /sys/class/virtio-ports/*; do\n\t\t[ \"$(cat \
         \"$folder/name\" 2>/dev/null)\" = {AGENT_PORT} ] && ln -sf /dev/${{folder##*/}} \
         {AGENT_STREAM}\n\tdone\n\t[ ! -c {AGENT_STREAM} ] || break\n\ttries=$((tries - 1))\n\tsleep \
         0.1\ndone\n[ -c {AGENT_STREAM} ] || {{ echo 'lab: the guest has no port {AGENT_PORT}'; exit 90; \
         }}\n"
    )
}

/// What the target does: it serves one run after the other.
fn serve(exact: bool) -> String {
    let rest = if exact { format!(" --rest-ms {REST_MS}") } else { String::new() };
    format!(
        "while :; do\n\tiopj agent{rest} <>{AGENT_STREAM} >&0\n\techo \"agent ended with status \
         $?\"\n\tsleep 0.2\ndone\n"
    )
}

/// Hands out the kernel's symbols at once, for the target's machine is ended while it serves.
fn hand_out_symbols() -> String {
    format!(
        "cat /proc/kallsyms >/out/kallsyms || exit 98\nfor folder in /sys/class/virtio-ports/*; do\n\t[ \
         \"$(cat \"$folder/name\" 2>/dev/null)\" != {OUT_PORT} ] || tar -c -f /dev/${{folder##*/}} -C / \
         {OUT_FOLDER} || exit 98\ndone\n"
    )
}

impl Pair<'_> {
    /// The script of a side.
    fn script(&self, side: Side, study: &GuestStudy<'_>, accelerator: &Accelerator) -> String {
        let held = match accelerator {
            Accelerator::Tcg { plugin: None, .. } => HOLD_COUNTERS,
            Accelerator::Kvm | Accelerator::Tcg { .. } => "",
        };
        let symbols = match (self.host.exact, side) {
            (false, _) => String::new(),
            (true, Side::Host) => "cat /proc/kallsyms >/out/kallsyms || exit 98\n".to_owned(),
            (true, Side::Target) => hand_out_symbols(),
        };
        let serve = || serve(self.host.exact);
        let own = self.scripts.as_ref().map(|scripts| scripts[side as usize].as_str());
        let (address, before, work) = match side {
            Side::Host => {
                let drive = if study.here { wait_for_drive() } else { String::new() };
                (HOST_ADDRESS, drive, own.map_or_else(|| run_of(study), str::to_owned))
            }
            Side::Target => (TARGET_ADDRESS, wait_for_drive(), own.map_or_else(serve, str::to_owned)),
        };
        format!("{symbols}{held}{}{before}cd /tmp\n{work}", network(address, study.rdma))
    }
}

/// The run of the study.
fn run_of(study: &GuestStudy<'_>) -> String {
    let mut destroy = String::new();
    if study.writes {
        destroy += &format!(" --destroy-data {AGENT_STREAM}:{TARGET_DEVICE}");
        destroy += &if study.here { format!(" --destroy-data {TARGET_DEVICE}") } else { String::new() };
    }
    let allow = study.allow.option();
    let (file, store) = (study_file(1), store_file(1));
    // Into a pipe it prints its progress in lines.
    format!(
        "{{ iopj run /{file}{destroy}{allow} --store {store} 2>&1 >/dev/null; echo $? >/out/{}; }} | cat\n[ \
         ! -e {store} ] || cp {store}* /out/ || exit 99\n",
        status_file(1)
    )
}

/// Waits until the drive can be opened.
fn wait_for_drive() -> String {
    format!(
        "tries=600\nuntil {{ true <{TARGET_DEVICE}; }} 2>/dev/null; do\n\ttries=$((tries - 1))\n\t[ $tries \
         -gt 0 ] || {{ echo 'lab: the drive {TARGET_DEVICE} did not appear'; exit 97; }}\n\tsleep \
         0.1\ndone\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopj_core::fabric::{FabricEvidence, TargetHostEvidence};
    use iopj_core::{Cost, CostSource, Evidence, FunctionCost, Space, Workload};
    use iopj_record::{Measurement, Outcome};

    fn profile(instructions: u64) -> CostProfile {
        let function = FunctionCost {
            space: Space::User,
            function: String::new(),
            module: None,
            directory: None,
            cost: Cost { instructions, ..Cost::default() },
        };
        CostProfile::new(CostSource::Exact, Vec::new(), vec![function])
    }

    fn trial(position: u64, target: Option<TargetHostEvidence>) -> Trial {
        let fabric =
            FabricEvidence { rest_ns: target.as_ref().map(|_| 50), target, ..FabricEvidence::default() };
        let evidence = Evidence { fabric: Some(Box::new(fabric)), ..Evidence::default() };
        let measurement = Measurement { window_ns: 100, evidence, ..Measurement::default() };
        let path = "io_uring/syscall/interrupt".parse().unwrap();
        Trial { position, ..Trial::new(path, Workload::default(), measurement.into()) }
    }

    #[test]
    fn each_side_has_its_counts_less_its_own_rest() {
        let far = TargetHostEvidence { window_ns: 300, rest_ns: Some(100), ..TargetHostEvidence::default() };
        // How long the last one's target rested is not known.
        let unknown = TargetHostEvidence { rest_ns: None, ..far.clone() };
        let trials = [trial(0, None), trial(1, Some(far)), trial(2, Some(unknown))];
        let host = BTreeMap::from([(1, profile(1000)), (1 | AT_REST, profile(30))]);
        let target = BTreeMap::from([
            (0, profile(7)),
            (1, profile(5000)),
            (1 | AT_REST, profile(200)),
            (2, profile(5000)),
            (2 | AT_REST, profile(200)),
        ]);
        let expected = [
            // The target host measured this one by itself.
            (0, HostSide::Host, profile(7)),
            (1, HostSide::Host, profile(1000 - 2 * 30)),
            (1, HostSide::Target, profile(5000 - 3 * 200)),
        ];
        assert_eq!(both_sides(&trials, &host, &target), expected);
        // This one the host measured by itself.
        let mut alone = trial(1, None);
        let Outcome::Measured(measured) = &mut alone.outcome else { panic!() };
        measured.evidence.fabric.as_mut().unwrap().transport = Transport::Here;
        assert_eq!(both_sides(&[alone], &host, &target), [(1, HostSide::Host, profile(1000))]);
    }
}
