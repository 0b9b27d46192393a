//! ipmitool's recorded output, and a program in its place that prints it, fails or hangs.

use super::*;
use proptest::prelude::*;
use rustix::process::{Pid, test_kill_process_group};
use std::path::Path;
use tempfile::TempDir;

/// ipmitool 1.8.18 with a BMC that averages over 5 s.
const RECORDED: &str = "
    Instantaneous power reading:                   218 Watts
    Minimum during sampling period:                  1 Watts
    Maximum during sampling period:                357 Watts
    Average power reading over sample period:      219 Watts
    IPMI timestamp:                           Thu Feb 15 08:36:01 2024
    Sampling period:                          00000005 Seconds.
    Power reading state is:                   activated


";
/// OpenBMC: good figures, no sampling period, and a state that says no.
const RECORDED_OPENBMC: &str = "
    Instantaneous power reading:                   235 Watts
    Minimum during sampling period:                235 Watts
    Maximum during sampling period:                235 Watts
    Average power reading over sample period:      235 Watts
    IPMI timestamp:                                Thu Jan  1 00:00:00 1970
    Sampling period:                               00000000 Seconds.
    Power reading state is:                        deactivated
";
const PASSWORD: &str = "bmc-pass-phrase";

fn replaced(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "{from}");
    text.replace(from, to)
}

#[test]
fn every_version_s_spacing_is_read() {
    let five_seconds = DcmiPower {
        instant_watts: 218,
        minimum_watts: 1,
        maximum_watts: 357,
        average_watts: 219,
        sampling_s: 5,
        activated: true,
    };
    assert_eq!(parse_dcmi(RECORDED), Ok(five_seconds));
    // ipmitool 1.8.19: no end of line after the time stamp.
    let unended = replaced(RECORDED, "Thu Feb 15 08:36:01 2024\n", "10/18/23 18:12:32 UTC");
    assert_eq!(parse_dcmi(&unended), Ok(five_seconds));
    let squeezed = RECORDED.split_whitespace().collect::<Vec<_>>().join(" ").replace(": ", " : ");
    assert_eq!(parse_dcmi(&squeezed), Ok(five_seconds));
    let openbmc = parse_dcmi(RECORDED_OPENBMC).unwrap();
    assert_eq!((openbmc.instant_watts, openbmc.sampling_s, openbmc.activated), (235, 0, false));
}

#[test]
fn a_reading_that_lacks_a_figure_is_none() {
    let failure = |text: &str| parse_dcmi(text).unwrap_err().to_string();
    for line in RECORDED.lines().filter(|line| line.contains(':') && !line.contains("timestamp")) {
        let label = line.split(':').next().unwrap().trim();
        assert_eq!(failure(&replaced(RECORDED, line, "")), format!("`{label}` has no value"));
    }
    for figure in ["-1", "4294967296"] {
        let want = "`Instantaneous power reading` has no value";
        assert_eq!(failure(&replaced(RECORDED, "218", figure)), want);
    }
}

proptest! {
    #[test]
    fn what_is_printed_is_what_is_read(
        now: u16,
        low: u16,
        high: u16,
        mean: u16,
        s: u32,
        on: bool,
        gap in 0usize..30,
    ) {
        let gap = " ".repeat(gap);
        let state = if on { "activated" } else { "deactivated" };
        let text = format!(
            "\n{gap}Instantaneous power reading:{gap}{now} Watts\n\
             Minimum during sampling period:{gap}{low} Watts\n\
             Maximum during sampling period:{gap}{high} Watts\n\
             Average power reading over sample period:{gap}{mean} Watts\n\
             IPMI timestamp: x{gap}Sampling period:{gap}{s:08} Seconds.\n\
             Power reading state is:{gap}{state}\n"
        );
        let [instant_watts, minimum_watts, maximum_watts, average_watts] =
            [now, low, high, mean].map(u32::from);
        let expected = DcmiPower {
            instant_watts,
            minimum_watts,
            maximum_watts,
            average_watts,
            sampling_s: s,
            activated: on,
        };
        prop_assert_eq!(parse_dcmi(&text), Ok(expected));
    }

    #[test]
    fn any_text_is_harmless(text: String, at in any::<prop::sample::Index>()) {
        let _ = parse_dcmi(&text);
        let mut mixed = RECORDED.to_owned();
        mixed.insert_str(at.index(RECORDED.len()), &text);
        let _ = parse_dcmi(&mixed);
    }
}

/// A shell script in ipmitool's place.
struct Fake {
    folder: TempDir,
}

impl Fake {
    /// Another program makes it: a file that this process writes could still be open in a child of another
    /// test, and then not be run.
    fn new(script: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("source");
        std::fs::write(&source, format!("#!/bin/sh\n{script}\n")).unwrap();
        let made = Command::new("install")
            .args(["-m", "755"])
            .arg(&source)
            .arg(folder.path().join("ipmitool"))
            .status();
        assert!(made.unwrap().success());
        std::fs::write(folder.path().join("password"), PASSWORD).unwrap();
        Self { folder }
    }

    /// Prints the file `output` of its folder.
    fn printing(text: &str) -> Self {
        let fake = Self::new("cat \"$(dirname \"$0\")/output\"");
        fake.now_prints(text);
        fake
    }

    fn now_prints(&self, text: &str) {
        std::fs::write(self.path("output"), text).unwrap();
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn open(&self, config: &IpmiConfig) -> Result<Ipmi, OpenError> {
        open_through(self.path("ipmitool").into(), config, Allow::ALL)
    }

    fn refusal(&self, config: &IpmiConfig) -> String {
        let text = self.open(config).unwrap_err().to_string();
        assert!(!text.contains(PASSWORD), "{text}");
        text
    }
}

fn local() -> IpmiConfig {
    serde_json::from_str("{}").unwrap()
}

fn remote(password: &Path) -> IpmiConfig {
    let json = serde_json::json!({ "host": "bmc.lab", "user": "reader", "password_file": password });
    serde_json::from_value(json).unwrap()
}

/// ipmitool looked the name up by itself, wherever it led.
#[test]
fn a_bmc_is_asked_at_near_addresses_alone() {
    let fake = Fake::printing(RECORDED);
    std::fs::write(fake.path("secret"), PASSWORD).unwrap();
    let open = |host: &str, allow| {
        let config = IpmiConfig { host: Some(host.to_owned()), ..remote(&fake.path("secret")) };
        open_through(fake.path("ipmitool").into(), &config, allow)
    };
    for far in ["169.254.169.254", "192.0.2.7", "fe80::1"] {
        let text = open(far, Allow::NOTHING).unwrap_err().to_string();
        assert!(
            text.contains(&format!("is at {far}, which is neither")) && text.contains("--allow hosts"),
            "{text}"
        );
        assert!(open(far, Allow::ALL).is_ok());
    }
    let near = open("127.0.0.1", Allow::NOTHING).unwrap();
    assert_eq!(near.address.as_deref(), Some("127.0.0.1"));
    let text = open("no such name", Allow::NOTHING).unwrap_err().to_string();
    assert!(text.contains("its address cannot be found"), "{text}");
}

#[test]
fn an_instant_and_an_average_are_distinguished() {
    let fake = Fake::printing(RECORDED);
    let value = |config: &IpmiConfig| {
        let mut meter = fake.open(config).unwrap();
        let mut out = Vec::new();
        meter.read(&mut out).unwrap();
        assert!(0 < out[0].begin_ns && out[0].begin_ns <= out[0].end_ns);
        (meter.channels()[0].kind, out[0].value)
    };
    assert_eq!(value(&local()), (ChannelKind::Instant, Value::Watts(218.0)));
    let average = IpmiConfig { reading: IpmiReading::Average, ..local() };
    let five_seconds = ChannelKind::Average { window_ns: 5_000_000_000 };
    assert_eq!(value(&average), (five_seconds, Value::Watts(219.0)));
    let mut meter = fake.open(&average).unwrap();
    fake.now_prints(&replaced(RECORDED, "00000005", "00000006"));
    let error = meter.read(&mut Vec::new()).unwrap_err();
    assert!(
        matches!(&error, MeterError::Retry(text) if text.contains("now averages over 6 s instead of 5 s")),
        "{error}"
    );
    for useless in ["00000000", "01473439"] {
        fake.now_prints(&replaced(RECORDED, "00000005", useless));
        assert!(fake.refusal(&average).contains("only 1 to 30 s are useful"));
        assert!(fake.open(&local()).is_ok(), "the instant is good nevertheless");
    }
}

#[test]
fn nought_watts_are_no_reading_and_a_state_alone_does_not_refuse_one() {
    let fake = Fake::printing(RECORDED_OPENBMC);
    let mut meter = fake.open(&local()).unwrap();
    fake.now_prints(&replaced(RECORDED_OPENBMC, "235", "0"));
    let error = meter.read(&mut Vec::new()).unwrap_err();
    assert!(
        matches!(&error, MeterError::Retry(text)
            if text.contains("reports 0 W") && text.contains("deactivated")),
        "{error}"
    );
    assert!(fake.refusal(&local()).contains("reports 0 W"));
}

#[test]
fn failures_say_what_to_do() {
    let cases = [
        (
            "Could not open device at /dev/ipmi0 or /dev/ipmi/0 or /dev/ipmidev/0: No such file or directory",
            "ipmi_si",
        ),
        (
            "Could not open device at /dev/ipmi0 or /dev/ipmi/0 or /dev/ipmidev/0: Permission denied",
            "as root",
        ),
        ("    DCMI request failed because: Insufficient privilege level (d4)", "raise `privilege`"),
        ("    DCMI request failed because: Invalid command (c1)", "no DCMI power reading"),
        (
            "> RAKP 2 HMAC is invalid\nError: Unable to establish IPMI v2 / RMCP+ session",
            "refuses the password",
        ),
        (
            "RAKP 2 message indicates an error : unauthorized name\nError: Unable to establish",
            "does not know the user",
        ),
        ("RAKP 2 message indicates an error : invalid role\nError: Unable to establish", "lower `privilege`"),
        ("Address lookup for bmc.lab failed", "correct `host`"),
        ("Error: Unable to establish IPMI v2 / RMCP+ session", "out of reach"),
        ("something\x1b[31m else", "ipmitool says `something\\u{1b}[31m else`"),
    ];
    let fake = Fake::new("cat \"$(dirname \"$0\")/output\" >&2; exit 1");
    for (says, part) in cases {
        fake.now_prints(says);
        let text = fake.refusal(&remote(&fake.path("password")));
        assert!(text.contains(part), "{text}");
    }
    let ported = IpmiConfig { host: Some("127.0.0.1:18623".into()), ..remote(&fake.path("password")) };
    let text = fake.refusal(&ported);
    assert!(text.contains("write `host = \"127.0.0.1\"` and `port = 18623`"), "{text}");
    assert_eq!((host_and_port("::1"), host_and_port("bmc.lab")), (None, None));
    let absent = open_through("/no/such/ipmitool".into(), &local(), Allow::ALL).unwrap_err().to_string();
    assert!(absent.contains("install the package ipmitool"), "{absent}");
    let nonsense = Fake::printing("hello").refusal(&local());
    assert!(nonsense.contains("printed no power reading"), "{nonsense}");
}

#[test]
fn contradictions_are_refused_before_ipmitool_runs() {
    let fake = Fake::new("touch \"$(dirname \"$0\")/ran\"");
    let password = fake.path("password");
    let whole = remote(&password);
    let broken = [
        IpmiConfig { user: None, ..whole.clone() },
        IpmiConfig { password_file: None, ..whole.clone() },
        IpmiConfig { host: None, ..whole.clone() },
        IpmiConfig { port: Some(623), ..local() },
        IpmiConfig { password_env: Some("PATH".into()), ..whole.clone() },
        IpmiConfig { timeout_ms: 0, ..whole.clone() },
    ];
    broken.iter().for_each(|config| drop(fake.refusal(config)));
    assert!(!fake.path("ran").exists());
    assert!(
        serde_json::from_str::<IpmiConfig>(r#"{ "password": "x" }"#).is_err(),
        "a password is never written into a study"
    );
}

#[test]
fn a_hanging_ipmitool_is_killed_with_its_children_and_reaped() {
    // It hangs in a child that holds the output open, once by itself and once after the shell has ended.
    for script in [
        "echo $$ > \"$0.pid\"; sleep 600; true",
        "echo $$ > \"$0.pid\"; sleep 600 & true",
        "exec >&- 2>&-; echo $$ > \"$0.pid\"; sleep 600; true",
    ] {
        let fake = Fake::new(script);
        // A busy machine may need longer to start the shell.
        let pid = [500, 5_000, 50_000].into_iter().find_map(|timeout_ms| {
            let text = fake.refusal(&IpmiConfig { timeout_ms, ..remote(&fake.path("password")) });
            assert!(text.contains(&format!("gave no power within {timeout_ms} ms")), "{text}");
            std::fs::read_to_string(fake.path("ipmitool.pid")).ok().filter(|pid| pid.ends_with('\n'))
        });
        let pid = pid.expect("the shell starts");
        let group = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
        let zombie = Path::new("/proc").join(pid.trim());
        assert!(!zombie.exists(), "{script}: not reaped");
        let orphan = test_kill_process_group(group).is_ok();
        // Its new parent reaps an orphan: it may take a moment to vanish.
        assert!(!orphan || dies(pid.trim()), "{script}: a child lives on");
    }
}

/// Whether all processes of a group are dead within a while.
fn dies(group: &str) -> bool {
    let alive = || {
        std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
            let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or("").split(' ').collect();
            fields.get(2) == Some(&group) && fields[0] != "Z"
        })
    };
    (0..1_500).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        !alive()
    })
}

#[test]
fn the_password_goes_by_the_environment_alone() {
    let fake = Fake::new(
        "d=$(dirname \"$0\"); tr '\\0' '\\n' < /proc/$$/cmdline > \"$d/cmdline\"; env > \"$d/env\"; cat \
         \"$d/output\"",
    );
    fake.now_prints(RECORDED);
    let config =
        IpmiConfig { port: Some(6623), privilege: IpmiPrivilege::Operator, ..remote(&fake.path("password")) };
    let meter = fake.open(&config).unwrap();
    let seen = std::fs::read_to_string(fake.path("cmdline")).unwrap();
    let expected = "-I\nlanplus\n-H\nbmc.lab\n-U\nreader\n-E\n-L\nOPERATOR\n-N\n1\n-R\n2\n-p\n6623\ndcmi\n\
                    power\nreading\n";
    assert!(seen.ends_with(expected), "{seen}");
    assert!(!seen.contains(PASSWORD));
    let env = std::fs::read_to_string(fake.path("env")).unwrap();
    assert!(env.lines().any(|line| line == format!("IPMI_PASSWORD={PASSWORD}")));
    assert!(!format!("{meter:?}").contains(PASSWORD));
}
