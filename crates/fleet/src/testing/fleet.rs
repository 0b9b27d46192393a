//! A fleet whose truth is known: which path wins, which hosts are slow, which drives age, which trials are
//! refuted. Everything follows from the seed.

use crate::testing::host::Host;
use crate::testing::measure::{self, Figures};
use crate::testing::uneven::Uneven;
use iopj_core::workload::Rw;
use iopj_core::{IoPath, Workload};
use iopj_record::energy::{RawValue, ReadingRow};
use iopj_record::{Outcome, StudyRecord, Trial};
use iopj_store::{Store, StoreError};
use rand_distr::{Distribution, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Months that each host is measured in, one store each.
pub const MONTHS: usize = 5;
/// Days from the first of January to the first of each month.
const DAYS: [u64; MONTHS] = [0, 31, 59, 90, 120];
/// The first of January 2026 in s since 1970.
const JANUARY_S: u64 = 1_767_225_600;

/// Processors of the kinds of machines: model and cores.
pub const MACHINES: [(&str, u32); 9] = [
    ("Intel(R) Xeon(R) Gold 6430", 64),
    ("Intel(R) Xeon(R) Gold 6338", 32),
    ("Intel(R) Xeon(R) Silver 4314", 16),
    ("AMD EPYC 9354 32-Core Processor", 64),
    ("AMD EPYC 7543 32-Core Processor", 32),
    ("AMD EPYC 7302P 16-Core Processor", 16),
    ("Intel(R) Xeon(R) E-2388G CPU @ 3.20GHz", 8),
    ("AMD Ryzen 9 7950X 16-Core Processor", 32),
    ("implementer 0x41, part 0xd4f", 72),
];
/// Models of drives. The second gets slower.
pub const DRIVES: [&str; 2] = ["SAMSUNG MZQL2960HCJR-00A07", "Micron 7450/MTFDKCC960TFR"];
/// Releases of kernels. On the first some polling is refuted.
pub const KERNELS: [&str; 2] = ["6.1.0-25-amd64", "6.12.9-amd64"];

/// Paths with what their latency, CPU time and power are multiplied by; the first workload is of depth 1.
/// Depth 1 is won by `io_uring/sqpoll/poll`, everything deeper by `io_uring/syscall/poll`.
pub const PATHS: [(&str, [f64; 2], f64, f64); 5] = [
    ("libaio/syscall/interrupt", [1.30, 1.25], 1.5, 1.02),
    ("io_uring/syscall/interrupt", [1.15, 1.12], 1.2, 1.00),
    ("io_uring/syscall/interrupt+registered", [1.08, 1.06], 1.0, 0.98),
    ("io_uring/syscall/poll", [0.90, 0.80], 2.2, 1.10),
    ("io_uring/sqpoll/poll", [0.78, 0.92], 3.0, 1.25),
];
/// How much slower an outlier is.
pub const OUTLIER: f64 = 1.6;
/// By how much the second drive gets slower, a month, in machines whose number is divisible by 3.
pub const DRIFT_PER_MONTH: f64 = 0.03;
/// Spread between hosts of one kind, and between trials of one host.
const SPREADS: [f64; 2] = [0.02, 0.01];

/// A fleet.
pub struct Fleet {
    /// Stores: one a host and month.
    pub stores: usize,
    /// What everything follows from.
    pub seed: u64,
    /// Kinds of machines, at most as many as [`MACHINES`].
    pub machines: usize,
    /// Trials of each path and workload in a store.
    pub replicates: u32,
    /// Stores differ in what they hold, as those of a real fleet do.
    pub is_uneven: bool,
}

impl Default for Fleet {
    fn default() -> Fleet {
        Fleet { stores: 1000, seed: 1, machines: MACHINES.len(), replicates: 3, is_uneven: false }
    }
}

impl Fleet {
    /// The host with this number.
    pub fn host(&self, number: usize) -> Host {
        let rest = number / self.machines;
        Host { number, machine: number % self.machines, drive: rest % 2, kernel: rest / 2 % 2 }
    }

    /// Where the store of a number is: one folder a host.
    pub fn path(&self, folder: &Path, store: usize) -> PathBuf {
        folder.join(self.host(store / MONTHS).name()).join(format!("{}.iopj", store % MONTHS))
    }

    /// Makes all stores that are not there, on two threads.
    ///
    /// # Errors
    /// The operating system's or the store's.
    pub fn write(&self, folder: &Path) -> Result<(), String> {
        let every_second = |first: usize| {
            (first..self.stores).step_by(2).try_for_each(|store| {
                let path = self.path(folder, store);
                std::fs::create_dir_all(path.parent().unwrap_or(folder))
                    .map_err(|error| error.to_string())?;
                if path.exists() {
                    Ok(())
                } else {
                    self.write_store(&path, store).map_err(|error| error.to_string())
                }
            })
        };
        std::thread::scope(|scope| {
            let other = scope.spawn(|| every_second(1));
            every_second(0)?;
            other.join().unwrap_or_else(|_| Err("a thread panicked".to_owned()))
        })
    }

    /// Makes one store.
    ///
    /// # Errors
    /// The store's.
    pub fn write_store(&self, path: &Path, store: usize) -> Result<(), StoreError> {
        let (host, month) = (self.host(store / MONTHS), store % MONTHS);
        let began_s = JANUARY_S + DAYS[month] * 86_400 + 9 * 86_400 + (host.number as u64 % 86_400);
        let workloads = workloads();
        let uneven = Uneven::of(host, month, self.is_uneven);
        let replicates = self.replicates + uneven.more_replicates;
        let planned = workloads.len() as u64 * PATHS.len() as u64 * u64::from(replicates);
        let mut made = Store::create(path, &study(host, self.seed, planned, &uneven))?;
        let mut position = 0;
        for replicate in 0..replicates {
            for (at, workload) in workloads.iter().enumerate() {
                for path in PATHS {
                    let started_unix_ns = (began_s + position * 12) * 1_000_000_000;
                    let mut trial = Trial {
                        replicate,
                        position,
                        started_unix_ns,
                        ..self.trial((host, month), workload, at, path, position)
                    };
                    trial.gap_ns = (position > 0).then_some(2_000_000_000);
                    position += 1;
                    if let Some(trial) = uneven.changed(trial) {
                        made.add(&trial)?;
                    }
                }
            }
        }
        if host.has_energy() {
            add_readings(&mut made, began_s)?;
        }
        Ok(())
    }

    /// A host's own factor on all latencies: its spread, whether it is an outlier, and how far it drifted.
    fn slowness(&self, host: Host, month: usize) -> f64 {
        let own = (SPREADS[0] * self.noise(host.number as u64, 0)).exp();
        let outlier = if host.is_outlier() { OUTLIER } else { 1.0 };
        let drift = if host.drifts() { 1.0 + DRIFT_PER_MONTH * month as f64 } else { 1.0 };
        own * outlier * drift
    }

    fn trial(
        &self,
        (host, month): (Host, usize),
        workload: &Workload,
        at: usize,
        (path, slower, cpu, power): (&str, [f64; 2], f64, f64),
        position: u64,
    ) -> Trial {
        let asked: IoPath = path.parse().unwrap_or(IoPath::Libaio);
        let key = (host.number * MONTHS + month) as u64;
        let spread = (SPREADS[1] * self.noise(key, position + 1)).exp();
        let base_ns = 60_000.0 + 4_000.0 * host.machine as f64 + 9_000.0 * host.drive as f64;
        let depth = f64::from(workload.iodepth);
        let per_io_ns = base_ns * (1.0 + depth / 8.0) * (f64::from(workload.bs) / 4096.0).sqrt();
        let mean_ns = per_io_ns * slower[at.min(1)] * spread * self.slowness(host, month);
        let figures = Figures {
            mean_ns,
            depth,
            cpu_ns: 2_000.0 * cpu * spread,
            watts: host.has_energy().then_some((180.0 + 10.0 * host.machine as f64) * power),
            verdict: host.verdict(path),
            position,
        };
        let outcome = match host.fails(position) {
            true => Outcome::Failed("17 I/Os failed: EIO".to_owned()),
            false => measure::measurement(workload, &figures).into(),
        };
        Trial::new(asked, workload.clone(), outcome)
    }

    fn noise(&self, a: u64, b: u64) -> f64 {
        let key = self.seed.wrapping_mul(0x9E37_79B9).wrapping_add(a << 20).wrapping_add(b);
        StandardNormal.sample(&mut Xoshiro256PlusPlus::seed_from_u64(key))
    }
}

/// The workloads; the first is of depth 1.
pub fn workloads() -> Vec<Workload> {
    let of = |rw, bs, iodepth| Workload { rw, bs, iodepth, rwmixread: 70, ..Workload::default() };
    vec![
        of(Rw::Randread, 4096, 1),
        of(Rw::Randread, 4096, 32),
        of(Rw::Randrw, 4096, 8),
        of(Rw::Read, 131_072, 8),
    ]
}

fn study(host: Host, seed: u64, planned_trials: u64, uneven: &Uneven) -> StudyRecord {
    let (model, cores) = MACHINES[host.machine];
    let facts = [
        ("iopj_version", "0.1.0".to_owned()),
        ("architecture", if model.starts_with("impl") { "aarch64" } else { "x86_64" }.to_owned()),
        ("host", if uneven.is_nameless { String::new() } else { host.name() }),
        ("kernel", KERNELS[host.kernel].to_owned()),
        ("kernel_build", "#1 SMP PREEMPT_DYNAMIC Debian".to_owned()),
        ("cpus_online", format!("0-{}", cores - 1)),
        ("cpu_model", model.to_owned()),
        ("memory", "263842112 kB".to_owned()),
        ("devices", "nvme0n1".to_owned()),
        ("nvme0n1.model", DRIVES[host.drive].to_owned()),
        ("nvme0n1.firmware", "GDC5602Q".to_owned()),
        ("nvme0n1.serial", format!("S64{:07}", host.number)),
        ("nvme0n1.sectors", "1875385008".to_owned()),
        ("target_bytes", "960197124096".to_owned()),
    ];
    StudyRecord {
        name: "fleet".to_owned(),
        text: "[study]\nname = \"fleet\"\n".to_owned(),
        seed,
        planned_trials,
        target: "/dev/nvme0n1".to_owned(),
        provenance: facts
            .map(|(name, value)| (name.to_owned(), value))
            .into_iter()
            .collect::<BTreeMap<_, _>>(),
        ..StudyRecord::default()
    }
}

/// The raw readings of the meter at the plug: one each second of the first minutes.
fn add_readings(store: &mut Store, began_s: u64) -> Result<(), StoreError> {
    let began_ns = began_s as i64 * 1_000_000_000;
    let session = store.add_session("5f0e9c52-0c1f-4c63-9d5f-6f2ad3a4a7a1", began_ns)?;
    let record = r#"{"kind":"prometheus","channels":[{"name":"plug","scope":"system"}]}"#;
    let meter = store.add_meter(session, "plug", record)?;
    let reading = |at: u64| ReadingRow {
        channel: 0,
        value: RawValue::Watts(180.0 + (at % 7) as f64),
        begin_ns: at * 1_000_000_000,
        end_ns: at * 1_000_000_000 + 1_000_000,
        wall_ns: began_ns + at as i64 * 1_000_000_000,
        own_ns: None,
    };
    store.add_readings(meter, &(0..120).map(reading).collect::<Vec<_>>())
}
