//! What a drive asks of its host, set up as Linux sets it up: a buffer in the host's memory, and the power
//! states that it enters by itself. Without them it would run without its cache, and in other power states
//! than under the kernel's driver.
//!
//! Sources: NVM Express Base Specification 2.0, sections 5.27.1.9 (APST), 5.27.2.4 (Host Memory Buffer) and
//! figure 275; Linux, drivers/nvme/host/pci.c (`nvme_setup_host_mem`) and core.c (`nvme_configure_apst`,
//! `nvme_apst_get_transition_time`).

use super::admin::{Admin, AdminFailure};
use super::command::Command;
use super::device::{Device, HugePages, PAGE};
use super::dma::DmaMemory;
use super::identify::{ControllerData, PowerState};
use super::prior_state::PriorState;
use crate::system::attribute;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The host memory buffer of a controller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum HostMemory {
    /// It asks for none.
    #[default]
    NotAsked,
    /// It has this many bytes.
    Given(u64),
    /// It asks for a buffer and has none.
    Refused {
        /// Bytes that it prefers (`HMPRE`).
        asked: u64,
        /// Why it has none.
        reason: String,
    },
}

/// Autonomous power state transitions of a controller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Apst {
    /// It has none.
    #[default]
    Unsupported,
    /// They are off: why.
    Off(String),
    /// It enters these states by itself, each after this many ms without I/O; empty if no state can be left
    /// quickly enough.
    On(Vec<(u8, u32)>),
}

impl fmt::Display for HostMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostMemory::NotAsked => f.write_str("not asked for"),
            HostMemory::Given(bytes) => write!(f, "{bytes} bytes"),
            HostMemory::Refused { asked, reason } => write!(f, "none of {asked} bytes asked for: {reason}"),
        }
    }
}

impl fmt::Display for Apst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Apst::Unsupported => f.write_str("not supported"),
            Apst::Off(reason) => write!(f, "off: {reason}"),
            Apst::On(states) if states.is_empty() => f.write_str("on, no state is used"),
            Apst::On(states) => {
                let states: Vec<String> = states
                    .iter()
                    .map(|(state, idle_ms)| format!("state {state} after {idle_ms} ms"))
                    .collect();
                write!(f, "on: {}", states.join(", "))
            }
        }
    }
}

/// Entries of the list of parts that fit into its page.
const MOST_PARTS: usize = PAGE / 16;

/// One part of the buffer: address, and length in pages.
type Part = (u64, u32);

/// The parts of a buffer whose pages have these addresses: runs of at least `least` pages, at most `most`.
fn parts(pages: &[u64], least: usize, most: usize) -> Vec<Part> {
    let runs = pages.chunk_by(|page, next| *next == page + PAGE as u64);
    runs.filter(|run| run.len() >= least).map(|run| (run[0], run.len() as u32)).take(most).collect()
}

/// Gives the controller the buffer that it asks for, of at most `most_bytes` bytes, if it may have one. The
/// buffer is the controller's until the feature is off or the controller has stopped.
///
/// # Errors
/// A command did not end: the controller may have the buffer, which stays mapped.
pub(super) fn give_host_memory(
    device: &Arc<dyn Device>,
    admin: &mut Admin,
    says: &ControllerData<'_>,
    most_bytes: u64,
    limit: Duration,
) -> Result<HostMemory, AdminFailure> {
    let (asked, least) = (says.host_memory_preferred(), says.host_memory_least());
    let refused = |reason: String| Ok(HostMemory::Refused { asked, reason });
    if asked == 0 {
        return Ok(HostMemory::NotAsked);
    }
    if device.huge_pages() == HugePages::Required {
        return refused("without an IOMMU nothing keeps the drive within it".to_owned());
    }
    if least > most_bytes || most_bytes == 0 {
        return refused(format!(
            "it needs {least} bytes, and Linux gives {most_bytes} at most (nvme.max_host_mem_size_mb)"
        ));
    }
    let memory = match DmaMemory::plain(device, asked.min(most_bytes) as usize) {
        Ok(memory) => memory,
        Err(error) => return refused(error.to_string()),
    };
    let most = Some(says.host_memory_parts())
        .filter(|most| *most > 0)
        .map_or(MOST_PARTS, |most| most.min(MOST_PARTS));
    let parts = parts(memory.mapping().pages(), says.host_memory_least_part(), most);
    let pages: u32 = parts.iter().map(|(_, pages)| pages).sum();
    let given = u64::from(pages) * PAGE as u64;
    if pages == 0 || given < least {
        return refused(format!("only {given} bytes were found in parts as large as it needs"));
    }
    let list = match DmaMemory::plain(device, PAGE) {
        Ok(list) => list,
        Err(error) => return refused(error.to_string()),
    };
    for (at, (address, pages)) in parts.iter().enumerate() {
        let words = [address.to_le(), u64::from(*pages).to_le()];
        // SAFETY: the list has a page, and `MOST_PARTS` entries of 16 bytes fit into it; the controller has
        // not seen it yet.
        unsafe { list.at(at * 16, 16).cast::<[u64; 2]>().write(words) };
    }
    let list_at = list.mapping().address(0);
    // From here on the controller may have both, until its answer or its stop.
    admin.host_memory = Some([memory, list]);
    match admin.execute(Command::host_memory(pages, list_at, parts.len() as u32), limit) {
        Ok(_) => Ok(HostMemory::Given(given)),
        Err(AdminFailure::Status(status)) => {
            admin.host_memory = None;
            refused(format!("it refuses the buffer after all (NVMe status {status:#x})"))
        }
        Err(failure) => Err(failure),
    }
}

/// Takes the buffer back. A controller that does not answer keeps it until it is seen to stop.
pub(super) fn take_host_memory(admin: &mut Admin, limit: Duration) {
    if admin.host_memory.is_some() && admin.execute(Command::no_host_memory(), limit).is_ok() {
        admin.host_memory = None;
    }
}

/// How Linux sets up what a drive asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rules {
    /// Bytes of host memory that a drive gets at most.
    pub(super) host_memory_bytes: u64,
    pub(super) apst: ApstRules,
}

/// Bytes of a MiB, the unit of `max_host_mem_size_mb`.
const MIB: u64 = 1 << 20;

impl Default for Rules {
    fn default() -> Rules {
        Rules { host_memory_bytes: 128 * MIB, apst: ApstRules::default() }
    }
}

impl Rules {
    /// By the parameters of this machine's kernel, or Linux's defaults where it has none, and by what the
    /// user set for the drive.
    pub(super) fn of_kernel(sys: &Path, prior: &PriorState) -> Rules {
        let read = |module: &str, name: &str, default: u64| {
            attribute(&sys.join("module").join(module).join("parameters"), name).unwrap_or(default)
        };
        let apst = |name: &str, default: u64| read("nvme_core", name, default);
        let default = ApstRules::default();
        let ps_max_latency_us = apst("default_ps_max_latency_us", default.ps_max_latency_us);
        Rules {
            host_memory_bytes: read("nvme", "max_host_mem_size_mb", Rules::default().host_memory_bytes / MIB)
                .saturating_mul(MIB),
            apst: ApstRules {
                was_off: prior.apst_off,
                ps_max_latency_us: prior.latency_tolerance_us.unwrap_or(ps_max_latency_us),
                primary_timeout_ms: apst("apst_primary_timeout_ms", default.primary_timeout_ms),
                secondary_timeout_ms: apst("apst_secondary_timeout_ms", default.secondary_timeout_ms),
                primary_latency_tol_us: apst("apst_primary_latency_tol_us", default.primary_latency_tol_us),
                secondary_latency_tol_us: apst(
                    "apst_secondary_latency_tol_us",
                    default.secondary_latency_tol_us,
                ),
            },
        }
    }
}

/// Linux's parameters of APST (module `nvme_core`), in the units of their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ApstRules {
    /// The kernel had it off on this drive.
    was_off: bool,
    /// The drive's own (`power/pm_qos_latency_tolerance_us`), or the module's.
    ps_max_latency_us: u64,
    primary_timeout_ms: u64,
    secondary_timeout_ms: u64,
    primary_latency_tol_us: u64,
    secondary_latency_tol_us: u64,
}

impl Default for ApstRules {
    fn default() -> ApstRules {
        ApstRules {
            was_off: false,
            ps_max_latency_us: 100_000,
            primary_timeout_ms: 100,
            secondary_timeout_ms: 2_000,
            primary_latency_tol_us: 15_000,
            secondary_latency_tol_us: 100_000,
        }
    }
}

impl ApstRules {
    /// The time without I/O after which a state is entered that takes `total_us` to enter and leave; `None`
    /// if it is never entered. `tier` is that of the state below, 1 or 2: each goes to one state.
    fn idle_ms(&self, total_us: u64, tier: &mut u32) -> Option<u64> {
        /// Milliseconds in the 24 bits of an entry.
        const MOST_MS: u64 = (1 << 24) - 1;
        if self.primary_timeout_ms == 0 || self.primary_latency_tol_us == 0 {
            return Some(total_us.div_ceil(20).min(MOST_MS));
        }
        let (wanted, idle_ms) = if total_us <= self.primary_latency_tol_us {
            (1, self.primary_timeout_ms)
        } else if self.secondary_timeout_ms != 0 && total_us <= self.secondary_latency_tol_us {
            (2, self.secondary_timeout_ms)
        } else {
            return None;
        };
        (std::mem::replace(tier, wanted.min(*tier)) > wanted).then_some(idle_ms)
    }

    /// The table of Set Features 0Ch for a controller's power states, and the states that it uses with their
    /// times without I/O, the quickest to leave first.
    fn table(&self, states: &[PowerState]) -> ([u64; 32], Vec<(u8, u32)>) {
        let mut table = [0; 32];
        let (mut target, mut tier, mut used) = (0, u32::MAX, Vec::new());
        // From the state of the least power up, as Linux does.
        for (number, state) in states.iter().enumerate().rev() {
            table[number] = target;
            if !state.non_operational || u64::from(state.exit_us) > self.ps_max_latency_us {
                continue;
            }
            let total_us = u64::from(state.exit_us) + u64::from(state.entry_us);
            if let Some(idle_ms) = self.idle_ms(total_us, &mut tier) {
                target = (number as u64) << 3 | idle_ms << 8;
                used.push((number as u8, idle_ms as u32));
            }
        }
        used.reverse();
        (table, used)
    }
}

/// Makes the controller enter power states by itself as Linux would.
///
/// # Errors
/// A command did not end.
pub(super) fn set_apst(
    admin: &mut Admin,
    says: &ControllerData<'_>,
    rules: ApstRules,
    limit: Duration,
) -> Result<Apst, AdminFailure> {
    if !says.has_apst() {
        return Ok(Apst::Unsupported);
    }
    let off = match rules {
        ApstRules { ps_max_latency_us: 0, .. } => {
            Some("no state may take time to leave (latency tolerance 0 us)")
        }
        ApstRules { was_off: true, .. } => Some("as under the kernel"),
        _ => None,
    };
    let is_on = off.is_none();
    let (table, states) = if is_on { rules.table(&says.power_states()) } else { ([0; 32], Vec::new()) };
    let mut data = [0; PAGE];
    for (bytes, entry) in data.chunks_exact_mut(8).zip(table) {
        bytes.copy_from_slice(&entry.to_le_bytes());
    }
    match admin.send_page(|data| Command::apst(is_on, data), &data, limit) {
        Ok(_) => Ok(off.map_or(Apst::On(states), |reason| Apst::Off(reason.to_owned()))),
        Err(AdminFailure::Status(status)) => {
            Ok(Apst::Off(format!("it refuses its table (NVMe status {status:#x})")))
        }
        Err(failure) => Err(failure),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn state(non_operational: bool, entry_us: u32, exit_us: u32) -> PowerState {
        PowerState { non_operational, entry_us, exit_us }
    }

    #[test]
    fn parts_are_runs_of_pages_that_are_long_enough() {
        let page = |number: u64| number * PAGE as u64;
        let pages = [page(7), page(8), page(9), page(20), page(30), page(31)];
        assert_eq!(parts(&pages, 1, 9), [(page(7), 3), (page(20), 1), (page(30), 2)]);
        assert_eq!(parts(&pages, 2, 9), [(page(7), 3), (page(30), 2)]);
        assert_eq!(parts(&pages, 2, 1), [(page(7), 3)]);
    }

    /// The power states of a drive as `nvme id-ctrl` prints them, and the table that drivers/nvme/host/core.c
    /// makes of them.
    #[test]
    fn the_table_is_the_kernels() {
        let states = [
            state(false, 0, 0),
            state(false, 0, 0),
            state(false, 0, 0),
            state(true, 210, 1_200),
            state(true, 2_000, 8_000),
        ];
        let (table, used) = ApstRules::default().table(&states);
        // The deepest state is within 15 ms, and takes the first tier; the one above it finds that tier gone.
        assert_eq!(used, [(4, 100)]);
        let target = 4 << 3 | 100 << 8;
        assert_eq!(table[..6], [target, target, target, target, 0, 0]);

        let slow = [state(false, 0, 0), state(true, 5_000, 10_000), state(true, 30_000, 50_000)];
        let (table, used) = ApstRules::default().table(&slow);
        assert_eq!(used, [(1, 100), (2, 2_000)]);
        assert_eq!(table[..3], [1 << 3 | 100 << 8, 2 << 3 | 2_000 << 8, 0]);

        // Beyond the allowed latency, and beyond both tiers.
        let (table, used) = ApstRules::default().table(&[state(false, 0, 0), state(true, 0, 100_001)]);
        assert_eq!((table[0], used), (0, Vec::new()));
        let (_, used) = ApstRules::default().table(&[state(false, 0, 0), state(true, 60_000, 60_000)]);
        assert_eq!(used, []);

        // Before the tiers, and where they are switched off: a fiftieth of the time may go to transitions.
        let old = ApstRules { primary_timeout_ms: 0, ..ApstRules::default() };
        let (table, used) = old.table(&states);
        assert_eq!(used, [(3, 71), (4, 500)]);
        assert_eq!(table[..4], [3 << 3 | 71 << 8, 3 << 3 | 71 << 8, 3 << 3 | 71 << 8, 4 << 3 | 500 << 8]);
    }

    #[test]
    fn the_rules_are_the_kernels_parameters() {
        let sys = tempfile::tempdir().unwrap();
        let rules = |prior: &PriorState| Rules::of_kernel(sys.path(), prior);
        assert_eq!(rules(&PriorState::default()), Rules::default());
        let parameters = [
            ("nvme", "max_host_mem_size_mb", "64"),
            ("nvme_core", "default_ps_max_latency_us", "5500"),
            ("nvme_core", "apst_primary_timeout_ms", "0"),
        ];
        for (module, name, value) in parameters {
            let folder = sys.path().join("module").join(module).join("parameters");
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(name), format!("{value}\n")).unwrap();
        }
        let apst = ApstRules { ps_max_latency_us: 5_500, primary_timeout_ms: 0, ..ApstRules::default() };
        assert_eq!(rules(&PriorState::default()), Rules { host_memory_bytes: 64 << 20, apst });
        // What the user set for this very drive overrides the module's default.
        let own = PriorState { latency_tolerance_us: Some(20), apst_off: true, ..PriorState::default() };
        assert_eq!(rules(&own).apst, ApstRules { was_off: true, ps_max_latency_us: 20, ..apst });
    }
}
