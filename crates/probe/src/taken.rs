//! A device that was taken from its kernel driver: which driver has it, and the interrupts that the kernel
//! passes on for it.
//!
//! Source: drivers/vfio/pci/vfio_pci_intrs.c, which names vectors `vfio-msix[N](ADDRESS)`,
//! `vfio-msi[N](ADDRESS)` and `vfio-intx(ADDRESS)`.

use crate::error::ProbeError;
use crate::interrupts::{InterruptCounts, InterruptTable};
use crate::root::Root;
use iopj_core::evidence::DeviceEvidence;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// A device that was taken from its kernel driver.
#[derive(Debug)]
pub(crate) struct Taken {
    address: String,
    driver: PathBuf,
}

/// Its driver and vectors at one moment.
#[derive(Clone, Debug)]
pub(crate) struct TakenState {
    driver: Option<String>,
    vectors: Vec<(u32, String)>,
}

impl Taken {
    pub(crate) fn find(root: &Root, address: &str) -> Result<Taken, ProbeError> {
        let place = root.path("sys/bus/pci/devices").join(address);
        if address.contains('/') || !place.is_dir() {
            return Err(ProbeError::NoDevice(address.to_owned()));
        }
        Ok(Taken { address: address.to_owned(), driver: place.join("driver") })
    }

    /// Its driver and vectors now, and the vectors' numbers.
    pub(crate) fn sample(&self, interrupts: &InterruptTable<'_>) -> (TakenState, BTreeSet<u32>) {
        let owner = format!("({})", self.address);
        let is_own = |action: &&str| action.starts_with("vfio-") && action.ends_with(&owner);
        let lines = interrupts.lines().filter(|line| line.actions().iter().any(is_own));
        let vectors: Vec<_> = lines.map(|line| (line.irq, line.actions().join(", "))).collect();
        let numbers = vectors.iter().map(|(irq, _)| *irq).collect();
        let link = std::fs::read_link(&self.driver).ok();
        let driver = link.and_then(|link| Some(link.file_name()?.to_str()?.to_owned()));
        (TakenState { driver, vectors }, numbers)
    }

    /// What is known of the device from `earlier` to `later`; the caller adds its I/Os. Without a vector
    /// there is no interrupt: nobody asked for one.
    pub(crate) fn between(
        &self,
        earlier: (&TakenState, &InterruptCounts),
        later: (&TakenState, &InterruptCounts),
    ) -> DeviceEvidence {
        let is_same = earlier.0.vectors == later.0.vectors;
        DeviceEvidence {
            name: self.address.clone(),
            interrupts: is_same.then(|| later.1.since(earlier.1, later.0.vectors.iter())).flatten(),
            vectors: later.0.vectors.iter().map(|(irq, name)| format!("{irq} {name}")).collect(),
            taken_by: later.0.driver.clone().filter(|_| earlier.0.driver == later.0.driver),
            ..DeviceEvidence::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    const ADDRESS: &str = "0000:01:00.0";

    fn table(one: u32, two: u32) -> String {
        format!(
            "            CPU0       CPU1\n  24:          7          9  PCI-MSIX-0000:00:05.0    0-edge      \
             nvme1q0\n  25:          {one}          0  IR-PCI-MSIX-{ADDRESS}    1-edge      \
             vfio-msix[1]({ADDRESS})\n  26:          0          {two}  IR-PCI-MSIX-{ADDRESS}    2-edge      \
             vfio-msix[2]({ADDRESS})\n  27:          5          5  IR-PCI-MSIX-0000:11:00.0    2-edge      \
             vfio-msix[2](0000:11:00.0)\n"
        )
    }

    fn between(before: &str, after: &str, rebind: impl Fn(&Path)) -> DeviceEvidence {
        let tree = tempfile::tempdir().unwrap();
        let place = tree.path().join("sys/bus/pci/devices").join(ADDRESS);
        std::fs::create_dir_all(&place).unwrap();
        symlink("../../../../bus/pci/drivers/vfio-pci", place.join("driver")).unwrap();
        let taken = Taken::find(&Root::new(tree.path()).unwrap(), ADDRESS).unwrap();
        let sample = |text: &str| {
            let table = InterruptTable::new(text);
            let (sample, irqs) = taken.sample(&table);
            (sample, table.counts(&irqs))
        };
        let (earlier, counts) = sample(before);
        rebind(&place);
        let (later, more) = sample(after);
        taken.between((&earlier, &counts), (&later, &more))
    }

    #[test]
    fn its_own_vectors_are_counted_and_no_others() {
        let found = between(&table(10, 20), &table(14, 21), |_| {});
        assert_eq!((found.interrupts, found.taken_by.as_deref()), (Some(5), Some("vfio-pci")));
        assert_eq!(
            found.vectors,
            [format!("25 vfio-msix[1]({ADDRESS})"), format!("26 vfio-msix[2]({ADDRESS})")]
        );
    }

    #[test]
    fn without_a_vector_there_is_no_interrupt_and_with_another_the_count_is_unknown() {
        let none = "           CPU0       CPU1\n  24:          7          9  PCI-MSIX-0000:00:05.0    \
                    0-edge      nvme1q0\n";
        assert_eq!(between(none, none, |_| {}).interrupts, Some(0));
        assert_eq!(between(none, &table(1, 1), |_| {}).interrupts, None);
    }

    #[test]
    fn a_device_that_changed_hands_was_taken_by_nobody() {
        let given_back = |place: &Path| {
            std::fs::remove_file(place.join("driver")).unwrap();
            symlink("../../../../bus/pci/drivers/nvme", place.join("driver")).unwrap();
        };
        assert_eq!(between(&table(1, 1), &table(1, 1), given_back).taken_by, None);
    }

    #[test]
    fn only_a_device_of_the_bus_is_found() {
        let tree = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(tree.path().join("sys/bus/pci/devices")).unwrap();
        let root = Root::new(tree.path()).unwrap();
        for name in ["0000:02:00.0", "../devices"] {
            assert!(matches!(Taken::find(&root, name), Err(ProbeError::NoDevice(given)) if given == name));
        }
    }
}
