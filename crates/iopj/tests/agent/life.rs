//! The agent's life: facts, counts, settings, and that they are back however it ends.

use crate::common::{Alone, LoopDevice, alone, have_loop, written};
use crate::server::{LIMIT, Server, have_sshd};
use iopj_fabric::{Client, Destination, Start};
use serde_json::{Value, json};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// A server, a loop device and a session of an agent that has opened it.
struct Session {
    client: Option<Client>,
    device: LoopDevice,
    server: Server,
    opened: Value,
    /// The device's settings before.
    before: [String; 2],
    _alone: Alone,
}

pub(crate) fn ask(client: &mut Client, ask: Value) -> Value {
    client.ask(&ask, &mut |_| {}).unwrap()
}

impl Session {
    /// With `nomerges` and `read_ahead_kb` of the device changed.
    fn begin() -> Option<Session> {
        if !have_sshd() || !have_loop() {
            return None;
        }
        let alone = alone();
        let server = Server::start();
        let image = server.folder.join("image");
        written(&image, 1 << 20);
        let device = LoopDevice::new(&image, "--direct-io=on");
        let (ssh, destination) = (server.ssh(), "target".parse::<Destination>().unwrap());
        let start = Start {
            destination: &destination,
            command: env!("CARGO_BIN_EXE_iopj"),
            push: false,
            ssh: ssh.to_str().unwrap(),
            version: env!("CARGO_PKG_VERSION"),
        };
        let mut client = start.agent(&AtomicBool::new(false)).unwrap();
        let open = json!({ "open": { "device": device.path, "writes": false, "i_know": false } });
        let opened = ask(&mut client, open);
        let mut session = Session {
            client: Some(client),
            device,
            server,
            opened,
            before: Default::default(),
            _alone: alone,
        };
        session.before = session.queue();
        assert_ne!(session.before, ["2", "256"]);
        for (setting, value) in [("nomerges", "2"), ("read_ahead_kb", "256")] {
            session.ask(json!({ "set": { "setting": setting, "value": value } }));
        }
        assert_eq!(session.queue(), ["2", "256"]);
        Some(session)
    }

    fn ask(&mut self, question: Value) -> Value {
        ask(self.client.as_mut().unwrap(), question)
    }

    fn pid(&self) -> u32 {
        self.client.as_ref().unwrap().hello().pid
    }

    /// The device's settings that are changed here.
    fn queue(&self) -> [String; 2] {
        ["nomerges", "read_ahead_kb"].map(|name| {
            let file = format!("/sys/block/{}/queue/{name}", self.device.name());
            std::fs::read_to_string(file).unwrap().trim().to_owned()
        })
    }

    /// Demands that everything is back, the agent is gone, and no journal of it is left.
    fn is_all_back(&self, pid: u32) {
        let journals = || {
            let entries = std::fs::read_dir("/run/iopj").unwrap().map(|entry| entry.unwrap().file_name());
            let of_agent = |name: &String| name.starts_with(&format!("journal-{pid}-"));
            entries.filter_map(|name| name.into_string().ok()).filter(of_agent).count()
        };
        let until = Instant::now() + LIMIT;
        let is_back = || self.queue() == self.before && journals() == 0 && !is_alive(pid);
        while !is_back() {
            assert!(
                Instant::now() < until,
                "{:?}, {} journals, alive: {}",
                self.queue(),
                journals(),
                is_alive(pid)
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Processes of ssh with this test's configuration.
    fn clients(&self) -> Vec<u32> {
        let config = self.server.folder.join("ssh_config").display().to_string();
        let is_client = |pid: &u32| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(&config)
        };
        processes().filter(is_client).collect()
    }
}

pub(crate) fn processes() -> impl Iterator<Item = u32> {
    std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

pub(crate) fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

pub(crate) fn kill(pid: u32) {
    assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap().success());
}

/// Reads the whole device past the page cache.
fn read_whole(device: &PathBuf) -> u64 {
    #[repr(align(4096))]
    struct Block([u8; 4096]);
    let mut block = Box::new(Block([0; 4096]));
    let direct = libc::O_DIRECT;
    let mut file = std::fs::OpenOptions::new().read(true).custom_flags(direct).open(device).unwrap();
    let mut reads = 0;
    while file.read(&mut block.0).unwrap() > 0 {
        reads += 1;
    }
    reads
}

#[test]
fn an_agent_tells_facts_counts_and_puts_back_at_its_end() {
    let Some(mut session) = Session::begin() else { return };
    let facts = &session.opened["provenance"];
    assert_eq!(facts["devices"], session.device.name());
    assert_eq!(facts["target_bytes"], (1 << 20).to_string());
    assert_eq!(session.client.as_ref().unwrap().hello().architecture, std::env::consts::ARCH);
    session.ask(json!({"begin": {"position": 0}}));
    let reads = read_whole(&session.device.path.clone());
    let counts = session.ask(json!("end"));
    assert_eq!(counts["devices"][0]["reads"], reads);
    assert_eq!(counts["devices"][0]["read_sectors"], reads * 8);
    assert!(counts["context_switches"].as_u64().unwrap() > 0);
    assert!(counts["cpu"]["cores"].as_u64().unwrap() > 0);
    let (first, second) = (session.ask(json!("clock")), session.ask(json!("clock")));
    assert!(first.as_u64().unwrap() < second.as_u64().unwrap());
    let put_back = session.ask(json!("put_back"));
    assert_eq!((put_back["restored"].as_array().unwrap().len(), &put_back["warnings"]), (2, &json!([])));
    assert_eq!(session.queue(), session.before);
    session.ask(json!({ "set": { "setting": "nomerges", "value": "1" } }));
    let pid = session.pid();
    session.client = None;
    // The agent ended before its connection did.
    assert_eq!(session.queue(), session.before);
    session.is_all_back(pid);
    assert_eq!(session.clients().len(), 0);
}

/// A killed agent left its settings until somebody ran `iopj restore` there.
#[test]
fn the_guardian_puts_back_what_a_killed_agent_changed() {
    let Some(mut session) = Session::begin() else { return };
    let pid = session.pid();
    kill(pid);
    session.is_all_back(pid);
    let error = session.client.as_mut().unwrap().ask::<Value>(&json!("clock"), &mut |_| {}).unwrap_err();
    assert!(error.to_string().starts_with("target: the agent was lost: "), "{error}");
}

#[test]
fn an_agent_whose_connection_dies_puts_everything_back() {
    let Some(mut session) = Session::begin() else { return };
    let pid = session.pid();
    let clients = session.clients();
    assert_eq!(clients.len(), 2, "a master, and the agent's");
    clients.into_iter().for_each(kill);
    session.is_all_back(pid);
    let error = session.client.as_mut().unwrap().ask::<Value>(&json!("clock"), &mut |_| {}).unwrap_err();
    assert!(error.to_string().starts_with("target: the agent was lost: "), "{error}");
}

#[test]
fn a_setting_that_is_refused_there_is_named_with_its_host() {
    let Some(mut session) = Session::begin() else { return };
    let bad = json!({ "set": { "setting": "scheduler", "value": "nonsense" } });
    let error = session.client.as_mut().unwrap().ask::<Value>(&bad, &mut |_| {}).unwrap_err().to_string();
    assert!(error.starts_with("target: the kernel refuses `nonsense` for /sys/block/"), "{error}");
    let mounted = json!({ "open": { "device": "/dev/no-such-drive", "writes": false, "i_know": false } });
    let error = session.client.as_mut().unwrap().ask::<Value>(&mounted, &mut |_| {}).unwrap_err().to_string();
    assert!(error.starts_with("target: ") && error.contains("/dev/no-such-drive"), "{error}");
    // The session goes on.
    assert_eq!(session.queue(), ["2", "256"]);
}
