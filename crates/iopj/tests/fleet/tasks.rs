//! A task of Slurm as its script starts it, without Slurm: what becomes of it when it is killed or told to
//! end.

use crate::campaigns::{Disk, end, json, open_folder, process, signal, study, trials, until, until_done};
use crate::common::{have_mounts, iopj};
use serde_json::json;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use tempfile::TempDir;

/// Another user than root.
const USER: u32 = 65_532;

/// A folder with a disk of root's, `scratch`, and an empty folder, `theirs`, that is to be a user's.
fn users_folder() -> (TempDir, Disk) {
    let folder = open_folder();
    let disk = Disk::mounted(&folder.path().join("scratch"));
    fs::create_dir(folder.path().join("theirs")).unwrap();
    (folder, disk)
}

/// iopj, as root itself calls it.
fn by_root(folder: &Path, line: &str) -> Command {
    let mut command = iopj(folder, line);
    command.env_remove("SUDO_UID");
    command
}

/// Writes a campaign of the node `n1`, as submit does.
fn plan(campaign: &Path, scratch: &Path, trials: u32) {
    for name in ["hosts", "run"] {
        fs::create_dir_all(campaign.join(name)).unwrap();
    }
    let plan = json!({
        "format": 2,
        "job": {
            "format": 2, "version": env!("CARGO_PKG_VERSION"), "campaign": "quick-1",
            "study": study(trials, "200ms"), "destroy_data": false,
            "allow": { "exec": false, "secrets": false, "hosts": false },
            "leases": campaign.join("drives"), "scratch": scratch,
        },
        "by": { "slurm": { "nodes": null, "nodelist": ["n1"], "options": [], "command": "iopj" } },
    });
    write(&campaign.join("campaign.json"), &plan.to_string());
}

/// Writes a file that others cannot write, whatever the umask is.
fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
}

/// A campaign of a node with a scratch of its own, and its task.
struct Task {
    process: Child,
    _disk: Disk,
    folder: TempDir,
}

impl Task {
    fn started() -> Task {
        let folder = open_folder();
        let disk = Disk::mounted(&folder.path().join("scratch"));
        plan(&folder.path().join("c"), &folder.path().join("scratch"), 50);
        let mut command = iopj(folder.path(), "fleet job --campaign c --node n1 --task 7_0");
        let task = Task { process: command.spawn().unwrap(), _disk: disk, folder };
        until_done(&task.at("scratch/quick-1/n1/run.iopj"), 1);
        task
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The campaign showed no trial of it.
#[test]
fn trials_of_a_killed_task_come_back_from_the_scratch_of_its_host() {
    if !have_mounts() {
        return;
    }
    let mut task = Task::started();
    signal(process(&task.at("c/run/n1/state.json")), libc::SIGKILL);
    assert_eq!(end(&mut task.process).signal(), Some(libc::SIGKILL), "Slurm records it");
    assert!(trials(&task.at("c/run/n1/run.iopj")) >= 1);
}

/// A second signal ends a run at once; Slurm tells all processes of a task, and `sudo` passes it on.
#[test]
fn a_task_whose_every_process_is_told_to_end_puts_its_end_on_record() {
    if !have_mounts() {
        return;
    }
    let mut task = Task::started();
    let all = [task.process.id() as i32, process(&task.at("c/run/n1/state.json"))];
    all.iter().chain(&all).for_each(|pid| signal(*pid, libc::SIGTERM));
    assert_eq!(end(&mut task.process).code(), Some(130));
    let state = json(&task.at("c/run/n1/state.json"));
    assert_eq!((&state["phase"], &state["task"]), (&"cancelled".into(), &"7_0".into()), "{state}");
    assert_eq!(state["done"], trials(&task.at("c/run/n1/run.iopj")));
}

/// Root followed a link that the user put there between two of its steps.
#[test]
fn a_task_as_root_acts_in_a_users_folder_as_that_user_and_writes_its_store_elsewhere() {
    if !have_mounts() {
        return;
    }
    let (folder, _disk) = users_folder();
    let at = |name: &str| folder.path().join(name);
    let task = |scratch: &str| {
        plan(&at("c"), &at(scratch), 2);
        for name in ["theirs", "c", "c/hosts", "c/run", "c/campaign.json"] {
            chown(at(name), Some(USER), Some(USER)).unwrap();
        }
        let ended = by_root(folder.path(), "fleet job --campaign c --node n1 --task 7_0").output().unwrap();
        (ended.status.code(), String::from_utf8(ended.stderr).unwrap(), json(&at("c/run/n1/state.json")))
    };
    let (code, said, state) = task("theirs");
    assert_eq!((code, &state["phase"]), (Some(2), &"refused".into()), "{said}");
    let reason = state["reason"].as_str().unwrap();
    assert!(reason.contains(&format!("they can change `{}`", at("theirs").display())), "{reason}");
    let (code, said, state) = task("scratch");
    assert_eq!((code, &state["phase"]), (Some(0), &"ok".into()), "{said}");
    assert_eq!(trials(&at("c/run/n1/run.iopj")), 2);
    for name in ["job.json", "state.json", "lock", "run.iopj"] {
        assert_eq!(fs::metadata(at("c/run/n1").join(name)).unwrap().uid(), USER, "{name}");
    }
    // Who called sudo decides, whosever the folder is, and takes no orders of others.
    let mut by_another = iopj(folder.path(), "fleet job --campaign c --node n2 --task 7_1");
    let by_another = by_another.envs([("SUDO_UID", "65530"), ("SUDO_GID", "65530")]).output().unwrap();
    let said = String::from_utf8(by_another.stderr).unwrap();
    assert!(
        by_another.status.code() == Some(2) && said.contains("campaign.json` belongs to user 65532"),
        "{said}"
    );
    let left = |name: &str| fs::read_dir(at(name)).unwrap().map(|one| one.unwrap().file_name());
    assert_eq!(left("c/drives").count(), 0, "its leases have ended");
    let of_user = format!("scratch/user-{USER}");
    assert_eq!(left(&of_user).count(), 0, "the store was there only until it was brought");
    let mode = fs::metadata(at(&of_user)).unwrap().mode();
    assert_eq!(mode & 0o777, 0o700, "nobody else reads or locks it");
}

/// Root made a store where the link led.
#[test]
fn a_job_as_root_writes_through_no_link_of_the_user() {
    if !have_mounts() {
        return;
    }
    let (folder, _disk) = users_folder();
    let at = |name: &str| folder.path().join(name);
    let job = json!({
        "format": 2, "version": env!("CARGO_PKG_VERSION"), "campaign": "quick-1", "study": study(1, "200ms"),
        "destroy_data": false, "allow": { "exec": false, "secrets": false, "hosts": false },
        "scratch": at("scratch"),
    });
    write(&at("theirs/job.json"), &job.to_string());
    for name in ["run.iopj", "state.json", "cancels"] {
        symlink(at(&format!("roots-{name}")), at("theirs").join(name)).unwrap();
    }
    for name in ["theirs", "theirs/job.json"] {
        chown(at(name), Some(USER), Some(USER)).unwrap();
    }
    let by_user = |line: &str| {
        let number = USER.to_string();
        let mut command = iopj(folder.path(), line);
        command.envs([("SUDO_UID", &number), ("SUDO_GID", &number)]);
        command.output().unwrap()
    };
    let orders = by_root(folder.path(), "fleet job theirs --start").output().unwrap();
    let said = String::from_utf8_lossy(&orders.stderr);
    assert!(orders.status.code() == Some(2) && said.contains("root works only where others"), "{said}");
    let started = by_user("fleet job theirs --start");
    let said = String::from_utf8_lossy(&started.stderr);
    assert!(!started.status.success() && said.contains("it is a symbolic link, not a file"), "{said}");
    fs::remove_file(at("theirs/state.json")).unwrap();
    fs::remove_file(at("theirs/cancels")).unwrap();
    let started = by_user("fleet job theirs --start");
    assert!(started.status.success(), "{}", String::from_utf8_lossy(&started.stderr));
    until("its end", || (json(&at("theirs/state.json"))["phase"] == "ok").then_some(()));
    let stopped = by_user("fleet job theirs --stop --cancels 1");
    assert!(stopped.status.success(), "{}", String::from_utf8_lossy(&stopped.stderr));
    let is_roots = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with("roots-");
    assert!(!fs::read_dir(folder.path()).unwrap().any(|one| is_roots(&one.unwrap().file_name())));
    for name in ["run.iopj", "state.json", "cancels", "log"] {
        let found = fs::symlink_metadata(at("theirs").join(name)).unwrap();
        assert!(found.is_file() && found.uid() == USER, "{name}");
    }
    let sent = by_user("fleet store theirs/run.iopj");
    assert!(sent.stdout.starts_with(b"{\"iopj_store\":1,"), "{}", String::from_utf8_lossy(&sent.stderr));
}

/// A state in a user's folder named any process, and root ended it.
#[test]
fn a_process_that_is_no_job_is_not_ended() {
    let folder = open_folder();
    let mut other = Command::new("sleep").arg("600").spawn().unwrap();
    let stat = fs::read_to_string(format!("/proc/{}/stat", other.id())).unwrap();
    let start: u64 = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(19).unwrap().parse().unwrap();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let job = json!({
        "format": 2, "version": env!("CARGO_PKG_VERSION"), "campaign": "quick-1", "study": study(1, "1s"),
        "destroy_data": false, "allow": { "exec": false, "secrets": false, "hosts": false },
    });
    let state = json!({
        "phase": "running", "since_ms": 1, "done": 0, "planned": 1,
        "process": { "pid": other.id(), "boot": boot.trim(), "start": start },
    });
    for (name, value) in [("job.json", job), ("state.json", state)] {
        write(&folder.path().join(name), &value.to_string());
    }
    let asked = iopj(folder.path(), "fleet job . --stop").output().unwrap();
    let said = String::from_utf8(asked.stderr).unwrap();
    assert_eq!(asked.status.code(), Some(2), "{said}");
    assert!(said.contains(&format!("names process {}, which is no job", other.id())), "{said}");
    assert_eq!(other.try_wait().unwrap(), None);
    other.kill().unwrap();
    other.wait().unwrap();
}
