//! A folder in which the documents' commands work as written: the program, the studies, and what the commands
//! read, made without measuring, so that nothing depends on what else the machine does.

use crate::common::{TestFolder, folder};
use crate::root;
use iopj_core::open_load::{OpenLoad, RateProcess};
use iopj_core::workload::{Workload, WriteSync};
use iopj_record::Trial;
use iopj_record::testing::pages::{study, trials, workloads};
use iopj_store::Store;
use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Output};

/// Places that a reader has, by what stands for them here.
const PLACES: [(&str, &str); 3] = [("/srv/data.bin", "data"), ("DEVICE", "data"), ("STORE", "log.iopj")];
/// Stores of closed loops.
const PLAIN: [&str; 17] = [
    "quick", "drive", "other", "grid", "db", "battery", "charger", "monday", "tuesday", "before", "after",
    "good", "node", "database", "w", "poll22", "pgbench",
];
/// More stores of closed loops, which have no trial of what some commands ask for.
const LACKING: [&str; 6] = ["auto", "poll22-lab", "fabric-lab", "6.1", "6.18", "fio-engines"];
/// Few: a model of them is made again and again.
const PATHS: [&str; 3] = ["libaio/syscall/interrupt", "io_uring/syscall/interrupt", "io_uring/syscall/poll"];

pub(crate) struct Sandbox(TestFolder);

impl Sandbox {
    /// With the studies that stand in the documents.
    pub(crate) fn new(studies: &[(String, String)]) -> Sandbox {
        let folder = folder().with_data(64 << 20);
        let root = root();
        symlink(root.join("studies"), folder.join("studies")).unwrap();
        fs::create_dir(folder.join("bin")).unwrap();
        symlink(env!("CARGO_BIN_EXE_iopj"), folder.join("bin/iopj")).unwrap();
        for (name, text) in studies {
            fs::write(folder.join(format!("{name}.toml")), text).unwrap();
        }
        fs::write(folder.join("prn_0.csv"), trace()).unwrap();
        fs::copy(root.join("fuzz/seeds/fio/normal.json"), folder.join("result.json")).unwrap();
        Sandbox(folder)
    }

    /// Makes this the study that a document calls `study.toml`.
    pub(crate) fn call_study(&self, text: &str) {
        fs::write(self.0.join("study.toml"), text).unwrap();
    }

    /// Makes the stores that the commands read. Commands that run a study come before: to them each is new.
    pub(crate) fn stores(&self) {
        let closed = workloads(&[1, 32], &[1, 2], &[4096]);
        PLAIN.iter().chain(&LACKING).for_each(|name| self.store(name, &closed, |_| {}));
        let at = |rate_iops| OpenLoad { rate_process: RateProcess::Poisson, ..OpenLoad::at(rate_iops) };
        let open = [1000, 4000, 16_000].map(|rate| Workload {
            iodepth: 32,
            open: Some(at(rate)),
            ..closed[0].clone()
        });
        self.store("load", &open, |_| {});
        for fleet in ["nightly", "node"] {
            let stores = format!("{fleet}.fleet/stores");
            fs::create_dir_all(self.0.join(&stores)).unwrap();
            ["n1", "n2"].iter().for_each(|host| self.store(&format!("{stores}/{host}"), &closed, |_| {}));
        }
        let log = [WriteSync::None, WriteSync::Dsync].map(|sync| Workload { sync, ..closed[0].clone() });
        self.store("log", &log, |_| {});
        let batches = [1, 32].map(|iodepth_batch_submit| Workload {
            iodepth: 32,
            iodepth_batch_submit,
            ..closed[0].clone()
        });
        self.store("clustering", &batches, |_| {});
        for (name, setting, values) in [
            ("study", "io_poll_delay", ["-1", "50"]),
            ("schedulers", "scheduler", ["none", "mq-deadline"]),
            ("far", "transport", ["local", "tcp"]),
        ] {
            let twice: Vec<Workload> =
                closed[..1].iter().flat_map(|one| [one.clone(), one.clone()]).collect();
            let mut second = false;
            self.store(name, &twice, |trial| {
                // Each workload is there twice: once under each value.
                let count = PATHS.len() as u64;
                second = trial.position % (2 * count) >= count;
                trial.settings.insert(setting.to_owned(), values[usize::from(second)].to_owned());
            });
        }
    }

    /// A store of each path under these workloads, three times.
    fn store(&self, name: &str, workloads: &[Workload], mut change: impl FnMut(&mut Trial)) {
        let mut study = study(name);
        // These studies say nothing of the machine that a reader could take for true.
        study.unavailable.clear();
        let mut store = Store::create(&self.0.join(format!("{name}.iopj")), &study).unwrap();
        for mut trial in trials(&PATHS, workloads, 3) {
            plausible(&mut trial);
            change(&mut trial);
            store.add(&trial).unwrap();
        }
    }

    /// Runs a command by a shell, as a reader would.
    pub(crate) fn run(&self, command: &str) -> Output {
        let mut text = command.to_owned();
        for (place, here) in PLACES {
            text = text.replace(place, here);
        }
        let path = std::env::var("PATH").unwrap_or_default();
        Command::new("timeout")
            .args(["120", "sh", "-c", &text])
            .current_dir(&*self.0)
            .env("PATH", format!("{}:{path}", self.0.join("bin").display()))
            .env("HOME", &*self.0)
            .output()
            .unwrap()
    }
}

/// Gives a trial what a drive of 40 us would, with software that differs by path and a spread by replicate.
fn plausible(trial: &mut Trial) {
    let rank = PATHS.iter().position(|path| *path == trial.path.to_string()).unwrap() as f64;
    let software = 5e3 + 2e3 * rank + 50.0 * f64::from(trial.replicate);
    let depth = f64::from(trial.workload.iodepth);
    let cycle = ((40e3 + software).powi(3) + ((depth - 1.0) * software).powi(3)).cbrt();
    let jobs = f64::from(trial.workload.numjobs);
    let rate = trial.workload.open.as_ref().map(OpenLoad::mean_rate);
    let one = trial.outcome.measurement_mut().unwrap();
    one.ios = rate.unwrap_or(depth * jobs / cycle * 1e9) as u64;
    one.reads = one.ios;
    one.bytes = 4096 * one.ios;
    one.latency.mean = cycle;
    one.latency.p50 = cycle as u64;
    one.latency.p95 = (cycle * 1.2) as u64;
    one.latency.p99 = (cycle * 1.5) as u64;
    one.latency.p99_9 = (cycle * 2.0) as u64;
    one.cpu_percent = one.iops() * software * 1e-7;
    one.context_switches_per_io = 1.0;
}

/// Reads of 4 KiB, one each 100 us, in the format of MSR Cambridge.
fn trace() -> String {
    let line =
        |at: u64| format!("{},host,0,Read,{},4096,1\n", 128_166_554_283_938_750 + at * 1000, at * 4096);
    (0..500).map(line).collect()
}
