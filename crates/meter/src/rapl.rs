//! The processor's own energy counters (RAPL), by powercap and perf: each joule once.
//!
//! A domain is identified by its control type, its parents and its *name*, never by its position. The
//! machine-specific registers (`intel-rapl`, AMD's too) are preferred; what `intel-rapl-mmio` or
//! `intel-rapl-tpmi` repeat of them is left out. `domains` finds counters that show the same joules twice
//! (dies of one package); each reading checks that they still do. A domain that powercap lacks or does not
//! let us read is read by perf. Where both have it, powercap gives the readings and perf is compared with it;
//! see [`Rapl::notes`].
//!
//! AMD's powercap zone `core` is left out: its register (MSR C001_029Ah) belongs to one core, and the driver
//! reads that of one core of the package. perf's `power_core` counts every core; their sum is taken where the
//! kernel has it (6.14).
//!
//! Counters move about once a millisecond (Intel SDM, volume 3, "RAPL interfaces"). Nobody declares their
//! accuracy.

mod domains;
mod perf;
mod powercap;
mod refused;

use crate::clock::{ReadTime, monotonic_raw_ns};
use crate::meter::{Channel, ChannelKind, Meter, MeterError, Reading, Scope, Value, Wrap};
use crate::sysfs::{text, virtual_machine};
use domains::{Comparison, apart, compare, disagreement, gained, group, scope};
use powercap::Zone;
pub use refused::RefusedDomain;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

/// Power that no package, and nothing in it, exceeds. The largest of 2026 peak at about a third of it.
const MAX_WATTS: f64 = 2_000.0;
/// Power that no platform (psys) exceeds: eight accelerators and their host.
const MAX_PLATFORM_WATTS: f64 = 20_000.0;
/// Readings that distinguish a mirrored counter from two counters, and the time between them: two updates.
const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_millis(2);

/// RAPL as a meter: one channel per domain, named by its zones (`package-0`, `package-0/dram`, `psys`).
#[derive(Debug)]
pub struct Rapl {
    channels: Vec<Channel>,
    domains: Vec<Domain>,
    refused: Vec<RefusedDomain>,
    notes: Vec<String>,
}

#[derive(Debug)]
struct Domain {
    name: String,
    scope: Scope,
    counter: DomainCounter,
    /// Zones that show this domain's counter a second time.
    mirrors: Vec<Zone>,
    check: Option<PerfCheck>,
    /// Whether it vanished.
    ended: bool,
}

#[derive(Debug)]
enum DomainCounter {
    Powercap(Zone),
    Perf(perf::OpenEvent),
}

/// perf's counter of a domain, compared with powercap's.
#[derive(Debug)]
struct PerfCheck {
    counter: perf::OpenEvent,
    begin: Option<(u64, u64)>,
    last_uj: u64,
    powercap_uj: u64,
    /// Joules by powercap and by perf, and the seconds.
    sums: Option<(f64, f64, f64)>,
}

impl Rapl {
    /// The RAPL domains below `root` (`/`). Takes 10 ms where counters may mirror each other.
    ///
    /// # Errors
    /// [`MeterError::Fatal`] with the cause and the remedy if none can be read.
    pub fn open(root: &Path) -> Result<Self, MeterError> {
        let (meter, refused) = Self::survey(root);
        meter.ok_or_else(|| {
            MeterError::Fatal(refused.into_iter().next().map_or_else(|| absent(root), |first| first.why))
        })
    }

    /// The domains that can be read, and those that cannot; both empty on a machine without RAPL.
    pub(crate) fn survey(root: &Path) -> (Option<Self>, Vec<RefusedDomain>) {
        let (mut domains, mut refused) = by_powercap(root);
        let mut notes = Vec::new();
        add_perf(root, &mut domains, &mut refused, &mut notes);
        domains.sort_by(|one, other| one.name.cmp(&other.name));
        let channels = domains.iter().map(|domain| channel(domain, &domains)).collect();
        let meter =
            (!domains.is_empty()).then(|| Self { channels, domains, refused: refused.clone(), notes });
        (meter, refused)
    }

    /// Domains that give no channel, and why: repeated by another control type, mirrored, unreadable.
    pub fn refused(&self) -> &[RefusedDomain] {
        &self.refused
    }

    /// What a report must say in addition to the joules: powercap and perf disagree about a domain, a domain
    /// vanished, perf could not be compared with powercap. Empty if all is well.
    pub fn notes(&self) -> Vec<String> {
        let disagree = self.domains.iter().filter_map(|domain| {
            let (powercap_j, perf_j, seconds) = domain.check.as_ref()?.sums?;
            disagreement(&domain.name, powercap_j, perf_j, seconds)
        });
        self.notes.iter().cloned().chain(disagree).collect()
    }
}

impl Meter for Rapl {
    fn channels(&self) -> &[Channel] {
        &self.channels
    }

    /// A domain that vanishes has no more readings; the others continue. The error comes when the last is
    /// gone.
    fn read(&mut self, out: &mut Vec<Reading>) -> Result<(), MeterError> {
        for (channel, domain) in self.domains.iter_mut().enumerate().filter(|(_, domain)| !domain.ended) {
            match domain.read(channel) {
                Ok(reading) => out.push(reading),
                Err(why) => {
                    domain.ended = true;
                    self.notes.push(format!("`{}` gives no more readings: {why}", domain.name));
                }
            }
        }
        if self.domains.iter().any(|domain| !domain.ended) {
            return Ok(());
        }
        let last = self.notes.last().map_or("", String::as_str);
        Err(MeterError::Fatal(format!(
            "RAPL has no domain left: {last}: see with `dmesg` if its module was unloaded"
        )))
    }
}

impl Domain {
    fn new(name: &str, scope: Scope, counter: DomainCounter) -> Self {
        Self { name: name.to_owned(), scope, counter, mirrors: Vec::new(), check: None, ended: false }
    }

    fn read(&mut self, channel: usize) -> Result<Reading, String> {
        let begin_ns = monotonic_raw_ns();
        let count = match &mut self.counter {
            DomainCounter::Powercap(zone) => zone.energy_uj().map_err(|error| error.to_string())?,
            DomainCounter::Perf(counter) => counter.read().map_err(|error| error.to_string())?,
        };
        let reading = ReadTime::since(begin_ns).reading(channel, Value::Count(count));
        if let DomainCounter::Powercap(zone) = &self.counter {
            if count > zone.max_uj {
                return Err(format!("its counter is {count} uJ, beyond its range of {} uJ", zone.max_uj));
            }
            let range = zone.max_uj + 1;
            for mirror in &self.mirrors {
                let value = mirror
                    .energy_uj()
                    .map_err(|error| format!("its mirror `{}`: {error}", mirror.identity()))?;
                let lag_ns = monotonic_raw_ns() - begin_ns + ROUND.as_nanos() as u64;
                if apart(count, value, range) as f64 > MAX_WATTS * 1e-3 * lag_ns as f64 {
                    return Err(format!(
                        "`{}` no longer mirrors it, so it lacks some of the joules",
                        mirror.identity()
                    ));
                }
            }
            if let Some(check) = &mut self.check {
                check.add(count, range, reading.end_ns);
            }
        }
        Ok(reading)
    }
}

impl PerfCheck {
    /// Adds a value of both; does nothing if perf cannot be read.
    fn add(&mut self, powercap_uj: u64, range: u64, now_ns: u64) {
        let Ok(perf) = self.counter.read() else { return };
        let Some((begin_ns, begin_perf)) = self.begin else {
            self.begin = Some((now_ns, perf));
            self.last_uj = powercap_uj;
            return;
        };
        self.powercap_uj += gained(self.last_uj, powercap_uj, range);
        self.last_uj = powercap_uj;
        let perf_j = perf.wrapping_sub(begin_perf) as f64 * self.counter.joules_per_count;
        self.sums = Some((self.powercap_uj as f64 * 1e-6, perf_j, (now_ns - begin_ns) as f64 * 1e-9));
    }
}

/// Why a machine has no RAPL.
pub(crate) fn absent(root: &Path) -> String {
    let class = root.join("sys/class/powercap");
    if virtual_machine(root) {
        return format!(
            "no `{}/intel-rapl:0`: this is a virtual machine, and the host does not show it its energy \
             counters: measure on the host",
            class.display()
        );
    }
    format!(
        "no `{}/intel-rapl:0`: the processor has no energy counters, or the driver is not loaded: try \
         `modprobe intel_rapl_msr`",
        class.display()
    )
}

/// Whether the processor is AMD's: its registers count a whole package, whatever its dies, or one core of it.
fn is_amd(root: &Path) -> bool {
    let cpu = text(&root.join("proc/cpuinfo")).unwrap_or_default();
    cpu.contains("AuthenticAMD") || cpu.contains("HygonGenuine")
}

fn by_powercap(root: &Path) -> (Vec<Domain>, Vec<RefusedDomain>) {
    let amd = is_amd(root);
    let (zones, mut refused) = powercap::zones(root);
    let mut domains: Vec<Domain> = Vec::new();
    for zone in zones {
        if let Err(why) = admit(&zone, amd, &mut domains) {
            refused.push(RefusedDomain { name: zone.identity(), why });
        }
    }
    (domains, refused)
}

/// Adds a zone as a domain of its own or as another's mirror, or says why not.
fn admit(zone: &Zone, amd: bool, domains: &mut Vec<Domain>) -> Result<(), String> {
    let name = &zone.name;
    let scope =
        scope(name).ok_or("iopj does not know what this zone measures: report its name".to_owned())?;
    if amd && scope == Scope::Core {
        return Err("on this processor the zone counts only one core of the package: perf's `power_core` \
                    (Linux 6.14) counts all"
            .into());
    }
    let mut unclear = None;
    for domain in domains.iter_mut() {
        let DomainCounter::Powercap(first) = &domain.counter else { continue };
        if first.control != zone.control {
            if first.name == *name {
                return Err(format!("it repeats `{}`, which counts the same joules", first.identity()));
            }
            continue;
        }
        if group(&first.name) != group(name) {
            continue;
        }
        match compare_zones(first, zone) {
            Comparison::Same => {}
            Comparison::Unknown if amd => {}
            Comparison::Different if first.name != *name => continue,
            Comparison::Different => {
                unclear = Some(format!(
                    "another zone has this name and counts other joules: `{}`",
                    first.path.display()
                ));
                continue;
            }
            Comparison::Unknown => {
                unclear = Some(format!(
                    "it may mirror `{}`, which cannot be seen while both are 0: try again later",
                    first.identity()
                ));
                continue;
            }
        }
        let why = format!("it mirrors `{}`: one counter, shown twice", first.identity());
        domain.mirrors.push(zone.clone());
        return Err(why);
    }
    unclear.map_or(Ok(()), Err)?;
    domains.push(Domain::new(name, scope, DomainCounter::Powercap(zone.clone())));
    Ok(())
}

fn compare_zones(first: &Zone, other: &Zone) -> Comparison {
    if first.max_uj != other.max_uj {
        return Comparison::Different;
    }
    let mut rounds = Vec::with_capacity(ROUNDS);
    for round in 0..ROUNDS {
        if round > 0 {
            sleep(ROUND);
        }
        let (Ok(one), Ok(two), Ok(three)) = (first.energy_uj(), other.energy_uj(), first.energy_uj()) else {
            return Comparison::Unknown;
        };
        rounds.push([one, two, three]);
    }
    compare(&rounds, first.max_uj + 1)
}

/// perf gives the domains that powercap lacks, and is compared with powercap in the others.
fn add_perf(
    root: &Path,
    domains: &mut Vec<Domain>,
    refused: &mut Vec<RefusedDomain>,
    notes: &mut Vec<String>,
) {
    let (amd, powercap) = (is_amd(root), !domains.is_empty());
    let known: Vec<(String, String)> =
        domains.iter().map(|domain| (domain.name.clone(), group(&domain.name))).collect();
    let mut unchecked = None;
    for event in perf::events(root) {
        let Some(scope) = scope(&event.name) else { continue };
        let domain = known.iter().position(|(name, _)| *name == event.name);
        // A die that mirrors another one, or a platform counter: powercap's readings have decided that.
        if domain.is_none() && known.iter().any(|(_, known)| *known == group(&event.name)) {
            continue;
        }
        match (event.open(root), domain) {
            (Ok(counter), Some(at)) => {
                domains[at].check =
                    Some(PerfCheck { counter, begin: None, last_uj: 0, powercap_uj: 0, sums: None })
            }
            (Err(why), Some(_)) => unchecked = Some(why),
            (Ok(counter), None) => {
                if let Err(why) = check_not_mirror(&event.name, amd, domains) {
                    refused.push(RefusedDomain { name: format!("perf/{}", event.name), why });
                } else {
                    domains.push(Domain::new(&event.name, scope, DomainCounter::Perf(counter)));
                }
            }
            (Err(why), None) => refused.push(RefusedDomain { name: format!("perf/{}", event.name), why }),
        }
    }
    if let Some(why) = unchecked.filter(|_| powercap) {
        notes.push(format!("powercap's counters were not compared with perf's: {why}"));
    }
}

/// Refuses an event that may mirror a domain. perf's counts begin at 0 when they are opened, so they do not
/// show whether the dies of a package mirror each other.
fn check_not_mirror(name: &str, amd: bool, domains: &[Domain]) -> Result<(), String> {
    match domains.iter().find(|domain| group(&domain.name) == group(name)) {
        None => Ok(()),
        Some(first) if amd => Err(format!("it mirrors `{}`: the register is the package's", first.name)),
        Some(_) if name.starts_with("psys") => Ok(()),
        Some(first) => Err(format!(
            "perf does not show whether it mirrors `{}`: run as root, so powercap can be read",
            first.name
        )),
    }
}

fn channel(domain: &Domain, domains: &[Domain]) -> Channel {
    let max_watts = if domain.scope == Scope::Psys { MAX_PLATFORM_WATTS } else { MAX_WATTS };
    let (joules_per_count, resolution, wrap) = match &domain.counter {
        // The register has 32 bits, so the range in uJ gives the unit.
        DomainCounter::Powercap(zone) => {
            let unit = zone.max_uj as f64 / f64::from(u32::MAX) * 1e-6;
            (1e-6, unit.max(1e-6), Some(Wrap { range: zone.max_uj + 1, max_watts }))
        }
        DomainCounter::Perf(counter) => (counter.joules_per_count, counter.joules_per_count, None),
    };
    Channel {
        name: domain.name.clone(),
        scope: domain.scope,
        kind: ChannelKind::Counter { joules_per_count, wrap },
        resolution,
        accuracy: None,
        parent: parent(domain, domains),
    }
}

/// Cores and uncore lie within their package. Memory does not, though powercap nests its zone there.
fn parent(domain: &Domain, domains: &[Domain]) -> Option<String> {
    if !matches!(domain.scope, Scope::Core | Scope::Uncore) {
        return None;
    }
    let outer = domain.name.split('/').next().unwrap_or_default();
    let same = |other: &&Domain| other.scope == Scope::Package;
    let named = domains.iter().filter(same).find(|other| other.name == outer);
    named
        .or_else(|| domains.iter().filter(same).find(|other| group(&other.name) == group(outer)))
        .map(|other| other.name.clone())
}

#[cfg(test)]
mod tests;
