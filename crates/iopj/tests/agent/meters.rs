//! Meters of the target host, and the network between the two by itself, over a real ssh server.

use crate::common::{LoopDevice, alone, have_loop, written};
use crate::life::{ask, is_alive, kill, processes};
use crate::refusals::{RUN, refused, study};
use crate::server::{LIMIT, Server, have_sshd};
use iopj_fabric::network::{self, Test, Token};
use iopj_fabric::{Client, Destination, Start};
use serde_json::{Value, json};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn agent(server: &Server) -> Client {
    let (ssh, destination) = (server.ssh(), "target".parse::<Destination>().unwrap());
    let start = Start {
        destination: &destination,
        command: env!("CARGO_BIN_EXE_iopj"),
        push: false,
        ssh: ssh.to_str().unwrap(),
        version: env!("CARGO_PKG_VERSION"),
    };
    start.agent(&AtomicBool::new(false)).unwrap()
}

/// A meter that says 42.5 W a hundred times a second, by a program that this test knows again.
fn psu(folder: &Path) -> Value {
    let script = format!("while echo 42.5; do sleep 0.01; done # {}", folder.display());
    json!({ "kind": "command", "interval": "10ms", "scope": "system", "command": ["sh", "-c", script] })
}

/// The processes that run it.
fn programs(folder: &Path) -> Vec<u32> {
    let mark = format!("done # {}", folder.display());
    let is_one = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.starts_with(b"sh\0-c\0") && String::from_utf8_lossy(&line).contains(&mark) && is_alive(*pid)
    };
    let all: Vec<u32> = processes().filter(is_one).collect();
    // What the shell has just forked still has its words, and may be gone by now.
    all.iter().copied().filter(|pid| parent(*pid).is_some_and(|parent| !all.contains(&parent))).collect()
}

/// The parent of a process (proc(5), the fourth field of `stat`).
fn parent(pid: u32) -> Option<u32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    text.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
}

fn gone(folder: &Path) {
    let until = Instant::now() + LIMIT;
    while !programs(folder).is_empty() {
        assert!(Instant::now() < until, "{:?}", programs(folder));
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn an_agent_reads_meters_by_its_own_clock_and_ends_them() {
    if !have_sshd() {
        return;
    }
    let _alone = alone();
    let server = Server::start();
    let allow = json!({ "exec": true, "secrets": false, "hosts": false });
    let open = json!({ "open_meters": { "meters": { "psu": psu(&server.folder) }, "allow": allow } });
    let mut client = agent(&server);
    let opened = ask(&mut client, open.clone());
    assert_eq!(opened["meters"][0]["name"], "psu", "{opened}");
    assert_eq!(opened["meters"][0]["record"]["kind"], "command");
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    assert_eq!(opened["meters"][0]["record"]["there"]["boot"], boot.trim());
    assert_eq!(programs(&server.folder).len(), 1);
    let before = ask(&mut client, json!("clock")).as_u64().unwrap();
    let mut readings: Vec<Value> = Vec::new();
    let mut take = |client: &mut Client| {
        let read = ask(client, json!("readings"));
        assert_eq!(read["more"], false);
        readings.extend(read["meters"][0]["readings"].as_array().unwrap().iter().cloned());
        readings.last().map_or(0, |last| last["begin_ns"].as_u64().unwrap())
    };
    let until = Instant::now() + LIMIT;
    while take(&mut client) <= before && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    let costs = ask(&mut client, json!("stop_meters"));
    take(&mut client);
    let after = ask(&mut client, json!("clock")).as_u64().unwrap();
    let last = readings.last().unwrap();
    assert!((before..after).contains(&last["end_ns"].as_u64().unwrap()), "{before} {last} {after}");
    assert!(readings.iter().all(|reading| reading["value"]["watts"] == 42.5));
    assert_eq!(costs[0]["readings"], readings.len());
    gone(&server.folder);
    // The end of a session ends what was not stopped, and so does the death of an agent.
    ask(&mut client, open.clone());
    assert_eq!(programs(&server.folder).len(), 1);
    drop(client);
    gone(&server.folder);
    let mut client = agent(&server);
    ask(&mut client, open);
    kill(client.hello().pid);
    gone(&server.folder);
    let error = client.ask::<Value>(&json!("readings"), &mut |_| {}).unwrap_err().to_string();
    assert!(error.starts_with("target: the agent was lost: "), "{error}");
}

/// Before anything is exported or made.
#[test]
fn a_meter_that_the_target_host_cannot_open_is_named_with_its_host() {
    if !have_sshd() || !have_loop() {
        return;
    }
    let _alone = alone();
    let server = Server::start();
    written(&server.folder.join("image"), 1 << 20);
    let device = LoopDevice::new(&server.folder.join("image"), "--direct-io=on");
    let with = |meter: &str| study(&server.folder, device.node(), &format!("meters.psu = {{ {meter} }}"));
    with("kind = \"hwmon\", chip = \"no-such-chip\"");
    refused(&server, RUN, &["target: the meter `psu`: ", "no-such-chip"]);
    with("kind = \"http\", url = \"http://127.0.0.1:9/\", values = [{ pointer = \"/w\" }]");
    refused(&server, RUN, &["target: the meter `psu`: ", "127.0.0.1:9"]);
    // A file of the target host, which has no such password.
    with(
        "kind = \"http\", url = \"http://127.0.0.1:9/\", values = [{ pointer = \"/w\" }], password_file = \
         \"/no/such/password\"",
    );
    refused(&server, RUN, &["target: the meter `psu`: ", "/no/such/password"]);
    // What is wrong with a table is found before anybody logs in.
    with("kind = \"ipmi\", hots = \"192.0.2.9\"");
    let message = refused(&server, RUN, &["unknown key `hots` in [fabric.meters.psu]: did you mean `host`?"]);
    assert!(!message.contains("target: "), "{message}");
    with("kind = \"http\", url = \"http://reader:Hidden1@192.0.2.9\"");
    let message = refused(&server, RUN, &["[fabric.meters.psu]: the address of `url` holds a user"]);
    assert!(!message.contains("Hidden1"), "{message}");
}

#[test]
fn the_network_is_measured_over_a_port_that_is_open_for_that_moment() {
    if !have_sshd() {
        return;
    }
    let _alone = alone();
    let server = Server::start();
    let mut client = agent(&server);
    let stop = AtomicBool::new(false);
    for (test, counts_here) in [(Test::PingPong, true), (Test::Send, false), (Test::Receive, true)] {
        let token = Token::random().unwrap();
        let listen = json!({ "address": HERE, "peer": HERE, "token": token });
        let port = ask(&mut client, json!({ "network": { "listen": listen } })).as_u64().unwrap();
        let to = SocketAddr::new(HERE, u16::try_from(port).unwrap());
        let here = network::run(to, &token, test, &stop).unwrap();
        let there = ask(&mut client, json!({ "network": "counted" }));
        assert_eq!((here.is_some(), there.is_number()), (counts_here, !counts_here), "{test:?}: {there}");
        assert!(here.or(there.as_f64()).unwrap() > 0.0);
        let error = network::run(to, &token, test, &stop).unwrap_err().to_string();
        assert!(error.contains("refused") && error.contains("a firewall may keep"), "{error}");
    }
    let nothing = json!({ "network": "counted" });
    let error = client.ask::<Value>(&nothing, &mut |_| {}).unwrap_err().to_string();
    assert_eq!(error, "target: nothing listens there");
}
