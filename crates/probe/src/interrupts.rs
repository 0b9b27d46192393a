//! `/proc/interrupts`: lines, actions and counts per core (proc(5); kernel/irq/proc.c).
//! Which lines belong to a disk is found in `vectors`.

use std::collections::{BTreeMap, BTreeSet};

/// The text of `/proc/interrupts`, with the cores that its first line names.
pub(crate) struct InterruptTable<'a> {
    cores: Vec<u32>,
    body: &'a str,
}

/// One numbered line.
pub(crate) struct InterruptLine<'a> {
    pub(crate) irq: u32,
    counts: Vec<u32>,
    description: &'a str,
}

impl<'a> InterruptTable<'a> {
    pub(crate) fn new(text: &'a str) -> InterruptTable<'a> {
        let (head, body) = text.split_once('\n').unwrap_or((text, ""));
        let cores =
            head.split_whitespace().filter_map(|name| name.strip_prefix("CPU")?.parse().ok()).collect();
        InterruptTable { cores, body }
    }

    /// The lines of device interrupts; those of the architecture (`NMI`, `LOC`, …) have no number.
    pub(crate) fn lines(&self) -> impl Iterator<Item = InterruptLine<'a>> {
        self.select(|_| true)
    }

    fn select(&self, wanted: impl Fn(u32) -> bool) -> impl Iterator<Item = InterruptLine<'a>> {
        self.body.lines().filter_map(move |line| {
            let (irq, rest) = line.split_once(':')?;
            let irq = irq.trim_start().parse().ok().filter(|irq| wanted(*irq))?;
            let (counts, description) = split_counts(rest, self.cores.len());
            Some(InterruptLine { irq, counts, description })
        })
    }

    /// The counts of the wanted interrupts.
    pub(crate) fn counts(&self, wanted: &BTreeSet<u32>) -> InterruptCounts {
        let lines = self.select(|irq| wanted.contains(&irq));
        let counts = lines.map(|line| (line.irq, (line.actions().join(", "), line.counts))).collect();
        InterruptCounts { cores: self.cores.clone(), counts }
    }
}

fn split_counts(text: &str, cores: usize) -> (Vec<u32>, &str) {
    let mut counts = Vec::with_capacity(cores);
    let mut rest = text.trim();
    while counts.len() < cores {
        let (word, after) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let Ok(count) = word.parse::<u64>() else { break };
        // The kernel's counters have 32 bits; the differences below rely on their wrapping.
        counts.push(count as u32);
        rest = after.trim_start();
    }
    (counts, rest)
}

impl<'a> InterruptLine<'a> {
    /// The names of the interrupt's handlers. The kernel writes two spaces before the first and a comma
    /// between them; what precedes (chip, number, trigger) varies with the architecture.
    pub(crate) fn actions(&self) -> Vec<&'a str> {
        let names = self.description.rsplit_once("  ").map_or(self.description, |(_, names)| names);
        names.split(", ").map(str::trim).filter(|name| !name.is_empty()).collect()
    }
}

/// Counts of some interrupts on each core that was online.
#[derive(Clone, Debug, Default)]
pub(crate) struct InterruptCounts {
    cores: Vec<u32>,
    /// The names of the interrupt's handlers, joined as [`InterruptLine::actions`] are in `vectors`.
    counts: BTreeMap<u32, (String, Vec<u32>)>,
}

impl InterruptCounts {
    /// Interrupts of the given vectors (number and name) since `earlier`. `None` if a vector or a core came
    /// or went meanwhile, because its counts are lost, or if a number was reassigned, as after a reset of the
    /// controller.
    pub(crate) fn since<'a>(
        &self,
        earlier: &InterruptCounts,
        vectors: impl Iterator<Item = &'a (u32, String)>,
    ) -> Option<u64> {
        if self.cores != earlier.cores {
            return None;
        }
        vectors.map(|vector| Some(InterruptCounts::sum(self.of(vector)?, earlier.of(vector)?))).sum()
    }

    fn of(&self, (irq, name): &(u32, String)) -> Option<&[u32]> {
        let (found, counts) = self.counts.get(irq)?;
        (found == name).then_some(counts)
    }

    fn sum(later: &[u32], earlier: &[u32]) -> u64 {
        later.iter().zip(earlier).map(|(later, earlier)| u64::from(later.wrapping_sub(*earlier))).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = "           CPU0       CPU2       \n  \
        8:          0          5  IO-APIC   8-edge      rtc0\n \
        16:          7          1  IO-APIC  16-fasteoi   ehci_hcd:usb1, ahci[0000:00:1f.2]\n \
        36:          3 4294967290 PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0\n \
        45:         10         20   ITS-MSI 524288 Edge      PCIe PME\n\
        NMI:          0          0   Non-maskable interrupts\nERR:          0\n";

    #[test]
    fn lines_give_numbers_and_actions() {
        let table = InterruptTable::new(TEXT);
        let found: Vec<(u32, Vec<&str>)> = table.lines().map(|line| (line.irq, line.actions())).collect();
        let expected = vec![
            (8, vec!["rtc0"]),
            (16, vec!["ehci_hcd:usb1", "ahci[0000:00:1f.2]"]),
            (36, vec!["virtio1-req.0"]),
            (45, vec!["PCIe PME"]),
        ];
        assert_eq!(found, expected);
    }

    fn vectors(table: &InterruptTable<'_>, irqs: &[u32]) -> Vec<(u32, String)> {
        let lines = table.lines().filter(|line| irqs.contains(&line.irq));
        lines.map(|line| (line.irq, line.actions().join(", "))).collect()
    }

    /// The interrupts of 8 and 36 from `TEXT` to `later`.
    fn since(later: &str) -> Option<u64> {
        let (wanted, earlier) = (BTreeSet::from([8, 36]), InterruptTable::new(TEXT));
        let vectors = vectors(&earlier, &[8, 36]);
        assert_eq!(vectors.len(), 2);
        InterruptTable::new(later).counts(&wanted).since(&earlier.counts(&wanted), vectors.iter())
    }

    #[test]
    fn differences_wrap_at_32_bits() {
        let later = TEXT.replace("3 4294967290", "4 4").replace("5  IO-APIC   8", "6  IO-APIC   8");
        assert_eq!(since(TEXT), Some(0));
        assert_eq!(since(&later), Some(1 + 10 + 1));
    }

    #[test]
    fn what_a_vector_or_core_that_came_or_went_counted_is_unknown() {
        let without = |part: &str| {
            let kept: Vec<&str> = TEXT.lines().filter(|line| !line.contains(part)).collect();
            kept.join("\n")
        };
        assert_eq!(since(&without("virtio1")), None);
        assert_eq!(since(&without("ahci")), Some(0));
        assert_eq!(since(&TEXT.replace("virtio1-req.0", "virtio2-req.0")), None);
        assert_eq!(since(&TEXT.replace("virtio1-req.0", "")), None);
        assert_eq!(since(&TEXT.replace("CPU2", "CPU3")), None);
        assert_eq!(since(&TEXT.replace("CPU2       ", "")), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(
            head in "( CPU[0-9]{1,12}){0,4}",
            body in "([ 0-9:,a-z]{0,40}\n){0,6}|\\PC*",
        ) {
            let text = format!("{head}\n{body}");
            let table = InterruptTable::new(&text);
            let lines = table.lines().inspect(|line| drop(line.actions()));
            let wanted: BTreeSet<u32> = lines.map(|line| line.irq).collect();
            let counts = table.counts(&wanted);
            let vectors = vectors(&table, &wanted.into_iter().collect::<Vec<_>>());
            let sum = counts.since(&counts, vectors.iter());
            prop_assert!(sum.is_none_or(|sum| sum == 0));
        }
    }
}
