//! What the samples of a window add up to.

use super::error::MissingSamples;
use super::ring::Mode;
use crate::symbols::{Symbol, Symbols};
use iopj_core::{Cost, CostKind, FunctionCost, Space};
use std::collections::{BTreeMap, HashMap};

/// The share of a window, or of its samples, that may be missing.
const MISSING_SHARE: f64 = 0.01;

/// Sums over a window.
#[derive(Debug)]
pub(super) struct Tally {
    user: Cost,
    kernel: HashMap<KernelAddress, Cost>,
    samples: u64,
    /// Samples for which the rings had no room.
    pub(super) lost: u64,
    /// A ring was found without room.
    pub(super) is_overrun: bool,
    /// The kernel has stopped a counter for a while.
    pub(super) is_throttled: bool,
    /// The least share of the window for which a counter did count.
    pub(super) counted_share: f64,
}

/// Where the kernel was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct KernelAddress {
    address: u64,
    is_idle_task: bool,
}

impl Tally {
    pub(super) fn new() -> Tally {
        Tally {
            user: Cost::default(),
            kernel: HashMap::new(),
            samples: 0,
            lost: 0,
            is_overrun: false,
            is_throttled: false,
            counted_share: 1.0,
        }
    }

    /// Adds a sample; what guests do is not counted.
    pub(super) fn add(&mut self, mode: Mode, address: u64, pid: u32, (kind, count): (CostKind, u64)) {
        self.samples += 1;
        let sum = match mode {
            Mode::Kernel => self.kernel.entry(KernelAddress { address, is_idle_task: pid == 0 }).or_default(),
            Mode::User => &mut self.user,
            Mode::Other => return,
        };
        match kind {
            CostKind::Calls => sum.calls += count,
            CostKind::Instructions => sum.instructions += count,
            CostKind::Loads => sum.loads += count,
            CostKind::Stores => sum.stores += count,
            CostKind::CpuTime => sum.cpu_ns += count,
        }
    }

    /// Checks that no more than a hundredth is missing; else says what is.
    pub(super) fn complete(&self) -> Result<(), MissingSamples> {
        let all = self.samples + self.lost;
        if self.is_overrun || self.lost as f64 > MISSING_SHARE * all as f64 {
            let lost = if self.is_overrun { self.lost.max(1) } else { self.lost };
            return Err(MissingSamples::Lost { lost, all });
        }
        if self.is_throttled {
            return Err(MissingSamples::Throttled);
        }
        if self.counted_share < 1.0 - MISSING_SHARE {
            return Err(MissingSamples::Shared(self.counted_share));
        }
        Ok(())
    }

    /// The sums by function, without the idle loop.
    pub(super) fn functions(
        &self,
        symbols: &Symbols,
        directory: &dyn Fn(&str, Option<&str>) -> Option<String>,
    ) -> Vec<FunctionCost> {
        let mut sums: BTreeMap<(&str, Option<&str>), Sum<'_>> = BTreeMap::new();
        for (place, cost) in &self.kernel {
            let symbol = symbols.find(place.address);
            let (name, module) =
                symbol.map_or(("", None), |symbol| (&*symbol.function, symbol.module.as_deref()));
            if !(place.is_idle_task && is_idle_loop(name)) {
                sums.entry((name, module)).or_insert((symbol, Cost::default())).1 += *cost;
            }
        }
        let kernel = sums.into_iter().map(|((name, module), (symbol, cost))| FunctionCost {
            space: Space::Kernel,
            function: name.to_owned(),
            module: module.map(str::to_owned),
            directory: symbol.and_then(|symbol| symbol.directory(directory)),
            cost,
        });
        let user = FunctionCost {
            space: Space::User,
            function: String::new(),
            module: None,
            directory: None,
            cost: self.user,
        };
        kernel.chain([user]).collect()
    }
}

/// What a function has cost, beside its symbol.
type Sum<'a> = (Option<&'a Symbol>, Cost);

/// True for the functions in which a core waits for something to do: where it halts, polls or sleeps, and
/// where it enables interrupts again after that (kernel/sched/idle.c, drivers/cpuidle/,
/// arch/x86/kernel/process.c, drivers/idle/intel_idle.c, drivers/acpi/processor_idle.c). What else the idle
/// task does is work.
fn is_idle_loop(function: &str) -> bool {
    const NAMES: &[&str] = &[
        "acpi_idle_do_entry",
        "acpi_idle_enter",
        "acpi_idle_enter_bm",
        "acpi_idle_enter_s2idle",
        "acpi_idle_lpi_enter",
        "acpi_processor_ffh_cstate_enter",
        "acpi_processor_ffh_lpi_enter",
        "amd_e400_idle",
        "arch_cpu_idle",
        "cpu_do_idle",
        "cpu_idle_poll",
        "cpuidle_enter_s2idle",
        "cpuidle_enter_state",
        "cpuidle_idle_call",
        "default_enter_idle",
        "default_idle",
        "default_idle_call",
        "do_idle",
        "io_idle",
        "mwait_idle",
        "mwait_idle_with_hints",
        "poll_idle",
        "psci_cpu_suspend_enter",
    ];
    NAMES.contains(&function)
        || function.starts_with("intel_idle")
        || function.ends_with("_safe_halt")
        || function.ends_with("native_halt")
}

#[cfg(test)]
mod tests {
    use super::*;

    const KALLSYMS: &str =
        "ffffffff81000000 T schedule\nffffffff81000100 t default_idle\nffffffff81000200 T _etext\n";

    fn directory(function: &str, module: Option<&str>) -> Option<String> {
        assert_eq!(module, None);
        (function == "schedule").then(|| "kernel/sched/".to_owned())
    }

    fn functions(tally: &Tally) -> Vec<(Space, String, Option<String>, Cost)> {
        let functions = tally.functions(&Symbols::parse(KALLSYMS).unwrap(), &directory);
        functions.into_iter().map(|it| (it.space, it.function, it.directory, it.cost)).collect()
    }

    fn time(cpu_ns: u64) -> Cost {
        Cost { cpu_ns, ..Cost::default() }
    }

    #[test]
    fn samples_add_up_by_function() {
        let mut tally = Tally::new();
        let (clock, loads) = ((CostKind::CpuTime, 500), (CostKind::Loads, 70));
        tally.add(Mode::Kernel, 0xffffffff81000010, 9, clock);
        tally.add(Mode::Kernel, 0xffffffff81000020, 0, clock);
        tally.add(Mode::Kernel, 0xffffffff81000020, 9, loads);
        tally.add(Mode::Kernel, 0xffffffff81000300, 0, clock);
        tally.add(Mode::User, 0x1000, 9, clock);
        tally.add(Mode::User, 0x2000, 8, clock);
        tally.add(Mode::Other, 0x3000, 8, clock);
        let found = functions(&tally);
        assert_eq!(found[0], (Space::Kernel, String::new(), None, time(500)), "behind the text");
        let schedule = Cost { loads: 70, cpu_ns: 1000, ..Cost::default() };
        assert_eq!(
            found[1],
            (Space::Kernel, "schedule".to_owned(), Some("kernel/sched/".to_owned()), schedule)
        );
        assert_eq!(found[2], (Space::User, String::new(), None, time(1000)));
        assert_eq!(found.len(), 3);
    }

    #[test]
    fn only_the_idle_task_idles() {
        let mut tally = Tally::new();
        tally.add(Mode::Kernel, 0xffffffff81000110, 0, (CostKind::CpuTime, 500));
        assert_eq!(functions(&tally), [(Space::User, String::new(), None, time(0))]);
        tally.add(Mode::Kernel, 0xffffffff81000110, 9, (CostKind::CpuTime, 500));
        assert_eq!(functions(&tally)[0], (Space::Kernel, "default_idle".to_owned(), None, time(500)));
        for idle in ["pv_native_safe_halt", "acpi_safe_halt", "intel_idle_irq", "cpuidle_enter_state"] {
            assert!(is_idle_loop(idle), "{idle}");
        }
        assert!(!is_idle_loop("schedule_idle") && !is_idle_loop("menu_select") && !is_idle_loop(""));
    }

    #[test]
    fn what_misses_more_than_a_hundredth_is_refused() {
        let mut tally = Tally::new();
        for _ in 0..99 {
            tally.add(Mode::User, 1, 1, (CostKind::CpuTime, 1));
        }
        tally.lost = 1;
        assert_eq!(tally.complete(), Ok(()));
        tally.lost = 2;
        assert!(tally.complete().unwrap_err().to_string().contains("2 of 101 samples"));
        tally.lost = 0;
        tally.counted_share = 0.5;
        assert!(tally.complete().unwrap_err().to_string().contains("50 %"));
        tally.is_throttled = true;
        assert!(tally.complete().unwrap_err().to_string().contains("kernel.perf_event_max_sample_rate"));
        tally.is_overrun = true;
        assert!(tally.complete().unwrap_err().to_string().contains("at least 1 of 99"));
    }
}
