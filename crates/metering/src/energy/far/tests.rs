//! What a run makes of the target host's meters, and of a target host that is lost.

use super::*;
use crate::progress::Said;
use iopj_core::energy::Scope;
use iopj_meter::{Channel, ChannelKind, Value};
use std::cell::{Cell as Mutable, RefCell};
use std::sync::atomic::AtomicBool;

/// A target host whose meters have read what it is given.
#[derive(Default)]
struct Given {
    readings: RefCell<Vec<Reading>>,
    within_ns: Mutable<u64>,
    is_gone: Mutable<bool>,
    asked: RefCell<Vec<&'static str>>,
}

impl Given {
    fn answer<R>(&self, question: &'static str, answer: impl FnOnce() -> R) -> Result<R, FabricError> {
        self.asked.borrow_mut().push(question);
        let (host, reason) = ("storage1".to_owned(), "the connection ended".to_owned());
        if self.is_gone.get() { Err(FabricError::Lost { host, reason }) } else { Ok(answer()) }
    }
}

impl FarHost for Given {
    fn name(&self) -> String {
        "storage1".to_owned()
    }

    fn open_meters(&self, asked: OpenMeters, _: &AtomicBool) -> Result<Option<OpenedMeters>, FabricError> {
        assert!(asked.allow.exec);
        self.answer("open", || {
            let record = MeterRecord {
                kind: "command".to_owned(),
                interval_ns: 1_000_000_000,
                clock: super::super::record::ClockRecord::Host,
                age_ns: 0,
                bridge_ns: 3_000_000_000,
                channels: vec![Channel::new("power", Scope::System, ChannelKind::Instant)],
                model: None,
                there: Some(Default::default()),
            };
            let name = "psu".to_owned();
            let notes = vec!["warning: the meter `rapl` is left out".to_owned()];
            Some(OpenedMeters { meters: vec![FarMeter { name, record }], notes, found_none: false })
        })
    }

    fn readings(&self) -> Result<(FarReadings, u64), FabricError> {
        self.answer("readings", || {
            let readings = std::mem::take(&mut *self.readings.borrow_mut());
            let of = OfFarMeter { readings, notices: Vec::new(), goes_on: true };
            (FarReadings { meters: vec![of], more: false }, self.within_ns.get())
        })
    }

    fn stop_meters(&self) -> Result<Vec<Cost>, FabricError> {
        let (cpu, elapsed) = (Duration::from_millis(1), Duration::from_secs(1));
        self.answer("stop", || vec![Cost { readings: 3, cpu, elapsed }])
    }
}

fn reading(second: u64, watts: f64) -> Reading {
    let (begin_ns, end_ns) = (second * 1_000_000_000, second * 1_000_000_000);
    Reading { channel: 0, value: Value::Watts(watts), begin_ns, end_ns, wall_ns: 0, own_ns: None }
}

fn open(host: &Given, said: &mut Said) -> FarMeters {
    let text = "name = \"t\"\npaths = \"available\"\n[fabric]\ntarget_host = \"storage1\"\ndevice = \
                \"/dev/nvme0n1\"\ntransport = \"loop\"\nmeters.psu = { kind = \"command\", command = \
                [\"psu\"], scope = \"system\" }\n[[workload]]\nios = 1\n";
    let study = iopj_study::Study::parse(text, "t").unwrap();
    FarMeters::open(&study.fabric.unwrap(), host, Allow::ALL, said, &AtomicBool::new(false)).unwrap().unwrap()
}

#[test]
fn what_is_looked_at_while_power_settles_is_kept_for_the_store() {
    let (host, mut said) = (Given::default(), Said::default());
    let mut far = open(&host, &mut said);
    assert_eq!(said.0, ["storage1: warning: the meter `rapl` is left out"]);
    assert_eq!(far.names().collect::<Vec<_>>(), ["target.psu"]);
    assert_eq!(far.slowest(), Some(Duration::from_secs(1)));
    for (_, _, id) in far.records() {
        *id = Some(7);
    }
    host.readings.replace((0..6).map(|at| reading(at, 50.0)).collect());
    assert!(!far.have_settled(&host), "ten seconds show whether it is flat");
    host.readings.replace((6..12).map(|at| reading(at, 50.0)).collect());
    assert!(far.have_settled(&host));
    let taken = far.take(&host);
    let Taken { id, name, readings, notices } = &taken[0];
    assert_eq!((*id, name.as_str(), readings.len(), notices.len()), (Some(7), "target.psu", 12, 0));
    assert!(far.take(&host)[0].readings.is_empty());
    assert_eq!(far.stop(&host), ["target.psu: 3 readings for 0.100 % of a core"]);
}

#[test]
fn the_worst_alignment_of_the_clocks_is_in_the_record() {
    let (host, mut said) = (Given::default(), Said::default());
    let mut far = open(&host, &mut said);
    let within = |far: &mut FarMeters| {
        let changed: Vec<String> = far.changed_records().map(|(_, text, _)| text).collect();
        let of = |text: &String| serde_json::from_str::<MeterRecord>(text).unwrap().there.unwrap().within_ns;
        changed.first().map(of)
    };
    assert_eq!(within(&mut far), None);
    host.within_ns.set(2_000);
    far.take(&host);
    assert_eq!(within(&mut far), Some(2_000));
    far.take(&host);
    assert_eq!(within(&mut far), None, "nothing has changed since");
    host.within_ns.set(9_000);
    far.take(&host);
    assert_eq!(within(&mut far), Some(9_000));
}

#[test]
fn a_lost_target_host_is_said_once_and_asked_no_more() {
    let (host, mut said) = (Given::default(), Said::default());
    let mut far = open(&host, &mut said);
    host.readings.replace(vec![reading(1, 50.0)]);
    assert!(!far.have_settled(&host));
    host.is_gone.set(true);
    let taken = far.take(&host);
    let Taken { readings, notices, .. } = &taken[0];
    assert_eq!(readings.len(), 1, "what was read is kept");
    let lost = "gives no more readings: storage1: the agent was lost: the connection ended; what it had \
                changed there is put back by its guardian";
    assert_eq!(notices[..], [lost]);
    assert!(far.have_settled(&host), "nothing is waited for");
    assert!(far.take(&host)[0].notices.is_empty() && far.stop(&host).is_empty());
    assert_eq!(*host.asked.borrow(), ["open", "readings", "readings"]);
}
