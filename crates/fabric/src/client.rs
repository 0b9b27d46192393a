//! The host's side of a connection to an agent: questions and their answers, beats, and what is said when the
//! agent is gone.

use crate::error::FabricError;
use crate::frame::{BEAT, Hello, SILENCE, ToAgent, ToHost, VERSION, line_of, read_line};
use crate::ssh::Link;
use iopj_host::settings::Uuid;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::io::{self, BufReader, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long an agent may take to answer `hello`: a login may be slow.
const HELLO: Duration = Duration::from_secs(60);
/// How long an agent may take to end a question that it was told to stop: a controller may be slow to go.
const STOPPING: Duration = Duration::from_secs(30);
/// How often the agent's silence is looked at.
const LOOK: Duration = Duration::from_millis(200);

/// A connection to an agent. Dropped, it ends, and the agent puts everything back.
pub struct Client {
    host: String,
    session: Uuid,
    next: u64,
    shared: Arc<Shared>,
    events: Receiver<Event>,
    hello: Hello,
    /// The process that carries the stream, if there is one; dropped last, it is waited for.
    link: Option<Link>,
}

struct Shared {
    output: Mutex<Option<Box<dyn Write + Send>>>,
    heard: Mutex<Instant>,
    ended: AtomicBool,
}

enum Event {
    Hello(Hello),
    Answer(u64, Result<Value, String>),
    Note(String),
    /// A line that is no frame: a banner, or the message of a program that is not there.
    Noise(String),
    End,
}

impl Client {
    /// Begins a session with the agent at the other end of a stream. `host` names it in messages. Where
    /// nothing is lost on the way (`link`), `hello` is said once; else until it is answered.
    ///
    /// # Errors
    /// No agent answers, or one of another version.
    pub(crate) fn begin(
        host: &str,
        (input, output): (impl Read + Send + 'static, impl Write + Send + 'static),
        mut link: Option<Link>,
        ours: &'static str,
        stop: &AtomicBool,
    ) -> Result<Client, FabricError> {
        let session = Uuid::random().map_err(FabricError::io("draw a session's id"))?;
        let shared = Arc::new(Shared {
            output: Mutex::new(Some(Box::new(output))),
            heard: Mutex::new(Instant::now()),
            ended: AtomicBool::new(false),
        });
        let (sender, events) = channel();
        let (reader, of) = (Arc::clone(&shared), session.clone());
        thread::spawn(move || read(input, &reader, &of, &sender));
        let answered = await_hello(host, &session, (&shared, &events), link.is_none(), stop);
        let answered = answered.map_err(|error| match (error, &mut link) {
            (FabricError::NoAgent { host, reason }, Some(link)) => match link.failure() {
                Some(failure) => FabricError::Ssh { host, reason: failure },
                None => FabricError::NoAgent { host, reason },
            },
            (error, _) => error,
        });
        let hello = answered.inspect_err(|_| shared.close())?;
        if hello.version != VERSION {
            shared.close();
            let (host, theirs) = (host.to_owned(), hello.iopj);
            return Err(FabricError::Version { host, theirs, version: hello.version, ours });
        }
        let (beater, of) = (Arc::clone(&shared), session.clone());
        thread::spawn(move || beat(&beater, &of));
        Ok(Client { host: host.to_owned(), session, next: 0, shared, events, hello, link })
    }

    /// Who answers.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// The host's name, as the user gave it.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Asks, and waits for the answer however long it takes, while the agent lets itself be heard. `note`
    /// gets the lines that it sends meanwhile.
    ///
    /// # Errors
    /// [`FabricError::Refused`] with the agent's own message, or [`FabricError::Lost`].
    pub fn ask<R: DeserializeOwned>(
        &mut self,
        ask: &impl Serialize,
        note: &mut dyn FnMut(&str),
    ) -> Result<R, FabricError> {
        self.ask_until(ask, &AtomicBool::new(false), note)
    }

    /// As [`Client::ask`]; once `stop` is true the agent is told to end the question, and has thirty seconds
    /// for it.
    ///
    /// # Errors
    /// As for [`Client::ask`]; most questions that were stopped are refused.
    pub fn ask_until<R: DeserializeOwned>(
        &mut self,
        ask: &impl Serialize,
        stop: &AtomicBool,
        note: &mut dyn FnMut(&str),
    ) -> Result<R, FabricError> {
        self.next += 1;
        let id = self.next;
        let ask = serde_json::to_value(ask)
            .map_err(|error| self.lost(&format!("a question has no form: {error}")))?;
        self.shared
            .send(&ToAgent::Ask { session: self.session.clone(), id, ask })
            .map_err(|error| self.lost(&error.to_string()))?;
        // What was not read while nothing was asked has waited meanwhile.
        self.shared.hear();
        let mut stopped: Option<Instant> = None;
        loop {
            if stopped.is_none() && stop.load(Ordering::Relaxed) {
                stopped = Some(Instant::now());
                // An agent that cannot be told is gone, which the end of its stream says.
                let _ = self.shared.send(&ToAgent::Stop { session: self.session.clone(), id });
            }
            match self.events.recv_timeout(LOOK) {
                Ok(Event::Answer(of, answer)) if of == id => {
                    let value =
                        answer.map_err(|reason| FabricError::Refused { host: self.host.clone(), reason })?;
                    return serde_json::from_value(value)
                        .map_err(|error| self.lost(&format!("its answer cannot be understood ({error})")));
                }
                Ok(Event::Note(text)) => note(&text),
                Ok(Event::End) | Err(RecvTimeoutError::Disconnected) => {
                    let why = self.link.as_mut().and_then(Link::failure);
                    return Err(self.lost(&why.unwrap_or_else(|| "the connection ended".to_owned())));
                }
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            }
            if self.shared.silence() > SILENCE {
                return Err(self.lost(&format!("nothing was heard for {} s", SILENCE.as_secs())));
            }
            if stopped.is_some_and(|since| since.elapsed() > STOPPING) {
                return Err(self.lost(&format!("it does not stop within {} s", STOPPING.as_secs())));
            }
        }
    }

    fn lost(&self, reason: &str) -> FabricError {
        FabricError::Lost { host: self.host.clone(), reason: reason.to_owned() }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // On a line that stays open nothing else ends the session at once.
        let _ = self.shared.send(&ToAgent::Bye { session: self.session.clone() });
        // The agent sees the end of its input, puts everything back, and ends; then the link ends.
        self.shared.close();
        drop(self.link.take());
    }
}

impl Shared {
    fn send(&self, frame: &ToAgent) -> std::io::Result<()> {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        match output.as_mut() {
            Some(output) => output.write_all(&line_of(frame)?).and_then(|()| output.flush()),
            None => Err(std::io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn close(&self) {
        self.ended.store(true, Ordering::Relaxed);
        self.output.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    fn hear(&self) {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn silence(&self) -> Duration {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }
}

/// What comes from the agent. A long answer over a slow link is no silence, though no line of it is whole.
struct Heard<'a, R> {
    input: R,
    shared: &'a Shared,
}

impl<R: Read> Read for Heard<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.input.read(buffer)?;
        if length > 0 {
            self.shared.hear();
        }
        Ok(length)
    }
}

/// Says `hello` and waits for the answer.
fn await_hello(
    host: &str,
    session: &Uuid,
    (shared, events): (&Shared, &Receiver<Event>),
    again: bool,
    stop: &AtomicBool,
) -> Result<Hello, FabricError> {
    let no_agent = |reason: String| FabricError::NoAgent { host: host.to_owned(), reason };
    let hello = || shared.send(&ToAgent::Hello { session: session.clone(), version: VERSION });
    let (began, mut said) = (Instant::now(), Instant::now());
    let mut noise: Option<String> = None;
    hello().map_err(|error| no_agent(format!("the connection ended ({error})")))?;
    while began.elapsed() < HELLO && !stop.load(Ordering::Relaxed) {
        if again && said.elapsed() >= BEAT {
            said = Instant::now();
            hello().map_err(|error| no_agent(format!("the connection ended ({error})")))?;
        }
        match events.recv_timeout(LOOK) {
            Ok(Event::Hello(hello)) => return Ok(hello),
            Ok(Event::Noise(line)) => noise = Some(line),
            Ok(Event::End) | Err(RecvTimeoutError::Disconnected) => {
                let said = noise.map_or_else(String::new, |line| format!("; its last line was `{line}`"));
                return Err(no_agent(format!("no agent of iopj answered{said}")));
            }
            _ => {}
        }
    }
    Err(no_agent(format!("no agent of iopj answered within {} s", HELLO.as_secs())))
}

/// Reads what the agent sends until the stream ends.
fn read(input: impl Read, shared: &Shared, session: &Uuid, events: &Sender<Event>) {
    /// The longest line of noise that is kept.
    const NOISE: usize = 200;
    let mut input = BufReader::new(Heard { input, shared });
    while let Ok(Some(line)) = read_line(&mut input) {
        let event = match serde_json::from_str::<ToHost>(&line) {
            Ok(ToHost::Hello { session: of, hello }) if of == *session => Event::Hello(hello),
            Ok(ToHost::Answer { session: of, id, answer }) if of == *session => Event::Answer(id, answer),
            Ok(ToHost::Note { session: of, text }) if of == *session => Event::Note(text),
            Ok(ToHost::Beat { session: of }) if of == *session => {
                shared.hear();
                continue;
            }
            Ok(_) => continue,
            Err(_) => Event::Noise(line.chars().take(NOISE).collect()),
        };
        shared.hear();
        if events.send(event).is_err() {
            return;
        }
    }
    let _ = events.send(Event::End);
}

/// Lets the agent hear this host.
fn beat(shared: &Shared, session: &Uuid) {
    while !shared.ended.load(Ordering::Relaxed) {
        thread::sleep(BEAT);
        if shared.send(&ToAgent::Beat { session: session.clone() }).is_err() {
            return;
        }
    }
}
