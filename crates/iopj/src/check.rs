//! `iopj check`: which paths work on a target, and the papers' design space filled in for this machine.

use crate::args::{CheckArgs, Taking};
use crate::lab;
use crate::output::{note, print, print_json};
use crate::signals;
use anyhow::Context;
use iopj_core::IoPath;
use iopj_core::path::{CompletionMode, Submission};
use iopj_engine::Target;
use iopj_engine::check::{Availability, check as check_path};
use iopj_engine::target::{TakePlan, make_file, plan_taking};
use iopj_lab::Arch;
use iopj_load::fio::Fio;
use iopj_record::Unavailable;
use iopj_report::{Table, WIDTH, escape, unavailable, wrap};
use iopj_run::Options;
use iopj_run::paths::check_paths;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Bytes of the file that is made if no target is named.
const FILE_LEN: u64 = 1 << 20;

/// What an interface is by design: the first four columns of the papers' design space.
struct Design {
    interface: &'static str,
    kernel: bool,
    user: bool,
    sync: bool,
    async_: bool,
}

/// Table 1 of the second paper, with NVMe passthrough, which is newer, and iopj's own driver.
const DESIGNS: [Design; 7] = [
    Design { interface: "posix-sio", kernel: true, user: false, sync: true, async_: false },
    Design { interface: "posix-aio", kernel: true, user: true, sync: false, async_: true },
    Design { interface: "libaio", kernel: true, user: false, sync: false, async_: true },
    Design { interface: "io_uring", kernel: true, user: false, sync: true, async_: true },
    Design { interface: "nvme-passthrough", kernel: true, user: false, sync: true, async_: true },
    Design { interface: "nvme-user", kernel: false, user: true, sync: false, async_: true },
    Design { interface: "spdk", kernel: false, user: true, sync: false, async_: true },
];

pub(crate) fn check(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let taking = args
        .taking
        .take_device
        .map(|address| plan_taking(address, args.taking.i_know_no_iommu))
        .transpose()?;
    // Before the target is opened here: a drive that is open would not get its name back.
    let tried = match (&taking, &args.target) {
        (Some(_), Some(target)) => Some(with_bypass(target, &args.taking)?),
        _ => None,
    };
    let target = match &args.target {
        Some(path) => Target::open(path)?,
        None => {
            let path = PathBuf::from(format!("iopj-check-{}.tmp", std::process::id()));
            make_file(&path, FILE_LEN, &mut |_| true)?;
            let target = Target::open(&path);
            // The file is removed while it is open, so it goes with this process.
            std::fs::remove_file(&path).with_context(|| format!("{} cannot be removed", path.display()))?;
            target?
        }
    };
    let paths: Vec<(IoPath, Availability)> = tried
        .unwrap_or_else(|| IoPath::all().into_iter().map(|path| (path, check_path(path, &target))).collect());
    if args.json {
        let mut value = as_json(&target, &paths);
        value["take_device"] = json!(taking.as_ref().map(taking_json));
        print_json(&value)?;
    } else {
        print(&as_text(&target, &paths))?;
        print(&taking.as_ref().map(taking_line).unwrap_or_default())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Every path, including kernel bypass: the drive is taken for it and given back.
pub(crate) fn with_bypass(target: &Path, taking: &Taking) -> anyhow::Result<Vec<(IoPath, Availability)>> {
    let options = Options {
        target: Some(target.to_owned()),
        take_device: taking.take_device,
        i_know_no_iommu: taking.i_know_no_iommu,
        ..Options::default()
    };
    let checked = check_paths(&options, Fio::find().ok().as_ref(), signals::stop_flag())?;
    for warning in checked.lost {
        note(&format!("warning: {warning}"));
    }
    Ok(checked.paths)
}

fn taking_json(plan: &TakePlan) -> Value {
    json!({
        "address": plan.address.to_string(),
        "driver": plan.driver,
        "namespaces": plan.namespaces,
        "iommu_group": plan.group,
    })
}

/// Says that the drive may be taken, and what belongs to it.
fn taking_line(plan: &TakePlan) -> String {
    let group =
        plan.group.map_or_else(|| "no IOMMU".to_owned(), |group| format!("alone in IOMMU group {group}"));
    let namespaces = if plan.namespaces.is_empty() {
        "no namespace in use".to_owned()
    } else {
        plan.namespaces.join(", ")
    };
    let driver = plan.driver.as_deref().unwrap_or("no driver");
    format!("\n{} may be taken from its driver: {driver}; {group}; {namespaces}\n", plan.address)
}

fn works(paths: &[(IoPath, Availability)], of: impl Fn(&IoPath) -> bool) -> bool {
    paths.iter().any(|(path, state)| of(path) && matches!(state, Availability::Available { .. }))
}

/// Whether an interface can submit or complete in some way on this target; `None` if it has no such path.
fn here(paths: &[(IoPath, Availability)], interface: &str, of: impl Fn(&IoPath) -> bool) -> Option<bool> {
    let own = |path: &IoPath| path.interface() == interface && of(path);
    paths.iter().any(|(path, _)| own(path)).then(|| works(paths, own))
}

const HERE_COLUMNS: [&str; 6] =
    ["submit syscall", "submit sqpoll", "submit doorbell", "interrupt", "poll", "hybrid"];

fn design_here(paths: &[(IoPath, Availability)], interface: &str) -> [Option<bool>; 6] {
    let completion = |asked| here(paths, interface, move |path| path.completion() == asked);
    [
        here(paths, interface, |path| path.submission() == Submission::Syscall),
        here(paths, interface, |path| path.submission() == Submission::Sqpoll),
        here(paths, interface, |path| path.submission() == Submission::Doorbell),
        completion(CompletionMode::Interrupt),
        completion(CompletionMode::Poll),
        completion(CompletionMode::Hybrid),
    ]
}

fn as_json(target: &Target, paths: &[(IoPath, Availability)]) -> Value {
    let path_json = |(path, state): &(IoPath, Availability)| {
        let mut value = json!(state);
        value["path"] = json!(path);
        value
    };
    let design_json = |design: &Design| {
        let [syscall, sqpoll, doorbell, interrupt, poll, hybrid] = design_here(paths, design.interface);
        json!({
            "interface": design.interface,
            "kernel": design.kernel,
            "user": design.user,
            "sync": design.sync,
            "async": design.async_,
            "submission": {"syscall": syscall, "sqpoll": sqpoll, "doorbell": doorbell},
            "completion": {"interrupt": interrupt, "poll": poll, "hybrid": hybrid},
        })
    };
    json!({
        "target": target.path().display().to_string(),
        "devices": target.devices(),
        "logical_block": target.logical_block(),
        "warnings": target.warnings(),
        "paths": paths.iter().map(path_json).collect::<Vec<_>>(),
        "lab": {"missing_packages": lab::missing_packages(Arch::HOST)},
        "design_space": DESIGNS.iter().map(design_json).collect::<Vec<_>>(),
    })
}

fn as_text(target: &Target, paths: &[(IoPath, Availability)]) -> String {
    let devices = target.devices().join(", ");
    let on = if devices.is_empty() { "no block device".to_owned() } else { devices };
    let mut text = format!(
        "{} (on {on}, logical block {} bytes)\n",
        escape(&target.path().display().to_string()),
        target.logical_block()
    );
    for warning in target.warnings() {
        text += &format!("warning: {}\n", escape(warning));
    }
    let (mut missing, mut notes_text) = (Vec::new(), String::new());
    for (path, state) in paths {
        match state {
            Availability::Available { notes } => {
                notes_text
                    .extend(notes.iter().map(|note| format!("  {path}\n{}", wrap(note, WIDTH, "    "))));
            }
            Availability::Unavailable { reason, remedy } => {
                missing.push(Unavailable { path: *path, reason: reason.clone(), remedy: remedy.clone() });
            }
        }
    }
    let table =
        Table::of(paths).left("path", |(path, _)| path.to_string()).left("here", |(_, state)| match state {
            Availability::Available { .. } => "available".to_owned(),
            Availability::Unavailable { .. } => "unavailable".to_owned(),
        });
    text += &format!("\n{}", table.text());
    if !notes_text.is_empty() {
        text += &format!("\nnotes:\n{notes_text}");
    }
    if !missing.is_empty() {
        text += &format!("\nunavailable, and why:\n{}", unavailable(&missing));
    }
    text += &design_space(paths);
    text + &lab_line()
}

/// Says whether the lab can run here.
fn lab_line() -> String {
    match &lab::missing_packages(Arch::HOST)[..] {
        [] => "\nlab: here (`iopj lab run`: other kernels, emulated NVMe with poll queues, exact costs)\n"
            .to_owned(),
        packages => format!("\nlab: not here; install the packages {}\n", packages.join(", ")),
    }
}

/// The papers' design space, filled in for this target.
fn design_space(paths: &[(IoPath, Availability)]) -> String {
    let heading =
        "\ndesign space (yes, no: what the interface has; here, not here: what works on this target):\n";
    let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
    let mut table = Table::of(&DESIGNS)
        .left("interface", |design| design.interface.to_owned())
        .left("kernel", |design| yes(design.kernel))
        .left("user", |design| yes(design.user))
        .left("sync", |design| yes(design.sync))
        .left("async", |design| yes(design.async_));
    for (at, heading) in HERE_COLUMNS.into_iter().enumerate() {
        table = table.left(heading, move |design| {
            match design_here(paths, design.interface)[at] {
                None => "no",
                Some(true) => "here",
                Some(false) => "not here",
            }
            .to_owned()
        });
    }
    heading.to_owned() + &table.text()
}
