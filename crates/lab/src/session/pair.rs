//! Two guests on one wire: the host, which runs a study over fabrics, and the target host, which has the
//! emulated drive and runs the agent. They are joined by a network and by a serial line for the agent.

use super::guest::HOLD_COUNTERS;
use super::{
    Device, Guest, GuestDone, GuestStudy, StudyDone, check, publish, status_file, store_file, study_file,
};
use crate::cache::Cache;
use crate::error::LabError;
use crate::image::{self, GuestFile, GuestSpec, ModuleWish};
use crate::vm::{self, AGENT_PORT, Accelerator, MachineSpec, Nic, RunFolder, VmError, Wire};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

/// Where the guests are on their network.
pub const TARGET_ADDRESS: &str = "10.1.0.1";
const HOST_ADDRESS: &str = "10.1.0.2";
/// The serial line's end, in both guests.
pub const AGENT_STREAM: &str = "/dev/iopj.agent";
/// The drive of the target guest.
pub const TARGET_DEVICE: &str = "/dev/nvme0n1";
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
    /// What the host and the target do once their network is up, instead of a study and its agent; for
    /// tests.
    pub scripts: Option<[String; 2]>,
}

impl Pair<'_> {
    /// Runs a study on the host and puts its store in its place. `line` gets what either guest prints.
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
        check(std::slice::from_ref(study), false)?;
        let folders = [RunFolder::create(cache.folder())?, RunFolder::create(cache.folder())?];
        let host = self.prepare(&self.host, cache, &folders, Side::Host, study)?;
        let target = self.prepare(&self.target, cache, &folders, Side::Target, study)?;
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
        self.host.complete(&made, &outs[0], &host, None)?;
        publish(&made, &study.store)?;
        let done = StudyDone { status, counted: 0 };
        Ok(GuestDone { studies: vec![Ok(done)], boot: ended.boot, total: ended.total })
    }

    /// A guest's machine with its end of the wire, and its root.
    fn prepare(
        &self,
        guest: &Guest<'_>,
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
        let plain = guest.machine(cache, folder, None, &[])?;
        // The host has no drive of its own.
        let drives = if side == Side::Host { Vec::new() } else { plain.drives };
        let machine = MachineSpec { wire: Some(wire), drives, ..plain };
        let file = GuestFile { path: study_file(1), content: study.text.as_bytes().to_vec(), mode: 0o644 };
        let root = GuestSpec {
            programs: study.programs.clone(),
            modules: self.modules(guest.vcpus, side, study.rdma),
            files: if side == Side::Host { vec![file] } else { Vec::new() },
            script: self.script(side, study, &machine.accelerator),
        };
        image::build(&root, &guest.kernel.modules, &guest.kernel.release, &machine.initramfs)?;
        Ok(machine)
    }

    /// The modules of a side.
    fn modules(&self, vcpus: u32, side: Side, rdma: bool) -> Vec<ModuleWish> {
        let mut wishes = match side {
            Side::Host => Vec::new(),
            Side::Target => Device::Nvme.modules(vcpus, None),
        };
        let (own, by_rdma) = match side {
            Side::Host => (&["nvme-tcp"][..], "nvme-rdma"),
            Side::Target => (&["configfs", "nvmet", "nvmet-tcp", "nvme-loop"][..], "nvmet-rdma"),
        };
        let names = own.iter().copied().chain([self.nic.module()]);
        wishes.extend(names.chain(["rdma_rxe", by_rdma].into_iter().filter(|_| rdma)).map(ModuleWish::plain));
        wishes
    }
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
    let emulated = if rdma { "rdma link add rxe0 type rxe netdev \"$nic\" || exit 90\n" } else { "" };
    format!(
        "nic=\nfor folder in /sys/class/net/*; do\n\t[ ! -e \"$folder/device\" ] || \
         nic=${{folder##*/}}\ndone\n[ -n \"$nic\" ] || {{ echo 'lab: the guest has no network card'; exit \
         90; }}\nifconfig \"$nic\" {address} netmask 255.255.255.0 up || exit 90\n{emulated}for folder in \
         /sys/class/virtio-ports/*; do\n\t[ \"$(cat \"$folder/name\" 2>/dev/null)\" = {AGENT_PORT} ] && ln \
         -s /dev/${{folder##*/}} {AGENT_STREAM}\ndone\n[ -c {AGENT_STREAM} ] || {{ echo 'lab: the guest has \
         no port {AGENT_PORT}'; exit 90; }}\n"
    )
}

/// What the target does: it serves one run after the other.
const SERVE: &str = "while :; do\n\tiopj agent <>/dev/iopj.agent >&0\n\techo \"agent ended with status \
                     $?\"\n\tsleep 0.2\ndone\n";

impl Pair<'_> {
    /// The script of a side.
    fn script(&self, side: Side, study: &GuestStudy<'_>, accelerator: &Accelerator) -> String {
        let held = match accelerator {
            Accelerator::Tcg { .. } => HOLD_COUNTERS,
            Accelerator::Kvm => "",
        };
        let own = self.scripts.as_ref().map(|scripts| scripts[side as usize].as_str());
        let (address, before, work) = match side {
            Side::Host => (HOST_ADDRESS, String::new(), own.map_or_else(|| run_of(study), str::to_owned)),
            Side::Target => (TARGET_ADDRESS, wait_for_drive(), own.unwrap_or(SERVE).to_owned()),
        };
        format!("{held}{}{before}cd /tmp\n{work}", network(address, study.rdma))
    }
}

/// The run of the study.
fn run_of(study: &GuestStudy<'_>) -> String {
    let destroy =
        if study.writes { format!(" --destroy-data {AGENT_STREAM}:{TARGET_DEVICE}") } else { String::new() };
    let exec = if study.allow_exec { " --allow-exec" } else { "" };
    let (file, store) = (study_file(1), store_file(1));
    // Into a pipe it prints its progress in lines.
    format!(
        "{{ iopj run /{file}{destroy}{exec} --store {store} 2>&1 >/dev/null; echo $? >/out/{}; }} | cat\n[ ! -e \
         {store} ] || cp {store}* /out/ || exit 99\n",
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
