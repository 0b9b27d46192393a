//! Engines on tokio's current-thread runtime: a future per request, and one task that drives the engine.
//!
//! ```
//! use iopj_engine::asynchronous::{AsyncEngine, Done};
//! use iopj_engine::{IoUring, Pool, Target};
//!
//! # let folder = tempfile::tempdir_in(".")?;
//! # let file = &folder.path().join("data");
//! # iopj_engine::target::make_file(file, 1 << 20, &mut |_| true)?;
//! let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! # let done: Result<(), Box<dyn std::error::Error>> =
//! tokio::task::LocalSet::new().block_on(&runtime, async {
//!     let target = Target::open(file)?;
//!     let pool = Pool::new(8, 4096)?;
//!     let engine = AsyncEngine::new(IoUring::builder().iodepth(8).open(&target, &pool)?)?;
//!     let buffer = pool.acquire().ok_or("every buffer is in use")?;
//!     let Done { result, buffer } = engine.read(buffer, 4096, target.data_offset()).await?;
//!     assert_eq!((result?, buffer.len()), (4096, 4096));
//!     Ok(())
//! });
//! # done?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # When requests are submitted
//!
//! A future that is polled for the first time hands its request to the task, which runs after the tasks that
//! are ready. It pushes what it was handed and submits it at once, so futures that begin in one round of the
//! runtime share a system call. A request waits while the engine is full.
//!
//! # Waiting
//!
//! While nothing is in flight, the task sleeps. While something is, it sleeps until the engine's descriptor
//! is readable ([`Engine::descriptor`]). An engine without one (one that polls; `posix-sio`, which blocks the
//! thread during its I/O; `posix-aio`; `libaio` without an eventfd) is asked again and again, with other
//! tasks in between: a core is busy until the last request has completed.
//!
//! # A future that is dropped
//!
//! It does not cancel its request: the kernel or the device may be using the buffer, so the engine keeps it.
//! When the request completes, its buffer goes back to the pool; what a write wrote stays written. A request
//! that still waits for room is withdrawn, and its buffer goes back at once.
//!
//! # The end
//!
//! When the last clone of an [`AsyncEngine`] is dropped, the task waits for what is in flight, drops the
//! engine, and ends. If the runtime ends before, the engine is dropped with the last clone; then, as any
//! engine, it waits for what is in flight for at most five seconds, and blocks the thread.

mod error;
mod flights;

use crate::engine::Engine;
use crate::error::EngineError;
use crate::pool::Buffer;
use crate::request::{Buffers, Completion, IoError, Request};
pub use error::RequestError;
use flights::Flights;
use std::cell::RefCell;
use std::future::poll_fn;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::{Interval, MissedTickBehavior, interval};

/// If no completion came for this long, an engine with a descriptor is asked all the same: a controller that
/// has failed does not interrupt.
const LOOK_AFTER: Duration = Duration::from_millis(100);

/// An engine whose requests are futures. A handle: its clones are the same engine, which stays on its thread.
pub struct AsyncEngine<E: Engine>(Rc<Shared<E>>);

/// The end of a read or a write.
#[derive(Debug)]
pub struct Done {
    /// Bytes moved (fewer than asked for: a partial I/O), or why none were.
    pub result: Result<u32, IoError>,
    /// The request's buffer.
    pub buffer: Buffer,
}

impl<E: Engine + 'static> AsyncEngine<E> {
    /// Starts the task that drives the engine, on the thread of the engine.
    ///
    /// # Errors
    /// The engine's descriptor cannot be waited on: descriptors ran out.
    ///
    /// # Panics
    /// If it is not called within a `LocalSet` of tokio, or a `LocalRuntime`, whose I/O and time drivers are
    /// enabled (`enable_all`).
    pub fn new(engine: E) -> Result<AsyncEngine<E>, EngineError> {
        let state =
            State { engine, flights: Flights::default(), driver: None, called: false, finished: None };
        let shared = Rc::new(Shared(RefCell::new(state)));
        let mut watch = None;
        shared.watch(&mut watch)?;
        let mut look = interval(LOOK_AFTER);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        tokio::task::spawn_local(drive(Driver(Rc::clone(&shared)), watch, look));
        Ok(AsyncEngine(shared))
    }
}

impl<E: Engine> AsyncEngine<E> {
    /// Reads `len` bytes at `offset` into the buffer.
    ///
    /// # Errors
    /// The engine does not take the request, or is finished. A failed read is not an error here, but the
    /// result.
    pub async fn read(&self, buffer: Buffer, len: u32, offset: u64) -> Result<Done, RequestError> {
        self.request(Request::read(buffer, len, offset)).await.map(Done::of)
    }

    /// Writes the buffer's first `len` bytes at `offset`.
    ///
    /// # Errors
    /// As for [`AsyncEngine::read`].
    pub async fn write(&self, buffer: Buffer, len: u32, offset: u64) -> Result<Done, RequestError> {
        self.request(Request::write(buffer, len, offset)).await.map(Done::of)
    }

    /// Makes everything durable whose completion came before.
    ///
    /// # Errors
    /// As for [`AsyncEngine::read`]; and the flush failed.
    pub async fn flush(&self) -> Result<(), RequestError> {
        let completion = self.request(Request::flush()).await?;
        completion.result.map(drop).map_err(RequestError::Failed)
    }

    /// Does any request; its completion has its tag.
    ///
    /// # Errors
    /// As for [`AsyncEngine::read`].
    pub async fn request(&self, request: Request) -> Result<Completion, RequestError> {
        let number = {
            let state = &mut *self.0.0.borrow_mut();
            if let Some(error) = &state.finished {
                return Err(RequestError::Finished(Rc::clone(error)));
            }
            state.flights.add(request)
        };
        let mut wish = Wish { shared: &self.0, number: Some(number) };
        self.0.call();
        poll_fn(|context| wish.poll(context)).await
    }

    /// Calls `act` with the engine: for its counters, or to change how an `nvme-user` engine waits. The task
    /// that drives it then looks at its descriptor anew. `act` must neither push nor reap nor wait: the
    /// futures would not get their completions.
    ///
    /// # Panics
    /// If `act` itself uses this `AsyncEngine`.
    pub fn with<T>(&self, act: impl FnOnce(&mut E) -> T) -> T {
        let result = act(&mut self.0.0.borrow_mut().engine);
        self.0.call();
        result
    }
}

impl<E: Engine> Clone for AsyncEngine<E> {
    fn clone(&self) -> AsyncEngine<E> {
        AsyncEngine(Rc::clone(&self.0))
    }
}

impl<E: Engine> Drop for AsyncEngine<E> {
    fn drop(&mut self) {
        self.0.call();
    }
}

impl Done {
    fn of(completion: Completion) -> Done {
        let Completion { result, buffers: Buffers::One(buffer), .. } = completion else {
            unreachable!("an engine gives the buffer of a transfer back")
        };
        Done { result, buffer }
    }
}

/// A request that has no outcome yet.
struct Wish<'a, E: Engine> {
    shared: &'a Shared<E>,
    /// None once the future has the outcome.
    number: Option<usize>,
}

impl<E: Engine> Wish<'_, E> {
    fn poll(&mut self, context: &Context<'_>) -> Poll<Result<Completion, RequestError>> {
        let number = self.number.expect("a future is not polled again when it is ready");
        let outcome = self.shared.0.borrow_mut().flights.poll(number, context.waker());
        if outcome.is_ready() {
            self.number = None;
        }
        outcome
    }
}

impl<E: Engine> Drop for Wish<'_, E> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.shared.0.borrow_mut().flights.abandon(number);
        }
    }
}

/// What the handles and the driving task share.
struct Shared<E>(RefCell<State<E>>);

struct State<E> {
    engine: E,
    flights: Flights,
    /// Wakes the task that drives the engine.
    driver: Option<Waker>,
    /// There is something to do for it that no completion announces.
    called: bool,
    finished: Option<Rc<EngineError>>,
}

/// What the driving task waits for.
enum Next {
    /// Nothing more: no handle is left, and nothing is in flight.
    End,
    Call,
    Completion,
}

/// A descriptor of the engine, and a duplicate of it in the runtime's I/O driver.
struct Watch {
    of: RawFd,
    duplicate: AsyncFd<OwnedFd>,
}

impl<E> Shared<E> {
    fn call(&self) {
        let mut state = self.0.borrow_mut();
        state.called = true;
        let driver = state.driver.take();
        drop(state);
        driver.into_iter().for_each(Waker::wake);
    }

    /// Ready if the task was called.
    fn poll_call(&self, context: &Context<'_>) -> Poll<()> {
        let state = &mut *self.0.borrow_mut();
        if std::mem::take(&mut state.called) {
            return Poll::Ready(());
        }
        state.driver = Some(context.waker().clone());
        Poll::Pending
    }

    /// Gives every future that waits this error, and those that are to come.
    fn finish(&self, error: EngineError) {
        let state = &mut *self.0.borrow_mut();
        let error = state.finished.get_or_insert(Rc::new(error));
        state.flights.finish(error);
    }

    /// Wakes whose outcome is here.
    fn wake(&self) {
        // A waker may do anything, so nothing is borrowed.
        let woken = self.0.borrow_mut().flights.take_woken();
        woken.into_iter().for_each(Waker::wake);
    }
}

impl<E: Engine> Shared<E> {
    /// Uses the engine unless it is finished, and wakes whose outcome is here; returns how many completions
    /// there were.
    fn act(&self, act: impl FnOnce(&mut E, &mut Flights) -> Result<usize, EngineError>) -> usize {
        let acted = {
            let state = &mut *self.0.borrow_mut();
            if state.finished.is_some() { Ok(0) } else { act(&mut state.engine, &mut state.flights) }
        };
        let found = acted.unwrap_or_else(|error| {
            self.finish(error);
            0
        });
        self.wake();
        found
    }

    /// Pushes what there is room for, and submits it.
    fn submit(&self) {
        self.act(|engine, flights| {
            while engine.in_flight() < engine.iodepth()
                && let Some(request) = flights.next()
            {
                if let Err(refused) = engine.push(request) {
                    flights.refuse(refused);
                }
            }
            // Also what an earlier call left.
            if engine.in_flight() > 0 { engine.submit().map(|()| 0) } else { Ok(0) }
        });
    }

    fn reap(&self) -> usize {
        self.act(|engine, flights| engine.reap(|completion| flights.complete(completion)))
    }

    /// As [`Shared::reap`]; a wait whose time is over, in which an engine also looks after its device.
    fn look(&self) -> usize {
        self.act(|engine, flights| {
            engine.wait(1, Some(Instant::now()), |completion| flights.complete(completion))
        })
    }

    fn is_any_in_flight(&self) -> bool {
        let state = &*self.0.borrow();
        state.finished.is_none() && state.engine.in_flight() > 0
    }

    fn next(self: &Rc<Self>) -> Next {
        let is_busy = {
            let state = &*self.0.borrow();
            let is_any_left = state.engine.in_flight() > 0 || state.flights.is_any_waiting();
            is_any_left && state.finished.is_none()
        };
        match is_busy {
            true => Next::Completion,
            false if Rc::strong_count(self) == 1 => Next::End,
            false => Next::Call,
        }
    }

    /// Watches the descriptor that the engine has now.
    fn watch(&self, watch: &mut Option<Watch>) -> Result<(), EngineError> {
        let state = &*self.0.borrow();
        let descriptor = state.engine.descriptor();
        let now = descriptor.as_ref().map(AsRawFd::as_raw_fd);
        if watch.as_ref().map(|watch| watch.of) == now {
            return Ok(());
        }
        *watch = None;
        if let Some(descriptor) = descriptor {
            let duplicate = descriptor.try_clone_to_owned();
            let duplicate = duplicate.map_err(|error| EngineError::failed("fcntl (F_DUPFD)", error))?;
            // SAFETY: the `AsyncFd` owns the duplicate, which nothing else closes or replaces.
            let duplicate = unsafe { AsyncFd::register_with_interest(duplicate, Interest::READABLE) };
            let duplicate = duplicate.map_err(|error| EngineError::failed("epoll_ctl", error))?;
            *watch = Some(Watch { of: descriptor.as_raw_fd(), duplicate });
        }
        Ok(())
    }

    /// Ready after completions, or if the engine is finished. The runtime hears of the descriptor by edges,
    /// so its readiness is cleared only when the engine has nothing more; what comes later is a new edge.
    fn poll_completions(&self, watch: &Watch, context: &mut Context<'_>) -> Poll<()> {
        let mut found = 0;
        while self.is_any_in_flight() {
            match watch.duplicate.poll_read_ready(context) {
                Poll::Pending if found == 0 => return Poll::Pending,
                Poll::Pending => break,
                Poll::Ready(Ok(mut ready)) => match self.reap() {
                    0 => ready.clear_ready(),
                    more => found += more,
                },
                Poll::Ready(Err(_)) => self.finish(runtime_ended()),
            }
        }
        self.wake();
        Poll::Ready(())
    }
}

/// The driving task's share. When the task ends, however it does, no future waits any longer.
struct Driver<E: Engine>(Rc<Shared<E>>);

impl<E: Engine> Drop for Driver<E> {
    fn drop(&mut self) {
        self.0.finish(runtime_ended());
        self.0.wake();
    }
}

fn runtime_ended() -> EngineError {
    EngineError::unsupported("the runtime on which the engine was driven has ended")
}

async fn drive<E: Engine>(driver: Driver<E>, mut watch: Option<Watch>, mut look: Interval) {
    let shared = &driver.0;
    loop {
        if let Err(error) = shared.watch(&mut watch) {
            shared.finish(error);
        }
        shared.submit();
        if watch.is_none() {
            shared.reap();
        }
        match (shared.next(), &watch) {
            (Next::End, _) => return,
            (Next::Call, _) => {
                poll_fn(|context| shared.poll_call(context)).await;
                look.reset();
            }
            (Next::Completion, None) => tokio::task::yield_now().await,
            (Next::Completion, Some(watch)) => {
                let wait = |context: &mut Context<'_>| {
                    if shared.poll_completions(watch, context).is_ready() {
                        look.reset();
                        return Poll::Ready(());
                    }
                    if look.poll_tick(context).is_ready() {
                        shared.look();
                        return Poll::Ready(());
                    }
                    shared.poll_call(context)
                };
                poll_fn(wait).await;
            }
        }
    }
}
