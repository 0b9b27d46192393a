//! One message for everything that the lab cannot do.

use crate::common::{TestFolder, apart, folder, have, iopj, is_root, kernel, says, written};
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

/// What a shell in namespaces of its own runs last: `iopj` in the folder, with an empty cache.
fn iopj_there(folder: &Path, line: &str) -> String {
    let iopj = crate::iopj_of_guests();
    format!("cd {0} && exec env XDG_CACHE_HOME={0}/cache {1} {line}", folder.display(), iopj.display())
}

#[test]
fn a_host_without_qemu_gets_the_packages_name() {
    let Some(folder) = (have(is_root(), "root") && have_lab(&[])).then(folder) else { return };
    std::fs::copy(concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies/quick.toml"), folder.join("q.toml"))
        .unwrap();
    // A device in the program's place is as good as no program.
    let hide = "mount --bind /dev/null \"$(command -v qemu-system-x86_64)\"";
    let without = |line: &str| apart(&folder, &format!("{hide}\n{}", iopj_there(&folder, line)));
    let output = without("lab run q.toml --kernel 5.10");
    refused(&output, &["install the packages qemu-system-x86"]);
    let output = without("check");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("lab: not here; install the packages qemu-system-x86"), "{text}");
}

#[test]
fn a_host_without_network_is_refused_with_the_reason() {
    let unshare = |script: &str| Command::new("unshare").args(["--net", "sh", "-c", script]).output();
    let can = is_root() && unshare("true").is_ok_and(|output| output.status.success());
    let Some(folder) = (have(can, "root and `unshare --net`") && have_lab(&[])).then(folder) else { return };
    let output = unshare(&iopj_there(&folder, "lab kernels 5.10")).unwrap();
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
    run(fio, "", &["`fio.spdk_plugin` = `/no/spdk_nvme` runs a program", "allow it by --allow exec"]);
    run(
        fio,
        "--allow-exec",
        &["the study names a program: `/no/spdk_nvme` cannot be read", "name a file that exists"],
    );
    let relative = "[fio]\nprogram = \"build/fio\"";
    run(relative, "--allow-exec", &["`build/fio` cannot be found in the guest", "name it by its whole path"]);
    let meter = "[meters.own]\nkind = \"command\"\ncommand = [\"no-such-meter\"]\nscope = \"system\"";
    run(meter, "", &["`meters.own.command` = `no-such-meter` runs a program"]);
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

/// It said that there was no such command. The release build that guests run leaves Parquet out.
#[test]
fn what_a_build_leaves_out_is_listed_and_says_how_to_get_it() {
    let program = std::env::var_os("IOPJ_IN_GUESTS");
    if !have(program.is_some(), "the release build that `cargo xtask test` names") {
        return;
    }
    let (program, folder) = (program.unwrap_or_default(), folder());
    let run =
        |line: &str| Command::new(&program).current_dir(&*folder).args(line.split(' ')).output().unwrap();
    let listed = String::from_utf8(run("fleet --help").stdout).unwrap();
    says(&listed, &["gather", "report", "not in this build: build with `--features parquet`"]);
    for line in ["fleet gather", "fleet gather . --to set", "fleet report", "fleet report set"] {
        let what = line.split(' ').take(2).collect::<Vec<_>>().join(" ");
        let parts =
            [&format!("`iopj {what}` is not in this build"), "--features parquet", "install a package"];
        refused(&run(line), &parts);
    }
    says(&String::from_utf8(run("report --help").stdout).unwrap(), &["--parquet"]);
    iopj_store::Store::create(&folder.join("s.iopj"), &iopj_record::StudyRecord::default()).unwrap();
    refused(&run("report s.iopj --parquet t.parquet"), &["`--parquet` is not in this build"]);
}
