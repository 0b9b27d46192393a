//! What is true of a simulated machine: its drive, what software costs on it, and what it draws.

use super::chance::Chance;
use super::recorded::Recorded;
use super::shape::Shape;
use crate::key::{Direction, Kind};
use crate::way::Way;
use serde::Serialize;
use std::sync::Arc;

/// What a target has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ways {
    /// Poll queues, and a kernel that sleeps before it polls.
    Hybrid,
    /// Poll queues; this process sleeps before the kernel polls.
    PollQueues,
    /// No poll queues.
    NoPollQueues,
    /// The driver in this process.
    Taken,
}

impl Ways {
    /// All of them.
    pub(super) const ALL: [Ways; 4] = [Ways::Hybrid, Ways::PollQueues, Ways::NoPollQueues, Ways::Taken];

    /// The ways of such a target.
    pub(super) fn all(self) -> &'static [Way] {
        match self {
            Ways::Hybrid => &[Way::Interrupt, Way::Poll, Way::Hybrid, Way::Sqpoll, Way::Sio],
            Ways::PollQueues => &[Way::Interrupt, Way::Poll, Way::SleepPoll, Way::Sqpoll, Way::Sio],
            Ways::NoPollQueues => &[Way::Interrupt, Way::Sqpoll, Way::Sio],
            Ways::Taken => &[Way::UserInterrupt, Way::UserPoll, Way::UserHybrid],
        }
    }
}

/// A class of drives, by the time of a small read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DriveClass {
    /// Below 15 us: low-latency flash.
    LowLatency,
    /// Below 150 us: flash.
    Flash,
    /// Below 1 ms: virtio, a network.
    Network,
    /// 1 ms and more: a disk.
    Disk,
}

impl DriveClass {
    /// Every class.
    pub const ALL: [DriveClass; 4] =
        [DriveClass::LowLatency, DriveClass::Flash, DriveClass::Network, DriveClass::Disk];

    pub(super) fn of(read_ns: f64) -> DriveClass {
        match read_ns {
            ..15e3 => DriveClass::LowLatency,
            ..150e3 => DriveClass::Flash,
            ..1e6 => DriveClass::Network,
            _ => DriveClass::Disk,
        }
    }
}

/// A drive.
#[derive(Clone, Debug)]
pub(super) struct Drive {
    /// Mean time of a read of 4 KiB, alone.
    pub(super) read_ns: f64,
    /// A write's over a read's.
    write: f64,
    /// What each further KiB adds.
    per_kib_ns: f64,
    /// I/Os that it works on at once.
    pub(super) parallelism: f64,
    /// How sharply latency turns where something is full.
    pub(super) sharpness: f64,
    shape: Shape,
    /// What was recorded of it, which is then what it takes.
    recorded: Option<Arc<Recorded>>,
}

impl Drive {
    fn draw(chance: &mut Chance) -> Drive {
        let read_ns = chance.over(3e3, 10e6);
        Drive {
            read_ns,
            write: chance.over(0.3, 3.0),
            per_kib_ns: chance.over(100.0, 2000.0),
            parallelism: chance.over(1.0, 256.0),
            sharpness: chance.between(2.0, 8.0),
            shape: Shape::draw_one(chance),
            recorded: None,
        }
    }

    /// One that was recorded. How sharply latency turns where a thread is full is drawn.
    fn of_record(recorded: &Arc<Recorded>, chance: &mut Chance) -> Drive {
        Drive {
            read_ns: recorded.least_ns(),
            parallelism: recorded.parallelism(),
            sharpness: chance.between(2.0, 8.0),
            write: 1.0,
            per_kib_ns: 0.0,
            shape: Shape::of(Vec::new()),
            recorded: Some(Arc::clone(recorded)),
        }
    }

    /// How the times of a kind scatter.
    pub(super) fn shape(&self, kind: Kind) -> &Shape {
        self.recorded.as_ref().and_then(|recorded| recorded.shape(kind)).unwrap_or(&self.shape)
    }

    /// Mean time of an I/O where so many are in flight in a closed loop, if that was recorded; otherwise
    /// alone.
    pub(super) fn served_ns(&self, kind: Kind, in_flight: Option<u32>) -> f64 {
        match (&self.recorded, in_flight) {
            (Some(recorded), Some(in_flight)) => recorded.mean_ns(kind, in_flight),
            _ => self.service_ns(kind),
        }
    }

    /// I/Os that it works on at once in a closed loop: any number where what was recorded has their waiting
    /// in it.
    pub(super) fn servers(&self) -> f64 {
        if self.recorded.is_some() { f64::INFINITY } else { self.parallelism }
    }

    /// Mean time of an I/O, alone.
    pub(super) fn service_ns(&self, kind: Kind) -> f64 {
        if let Some(recorded) = &self.recorded {
            return recorded.mean_ns(kind, 1);
        }
        let small = if kind.direction() == Direction::Write { self.write } else { 1.0 } * self.read_ns;
        small + self.per_kib_ns * f64::from(kind.most_bytes().saturating_sub(4096) / 1024)
    }
}

/// What software takes, in ns.
#[derive(Clone, Debug)]
pub(super) struct Software {
    /// A request through a ring, and its completion.
    pub(super) ring: f64,
    /// The same by a system call of its own.
    pub(super) call: f64,
    /// The same where a thread of the kernel's submits.
    pub(super) queue: f64,
    /// The same in this process's driver.
    pub(super) doorbell: f64,
    /// An interrupt.
    pub(super) interrupt: f64,
    /// From a wake-up until the thread runs.
    pub(super) wake: f64,
    /// What of that is work of the processor.
    pub(super) wake_cpu: f64,
    /// How much later than asked a timer wakes the thread.
    pub(super) timer: f64,
    /// CPU time of that.
    pub(super) timer_cpu: f64,
    /// One turn of a loop that polls.
    pub(super) turn: f64,
    /// How much of the other I/Os in flight is complete when one wakes the thread, as a share.
    pub(super) gathered: f64,
    /// What a way takes more or less than its parts say.
    pub(super) deviation: [f64; Way::COUNT],
}

impl Software {
    fn draw(chance: &mut Chance) -> Software {
        let ring = chance.over(500.0, 3e3);
        let (interrupt, wake, timer) =
            (chance.over(200.0, 3e3), chance.over(300.0, 17e3), chance.over(500.0, 20e3));
        Software {
            ring,
            call: ring * chance.between(0.6, 1.2),
            queue: chance.over(200.0, 1e3),
            doorbell: chance.over(100.0, 600.0),
            interrupt,
            wake,
            wake_cpu: wake * chance.between(0.3, 0.9),
            timer,
            timer_cpu: timer.min(3e3) * chance.between(0.3, 0.9),
            turn: chance.over(50.0, 500.0),
            gathered: chance.between(0.0, 1.0),
            deviation: [(); Way::COUNT].map(|()| chance.between(0.9, 1.1)),
        }
    }
}

/// What the machine draws.
#[derive(Clone, Debug)]
pub(super) struct Power {
    /// W with idle cores.
    pub(super) idle_w: f64,
    /// W more for each core that works.
    pub(super) core_w: f64,
    /// J of a wake-up.
    pub(super) wake_j: f64,
}

impl Power {
    fn draw(chance: &mut Chance) -> Power {
        let (idle_w, core_w) = (chance.over(1.0, 150.0), chance.over(0.5, 15.0));
        Power { idle_w, core_w, wake_j: core_w * chance.over(1e-7, 1e-5) }
    }

    /// J of an I/O that comes `time_ns` after the one before.
    pub(super) fn joules(&self, time_ns: f64, cpu_ns: f64, wakes: f64) -> f64 {
        1e-9 * (self.idle_w * time_ns + self.core_w * cpu_ns) + self.wake_j * wakes
    }
}

/// A machine and its drive.
#[derive(Clone, Debug)]
pub(super) struct Truth {
    pub(super) has: Ways,
    pub(super) drive: Drive,
    pub(super) software: Software,
    pub(super) cores: u32,
    pub(super) power: Power,
}

impl Truth {
    /// One whose target has these ways, with a drive that is drawn, or the one that was recorded.
    pub(super) fn draw(has: Ways, recorded: Option<&Arc<Recorded>>, chance: &mut Chance) -> Truth {
        Truth {
            has,
            drive: match recorded {
                Some(recorded) => Drive::of_record(recorded, chance),
                None => Drive::draw(chance),
            },
            software: Software::draw(chance),
            cores: chance.over(1.0, 33.0) as u32,
            power: Power::draw(chance),
        }
    }

    /// The same as a model has it whose parts are each wrong by up to a share of them, and which knows of no
    /// deviation from their sum.
    pub(super) fn misstated(&self, share: f64, chance: &mut Chance) -> Truth {
        let mut wrong = self.clone();
        let Truth { drive, software, power, .. } = &mut wrong;
        for part in [
            &mut drive.read_ns,
            &mut drive.write,
            &mut drive.per_kib_ns,
            &mut drive.parallelism,
            &mut software.ring,
            &mut software.call,
            &mut software.queue,
            &mut software.doorbell,
            &mut software.interrupt,
            &mut software.wake,
            &mut software.wake_cpu,
            &mut software.timer,
            &mut software.timer_cpu,
            &mut software.turn,
            &mut software.gathered,
            &mut power.idle_w,
            &mut power.core_w,
            &mut power.wake_j,
        ] {
            *part *= chance.between(1.0 - share, 1.0 + share);
        }
        drive.parallelism = drive.parallelism.max(1.0);
        software.gathered = software.gathered.min(1.0);
        software.deviation = [1.0; Way::COUNT];
        wrong
    }

    pub(super) fn ways(&self) -> &'static [Way] {
        self.has.all()
    }

    pub(super) fn fallback(&self) -> Way {
        Way::fallback(self.has == Ways::Taken)
    }
}
