//! A job on a drive: serial numbers, a drive that is changed while its job waits for it, a run that an error
//! ends, two starts at once, and one that comes too late. No drive here need have a serial number: a loop
//! device gets one where the job looks for it, in a mount namespace of its own.

use crate::campaigns::{Disk, end, json, open_folder, study, until, until_done};
use crate::common::{TestFolder, have, have_mounts, says, written};
use iopj_fleet::JobFolder;
use iopj_host::settings::Host;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// A small drive, and a job whose store is on it.
struct Place {
    disk: Disk,
    folder: TempDir,
}

impl Place {
    fn new() -> Place {
        let folder = open_folder();
        fs::create_dir(folder.path().join("sysfs")).unwrap();
        Place { disk: Disk::mounted(&folder.path().join("disk")), folder }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Tells a job of this study anew; `more` is added to what it is told.
    fn tell(&self, job: &str, study: &str, more: Value) {
        let mut all = json!({
            "format": 2, "version": env!("CARGO_PKG_VERSION"), "campaign": "c", "study": study,
            "destroy_data": false,
            "allow": { "exec": false, "secrets": false, "hosts": false }, "wait_ms": 600_000,
        });
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let _ = fs::remove_dir_all(self.at(job));
        fs::create_dir(self.at(job)).unwrap();
        let description = self.at(job).join("job.json");
        fs::write(&description, all.to_string()).unwrap();
        fs::set_permissions(&description, fs::Permissions::from_mode(0o644)).unwrap();
    }

    fn begin(&self, job: &str) -> Child {
        self.start(Command::new(env!("CARGO_BIN_EXE_iopj")).args(["fleet", "job"]).arg(self.at(job)))
    }

    /// Begins a job which finds that the drive has this serial number.
    fn begin_numbered(&self, job: &str, serial: &str) -> Child {
        let sysfs = format!("/sys/devices/virtual/block/{}", self.disk.name());
        fs::write(self.at("sysfs/serial"), serial).unwrap();
        // Mounts spread from the mount that they are made on: here that is sysfs. The root may be no mount
        // point, as in a plain chroot, and then nothing can be said of it.
        let script = format!(
            "mount --make-rprivate /sys && mount -t overlay overlay -o lowerdir={}:{sysfs} {sysfs} && exec \
             {} fleet job {}",
            self.at("sysfs").display(),
            env!("CARGO_BIN_EXE_iopj"),
            self.at(job).display()
        );
        let unshare = ["--mount", "--propagation", "unchanged", "sh", "-c", &script];
        self.start(Command::new("unshare").args(unshare))
    }

    fn start(&self, command: &mut Command) -> Child {
        let said = File::create(self.at("said")).unwrap();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said).spawn().unwrap()
    }

    fn said(&self) -> String {
        fs::read_to_string(self.at("said")).unwrap()
    }

    fn state(&self, job: &str) -> Value {
        json(&self.at(job).join("state.json"))
    }
}

fn have_numbers() -> bool {
    let can_lay_over =
        || fs::read_to_string("/proc/filesystems").is_ok_and(|all| all.contains("\toverlay\n"));
    have_mounts() && have(can_lay_over(), "a kernel with overlayfs")
}

#[test]
fn nothing_is_written_to_a_drive_whose_serial_number_is_not_listed_whole() {
    if !have_numbers() {
        return;
    }
    let place = Place::new();
    let writes = study(1, "50ms").replace("randread", "randwrite");
    let state = |listed: &[&str], serial: Option<&str>| {
        place.tell("disk/job", &writes, json!({ "serials": listed }));
        let begin = |serial| place.begin_numbered("disk/job", serial);
        end(&mut serial.map_or_else(|| place.begin("disk/job"), begin));
        place.state("disk/job")
    };
    let refused = |listed: &[&str], serial: Option<&str>, why: &str| {
        let state = state(listed, serial);
        assert_eq!(state["phase"], "refused", "{state}");
        says(state["reason"].as_str().unwrap(), &[why]);
        let names = fs::read_dir(place.at("disk/job")).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.collect();
        names.sort();
        assert_eq!(names, ["job.json", "lock", "state.json"], "a store or a file was made");
    };
    refused(&["S4EV1234"], None, "has no serial number");
    // As NVMe pads it.
    let found = "S4EV1234            \n";
    for listed in ["S1", "S4EV123", "S4EV12345"] {
        refused(&[listed], Some(found), "`S4EV1234`, is not listed");
    }
    let done = state(&["S1", "S4EV1234   "], Some(found));
    assert_eq!((&done["phase"], &done["done"]), (&"ok".into(), &1.into()), "{done}");
}

/// It had been read before the wait only.
#[test]
fn the_serial_number_is_read_again_after_a_wait_for_the_drive() {
    if !have_numbers() {
        return;
    }
    let place = Place::new();
    let writes = study(1, "50ms").replace("randread", "randwrite");
    place.tell("disk/job", &writes, json!({ "serials": ["S1"] }));
    let other = Host::new().lock(&[place.disk.name().to_owned()]).unwrap();
    let mut job = place.begin_numbered("disk/job", "S1\n");
    until("the wait", || place.said().contains("waiting until it ends").then_some(()));
    fs::write(place.at("sysfs/serial"), "S2\n").unwrap();
    drop(other);
    assert_eq!(end(&mut job).code(), Some(2));
    let state = place.state("disk/job");
    assert_eq!((&state["phase"], &state["done"]), (&"refused".into(), &0.into()), "{state}");
    says(
        state["reason"].as_str().unwrap(),
        &["had the serial number `S1`, and has the serial number `S2` now"],
    );
    assert!(!place.at("disk/job/run.iopj").exists());
}

/// It was recorded as a refusal, though trials were in the store.
#[test]
fn a_run_that_an_error_ends_is_no_refusal() {
    if !have_mounts() {
        return;
    }
    let place = Place::new();
    written(&place.at("disk/data"), 4 << 20);
    let more = json!({ "target": place.at("disk/data"), "scratch": place.at("disk") });
    place.tell("job", &study(200, "50ms"), more);
    let mut job = place.begin("job");
    until_done(&place.at("disk/c/job/run.iopj"), 1);
    // The next trial has no room.
    fs::write(place.at("disk/filler"), vec![0; 64 << 20]).unwrap_err();
    assert_eq!(end(&mut job).code(), Some(3), "{}", place.said());
    let state = place.state("job");
    assert_eq!(state["phase"], "killed", "{state}");
    says(state["reason"].as_str().unwrap(), &["an error ended the run: no space is left for `"]);
    assert!((1..200).contains(&state["done"].as_u64().unwrap()), "{state}");
}

/// A folder with `job`, which is refused once it begins.
fn with_a_job_without_its_target() -> TestFolder {
    let folder = crate::common::folder();
    let place = |name: &str| Path::new(&*folder).join(name);
    fs::create_dir(place("job")).unwrap();
    let job = json!({
        "format": 2, "version": env!("CARGO_PKG_VERSION"), "campaign": "c", "study": study(1, "10ms"),
        "target": place("none"), "destroy_data": false,
            "allow": { "exec": false, "secrets": false, "hosts": false },
    });
    fs::write(place("job/job.json"), job.to_string()).unwrap();
    // Whatever the umask is: nobody else may say what a job does.
    fs::set_permissions(place("job/job.json"), fs::Permissions::from_mode(0o644)).unwrap();
    folder
}

/// The second one recorded its refusal over the first one's run.
#[test]
fn of_two_starts_at_once_one_has_the_job() {
    let folder = with_a_job_without_its_target();
    let place = |name: &str| Path::new(&*folder).join(name);
    let first = JobFolder::new(&place("job")).lock().unwrap().unwrap();
    let (code, _, words) = crate::common::run(&folder, "fleet job job");
    assert_eq!(code, 2);
    says(&words, &["the job in `job` runs already"]);
    assert!(!place("job/state.json").exists());
    drop(first);
    crate::common::run(&folder, "fleet job job");
    assert_eq!(json(&place("job/state.json"))["phase"], "refused", "there is no target");
}

/// It wrote that the job had not begun over how it had ended.
#[test]
fn a_start_that_comes_after_cancel_leaves_the_end_on_record() {
    let folder = with_a_job_without_its_target();
    let asked = |what: &str| {
        let (code, look, words) = crate::common::run(&folder, &format!("fleet job job {what}"));
        assert_eq!(code, 0, "{words}");
        serde_json::from_str::<Value>(look.lines().last().unwrap()).unwrap()["state"].clone()
    };
    assert_eq!(asked("--stop --cancels 1"), Value::Null);
    asked("--start --cancels 0");
    let late = asked("--await");
    assert_eq!((&late["phase"], &late["reason"]), (&"cancelled".into(), &"cancelled before it began".into()));
    asked("--start --cancels 1");
    let refused = asked("--await");
    assert_eq!(refused["phase"], "refused", "it begins, and there is no target");
    asked("--stop --cancels 2");
    assert_eq!(asked("--start --cancels 1"), refused);
}
