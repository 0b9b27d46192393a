//! Plans on trees like sysfs: each refusal once, and what is allowed.

use super::super::fixtures::SysfsTree;
use super::super::mounts::{self, Mount};
use super::*;
use std::fs;
use std::os::unix::fs::symlink;

const ADDRESS: &str = "0000:01:00.0";

/// A drive behind a bridge, alone in IOMMU group 7, bound to `nvme`; `vfio-pci` is there.
struct Machine {
    tree: SysfsTree,
    mounts: Vec<Mount>,
    swaps: Vec<u64>,
}

impl Machine {
    fn new() -> Machine {
        let machine = Machine { tree: SysfsTree::new(), mounts: Vec::new(), swaps: Vec::new() };
        for driver in ["nvme", "vfio-pci", "snd_hda_intel", "pcieport"] {
            fs::create_dir_all(machine.path("bus/pci/drivers").join(driver)).unwrap();
        }
        machine.function(ADDRESS, "0x010802", Some("nvme"));
        machine.function("0000:00:1c.0", "0x060400", Some("pcieport"));
        machine.group(7, &[ADDRESS, "0000:00:1c.0"]);
        machine.namespace("nvme0n1", "nvme0n1", "259:0");
        machine
    }

    fn path(&self, path: &str) -> PathBuf {
        self.tree.root().canonicalize().unwrap().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    }

    fn link(&self, to: &str, link: &str) {
        fs::create_dir_all(self.path(link).parent().unwrap()).unwrap();
        let _ = fs::remove_file(self.path(link));
        symlink(self.path(to), self.path(link)).unwrap();
    }

    fn function(&self, address: &str, class: &str, driver: Option<&str>) {
        self.write(&format!("devices/pci0000:00/{address}/class"), class);
        self.write(&format!("devices/pci0000:00/{address}/driver_override"), "(null)");
        self.link(&format!("devices/pci0000:00/{address}"), &format!("bus/pci/devices/{address}"));
        if let Some(driver) = driver {
            self.link(&format!("bus/pci/drivers/{driver}"), &format!("devices/pci0000:00/{address}/driver"));
        }
    }

    fn group(&self, group: u32, members: &[&str]) {
        for member in members {
            let folder = format!("devices/pci0000:00/{member}");
            self.link(&folder, &format!("kernel/iommu_groups/{group}/devices/{member}"));
            self.link(&format!("kernel/iommu_groups/{group}"), &format!("{folder}/iommu_group"));
        }
    }

    fn without_group(&self) {
        fs::remove_file(self.path(&format!("devices/pci0000:00/{ADDRESS}/iommu_group"))).unwrap();
    }

    /// A namespace that the controller shows as `path`, and whose visible block device is `head`.
    fn namespace(&self, path: &str, head: &str, number: &str) -> PathBuf {
        let shown = self.path(&format!("devices/pci0000:00/{ADDRESS}/nvme/nvme0")).join(path);
        fs::create_dir_all(shown).unwrap();
        self.tree.disk(head, number)
    }

    fn plan(&self, i_know: bool) -> Result<TakePlan, String> {
        let system =
            SystemState { sysfs: self.tree.sysfs(), mounts: self.mounts.clone(), swaps: self.swaps.clone() };
        let plan = plan_in(self.tree.root(), &system, ADDRESS.parse().unwrap(), i_know);
        plan.map(|(plan, _)| plan).map_err(|error| error.to_string())
    }

    fn refusal(&self, i_know: bool) -> String {
        self.plan(i_know).unwrap_err()
    }

    #[track_caller]
    fn refuses(&self, i_know: bool, why: &str) {
        let message = self.refusal(i_know);
        assert!(message.contains(why), "{message}");
    }
}

#[test]
fn an_idle_drive_alone_in_its_group_may_be_taken() {
    let machine = Machine::new();
    machine.namespace("nvme0c0n2", "nvme0n2", "259:1");
    // The generic character device and the controller's other folders are not namespaces.
    for folder in ["ng0n1", "hwmon3", "power", "nvme0n1p1"] {
        fs::create_dir_all(machine.path(&format!("devices/pci0000:00/{ADDRESS}/nvme/nvme0/{folder}")))
            .unwrap();
    }
    let plan = machine.plan(false).unwrap();
    let namespaces = vec!["nvme0n1".to_owned(), "nvme0n2".to_owned()];
    let driver = Some("nvme".to_owned());
    let address = ADDRESS.parse().unwrap();
    assert_eq!(plan, TakePlan { address, driver, namespaces, group: Some(7), isolation: Isolation::Iommu });
}

#[test]
fn a_device_that_is_not_an_nvme_controller_is_refused() {
    let machine = Machine::new();
    machine.write(&format!("devices/pci0000:00/{ADDRESS}/class"), "0x040300");
    machine.refuses(false, "0000:01:00.0 is not an NVMe controller (its class is 0x040300");
    fs::remove_file(machine.path(&format!("bus/pci/devices/{ADDRESS}"))).unwrap();
    machine.refuses(false, "there is no PCI device 0000:01:00.0: `lspci");
}

#[test]
fn a_namespace_in_use_is_refused_whatever_is_built_on_it() {
    let mut machine = Machine::new();
    let disk = machine.namespace("nvme0c0n2", "nvme0n2", "259:1");
    let partition = machine.tree.partition("nvme0n2", "nvme0n2p1", "259:2");
    machine.mounts = vec![Mount::parse("36 1 259:2 / /home rw - ext4 /dev/nvme0n2p1 rw").unwrap()];
    let message = machine.refusal(true);
    let expected = "0000:01:00.0 cannot be taken: nvme0n2p1 is mounted on /home; unmount it, or name \
                    another drive";
    assert_eq!(message, expected);
    let crypt = machine.tree.disk("dm-0", "253:0");
    machine.tree.stack(&crypt, &partition);
    machine.mounts = vec![Mount::parse("36 1 253:0 / / rw - ext4 /dev/dm-0 rw").unwrap()];
    machine.refuses(true, "dm-0 is mounted on /;");
    machine.mounts.clear();
    machine.refuses(true, "dm-0 is built on nvme0n2p1; take dm-0 down");
    fs::remove_file(partition.join("holders/dm-0")).unwrap();
    machine.swaps = vec![mounts::parse_device("259:1").unwrap()];
    machine.refuses(true, "nvme0n2 is used as swap; `swapoff /dev/nvme0n2`");
    machine.swaps.clear();
    machine.plan(true).unwrap();
    fs::remove_file(disk.join("dev")).unwrap();
    fs::remove_file(machine.path("devices/nvme0n2/block/nvme0n2/nvme0n2p1/dev")).unwrap();
    machine.refuses(true, "reading the numbers of its namespaces failed");
}

#[test]
fn a_namespace_mounted_through_another_controller_is_refused() {
    let mut machine = Machine::new();
    let twin = machine.tree.disk("nvme1n1", "259:9");
    fs::write(twin.join("wwid"), "eui.1\n").unwrap();
    machine.write("devices/nvme0n1/block/nvme0n1/wwid", "eui.1");
    machine.mounts = vec![Mount::parse("36 1 259:9 / /srv rw - xfs /dev/nvme1n1 rw").unwrap()];
    machine.refuses(false, "nvme1n1 is mounted on /srv");
    machine.mounts.clear();
    assert_eq!(machine.plan(false).unwrap().namespaces, ["nvme0n1"]);
}

#[test]
fn a_group_with_others_in_it_is_refused() {
    for (driver, shown) in [
        (Some("snd_hda_intel"), "0000:01:00.1 (snd_hda_intel)"),
        (Some("vfio-pci"), "0000:01:00.1 (vfio-pci)"),
        (None, "0000:01:00.1 (no driver)"),
    ] {
        let machine = Machine::new();
        machine.function("0000:01:00.1", "0x040300", driver);
        machine.group(7, &["0000:01:00.1"]);
        machine.refuses(true, &format!("its IOMMU group 7 also holds {shown}"));
        machine.refuses(true, "another slot");
    }
}

#[test]
fn without_an_iommu_the_user_must_know() {
    let machine = Machine::new();
    machine.without_group();
    machine.refuses(false, "0000:01:00.0 has no IOMMU");
    machine.refuses(false, "--i-know-no-iommu");
    machine.refuses(true, "CONFIG_VFIO_NOIOMMU");
    let parameter = "module/vfio/parameters/enable_unsafe_noiommu_mode";
    machine.write(parameter, "N");
    machine.refuses(true, "`echo 1 > /sys/module/vfio/parameters/enable_unsafe_noiommu_mode`");
    machine.write(parameter, "Y");
    let plan = machine.plan(true).unwrap();
    assert_eq!((plan.group, plan.isolation), (None, Isolation::None));
    // A device that VFIO has already taken so has a group in name only.
    machine.group(0, &[ADDRESS]);
    machine.write("kernel/iommu_groups/0/name", "vfio-noiommu");
    assert_eq!(machine.plan(true).unwrap().isolation, Isolation::None);
    machine.refuses(false, "has no IOMMU");
}

#[test]
fn vfio_pci_must_be_there_and_the_device_not_pinned() {
    let machine = Machine::new();
    let pin = format!("devices/pci0000:00/{ADDRESS}/driver_override");
    machine.write(&pin, "nvme");
    machine.refuses(false, "pinned to the driver `nvme`; unpin it by `echo > /sys/bus/pci");
    fs::remove_dir(machine.path("bus/pci/drivers/vfio-pci")).unwrap();
    machine.refuses(false, "the driver vfio-pci is not there; `modprobe vfio-pci`");
    // A device that the user has given to vfio-pci by hand is as it should be, pinned or not.
    fs::create_dir(machine.path("bus/pci/drivers/vfio-pci")).unwrap();
    machine.link("bus/pci/drivers/vfio-pci", &format!("devices/pci0000:00/{ADDRESS}/driver"));
    machine.write(&pin, "vfio-pci");
    fs::remove_dir_all(machine.path(&format!("devices/pci0000:00/{ADDRESS}/nvme"))).unwrap();
    let plan = machine.plan(false).unwrap();
    assert_eq!((plan.driver.as_deref(), plan.namespaces.len()), (Some("vfio-pci"), 0));
}

#[test]
fn heads_are_distinguished_from_paths() {
    for (name, head) in [("nvme0n1", "nvme0n1"), ("nvme12c3n40", "nvme12n40")] {
        assert_eq!(visible_namespace(name).as_deref(), Some(head));
    }
    for name in [
        "nvme0",
        "ng0n1",
        "nvmen1",
        "nvme0n",
        "nvme0n1p1",
        "nvme0cn1",
        "nvme0c1",
        "nvme-subsys0",
        "nvme0xn1",
        "",
    ] {
        assert_eq!(visible_namespace(name), None, "{name}");
    }
}
