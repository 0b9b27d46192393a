//! Power of the whole machine as its baseboard management controller (BMC) reports it: DCMI's power reading,
//! through `ipmitool`.

mod dcmi;

pub use dcmi::{DcmiError, DcmiPower, parse_dcmi};

use crate::clock::{ReadTime, monotonic_raw_ns};
use crate::config::is_time_limit_ms;
use crate::meter::{Accuracy, Channel, ChannelKind, Meter, MeterError, OpenError, Reading, Scope, Value};
use crate::near;
use crate::process;
use crate::secret::Secret;
use iopj_core::Allow;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// RMCP+, as the Internet's registry of ports has it; a lookup needs one.
const PORT: u16 = 623;
/// Four averages must fit into a trial of the usual 120 s.
const LONGEST_AVERAGE_S: u32 = 30;
/// Characters of ipmitool's message that are quoted.
const LONGEST_QUOTE: usize = 200;

/// A BMC with DCMI: this machine's by its driver (`/dev/ipmi0`), or any by network (IPMI 2.0, RMCP+).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IpmiConfig {
    /// The BMC's name or address; this machine's by its driver unless given.
    pub host: Option<String>,
    /// Its UDP port: 623 unless given.
    pub port: Option<u16>,
    /// The user on the BMC; needed with `host`.
    pub user: Option<String>,
    /// The file that holds the user's password.
    pub password_file: Option<PathBuf>,
    /// The environment variable that holds it.
    pub password_env: Option<String>,
    /// What the session may do. DCMI asks for no more than `user` to read power; some BMCs ask for more.
    #[serde(default)]
    pub privilege: IpmiPrivilege,
    /// Which of the BMC's figures is read.
    #[serde(default)]
    pub reading: IpmiReading,
    /// No reading takes longer: ipmitool is then killed.
    #[serde(default = "default_timeout_ms")]
    pub timeout_ms: u64,
    /// What the maker declares.
    pub accuracy: Option<Accuracy>,
}

fn default_timeout_ms() -> u64 {
    10_000
}

/// A session's privilege level (IPMI 2.0, section 6.8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IpmiPrivilege {
    /// Reads.
    #[default]
    User,
    /// Reads and acts.
    Operator,
    /// Everything.
    Administrator,
}

/// Which of DCMI's figures is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IpmiReading {
    /// The power now.
    #[default]
    Instant,
    /// The mean over the BMC's sampling period. Refused if that is unknown or longer than 30 s: with many
    /// BMCs it is the time since they started.
    Average,
}

/// Opens the meter and takes a first reading, so mistakes show at once.
///
/// Each reading starts `ipmitool` anew. The password reaches it through its environment
/// (`IPMI_PASSWORD`), never on its command line.
///
/// # Errors
/// [`OpenError`] if the configuration contradicts itself, a secret cannot be read, ipmitool is missing, or
/// the BMC gives no power.
pub fn open_ipmi(config: &IpmiConfig, allow: Allow) -> Result<Box<dyn Meter>, OpenError> {
    open_through("ipmitool".into(), config, allow).map(|meter| Box::new(meter) as Box<dyn Meter>)
}

fn open_through(program: OsString, config: &IpmiConfig, allow: Allow) -> Result<Ipmi, OpenError> {
    let password = Secret::read(config.password_file.as_deref(), config.password_env.as_deref())?;
    let refused = |why: &str| Err(OpenError(format!("the IPMI meter at {}: {why}", bmc(config))));
    let remote = config.host.is_some();
    if remote != config.user.is_some() || remote != password.is_some() || (!remote && config.port.is_some()) {
        return refused(
            "give `host`, `user` and `password_file` or `password_env` together, or nothing for this \
             machine's own BMC",
        );
    }
    if let Some((name, port)) = config.host.as_deref().and_then(host_and_port) {
        return refused(&format!("`host` holds a port: write `host = \"{name}\"` and `port = {port}`"));
    }
    if !is_time_limit_ms(config.timeout_ms) {
        return refused("`timeout_ms` must be from 1 to 600000");
    }
    let address = match near_address(config, allow) {
        Ok(address) => address,
        Err(why) => return refused(&why),
    };
    let mut meter = Ipmi { config: config.clone(), address, program, password, channels: Vec::new() };
    let first = meter.ask()?;
    let kind = match config.reading {
        IpmiReading::Instant => ChannelKind::Instant,
        IpmiReading::Average if (1..=LONGEST_AVERAGE_S).contains(&first.sampling_s) => {
            ChannelKind::Average { window_ns: u64::from(first.sampling_s) * 1_000_000_000 }
        }
        IpmiReading::Average => {
            let s = first.sampling_s;
            return refused(&format!(
                "it averages over {s} s, and only 1 to 30 s are useful: take `reading = \"instant\"`"
            ));
        }
    };
    watts(config, &first)?;
    let (resolution, accuracy) = (1.0, config.accuracy);
    meter.channels.push(Channel { resolution, accuracy, ..Channel::new("dcmi", Scope::System, kind) });
    Ok(meter)
}

/// A BMC as a meter.
#[derive(Debug)]
struct Ipmi {
    config: IpmiConfig,
    /// What ipmitool is told in place of the host's name.
    address: Option<String>,
    program: OsString,
    password: Option<Secret>,
    channels: Vec<Channel>,
}

impl Meter for Ipmi {
    fn channels(&self) -> &[Channel] {
        &self.channels
    }

    fn read(&mut self, out: &mut Vec<Reading>) -> Result<(), MeterError> {
        let begin_ns = monotonic_raw_ns();
        let power = self.ask()?;
        let time = ReadTime::since(begin_ns);
        if let ChannelKind::Average { window_ns } = self.channels[0].kind
            && u64::from(power.sampling_s) * 1_000_000_000 != window_ns
        {
            return Err(MeterError::Retry(format!(
                "the BMC at {} now averages over {} s instead of {} s: take `reading = \"instant\"`",
                bmc(&self.config),
                power.sampling_s,
                window_ns / 1_000_000_000
            )));
        }
        let value = Value::Watts(watts(&self.config, &power)?);
        out.push(time.reading(0, value));
        Ok(())
    }
}

impl Ipmi {
    /// One run of ipmitool.
    fn ask(&self) -> Result<DcmiPower, MeterError> {
        let limit = Duration::from_millis(self.config.timeout_ms);
        match process::run(self.command(), limit) {
            Ok(Some((status, text))) if status.success() => parse_dcmi(&text).map_err(|why| {
                MeterError::Retry(format!(
                    "ipmitool printed no power reading ({why}): try `{}`",
                    shown(&self.config)
                ))
            }),
            Ok(Some((_, text))) => Err(explain(&self.config, &text)),
            Ok(None) => Err(MeterError::Retry(format!(
                "the BMC at {} gave no power within {} ms: it is busy or out of reach, has IPMI over LAN \
                 off, or ignores a wrong user or password; try `{}`",
                bmc(&self.config),
                self.config.timeout_ms,
                shown(&self.config)
            ))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(MeterError::Fatal("`ipmitool` is missing: install the package ipmitool".into()))
            }
            Err(error) => Err(MeterError::Retry(format!(
                "ipmitool cannot be run ({error}): try `{}`",
                shown(&self.config)
            ))),
        }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        // IPMITOOL_PASSWORD would take precedence.
        command
            .env_remove("IPMITOOL_PASSWORD")
            .env_remove("IPMI_PASSWORD")
            .args(arguments(&self.config, self.address.as_deref()));
        if let Some(password) = &self.password {
            command.env("IPMI_PASSWORD", password.expose());
        }
        command
    }
}

/// The address of a BMC that must be near, so that ipmitool looks no name up that may have changed; none
/// where any may be asked.
fn near_address(config: &IpmiConfig, allow: Allow) -> Result<Option<String>, String> {
    let Some(host) = config.host.as_deref().filter(|_| !allow.hosts) else { return Ok(None) };
    let address = near::look_up(host.trim_start_matches('[').trim_end_matches(']'), PORT)
        .map_err(|why| format!("its address cannot be found ({why}): correct `host`"))?
        .ip();
    near::check(address, allow).map_err(|why| format!("it {why}"))?;
    Ok(Some(address.to_string()))
}

/// The arguments of ipmitool; none is a secret.
fn arguments(config: &IpmiConfig, address: Option<&str>) -> Vec<String> {
    let mut arguments = Vec::new();
    if let (Some(host), Some(user)) = (&config.host, &config.user) {
        let privilege = match config.privilege {
            IpmiPrivilege::User => "USER",
            IpmiPrivilege::Operator => "OPERATOR",
            IpmiPrivilege::Administrator => "ADMINISTRATOR",
        };
        // A second for each answer, and one more try: a reading that comes much later is worth less than the
        // next one.
        let patience = ["-N", "1", "-R", "2"];
        let session = ["-I", "lanplus", "-H", address.unwrap_or(host), "-U", user, "-E", "-L", privilege];
        arguments.extend(session.iter().chain(&patience).map(|&argument| argument.to_owned()));
        if let Some(port) = config.port {
            arguments.extend(["-p".to_owned(), port.to_string()]);
        }
    }
    arguments.extend(["dcmi", "power", "reading"].map(str::to_owned));
    arguments
}

/// Name and port of a host that holds both; an IPv6 address has more colons.
fn host_and_port(host: &str) -> Option<(&str, u16)> {
    let (name, port) = host.split_once(':')?;
    Some((name, port.parse().ok()?)).filter(|(name, _)| !name.is_empty())
}

/// The command to show to the user.
fn shown(config: &IpmiConfig) -> String {
    let password = if config.host.is_some() { "IPMI_PASSWORD=... " } else { "" };
    format!("{password}ipmitool {}", arguments(config, None).join(" ")).escape_debug().to_string()
}

fn bmc(config: &IpmiConfig) -> String {
    config.host.as_ref().map_or_else(|| "/dev/ipmi0".into(), |host| format!("`{}`", host.escape_debug()))
}

/// The configured figure. A running machine never takes 0 W: a BMC without a sensor reports that.
fn watts(config: &IpmiConfig, power: &DcmiPower) -> Result<f64, MeterError> {
    let watts = match config.reading {
        IpmiReading::Instant => power.instant_watts,
        IpmiReading::Average => power.average_watts,
    };
    if watts > 0 {
        return Ok(f64::from(watts));
    }
    let state = if power.activated { "activated" } else { "deactivated" };
    Err(MeterError::Retry(format!(
        "the BMC at {} reports 0 W, and its power reading is {state}: it does not measure now; use another \
         meter",
        bmc(config)
    )))
}

/// Parts of ipmitool's messages, and what they mean for the BMC, the cause and the remedy.
const CAUSES: [(&[&str], &str); 7] = [
    (&["Insufficient privilege"], "does not report power at this privilege: raise `privilege`"),
    (&["RAKP 2 HMAC is invalid"], "refuses the password: correct it"),
    (&["unauthorized name"], "does not know the user: correct `user`"),
    (&["invalid role", "exceeds the privilege"], "does not give this user the privilege: lower `privilege`"),
    (&["Address lookup for"], "is not found by this name: correct `host`"),
    (
        &["Unable to establish"],
        "opens no session: it is out of reach, has IPMI over LAN off, or refuses user, password or \
         `privilege`",
    ),
    (&["Invalid command", "Invalid data field"], "has no DCMI power reading: use `redfish` or another meter"),
];

/// Why ipmitool failed.
fn explain(config: &IpmiConfig, text: &str) -> MeterError {
    let (bmc, command) = (bmc(config), shown(config));
    if text.contains("Could not open device") {
        return MeterError::Fatal(if text.contains("Permission denied") {
            "/dev/ipmi0 cannot be opened: run as root, or let root give your group the right to read it"
                .into()
        } else {
            "there is no /dev/ipmi0: load the kernel's ipmi_si and ipmi_devintf if this machine has a BMC, \
             or name its `host`"
                .into()
        });
    }
    let known = CAUSES.iter().find(|(parts, _)| parts.iter().any(|part| text.contains(part)));
    if let Some((_, cause)) = known {
        return MeterError::Retry(format!("the BMC at {bmc} {cause}; try `{command}`"));
    }
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let quote: String = words.chars().take(LONGEST_QUOTE).collect();
    MeterError::Retry(format!(
        "the BMC at {bmc} gave no power, ipmitool says `{}`: try `{command}`",
        quote.escape_debug()
    ))
}

#[cfg(test)]
mod tests;
