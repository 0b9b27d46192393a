//! Energy of a study: its meters on their threads, idle stretches and load patterns between the trials, and
//! what the store keeps of it, from which the joules are computed.
//!
//! Inside a measured window only the readings themselves happen, on threads that do no I/O of a trial. The
//! store is written between trials.

mod align;
mod attach;
mod both;
mod check;
mod compute;
mod config;
mod far;
mod instrument;
mod kinds;
mod model;
mod open;
mod record;
mod rest;
mod schedule;
mod settle;
mod short_windows;
mod so_far;
mod thread;
mod trace;

pub use attach::{AttachError, LogClock, attach, log_of};
pub use check::{ChannelCheck, MeterCheck, READINGS, ReadingCheck, check};
pub use compute::recompute;
pub use config::{meter_specs, programs, target_meter_specs};
pub use far::{FarHost, FarMeter, FarReadings, OfFarMeter, OpenMeters, OpenedMeters};
pub use model::{FitError, fit};
pub use open::Meters;
pub use record::{MeterRecord, There};
pub use schedule::{GroupPosition, Schedule, positions};
pub use thread::{Cost, RunningMeter, own_threads};
pub use trace::{ChannelPower, SessionPower, traces};

use crate::error::MeteringError;
use crate::progress::{Progress, unix_ns};
use config::MeterSpec;
use far::{FarMeters, Taken};
use iopj_core::energy::TrialEnergy;
use iopj_core::watch::WatchPower;
use iopj_load::native;
use iopj_meter::monotonic_raw_ns;
use iopj_record::Measurement;
use iopj_record::energy::{Mark, MarkKind, ReadingRow};
use iopj_store::Store;
use iopj_study::Study;
use model::ModelText;
use record::row;
use schedule::Past;
use short_windows::ShortWindows;
use so_far::{SoFar, Waiting};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// The meters of a run.
pub struct Metering {
    running: Vec<(RunningMeter, Option<i64>)>,
    /// Those of the target host.
    far: Option<FarMeters>,
    schedule: Schedule,
    session: Option<i64>,
    models: Vec<(MeterSpec, ModelText)>,
    short_windows: Option<ShortWindows>,
    /// Only where somebody follows the run.
    so_far: Option<SoFar>,
    rested: Instant,
    /// What the last rest took, with the wait for power to be flat.
    rest_took: Duration,
    played: Instant,
    /// The user knows that the machine had not settled, or that nobody could see it.
    has_warned: bool,
}

/// What the metering uses of the run: its store, the user's view, and what may end it.
pub struct MeteringContext<'a> {
    /// The store of the run.
    pub store: &'a mut Store,
    /// What the user sees.
    pub progress: &'a mut dyn Progress,
    /// Set by Ctrl-C.
    pub stop: &'a AtomicBool,
    /// The target host, in a study over fabrics.
    pub far: Option<&'a dyn FarHost>,
}

impl Metering {
    /// The metering of a run by its open meters; `None` where there is none. `span` is the time of its
    /// trials.
    ///
    /// # Errors
    /// A time of the study cannot be read.
    pub fn new(
        meters: Meters,
        study: &Study,
        span: Duration,
        progress: &mut dyn Progress,
    ) -> Result<Option<Metering>, MeteringError> {
        if meters.found_none {
            progress.note(
                "no meter was found, so there are no watts: `iopj meter list` says why, and how to get them",
            );
        }
        let schedule = meters.schedule(study, span)?;
        let Meters { running, models, short_windows, far, .. } = meters;
        if !schedule.rests && models.is_empty() {
            return Ok(None);
        }
        Ok(Some(Metering {
            running: running.into_iter().map(|meter| (meter, None)).collect(),
            far,
            schedule,
            session: None,
            models,
            short_windows,
            so_far: progress.follows_meters().then(SoFar::default),
            rested: Instant::now(),
            rest_took: Duration::ZERO,
            played: Instant::now(),
            has_warned: false,
        }))
    }

    /// The meters with their channels, for the provenance.
    pub fn provenance(&self) -> BTreeMap<String, String> {
        let estimate = |(spec, text): &(MeterSpec, ModelText)| {
            (format!("meter.{}", spec.name), format!("model, an estimate of {}", text.scope))
        };
        let fact = |(meter, _): &(RunningMeter, Option<i64>)| {
            let value = MeterRecord::of(&meter.spec, &meter.channels).in_words();
            (format!("meter.{}", meter.spec.name), value)
        };
        let there = self.far.iter().flat_map(FarMeters::provenance);
        self.running.iter().map(fact).chain(self.models.iter().map(estimate)).chain(there).collect()
    }

    /// Begins a session: its meters in the store, the load pattern, the first idle stretch.
    pub fn begin(&mut self, context: &mut MeteringContext<'_>) -> Result<(), MeteringError> {
        // What was read while the file was made goes into no session.
        self.drain(context)?;
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let unix_minus_raw_ns = unix_ns() as i64 - monotonic_raw_ns() as i64;
        let session = context.store.add_session(boot.trim(), unix_minus_raw_ns)?;
        self.session = Some(session);
        for (meter, id) in &mut self.running {
            let record = MeterRecord::of(&meter.spec, &meter.channels);
            let text = serde_json::to_string(&record).unwrap_or_default();
            *id = Some(context.store.add_meter(session, &meter.spec.name, &text)?);
        }
        if let Some(far) = &mut self.far {
            for (name, text, id) in far.records() {
                *id = Some(context.store.add_meter(session, name, &text)?);
            }
        }
        for (spec, text) in &self.models {
            let record = MeterRecord { model: Some(text.clone()), ..MeterRecord::of(spec, &[]) };
            let text = serde_json::to_string(&record).unwrap_or_default();
            context.store.add_meter(session, &spec.name, &text)?;
        }
        self.play(context)?;
        self.rest(context)?;
        // By now a meter has shown how often it gives a value.
        if let Some(short) = &mut self.short_windows {
            for (meter, _) in &self.running {
                short.warn(&meter.spec.name, &meter.cadences(), context.progress);
            }
        }
        Ok(())
    }

    /// The meters' names.
    pub fn names(&self) -> Vec<String> {
        let running = self.running.iter().map(|(meter, _)| meter.spec.name.clone());
        let models = self.models.iter().map(|(spec, _)| spec.name.clone());
        running.chain(models).chain(self.far.iter().flat_map(FarMeters::names)).collect()
    }

    /// When it rests and plays its load pattern.
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    fn past(&self) -> Past {
        Past { rested: self.rested.elapsed(), rest_took: self.rest_took, played: self.played.elapsed() }
    }

    /// What rests and patterns take until the run ends: after a trial that takes `first`, before these, each
    /// with the time that it takes, and after the last.
    pub fn left(&self, first: Duration, trials: impl Iterator<Item = (GroupPosition, Duration)>) -> Duration {
        let past = self.past();
        let past = Past { rested: past.rested + first, played: past.played + first, ..past };
        let aside = self.schedule.left(trials, past);
        aside.idle + aside.patterns
    }

    /// Rests and plays the load pattern before a trial that takes at most `next`, as far as they are due.
    pub fn before_trial(
        &mut self,
        position: GroupPosition,
        next: Duration,
        context: &mut MeteringContext<'_>,
    ) -> Result<(), MeteringError> {
        let due = self.schedule.due(position, next, self.past());
        if due.play {
            self.play(context)?;
        }
        if due.rest { self.rest(context) } else { Ok(()) }
    }

    /// Keeps what was read during a trial, and when the trial loaded the machine.
    pub fn keep(
        &mut self,
        position: u64,
        load_ns: Vec<u64>,
        context: &mut MeteringContext<'_>,
    ) -> Result<(), MeteringError> {
        // A trial that failed has no window, and its load is not known.
        if !load_ns.is_empty() {
            self.mark(Mark { kind: MarkKind::Load, position: Some(position), times_ns: load_ns }, context)?;
        }
        self.drain(context)
    }

    /// Waits for the energy of a trial of this cell, where somebody follows the run.
    pub fn wait_for(&mut self, cell: usize, measured: &Measurement) {
        if let (Some(so_far), Some(window)) = (&mut self.so_far, compute::window(measured)) {
            so_far.wait_for(Waiting { cell, ios: measured.ios, window });
        }
    }

    /// What each channel of this machine's meters read last, and the trials whose energy is known since the
    /// last call.
    pub fn so_far(&mut self) -> (Vec<WatchPower>, Vec<(Waiting, Vec<TrialEnergy>)>) {
        let Some(so_far) = &mut self.so_far else { return Default::default() };
        let meters = self.running.iter().map(|(meter, _)| meter);
        (so_far.power(meters.clone()), so_far.energy(meters))
    }

    /// The last idle stretch and load pattern, the end of the meters, and the joules of all trials.
    pub fn end(mut self, interrupted: bool, context: &mut MeteringContext<'_>) -> Result<(), MeteringError> {
        if !interrupted {
            self.rest(context)?;
            self.play(context)?;
        }
        let here = self.running.iter_mut().map(|(meter, _)| meter.stop().in_words(&meter.spec.name));
        let mut costs: Vec<String> = here.collect();
        if let (Some(meters), Some(host)) = (&mut self.far, context.far) {
            costs.extend(meters.stop(host));
        }
        self.drain(context)?;
        for cost in costs {
            context.store.add_event(unix_ns(), "meter", &cost)?;
        }
        for note in recompute(context.store)? {
            context.progress.note(&format!("warning: {note}"));
        }
        Ok(())
    }

    fn rest(&mut self, context: &mut MeteringContext<'_>) -> Result<(), MeteringError> {
        if !self.schedule.rests {
            return Ok(());
        }
        // What was read since is looked at too.
        self.drain(context)?;
        let (meters, mut there) = (&self.running, self.far.as_mut().zip(context.far));
        let is_read = !meters.is_empty() || there.is_some();
        let mut has_settled = || {
            let is_flat_here = meters.iter().all(|(meter, _)| {
                let (readings, goes_on) = meter.look();
                !goes_on || settle::is_flat(&meter.channels, &readings, settle::stretch(meter.spec.interval))
            });
            is_flat_here && there.as_mut().is_none_or(|(meters, host)| meters.have_settled(*host))
        };
        let progress = &mut *context.progress;
        if is_read {
            let [limit, length] =
                [self.schedule.idle.settle_limit, self.schedule.idle.length].map(iopj_core::format_duration);
            let until = if self.schedule.idle.settle_limit < self.schedule.sees {
                format!("for {limit}")
            } else {
                format!("until its power is flat, {limit} at most")
            };
            progress.note(&format!("leaving the machine idle {until}, and {length} more"));
        }
        let came = Instant::now();
        let passed = self.schedule.idle.pass(&mut has_settled, context.stop, &mut || progress.tick());
        (self.rested, self.rest_took) = (Instant::now(), came.elapsed());
        if let Some((times_ns, settled)) = passed {
            if !settled {
                self.tell_unsettled(context)?;
            }
            self.mark(Mark { kind: MarkKind::Idle, position: None, times_ns }, context)?;
        }
        self.drain(context)
    }

    /// Notes that an idle stretch began before power was flat, or before anybody could see whether it was.
    /// The user is told once.
    fn tell_unsettled(&mut self, context: &mut MeteringContext<'_>) -> Result<(), MeteringError> {
        let limit = iopj_core::format_duration(self.schedule.idle.settle_limit);
        let is_known = self.schedule.idle.settle_limit >= self.schedule.sees;
        let text = if is_known {
            format!(
                "power was not flat after {limit}, so idle power is uncertain: see what else runs, or give \
                 it longer by `settle_limit`"
            )
        } else {
            let seconds = self.schedule.sees.as_secs_f64();
            format!(
                "it is not known whether power was flat after {limit}, because that takes {seconds:.1} s to \
                 see: give it longer by `settle_limit`"
            )
        };
        context.store.add_event(unix_ns(), "meter", &text)?;
        if !std::mem::replace(&mut self.has_warned, true) {
            context.progress.note(&if is_known { format!("warning: {text}") } else { text });
        }
        Ok(())
    }

    fn play(&mut self, context: &mut MeteringContext<'_>) -> Result<(), MeteringError> {
        let Some(pattern) = &self.schedule.pattern else { return Ok(()) };
        let seconds = (pattern.end_ns() - pattern.begin_ns()) / 1_000_000_000;
        let progress = &mut *context.progress;
        progress.note(&format!("playing the load pattern by which a meter's clock is found: {seconds} s"));
        if let Some(times_ns) = rest::play(pattern, context.stop, &mut || progress.tick()) {
            self.mark(Mark { kind: MarkKind::Pattern, position: None, times_ns }, context)?;
        }
        self.played = Instant::now();
        Ok(())
    }

    fn mark(&self, mark: Mark, context: &mut MeteringContext<'_>) -> Result<(), MeteringError> {
        let Some(session) = self.session else { return Ok(()) };
        Ok(context.store.add_mark(session, &mark)?)
    }

    /// Moves what the threads have read into the store if a session has begun, and their notices to the user.
    fn drain(&mut self, context: &mut MeteringContext<'_>) -> Result<(), MeteringError> {
        let so_far = &mut self.so_far;
        let here = self.running.iter_mut().map(|(meter, id)| {
            let (readings, notices) = meter.take();
            so_far.iter_mut().for_each(|so_far| so_far.read(&meter.spec.name, &readings));
            Taken { id: *id, name: meter.spec.name.clone(), readings, notices }
        });
        let mut taken: Vec<Taken> = here.collect();
        if let (Some(meters), Some(host)) = (&mut self.far, context.far) {
            taken.extend(meters.take(host));
            for (_, text, id) in meters.changed_records() {
                id.map_or(Ok(()), |id| context.store.set_meter_record(id, &text))?;
            }
        }
        for Taken { id, name, readings, notices } in taken {
            let rows: Vec<ReadingRow> = readings.iter().filter_map(row).collect();
            if let Some(id) = id {
                context.store.add_readings(id, &rows)?;
            }
            for notice in notices {
                let text = format!("the meter `{name}` {notice}");
                context.progress.note(&format!("warning: {text}"));
                context.store.add_event(unix_ns(), "meter", &text)?;
            }
        }
        Ok(())
    }
}

/// A time of `CLOCK_MONOTONIC` on `CLOCK_MONOTONIC_RAW`, by what both say now: they drift apart by at most
/// 500 ppm.
pub fn raw_ns(monotonic_ns: u64) -> u64 {
    let (at, raw) = native::moment(native::monotonic_ns, monotonic_raw_ns);
    raw.saturating_add_signed(monotonic_ns as i64 - at as i64)
}

#[cfg(test)]
mod tests;
