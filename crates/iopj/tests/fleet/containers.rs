//! The seccomp profile that is shipped for Kubernetes, in force in a real container without root.

use crate::campaigns::{Disk, open_folder, study};
use crate::common::{apart, have, have_mounts, install, tool};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

const PROFILE: &str = include_str!("../../../../packaging/kubernetes/seccomp-iopj.json");
const PROFILE_OF_SAMPLES: &str = include_str!("../../../../packaging/kubernetes/seccomp-iopj-profile.json");
const RING: [&str; 3] = ["io_uring_setup", "io_uring_enter", "io_uring_register"];
const USER: u32 = 65_532;

fn have_containers() -> bool {
    have_mounts() && have(Path::new("/usr/sbin/runc").exists(), "runc")
}

/// Runs a job in a container as its pod would, under a profile; the job's state.
fn state(folder: &TempDir, name: &str, profile: &Value) -> Value {
    let at = |name: &str| folder.path().join(name);
    let job = json!({
        "format": 2, "version": env!("CARGO_PKG_VERSION"), "campaign": name,
        "study": study(1, "50ms").replace("posix-sio/syscall", "io_uring/syscall"),
        "destroy_data": false, "allow": { "exec": false, "secrets": false, "hosts": false },
    });
    fs::write(at("told/job.json"), job.to_string()).unwrap();
    let job = format!("/data/{name}");
    let arguments = ["/bin/iopj", "fleet", "job", &job, "--description", "/told/job.json"];
    let bind = |at: &Path, to: &str| {
        let options = ["rbind"];
        json!({ "destination": to, "type": "bind", "source": at, "options": options })
    };
    let mut mounts = vec![
        json!({ "destination": "/proc", "type": "proc", "source": "proc" }),
        json!({ "destination": "/sys", "type": "sysfs", "source": "sysfs", "options": ["ro"] }),
        json!({ "destination": "/dev", "type": "tmpfs", "source": "tmpfs" }),
    ];
    for (from, to) in [("bin", "/bin"), ("told", "/told"), ("data", "/data")] {
        mounts.push(bind(&at(from), to));
    }
    for system in ["/usr", "/lib", "/lib64"] {
        mounts.push(bind(Path::new(system), system));
    }
    let namespaces = ["pid", "mount", "network", "ipc", "uts"].map(|kind| json!({ "type": kind }));
    let config = json!({
        "ociVersion": "1.0.2",
        "process": {
            "user": { "uid": USER, "gid": USER }, "args": arguments, "cwd": "/data",
            "env": ["PATH=/bin"], "noNewPrivileges": true, "capabilities": {},
        },
        "root": { "path": "rootfs" },
        "mounts": mounts,
        "linux": {
            "namespaces": namespaces,
            "seccomp": profile,
        },
    });
    fs::write(at("config.json"), config.to_string()).unwrap();
    let id = format!("iopj-{name}-{}", std::process::id());
    // runc makes a control group, and a plain chroot may have none mounted.
    let script = format!(
        "[ -n \"$(ls /sys/fs/cgroup)\" ] || mount -t cgroup2 cgroup2 /sys/fs/cgroup\nexec /usr/sbin/runc run \
         --bundle {} {id}",
        folder.path().display()
    );
    let output = apart(folder.path(), &script);
    let state = fs::read(at("data").join(name).join("state.json"));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    serde_json::from_slice(&state.unwrap_or_else(|error| panic!("{error}: {said}"))).unwrap()
}

#[test]
fn the_profile_lets_io_uring_through_and_the_usual_one_does_not() {
    if !have_containers() {
        return;
    }
    let folder = open_folder();
    let at = |name: &str| folder.path().join(name);
    for name in ["bin", "told", "rootfs"] {
        fs::create_dir(at(name)).unwrap();
    }
    install(Path::new(env!("CARGO_BIN_EXE_iopj")), &at("bin/iopj"));
    let _disk = Disk::mounted(&at("data"));
    tool(&format!("chown {USER}:{USER} {}", at("data").display()));
    let profile: Value = serde_json::from_str(PROFILE).unwrap();
    let done = state(&folder, "with", &profile);
    assert_eq!((&done["phase"], &done["done"]), (&"ok".into(), &1.into()), "{done}");

    let mut usual = profile;
    let names = usual["syscalls"][0]["names"].as_array_mut().unwrap();
    names.retain(|name| !RING.iter().any(|ring| name == ring));
    assert!(names.is_empty(), "the rings' calls stand apart");
    usual["syscalls"].as_array_mut().unwrap().remove(0);
    let refused = state(&folder, "without", &usual);
    assert_eq!(refused["phase"], "refused", "{refused}");
    assert!(refused["reason"].as_str().unwrap().contains("io_uring"), "{refused}");
}

#[test]
fn the_profile_for_samples_lets_one_call_more_through() {
    let calls = |text: &str| {
        let profile: Value = serde_json::from_str(text).unwrap();
        let first = profile["syscalls"][0]["names"].as_array().unwrap().clone();
        (first, profile["syscalls"].as_array().unwrap()[1..].to_vec())
    };
    let (plain, rest) = calls(PROFILE);
    let (samples, same) = calls(PROFILE_OF_SAMPLES);
    assert_eq!(plain, RING.map(Value::from));
    assert_eq!(samples, [plain, vec!["perf_event_open".into()]].concat());
    assert_eq!(rest, same);
}
