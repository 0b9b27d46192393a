//! A file that the agent makes on its host: written by trials there, stopped in the middle of one, and gone
//! at the end and after the agent's death.

use crate::common::{Alone, alone, folder, have, is_busy};
use crate::life::{is_alive, kill};
use crate::server::{LIMIT, Server, have_sshd};
use iopj_core::IoPath;
use iopj_fabric::{Client, Destination, Start};
use iopj_study::{Study, plan};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;

/// A session of an agent that has made a file of 4 MiB of data for a study that writes.
struct Session {
    client: Client,
    file: PathBuf,
    opened: Value,
    server: Server,
    _alone: Alone,
}

impl Session {
    fn begin() -> Option<Session> {
        if !have_sshd() {
            return None;
        }
        let alone = alone();
        let server = Server::start();
        let (ssh, destination) = (server.ssh(), "target".parse::<Destination>().unwrap());
        let start = Start {
            destination: &destination,
            command: env!("CARGO_BIN_EXE_iopj"),
            push: false,
            ssh: ssh.to_str().unwrap(),
            version: env!("CARGO_PKG_VERSION"),
        };
        let open = json!({
            "device": &*server.folder, "made_bytes": 4 * MIB, "writes": true, "i_know": false,
        });
        let (client, opened) = loop {
            let mut client = start.agent(&AtomicBool::new(false)).unwrap();
            match client.ask::<Value>(&json!({ "open": open }), &mut |_| {}) {
                Err(error) if is_busy(&error.to_string()) => {}
                opened => break (client, opened.unwrap()),
            }
        };
        let file = PathBuf::from(opened["made"][0].as_str().unwrap());
        Some(Session { client, file, opened, server, _alone: alone })
    }

    /// Measures a trial on the file: random writes, with these keys of the study.
    fn measure(&mut self, keys: &str, stop: &AtomicBool) -> Result<Value, String> {
        let text = format!(
            "name = \"m\"\npaths = \"posix-sio/syscall/interrupt\"\n{keys}\n[fabric]\ntarget_host = \
             \"target\"\nfolder = \"/srv\"\ntransport = \"local\"\n"
        );
        let study = Study::parse(&text, "m").unwrap();
        let path: IoPath = "posix-sio/syscall/interrupt".parse().unwrap();
        let (cells, _) = plan::cells(&study, &[path]).unwrap();
        let measure = json!({
            "cell": cells[0], "seed": 1, "position": 0, "replicate": 0,
            "steadystate": study.steadystate().unwrap(),
        });
        let asked = self.client.ask_until(&json!({ "measure": measure }), stop, &mut |_| {});
        asked.map_err(|error| error.to_string())
    }

    fn pid(&self) -> u32 {
        self.client.hello().pid
    }
}

/// Random writes, so many of them.
fn writes(ios: u64) -> String {
    format!("workload = [{{ rw = \"randwrite\", ios = {ios}, ramp_time = \"0s\" }}]")
}

/// Waits until nothing is left of an agent and its file.
fn is_gone(pid: u32, file: &Path) {
    let until = Instant::now() + LIMIT;
    while is_alive(pid) || file.exists() {
        assert!(Instant::now() < until, "alive: {}, file: {}", is_alive(pid), file.exists());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_file_is_made_there_written_by_both_generators_and_goes_at_the_end() {
    let Some(mut session) = Session::begin() else { return };
    let has_fio = have(Command::new("fio").arg("--version").output().is_ok(), "fio");
    assert_eq!(session.opened["bytes"], 4 * MIB);
    assert_eq!(session.opened["provenance"]["target_bytes"], (4 * MIB).to_string());
    assert_eq!(session.file.parent().unwrap(), fs::canonicalize(&*session.server.folder).unwrap());
    let before = fs::read(&session.file).unwrap();
    assert_eq!(before.len() as u64, 5 * MIB);
    let go_on = AtomicBool::new(false);
    let done = session.measure(&writes(300), &go_on).unwrap();
    assert_eq!(done["measurement"]["writes"], 300);
    assert!(done["measurement"]["fio"].is_null());
    let after = fs::read(&session.file).unwrap();
    assert!(after != before);
    // The header stays: without it the file would not be removed.
    assert!(after[..MIB as usize] == before[..MIB as usize]);
    if has_fio {
        let done = session.measure(&format!("generator = \"fio\"\n{}", writes(200)), &go_on).unwrap();
        assert_eq!(done["measurement"]["writes"], 200);
        assert!(done["measurement"]["fio"].is_object(), "{}", done["measurement"]["fio"]);
    }
    let done: Value = session.client.ask(&json!("put_back"), &mut |_| {}).unwrap();
    let is_gone = |one: &Value| (&one["from"], &one["to"]) == (&json!("present"), &json!("absent"));
    assert!(done["restored"].as_array().unwrap().iter().any(is_gone), "{done}");
    assert!(!session.file.exists());
}

#[test]
fn the_guardian_removes_the_file_of_a_killed_agent() {
    let Some(session) = Session::begin() else { return };
    let pid = session.pid();
    kill(pid);
    is_gone(pid, &session.file);
}

/// Ctrl-C waited for the trial's end.
#[test]
fn a_trial_that_is_stopped_there_ends_and_the_session_goes_on() {
    let Some(mut session) = Session::begin() else { return };
    let (pid, stop) = (session.pid(), AtomicBool::new(false));
    let does_io = || {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        let mut names = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok());
        names.any(|name| name.starts_with("iopj-job"))
    };
    // A trial of ten hours.
    let long = "workload = [{ rw = \"randwrite\", runtime = \"10h\", ramp_time = \"0s\" }]";
    let began = Instant::now();
    let error = std::thread::scope(|scope| {
        scope.spawn(|| {
            let until = Instant::now() + LIMIT;
            while !does_io() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(5));
            }
            stop.store(true, Ordering::Relaxed);
        });
        session.measure(long, &stop).unwrap_err()
    });
    assert!(error.starts_with("target: "), "{error}");
    assert!(began.elapsed() < 2 * LIMIT, "{:?}", began.elapsed());
    let done = session.measure(&writes(10), &AtomicBool::new(false)).unwrap();
    assert_eq!(done["measurement"]["writes"], 10);
    let file = session.file.clone();
    drop(session);
    is_gone(pid, &file);
}

/// Nobody could see before a run over fabrics what it would do.
#[test]
fn a_dry_run_over_fabrics_asks_nobody_and_says_what_the_run_does() {
    let here = &*folder();
    let study = "name = \"far\"\npaths = [\"io_uring/syscall/interrupt\", \"io_uring/syscall/poll\"]\nsize = \
                 \"8m\"\nreplicates = 2\nmeters = false\n[fabric]\ntarget_host = \"no-such-host\"\nfolder = \
                 \"/srv\"\naddress = \"127.0.0.1\"\ntransport = [\"local\", \"tcp\"]\ntarget.governor = \
                 \"performance\"\nhost.mtu = 1400\n[[workload]]\nrw = \"randwrite\"\nios = 100\n";
    fs::write(here.join("far.toml"), study).unwrap();
    let run = |line: &str| {
        // No ssh is found.
        let output = crate::common::iopj(here, line).env("PATH", "/nowhere").output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap(), output.stderr)
    };
    let (status, text, error) = run("run far.toml --allow hosts --dry-run");
    assert_eq!(status, Some(0), "{}", String::from_utf8_lossy(&error));
    for words in [
        "target    no-such-host:/srv, a file of 8m that is made and then removed",
        "class/net/lo/mtu: ",
        "fabric    local: iopj on no-such-host does the I/O on the drive itself",
        "fabric    tcp: no-such-host exports the drive at 127.0.0.1 port 4420",
        "fabric    governor = performance on no-such-host, put back at the end",
        "fabric    the target host was not asked",
    ] {
        assert!(text.contains(words), "`{words}` is not in:\n{text}");
    }
    let (_, plan, _) = run("run far.toml --allow hosts --dry-run --json");
    let plan: Value = serde_json::from_str(&plan).unwrap();
    assert_eq!((&plan["trials"]["least"], &plan["bytes"]["made"]), (&json!(8), &json!(8 << 20)));
    assert_eq!(plan["cells"][0]["settings"]["target.governor"], "performance");
    assert_eq!(fs::read_dir(here).unwrap().count(), 1);
    // What would refuse the run refuses its plan.
    let (status, _, error) = run("run far.toml --allow hosts --dry-run --destroy-data no-such-host:/srv");
    let error = String::from_utf8(error).unwrap();
    assert_eq!(status, Some(2));
    assert!(error.contains("iopj makes the file that it measures on"), "{error}");
}
