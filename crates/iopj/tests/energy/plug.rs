//! A plug that measures this machine by a law: power follows real CPU time, so the true values are known.
//!
//! 20 W at rest, 30 W for a core that the program under test uses, 2 W for one that others use. Its gain is
//! wrong by 0.3 % (declared: ±0.5 %), its clock by 83 s and 40 ppm. It shows means over 130 ms, asks for a
//! password at `/status`, for a digest where a Shelly of the second generation does, and keeps a log. However
//! late it looks, each mean is over its 130 ms: between two looks the law's joules grow evenly.

use sha2::{Digest as _, Sha256};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(crate) const REST_WATTS: f64 = 20.0;
pub(crate) const CORE_WATTS: f64 = 30.0;
const OTHERS_WATTS: f64 = 2.0;
const GAIN: f64 = 1.003;
/// The rate of the plug's time against the host's raw time.
const RATE: f64 = 1.0 + 40e-6;
/// How far its clock is ahead of wall time.
const AHEAD_S: f64 = 83.217;
/// Time between its values, which are means over it.
pub(crate) const WINDOW_S: f64 = 0.13;

pub(crate) const PASSWORD: &str = "correct-horse-battery";
/// `admin` and the password, as basic authentication has them (RFC 7617).
const AUTHORIZATION: &str = "Basic YWRtaW46Y29ycmVjdC1ob3JzZS1iYXR0ZXJ5";

pub(crate) struct Plug {
    pub(crate) port: u16,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// The program under test; 0 before it runs.
    pid: AtomicI32,
    /// It does not answer.
    silent: AtomicBool,
    over: AtomicBool,
    /// Raw time in s, and joules since the start.
    truth: Mutex<Vec<(f64, f64)>>,
    /// Every value that it has shown: raw time, its own time, W.
    shown: Mutex<Vec<(f64, f64, f64)>>,
    /// Raw times in s of the values that it was asked for.
    asked: Mutex<Vec<f64>>,
    /// Requests that it left unanswered.
    refused: AtomicU32,
    door: Mutex<Door>,
}

impl Plug {
    pub(crate) fn start() -> Plug {
        Plug::start_at(0)
    }

    /// On a loopback port; 0 for any free one.
    fn start_at(port: u16) -> Plug {
        go_first();
        let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        std::thread::spawn(move || measure(&theirs));
        let theirs = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if theirs.over.load(Ordering::Relaxed) {
                    return;
                }
                if theirs.silent.load(Ordering::Relaxed) {
                    theirs.refused.fetch_add(1, Ordering::Relaxed);
                } else {
                    let theirs = Arc::clone(&theirs);
                    std::thread::spawn(move || drop(answer(stream, &theirs)));
                }
            }
        });
        Plug { port, shared }
    }

    pub(crate) fn watch(&self, pid: u32) {
        self.shared.pid.store(pid as i32, Ordering::Relaxed);
    }

    pub(crate) fn be_silent(&self, silent: bool) {
        self.shared.silent.store(silent, Ordering::Relaxed);
    }

    /// How often it was asked while it was silent.
    pub(crate) fn refused(&self) -> u32 {
        self.shared.refused.load(Ordering::Relaxed)
    }

    /// Its values as a log.
    pub(crate) fn log(&self) -> String {
        let line = |(_, time_s, watts): &(f64, f64, f64)| format!("{time_s:.6},{watts:.3}\n");
        let shown = self.shared.shown.lock().unwrap();
        shown.iter().fold("time,power (W)\n".to_owned(), |log, value| log + &line(value))
    }

    /// Whether its reader missed more than one value in a row between two raw times because the machine
    /// paused: a bridge over that is not a measurement.
    pub(crate) fn was_missed(&self, [begin_ns, end_ns]: [u64; 2]) -> bool {
        let asked = self.shared.asked.lock().unwrap();
        let is_gap = |pair: &[f64]| pair[1] - pair[0] > 2.5 * WINDOW_S;
        let overlaps = |pair: &[f64]| pair[0] < end_ns as f64 * 1e-9 && pair[1] > begin_ns as f64 * 1e-9;
        asked.windows(2).any(|pair| is_gap(pair) && overlaps(pair))
    }

    /// The least and the most that the plug can have shown for a window: the law's joules over the window
    /// moved by up to a second to either side, which is more than a found clock's error, and the gain's error
    /// with some rounding.
    pub(crate) fn bounds(&self, [begin_ns, end_ns]: [u64; 2]) -> [f64; 2] {
        let moved = |tenths: u64| [begin_ns, end_ns].map(|ns| ns - 1_000_000_000 + tenths * 100_000_000);
        let joules = (0..=20).map(|tenths| self.joules(moved(tenths)));
        joules.fold([f64::INFINITY, 0.0], |[least, most], one| [least.min(0.99 * one), most.max(1.01 * one)])
    }

    /// The law's joules between two raw times.
    pub(crate) fn joules(&self, [begin_ns, end_ns]: [u64; 2]) -> f64 {
        let truth = self.shared.truth.lock().unwrap();
        let at = |ns: u64| {
            let at_s = ns as f64 * 1e-9;
            let after = truth.partition_point(|(time_s, _)| *time_s <= at_s);
            let ((a_s, a_j), (b_s, b_j)) = (truth[after - 1], truth[after]);
            a_j + (b_j - a_j) * (at_s - a_s) / (b_s - a_s)
        };
        at(end_ns) - at(begin_ns)
    }
}

impl Drop for Plug {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

/// A plug in its own process, which can be killed.
pub(crate) struct PlugProcess(Child);

const PORT: &str = "IOPJ_TEST_PLUG_PORT";

impl PlugProcess {
    /// Starts it at a free port, and returns that.
    pub(crate) fn start() -> (PlugProcess, u16) {
        let free = |_| TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        // Another process may take it before the plug does.
        (0..5)
            .map(free)
            .find_map(|port| Some((PlugProcess::start_at(port)?, port)))
            .expect("no port stays free")
    }

    /// Starts it at a port, and waits until it listens; `None` if it ends because the port is taken.
    pub(crate) fn start_at(port: u16) -> Option<PlugProcess> {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "plug::serves_until_it_is_killed", "--ignored"]).env(PORT, port.to_string());
        let mut plug = PlugProcess(command.stdout(Stdio::null()).spawn().unwrap());
        for _ in 0..1200 {
            let listens = TcpStream::connect(("127.0.0.1", port)).is_ok();
            if plug.0.try_wait().unwrap().is_some() {
                return None;
            }
            if listens {
                return Some(plug);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("no plug listens at {port}");
    }
}

impl Drop for PlugProcess {
    fn drop(&mut self) {
        // SIGKILL: what it had open is reset.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "a process that another test starts and kills"]
fn serves_until_it_is_killed() {
    let _plug = Plug::start_at(std::env::var(PORT).unwrap().parse().unwrap());
    loop {
        std::thread::park();
    }
}

/// A real plug is not delayed by this machine's other work, and a load pattern needs its load to run on time:
/// both get the highest priority if this user may set it.
fn go_first() {
    // SAFETY: takes no pointer. It affects the calling thread, and the threads and processes that it starts
    // from now on.
    let _ = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) };
}

fn measure(shared: &Shared) {
    let (mut ours_s, mut others_s, mut joules, mut last_s) = (0.0, busy_s(), 0.0, raw_s());
    let mut begun = (last_s, joules);
    shared.truth.lock().unwrap().push(begun);
    let offset_s = seconds(libc::CLOCK_REALTIME).unwrap() - last_s + AHEAD_S;
    while !shared.over.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(5));
        let pid = shared.pid.load(Ordering::Relaxed);
        let (now_s, ours_now_s, busy_now_s) = (raw_s(), cpu_s(pid).unwrap_or(ours_s), busy_s());
        // The first look at the program finds what it has used already, which does not matter.
        let ours = if ours_s == 0.0 { 0.0 } else { ours_now_s - ours_s };
        let others = (busy_now_s - others_s - ours).max(0.0);
        joules += REST_WATTS * (now_s - last_s) + CORE_WATTS * ours + OTHERS_WATTS * others;
        (ours_s, others_s, last_s) = (ours_now_s, busy_now_s, now_s);
        let (before_s, before_j) = *shared.truth.lock().unwrap().last().unwrap();
        shared.truth.lock().unwrap().push((now_s, joules));
        while now_s >= begun.0 + WINDOW_S {
            let at_s = begun.0 + WINDOW_S;
            let at_j = before_j + (joules - before_j) * (at_s - before_s) / (now_s - before_s);
            let watts = GAIN * (at_j - begun.1) / WINDOW_S;
            shared.shown.lock().unwrap().push((at_s, offset_s + at_s * RATE, watts));
            begun = (at_s, at_j);
        }
    }
}

/// Answers on a connection until the other end closes it, or the plug goes silent.
fn answer(mut stream: TcpStream, shared: &Shared) -> std::io::Result<()> {
    let mut request: Vec<String> = Vec::new();
    for line in BufReader::new(stream.try_clone()?).lines() {
        let line = line?;
        if !line.is_empty() {
            request.push(line);
            continue;
        }
        if shared.silent.load(Ordering::Relaxed) {
            break;
        }
        let (raw_s, time_s, watts) = shared.shown.lock().unwrap().last().copied().unwrap_or_default();
        shared.asked.lock().unwrap().push(raw_s);
        let joules = shared.truth.lock().unwrap().last().map_or(0.0, |(_, joules)| *joules);
        let header = |line: &String| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("authorization").then(|| value.to_owned())
        };
        let authorization = request.iter().find_map(header).unwrap_or_default();
        let is_second = request.first().is_some_and(|line| line.starts_with(&format!("GET {SECOND} ")));
        let (is_allowed, challenge) = match is_second {
            true => shared.door.lock().unwrap().knock(&authorization),
            false => (authorization == AUTHORIZATION, String::new()),
        };
        request.clear();
        let (status, body) = match (is_allowed, is_second) {
            (true, false) => ("200 OK", format!("{{\"power\": {watts:.3}, \"time\": {time_s:.6}}}")),
            (true, true) => {
                let energy = format!("{{\"total\": {:.3}}}", joules / 3600.0);
                ("200 OK", format!("{{\"id\": 0, \"apower\": {watts:.1}, \"aenergy\": {energy}}}"))
            }
            (false, _) => ("401 Unauthorized", String::new()),
        };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: application/json\r\n{challenge}Content-Length: {}",
            body.len()
        );
        stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes())?;
    }
    Ok(())
}

/// Where a Shelly of the second generation answers.
const SECOND: &str = "/rpc/Switch.GetStatus?id=0";
const REALM: &str = "shellyplugsg3-08b61fcb7f3c";

/// Digest authentication (RFC 7616) as such a plug has it; a nonce is good for five requests.
#[derive(Default)]
struct Door {
    nonce: u32,
    used: u32,
}

impl Door {
    /// Whether these credentials open it, and the header that asks for better ones.
    fn knock(&mut self, authorization: &str) -> (bool, String) {
        let part = |name: &str| {
            let (_, rest) = authorization.split_once(&format!("{name}="))?;
            rest.split(',').next().map(|value| value.trim_matches('"'))
        };
        let nonce = self.nonce.to_string();
        let response = |used: &str, own: &str| {
            let secret = hash(&format!("admin:{REALM}:{PASSWORD}"));
            let request = hash(&format!("GET:{SECOND}"));
            hash(&format!("{secret}:{}:{used}:{own}:auth:{request}", part(" nonce").unwrap_or_default()))
        };
        let is_right = match (part(" nc"), part("cnonce"), part("response")) {
            (Some(used), Some(own), Some(answer)) => response(used, own) == answer,
            _ => false,
        };
        let is_counted = part(" nc") == Some(&format!("{:08x}", self.used + 1)) && self.used < 5;
        if is_right && is_counted && part(" nonce") == Some(&nonce) {
            self.used += 1;
            return (true, String::new());
        }
        (self.nonce, self.used) = (self.nonce + 1, 0);
        let stale = if is_right { ", stale=true" } else { "" };
        let challenge = format!(
            "WWW-Authenticate: Digest qop=\"auth\", realm=\"{REALM}\", nonce=\"{}\", \
             algorithm=SHA-256{stale}\r\n",
            self.nonce
        );
        (false, challenge)
    }
}

fn hash(text: &str) -> String {
    Sha256::digest(text).iter().map(|octet| format!("{octet:02x}")).collect()
}

fn seconds(clock: libc::clockid_t) -> Option<f64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the answer.
    let done = unsafe { libc::clock_gettime(clock, &raw mut time) };
    (done == 0).then_some(time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9)
}

fn raw_s() -> f64 {
    seconds(libc::CLOCK_MONOTONIC_RAW).unwrap()
}

/// CPU time of a process, ended threads included.
fn cpu_s(pid: i32) -> Option<f64> {
    let mut clock = 0;
    // SAFETY: `clock` is a valid place for the answer.
    let found = pid != 0 && unsafe { libc::clock_getcpuclockid(pid, &raw mut clock) } == 0;
    seconds(clock).filter(|_| found)
}

/// CPU time of the whole machine: all of `/proc/stat`'s first line but idle and iowait.
fn busy_s() -> f64 {
    let text = std::fs::read_to_string("/proc/stat").unwrap();
    let ticks: Vec<f64> =
        text.lines().next().unwrap().split_whitespace().skip(1).map(|word| word.parse().unwrap()).collect();
    (ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6]) * 0.01
}
