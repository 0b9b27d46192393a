//! What is checked of a study over fabrics before anybody is asked, what it is warned of, and the name of its
//! target.

use crate::error::RunError;
use crate::options::Options;
use iopj_study::{Fabric, Study};
use std::path::Path;

/// The name of a study's target in its store and in messages: `storage1:/dev/nvme0n1`.
pub(crate) fn target_name(fabric: &Fabric) -> String {
    match (&fabric.target_host, fabric.device.as_ref().or(fabric.folder.as_ref()), &fabric.nqn) {
        (Some(host), Some(device), _) => format!("{host}:{}", device.display()),
        (_, _, Some(nqn)) => nqn.clone(),
        _ => String::new(),
    }
}

/// Refuses options that do not fit a study over fabrics.
pub(crate) fn check_options(
    study: &Study,
    keys: &Fabric,
    options: &Options,
    writes: bool,
) -> Result<(), RunError> {
    let name = target_name(keys);
    if options.target.is_some() {
        return RunError::refuse(
            "--target names a drive of this host, and the study's [fabric] one of another: leave --target \
             out",
        );
    }
    if options.take_device.is_some() {
        return RunError::refuse(
            "--take-device takes a drive of this host, and the study's is on another: leave it out",
        );
    }
    if study.precondition {
        return RunError::refuse(
            "precondition = true does not work over fabrics: precondition the drive by iopj on its own host \
             first",
        );
    }
    if !keys.cells()?.iter().any(|cell| cell.transport.is_remote()) {
        return RunError::refuse(
            "[fabric] has no transport over a wire: add tcp or rdma, or run iopj on the target host itself",
        );
    }
    if keys.agent.is_some() && !options.allow_exec {
        return RunError::refuse(
            "[fabric] names the command of the agent, which the study may run only with --allow-exec",
        );
    }
    match (&options.destroy_data, writes) {
        (Some(named), _) if keys.folder.is_some() => RunError::refuse(format!(
            "--destroy-data names {}, but iopj makes the file that it measures on: leave the option out",
            named.display()
        )),
        (None, true) if keys.folder.is_some() => Ok(()),
        (Some(named), true) if named == Path::new(&name) => Ok(()),
        (None, false) => Ok(()),
        (Some(named), false) => RunError::refuse(format!(
            "--destroy-data names {}, but the study writes nothing: leave the option out",
            named.display()
        )),
        (_, true) => RunError::refuse(format!(
            "the study writes to {name}: allow it by --destroy-data {name}, if all data on it may be lost"
        )),
    }
}

/// What to know about irqbalance, if it runs on this host and on the target host.
pub(super) fn balanced(keys: &Fabric, runs: [bool; 2]) -> Vec<String> {
    let name = iopj_core::Setting::NicIrqAffinity.name();
    let sides = [("host", "this host", &keys.host), ("target", "the target host", &keys.target)];
    let placed = sides.into_iter().zip(runs).filter(|((.., set), runs)| *runs && set.contains_key(name));
    let warning = |((side, place, _), _): ((&str, &str, _), _)| {
        format!(
            "irqbalance runs on {place}, and may move the interrupts that {side}.{name} places: stop it \
             there while the study runs (`systemctl stop irqbalance`)"
        )
    };
    placed.map(warning).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn irqbalance_is_warned_of_where_it_runs_and_interrupts_are_placed() {
        let text = "name = \"t\"\npaths = \"available\"\n[fabric]\ntarget_host = \"s\"\ndevice = \
                    \"/dev/nvme0n1\"\ntransport = \"loop\"\ntarget.nic_irq_affinity = \"0-3\"\n[[workload]]\n\
                    ios = 1";
        let keys = Study::parse(text, "t").unwrap().fabric.unwrap();
        assert_eq!(balanced(&keys, [true, false]), [""; 0]);
        let [warning] = &balanced(&keys, [true, true])[..] else { panic!("one warning") };
        assert!(warning.starts_with("irqbalance runs on the target host, "), "{warning}");
        assert!(warning.contains("target.nic_irq_affinity places: stop it"), "{warning}");
    }
}
