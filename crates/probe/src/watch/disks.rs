//! The disks of a watched program: their counters since the watch began, or since they were found.

use super::counters::DeviceCounters;
use crate::completions::CompletionsError;
use crate::device::{Device, DiskCounts};
use crate::error::ProbeError;
use crate::interrupts::{InterruptCounts, InterruptTable};
use crate::root::{Root, names};
use iopj_core::watch::{DeviceCompletions, WatchedDevice};
use std::collections::{BTreeMap, BTreeSet};

/// The disks, in the order in which they were found.
#[derive(Debug)]
pub(super) struct Disks {
    disks: Vec<Disk>,
    /// What every disk of the machine had counted when the watch began, by its name: which of them the
    /// program uses is found later.
    first: BTreeMap<String, DiskCounts>,
    interrupts: InterruptCounts,
}

#[derive(Debug)]
struct Disk {
    device: Device,
    counters: Option<DeviceCounters>,
    /// What its counters were when the watch began, or when it was found.
    found: DiskLook,
}

/// The counters of a disk at one moment.
#[derive(Clone, Debug)]
pub(super) struct DiskLook {
    counts: DiskCounts,
    interrupts: InterruptCounts,
    completions: Option<DeviceCompletions>,
}

impl Disks {
    pub(super) fn new(root: &Root) -> Disks {
        let text = root.text("proc/interrupts").unwrap_or_default();
        let table = InterruptTable::new(&text);
        let count = |name: String| {
            let device = Device::find(root, &name, &table).ok()?;
            Some((name, device.sample().ok()?))
        };
        let first = names(&root.path("sys/block")).into_iter().filter_map(count).collect();
        let all: BTreeSet<u32> = table.lines().map(|line| line.irq).collect();
        Disks { disks: Vec::new(), first, interrupts: table.counts(&all) }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.disks.iter().any(|disk| disk.device.name() == name)
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.disks.iter().map(|disk| disk.device.name().to_owned()).collect()
    }

    /// Adds a disk by its name in `/sys/block`; tells why its completions cannot be counted.
    ///
    /// # Errors
    /// It is not there, or its counters cannot be read.
    pub(super) fn add(&mut self, root: &Root, name: &str) -> Result<Option<CompletionsError>, ProbeError> {
        let text = root.text("proc/interrupts")?;
        let device = Device::find(root, name, &InterruptTable::new(&text))?;
        let (counters, refused) = match DeviceCounters::open(root, name) {
            Ok(counters) => (Some(counters), None),
            Err(error) => (None, Some(error)),
        };
        let mut found = look(root, &device, counters.as_ref())?;
        if let Some(first) = self.first.get(name) {
            (found.counts, found.interrupts) = (first.clone(), self.interrupts.clone());
        }
        self.disks.push(Disk { device, counters, found });
        Ok(refused)
    }

    pub(super) fn resume(&self) {
        self.counters().for_each(DeviceCounters::resume);
    }

    pub(super) fn suspend(&self) {
        self.counters().for_each(DeviceCounters::suspend);
    }

    fn counters(&self) -> impl Iterator<Item = &DeviceCounters> {
        self.disks.iter().filter_map(|disk| disk.counters.as_ref())
    }

    /// Completions that were counted so far, of all disks.
    pub(super) fn completed(&self) -> u64 {
        self.counters().map(|counters| counters.read().total()).sum()
    }

    /// The counters at this moment; a disk that is gone has none.
    pub(super) fn look(&self, root: &Root) -> Vec<Option<DiskLook>> {
        self.disks.iter().map(|disk| look(root, &disk.device, disk.counters.as_ref()).ok()).collect()
    }

    /// What they did from one look to another; a disk that was found since, from the beginning of the watch.
    pub(super) fn between(
        &self,
        earlier: &[Option<DiskLook>],
        later: &[Option<DiskLook>],
    ) -> Vec<WatchedDevice> {
        let one = |(at, disk): (usize, &Disk)| {
            let later = later.get(at)?.as_ref()?;
            let earlier = earlier.get(at).and_then(Option::as_ref).unwrap_or(&disk.found);
            let [read_ms, write_ms] = Device::times_ms(&earlier.counts, &later.counts);
            let counts = disk
                .device
                .between((&earlier.counts, &earlier.interrupts), (&later.counts, &later.interrupts));
            let completions = later.completions.map(|now| since(&earlier.completions, now));
            // A disk without requests completes none.
            let completions =
                completions.filter(|seen| seen.total() > 0 || counts.reads + counts.writes == 0);
            Some(WatchedDevice { counts, read_ms, write_ms, completions, latency: None })
        };
        self.disks.iter().enumerate().filter_map(one).collect()
    }
}

fn look(root: &Root, device: &Device, counters: Option<&DeviceCounters>) -> Result<DiskLook, ProbeError> {
    let irqs: BTreeSet<u32> = device.irqs().collect();
    Ok(DiskLook {
        counts: device.sample()?,
        interrupts: InterruptTable::new(&root.text("proc/interrupts")?).counts(&irqs),
        completions: counters.map(DeviceCounters::read),
    })
}

fn since(earlier: &Option<DeviceCompletions>, later: DeviceCompletions) -> DeviceCompletions {
    let before = earlier.unwrap_or_default();
    DeviceCompletions {
        hard_interrupt: later.hard_interrupt.saturating_sub(before.hard_interrupt),
        soft_interrupt: later.soft_interrupt.saturating_sub(before.soft_interrupt),
        worker: later.worker.saturating_sub(before.worker),
        thread: later.thread.saturating_sub(before.thread),
        issued_by_worker: later.issued_by_worker.saturating_sub(before.issued_by_worker),
    }
}
