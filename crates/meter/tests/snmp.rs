//! The SNMP meter against net-snmp's `snmpd`, which serves the variables of two families of power
//! distribution units.

mod daemon;

use daemon::{Daemon, missing, on_a_free_port};
use iopj_meter::{ChannelKind, Meter, MeterError, OpenError, SnmpConfig, Value, open_snmp};
use serde_json::json;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

const COMMUNITY: &str = "rack-7-community";
const AUTH: &str = "auth-pass-phrase";
const PRIVACY: &str = "privacy-pass-phrase";

/// An agent with its folder.
struct Agent {
    folder: TempDir,
    port: u16,
    daemon: Option<Daemon>,
}

impl Agent {
    fn start() -> Option<Self> {
        if missing("snmpd", "/usr/sbin/snmpd") {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("community"), format!("{COMMUNITY}\n")).unwrap();
        fs::write(at("auth"), AUTH).unwrap();
        fs::write(at("privacy"), PRIVACY).unwrap();
        fs::write(at("wrong"), "not the pass phrase").unwrap();
        let script =
            "[ \"$2\" = -g ] && awk -v oid=\"$3\" '$1 == oid { print $1; print $2; print $3 }' \"$1\"\n";
        fs::write(at("pass.sh"), script).unwrap();
        let pass = format!("/bin/sh {} {}", at("pass.sh").display(), at("variables").display());
        let users = format!(
            "rocommunity {COMMUNITY} 127.0.0.1\ncreateUser plain\nrouser plain noauth\ncreateUser short SHA \
             \"{AUTH}\" AES \"{PRIVACY}\"\nrouser short auth\ncreateUser long SHA-256 \"{AUTH}\" AES \
             \"{PRIVACY}\"\nrouser long priv\npass .1.3.6.1.4.1.318.1.1.26 {pass}\npass \
             .1.3.6.1.4.1.13742.6 {pass}\n"
        );
        fs::write(at("snmpd.conf"), users).unwrap();
        let mut agent = Self { folder, port: 0, daemon: None };
        agent.serve(218);
        let (port, daemon) = on_a_free_port(|port| agent.daemon("state", port));
        (agent.port, agent.daemon) = (port, Some(daemon));
        Some(agent)
    }

    /// The units' values, with this many W at APC's outlet 3.
    fn serve(&self, outlet_watts: u32) {
        let apc = ".1.3.6.1.4.1.318.1.1.26";
        let raritan = ".1.3.6.1.4.1.13742.6";
        let text = format!(
            "{apc}.9.4.3.1.7.3 integer {outlet_watts}\n{apc}.9.4.3.1.7.4 integer -1\n{apc}.9.4.3.1.11.3 \
             gauge 12345\n{apc}.4.3.1.5.1 integer 123\n{apc}.4.3.1.9.1 counter \
             4294967295\n{raritan}.5.4.3.1.4.1.3.5 gauge 2187\n{raritan}.3.5.4.1.7.1.3.5 gauge \
             1\n{raritan}.5.4.3.1.4.1.3.8 gauge 987654\n{raritan}.3.5.4.1.7.1.3.8 gauge \
             0\n{raritan}.5.2.3.1.4.2.1.5 gauge 1801\n{raritan}.3.3.4.1.7.2.1.5 gauge \
             0\n{raritan}.5.2.3.1.4.1.1.8 gauge 55\n{raritan}.3.3.4.1.7.1.1.8 gauge 3\n"
        );
        fs::write(self.path("variables"), text).unwrap();
    }

    /// Starts it again.
    fn run(&mut self, state: &str) {
        self.daemon = Some(self.daemon(state, self.port));
    }

    /// Its engine and its count of boots belong to `state`.
    fn daemon(&self, state: &str, port: u16) -> Daemon {
        let state = self.path(state);
        fs::create_dir_all(&state).unwrap();
        let conf = self.path("snmpd.conf");
        let listen = format!("udp:127.0.0.1:{port}");
        Daemon::start(
            std::process::Command::new("/usr/sbin/snmpd")
                .args(["-f", "-Lo", "-C", "-I", "-smux", "-c"])
                .args([conf.as_os_str(), listen.as_ref()])
                .env("SNMP_PERSISTENT_DIR", &state),
        )
    }

    fn stop(&mut self) {
        self.daemon = None;
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    /// A meter's configuration: outlet 3's power unless `changes` say otherwise.
    fn config(&self, changes: serde_json::Value) -> SnmpConfig {
        let mut all = json!({
            "host": format!("127.0.0.1:{}", self.port),
            "timeout_ms": 30_000, "retries": 2,
            "channels": [{ "name": "outlet 3", "preset": "apc-outlet-power", "index": 3 }],
        });
        all.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        serde_json::from_value(all).unwrap()
    }

    fn v2c(&self) -> SnmpConfig {
        self.config(json!({ "community_file": self.path("community") }))
    }

    fn user(&self, user: &str, auth: Option<(&str, &Path)>, privacy: Option<&Path>) -> SnmpConfig {
        let mut changes = json!({ "version": "3", "user": user });
        if let Some((protocol, file)) = auth {
            changes["auth"] = json!(protocol);
            changes["auth_password_file"] = json!(file);
        }
        if let Some(file) = privacy {
            changes["privacy"] = json!("aes128");
            changes["privacy_password_file"] = json!(file);
        }
        self.config(changes)
    }

    /// The agent needs a moment after its start; then a meter opens.
    fn open(&self, config: &SnmpConfig) -> Box<dyn Meter> {
        daemon::wait_for(|| opened_snmp(config))
    }
}

fn read(meter: &mut dyn Meter) -> Result<Vec<Value>, MeterError> {
    let mut out = Vec::new();
    meter.read(&mut out)?;
    assert!(
        out.iter()
            .all(|reading| 0 < reading.begin_ns && reading.begin_ns <= reading.end_ns && reading.wall_ns > 0)
    );
    Ok(out.iter().map(|reading| reading.value).collect())
}

fn refusal(config: &SnmpConfig) -> String {
    let text = opened_snmp(config).err().expect("must be refused").to_string();
    let shown = format!("{text} {config:?}");
    assert!(
        [COMMUNITY, AUTH, PRIVACY, "not the pass phrase"].iter().all(|secret| !shown.contains(secret)),
        "{shown}"
    );
    text
}

/// For an agent that is silent: it need not be waited for.
fn silence(config: SnmpConfig) -> String {
    refusal(&SnmpConfig { timeout_ms: 600, ..config })
}

#[test]
fn presets_of_both_families_give_watts_and_joules() {
    let Some(agent) = Agent::start() else { return };
    let channel = |preset: &str, index: u32| json!({ "name": preset, "preset": preset, "index": index });
    let mut config = agent.v2c();
    let mut second = channel("raritan-inlet-power", 1);
    second["chain"] = json!(2);
    let channels = json!([
        channel("apc-outlet-power", 3),
        channel("apc-outlet-energy", 3),
        channel("apc-device-power", 1),
        channel("apc-device-energy", 1),
        channel("raritan-outlet-power", 3),
        channel("raritan-outlet-energy", 3),
        second,
        channel("raritan-inlet-energy", 1),
    ]);
    config.channels = serde_json::from_value(channels).unwrap();
    let mut meter = agent.open(&config);
    let watts = [218.0, 1230.0, 1801.0].map(Value::Watts);
    let read = read(meter.as_mut()).unwrap();
    assert_eq!([read[0], read[2], read[6]], watts);
    assert_eq!(read[1], Value::Count(12_345));
    assert_eq!(read[3], Value::Count(4_294_967_295));
    assert_eq!(read[4], Value::Watts(2187.0 * 0.1));
    assert_eq!([read[5], read[7]], [Value::Count(987_654), Value::Count(55)]);
    let unit = |channel: usize| match meter.channels()[channel].kind {
        ChannelKind::Counter { joules_per_count, wrap } => (joules_per_count, wrap.unwrap().range),
        other => panic!("channel {channel} is {other:?}"),
    };
    assert_eq!([unit(1), unit(3)], [(360e3, 1 << 32); 2]);
    assert_eq!(unit(5), (3600.0, 1 << 32));
    assert!((unit(7).0 - 3.6).abs() < 1e-12, "mWh");
    assert_eq!(meter.channels()[4].resolution, 0.1);
}

#[test]
fn every_security_level_of_version_3_reads_and_survives_restarts() {
    let Some(mut agent) = Agent::start() else { return };
    let (auth, privacy) = (agent.path("auth"), agent.path("privacy"));
    let configs = [
        agent.v2c(),
        agent.user("plain", None, None),
        agent.user("short", Some(("sha1", &auth)), None),
        agent.user("short", Some(("sha1", &auth)), Some(&privacy)),
        agent.user("long", Some(("sha256", &auth)), Some(&privacy)),
    ];
    let mut meters: Vec<_> = configs.iter().map(|config| agent.open(config)).collect();
    let all_read = |meters: &mut Vec<Box<dyn Meter>>, watts: f64| {
        for meter in meters {
            let value = daemon::wait_for(|| read(meter.as_mut()));
            assert_eq!(value, [Value::Watts(watts)]);
        }
    };
    all_read(&mut meters, 218.0);
    // The same agent again: one boot more. Then another: a new engine, its boots counted from 1.
    for (state, watts) in [("state", 219), ("other", 220)] {
        agent.stop();
        for meter in &mut meters {
            let error = read(meter.as_mut()).unwrap_err();
            assert!(
                matches!(&error, MeterError::Retry(text) if text.contains("SNMP agent at `127.0.0.1:")),
                "{error}"
            );
        }
        agent.serve(watts);
        agent.run(state);
        all_read(&mut meters, f64::from(watts));
    }
}

#[test]
fn wrong_secrets_and_missing_outlets_are_said_clearly() {
    let Some(agent) = Agent::start() else { return };
    drop(agent.open(&agent.v2c()));
    let (auth, wrong) = (agent.path("auth"), agent.path("wrong"));
    let silent = silence(agent.config(json!({ "community_file": wrong })));
    assert!(silent.contains("does not know the community"), "{silent}");
    let public = silence(agent.config(json!({})));
    assert!(public.contains("does not know the community"), "{public}");
    let user = refusal(&agent.user("nobody", Some(("sha1", &auth)), None));
    assert!(user.contains("does not know the user"), "{user}");
    let password = refusal(&agent.user("short", Some(("sha1", &wrong)), None));
    assert!(password.contains("found the authentication wrong"), "{password}");
    let protocol = refusal(&agent.user("short", Some(("sha256", &auth)), None));
    assert!(protocol.contains("found the authentication wrong"), "{protocol}");
    let level = refusal(&agent.user("plain", Some(("sha1", &auth)), None));
    assert!(level.contains("refuses this user with these passwords alone"), "{level}");
    let demanded = refusal(&agent.user("long", Some(("sha256", &auth)), None));
    assert!(demanded.contains("error status 16"), "{demanded}");
    // On a busy machine the agent's answers before that may come too late.
    let mut privacy_wrong =
        (0..10).map(|_| silence(agent.user("long", Some(("sha256", &auth)), Some(&wrong))));
    assert!(privacy_wrong.any(|text| text.contains("or a password is wrong")));
    let mut config = agent.v2c();
    config.channels[0].index = Some(99);
    let absent = refusal(&config);
    assert!(absent.contains("no variable 1.3.6.1.4.1.318.1.1.26.9.4.3.1.7.99"), "{absent}");
    config.channels[0].index = Some(4);
    assert!(refusal(&config).contains("not measured"));
}

fn opened_snmp(config: &SnmpConfig) -> Result<Box<dyn Meter>, OpenError> {
    open_snmp(config, iopj_core::Allow::NOTHING)
}
