//! An agent and a host over a real socket: questions, progress, refusals, and every way in which a session
//! ends.

use crate::frame::{SILENCE, ToAgent, VERSION, line_of};
use crate::{Client, FabricError, Handler, Hello, Served, serve};
use iopj_host::settings::Uuid;
use serde_json::{Value, json};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Echoes; says on a channel when it is opened and dropped.
struct Echo(Sender<&'static str>);

impl Handler for Echo {
    fn answer(&mut self, ask: Value, stop: &AtomicBool, note: &dyn Fn(&str)) -> Result<Value, String> {
        match ask.as_str() {
            Some("refuse") => Err("the drive is mounted there".to_owned()),
            Some("wait") => {
                note("waiting");
                while !stop.load(Ordering::Relaxed) {
                    thread::sleep(Duration::from_millis(5));
                }
                self.0.send("stopped").unwrap();
                Ok(Value::Null)
            }
            Some("running") => Ok(json!(!stop.load(Ordering::Relaxed))),
            _ => Ok(json!([ask])),
        }
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.0.send("dropped").unwrap();
    }
}

fn hello(version: u32) -> Hello {
    Hello { version, iopj: "9.9".to_owned(), host: "target".to_owned(), ..Hello::default() }
}

/// An agent at one end of a socket: the other end, how its service ends, and what its handlers say.
fn agent(version: u32) -> (UnixStream, JoinHandle<Served>, Receiver<&'static str>) {
    slow_agent(version, Duration::ZERO)
}

/// The same, which takes so long to begin a session.
fn slow_agent(version: u32, delay: Duration) -> (UnixStream, JoinHandle<Served>, Receiver<&'static str>) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (sender, said) = channel();
    let served = thread::spawn(move || {
        let input = theirs.try_clone().unwrap();
        serve(input, theirs, &hello(version), &mut || {
            thread::sleep(delay);
            sender.send("opened").unwrap();
            Box::new(Echo(sender.clone()))
        })
    });
    (ours, served, said)
}

fn client(stream: &UnixStream) -> Result<Client, FabricError> {
    let streams = (stream.try_clone().unwrap(), stream.try_clone().unwrap());
    Client::begin("storage1", streams, None, "1.0", &AtomicBool::new(false))
}

fn next(said: &Receiver<&'static str>) -> &'static str {
    said.recv_timeout(Duration::from_secs(60)).unwrap()
}

/// What the handlers said from the last session's begin on, once the service has ended. A client says `hello`
/// until it is answered, so on a slow machine a session may begin more than once.
fn latest(said: &Receiver<&'static str>) -> Vec<&'static str> {
    let all: Vec<&str> = said.iter().collect();
    let begin = all.iter().rposition(|text| *text == "opened").unwrap();
    assert!(all[..begin].chunks(2).all(|pair| pair == ["opened", "dropped"]), "{all:?}");
    all[begin..].to_vec()
}

/// Ends both directions, as a connection that is cut.
fn cut(stream: &UnixStream) {
    stream.shutdown(std::net::Shutdown::Both).unwrap();
}

#[test]
fn questions_are_answered_and_refused() {
    let (stream, served, said) = agent(VERSION);
    let mut client = client(&stream).unwrap();
    assert_eq!(client.hello(), &hello(VERSION));
    assert_eq!(client.ask::<Vec<u32>>(&7, &mut |_| {}).unwrap(), [7]);
    let error = client.ask::<Value>(&"refuse", &mut |_| {}).unwrap_err();
    assert_eq!(error.to_string(), "storage1: the drive is mounted there");
    assert_eq!(client.ask::<Vec<u32>>(&8, &mut |_| {}).unwrap(), [8]);
    drop(client);
    cut(&stream);
    assert_eq!(served.join().unwrap(), Served::Ended);
    assert_eq!(latest(&said), ["opened", "dropped"]);
}

/// They were kept until the memory was full.
#[test]
fn a_host_that_asks_without_waiting_is_given_up() {
    let (mut stream, served, said) = agent(VERSION);
    let session = Uuid::random().unwrap();
    let hello = ToAgent::Hello { session: session.clone(), version: VERSION };
    stream.write_all(&line_of(&hello).unwrap()).unwrap();
    for id in 0..1000 {
        let ask = ToAgent::Ask { session: session.clone(), id, ask: json!("wait") };
        if stream.write_all(&line_of(&ask).unwrap()).is_err() {
            break;
        }
    }
    let why = "it asks, and does not wait for answers".to_owned();
    assert_eq!(served.join().unwrap(), Served::Unreadable(why));
    assert_eq!(latest(&said).first(), Some(&"opened"));
}

#[test]
fn a_line_without_end_is_no_end_of_the_stream() {
    let (mut stream, served, _said) = agent(VERSION);
    let part = vec![b'a'; 1 << 20];
    while stream.write_all(&part).is_ok() {}
    let Served::Unreadable(why) = served.join().unwrap() else { panic!("the stream ended") };
    assert!(why.contains("longer than 64 MiB"), "{why}");
}

/// Ctrl-C waited for the end of the question at hand.
#[test]
fn a_question_that_is_stopped_ends_and_stops_no_other() {
    let (stream, served, said) = agent(VERSION);
    let mut client = client(&stream).unwrap();
    let stop = AtomicBool::new(false);
    let stopped = client.ask_until::<Value>(&"wait", &stop, &mut |_| stop.store(true, Ordering::Relaxed));
    assert_eq!(stopped.unwrap(), Value::Null);
    // The next one is stopped before it is read, and the one after it is not.
    assert_eq!(client.ask_until::<Value>(&"wait", &stop, &mut |_| {}).unwrap(), Value::Null);
    let running = client.ask::<Value>(&"running", &mut |_| {});
    assert_eq!(running.unwrap(), json!(true));
    drop(client);
    cut(&stream);
    served.join().unwrap();
    assert_eq!(latest(&said), ["opened", "stopped", "stopped", "dropped"]);
}

/// On an emulated processor beside a build, `hello` was said twice, and tests took that for a failure.
#[test]
fn a_session_that_begins_slowly_is_asked_for_again_and_works() {
    let (stream, served, said) = slow_agent(VERSION, Duration::from_millis(450));
    let mut client = client(&stream).unwrap();
    assert_eq!(client.ask::<Vec<u32>>(&7, &mut |_| {}).unwrap(), [7]);
    drop(client);
    cut(&stream);
    served.join().unwrap();
    assert_eq!(latest(&said), ["opened", "dropped"]);
}

#[test]
fn a_cut_connection_stops_the_answer_and_puts_everything_back() {
    let (stream, served, said) = agent(VERSION);
    let mut client = client(&stream).unwrap();
    let mut noted = Vec::new();
    let cutter = stream.try_clone().unwrap();
    let error = client.ask::<Value>(&"wait", &mut |text| {
        noted.push(text.to_owned());
        cut(&cutter);
    });
    let error = error.unwrap_err().to_string();
    assert!(error.starts_with("storage1: the agent was lost: the connection ended"), "{error}");
    assert_eq!(noted, ["waiting"]);
    assert_eq!(served.join().unwrap(), Served::Ended);
    assert_eq!(latest(&said), ["opened", "stopped", "dropped"]);
}

/// A host that was killed leaves a serial port open: nothing ends there, it only falls silent.
#[test]
fn a_silent_host_is_given_up() {
    let (mut stream, served, said) = agent(VERSION);
    let hello = ToAgent::Hello { session: Uuid::random().unwrap(), version: VERSION };
    let began = Instant::now();
    stream.write_all(&line_of(&hello).unwrap()).unwrap();
    assert_eq!(served.join().unwrap(), Served::Silence);
    assert!(began.elapsed() >= SILENCE);
    assert_eq!([next(&said), next(&said)], ["opened", "dropped"]);
}

#[test]
fn a_new_session_ends_the_one_before() {
    let (mut stream, served, said) = agent(VERSION);
    // What a dead host left in the stream.
    stream.write_all(b"{\"ask\":{\"session\":\"x\"\nhalf a line").unwrap();
    stream.write_all(b"\n").unwrap();
    let old = Uuid::random().unwrap();
    stream.write_all(&line_of(&ToAgent::Hello { session: old.clone(), version: VERSION }).unwrap()).unwrap();
    let stale = ToAgent::Ask { session: old, id: 1, ask: json!("wait") };
    stream.write_all(&line_of(&stale).unwrap()).unwrap();
    let mut client = client(&stream).unwrap();
    assert_eq!(client.ask::<Vec<u32>>(&7, &mut |_| {}).unwrap(), [7]);
    drop(client);
    cut(&stream);
    served.join().unwrap();
    let all: Vec<&str> = said.iter().filter(|text| *text != "stopped").collect();
    assert!(all.len() >= 4 && all.chunks(2).all(|pair| pair == ["opened", "dropped"]), "{all:?}");
}

#[test]
fn two_versions_are_told_apart() {
    let (stream, served, said) = agent(VERSION + 1);
    let error = client(&stream).err().unwrap().to_string();
    assert_eq!(
        error,
        "storage1 runs iopj 9.9 (protocol 3), and this is iopj 1.0 (protocol 2): use the same on both; \
         --push copies this one there"
    );
    cut(&stream);
    served.join().unwrap();
    assert_eq!(said.try_iter().count(), 0, "a session began");
}

#[test]
fn what_answers_instead_of_an_agent_is_quoted() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    theirs.write_all(b"Welcome to storage1\nThis account is not available.\n").unwrap();
    theirs.shutdown(std::net::Shutdown::Write).unwrap();
    let error = client(&ours).err().unwrap().to_string();
    assert_eq!(
        error,
        "storage1: no agent of iopj answered; its last line was `This account is not available.`"
    );
}
