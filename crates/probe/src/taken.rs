//! A device that was taken from its kernel driver: which driver has it, and the interrupts that the kernel
//! passes on for it.
//!
//! Sources: drivers/vfio/pci/vfio_pci_intrs.c, which names vectors `vfio-msix[N](ADDRESS)`,
//! `vfio-msi[N](ADDRESS)` and `vfio-intx(ADDRESS)`, and only as long as they signal an event;
//! Documentation/ABI/testing/sysfs-bus-pci (`msi_irqs`) and sysfs-kernel-irq (`per_cpu_count`), which have
//! them as long as they are allocated.

use crate::error::ProbeError;
use crate::interrupts::{InterruptCounts, InterruptTable};
use crate::root::Root;
use crate::root::{names, text};
use iopj_core::evidence::DeviceEvidence;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// The name of a vector that signals an event at neither end of the window: the kernel has none for it.
const MASKED: &str = "masked";

/// A device that was taken from its kernel driver.
#[derive(Debug)]
pub(crate) struct Taken {
    address: String,
    place: PathBuf,
    /// Where the kernel counts each interrupt.
    counts: PathBuf,
}

/// Its driver and vectors at one moment.
#[derive(Clone, Debug)]
pub(crate) struct TakenState {
    driver: Option<String>,
    /// Those that signal an event.
    vectors: Vec<(u32, String)>,
    /// Its message-signalled interrupts, whether they signal one or not: counts on each core, absent where
    /// the kernel does not tell.
    signalled: BTreeMap<u32, Option<Vec<u32>>>,
}

impl Taken {
    pub(crate) fn find(root: &Root, address: &str) -> Result<Taken, ProbeError> {
        let place = root.path("sys/bus/pci/devices").join(address);
        if address.contains('/') || !place.is_dir() {
            return Err(ProbeError::NoDevice(address.to_owned()));
        }
        Ok(Taken { address: address.to_owned(), place, counts: root.path("sys/kernel/irq") })
    }

    /// Its driver and vectors now, and the vectors' numbers.
    pub(crate) fn sample(&self, interrupts: &InterruptTable<'_>) -> (TakenState, BTreeSet<u32>) {
        let owner = format!("({})", self.address);
        let is_own = |action: &&str| action.starts_with("vfio-") && action.ends_with(&owner);
        let lines = interrupts.lines().filter(|line| line.actions().iter().any(is_own));
        let vectors: Vec<_> = lines.map(|line| (line.irq, line.actions().join(", "))).collect();
        let numbers = vectors.iter().map(|(irq, _)| *irq).collect();
        let link = std::fs::read_link(self.place.join("driver")).ok();
        let driver = link.and_then(|link| Some(link.file_name()?.to_str()?.to_owned()));
        let own = names(&self.place.join("msi_irqs"));
        let own = own.iter().filter_map(|irq| irq.parse().ok()).map(|irq| (irq, self.counts_of(irq)));
        (TakenState { driver, vectors, signalled: own.collect() }, numbers)
    }

    fn counts_of(&self, irq: u32) -> Option<Vec<u32>> {
        let counts = text(&self.counts.join(irq.to_string()).join("per_cpu_count")).ok()?;
        counts.trim().split(',').map(|count| count.parse().ok()).collect()
    }

    /// What is known of the device from `earlier` to `later`; the caller adds its I/Os. Without a vector
    /// there is no interrupt: nobody asked for one. A vector that signals at neither end may have done so
    /// meanwhile, so what is counted is what is allocated.
    pub(crate) fn between(
        &self,
        earlier: (&TakenState, &InterruptCounts),
        later: (&TakenState, &InterruptCounts),
    ) -> DeviceEvidence {
        let ((first, _), (last, _)) = (earlier, later);
        let mut vectors: BTreeSet<(u32, &str)> =
            first.vectors.iter().chain(&last.vectors).map(|(irq, name)| (*irq, name.as_str())).collect();
        let allocated = first.signalled.keys().chain(last.signalled.keys());
        let silent = allocated.filter(|irq| !first.has_line(**irq) && !last.has_line(**irq));
        vectors.extend(silent.map(|irq| (*irq, MASKED)));
        DeviceEvidence {
            name: self.address.clone(),
            interrupts: interrupts(earlier, later),
            vectors: vectors.into_iter().map(|(irq, name)| format!("{irq} {name}")).collect(),
            taken_by: last.driver.clone().filter(|_| first.driver == last.driver),
            ..DeviceEvidence::default()
        }
    }
}

impl TakenState {
    /// True if this vector signals an event.
    fn has_line(&self, irq: u32) -> bool {
        self.vectors.iter().any(|(known, _)| *known == irq)
    }

    /// True if the kernel tells the counts of every allocated interrupt, and there is one.
    fn is_told(&self) -> bool {
        !self.signalled.is_empty() && self.signalled.values().all(Option::is_some)
    }
}

/// Interrupts from `earlier` to `later`, by the counts of what is allocated. Where the kernel does not tell
/// them, the lines of `/proc/interrupts` do, if they are the same at both ends and none is missing; otherwise
/// nobody knows.
fn interrupts(
    (first, before): (&TakenState, &InterruptCounts),
    (last, after): (&TakenState, &InterruptCounts),
) -> Option<u64> {
    if !first.signalled.keys().eq(last.signalled.keys()) {
        return None;
    }
    if first.is_told() && last.is_told() {
        return signalled(&first.signalled, &last.signalled);
    }
    let have_lines = first.signalled.keys().all(|irq| first.has_line(*irq));
    (have_lines && first.vectors == last.vectors).then(|| after.since(before, last.vectors.iter())).flatten()
}

/// Interrupts since `earlier`, of the same vectors; `None` if one counts less than before: it is another
/// then.
fn signalled(
    earlier: &BTreeMap<u32, Option<Vec<u32>>>,
    later: &BTreeMap<u32, Option<Vec<u32>>>,
) -> Option<u64> {
    let of = |(before, after): (&Option<Vec<u32>>, &Option<Vec<u32>>)| {
        let (before, after) = before.as_ref().zip(after.as_ref())?;
        // The kernel's counters have 32 bits, and wrap.
        let more = before.iter().zip(after).map(|(before, after)| after.wrapping_sub(*before));
        let more: Option<u64> = more.map(|more| (more <= u32::MAX / 2).then_some(u64::from(more))).sum();
        more.filter(|_| before.len() == after.len())
    };
    earlier.values().zip(later.values()).map(of).sum()
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

    /// The table without its own vectors: none signals an event.
    fn silent() -> String {
        let text = table(0, 0);
        text.lines().filter(|line| !line.contains("(0000:01:")).map(|line| format!("{line}\n")).collect()
    }

    /// The allocated interrupts of the device, each with its counts.
    fn allocated(place: &Path, counts: &[(u32, &str)]) {
        let irqs = place.ancestors().nth(4).unwrap().join("kernel/irq");
        let _ = std::fs::remove_dir_all(place.join("msi_irqs"));
        std::fs::create_dir_all(place.join("msi_irqs")).unwrap();
        for (irq, counts) in counts {
            std::fs::write(place.join(format!("msi_irqs/{irq}")), "msix\n").unwrap();
            std::fs::create_dir_all(irqs.join(irq.to_string())).unwrap();
            std::fs::write(irqs.join(format!("{irq}/per_cpu_count")), format!("{counts}\n")).unwrap();
        }
    }

    /// What is known of it between two tables, with counts before and after.
    fn seen_in(tables: [&str; 2], before: &[(u32, &str)], after: &[(u32, &str)]) -> DeviceEvidence {
        let tree = tempfile::tempdir().unwrap();
        let place = tree.path().join("sys/bus/pci/devices").join(ADDRESS);
        std::fs::create_dir_all(&place).unwrap();
        let taken = Taken::find(&Root::new(tree.path()).unwrap(), ADDRESS).unwrap();
        let sample = |text: &str, counts| {
            allocated(&place, counts);
            let table = InterruptTable::new(text);
            let (sample, irqs) = taken.sample(&table);
            (sample, table.counts(&irqs))
        };
        let [begin, end] = tables;
        let ((first, counts), (last, more)) = (sample(begin, before), sample(end, after));
        taken.between((&first, &counts), (&last, &more))
    }

    /// The same while vectors signal at the begin alone, or never.
    fn seen(before: &[(u32, &str)], after: &[(u32, &str)]) -> [DeviceEvidence; 2] {
        [table(10, 20), silent()].map(|begin| seen_in([&begin, &silent()], before, after))
    }

    fn counted(before: &[(u32, &str)], after: &[(u32, &str)]) -> [Option<u64>; 2] {
        seen(before, after).map(|device| device.interrupts)
    }

    #[test]
    fn a_vector_that_never_signals_is_one_of_the_drives_as_long_as_it_is_allocated() {
        let all = [(25, "0,0"), (26, "0,0"), (28, "0,0")];
        let names = [&format!("vfio-msix[1]({ADDRESS})"), &format!("vfio-msix[2]({ADDRESS})"), "masked"];
        let named = |names: [&str; 3]| {
            [25, 26, 28].iter().zip(names).map(|(irq, name)| format!("{irq} {name}")).collect::<Vec<_>>()
        };
        let found = seen(&all, &all).map(|device| device.vectors);
        assert_eq!(found, [named(names), named(["masked"; 3])]);
    }

    #[test]
    fn a_vector_that_stopped_to_signal_is_counted_as_long_as_it_is_allocated() {
        let found = counted(&[(25, "10,0"), (26, "0,4294967295")], &[(25, "14,2"), (26, "0,1")]);
        assert_eq!(found, [Some(4 + 2 + 2); 2]);
        assert_eq!(counted(&[(25, "10,0")], &[(25, "10,0")]), [Some(0); 2]);
        // One that came, one that was counted anew, and one that the kernel does not count.
        assert_eq!(counted(&[(25, "10,0")], &[(25, "10,0"), (26, "0,0")]), [None; 2]);
        assert_eq!(counted(&[(25, "10,0")], &[(25, "3,0")]), [None; 2]);
        assert_eq!(counted(&[(25, "10,0")], &[(25, "-")]), [None; 2]);
        assert_eq!(counted(&[], &[]), [None, Some(0)]);
    }

    #[test]
    fn where_the_kernel_tells_no_counts_vectors_that_signal_throughout_are_counted() {
        let untold: [(u32, &str); 2] = [(25, "-"), (26, "-")];
        let count = |tables: [&str; 2], before: &[(u32, &str)], after: &[(u32, &str)]| {
            seen_in(tables, before, after).interrupts
        };
        let (first, last) = (table(10, 20), table(14, 21));
        assert_eq!(count([&first, &last], &untold, &untold), Some(4 + 1));
        assert_eq!(count([&first, &last], &[(25, "10,0"), (26, "-")], &untold), Some(4 + 1));
        // One that signals at the begin alone, never, or came: its counts are lost.
        assert_eq!(count([&first, &silent()], &untold, &untold), None);
        assert_eq!(count([&silent(), &silent()], &untold, &untold), None);
        let more = [untold[0], untold[1], (28, "-")];
        assert_eq!(count([&first, &last], &more, &more), None);
        assert_eq!(count([&first, &last], &untold, &more), None);
        // What the kernel tells decides.
        let told = [(25, "10,0"), (26, "0,20")];
        assert_eq!(count([&first, &last], &told, &[(25, "3,0"), (26, "0,21")]), None);
        assert_eq!(count([&first, &last], &told, &[(25, "13,0"), (26, "0,21")]), Some(3 + 1));
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
