//! A drive whose latencies a test scripts, with the clock that they pass on: what an adaptive engine decides
//! over it is the same each time.

use crate::auto::Auto;
use crate::builder::AutoBuilder;
use crate::clock::{Clock, Crowding};
use crate::engines::{Engines, Source};
use crate::way::Way;
use iopj_engine::{
    Cause, Completion, Counters, DynEngine, Engine, EngineError, IoError, Leaked, Op, Pool, Refused, Request,
    Setup, sealed,
};
use std::cell::{Cell, RefCell};
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::time::Instant;

/// What a poll that finds nothing takes, in ns.
const POLL_NS: u64 = 100;

/// A request as the script sees it.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// The way that it goes. One engine polls and sleeps before polling, so that is [`Way::Poll`] for both.
    pub way: Way,
    /// What it does.
    pub op: Op,
    /// Its bytes.
    pub len: u32,
    /// Requests in flight on this engine, with itself.
    pub in_flight: usize,
    /// The time, in ns.
    pub now_ns: u64,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug)]
pub struct Service {
    /// How long it takes, in ns.
    pub latency_ns: u64,
    /// The caller's CPU time in ns, besides that of polling.
    pub cpu_ns: u64,
    /// How it ends.
    pub end: End,
}

/// How a request ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All bytes are moved.
    Whole,
    /// Half of them are.
    Half,
    /// With an errno.
    Errno(i32),
    /// It and its engine fail, when it is submitted.
    Engine,
}

/// A clock that goes on only when something takes time.
#[derive(Clone, Debug, Default)]
pub struct ScriptedClock(Rc<Times>);

#[derive(Debug, Default)]
struct Times {
    now_ns: Cell<u64>,
    cpu_ns: Cell<u64>,
    crowding: Cell<Option<Crowding>>,
    joules: Cell<f64>,
    /// How often the meter was read.
    readings: Cell<u32>,
}

impl ScriptedClock {
    /// Passes time, all of it or none the caller's CPU time.
    pub fn pass(&self, ns: u64, is_busy: bool) {
        self.0.now_ns.set(self.0.now_ns.get() + ns);
        if is_busy {
            self.work(ns);
        }
    }

    /// Threads and processors from now on.
    pub fn crowd(&self, runnable: u32, processors: u32) {
        self.0.crowding.set(Some(Crowding { runnable, processors }));
    }

    /// The machine draws so much.
    pub fn draw(&self, joules: f64) {
        self.0.joules.set(self.0.joules.get() + joules);
    }

    /// How often the meter was read.
    pub fn readings(&self) -> u32 {
        self.0.readings.get()
    }

    fn work(&self, ns: u64) {
        self.0.cpu_ns.set(self.0.cpu_ns.get() + ns);
    }
}

impl Clock for ScriptedClock {
    fn now_ns(&self) -> u64 {
        self.0.now_ns.get()
    }

    fn cpu_ns(&self) -> u64 {
        self.0.cpu_ns.get()
    }

    fn sleep(&self, ns: u64) {
        self.pass(ns, false);
    }

    fn crowding(&self) -> Option<Crowding> {
        self.0.crowding.get()
    }

    fn joules(&self) -> Option<f64> {
        self.0.readings.set(self.0.readings.get() + 1);
        Some(self.0.joules.get())
    }
}

type Serve = Rc<RefCell<dyn FnMut(Asked) -> Service>>;

/// A drive that serves by a script.
#[derive(Clone)]
pub struct Drive {
    clock: ScriptedClock,
    serve: Serve,
}

impl Drive {
    /// One whose every request `serve` decides.
    pub fn new(serve: impl FnMut(Asked) -> Service + 'static) -> Drive {
        Drive { clock: ScriptedClock::default(), serve: Rc::new(RefCell::new(serve)) }
    }

    /// Its clock.
    pub fn clock(&self) -> &ScriptedClock {
        &self.clock
    }

    /// An engine on it.
    pub fn engine(&self, way: Way, iodepth: u32) -> Box<dyn DynEngine> {
        let iodepth = if way == Way::Sio { 1 } else { iodepth as usize };
        let drive = self.clone();
        Box::new(OnDrive {
            drive,
            way,
            iodepth,
            queued: Vec::new(),
            pending: Vec::new(),
            setup: Setup::default(),
        })
    }
}

impl AutoBuilder {
    /// Opens it over a scripted drive that has `ways`, the fallback among them.
    ///
    /// # Errors
    /// As for [`AutoBuilder::open`].
    pub fn open_on_drive(
        self,
        drive: &Drive,
        ways: &[Way],
        pool: &Pool,
    ) -> Result<Auto<ScriptedClock>, EngineError> {
        let (on, iodepth) = (drive.clone(), pool.count());
        self.open_with(ways, pool, drive.clock.clone(), move |way| Ok(on.engine(way, iodepth)))
    }

    /// Opens it over engines that `open` opens, with a clock.
    ///
    /// # Errors
    /// As for [`AutoBuilder::open`]; those of `open`.
    pub fn open_with<C: Clock>(
        self,
        ways: &[Way],
        pool: &Pool,
        clock: C,
        open: impl FnMut(Way) -> Result<Box<dyn DynEngine>, EngineError> + 'static,
    ) -> Result<Auto<C>, EngineError> {
        let iodepth = self.depth();
        let is_bypass = ways.iter().all(|way| way.is_bypass());
        let chooser = self.chooser(ways.to_vec(), is_bypass)?;
        Auto::start(Engines::new(Source::Script(Box::new(open)), pool, iodepth), chooser, clock, iodepth)
    }
}

struct Pending {
    due_ns: u64,
    end: End,
    request: Request,
}

/// An engine on a [`Drive`].
struct OnDrive {
    drive: Drive,
    way: Way,
    iodepth: usize,
    queued: Vec<Request>,
    pending: Vec<Pending>,
    setup: Setup,
}

impl OnDrive {
    fn take<S: FnMut(Completion)>(&mut self, sink: &mut S) -> usize {
        let now_ns = self.drive.clock.now_ns();
        self.pending.sort_by_key(|pending| pending.due_ns);
        let ready = self.pending.partition_point(|pending| pending.due_ns <= now_ns);
        for Pending { end, request, .. } in self.pending.drain(..ready) {
            let len = request.operation.transfer().map_or(0, |transfer| transfer.len);
            let result = match end {
                End::Whole | End::Engine => Ok(len),
                End::Half => Ok(len / 2),
                End::Errno(errno) => Err(IoError::Os(errno)),
            };
            sink(Completion { tag: request.tag, result, buffers: request.operation.into_buffers() });
        }
        ready
    }
}

impl sealed::Sealed for OnDrive {}

impl Engine for OnDrive {
    fn push(&mut self, request: Request) -> Result<(), Refused> {
        if self.in_flight() >= self.iodepth {
            return Err(Refused::new(request, Cause::Full { iodepth: self.iodepth }.into()));
        }
        self.queued.push(request);
        Ok(())
    }

    fn submit(&mut self) -> Result<(), EngineError> {
        let mut queued = std::mem::take(&mut self.queued).into_iter();
        while let Some(request) = queued.next() {
            let len = request.operation.transfer().map_or(0, |transfer| transfer.len);
            let (op, in_flight) = (request.operation.op(), self.pending.len() + 1);
            let now_ns = self.drive.clock.now_ns();
            let asked = Asked { way: self.way, op, len, in_flight, now_ns };
            let Service { latency_ns, cpu_ns, end } = (self.drive.serve.borrow_mut())(asked);
            self.drive.clock.work(cpu_ns);
            self.pending.push(Pending { due_ns: now_ns + latency_ns, end, request });
            if end == End::Engine {
                self.queued = queued.collect();
                return Err(EngineError::unsupported("the script ended the engine"));
            }
        }
        Ok(())
    }

    fn reap<S: FnMut(Completion)>(&mut self, mut sink: S) -> Result<usize, EngineError> {
        self.drive.clock.pass(POLL_NS, true);
        Ok(self.take(&mut sink))
    }

    fn wait<S: FnMut(Completion)>(
        &mut self,
        min: usize,
        _: Option<Instant>,
        mut sink: S,
    ) -> Result<usize, EngineError> {
        self.submit()?;
        let min = min.min(self.pending.len());
        self.pending.sort_by_key(|pending| pending.due_ns);
        if let Some(last) = min.checked_sub(1) {
            let left_ns = self.pending[last].due_ns.saturating_sub(self.drive.clock.now_ns());
            self.drive.clock.pass(left_ns, self.way.must_be_asked());
        }
        Ok(self.take(&mut sink))
    }

    fn in_flight(&self) -> usize {
        self.queued.len() + self.pending.len()
    }

    fn iodepth(&self) -> usize {
        self.iodepth
    }

    fn supports(&self, _: Op) -> bool {
        true
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn counters(&self) -> Counters {
        let mut counters = Counters::default();
        counters.system_calls = Some(0);
        counters
    }

    fn setup(&self) -> &Setup {
        &self.setup
    }

    fn close(self, _: Instant) -> Result<(), Leaked> {
        Ok(())
    }
}
