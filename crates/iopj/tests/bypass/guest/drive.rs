//! A drive inside a guest: read and written through the kernel's driver, taken from it and given back, by
//! plain files of sysfs (Documentation/ABI/testing/sysfs-bus-pci).

use iopj_engine::nvme_user::{Controller, PriorState};
use iopj_engine::{Isolation, PciAddress, Pool};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub(crate) const MIB: usize = 1 << 20;

/// Numbers of Marsaglia's xorshift64, and bytes of them.
pub(crate) struct Random {
    state: u64,
    stock: Vec<u8>,
}

/// Random bytes that others are made of: a guest makes them slowly.
const STOCK_LEN: usize = 1 << 16;

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        let mut random = Random { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1, stock: Vec::new() };
        random.stock = (0..STOCK_LEN / 8).flat_map(|_| random.next().to_le_bytes()).collect();
        random
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// Fills whole blocks. Every 4 KiB get another part of the stock, and their own number.
    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        for part in bytes.chunks_mut(4096) {
            let from = self.below(STOCK_LEN - part.len());
            part.copy_from_slice(&self.stock[from..][..part.len()]);
            part[..8].copy_from_slice(&self.next().to_le_bytes());
        }
    }
}

/// A digest: it differs if any word does.
pub(crate) fn digest(bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
    words.fold(0xcbf2_9ce4_8422_2325, |sum, word| (sum ^ word).wrapping_mul(0x0100_0000_01b3).rotate_left(29))
}

/// An NVMe drive of the machine.
pub(crate) struct Drive {
    address: PciAddress,
}

impl Drive {
    /// The drive at this index in the machine's list, which the kernel's driver has.
    pub(crate) fn of_machine(number: usize) -> Drive {
        let serial = if number == 0 { "iopjlab".to_owned() } else { format!("iopjlab{number}") };
        let controllers = fs::read_dir("/sys/class/nvme").unwrap().map(|entry| entry.unwrap().path());
        let mut named =
            controllers.filter(|folder| fs::read_to_string(folder.join("serial")).unwrap().trim() == serial);
        Drive { address: PciAddress::of_device(&named.next().unwrap()).unwrap() }
    }

    /// Its folder in sysfs.
    pub(crate) fn folder(&self) -> PathBuf {
        Path::new("/sys/bus/pci/devices").join(self.address.to_string())
    }

    /// The block device of its namespace, once it can be opened: its node comes earlier.
    pub(super) fn node(&self) -> PathBuf {
        let names = |folder: &Path| -> Vec<PathBuf> {
            fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
        };
        for _ in 0..1200 {
            for controller in names(&self.folder().join("nvme")) {
                for entry in names(&controller) {
                    let name = entry.file_name().unwrap().to_str().unwrap().to_owned();
                    let node = Path::new("/dev").join(&name);
                    if name.starts_with("nvme") && name.ends_with("n1") && File::open(&node).is_ok() {
                        return node;
                    }
                }
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("{} has no block device", self.address);
    }

    /// All of it, by the kernel's driver and past its cache.
    pub(crate) fn kernel_read(&self) -> Vec<u8> {
        let (file, len) = direct(&self.node(), false);
        let mut buffer = Pool::new(1, MIB as u32).unwrap().acquire().unwrap();
        let mut bytes = vec![0; len];
        for (number, part) in bytes.chunks_exact_mut(MIB).enumerate() {
            file.read_exact_at(&mut buffer, (number * MIB) as u64).unwrap();
            part.copy_from_slice(&buffer);
        }
        bytes
    }

    /// All of it, by the kernel's driver and past its cache.
    pub(crate) fn kernel_write(&self, bytes: &[u8]) {
        let (file, len) = direct(&self.node(), true);
        assert_eq!(bytes.len(), len);
        let mut buffer = Pool::new(1, MIB as u32).unwrap().acquire().unwrap();
        for (number, part) in bytes.chunks_exact(MIB).enumerate() {
            buffer.copy_from_slice(part);
            file.write_all_at(&buffer, (number * MIB) as u64).unwrap();
        }
    }

    /// From the kernel's driver to vfio-pci.
    pub(crate) fn take(&mut self) {
        self.rebind("vfio-pci", "vfio-pci");
    }

    /// Back to the kernel's driver.
    pub(crate) fn give_back(&mut self) {
        self.rebind("\n", "nvme");
    }

    fn rebind(&self, driver_override: &str, driver: &str) {
        let address = self.address.to_string();
        fs::write(self.folder().join("driver_override"), driver_override).unwrap();
        fs::write(self.folder().join("driver/unbind"), &address).unwrap();
        fs::write("/sys/bus/pci/drivers_probe", &address).unwrap();
        let bound = fs::read_link(self.folder().join("driver")).unwrap();
        assert_eq!(bound.file_name().unwrap().to_str(), Some(driver));
    }

    /// The taken drive's controller, which reaches memory by this way of VFIO.
    pub(crate) fn open(&self, vfio: &str) -> Arc<Controller> {
        self.open_with(vfio, &PriorState::default())
    }

    /// The same, with its prior state.
    pub(crate) fn open_with(&self, vfio: &str, prior: &PriorState) -> Arc<Controller> {
        let isolation = if vfio == "no-iommu" { Isolation::None } else { Isolation::Iommu };
        Controller::open(self.address, isolation, prior).unwrap()
    }
}

/// A block device for direct I/O, and its bytes.
fn direct(node: &Path, write: bool) -> (File, usize) {
    let name = node.file_name().unwrap().to_str().unwrap();
    let sectors = fs::read_to_string(format!("/sys/class/block/{name}/size")).unwrap();
    let file = OpenOptions::new().read(true).write(write).custom_flags(libc::O_DIRECT).open(node).unwrap();
    (file, sectors.trim().parse::<usize>().unwrap() * 512)
}
