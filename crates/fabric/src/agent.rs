//! The agent's side of a connection: it answers questions one after the other, and ends, with everything put
//! back, when the host does.

use crate::frame::{BEAT, Hello, SILENCE, ToAgent, ToHost, line_of, read_line};
use iopj_host::settings::Uuid;
use serde_json::Value;
use std::io::{BufReader, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long a question may take to end once its host is gone. Then the process ends; the guardian does the
/// rest.
const LAST_CALL: Duration = Duration::from_secs(20);
/// How often the host's silence is looked at.
const LOOK: Duration = Duration::from_millis(200);
/// Questions that wait for their turn. A host asks one at a time.
const MOST_ASKED: usize = 16;
/// All that waits for its turn. A host says `hello` until it is answered.
const MOST_WAITING: usize = 1024;

/// Answers the questions of one session. Dropped, it puts back what it changed.
pub trait Handler {
    /// Answers a question. `stop` becomes true when nobody needs the answer any more; `note` sends a line
    /// to the user.
    ///
    /// # Errors
    /// Why there is no answer: one message with the thing, the cause and the remedy.
    fn answer(&mut self, ask: Value, stop: &AtomicBool, note: &dyn Fn(&str)) -> Result<Value, String>;
}

/// How an agent's service ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Served {
    /// The stream ended.
    Ended,
    /// The stream cannot be read, and why.
    Unreadable(String),
    /// The host was silent for too long.
    Silence,
}

/// What the reading thread passes on.
enum Event {
    Hello(Uuid, u32),
    Ask(Uuid, u64, Value),
    Bye,
    End(Served),
}

/// What the threads of an agent share.
struct Shared {
    output: Mutex<Box<dyn Write + Send>>,
    /// When the host was last heard.
    heard: Mutex<Instant>,
    /// Nobody needs the answer at hand.
    stop: AtomicBool,
    /// The number of the question that was read and is not answered yet.
    asked: Mutex<Option<u64>>,
    /// How many questions were read and have not had their turn yet.
    waiting: AtomicUsize,
    /// The session, once there is one.
    session: Mutex<Option<Uuid>>,
    ended: AtomicBool,
}

impl Shared {
    fn send(&self, frame: &ToHost) {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = line_of(frame).and_then(|line| output.write_all(&line).and_then(|()| output.flush()));
        if sent.is_err() {
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    /// A question was read.
    fn begin(&self, id: u64) {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).replace(id);
    }

    /// Stops a question, unless it is answered.
    fn stop(&self, id: u64) {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if *asked == Some(id) {
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    /// A question is answered: what stopped it stops no other.
    fn end(&self) {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if asked.take().is_some() {
            self.stop.store(false, Ordering::Relaxed);
        }
    }

    fn session(&self) -> Option<Uuid> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn end_session(&self) {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.stop.store(true, Ordering::Relaxed);
    }

    fn silence(&self) -> Duration {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }
}

/// Serves a host until its stream ends or falls silent. `open` makes the handler of a session; a `hello` of
/// another session drops the one before. Lines that are none of ours are passed over: a stream may hold what
/// a dead host wrote.
pub fn serve<'h>(
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
    hello: &Hello,
    open: &mut dyn FnMut() -> Box<dyn Handler + 'h>,
) -> Served {
    let shared = Arc::new(Shared {
        output: Mutex::new(Box::new(output)),
        heard: Mutex::new(Instant::now()),
        stop: AtomicBool::new(false),
        asked: Mutex::new(None),
        waiting: AtomicUsize::new(0),
        session: Mutex::new(None),
        ended: AtomicBool::new(false),
    });
    let (events, received) = sync_channel(MOST_WAITING);
    let reader = Arc::clone(&shared);
    thread::spawn(move || read(input, &reader, &events));
    let beater = Arc::clone(&shared);
    thread::spawn(move || beat(&beater));
    let served = answer_all(&shared, &received, hello, open);
    shared.ended.store(true, Ordering::Relaxed);
    served
}

fn answer_all<'h>(
    shared: &Shared,
    received: &Receiver<Event>,
    hello: &Hello,
    open: &mut dyn FnMut() -> Box<dyn Handler + 'h>,
) -> Served {
    let mut handler: Option<Box<dyn Handler + 'h>> = None;
    loop {
        match received.recv_timeout(LOOK) {
            Ok(Event::Hello(session, version)) => {
                drop(handler.take());
                shared.stop.store(false, Ordering::Relaxed);
                // Another version is told which one this is, and asks nothing.
                handler = (version == hello.version).then(&mut *open);
                shared.send(&ToHost::Hello { session, hello: hello.clone() });
            }
            Ok(Event::Ask(session, id, ask)) => {
                shared.waiting.fetch_sub(1, Ordering::Relaxed);
                let (Some(handler), true) = (&mut handler, shared.session() == Some(session.clone())) else {
                    continue;
                };
                let note = |text: &str| {
                    shared.send(&ToHost::Note { session: session.clone(), text: text.to_owned() })
                };
                let answer = handler.answer(ask, &shared.stop, &note);
                shared.end();
                shared.send(&ToHost::Answer { session: session.clone(), id, answer });
            }
            Ok(Event::Bye) => drop(handler.take()),
            Ok(Event::End(served)) => return served,
            Err(RecvTimeoutError::Disconnected) => return Served::Ended,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if handler.is_some() && shared.silence() > SILENCE {
            return Served::Silence;
        }
    }
}

/// Reads what the host sends until the stream ends.
fn read(input: impl Read, shared: &Shared, events: &SyncSender<Event>) {
    let mut input = BufReader::new(input);
    let end = loop {
        let line = match read_line(&mut input) {
            Ok(Some(line)) => line,
            Ok(None) => break Served::Ended,
            Err(error) => break Served::Unreadable(error.to_string()),
        };
        let Ok(frame) = serde_json::from_str::<ToAgent>(&line) else { continue };
        let event = match frame {
            ToAgent::Hello { session, version } => {
                shared.session.lock().unwrap_or_else(PoisonError::into_inner).replace(session.clone());
                // What the session before still asks is not waited for.
                shared.stop.store(true, Ordering::Relaxed);
                Some(Event::Hello(session, version))
            }
            frame if shared.session() != Some(session_of(&frame)) => continue,
            ToAgent::Beat { .. } => None,
            ToAgent::Bye { .. } => {
                shared.end_session();
                Some(Event::Bye)
            }
            ToAgent::Ask { session, id, ask } => {
                shared.begin(id);
                shared.waiting.fetch_add(1, Ordering::Relaxed);
                Some(Event::Ask(session, id, ask))
            }
            ToAgent::Stop { id, .. } => {
                shared.stop(id);
                None
            }
        };
        *shared.heard.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        let is_flood = shared.waiting.load(Ordering::Relaxed) > MOST_ASKED;
        match event.map_or(Ok(()), |event| events.try_send(event)) {
            Ok(()) if !is_flood => {}
            Ok(()) | Err(TrySendError::Full(_)) => {
                break Served::Unreadable("it asks, and does not wait for answers".to_owned());
            }
            Err(TrySendError::Disconnected(_)) => return,
        }
    };
    // What is not answered yet is not asked any more.
    shared.end_session();
    let _ = events.send(Event::End(end));
    last_call(shared);
}

fn session_of(frame: &ToAgent) -> Uuid {
    match frame {
        ToAgent::Hello { session, .. }
        | ToAgent::Beat { session }
        | ToAgent::Bye { session }
        | ToAgent::Stop { session, .. }
        | ToAgent::Ask { session, .. } => session.clone(),
    }
}

/// Lets the host hear this agent, and looks after the host's silence while a question is being answered.
fn beat(shared: &Shared) {
    let mut last = Instant::now();
    while !shared.ended.load(Ordering::Relaxed) {
        thread::sleep(LOOK);
        let Some(session) = shared.session() else { continue };
        if shared.silence() > SILENCE {
            shared.stop.store(true, Ordering::Relaxed);
            return last_call(shared);
        }
        if last.elapsed() >= BEAT {
            last = Instant::now();
            shared.send(&ToHost::Beat { session });
        }
    }
}

/// Ends the process if it does not end by itself: what it changed is in its journal, and the guardian puts
/// it back.
fn last_call(shared: &Shared) {
    let until = Instant::now() + LAST_CALL;
    while Instant::now() < until {
        if shared.ended.load(Ordering::Relaxed) {
            return;
        }
        thread::sleep(LOOK);
    }
    // SAFETY: `_exit` runs no handler and no destructor, and takes any status.
    unsafe { libc::_exit(3) };
}
