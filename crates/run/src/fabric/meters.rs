//! The meters of the target host, on both sides of the connection: there they are opened and read, here their
//! times are brought to this host's clock.

use super::ask::Ask;
use super::clock::Clocks;
use super::side::FabricSide;
use crate::error::RunError;
use iopj_fabric::FabricError;
use iopj_meter::{Reading, Value, monotonic_raw_ns};
use iopj_metering::energy::{
    Cost, FarHost, FarMeter, FarReadings, MeterRecord, Meters, OfFarMeter, OpenMeters, OpenedMeters,
    RunningMeter, There, target_meter_specs,
};
use iopj_metering::{Progress, unix_ns};
use iopj_record::{Outcome, Unavailable};
use iopj_study::Fabric;
use iopj_study::plan::Cell;
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The most readings of an answer: a line is no longer than the protocol allows.
const MOST: usize = 50_000;

/// The meters of this host, opened for another.
pub(crate) struct MetersHere {
    /// Each with what was read and is not handed out yet.
    running: Vec<(RunningMeter, Vec<Reading>)>,
}

impl MetersHere {
    /// Opens them and waits for a reading of each.
    ///
    /// # Errors
    /// Meters that the study names cannot be opened or read: all of them in one message.
    pub(crate) fn open(
        asked: &OpenMeters,
        stop: &AtomicBool,
    ) -> Result<(MetersHere, OpenedMeters), RunError> {
        let specs = target_meter_specs(asked.meters.as_ref(), "the study")?;
        let meters = asked.meters.as_ref();
        meters.map_or(Ok(()), |meters| meters.check_allowed(Fabric::METERS, asked.allow))?;
        let mut notes = Notes::default();
        let meters = Meters::of(specs, asked.allow, &mut notes, stop)?;
        let (running, found_none) = meters.into_running();
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let there = There { boot: boot.trim().to_owned(), within_ns: 0 };
        let meter = |meter: &RunningMeter| {
            let record = MeterRecord::of(&meter.spec, &meter.channels);
            FarMeter {
                name: meter.spec.name.clone(),
                record: MeterRecord { there: Some(there.clone()), ..record },
            }
        };
        let opened = OpenedMeters { meters: running.iter().map(meter).collect(), notes: notes.0, found_none };
        Ok((MetersHere { running: running.into_iter().map(|meter| (meter, Vec::new())).collect() }, opened))
    }

    /// What they have read since the last call, as far as one answer holds it.
    pub(crate) fn readings(&mut self) -> FarReadings {
        let (mut left, mut more) = (MOST, false);
        let of = |(meter, kept): &mut (RunningMeter, Vec<Reading>)| {
            let (read, notices) = meter.take();
            // JSON has no form for what is no number; the store keeps none either.
            kept.extend(read.into_iter().filter(|reading| is_number(reading.value)));
            let readings: Vec<Reading> = kept.drain(..kept.len().min(left)).collect();
            left -= readings.len();
            more |= !kept.is_empty();
            OfFarMeter { readings, notices, goes_on: meter.look().1 }
        };
        FarReadings { meters: self.running.iter_mut().map(of).collect(), more }
    }

    /// Ends their threads: what each cost.
    pub(crate) fn stop(&mut self) -> Vec<Cost> {
        self.running.iter_mut().map(|(meter, _)| meter.stop()).collect()
    }
}

fn is_number(value: Value) -> bool {
    match value {
        Value::Count(_) => true,
        Value::Watts(watts) => watts.is_finite(),
    }
}

/// What the user of the other host should know.
#[derive(Default)]
struct Notes(Vec<String>);

impl Progress for Notes {
    fn note(&mut self, text: &str) {
        self.0.push(text.to_owned());
    }
    fn unavailable(&mut self, _: &[Unavailable]) {}
    fn file(&mut self, _: &Path, _: u64, _: u64) {}
    fn trial(&mut self, _: u64, _: u64, _: &Cell, _: Option<Duration>) {}
    fn ended(&mut self, _: &Outcome) {}
    fn tick(&mut self) {}
}

impl FarHost for FabricSide {
    fn name(&self) -> String {
        self.host_name()
    }

    fn open_meters(&self, asked: OpenMeters, stop: &AtomicBool) -> Result<Option<OpenedMeters>, FabricError> {
        self.ask_until(&Ask::OpenMeters(asked), stop)
    }

    fn readings(&self) -> Result<(FarReadings, u64), FabricError> {
        let mut all = FarReadings::default();
        while let Some(read) = self.ask::<FarReadings>(&Ask::Readings)? {
            let more = read.more;
            add(&mut all, read);
            if !more {
                break;
            }
        }
        // What was read lies between two alignments: nothing is guessed beyond the last.
        self.align()?;
        let clocks = self.clocks.borrow();
        let unix_minus_raw_ns = unix_ns() as i64 - monotonic_raw_ns() as i64;
        let readings = all.meters.iter_mut().flat_map(|meter| &mut meter.readings);
        readings.for_each(|reading| bring_here(reading, &clocks, unix_minus_raw_ns));
        Ok((all, clocks.worst_ns()))
    }

    fn stop_meters(&self) -> Result<Vec<Cost>, FabricError> {
        Ok(self.ask(&Ask::StopMeters)?.unwrap_or_default())
    }
}

/// Adds an answer to those before it.
fn add(all: &mut FarReadings, read: FarReadings) {
    all.meters.resize_with(all.meters.len().max(read.meters.len()), OfFarMeter::default);
    for (meter, of) in all.meters.iter_mut().zip(read.meters) {
        meter.readings.extend(of.readings);
        meter.notices.extend(of.notices);
        meter.goes_on = of.goes_on;
    }
}

/// Brings the times of a reading to this host's clocks. The meter's own time stays as it is.
fn bring_here(reading: &mut Reading, clocks: &Clocks, unix_minus_raw_ns: i64) {
    reading.begin_ns = clocks.here(reading.begin_ns);
    reading.end_ns = clocks.here(reading.end_ns);
    reading.wall_ns = unix_minus_raw_ns.saturating_add_unsigned(reading.end_ns);
}

#[cfg(test)]
mod tests {
    use super::super::clock::Clock;
    use super::*;
    use iopj_core::Allow;

    fn opened(meters: &str, allow: Allow) -> Result<(MetersHere, OpenedMeters), String> {
        let meters = toml::from_str::<toml::Table>(meters).unwrap().remove("meters").unwrap();
        let asked = OpenMeters { meters: Some(meters.try_into().unwrap()), allow };
        let asked = serde_json::to_string(&asked).unwrap();
        let asked: OpenMeters = serde_json::from_str(&asked).unwrap();
        MetersHere::open(&asked, &AtomicBool::new(false)).map_err(|error| error.to_string())
    }

    const PSU: &str = "[meters.psu]\nkind = \"command\"\ninterval = \"10ms\"\nscope = \"system\"\ncommand = \
                       [\"sh\", \"-c\", \"while echo 42.5; do sleep 0.01; done\"]\n";

    #[test]
    fn meters_are_read_for_another_host_and_handed_out_once() {
        let (mut here, opened) = opened(PSU, Allow::ALL).unwrap();
        let [FarMeter { name, record }] = &opened.meters[..] else { panic!("{opened:?}") };
        assert_eq!((name.as_str(), record.kind.as_str(), record.channels.len()), ("psu", "command", 1));
        assert_eq!(record.there.as_ref().unwrap().boot.len(), 36);
        let mut readings: Vec<Reading> = Vec::new();
        while readings.len() < 10 {
            let text = serde_json::to_string(&here.readings()).unwrap();
            let mut read: FarReadings = serde_json::from_str(&text).unwrap();
            assert!(read.meters[0].goes_on && !read.more, "{read:?}");
            readings.append(&mut read.meters[0].readings);
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(readings.iter().all(|reading| reading.value == Value::Watts(42.5)));
        assert!(readings.windows(2).all(|pair| pair[0].end_ns < pair[1].end_ns), "none comes twice");
        let costs = here.stop();
        let last = here.readings();
        assert!(!last.meters[0].goes_on);
        assert_eq!(costs[0].readings, (readings.len() + last.meters[0].readings.len()) as u64);
    }

    #[test]
    fn a_long_trial_is_handed_out_in_parts() {
        let (mut here, _) = opened(PSU, Allow::ALL).unwrap();
        here.stop();
        let reading = Reading {
            channel: 0,
            value: Value::Watts(1.0),
            begin_ns: 1,
            end_ns: 2,
            wall_ns: 3,
            own_ns: None,
        };
        here.running[0].1 = vec![reading; 2 * MOST + 1];
        let mut all = FarReadings::default();
        let more: Vec<bool> = (0..3)
            .map(|_| {
                let read = here.readings();
                assert!(read.meters[0].readings.len() <= MOST);
                let more = read.more;
                add(&mut all, read);
                more
            })
            .collect();
        assert_eq!(more, [true, true, false]);
        // Those that were read before it was stopped follow.
        assert!(all.meters[0].readings.len() > 2 * MOST);
    }

    #[test]
    fn a_meter_that_cannot_be_opened_is_named_and_a_program_needs_leave() {
        let error = |text: &str, allow| opened(text, allow).err().unwrap();
        let text = error(PSU, Allow::NOTHING);
        assert!(text.contains("`fabric.meters.psu.command`") && text.contains("--allow exec"), "{text}");
        let none = "[meters.chip]\nkind = \"hwmon\"\nchip = \"no-such-chip\"\n";
        assert!(error(none, Allow::ALL).starts_with("the meter `chip`: "), "{}", error(none, Allow::ALL));
    }

    #[test]
    fn times_of_a_reading_are_brought_to_this_hosts_clocks() {
        let mut clocks = Clocks::default();
        clocks.keep(Clock::of(1_000, 51_000, 1_000));
        let own_ns = Some(7);
        let mut reading = Reading {
            channel: 0,
            value: Value::Count(5),
            begin_ns: 52_000,
            end_ns: 53_000,
            wall_ns: 1,
            own_ns,
        };
        bring_here(&mut reading, &clocks, 1_000_000);
        let times = (reading.begin_ns, reading.end_ns, reading.wall_ns, reading.own_ns);
        assert_eq!(times, (2_000, 3_000, 1_003_000, own_ns));
    }
}
