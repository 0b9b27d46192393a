//! The keys of a workload with their values, as a study writes them, and its title.

use crate::corunner::{Corunner, CorunnerKind};
use crate::open_load::{Burst, OpenLoad, RateProcess};
use crate::sizes::BlockSizes;
use crate::trace_load::TraceLoad;
use crate::workload::{Length, Workload};
use iopj_path::units::{format_bytes, format_duration};
use std::time::Duration;

impl Workload {
    /// The workload in a table's heading, such as `randread 4k iodepth 1 numjobs 1`.
    pub fn title(&self) -> String {
        if let Some(told) = &self.told {
            return self.title_of_program(told);
        }
        let what = match &self.trace {
            Some(trace) => format!("trace {}", trace.file),
            None => match &self.sizes {
                Some(sizes) => format!("{} {sizes}", self.rw),
                None => format!("{} {}", self.rw, format_bytes(self.bs.into())),
            },
        };
        let mut title = format!("{what} iodepth {} numjobs {}", self.iodepth, self.numjobs);
        let plain = Workload::default();
        if self.rw.is_mixed() && self.trace.is_none() {
            title += &format!(" rwmixread {}", self.rwmixread);
        }
        if self.iodepth_batch_submit != plain.iodepth_batch_submit {
            title += &format!(" iodepth_batch_submit {}", self.iodepth_batch_submit);
        }
        if self.iodepth_batch_complete_min != plain.iodepth_batch_complete_min {
            title += &format!(" iodepth_batch_complete_min {}", self.iodepth_batch_complete_min);
        }
        if self.rw.is_random() && self.random_distribution != plain.random_distribution {
            title += &format!(" {}", self.random_distribution);
        }
        let traced = self.trace.iter().flat_map(TraceLoad::keys).filter(|(key, _)| *key != "read_iolog");
        let synced = self.sync_keys().into_iter().skip(1);
        let others = synced.chain(self.open_keys()).chain(self.corunner_keys()).chain(traced);
        for (key, value) in others.filter(|(_, value)| value != NONE) {
            title += &match key {
                "corunner_cpus" if value == ALL => continue,
                "corunner_nice" if value == Corunner::NICE.end().to_string() => continue,
                "rate_process" if value == RateProcess::Linear.to_string() => continue,
                "rate_process" => format!(" {value}"),
                key => format!(" {key} {value}"),
            };
        }
        if !self.beside.is_empty() {
            title += &format!(" beside {}", self.beside_text());
        }
        title
    }

    /// What a program is told, without the time.
    fn title_of_program(&self, told: &[String]) -> String {
        let is_told = |(key, _): &(&'static str, String)| told.iter().any(|name| name == key);
        let words = |(key, value): (&'static str, String)| match key {
            "rw" => value,
            key => format!("{key} {value}"),
        };
        let own = self.keys().into_iter().filter(is_told).filter(|(key, _)| *key != "runtime");
        let words: Vec<String> = own.map(words).collect();
        if words.is_empty() { "as it is".to_owned() } else { words.join(" ") }
    }

    /// The keys of several sizes, of flushes and of durable writes; none where there are none.
    fn sync_keys(&self) -> [(&'static str, String); 4] {
        let every = |writes: u32| if writes == 0 { NONE.to_owned() } else { writes.to_string() };
        let sizes = self.sizes.as_ref().map_or_else(|| NONE.to_owned(), BlockSizes::to_string);
        [
            ("bssplit", sizes),
            ("fsync", every(self.fsync)),
            ("fdatasync", every(self.fdatasync)),
            ("sync", self.sync.to_string()),
        ]
    }

    /// The keys of an open load with their values; of a closed one with none.
    fn open_keys(&self) -> [(&'static str, String); 5] {
        let of = |value: &dyn Fn(&OpenLoad) -> Option<String>| {
            self.open.as_ref().and_then(value).unwrap_or_else(|| NONE.to_owned())
        };
        let burst = |time: fn(&Burst) -> Duration| {
            of(&|open| open.burst.as_ref().map(|burst| format_duration(time(burst))))
        };
        [
            ("rate_iops", of(&|open| Some(open.rate_iops.to_string()))),
            ("rate_process", of(&|open| Some(open.rate_process.to_string()))),
            ("rate_iops_end", of(&|open| open.rate_iops_end.map(|rate| rate.to_string()))),
            ("burst_on", burst(|burst| burst.on)),
            ("burst_off", burst(|burst| burst.off)),
        ]
    }

    /// The keys of a co-runner with their values; without one none.
    fn corunner_keys(&self) -> [(&'static str, String); 3] {
        let of = |value: &dyn Fn(&Corunner) -> String| {
            self.corunner.as_ref().map_or_else(|| NONE.to_owned(), value)
        };
        [
            ("corunner", of(&|one| one.kind.to_string())),
            ("corunner_cpus", of(&|one| processors(&one.cpus))),
            ("corunner_nice", of(&|one| one.nice.to_string())),
        ]
    }

    /// The keys of a trace with their values; those that it lacks have none.
    fn trace_keys(&self) -> [(&'static str, String); TraceLoad::KEYS.len()] {
        let own = self.trace.as_ref().map(TraceLoad::keys).unwrap_or_default();
        TraceLoad::KEYS.map(|key| {
            let found = own.iter().find(|(other, _)| *other == key);
            (key, found.map_or_else(|| NONE.to_owned(), |(_, value)| value.clone()))
        })
    }

    /// Every key with its value, as in a study. The measured window is `runtime` or `ios`.
    pub fn keys(&self) -> Vec<(&'static str, String)> {
        let window = match self.length {
            Length::Runtime(time) => ("runtime", format_duration(time)),
            Length::Ios(ios) => ("ios", ios.to_string()),
        };
        let closed = [
            ("rw", self.rw.to_string()),
            ("bs", format_bytes(self.bs.into())),
            ("iodepth", self.iodepth.to_string()),
            ("numjobs", self.numjobs.to_string()),
            ("rwmixread", self.rwmixread.to_string()),
            ("iodepth_batch_submit", self.iodepth_batch_submit.to_string()),
            ("iodepth_batch_complete_min", self.iodepth_batch_complete_min.to_string()),
            ("ramp_time", format_duration(self.ramp_time)),
            window,
            ("random_distribution", self.random_distribution.to_string()),
            ("cpus_allowed", processors(&self.cpus_allowed)),
        ];
        let closed = closed.into_iter().chain(self.sync_keys());
        let beside = if self.beside.is_empty() { NONE.to_owned() } else { self.beside_text() };
        let others = self.open_keys().into_iter().chain(self.corunner_keys()).chain(self.trace_keys());
        closed.chain(others).chain([("beside", beside)]).collect()
    }

    /// Gives a key its default, for workloads that are to be alike but for that key. False if there is no
    /// such key.
    pub fn clear(&mut self, key: &str) -> bool {
        let plain = Workload::default();
        match key {
            "rw" => self.rw = plain.rw,
            "bs" => self.bs = plain.bs,
            "iodepth" => self.iodepth = plain.iodepth,
            "numjobs" => self.numjobs = plain.numjobs,
            "rwmixread" => self.rwmixread = plain.rwmixread,
            "iodepth_batch_submit" => self.iodepth_batch_submit = plain.iodepth_batch_submit,
            "iodepth_batch_complete_min" => {
                self.iodepth_batch_complete_min = plain.iodepth_batch_complete_min
            }
            "ramp_time" => self.ramp_time = plain.ramp_time,
            "runtime" | "ios" => self.length = plain.length,
            "random_distribution" => self.random_distribution = plain.random_distribution,
            "cpus_allowed" => self.cpus_allowed = plain.cpus_allowed,
            "bssplit" => self.sizes = None,
            "fsync" => self.fsync = 0,
            "fdatasync" => self.fdatasync = 0,
            "beside" => self.beside = Vec::new(),
            "sync" => self.sync = plain.sync,
            "rate_iops" => {
                self.change_open(|open| open.rate_iops = 0);
                self.open = self.open.filter(|open| *open != OpenLoad::at(0));
            }
            "rate_process" => self.change_open(|open| open.rate_process = RateProcess::default()),
            "rate_iops_end" => self.change_open(|open| open.rate_iops_end = None),
            "burst_on" | "burst_off" => self.change_open(|open| open.burst = None),
            "corunner" => {
                // What else a co-runner has keeps workloads apart.
                let plain = Corunner::of(CorunnerKind::Spin);
                self.change_corunner(|one| one.kind = plain.kind);
                self.corunner = self.corunner.take().filter(|one| *one != plain);
            }
            "corunner_cpus" => self.change_corunner(|one| one.cpus = Vec::new()),
            "corunner_nice" => self.change_corunner(|one| one.nice = *Corunner::NICE.end()),
            key => return self.clear_of_trace(key),
        }
        true
    }

    /// As [`Workload::clear`], for the keys of a trace.
    fn clear_of_trace(&mut self, key: &str) -> bool {
        let plain = TraceLoad::of("");
        if let Some(trace) = &mut self.trace {
            match key {
                "read_iolog" => trace.file = plain.file.clone(),
                "replay_time_scale" => trace.time_scale = plain.time_scale,
                "replay_no_stall" => trace.no_stall = plain.no_stall,
                "replay_scale" => trace.scale = plain.scale,
                "replay_align" => trace.align = plain.align,
                "replay_map" => trace.wrap = plain.wrap,
                "replay_device" => trace.device.clone_from(&plain.device),
                "replay_skip" => trace.skip.clone_from(&plain.skip),
                _ => {}
            }
        }
        self.trace = self.trace.take().filter(|trace| *trace != plain);
        TraceLoad::KEYS.contains(&key)
    }

    fn change_open(&mut self, change: impl FnOnce(&mut OpenLoad)) {
        if let Some(open) = &mut self.open {
            change(open);
        }
    }

    fn change_corunner(&mut self, change: impl FnOnce(&mut Corunner)) {
        if let Some(corunner) = &mut self.corunner {
            change(corunner);
        }
    }

    /// The measured window as text: `3s` or `20000 I/Os per job`.
    pub fn length_text(&self) -> String {
        match self.length {
            _ if self.told.as_ref().is_some_and(|told| !told.iter().any(|key| key == "runtime")) => {
                "as long as it takes".to_owned()
            }
            Length::Runtime(time) => format_duration(time),
            Length::WHOLE_TRACE => "whole".to_owned(),
            Length::Ios(ios) => format!("{ios} I/Os per job"),
        }
    }
}

/// The value of a key that a workload lacks.
const NONE: &str = "none";
/// The value of a list of processors that names none.
const ALL: &str = "all";

fn processors(cpus: &[u32]) -> String {
    let cpus: Vec<String> = cpus.iter().map(u32::to_string).collect();
    if cpus.is_empty() { ALL.to_owned() } else { cpus.join(",") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace_load::TraceOp;
    use crate::workload::{JobsBeside, RandomDistribution, Rw, WriteSync};

    fn open() -> OpenLoad {
        let [on, off] = [10, 30].map(Duration::from_millis);
        OpenLoad {
            rate_process: RateProcess::Poisson,
            rate_iops_end: Some(80_000),
            burst: Some(Burst { on, off }),
            ..OpenLoad::at(40_000)
        }
    }

    #[test]
    fn json_form_round_trips_and_names_its_units() {
        let workload = Workload {
            length: Length::Ios(7),
            ramp_time: Duration::from_millis(5),
            random_distribution: RandomDistribution::Zipf(1.1),
            cpus_allowed: vec![0, 3],
            ..Workload::default()
        };
        let json = serde_json::to_value(&workload).unwrap();
        assert_eq!(json["ramp_time_ns"], 5_000_000);
        assert_eq!(json["rw"], "randread");
        assert_eq!((json.get("rate_iops"), json.get("burst_on_ns")), (None, None));
        assert_eq!(serde_json::from_value::<Workload>(json).unwrap(), workload);
        let open = Workload { open: Some(open()), ..workload };
        let json = serde_json::to_value(&open).unwrap();
        assert_eq!((&json["rate_iops"], &json["burst_off_ns"]), (&40_000.into(), &30_000_000.into()));
        assert_eq!(serde_json::from_value::<Workload>(json).unwrap(), open);
        let corunner = Some(Corunner { kind: CorunnerKind::Memory, cpus: vec![0, 2], nice: -5 });
        let beside = Workload { corunner, ..Workload::default() };
        let json = serde_json::to_value(&beside).unwrap();
        assert_eq!((&json["corunner"], &json["corunner_nice"]), (&"memory".into(), &(-5).into()));
        assert_eq!(serde_json::from_value::<Workload>(json).unwrap(), beside);
        let plain = serde_json::to_string(&Workload::default()).unwrap();
        assert!(!plain.contains("corunner") && !plain.contains("sync"), "{plain}");
        let durable = Workload { rw: Rw::Write, sync: WriteSync::Dsync, ..Workload::default() };
        let json = serde_json::to_value(&durable).unwrap();
        assert_eq!(json["sync"], "dsync");
        assert_eq!(serde_json::from_value::<Workload>(json).unwrap(), durable);
    }

    #[test]
    fn every_key_is_listed_and_can_be_cleared() {
        let mut workload = Workload {
            rw: Rw::Randrw,
            rwmixread: 70,
            bs: 8192,
            iodepth: 2,
            iodepth_batch_submit: 2,
            iodepth_batch_complete_min: 2,
            numjobs: 2,
            ramp_time: Duration::from_secs(2),
            length: Length::Ios(7),
            random_distribution: RandomDistribution::Zipf(1.1),
            cpus_allowed: vec![0, 3],
            sizes: Some("4k/60:8k/40".parse().unwrap()),
            fsync: 3,
            fdatasync: 2,
            sync: WriteSync::Sync,
            open: Some(open()),
            corunner: Some(Corunner { kind: CorunnerKind::Branch, cpus: vec![1], nice: 5 }),
            trace: Some(TraceLoad {
                time_scale: 50,
                no_stall: true,
                scale: 2,
                align: 512,
                wrap: true,
                device: Some("8,0".to_owned()),
                skip: vec![TraceOp::Write],
                ..TraceLoad::of("a.csv")
            }),
            beside: vec![JobsBeside {
                path: "libaio/syscall/interrupt".parse().unwrap(),
                workload: Workload::default(),
            }],
            told: None,
        };
        let plain = Workload::default().keys();
        assert!(workload.keys().iter().zip(&plain).all(|(one, plain)| one != plain));
        assert_eq!(workload.keys()[10], ("cpus_allowed", "0,3".to_owned()));
        // The rate last: without it there is no open load.
        assert!(workload.keys().into_iter().rev().all(|(key, _)| workload.clear(key)));
        assert_eq!((workload.keys(), workload.clear("speed")), (plain, false));
    }

    #[test]
    fn a_programs_title_names_what_it_is_told() {
        let told = |keys: &[&str]| {
            let told = Some(keys.iter().map(|key| (*key).to_owned()).collect());
            Workload { iodepth: 8, numjobs: 2, told, ..Workload::default() }
        };
        assert_eq!(told(&["numjobs", "runtime"]).title(), "numjobs 2");
        assert_eq!(told(&["rw", "iodepth"]).title(), "randread iodepth 8");
        assert_eq!(told(&[]).title(), "as it is");
        assert_eq!(told(&["runtime"]).length_text(), "10s");
        assert_eq!(told(&["rw"]).length_text(), "as long as it takes");
        let json = serde_json::to_string(&told(&["rw"])).unwrap();
        assert_eq!(serde_json::from_str::<Workload>(&json).unwrap(), told(&["rw"]));
    }

    #[test]
    fn title_names_only_what_differs() {
        let mut workload = Workload::default();
        assert_eq!(workload.title(), "randread 4k iodepth 1 numjobs 1");
        workload.rw = Rw::Randrw;
        workload.iodepth_batch_submit = 4;
        assert_eq!(workload.title(), "randrw 4k iodepth 1 numjobs 1 rwmixread 50 iodepth_batch_submit 4");
        let writer = Workload { rw: Rw::Randwrite, fdatasync: 8, ..Workload::default() };
        assert_eq!(writer.title(), "randwrite 4k iodepth 1 numjobs 1 fdatasync 8");
        let durable = Workload { rw: Rw::Randwrite, sync: WriteSync::Dsync, ..Workload::default() };
        assert_eq!(durable.title(), "randwrite 4k iodepth 1 numjobs 1 sync dsync");
        let sizes = Some("4k,64k".parse().unwrap());
        let split = Workload { sizes, ..workload.clone() }.title();
        assert!(split.starts_with("randrw 4k/100,64k/100 iodepth 1 numjobs 1 rwmixread 50 "), "{split}");
        let with = |open| Workload { open: Some(open), ..Workload::default() }.title();
        let beside = |corunner| Workload { corunner: Some(corunner), ..Workload::default() }.title();
        let spin = Corunner::of(CorunnerKind::Spin);
        assert_eq!(beside(spin.clone()), "randread 4k iodepth 1 numjobs 1 corunner spin");
        assert_eq!(
            beside(Corunner { cpus: vec![1, 3], nice: 0, ..spin }),
            "randread 4k iodepth 1 numjobs 1 corunner spin corunner_cpus 1,3 corunner_nice 0"
        );
        assert_eq!(with(OpenLoad::at(500)), "randread 4k iodepth 1 numjobs 1 rate_iops 500");
        let traced = Workload {
            trace: Some(TraceLoad { wrap: true, ..TraceLoad::of("a.csv") }),
            length: Length::WHOLE_TRACE,
            rw: Rw::Randrw,
            ..Workload::default()
        };
        assert_eq!(traced.title(), "trace a.csv iodepth 1 numjobs 1 replay_map wrap");
        assert_eq!(traced.length_text(), "whole");
        assert_eq!(
            with(open()),
            "randread 4k iodepth 1 numjobs 1 rate_iops 40000 poisson rate_iops_end 80000 burst_on 10ms \
             burst_off 30ms"
        );
    }
}
