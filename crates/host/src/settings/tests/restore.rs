//! Death and what the next start finds; forged journals; the real kernel.

use super::super::fixture::{BOOT_ID, Fixture, assert_refused, names};
use super::super::*;
use iopj_core::Setting;
use std::fs;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

const CHILD_ROOT: &str = "IOPJ_TEST_CHILD_ROOT";

/// This test program, to play the named part of a module of tests on the fixture's host.
pub(super) fn play(module: &str, part: &str, fixture: &Fixture) -> Child {
    let (_, module) = module.split_once("::").unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([&format!("{module}::{part}"), "--exact", "--quiet"]).env(CHILD_ROOT, fixture.root());
    command.stdout(std::process::Stdio::null()).spawn().unwrap()
}

pub(super) fn child_root() -> Option<PathBuf> {
    std::env::var_os(CHILD_ROOT).map(PathBuf::from)
}

pub(super) fn wait_for(file: &Path) {
    let start = Instant::now();
    while !file.exists() {
        assert!(start.elapsed() < Duration::from_secs(300), "{} did not come", file.display());
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub(super) fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Not a test of its own: the run that `a_killed_run_…` kills.
#[test]
fn part_changes_without_end() {
    let Some(root) = child_root() else { return };
    let host = Host::with_root(&root);
    let devices = names(&["sda", "sdb"]);
    let locks = host.lock(&devices).unwrap();
    let mut settings = host.settings(&devices, &locks);
    for round in 0.. {
        settings.set(Setting::Nomerges, if round % 2 == 0 { "2" } else { "1" }).unwrap();
        settings.set(Setting::Scheduler, if round % 3 == 0 { "none" } else { "kyber" }).unwrap();
        settings.set(Setting::Governor, "performance").unwrap();
        fs::write(root.join("changed"), "").unwrap();
        if round % 5 == 4 {
            settings.restore().unwrap();
        }
    }
}

/// All values of the fixture's sysfs, by file.
fn values(folder: &Path, into: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => values(&path, into),
            false => into.push((path.clone(), fs::read_to_string(&path).unwrap().trim().to_owned())),
        }
    }
    into.sort();
}

#[test]
fn a_killed_run_is_undone_at_the_next_start() {
    let fixture = Fixture::new();
    let sys = fixture.path("sys");
    let mut before = Vec::new();
    values(&sys, &mut before);
    for moment in 0..12u32 {
        let child = play(module_path!(), "part_changes_without_end", &fixture);
        wait_for(&fixture.path("changed"));
        std::thread::sleep(Duration::from_micros(u64::from(moment) * 700));
        kill(child);
        fs::remove_file(fixture.path("changed")).unwrap();
        let report = fixture.host().restore_left_behind().unwrap();
        assert_eq!((report.failed, report.left_alone), (vec![], vec![]));
        let mut after = Vec::new();
        values(&sys, &mut after);
        assert_eq!(after, before, "killed at moment {moment}");
        assert_eq!(fixture.journals(), [""; 0]);
    }
}

#[test]
fn a_live_run_is_left_alone_and_named() {
    let fixture = Fixture::new();
    fixture.with_settings(&["sda"], |settings| {
        settings.set(Setting::Nomerges, "2").unwrap();
        let report = fixture.host().restore_left_behind().unwrap();
        assert_eq!(report.restored, []);
        let reason = format!("its run is alive, with process id {}", std::process::id());
        assert_eq!(report.left_alone[0].reason, reason);
        assert_eq!((fixture.sda("nomerges"), fixture.journals().len()), ("2".into(), 1));
    });
}

/// Lays down a journal as a dead run leaves it.
pub(super) fn journal(fixture: &Fixture, begun_ns: u64, header: &str, lines: &str) -> PathBuf {
    fixture.host().lock(&[]).unwrap();
    let path = fixture.path(&format!("run/iopj/journal-77-{begun_ns}.jsonl"));
    let header = header.replace("BEGUN", &begun_ns.to_string());
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).unwrap();
    std::io::Write::write_all(&mut file, format!("{header}\n{lines}").as_bytes()).unwrap();
    path
}

fn header() -> String {
    header_with(BOOT_ID, "\"S-sda\"")
}

fn header_with(boot_id: &str, serial: &str) -> String {
    let drives = format!(r#"[{{"name":"sda","serial":{serial}}}]"#);
    format!(r#"{{"iopj_journal":1,"boot_id":"{boot_id}","pid":77,"begun_ns":BEGUN,"devices":{drives}}}"#)
}

fn line(old: &str, new: &str) -> String {
    format!("{{\"file\":\"block/sda/queue/nomerges\",\"old\":\"{old}\",\"new\":\"{new}\"}}\n")
}

/// What the next start does. A program that another test is just starting holds copies of this one's locks
/// until it runs, so that a dead journal may seem to live for a moment.
pub(super) fn restore(fixture: &Fixture) -> RestoreReport {
    let seems_alive = |report: &RestoreReport| {
        report.left_alone.iter().any(|one| one.reason.starts_with("its run is alive"))
    };
    let mut report = fixture.host().restore_left_behind().unwrap();
    for _ in 0..100 {
        if !seems_alive(&report) {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
        report = fixture.host().restore_left_behind().unwrap();
    }
    report
}

#[test]
fn a_host_without_journals_has_nothing_to_restore() {
    assert_eq!(restore(&Fixture::new()), RestoreReport::default());
}

#[test]
fn a_torn_last_line_is_passed_over() {
    let fixture = Fixture::new();
    fixture.write("sys/block/sda/queue/nomerges", "2");
    journal(&fixture, 1, &header(), &format!("{}{{\"file\":\"block/sda/queue/sch", line("0", "2")));
    let report = restore(&fixture);
    let file = fixture.path("sys/block/sda/queue/nomerges");
    assert_eq!(report.restored, [Restored { file, from: "2".into(), to: "0".into() }]);
    assert_eq!((fixture.sda("nomerges"), fixture.journals().len()), ("0".into(), 0));
}

#[test]
fn a_forged_path_undoes_nothing_of_its_journal() {
    for forged in [
        "../../etc/shadow",
        "block/../../etc/queue/nomerges",
        "kernel/uevent_helper",
        "block/sdb/queue/nomerges",
    ] {
        let fixture = Fixture::new();
        fixture.write("sys/kernel/uevent_helper", "harmless");
        fixture.write("sys/block/sda/queue/nomerges", "2");
        let bad = format!("{{\"file\":\"{forged}\",\"old\":\"1\",\"new\":\"1\"}}\n");
        let path = journal(&fixture, 1, &header(), &format!("{}{bad}", line("0", "2")));
        let report = restore(&fixture);
        assert_eq!(report.failed[0].file, path);
        assert!(report.failed[0].reason.contains("line 3"), "{}", report.failed[0].reason);
        assert_eq!((report.restored, fixture.sda("nomerges")), (vec![], "2".into()));
        assert_eq!(fixture.read("sys/kernel/uevent_helper"), "harmless");
        assert!(path.exists());
    }
}

#[test]
fn old_values_that_are_no_word_are_refused() {
    let fixture = Fixture::new();
    journal(&fixture, 1, &header(), &line("0 1", "2"));
    assert!(restore(&fixture).failed[0].reason.contains("not a single word"));
}

#[test]
fn a_journal_that_others_may_write_is_refused() {
    let fixture = Fixture::new();
    fixture.write("sys/block/sda/queue/nomerges", "2");
    let path = journal(&fixture, 1, &header(), &line("0", "2"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o620)).unwrap();
    assert!(restore(&fixture).failed[0].reason.contains("can be written by other users"));
    fs::rename(&path, fixture.path("elsewhere")).unwrap();
    fixture.link("run/iopj/journal-77-1.jsonl", "elsewhere");
    assert!(restore(&fixture).failed[0].reason.contains("cannot be opened"));
    assert_eq!(fixture.sda("nomerges"), "2");
}

#[test]
fn a_journal_of_another_boot_is_removed() {
    let fixture = Fixture::new();
    fixture.write("sys/block/sda/queue/nomerges", "2");
    journal(&fixture, 1, &header_with("another", "\"S-sda\""), &line("0", "2"));
    let report = restore(&fixture);
    assert!(report.notes[0].contains("another boot"), "{:?}", report.notes);
    assert_eq!((fixture.sda("nomerges"), fixture.journals().len()), ("2".into(), 0));
}

#[test]
fn another_drive_under_the_name_is_left_alone() {
    for serial in ["\"S-old\"", "null"] {
        let fixture = Fixture::new();
        fixture.write("sys/block/sda/queue/nomerges", "2");
        fixture.write(&format!("{}/cpufreq/boost", fixture::CPU), "0");
        let boost = "{\"file\":\"devices/system/cpu/cpufreq/boost\",\"old\":\"1\",\"new\":\"0\"}\n";
        journal(&fixture, 1, &header_with(BOOT_ID, serial), &format!("{}{boost}", line("0", "2")));
        let report = restore(&fixture);
        assert!(
            report.notes[0].starts_with("`sda` is another drive now (serial S-sda"),
            "{:?}",
            report.notes
        );
        assert_eq!(report.restored.len(), 1);
        assert_eq!((fixture.sda("nomerges"), fixture.journals().len()), ("2".into(), 0));
    }
}

#[test]
fn a_drive_that_is_gone_is_noted() {
    let fixture = Fixture::new();
    fs::remove_dir_all(fixture.path("sys/block/sda")).unwrap();
    let other = line("0", "2").replace("nomerges", "read_ahead_kb");
    journal(&fixture, 1, &header(), &format!("{}{other}", line("0", "2")));
    let report = restore(&fixture);
    assert_eq!(report.notes, ["`sda` is gone, and its settings with it"]);
    assert_eq!(fixture.journals().len(), 0);
}

#[test]
fn newer_journals_are_undone_first() {
    let fixture = Fixture::new();
    fixture.write("sys/block/sda/queue/nomerges", "1");
    // As text "10" sorts before "9": the number counts.
    journal(&fixture, 9, &header(), &line("0", "2"));
    journal(&fixture, 10, &header(), &line("2", "1"));
    assert_eq!(restore(&fixture).restored.len(), 2);
    assert_eq!(fixture.sda("nomerges"), "0");
}

#[test]
fn an_older_journal_waits_for_a_newer_one() {
    let fixture = Fixture::new();
    fixture.write("sys/block/sda/queue/nomerges", "1");
    let both = header().replace("\"S-sda\"}", "\"S-sda\"},{\"name\":\"sdb\",\"serial\":\"S-sdb\"}");
    journal(&fixture, 1, &header(), &line("0", "2"));
    journal(&fixture, 2, &both, &line("2", "1"));
    let host = fixture.host();
    let locks = host.lock(&names(&["sdb"])).unwrap();
    let report = restore(&fixture);
    assert_eq!((report.restored, report.left_alone.len()), (vec![], 2));
    assert!(report.left_alone[0].reason.contains("`sdb` is in use by"), "{:?}", report.left_alone);
    assert!(report.left_alone[1].reason.contains("newer journal of `sda`"), "{:?}", report.left_alone);
    drop(locks);
    assert_eq!(restore(&fixture).restored.len(), 2);
    assert_eq!(fixture.sda("nomerges"), "0");
}

#[test]
fn what_cannot_be_put_back_keeps_its_journal() {
    let fixture = Fixture::new();
    fixture.with_settings(&["sda"], |settings| {
        settings.set(Setting::Nomerges, "2").unwrap();
        settings.set(Setting::ReadAheadKb, "0").unwrap();
        fs::rename(fixture.path("sys/block/sda/queue/nomerges"), fixture.path("away")).unwrap();
        fixture.link("sys/block/sda/queue/nomerges", "away");
        assert_refused(settings.restore(), &["nomerges (", "`iopj restore` tries again"]);
    });
    assert_eq!((fixture.sda("read_ahead_kb"), fixture.journals().len()), ("128".into(), 1));
    assert_eq!(restore(&fixture).failed.len(), 1);
    fs::rename(fixture.path("away"), fixture.path("sys/block/sda/queue/nomerges")).unwrap();
    assert_eq!(restore(&fixture).restored.len(), 1);
    assert_eq!((fixture.sda("nomerges"), fixture.journals().len()), ("0".into(), 0));
}

/// What a run without root gets: whether its locks allow a change, and both refusals.
fn without_root(root: &Path) -> String {
    // This changes the user of this thread alone, which ends with it.
    let nobody = rustix::process::Uid::from_raw(65_534);
    rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
    let host = Host::with_root(root);
    let devices = names(&["sda"]);
    let locks = host.lock(&devices).unwrap();
    let mut settings = host.settings(&devices, &locks);
    settings.set(Setting::Nomerges, "0").unwrap();
    let set = settings.set(Setting::Nomerges, "2").unwrap_err().to_string();
    let restore = host.restore_left_behind().err().map_or_else(String::new, |error| error.to_string());
    format!("{} | {set} | {restore}", locks.is_effective())
}

/// True where the process has root; fails in CI, where it must have it.
fn has_root() -> bool {
    let root = super::super::files::is_root();
    assert!(root || std::env::var_os("CI").is_none_or(|ci| ci != "true"), "CI must run this test as root");
    if !root {
        eprintln!("skipped: needs root");
    }
    root
}

#[test]
fn without_root_a_run_goes_on_and_changes_nothing() {
    if !has_root() {
        return;
    }
    let fixture = Fixture::new();
    fs::set_permissions(fixture.root(), fs::Permissions::from_mode(0o755)).unwrap();
    let answer = || {
        let root = fixture.root().to_owned();
        std::thread::spawn(move || without_root(&root)).join().unwrap()
    };
    let refused = "false | changing `nomerges` needs root: run iopj as root, or do without it | ";
    assert_eq!(answer(), refused);
    // The same once root has made the folder.
    drop(fixture.host().lock(&names(&["sda"])).unwrap());
    assert_eq!(
        answer(),
        format!("{refused}putting settings back needs root: run iopj as root, or do without it")
    );
}

/// A loop device on a small file, detached when dropped.
struct Loop(String);

impl Loop {
    fn attach(file: &Path) -> Loop {
        fs::write(file, vec![0u8; 1 << 20]).unwrap();
        let output = Command::new("losetup").args(["--find", "--show"]).arg(file).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        Loop(String::from_utf8(output.stdout).unwrap().trim().trim_start_matches("/dev/").to_owned())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &format!("/dev/{}", self.0)]).status();
    }
}

#[test]
fn the_kernel_takes_and_gives_back() {
    if !has_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let device = Loop::attach(&folder.path().join("image"));
    let host = Host::new().with(|host| host.run = folder.path().join("run"));
    let queue = Path::new("/sys/block").join(&device.0).join("queue");
    let read = |attribute: &str| fs::read_to_string(queue.join(attribute)).unwrap().trim().to_owned();
    let (nomerges, scheduler, nr_requests) = (read("nomerges"), read("scheduler"), read("nr_requests"));
    let devices = [device.0.clone()];
    let locks = host.lock(&devices).unwrap();
    let mut settings = host.settings(&devices, &locks);
    settings.set(Setting::Nomerges, if nomerges == "2" { "0" } else { "2" }).unwrap();
    settings.set(Setting::Scheduler, "none").unwrap();
    assert_ne!(read("nomerges"), nomerges);
    assert_refused(settings.set(Setting::Scheduler, "nosuch"), &["it offers none"]);
    io_poll_delay_takes_or_is_explained(&mut settings);
    settings.restore().unwrap();
    assert_eq!(
        (read("nomerges"), read("scheduler"), read("nr_requests")),
        (nomerges, scheduler, nr_requests)
    );
    assert_eq!(
        fs::read_dir(&host.run).unwrap().count(),
        2,
        "only the lock files stay: its own, and that of its backing file"
    );
}

/// Before 6.4 the kernel refuses it on a device that cannot poll; from then on it swallows it.
fn io_poll_delay_takes_or_is_explained(settings: &mut Settings) {
    let message = settings.set(Setting::IoPollDelay, "4").unwrap_err().to_string();
    let explained = message
        .contains("this kernel ignores io_poll_delay: synchronous hybrid polling was removed in Linux 6.4")
        || message.contains("cannot poll");
    assert!(explained, "{message}");
}
