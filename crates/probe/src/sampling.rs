//! Samples of what every core executes: which function of the kernel, or a program.
//!
//! The whole machine is sampled, because interrupts and kernel threads belong to the cost of an I/O too; so
//! does whatever else runs meanwhile. The idle loop is left out.
//!
//! `cpu-clock` is a timer's interrupt (kernel/events/core.c, `perf_swevent_hrtimer`). Code with
//! interrupts disabled is charged to the instruction that enables them again. It leaves out the whole idle
//! task, and with it what a device's interrupt does on an idle core. The processor's counters interrupt at
//! once and have no such blind spot.

mod error;
mod events;
pub(crate) mod ring;
mod tally;

pub use error::{MissingSamples, SamplingError};

use crate::cpu::online;
use crate::perf::{Counter, EventsError};
use crate::root::Root;
use crate::symbols::Symbols;
use events::{CoreGroup, Event};
use iopj_core::{CostKind, CostProfile, CostSource};
use ring::{Record, Ring};
use std::io;
use std::path::Path;
use tally::Tally;

/// Samples every core between [`start`](Sampler::start) and [`stop`](Sampler::stop), again and again.
///
/// Each core has a ring of 512 KiB, with room for several seconds: call [`drain`](Sampler::drain) every
/// second. Nothing is sampled, and nothing costs, outside of a window.
#[derive(Debug)]
pub struct Sampler {
    cores: Vec<Core>,
    symbols: Symbols,
    kinds: Vec<CostKind>,
    names: Vec<String>,
    tally: Tally,
}

/// The counters of one core, which share a ring.
#[derive(Debug)]
struct Core {
    cpu: u32,
    ring: Ring,
    counters: Vec<Sampled>,
}

/// A counter and the meaning of its samples.
#[derive(Debug)]
struct Sampled {
    counter: Counter,
    id: u64,
    event: Event,
    /// Enabled and counted, in ns, when the window began.
    began_ns: [u64; 2],
}

impl Sampler {
    /// Opens the counters of every core: instructions, and loads and stores if they are known by name for
    /// this processor and exist; `cpu-clock` if the machine counts no instructions.
    ///
    /// # Errors
    /// [`SamplingError`] if this user may not, or this kernel cannot.
    pub fn new() -> Result<Sampler, SamplingError> {
        let root = Root::new(Path::new("/"))?;
        let clock = events::clock(online(&root)?);
        // An event that every machine has shows whether this user may, before the kernel's symbols do.
        let first = |source| EventsError::of(source, &root, clock.cpus.len());
        clock.events[0].open(clock.cpus[0]).map_err(first)?;
        let symbols = Symbols::of_this_kernel()?;
        let hardware = available(events::hardware(&root)?, |event, cpu| event.open(cpu).is_ok());
        let all = if hardware.is_empty() { vec![clock] } else { hardware };
        let needed = all.iter().map(|cores| cores.cpus.len() * cores.events.len()).sum();
        let refused = |source| EventsError::of(source, &root, needed);
        let each = all.iter().flat_map(|cores| cores.cpus.iter().map(|cpu| (*cpu, &cores.events)));
        let opened: Result<Vec<Core>, SamplingError> =
            each.map(|(cpu, events)| Core::open(cpu, events, &refused)).collect();
        let events = || all.iter().flat_map(|cores| &cores.events);
        Ok(Sampler {
            cores: opened?,
            symbols,
            kinds: distinct(events().map(|event| event.kind)),
            names: distinct(events().map(|event| event.name.to_owned())),
            tally: Tally::new(),
        })
    }

    /// The events by name, such as `cpu-clock`.
    pub fn events(&self) -> &[String] {
        &self.names
    }

    /// Begins a window.
    ///
    /// # Errors
    /// [`SamplingError::Os`] for a core that has been taken offline.
    pub fn start(&mut self) -> Result<(), SamplingError> {
        self.drain();
        self.tally = Tally::new();
        for core in &mut self.cores {
            let cpu = core.cpu;
            for sampled in &mut core.counters {
                sampled.start().map_err(|source| SamplingError::Os { cpu, source })?;
            }
        }
        Ok(())
    }

    /// Takes the samples out of the rings.
    pub fn drain(&mut self) {
        for core in &mut self.cores {
            let (counters, tally) = (&core.counters, &mut self.tally);
            core.ring.drain(|record| match record {
                Record::Sample { mode, id, address, pid } => {
                    if let Some(sampled) = counters.iter().find(|sampled| sampled.id == id) {
                        tally.add(mode, address, pid, (sampled.event.kind, sampled.event.period));
                    }
                }
                Record::Lost(samples) => tally.lost += samples,
                Record::Full => tally.is_overrun = true,
                Record::Throttled => tally.is_throttled = true,
            });
        }
    }

    /// Ends the window.
    ///
    /// # Errors
    /// [`SamplingError::Os`] for a core that has been taken offline.
    pub fn stop(&mut self) -> Result<(), SamplingError> {
        let mut result = Ok(());
        for core in &self.cores {
            for sampled in &core.counters {
                // All are stopped, whatever the first says.
                let counted = sampled.stop().map_err(|source| SamplingError::Os { cpu: core.cpu, source });
                match counted {
                    Ok(share) => self.tally.counted_share = self.tally.counted_share.min(share),
                    Err(error) => result = result.and(Err(error)),
                }
            }
        }
        self.drain();
        result
    }

    /// What the last window cost by function. `directory` gives the source directory of a function and its
    /// module.
    ///
    /// # Errors
    /// [`SamplingError::Incomplete`] if more than a hundredth of the samples or of the window is missing.
    pub fn profile(
        &self,
        directory: &dyn Fn(&str, Option<&str>) -> Option<String>,
    ) -> Result<CostProfile, SamplingError> {
        self.tally.complete().map_err(SamplingError::Incomplete)?;
        let functions = self.tally.functions(&self.symbols, directory);
        Ok(CostProfile::new(CostSource::Sampled(self.names.clone()), self.kinds.clone(), functions))
    }
}

impl Core {
    fn open(
        cpu: u32,
        events: &[Event],
        refused: &dyn Fn(io::Error) -> EventsError,
    ) -> Result<Core, SamplingError> {
        let mut counters: Vec<Sampled> = Vec::with_capacity(events.len());
        for event in events {
            let counter = event.open(cpu).map_err(refused)?;
            let id = counter.id().map_err(refused)?;
            counters.push(Sampled { counter, id, event: *event, began_ns: [0; 2] });
        }
        let ring = Ring::map(&counters[0].counter).map_err(SamplingError::Memory)?;
        for other in &counters[1..] {
            other.counter.share_ring_of(&counters[0].counter).map_err(refused)?;
        }
        Ok(Core { cpu, ring, counters })
    }
}

impl Event {
    fn open(&self, cpu: u32) -> io::Result<Counter> {
        Counter::sampled(self.perf_type, self.config, self.period, cpu)
    }
}

impl Sampled {
    fn start(&mut self) -> io::Result<()> {
        self.began_ns = self.counter.times_ns()?;
        self.counter.enable()
    }

    /// Stops; the share of the window for which it did count.
    fn stop(&self) -> io::Result<f64> {
        self.counter.disable()?;
        let [enabled, counted] = self.counter.times_ns()?;
        let (enabled, counted) = (enabled - self.began_ns[0], counted - self.began_ns[1]);
        Ok(if enabled == 0 { 1.0 } else { counted as f64 / enabled as f64 })
    }
}

/// The events that can be opened on each kind of core, if instructions are among them; loads and stores only
/// if all kinds have them, because a column that only some cores count would be misleading.
fn available(mut all: Vec<CoreGroup>, can_open: impl Fn(&Event, u32) -> bool) -> Vec<CoreGroup> {
    for cores in &mut all {
        let first = cores.cpus[0];
        cores.events.retain(|event| can_open(event, first));
    }
    let has = |cores: &CoreGroup, kind| cores.events.iter().any(|event| event.kind == kind);
    if !all.iter().all(|cores| has(cores, CostKind::Instructions)) {
        return Vec::new();
    }
    for kind in [CostKind::Loads, CostKind::Stores] {
        if !all.iter().all(|cores| has(cores, kind)) {
            all.iter_mut().for_each(|cores| cores.events.retain(|event| event.kind != kind));
        }
    }
    all
}

/// The values in the order of their first occurrence, each once.
fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    values.fold(Vec::new(), |mut seen, value| {
        if !seen.contains(&value) {
            seen.push(value);
        }
        seen
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cores(cpus: &[u32], kinds: &[CostKind]) -> CoreGroup {
        let events =
            kinds.iter().map(|kind| Event { name: "e", kind: *kind, perf_type: 4, config: 1, period: 3 });
        CoreGroup { cpus: cpus.to_vec(), events: events.collect() }
    }

    fn kinds(all: &[CoreGroup]) -> Vec<Vec<CostKind>> {
        all.iter().map(|cores| cores.events.iter().map(|event| event.kind).collect()).collect()
    }

    #[test]
    fn only_what_all_cores_count_is_sampled() {
        use CostKind::{Instructions, Loads, Stores};
        let all = || {
            vec![cores(&[0, 1], &[Instructions, Loads, Stores]), cores(&[4], &[Instructions, Loads, Stores])]
        };
        assert_eq!(kinds(&available(all(), |_, _| true)), vec![vec![Instructions, Loads, Stores]; 2]);
        let no_loads_on_4 = |event: &Event, cpu| cpu != 4 || event.kind != Loads;
        assert_eq!(kinds(&available(all(), no_loads_on_4)), vec![vec![Instructions, Stores]; 2]);
        let no_instructions_on_4 = |event: &Event, cpu| cpu != 4 || event.kind != Instructions;
        assert_eq!(kinds(&available(all(), no_instructions_on_4)), Vec::<Vec<CostKind>>::new());
    }
}
