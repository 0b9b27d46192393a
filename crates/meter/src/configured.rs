//! The kinds of meters that only a study can configure: what each needs, and what of it is seen here.

use crate::local::LocalMeter;
use std::ffi::OsStr;
use std::path::Path;

/// The kinds that need a table in the study, each without channels. `root` is `/`, `path` the folders of
/// programs. Nothing is opened, and no other machine is asked.
pub fn configured_meters(root: &Path, path: &OsStr) -> Vec<LocalMeter> {
    let kind = |name: &str, needs: &str, notes: Vec<String>| LocalMeter {
        name: name.to_owned(),
        channels: Vec::new(),
        why_not: Some("it is read only if the study has a table for it".to_owned()),
        needs: Some(needs.to_owned()),
        notes,
    };
    vec![
        kind(
            "ipmi",
            "ipmitool, and root for this machine's BMC or `host`, `user` and a password for another one",
            ipmi(root, path),
        ),
        kind(
            "redfish",
            "the address of a server's BMC (iDRAC, iLO, OpenBMC), a user and a password",
            redfish(root),
        ),
        kind(
            "http",
            "the address of a smart plug (Shelly, Tasmota), an instrument or a Prometheus exporter",
            Vec::new(),
        ),
        kind("snmp", "the address of a PDU (APC, Raritan) and the number of the outlet", Vec::new()),
        kind("command", "a program that prints watts, and `--allow exec`", Vec::new()),
        kind(
            "log",
            "a logger (HOBO, or any that writes CSV), whose file `iopj meter attach` reads after the run",
            Vec::new(),
        ),
        kind(
            "model",
            "a file of coefficients from `iopj meter fit`; it estimates, and measures nothing",
            Vec::new(),
        ),
    ]
}

/// The device files that ipmitool looks for.
const DEVICES: [&str; 3] = ["dev/ipmi0", "dev/ipmi/0", "dev/ipmidev/0"];

fn ipmi(root: &Path, path: &OsStr) -> Vec<String> {
    let device = match DEVICES.iter().find(|device| root.join(device).exists()) {
        Some(device) => format!("/{device} is here"),
        // Type 38 of SMBIOS: IPMI Device Information (DMTF DSP0134, 7.39).
        None if has_smbios(root, 38) => {
            "no /dev/ipmi0, but the firmware names a BMC: load its drivers (`modprobe -a \
                                         ipmi_si ipmi_devintf`)"
                .to_owned()
        }
        None => "no /dev/ipmi0, and the firmware names no BMC".to_owned(),
    };
    let is_installed = std::env::split_paths(path).any(|folder| folder.join("ipmitool").is_file());
    let program = if is_installed { "ipmitool is installed" } else { "ipmitool is not installed" };
    vec![device, program.to_owned()]
}

fn redfish(root: &Path) -> Vec<String> {
    // Type 42: Management Controller Host Interface, which is Redfish's (DSP0134, 7.43; DSP0270).
    let note = "the firmware names a host interface to this machine's BMC";
    has_smbios(root, 42).then(|| note.to_owned()).into_iter().collect()
}

fn has_smbios(root: &Path, kind: u8) -> bool {
    root.join(format!("sys/firmware/dmi/entries/{kind}-0")).exists()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysfs::fixture::Tree;

    #[test]
    fn what_is_seen_here_is_said_beside_what_is_needed() {
        let notes = |tree: &Tree, name: &str| {
            let path = tree.path("usr/bin").into_os_string();
            let mut kinds = configured_meters(tree.root(), &path);
            assert!(kinds.iter().all(|kind| kind.needs.is_some() && kind.channels.is_empty()));
            let at = kinds.iter().position(|kind| kind.name == name).unwrap();
            kinds.swap_remove(at).notes
        };
        let bare = Tree::new(&[]);
        let none = ["no /dev/ipmi0, and the firmware names no BMC", "ipmitool is not installed"];
        assert_eq!(notes(&bare, "ipmi"), none);
        assert!(notes(&bare, "redfish").is_empty());
        let server = Tree::new(&[
            ("sys/firmware/dmi/entries/38-0/type", "38"),
            ("sys/firmware/dmi/entries/42-0/type", "42"),
            ("usr/bin/ipmitool", ""),
        ]);
        assert!(notes(&server, "ipmi")[0].contains("modprobe -a ipmi_si ipmi_devintf"));
        assert_eq!(notes(&server, "redfish").len(), 1);
        server.write("dev/ipmi0", "");
        assert_eq!(notes(&server, "ipmi"), ["/dev/ipmi0 is here", "ipmitool is installed"]);
    }
}
