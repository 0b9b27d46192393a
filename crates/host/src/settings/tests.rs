//! Names, values, the allow-list, locks, changing and putting back within one life.

mod binding;
mod network;
mod power;
mod restore;

use super::attribute::Attribute;
use super::fixture::{CPU, Fixture, assert_refused, names};
use super::journal;
use super::*;
use crate::sysfs::chosen;
use iopj_core::Setting;
use proptest::prelude::*;
use std::fs;
use std::os::unix::fs::PermissionsExt;

fn set(settings: &mut Settings, name: &str, value: &str) -> Result<(), SettingsError> {
    settings.set(name.parse().unwrap(), value)
}

#[test]
fn names_are_the_text_form() {
    for setting in Setting::all() {
        assert_eq!(setting.to_string().parse::<Setting>().unwrap(), setting);
        let json = serde_json::to_string(&setting).unwrap();
        assert_eq!(json, format!("\"{setting}\""));
        assert_eq!(serde_json::from_str::<Setting>(&json).unwrap(), setting);
    }
}

#[test]
fn the_order_sets_last_what_others_reset() {
    assert!(Setting::all().is_sorted());
    for setting in Setting::all() {
        assert!(allowed::reset_by(setting).iter().all(|reset| *reset > setting), "{setting}");
    }
}

#[test]
fn a_misspelt_name_gets_the_nearest_right_one() {
    let message = |name: &str| name.parse::<Setting>().unwrap_err().to_string();
    assert_eq!(message("io_pol_delay"), "there is no setting `io_pol_delay`: did you mean `io_poll_delay`?");
    assert_eq!(message("nomerge"), "there is no setting `nomerge`: did you mean `nomerges`?");
    assert!(message("xyz").contains("there are io_poll_delay, scheduler"), "{}", message("xyz"));
}

#[test]
fn values_are_checked_by_form() {
    let good = [
        ("io_poll_delay", "-1"),
        ("io_poll_delay", "4"),
        ("scheduler", "mq-deadline"),
        ("nomerges", "2"),
        ("wbt_lat_usec", "0"),
        ("governor", "performance"),
        ("energy_performance_preference", "balance_power"),
        ("energy_performance_preference", "128"),
        ("cstate_max", "0"),
        ("smt", "off"),
    ];
    for (name, value) in good {
        name.parse::<Setting>().unwrap().check(value).unwrap();
    }
    let bad = [
        ("io_poll_delay", "-2"),
        ("io_poll_delay", "+4"),
        ("scheduler", "none\nx"),
        ("scheduler", ""),
        ("nomerges", "3"),
        ("nomerges", "02"),
        ("nr_requests", "3"),
        ("wbt_lat_usec", "-1"),
        ("energy_performance_preference", "256"),
        ("boost", "on"),
        ("smt", "forceoff"),
    ];
    for (name, value) in bad {
        let message = name.parse::<Setting>().unwrap().check(value).unwrap_err().to_string();
        assert!(message.contains(name) && message.contains("write "), "{message}");
    }
}

#[test]
fn the_allow_list_is_exact() {
    for text in [
        "block/nvme0n1/queue/io_poll_delay",
        "block/cciss!c0d0/queue/scheduler",
        "devices/system/cpu/cpufreq/policy12/scaling_governor",
        "devices/system/cpu/cpufreq/boost",
        "devices/system/cpu/intel_pstate/no_turbo",
        "devices/system/cpu/cpu3/cpuidle/state2/disable",
        "devices/system/cpu/smt/control",
        "devices/system/cpu/cpu7/online",
        "proc/sys/net/core/busy_poll",
        "module/nvmet_tcp/parameters/idle_poll_period_usecs",
        "class/net/enp1s0f0.100/mtu",
        "class/net/eth0/rx_usecs",
        "class/net/eth0/irq/24/smp_affinity_list",
    ] {
        assert_eq!(text.parse::<Attribute>().unwrap().to_string(), text);
    }
    for text in [
        "",
        "/sys/block/sda/queue/nomerges",
        "block/../queue/nomerges",
        "block/./queue/nomerges",
        "block/sda/../sda/queue/nomerges",
        "block/sda//queue/nomerges",
        "block/sda/queue/nomerges/",
        "block/sda/queue/governor",
        "block/sda/queue/zoned",
        "block/sda/queue/disable",
        "block/sda/device/delete",
        "devices/system/cpu/cpufreq/policy01/scaling_governor",
        "devices/system/cpu/cpufreq/policy+1/scaling_governor",
        "devices/system/cpu/cpufreq/policy0/scaling_setspeed",
        "devices/system/cpu/cpu01/online",
        "devices/system/cpu/cpufreq/online",
        "proc/sys/net/core/bpf_jit_enable",
        "proc/sys/kernel/core_pattern",
        "class/net/../mtu",
        "class/net/a-name-that-is-too-long/mtu",
        "class/net/eth0/ifalias",
        "class/net/../irq/24/smp_affinity_list",
        "class/net/eth0/irq/../smp_affinity_list",
        "class/net/eth0/irq/024/smp_affinity_list",
        "class/net/eth0/irq/24/affinity_hint",
        "proc/irq/24/smp_affinity_list",
        "module/nvmet_tcp/parameters/so_priority",
        "devices/system/cpu/cpu0/cpuidle/state0/name",
        "devices/system/cpu/smt/active",
        "kernel/uevent_helper",
    ] {
        assert!(text.parse::<Attribute>().is_err(), "{text}");
    }
}

proptest! {
    #[test]
    fn what_parses_stays_inside(
        start in "(block|devices|\\.\\.|)/(system|sda|\\.)",
        rest in "(/(cpu|queue|nomerges|cpu0|cpuidle|\\.\\.|state1|disable|\\PC{0,4})){0,4}",
    ) {
        let text = start + &rest;
        if let Ok(attribute) = text.parse::<Attribute>() {
            prop_assert_eq!(attribute.to_string(), text.clone());
            prop_assert!(!text.split('/').any(|part| part.is_empty() || part.starts_with('.')));
        }
    }

    #[test]
    fn the_journal_parser_never_panics(text in "\\PC{0,80}(\n\\PC{0,80}){0,3}") {
        let _ = journal::parse(text.as_bytes());
    }
}

/// A journal was read as a whole, whatever its size.
#[test]
fn a_line_of_a_journal_that_never_ends_is_refused() {
    let endless = std::io::BufReader::new(std::io::repeat(b'a'));
    let why = journal::parse(endless).unwrap_err().to_string();
    assert_eq!(why, "its line 1 is longer than any that iopj writes");
}

#[test]
fn a_journal_cut_anywhere_holds_the_lines_before() {
    let fixture = Fixture::new();
    let text = fixture.with_settings(&["sda"], |settings| {
        set(settings, "nomerges", "2").unwrap();
        set(settings, "read_ahead_kb", "0").unwrap();
        fixture.journals().remove(0)
    });
    for cut in 0..=text.len() {
        let lines = text[..cut].matches('\n').count();
        match journal::parse(&text.as_bytes()[..cut]) {
            Ok(record) => assert_eq!(record.undo.newest_first().count(), lines - 1, "cut at {cut}"),
            Err(_) => assert_eq!(lines, 0, "cut at {cut}"),
        }
    }
}

#[test]
fn the_choice_in_brackets_is_the_value() {
    assert_eq!(chosen("mq-deadline [none] bfq\n"), "none");
    assert_eq!(chosen("none\n"), "none");
    assert_eq!(chosen("[default] performance"), "default");
}

#[test]
fn changes_are_journalled_and_put_back_newest_first() {
    let fixture = Fixture::new();
    fixture.with_settings(&["sda"], |settings| {
        set(settings, "nomerges", "2").unwrap();
        set(settings, "scheduler", "none").unwrap();
        set(settings, "nomerges", "1").unwrap();
        assert_eq!((fixture.sda("nomerges"), fixture.sda("scheduler")), ("1".into(), "none".into()));
        let journal = fixture.journals().remove(0);
        let lines: Vec<&str> = journal.lines().collect();
        assert!(lines[0].contains(r#""devices":[{"name":"sda","serial":"S-sda"}]"#), "{journal}");
        assert!(lines[0].contains(fixture::BOOT_ID), "{journal}");
        assert_eq!(lines[1], r#"{"file":"block/sda/queue/nomerges","old":"0","new":"2"}"#);
        assert_eq!(lines[2], r#"{"file":"block/sda/queue/nr_requests","old":"64","new":"64"}"#);
        assert_eq!(lines[3], r#"{"file":"block/sda/queue/scheduler","old":"mq-deadline","new":"none"}"#);
        assert_eq!(lines.len(), 5);
        // The kernel's own doing on an elevator switch.
        fixture.write("sys/block/sda/queue/nr_requests", "256");
        let restored = settings.restore().unwrap();
        let files: Vec<_> =
            restored.iter().map(|one| one.file.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(files, ["scheduler", "nr_requests", "nomerges"]);
        assert_eq!((restored[2].from.as_str(), restored[2].to.as_str()), ("1", "0"));
        assert_eq!(settings.changes().len(), 3);
        assert_eq!(settings.restore().unwrap(), []);
    });
    assert_eq!((fixture.sda("nomerges"), fixture.sda("scheduler")), ("0".into(), "mq-deadline".into()));
    assert_eq!(fixture.sda("nr_requests"), "64");
    assert_eq!(fixture.journals(), [""; 0]);
}

#[test]
fn a_value_that_stands_makes_no_journal() {
    let fixture = Fixture::new();
    fixture.with_settings(&["sda"], |settings| {
        set(settings, "nomerges", "0").unwrap();
        assert_eq!(settings.changes(), []);
        assert_eq!(fixture.journals(), [""; 0]);
        let current = settings.current(Setting::Nomerges).unwrap();
        assert_eq!(current, [(fixture.path("sys/block/sda/queue/nomerges"), "0".to_owned())]);
    });
}

#[test]
fn drop_puts_back() {
    let fixture = Fixture::new();
    fixture.with_settings(&["sda", "sdb"], |settings| {
        set(settings, "nomerges", "2").unwrap();
        set(settings, "governor", "performance").unwrap();
        assert_eq!(fixture.read("sys/block/sdb/queue/nomerges"), "2");
        assert_eq!(fixture.read(&format!("{CPU}/cpufreq/policy1/scaling_governor")), "performance");
    });
    assert_eq!(fixture.read("sys/block/sdb/queue/nomerges"), "0");
    assert_eq!(fixture.read(&format!("{CPU}/cpufreq/policy1/scaling_governor")), "schedutil");
    assert_eq!(fixture.journals(), [""; 0]);
}

#[test]
fn idle_states_above_the_limit_are_disabled_and_come_back() {
    let fixture = Fixture::new();
    fixture.write(&format!("{CPU}/cpu0/cpuidle/state1/disable"), "1");
    let disabled = || -> Vec<String> {
        (0..6).map(|n| fixture.read(&format!("{CPU}/cpu{}/cpuidle/state{}/disable", n / 3, n % 3))).collect()
    };
    fixture.with_settings(&[], |settings| {
        set(settings, "cstate_max", "0").unwrap();
        assert_eq!(disabled(), ["0", "1", "1", "0", "1", "1"]);
        set(settings, "cstate_max", "1").unwrap();
        assert_eq!(disabled(), ["0", "1", "1", "0", "0", "1"]);
    });
    assert_eq!(disabled(), ["0", "1", "0", "0", "0", "0"]);
}

#[test]
fn what_this_host_lacks_is_named() {
    let fixture = Fixture::new();
    fixture.write(&format!("{CPU}/smt/control"), "notsupported");
    fixture.with_settings(&["sda"], |settings| {
        let mut message = |name: &str, value: &str| set(settings, name, value).unwrap_err().to_string();
        assert!(message("smt", "off").contains("SMT reads `notsupported`"));
        assert!(message("no_turbo", "1").contains("this host has `boost` instead"));
        assert!(message("wbt_lat_usec", "0").contains("queue/wbt_lat_usec"));
    });
    let empty = Fixture::empty();
    empty.with_settings(&[], |settings| {
        let mut message = |name: &str, value: &str| set(settings, name, value).unwrap_err().to_string();
        assert!(message("governor", "performance").contains("no cpufreq policy"));
        assert!(message("cstate_max", "1").contains("no idle states"));
        assert!(message("nomerges", "1").contains("no block device"));
    });
}

#[test]
fn a_link_in_an_attributes_place_is_not_followed() {
    let fixture = Fixture::new();
    fs::remove_file(fixture.path("sys/block/sda/queue/nomerges")).unwrap();
    fixture.link("sys/block/sda/queue/nomerges", "sys/block/sdb/queue/nomerges");
    fixture.with_settings(&["sda"], |settings| {
        let error = set(settings, "nomerges", "2").unwrap_err();
        assert!(matches!(error, SettingsError::Refused { .. }), "{error}");
        assert!(
            fixture.journals()[0].ends_with("\"old\":\"0\",\"new\":\"2\"}\n"),
            "journalled before it was tried"
        );
        assert_eq!(settings.changes(), []);
    });
    assert_eq!(fixture.read("sys/block/sdb/queue/nomerges"), "0");
}

#[test]
fn a_lock_names_the_process_that_holds_it() {
    let fixture = Fixture::new();
    let host = fixture.host();
    let first = host.lock(&names(&["sdb", "sda", "sda"])).unwrap();
    assert!(first.is_effective());
    assert!(first.holds("sda") && first.holds("sdb"));
    let message = host.lock(&names(&["sda"])).unwrap_err().to_string();
    assert!(message.starts_with("`sda` is in use by the run of iopj with process id "), "{message}");
    assert!(message.contains(&std::process::id().to_string()), "{message}");
    drop(first);
    host.lock(&names(&["sda"])).unwrap();
    let mode = fs::metadata(fixture.path("run/iopj")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

/// The run's notes about what it left as it is were dropped.
#[test]
fn a_drive_that_went_away_is_a_warning() {
    let fixture = Fixture::new();
    fixture.with_settings(&["sda"], |settings| {
        set(settings, "nomerges", "2").unwrap();
        fs::remove_dir_all(fixture.path("sys/block/sda")).unwrap();
        assert_eq!(settings.restore().unwrap(), []);
        assert_eq!(settings.warnings(), ["`sda` is gone, and its settings with it"]);
    });
    assert_eq!(fixture.journals(), [""; 0]);
}

#[test]
fn only_whole_devices_are_locked() {
    let host = Fixture::new();
    for device in ["sda1", "../sda", "", ".", "sda/queue"] {
        assert_refused(host.host().lock(&names(&[device])), &["lsblk"]);
    }
}

#[test]
fn what_would_be_changed_is_foreseen_without_a_lock() {
    let (fixture, locks) = (Fixture::new(), DeviceLocks::none());
    let host = fixture.host();
    let settings = host.settings(&names(&["sda"]), &locks);
    let foreseen = settings.foresee(Setting::Scheduler, "none").unwrap();
    let (file, old, new) = ("block/sda/queue/scheduler", "mq-deadline", "none");
    assert_eq!(foreseen, [Change { file: file.into(), old: old.into(), new: new.into() }]);
    assert_eq!(settings.foresee(Setting::Scheduler, "mq-deadline").unwrap(), []);
    drop(settings);
    assert_eq!((fixture.sda("scheduler"), fixture.journals()), ("mq-deadline".into(), Vec::new()));
}

#[test]
fn without_locks_nothing_is_changed() {
    let fixture = Fixture::new();
    let host = fixture.host();
    let locks = host.lock(&names(&["sda"])).unwrap();
    let mut settings = host.settings(&names(&["sdb"]), &locks);
    assert!(matches!(set(&mut settings, "nomerges", "2"), Err(SettingsError::NotLocked(_))));
    assert_eq!(fixture.read("sys/block/sdb/queue/nomerges"), "0");
}

#[test]
fn two_runs_do_not_change_the_cpus_at_once() {
    let fixture = Fixture::new();
    fixture.with_settings(&["sda"], |first| {
        set(first, "boost", "0").unwrap();
        fixture.with_settings(&["sdb"], |second| {
            let message = set(second, "boost", "1").unwrap_err().to_string();
            assert!(message.starts_with("`host:cpu` is in use by"), "{message}");
        });
        first.restore().unwrap();
        fixture.with_settings(&["sdb"], |second| set(second, "boost", "0").unwrap());
    });
}

#[test]
fn a_folder_that_others_may_write_is_refused() {
    let fixture = Fixture::new();
    fs::create_dir_all(fixture.path("run/iopj")).unwrap();
    fs::set_permissions(fixture.path("run/iopj"), fs::Permissions::from_mode(0o777)).unwrap();
    assert_refused(fixture.host().lock(&names(&["sda"])), &["can be written by other users: remove it"]);
    assert!(matches!(fixture.host().restore_left_behind(), Err(SettingsError::UnsafeFolder { .. })));
}

/// They stayed until the next boot.
#[test]
fn what_a_run_left_before_its_journal_had_a_name_is_removed() {
    let fixture = Fixture::new();
    let folder = fixture.path("run/iopj");
    fs::create_dir_all(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    let at = |name: &str| folder.join(name);
    for name in ["journal-1-2.new", "journal-3-4.new", "journal-5-6.new"] {
        fs::write(at(name), "").unwrap();
        fs::set_permissions(at(name), fs::Permissions::from_mode(0o600)).unwrap();
    }
    let aged = |name: &str| {
        let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
        fs::File::options().write(true).open(at(name)).unwrap().set_modified(long_ago).unwrap();
    };
    aged("journal-1-2.new");
    aged("journal-3-4.new");
    let alive = fs::File::open(at("journal-3-4.new")).unwrap();
    alive.lock().unwrap();
    fixture.host().restore_left_behind().unwrap();
    let left: Vec<bool> =
        ["1-2", "3-4", "5-6"].map(|name| at(&format!("journal-{name}.new")).exists()).into();
    assert_eq!(left, [false, true, true], "one that is held, or new, may be a live run's");
}
