//! `iopj lab`: kernels, studies or a shell in a virtual machine, and removing what they leave behind.

use crate::args::{GuestArgs, LabCommand, LabRunArgs};
use crate::output::{FAILURES, INTERRUPTED, USAGE, fail, note, print, print_json};
use crate::signals;
use anyhow::{Context, anyhow, bail};
use iopj_analysis::Admission;
use iopj_core::{Grant, IoPath, Transport, parse_duration};
use iopj_lab::cache::Cache;
use iopj_lab::image::Program;
use iopj_lab::kernels::{self, Kernel};
use iopj_lab::session::{
    self, AGENT_STREAM, Device, Guest, GuestDone, GuestStudy, Pair, StudyDone, TARGET_ADDRESS, TARGET_DEVICE,
};
use iopj_lab::{Arch, LabError, add_soft_roce, vm};
use iopj_probe::HeldCounters;
use iopj_record::Generator;
use iopj_report::Table;
use iopj_run::{programs, read_study};
use iopj_store::Store;
use iopj_study::{Fabric, Study, parse_paths};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// A shell ends when the user leaves it.
const SHELL_LIMIT: Duration = Duration::from_secs(24 * 3600);

pub(crate) fn lab(command: &LabCommand) -> anyhow::Result<ExitCode> {
    match command {
        LabCommand::Kernels { series, arch, json } => kernels(series, *arch, *json),
        LabCommand::Run(args) => run(args),
        LabCommand::Shell(args) => shell(args),
        LabCommand::Clean { kernels } => clean(*kernels),
        LabCommand::HoldCounters => hold_counters(),
        LabCommand::SoftRoce { card } => soft_roce(card),
    }
}

fn hold_counters() -> anyhow::Result<ExitCode> {
    let _held = HeldCounters::open()?;
    print("counters are held\n")?;
    loop {
        std::thread::park();
    }
}

fn soft_roce(card: &str) -> anyhow::Result<ExitCode> {
    add_soft_roce(card).with_context(|| format!("RDMA cannot be emulated on {card}"))?;
    Ok(ExitCode::SUCCESS)
}

fn kernels(wanted: &[String], arch: Arch, json: bool) -> anyhow::Result<ExitCode> {
    let cache = Cache::open()?;
    let fetched: Result<Vec<Kernel>, _> =
        wanted.iter().map(|one| kernels::fetch(&cache, arch, one, &mut note)).collect();
    let fetched = fetched?;
    if !wanted.is_empty() {
        if json {
            let one = |kernel: &Kernel| {
                json!({
                    "release": kernel.release, "image": kernel.image, "modules": kernel.modules,
                })
            };
            print_json(&fetched.iter().map(one).collect())?;
        } else {
            for kernel in &fetched {
                print(&format!("{}: {}\n", kernel.release, kernel.image.display()))?;
            }
        }
        return Ok(ExitCode::SUCCESS);
    }
    let offers = kernels::list(&cache, arch, &mut note)?;
    if json {
        let one = |offer: &kernels::Offer| {
            json!({
                "series": offer.series, "release": offer.release, "suite": offer.suite,
                "download_bytes": offer.download_bytes, "cached": offer.cached,
            })
        };
        print_json(&offers.iter().map(one).collect())?;
        return Ok(ExitCode::SUCCESS);
    }
    let megabytes = |bytes: u64| if bytes == 0 { String::new() } else { (bytes / 1_000_000).to_string() };
    let table = Table::of(&offers)
        .left("series", |offer| offer.series.clone())
        .left("release", |offer| offer.release.clone())
        .left("suite", |offer| offer.suite.clone())
        .right("download MB", |offer| megabytes(offer.download_bytes))
        .left("cached", |offer| if offer.cached { "yes" } else { "" }.to_owned());
    print(&table.text())?;
    Ok(ExitCode::SUCCESS)
}

/// The kernel that the options name: a series, a release or files.
fn kernel(args: &GuestArgs, arch: Arch, cache: &Cache) -> anyhow::Result<Kernel> {
    match &args.modules {
        Some(modules) => {
            let kernel = kernels::from_files(cache, Path::new(&args.kernel), modules)?;
            if kernel.arch != arch {
                bail!(
                    "`{}` is a kernel for {}, and the guest's processor is {arch}: name one for it, or let \
                     iopj fetch one by --kernel SERIES",
                    args.kernel,
                    kernel.arch
                );
            }
            Ok(kernel)
        }
        None if args.kernel.contains('/') => {
            bail!(
                "`{}` is a kernel's image, which needs its modules: name their folder with --modules",
                args.kernel
            )
        }
        None => Ok(kernels::fetch(cache, arch, &args.kernel, &mut note)?),
    }
}

/// The packages that the lab needs and this machine lacks.
pub(crate) fn missing_packages(arch: Arch) -> Vec<&'static str> {
    let missing = iopj_lab::missing_tools(arch).into_iter();
    let mut packages: Vec<&str> = missing.map(|(_, package)| package).collect();
    packages.sort_unstable();
    packages.dedup();
    packages
}

/// Names everything that is missing at once.
fn need_tools(arch: Arch) -> anyhow::Result<()> {
    let packages = missing_packages(arch);
    if packages.is_empty() {
        return Ok(());
    }
    bail!("the lab needs programs that are missing here: install the packages {}", packages.join(", "))
}

fn guest<'a>(args: &GuestArgs, kernel: &'a Kernel) -> Guest<'a> {
    Guest {
        kernel,
        device: args.device,
        vcpus: args.vcpus,
        exact: false,
        vmlinux: None,
        time_limit: SHELL_LIMIT,
        fault: None,
    }
}

fn shell(args: &GuestArgs) -> anyhow::Result<ExitCode> {
    need_tools(args.arch)?;
    let cache = Cache::open()?;
    let kernel = kernel(args, args.arch, &cache)?;
    let mut programs = vec![Program::iopj(kernel.arch)?];
    programs.extend(Program::named("fio").ok().filter(|_| kernel.arch == Arch::HOST));
    guest(args, &kernel).shell(&cache, programs, signals::stop_flag())?;
    Ok(ExitCode::SUCCESS)
}

/// Boots the guest, or both of a pair, and runs the studies.
fn boot(args: &LabRunArgs, studies: &[GuestStudy<'_>]) -> anyhow::Result<Result<GuestDone, LabError>> {
    let time_limit = parse_duration(&args.time_limit).map_err(|error| anyhow!("--time-limit: {error}"))?;
    session::check(studies, args.exact)?;
    let target_arch = args.target_arch.unwrap_or(args.guest.arch);
    need_tools(args.guest.arch)?;
    need_tools(target_arch)?;
    let cache = Cache::open()?;
    let kernel = self::kernel(&args.guest, args.guest.arch, &cache)?;
    for arch in [args.guest.arch, target_arch].into_iter().filter(|arch| *arch != Arch::HOST) {
        kernels::busybox(&cache, arch, &mut note)?;
    }
    let target_kernel = match target_arch == kernel.arch {
        true => kernel.clone(),
        false => self::kernel(&args.guest, target_arch, &cache)?,
    };
    let mut guest = guest(&args.guest, &kernel);
    (guest.exact, guest.vmlinux, guest.time_limit) = (args.exact, args.vmlinux.as_deref(), time_limit);
    note(&format!("booting {}", kernel.release));
    Ok(match studies {
        [study] if args.pair => {
            let target = Guest {
                kernel: &target_kernel,
                vcpus: args.target_vcpus.unwrap_or(guest.vcpus),
                // Another processor's kernel has other addresses.
                vmlinux: guest.vmlinux.filter(|_| target_arch == kernel.arch),
                ..guest.clone()
            };
            let target_programs = vec![Program::iopj(target_arch)?];
            let pair = Pair { host: guest, target, target_programs, nic: args.nic, scripts: None };
            pair.run(&cache, study, signals::stop_flag(), &mut note)
        }
        _ if args.pair => bail!("--pair runs one study at a time: run each by itself"),
        studies => guest.run(&cache, studies, signals::stop_flag(), &mut note),
    })
}

fn run(args: &LabRunArgs) -> anyhow::Result<ExitCode> {
    if args.store.is_some() && args.studies.len() > 1 {
        bail!(
            "--store names one store, but each study has its own: leave --store out, or run one study at a \
             time"
        );
    }
    let texts = args.studies.iter().map(|file| text(file, args.pair)).collect::<anyhow::Result<Vec<_>>>()?;
    let mut studies = Vec::new();
    for (file, text) in args.studies.iter().zip(&texts) {
        let name = file.display().to_string();
        let study = read_study(text, &name)?;
        studies.push(in_guest(&study, text, args).context(name)?);
    }
    let ended = boot(args, &studies)?;
    let done = match ended {
        Err(LabError::Vm(vm::VmError::Stopped)) => {
            fail(&anyhow!("interrupted; the guest is gone and left nothing behind"));
            return Ok(ExitCode::from(INTERRUPTED));
        }
        done => done?,
    };
    note(&format!(
        "guest: up after {:.1} s, off after {:.1} s",
        done.boot.as_secs_f64(),
        done.total.as_secs_f64()
    ));
    let mut first = None;
    for (study, done) in studies.iter().zip(done.studies) {
        let code = done.map_err(Into::into).and_then(|done| close(study, done, args.exact));
        let code = code.unwrap_or_else(|error| {
            fail(&error);
            USAGE
        });
        first = first.or((code != 0).then_some(code));
    }
    Ok(first.map_or(ExitCode::SUCCESS, ExitCode::from))
}

/// The text of a study's file. Of one over fabrics, the target host is the other guest.
fn text(file: &Path, pair: bool) -> anyhow::Result<String> {
    let text = crate::study::text(file)?;
    let mut study = read_study(&text, &file.display().to_string())?;
    match (&mut study.fabric, pair) {
        (None, false) => Ok(text),
        (Some(fabric), true) => {
            fabric.target_host = Some(AGENT_STREAM.to_owned());
            (fabric.device, fabric.folder) = (Some(TARGET_DEVICE.into()), None);
            fabric.here = fabric.here.as_ref().map(|_| TARGET_DEVICE.into());
            fabric.address = Some(TARGET_ADDRESS.to_owned());
            (fabric.nqn, fabric.host_nqn, fabric.agent) = (None, None, None);
            Ok(study.to_toml()?)
        }
        (None, true) => bail!("{} has no [fabric]: leave --pair out", file.display()),
        (Some(_), false) => bail!("{} has [fabric], which takes two guests: add --pair", file.display()),
    }
}

/// Prints a study's results and returns its exit code.
fn close(study: &GuestStudy<'_>, done: StudyDone, exact: bool) -> anyhow::Result<u8> {
    let (found, trials) = {
        let store = Store::open(&study.store)?;
        (store.study()?, store.trials()?)
    };
    let store = study.store.display();
    if exact {
        note(&format!(
            "costs were counted for {} of {} trials: `iopj explain {store}`",
            done.counted,
            trials.len()
        ));
    }
    print(&iopj_report::report(&found, &trials, Admission::default().of(&found)))?;
    print(&format!("store: {store}\n"))?;
    match done.status {
        0 => Ok(0),
        1 => Ok(FAILURES),
        other => {
            bail!("the run of `{}` in the guest ended with status {other}: its message is above", study.name)
        }
    }
}

/// What the guest needs for a study.
fn in_guest<'a>(study: &Study, text: &'a str, args: &LabRunArgs) -> anyhow::Result<GuestStudy<'a>> {
    let allow = args.allow.get();
    // In a pair the other host is a guest on this machine.
    let allow = if args.pair { allow.with(Grant::Hosts) } else { allow };
    study.check_allowed(allow)?;
    let mut paths: Vec<IoPath> = Vec::new();
    let of_workloads = study.workloads.iter().filter_map(|workload| workload.paths.as_ref());
    for axis in std::iter::once(&study.paths).chain(of_workloads) {
        paths.extend(parse_paths(axis)?.unwrap_or_default());
    }
    let through = |path: &IoPath| matches!(path, IoPath::NvmePassthrough(_));
    let passthrough = paths.iter().any(through);
    if passthrough && !paths.iter().all(through) {
        bail!(
            "the study has nvme-passthrough and other paths, which need different device nodes: split it \
             into two studies"
        );
    }
    let bypass = paths.iter().any(IoPath::is_bypass);
    if bypass && args.guest.device != Device::Nvme {
        bail!("the study has kernel-bypass paths, which need an NVMe drive: give the guest --device nvme");
    }
    let mut writes = study.precondition;
    for workload in &study.workloads {
        writes |= workload.workloads()?.iter().any(iopj_core::Workload::writes);
    }
    let mut programs = vec![Program::iopj(args.guest.arch)?];
    if study.generators()?.contains(&Generator::Fio) {
        let own = study.fio.as_ref().is_some_and(|fio| fio.program.is_some());
        programs.extend(if own {
            None
        } else {
            Some(Program::named("fio").context("the study has fio as a generator")?)
        });
    }
    for named in programs::named(study)? {
        programs.extend(Program::called(&named).context("the study names a program")?);
    }
    let cells = study.fabric.as_ref().map_or(Ok(Vec::new()), Fabric::cells)?;
    let rdma = cells.iter().any(|cell| cell.transport == Transport::Rdma);
    let spdk = paths.contains(&IoPath::Spdk);
    let name = study.name.clone();
    let store = args.store.clone().unwrap_or_else(|| PathBuf::from(format!("{name}.iopj")));
    Ok(GuestStudy {
        name,
        store,
        text,
        programs,
        allow,
        passthrough,
        bypass,
        spdk,
        writes,
        rdma,
        here: study.fabric.as_ref().is_some_and(|fabric| fabric.here.is_some()),
    })
}

fn clean(with_kernels: bool) -> anyhow::Result<ExitCode> {
    let cache = Cache::open()?;
    let cleaned = vm::clean(cache.folder())?;
    print(&format!("{} machines ended, {} folders removed\n", cleaned.machines, cleaned.folders))?;
    if with_kernels {
        print(&format!("{} MB of kernels removed\n", cache.clear()? / 1_000_000))?;
    }
    Ok(ExitCode::SUCCESS)
}
