//! Which paths work on a target: checks each one, and settles the paths of a study.

use crate::adaptive::Adaptive;
use crate::engines::Needs;
use crate::error::{RunError, TrialError};
use crate::options::Options;
use crate::target::{Access, Taking, TargetSpec};
use iopj_core::IoPath;
use iopj_engine::check::{Availability, check};
use iopj_host::settings::Host;
use iopj_load::fio::Fio;
use iopj_record::Unavailable;
use iopj_study::{Axis, Study, parse_paths, plan};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// What [`check_paths`] found.
pub struct Checked {
    /// Every path, and whether it works.
    pub paths: Vec<(IoPath, Availability)>,
    /// What the device lost when it was taken and could not get back, one line each.
    pub lost: Vec<String>,
}

/// Whether each path works on a target. With `take_device`, kernel bypass is tried too: the device is taken
/// for it and given back. The target is opened for reading.
///
/// # Errors
/// The target cannot be opened, the device is not the target's, another run holds it, it was not given back,
/// or `stop` became true.
pub fn check_paths(options: &Options, fio: Option<&Fio>, stop: &AtomicBool) -> Result<Checked, RunError> {
    let Some(path) = &options.target else {
        return RunError::refuse("--take-device needs the device's namespace as --target");
    };
    let host = Host::new();
    let spec = TargetSpec::for_reading(path);
    let target = spec.open_again()?;
    let locks = host.lock(target.devices())?;
    let mut access = Access::new(&host, &locks, target, spec, Taking::of(options))?;
    let needs = Needs { fio, adaptive: &Adaptive::default() };
    let states = availabilities(&mut access, needs, IoPath::all(), stop);
    access.leave()?;
    let mut states = states?;
    let paths = IoPath::all().into_iter().filter_map(|path| Some((path, states.remove(&path)?))).collect();
    Ok(Checked { paths, lost: access.settings.warnings().to_vec() })
}

/// Takes the paths that do not work on the target out of the study, and names those that do where it says
/// `available`.
pub(crate) fn settle(
    study: &mut Study,
    access: &mut Access,
    needs: Needs<'_>,
    stop: &AtomicBool,
) -> Result<Vec<Unavailable>, RunError> {
    let can_bypass = access.namespace().is_some();
    let mut asked = Vec::new();
    for paths in study.workloads.iter().map(|matrix| matrix.paths.as_ref().unwrap_or(&study.paths)) {
        asked.extend(named_paths(paths, can_bypass)?);
    }
    asked.extend(named_paths(&study.paths, can_bypass)?);
    let states = availabilities(access, needs, asked, stop)?;
    let mut unavailable: Vec<Unavailable> = Vec::new();
    let mut works = |path: IoPath| match states.get(&path) {
        Some(Availability::Available { .. }) => true,
        Some(Availability::Unavailable { reason, remedy }) => {
            if !unavailable.iter().any(|other| other.path == path) {
                unavailable.push(Unavailable { path, reason: reason.clone(), remedy: remedy.clone() });
            }
            false
        }
        None => false,
    };
    let mut settle = |paths: &Axis<String>| -> Result<Axis<String>, RunError> {
        let paths = named_paths(paths, can_bypass)?;
        Ok(Axis::Many(paths.into_iter().filter(|path| works(*path)).map(|path| path.to_string()).collect()))
    };
    study.paths = settle(&study.paths)?;
    for matrix in &mut study.workloads {
        if let Some(paths) = &matrix.paths {
            matrix.paths = Some(settle(paths)?);
        }
    }
    let none = |paths: &Axis<String>| matches!(paths, Axis::Many(paths) if paths.is_empty());
    study.workloads.retain(|matrix| !none(matrix.paths.as_ref().unwrap_or(&study.paths)));
    if study.workloads.is_empty() {
        let target = access.path().display();
        return RunError::refuse(format!(
            "none of the study's paths works on {target}: {}",
            reasons(&unavailable)
        ));
    }
    if none(&study.paths) {
        // Every remaining workload has paths of its own.
        study.paths = study.workloads[0].paths.clone().unwrap_or_else(|| study.paths.clone());
    }
    Ok(unavailable)
}

/// Checks that every path of a study whose paths are settled also works on its drive of this host.
pub(crate) fn check_here(
    study: &Study,
    here: &mut Access,
    needs: Needs<'_>,
    stop: &AtomicBool,
) -> Result<(), RunError> {
    let (cells, _) = plan::cells(study, &[])?;
    let own = cells.iter().filter(|cell| cell.is_here()).map(|cell| cell.path);
    let states = availabilities(here, needs, own, stop)?.into_iter();
    let unavailable: Vec<Unavailable> = states
        .filter_map(|(path, state)| match state {
            Availability::Available { .. } => None,
            Availability::Unavailable { reason, remedy } => Some(Unavailable { path, reason, remedy }),
        })
        .collect();
    if unavailable.is_empty() {
        return Ok(());
    }
    RunError::refuse(format!(
        "not every path of the study works on {}, the drive of transport `here`: {}; or leave the path or \
         `here` out",
        here.path().display(),
        reasons(&unavailable)
    ))
}

/// The paths that a study names. `available` stands for all of them, those of kernel bypass only where the
/// drive may be taken for them.
fn named_paths(paths: &Axis<String>, can_bypass: bool) -> Result<Vec<IoPath>, RunError> {
    let available = || IoPath::all().into_iter().filter(|path| can_bypass || !path.is_bypass());
    Ok(parse_paths(paths)?.unwrap_or_else(|| available().collect()))
}

/// Why paths do not work, each reason once behind the paths that have it.
fn reasons(unavailable: &[Unavailable]) -> String {
    let mut reasons: Vec<(String, Vec<String>)> = Vec::new();
    for Unavailable { path, reason, remedy } in unavailable {
        let why = if remedy.is_empty() { reason.clone() } else { format!("{reason} (remedy: {remedy})") };
        match reasons.iter_mut().find(|(known, _)| *known == why) {
            Some((_, paths)) => paths.push(path.to_string()),
            None => reasons.push((why, vec![path.to_string()])),
        }
    }
    reasons.iter().map(|(why, paths)| format!("{}: {why}", paths.join(", "))).collect::<Vec<_>>().join("; ")
}

/// Whether each of these paths works on the target. The kernel's paths are tried before those that need the
/// device taken, and so are policies, which the drive's name decides about.
fn availabilities(
    access: &mut Access,
    needs: Needs<'_>,
    paths: impl IntoIterator<Item = IoPath>,
    stop: &AtomicBool,
) -> Result<BTreeMap<IoPath, Availability>, RunError> {
    let (can_bypass, adaptive) = (access.namespace().is_some(), needs.adaptive);
    let mut paths: Vec<IoPath> = paths.into_iter().collect();
    paths.sort_by_key(|path| (access.takes(path), *path));
    paths.dedup();
    let mut found = BTreeMap::new();
    for path in &paths {
        if let Some(rule) = path.auto() {
            let is_bypass = access.takes(path);
            let state = adaptive.check_policy(rule, access.reach_kernel()?, is_bypass)?;
            found.extend((!state.is_available()).then_some((*path, state)));
        }
    }
    paths.retain(|path| !found.contains_key(path));
    for path in paths {
        if stop.load(Ordering::Relaxed) {
            return Err(RunError::Interrupted);
        }
        let state = match path {
            IoPath::Spdk if can_bypass => spdk(needs.fio),
            // It is tried once the drive is taken.
            _ if can_bypass && access.takes(&path) && access.is_planned() => {
                Availability::Available { notes: Vec::new() }
            }
            _ if can_bypass && access.takes(&path) => {
                by_our_driver(access, path, adaptive).unwrap_or_else(|error| Availability::Unavailable {
                    reason: error.to_string(),
                    remedy: String::new(),
                })
            }
            IoPath::Auto(rule) => adaptive.check_ways(rule, access.reach_kernel()?),
            _ => check(path, access.reach_kernel()?),
        };
        found.insert(path, state);
    }
    access.reach_kernel()?;
    Ok(found)
}

fn by_our_driver(access: &mut Access, path: IoPath, adaptive: &Adaptive) -> Result<Availability, TrialError> {
    access.reach(path)?;
    let target = access.target()?;
    Ok(path.auto().map_or_else(|| check(path, target), |rule| adaptive.check_ways(rule, target)))
}

/// SPDK is opened by fio, when a trial runs.
fn spdk(fio: Option<&Fio>) -> Availability {
    let supports = fio.map_or_else(
        || Err("fio, which drives SPDK, was not found or is not a generator of the study".to_owned()),
        |fio| fio.supports(&IoPath::Spdk).map_err(|error| error.to_string()),
    );
    match supports {
        Ok(()) => Availability::Available { notes: Vec::new() },
        Err(reason) => Availability::Unavailable {
            reason,
            remedy: "name fio's SPDK plugin by `spdk_plugin` under [fio] and say generator = \"fio\""
                .to_owned(),
        },
    }
}
