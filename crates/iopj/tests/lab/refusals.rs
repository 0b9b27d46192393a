//! One message for everything that the lab cannot do.

use crate::common::{TestFolder, folder, have, iopj, is_root, kernel, says, written};
use crate::{have_lab, lab_run, study_text};
use std::path::Path;
use std::process::{Command, Output};

#[track_caller]
fn refused(output: &Output, parts: &[&str]) {
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{words}");
    assert!(!words.contains("panicked"), "{words}");
    let messages = words.lines().filter(|line| line.starts_with("iopj: ")).count();
    assert_eq!(messages, 1, "{words}");
    assert!(words.matches("No such file or directory").count() <= 1, "a cause that is stated twice: {words}");
    says(&words, parts);
}

/// `iopj` in namespaces of its own, after a shell has run `before` there.
fn iopj_behind(folder: &Path, unshare: &str, before: &str, line: &str) -> Output {
    let script = format!("{before} && exec {} {line}", crate::iopj_of_guests().display());
    let mut command = Command::new("unshare");
    command
        .current_dir(folder)
        .args([unshare, "sh", "-c", &script])
        .env("XDG_CACHE_HOME", folder.join("cache"));
    command.output().unwrap()
}

/// Whether this process may make namespaces of this kind. In a chroot whose root is not a mount point it may
/// not make one of mounts: the host would see its mounts.
fn have_namespaces(unshare: &str) -> bool {
    let output = Command::new("unshare").args([unshare, "true"]).output();
    let can = is_root() && output.is_ok_and(|output| output.status.success());
    have(can, &format!("root, `unshare {unshare}`, and a root that is a mount point")) && have_lab(&[])
}

#[test]
fn a_host_without_qemu_gets_the_packages_name() {
    let Some(folder) = have_namespaces("--mount").then(folder) else { return };
    std::fs::copy(concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies/quick.toml"), folder.join("q.toml"))
        .unwrap();
    // A device in the program's place is as good as no program.
    let hide = "mount --bind /dev/null \"$(command -v qemu-system-x86_64)\"";
    let output = iopj_behind(&folder, "--mount", hide, "lab run q.toml --kernel 5.10");
    refused(&output, &["install the packages qemu-system-x86"]);
    let output = iopj_behind(&folder, "--mount", hide, "check");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("lab: not here; install the packages qemu-system-x86"), "{text}");
}

#[test]
fn a_host_without_network_is_refused_with_the_reason() {
    let Some(folder) = have_namespaces("--net").then(folder) else { return };
    let output = iopj_behind(&folder, "--net", "true", "lab kernels 5.10");
    refused(&output, &["network"]);
}

#[test]
fn a_file_that_is_no_kernel_is_refused() {
    let Some(folder) = have_lab(&[]).then(folder) else { return };
    written(&folder.join("image"), 1 << 16);
    std::fs::create_dir(folder.join("modules")).unwrap();
    let output = lab_run(&folder, "poll22-lab", &[], "--kernel ./image --modules modules");
    refused(&output, &["./image"]);
    let output = lab_run(&folder, "poll22-lab", &[], "--kernel ./image");
    refused(&output, &["--modules"]);
}

#[test]
fn modules_of_another_kernel_are_refused() {
    if !have_lab(&[]) {
        return;
    }
    let (Some(old), Some(new)) = (kernel("5.10"), kernel("6.1")) else { return };
    let folder = folder();
    let line = format!("--kernel {} --modules {}", old.image.display(), new.modules.display());
    refused(&lab_run(&folder, "poll22-lab", &[], &line), &[&old.release, &new.release]);
}

#[test]
fn a_series_that_nobody_offers_is_refused_with_those_that_are() {
    let Some(folder) = have_lab(&["5.10", "6.18"]).then(folder) else { return };
    let output = lab_run(&folder, "poll22-lab", &[], "--kernel 2.6");
    refused(&output, &["2.6", "5.10", "6.18"]);
}

#[test]
fn a_store_that_is_there_is_not_overwritten() {
    let folder = folder();
    written(&folder.join("poll22-lab.iopj"), 100);
    let output = lab_run(&folder, "poll22-lab", &[], "--kernel 5.10");
    refused(&output, &["`poll22-lab.iopj` already exists", "--store"]);
    assert_eq!(std::fs::metadata(folder.join("poll22-lab.iopj")).unwrap().len(), 100);
}

#[test]
fn a_study_that_bypasses_the_kernel_needs_an_nvme_drive_and_no_passthrough() {
    let folder = folder();
    for device in ["virtio", "null_blk"] {
        let output = lab_run(&folder, "bypass-lab", &[], &format!("--kernel 6.18 --device {device}"));
        refused(&output, &["kernel-bypass paths", "give the guest --device nvme"]);
    }
    let change = [("\"posix-sio/syscall/interrupt\"", "\"nvme-passthrough/syscall/poll\"")];
    let output = lab_run(&folder, "bypass-lab", &change, "--kernel 6.18");
    refused(&output, &["nvme-passthrough and other paths", "split it into two studies"]);
}

#[test]
fn programs_that_a_study_names_go_into_the_guest_only_where_it_is_allowed() {
    let folder = folder();
    let run = |named: &str, options: &str, parts: &[&str]| {
        let change = [("[settings]", &*format!("{named}\n\n[settings]"))];
        refused(&lab_run(&folder, "bypass-lab", &change, &format!("--kernel 6.18 {options}")), parts);
    };
    let fio = "[fio]\nspdk_plugin = \"/no/spdk_nvme\"";
    run(fio, "", &["the study names a program to run, `/no/spdk_nvme`", "allow it by --allow-exec"]);
    run(
        fio,
        "--allow-exec",
        &["the study names a program: `/no/spdk_nvme` cannot be read", "name a file that exists"],
    );
    let relative = "[fio]\nprogram = \"build/fio\"";
    run(relative, "--allow-exec", &["`build/fio` cannot be found in the guest", "name it by its whole path"]);
    let meter = "[meters.own]\nkind = \"command\"\ncommand = [\"no-such-meter\"]\nscope = \"system\"";
    run(meter, "", &["the study names a program to run, `no-such-meter`"]);
    run(meter, "--allow-exec", &["`no-such-meter` is not in any folder of $PATH"]);
}

/// Studies of this repository in their own folder.
fn with_studies(studies: &[&str]) -> TestFolder {
    let folder = folder();
    for study in studies {
        std::fs::write(folder.join(format!("{study}.toml")), study_text(study, &[])).unwrap();
    }
    folder
}

#[track_caller]
fn several_refused(folder: &Path, line: &str, parts: &[&str]) {
    let before = std::fs::read_dir(folder).unwrap().count();
    refused(&iopj(folder, &format!("lab run {line} --kernel 6.18")).output().unwrap(), parts);
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), before, "{line} left something");
}

#[test]
fn studies_of_one_boot_need_a_store_each() {
    let folder = with_studies(&["ring-lab", "delay-lab"]);
    let at = &folder;
    several_refused(
        at,
        "ring-lab.toml delay-lab.toml --store x.iopj",
        &["--store names one store", "leave --store out"],
    );
    several_refused(
        at,
        "ring-lab.toml delay-lab.toml ring-lab.toml",
        &["two studies would write the store `ring-lab.iopj`"],
    );
    std::fs::write(at.join("other.toml"), study_text("ring-lab", &[("seed = 23", "seed = 24")])).unwrap();
    several_refused(at, "ring-lab.toml other.toml", &["`ring-lab.iopj`", "rename one of them"]);
    written(&at.join("delay-lab.iopj"), 100);
    several_refused(at, "ring-lab.toml delay-lab.toml", &["`delay-lab.iopj` already exists", "remove it"]);
    several_refused(at, "ring-lab.toml no-such.toml", &["`no-such.toml` cannot be read"]);
}

/// Costs would go to the trial at the same position in another study.
#[test]
fn exact_counts_are_of_one_study_a_boot() {
    let folder = with_studies(&["ring-lab", "delay-lab"]);
    let line = "ring-lab.toml delay-lab.toml --exact";
    several_refused(&folder, line, &["--exact counts one study per boot", "run each study by itself"]);
}

/// The others would pay for its IOMMU.
#[test]
fn a_study_that_bypasses_the_kernel_boots_with_none_that_does_not() {
    let folder = with_studies(&["ring-lab", "bypass-lab"]);
    let parts =
        ["`bypass-lab` needs an IOMMU", "`ring-lab` would be measured with it", "run `bypass-lab` by itself"];
    several_refused(&folder, "ring-lab.toml bypass-lab.toml", &parts);
    several_refused(&folder, "bypass-lab.toml ring-lab.toml", &parts);
    let named =
        [("name = \"bypass-lab\"", "name = \"of-spdk\""), ("nvme-user/doorbell/poll", "spdk/doorbell/poll")];
    std::fs::write(folder.join("of-spdk.toml"), study_text("bypass-lab", &named)).unwrap();
    let parts = ["`of-spdk` needs huge pages", "`bypass-lab` would be measured with it"];
    several_refused(&folder, "bypass-lab.toml of-spdk.toml", &parts);
}

/// With several studies a refusal names the one.
#[test]
fn a_study_that_no_guest_can_run_is_named_among_others() {
    let folder = with_studies(&["ring-lab", "bypass-lab"]);
    let line = "ring-lab.toml bypass-lab.toml --device virtio";
    several_refused(&folder, line, &["bypass-lab.toml: the study has kernel-bypass paths"]);
}
