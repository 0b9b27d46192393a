//! The cost of reading meters: CPU time per reading, and the share of one core at the studies' default
//! intervals. `cargo bench -p iopj-meter --bench load`; it fails if all together take 0.3 % of a core or
//! more.
//!
//! The figure is the CPU time of the whole process minus that of the server's thread, so threads that a
//! reading starts are included. The meter sleeps between readings, as in a study. Files replace sysfs: the
//! kernel's own work, such as reading a socket's register, comes on top.
#![expect(clippy::print_stdout, reason = "a bench speaks to the terminal")]

use iopj_meter::{Meter, http, open_local};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::os::unix::thread::JoinHandleExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

const READINGS: u32 = 300;
/// Between two readings: long enough to sleep, short enough for a bench.
const PAUSE: Duration = Duration::from_millis(10);
/// The most that all meters may take of one core together.
const LIMIT: f64 = 0.003;
/// Intervals of `iopj-run`'s kinds of meters.
const LOCAL_S: f64 = 0.1;
const HTTP_S: f64 = 1.0;

/// Connections that the plug has taken.
static CONNECTIONS: AtomicU32 = AtomicU32::new(0);

fn main() -> ExitCode {
    // Tests are run with benches compiled along; only `cargo bench` asks for figures.
    if !std::env::args().any(|word| word == "--bench") {
        return ExitCode::SUCCESS;
    }
    let folder = tempfile::tempdir().unwrap();
    rapl_tree(folder.path());
    hwmon_tree(folder.path());
    let (server, port) = plug();
    let url = format!("http://127.0.0.1:{port}/status");
    let config = serde_json::json!({"url": url, "values": [{"pointer": "/power"}]});
    let mut meters: [(&str, Box<dyn Meter>, f64); 3] = [
        ("rapl", open_local(folder.path(), "rapl").unwrap(), LOCAL_S),
        ("hwmon", open_local(folder.path(), "hwmon:bench@card").unwrap(), LOCAL_S),
        (
            "http",
            http::open(&serde_json::from_value(config).unwrap(), iopj_core::Allow::NOTHING).unwrap(),
            HTTP_S,
        ),
    ];
    println!("{:<7}{:>9}{:>13}{:>10}{:>14}", "meter", "channels", "us a reading", "interval", "% of a core");
    let mut all = 0.0;
    for (name, meter, interval_s) in &mut meters {
        let reading_s = cost_s(meter.as_mut(), &server);
        let share = reading_s / *interval_s;
        all += share;
        let channels = meter.channels().len();
        println!("{name:<7}{channels:>9}{:>13.1}{interval_s:>8} s{:>14.4}", reading_s * 1e6, share * 100.0);
    }
    println!("{:<39}{:>14.4}", "together", all * 100.0);
    let connections = CONNECTIONS.load(Ordering::Relaxed);
    println!("connections to the plug: {connections}");
    if all < LIMIT && connections == 1 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// CPU time of one reading in s, as a mean, with the sleep before it.
fn cost_s(meter: &mut dyn Meter, server: &JoinHandle<()>) -> f64 {
    let mut readings = Vec::new();
    let spent_s = || clock_s(libc::CLOCK_PROCESS_CPUTIME_ID) - clock_s(clock_of(server));
    meter.read(&mut readings).unwrap();
    let before_s = spent_s();
    for _ in 0..READINGS {
        sleep(PAUSE);
        readings.clear();
        meter.read(&mut readings).unwrap();
    }
    (spent_s() - before_s) / f64::from(READINGS)
}

/// The clock of a thread's CPU time, see pthread_getcpuclockid(3).
fn clock_of(thread: &JoinHandle<()>) -> libc::clockid_t {
    let mut clock = 0;
    // SAFETY: the thread has not been joined, so that its handle is valid; `clock` is a place for the answer.
    assert_eq!(unsafe { libc::pthread_getcpuclockid(thread.as_pthread_t(), &raw mut clock) }, 0);
    clock
}

fn clock_s(clock: libc::clockid_t) -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a place for the answer.
    assert_eq!(unsafe { libc::clock_gettime(clock, &raw mut time) }, 0);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("{text}\n")).unwrap();
}

/// Four sockets, each a package, its cores and its memory: 12 domains.
fn rapl_tree(root: &Path) {
    write(&root.join("proc/cpuinfo"), "vendor_id\t: GenuineIntel\nflags\t\t: fpu");
    let powercap = root.join("sys/class/powercap");
    write(&powercap.join("intel-rapl/enabled"), "1");
    for socket in 0..4 {
        let package = format!("package-{socket}");
        let zones = [(String::new(), package.as_str()), (":0".into(), "core"), (":1".into(), "dram")];
        for (at, (below, name)) in zones.iter().enumerate() {
            let zone = powercap.join(format!("intel-rapl:{socket}{below}"));
            write(&zone.join("name"), name);
            write(&zone.join("max_energy_range_uj"), "262143328850");
            write(&zone.join("energy_uj"), &format!("{}", 1_000_000_000_u64 * (10 * socket + at as u64 + 1)));
        }
    }
}

/// A chip with four rails.
fn hwmon_tree(root: &Path) {
    let chip = root.join("sys/class/hwmon/hwmon0");
    write(&chip.join("name"), "bench");
    for rail in 1..=4 {
        write(&chip.join(format!("power{rail}_input")), "12345678");
    }
    let device = root.join("sys/devices/card");
    fs::create_dir_all(&device).unwrap();
    symlink(device, chip.join("device")).unwrap();
}

/// A plug on the loopback that keeps its connections, one after the other.
fn plug() -> (JoinHandle<()>, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let serve = move || {
        for stream in listener.incoming().flatten() {
            CONNECTIONS.fetch_add(1, Ordering::Relaxed);
            let _ = answer(stream);
        }
    };
    (spawn(serve), port)
}

fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    let body = r#"{"power": 41.7}"#;
    let text = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    for line in BufReader::new(stream.try_clone()?).lines() {
        if line?.is_empty() {
            stream.write_all(text.as_bytes())?;
        }
    }
    Ok(())
}
