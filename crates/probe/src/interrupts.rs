//! `/proc/interrupts`: lines, actions and counts per core (proc(5); kernel/irq/proc.c).
//! Which lines belong to a disk is found in `vectors`.

use std::collections::{BTreeMap, BTreeSet};

/// The text of `/proc/interrupts`, with the cores that its first line names.
pub(crate) struct Table<'a> {
    cores: Vec<u32>,
    body: &'a str,
}

/// One numbered line.
pub(crate) struct Line<'a> {
    pub(crate) irq: u32,
    counts: Vec<u32>,
    description: &'a str,
}

impl<'a> Table<'a> {
    pub(crate) fn new(text: &'a str) -> Table<'a> {
        let (head, body) = text.split_once('\n').unwrap_or((text, ""));
        let cores = head.split_whitespace().filter_map(|name| name.strip_prefix("CPU")?.parse().ok()).collect();
        Table { cores, body }
    }

    /// The lines of device interrupts; those of the architecture (`NMI`, `LOC`, …) have no number.
    pub(crate) fn lines(&self) -> impl Iterator<Item = Line<'a>> {
        self.select(|_| true)
    }

    fn select(&self, wanted: impl Fn(u32) -> bool) -> impl Iterator<Item = Line<'a>> {
        self.body.lines().filter_map(move |line| {
            let (irq, rest) = line.split_once(':')?;
            let irq = irq.trim_start().parse().ok().filter(|irq| wanted(*irq))?;
            let (counts, description) = split_counts(rest, self.cores.len());
            Some(Line { irq, counts, description })
        })
    }

    /// The counts of the wanted interrupts.
    pub(crate) fn counts(&self, wanted: &BTreeSet<u32>) -> Counts {
        let counts = self.select(|irq| wanted.contains(&irq)).map(|line| (line.irq, line.counts)).collect();
        Counts { cores: self.cores.clone(), counts }
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

impl<'a> Line<'a> {
    /// The names of those who handle the interrupt. The kernel writes two spaces before the first
    /// and a comma between them; what precedes (chip, number, trigger) varies with the architecture.
    pub(crate) fn actions(&self) -> Vec<&'a str> {
        let names = self.description.rsplit_once("  ").map_or(self.description, |(_, names)| names);
        names.split(", ").map(str::trim).filter(|name| !name.is_empty()).collect()
    }
}

/// Counts of some interrupts on each core that was online.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    cores: Vec<u32>,
    counts: BTreeMap<u32, Vec<u32>>,
}

impl Counts {
    /// Interrupts of the given numbers since `earlier`, on the cores online at both times.
    pub(crate) fn since(&self, earlier: &Counts, irqs: impl Iterator<Item = u32>) -> u64 {
        irqs.map(|irq| {
            self.on_cores(irq).fold(0, |sum, (core, count)| {
                let before = match earlier.counts.get(&irq) {
                    // The kernel leaves out a vector that has neither handler nor count.
                    None => Some(0),
                    Some(_) => earlier.on_cores(irq).find(|(other, _)| *other == core).map(|(_, count)| count),
                };
                sum + before.map_or(0, |before| u64::from(count.wrapping_sub(before)))
            })
        })
        .sum()
    }

    fn on_cores(&self, irq: u32) -> impl Iterator<Item = (u32, u32)> {
        self.cores.iter().copied().zip(self.counts.get(&irq).into_iter().flatten().copied())
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
        let table = Table::new(TEXT);
        let found: Vec<(u32, Vec<&str>)> = table.lines().map(|line| (line.irq, line.actions())).collect();
        let expected = vec![
            (8, vec!["rtc0"]),
            (16, vec!["ehci_hcd:usb1", "ahci[0000:00:1f.2]"]),
            (36, vec!["virtio1-req.0"]),
            (45, vec!["PCIe PME"]),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn differences_wrap_at_32_bits_and_follow_the_core() {
        let wanted = BTreeSet::from([8, 36]);
        let earlier = Table::new(TEXT).counts(&wanted);
        let later =
            "  CPU0 CPU1 CPU2\n 36: 4 900 4 PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0\n 8: 0 0 6  x  rtc0\n";
        let later = Table::new(later).counts(&wanted);
        assert_eq!(later.since(&earlier, [36].into_iter()), 1 + 10);
        assert_eq!(later.since(&earlier, [36, 8].into_iter()), 1 + 10 + 1);
        assert_eq!(later.since(&earlier, [99].into_iter()), 0);
    }

    #[test]
    fn a_vector_that_appears_counts_from_zero() {
        let wanted = BTreeSet::from([7]);
        let earlier = Table::new("  CPU0\n").counts(&wanted);
        let later = Table::new("  CPU0\n 7: 12  x  y\n").counts(&wanted);
        assert_eq!(later.since(&earlier, [7].into_iter()), 12);
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(head in "( CPU[0-9]{1,12}){0,4}", body in "([ 0-9:,a-z]{0,40}\n){0,6}|\\PC*") {
            let text = format!("{head}\n{body}");
            let table = Table::new(&text);
            let wanted: BTreeSet<u32> = table.lines().inspect(|line| drop(line.actions())).map(|line| line.irq).collect();
            let counts = table.counts(&wanted);
            prop_assert_eq!(counts.since(&counts, wanted.into_iter()), 0);
        }
    }
}
