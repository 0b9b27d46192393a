//! What is checked of a study over fabrics before anybody is asked, what it is warned of, and the name of its
//! target.

use crate::error::RunError;
use crate::options::Options;
use iopj_study::{Fabric, Study};
use std::path::PathBuf;

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
    check_destroyed(keys, &options.destroy_data, writes)
}

/// Refuses writes to a drive that is not named for them, and names of others.
fn check_destroyed(keys: &Fabric, named: &[PathBuf], writes: bool) -> Result<(), RunError> {
    // A file that iopj makes needs no name.
    let drive = keys.folder.is_none().then(|| PathBuf::from(target_name(keys)));
    let written: Vec<PathBuf> = drive.into_iter().chain(keys.here.clone()).filter(|_| writes).collect();
    if let Some(drive) = written.iter().find(|drive| !named.contains(drive)) {
        return RunError::refuse(format!(
            "the study writes to {0}: allow it by --destroy-data {0}, if all data on it may be lost",
            drive.display()
        ));
    }
    let Some(other) = named.iter().find(|named| !written.contains(named)) else { return Ok(()) };
    let why = match (writes, keys.folder.is_some()) {
        (false, _) => "the study writes nothing",
        (true, true) => "iopj makes the file that it measures on",
        (true, false) => "the study does not write to it",
    };
    RunError::refuse(format!("--destroy-data names {}, but {why}: leave the option out", other.display()))
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
    fn each_drive_that_is_written_is_named_and_no_other() {
        let keys = |drive: &str| {
            let text = format!(
                "name = \"t\"\npaths = \"available\"\n[fabric]\ntarget_host = \"s\"\naddress = \
                 \"10.1.0.1\"\ntransport = [\"tcp\", \"here\"]\nhere = \"/dev/nvme1n1\"\n{drive}\n\
                 [[workload]]\nios = 1"
            );
            Study::parse(&text, "t").unwrap().fabric.unwrap()
        };
        let (device, folder) = (keys("device = \"/dev/nvme0n1\""), keys("folder = \"/srv\""));
        let check = |keys: &Fabric, named: &[&str], writes| {
            let named: Vec<PathBuf> = named.iter().map(PathBuf::from).collect();
            check_destroyed(keys, &named, writes).map_err(|error| error.to_string())
        };
        let (far, here) = ("s:/dev/nvme0n1", "/dev/nvme1n1");
        assert_eq!(check(&device, &[], false), Ok(()));
        assert_eq!(check(&device, &[here, far], true), Ok(()));
        assert_eq!(check(&folder, &[here], true), Ok(()));
        for (keys, named, writes, expected) in [
            (&device, &[here][..], true, "the study writes to s:/dev/nvme0n1: allow it by --destroy-data s:"),
            (
                &device,
                &[far],
                true,
                "the study writes to /dev/nvme1n1: allow it by --destroy-data /dev/nvme1",
            ),
            (&device, &[far, here, "/dev/sda"], true, "names /dev/sda, but the study does not write to it"),
            (&device, &[here], false, "names /dev/nvme1n1, but the study writes nothing"),
            (&folder, &["s:/srv", here], true, "names s:/srv, but iopj makes the file"),
        ] {
            let error = check(keys, named, writes).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

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
