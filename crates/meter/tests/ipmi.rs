//! The IPMI meter through the real `ipmitool`, over RMCP+, against OpenIPMI's simulated BMC with a DCMI power
//! reading.

mod daemon;

use daemon::{Daemon, missing, on_a_free_port, wait_for};
use iopj_meter::{ChannelKind, IpmiConfig, Meter, MeterError, OpenError, Value, open_ipmi};
use serde_json::json;
use std::fs;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

const PASSWORD: &str = "s3cret-of-bmc";

/// A module for `ipmi_sim` that answers DCMI's Get Power Reading (group 0xdc) with the octets in a file,
/// which can change.
const DCMI_MODULE: &str = r#"
#include <stdio.h>
#include <string.h>
struct lmc_data_s; struct msg_s; struct sys_data_s;
void ipmi_emu_register_group_extension_handler(unsigned char group,
    void (*handler)(struct lmc_data_s *, struct msg_s *, unsigned char *, unsigned int *, void *),
    void *data);
static char path[4096];
static void power(struct lmc_data_s *mc, struct msg_s *msg, unsigned char *answer, unsigned int *length,
    void *data) {
    FILE *file = fopen(path, "rb");
    *length = file ? fread(answer, 1, 18 + 1, file) : 0;
    if (file) fclose(file);
    if (!*length) { answer[0] = 0xc1; *length = 1; }
}
int ipmi_sim_module_print_version(struct sys_data_s *sys, const char *options) { return 0; }
int ipmi_sim_module_init(struct sys_data_s *sys, const char *options) {
    strncpy(path, options, sizeof path - 1);
    ipmi_emu_register_group_extension_handler(0xdc, power, 0);
    return 0;
}
"#;

struct Bmc {
    folder: TempDir,
    port: u16,
    daemon: Option<Daemon>,
}

impl Bmc {
    fn start() -> Option<Self> {
        let needs =
            [("ipmitool", "/usr/bin/ipmitool"), ("openipmi", "/usr/bin/ipmi_sim"), ("gcc", "/usr/bin/cc")];
        if needs.iter().any(|(package, path)| missing(package, path)) {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("dcmi.c"), DCMI_MODULE).unwrap();
        let built =
            Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([at("dcmi.so"), at("dcmi.c")]).status();
        assert!(built.unwrap().success());
        fs::write(
            at("bmc.emu"),
            "mc_setbmc 0x20\nmc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02\nmc_enable 0x20\n",
        )
        .unwrap();
        fs::create_dir(at("state")).unwrap();
        fs::write(at("password"), format!("{PASSWORD}\n")).unwrap();
        fs::write(at("wrong"), "not the pass phrase\n").unwrap();
        let mut bmc = Self { folder, port: 0, daemon: None };
        bmc.says(218, 219, 5_000);
        let (port, daemon) = on_a_free_port(|port| bmc.daemon(port));
        (bmc.port, bmc.daemon) = (port, Some(daemon));
        Some(bmc)
    }

    /// Starts it again.
    fn run(&mut self) {
        self.daemon = Some(self.daemon(self.port));
    }

    fn daemon(&self, port: u16) -> Daemon {
        let lan = format!(
            "name \"bmc\"\nloadlib \"{}\" \"{}\"\nset_working_mc 0x20\n startlan 1\n  addr 127.0.0.1 \
             {port}\n  priv_limit admin\n  allowed_auths_user md5\n  allowed_auths_operator md5\n  \
             allowed_auths_admin md5\n  guid a123456789abcdefa123456789abcdef\n endlan\n user 2 true \
             \"reader\" \"{PASSWORD}\" admin 10\n",
            self.path("dcmi.so").display(),
            self.path("answer").display()
        );
        fs::write(self.path("lan.conf"), lan).unwrap();
        let mut command = Command::new("/usr/bin/ipmi_sim");
        command.arg("-n").arg("-c").arg(self.path("lan.conf")).arg("-f").arg(self.path("bmc.emu"));
        Daemon::start(command.arg("-s").arg(self.path("state")))
    }

    /// The answer's octets (DCMI 1.5, table 6-16), little-endian.
    fn says(&self, now_watts: u16, mean_watts: u16, sampling_ms: u32) {
        let mut answer = vec![0, 0xdc];
        [now_watts, 1, 357, mean_watts].iter().for_each(|watts| answer.extend(watts.to_le_bytes()));
        answer.extend(1_700_000_000u32.to_le_bytes());
        answer.extend(sampling_ms.to_le_bytes());
        answer.push(0x40);
        fs::write(self.path("answer"), answer).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn config(&self, changes: serde_json::Value) -> IpmiConfig {
        let mut all = json!({
            "host": "127.0.0.1", "port": self.port, "user": "reader", "password_file": self.path("password"),
            "privilege": "administrator", "timeout_ms": 60_000,
        });
        all.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        serde_json::from_value(all).unwrap()
    }
}

#[test]
fn a_bmc_tells_power_over_the_network_dies_and_comes_back() {
    let Some(mut bmc) = Bmc::start() else { return };
    let mut meter = wait_for(|| opened_ipmi(&bmc.config(json!({}))));
    let average = wait_for(|| opened_ipmi(&bmc.config(json!({ "reading": "average" }))));
    assert_eq!(average.channels()[0].kind, ChannelKind::Average { window_ns: 5_000_000_000 });
    bmc.says(240, 239, 5_000);
    let mut out = Vec::new();
    wait_for(|| meter.read(&mut out));
    assert_eq!(out[0].value, Value::Watts(240.0));
    bmc.daemon = None;
    let error = meter.read(&mut out).unwrap_err();
    assert!(matches!(error, MeterError::Retry(_)), "{error}");
    assert_eq!(out.len(), 1);
    bmc.run();
    wait_for(|| meter.read(&mut out));
    assert_eq!(out[1].value, Value::Watts(240.0));
}

#[test]
fn a_bmc_that_refuses_is_said_clearly() {
    let Some(bmc) = Bmc::start() else { return };
    drop(wait_for(|| opened_ipmi(&bmc.config(json!({})))));
    let refused = |changes: &serde_json::Value| {
        let text = opened_ipmi(&bmc.config(changes.clone())).err().expect("must be refused").to_string();
        assert!(!text.contains(PASSWORD) && !text.contains("not the pass phrase"), "{text}");
        text
    };
    // ipmitool waits a second for an answer, which a busy machine may not give in time.
    let refusal = |changes: serde_json::Value| {
        let mut texts = (0..10).map(|_| refused(&changes));
        texts.find(|text| !text.contains("out of reach")).expect("a refusal that is no silence")
    };
    let low = refusal(json!({ "privilege": "user" }));
    assert!(low.contains("raise `privilege`"), "{low}");
    // This BMC silently ignores a wrong password.
    let password = refused(&json!({ "password_file": bmc.path("wrong") }));
    assert!(password.contains("refuse") || password.contains("wrong user or password"), "{password}");
    fs::remove_file(bmc.path("answer")).unwrap();
    let without = refusal(json!({}));
    assert!(without.contains("no DCMI power reading"), "{without}");
}

#[test]
fn the_password_is_in_no_process_list_and_nothing_is_left_running() {
    if missing("ipmitool", "/usr/bin/ipmitool") {
        return;
    }
    let mut attempts = (0..10).map(|_| one_that_is_not_answered());
    let running =
        attempts.find(|running| !running.is_empty()).expect("ipmitool is seen before its time is over");
    assert_eq!(running.len(), 1, "{running:?}");
    assert!(running[0].contains(" -E ") && !running[0].contains(PASSWORD), "{running:?}");
}

/// The command lines of a reading that times out, while it runs. On a busy machine it may end before it is
/// seen.
fn one_that_is_not_answered() -> Vec<String> {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port().to_string();
    let folder = tempfile::tempdir().unwrap();
    let password = folder.path().join("password");
    fs::write(&password, PASSWORD).unwrap();
    let json = json!({
        "host": "127.0.0.1", "port": silent.local_addr().unwrap().port(), "user": "reader",
        "password_file": password, "timeout_ms": 1_500,
    });
    let config: IpmiConfig = serde_json::from_value(json).unwrap();
    let opening =
        std::thread::spawn(move || opened_ipmi(&config).err().expect("must be refused").to_string());
    // It runs once its first message is there.
    silent.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    while silent.recv_from(&mut [0; 512]).is_err() && !opening.is_finished() {}
    let of_ours = || -> Vec<String> {
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let lines = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
        let texts = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
        texts.filter(|text| text.contains("lanplus") && text.contains(&port)).collect()
    };
    let running = of_ours();
    let text = opening.join().unwrap();
    assert!(!text.contains(PASSWORD), "{text}");
    assert_eq!(of_ours(), Vec::<String>::new());
    // If this thread was stopped for seconds, ipmitool has given up by itself.
    if text.contains("gave no power within 1500 ms") { running } else { Vec::new() }
}

#[test]
fn a_machine_without_a_bmc_gets_the_remedy() {
    if missing("ipmitool", "/usr/bin/ipmitool") || Path::new("/dev/ipmi0").exists() {
        return;
    }
    let text = opened_ipmi(&serde_json::from_str("{}").unwrap()).err().expect("must be refused").to_string();
    assert!(text.contains("there is no /dev/ipmi0") && text.contains("`host`"), "{text}");
}

fn opened_ipmi(config: &IpmiConfig) -> Result<Box<dyn Meter>, OpenError> {
    open_ipmi(config, iopj_core::Allow::NOTHING)
}
