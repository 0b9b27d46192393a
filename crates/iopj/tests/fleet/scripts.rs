//! The prolog and the epilog for Slurm's nodes, on a folder in sysfs' place.

use crate::common::{folder, have, is_root};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn script(folder: &Path, name: &str, job: &str) -> Output {
    let program = Path::new(env!("CARGO_BIN_EXE_iopj")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/slurm").join(name);
    let mut command = Command::new("sh");
    command.arg(script).env("PATH", path).env("SLURM_JOB_COMMENT", job);
    command.env("IOPJ_SLURM_SETTINGS", folder.join("list")).env("IOPJ_SLURM_STATE", folder.join("kept"));
    command.env("IOPJ_SLURM_SYS", folder.join("sys")).output().unwrap()
}

#[test]
fn what_the_prolog_sets_the_epilog_puts_back_in_the_opposite_order() {
    if !have(is_root(), "root") {
        return;
    }
    let folder = folder();
    fs::create_dir(folder.join("sys")).unwrap();
    let value = |name: &str| fs::read_to_string(folder.join("sys").join(name)).unwrap().trim().to_owned();
    let values = || ["scheduler", "nomerges"].map(value);
    fs::write(folder.join("sys/scheduler"), "mq-deadline [kyber] none\n").unwrap();
    fs::write(folder.join("sys/nomerges"), "0\n").unwrap();
    fs::write(folder.join("list"), "# ours\nscheduler none\nnomerges 1\nnomerges 2\n").unwrap();
    assert!(script(&folder, "prolog.sh", "training").status.success());
    assert_eq!(value("nomerges"), "0", "a job that is not iopj's");
    let output = script(&folder, "prolog.sh", "iopj");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(values(), ["none", "2"]);
    assert!(!script(&folder, "prolog.sh", "iopj").status.success(), "an earlier job's are not back");
    assert!(script(&folder, "epilog.sh", "iopj").status.success());
    assert_eq!(values(), ["kyber", "0"]);

    fs::write(folder.join("list"), "../kept/x 1\n").unwrap();
    assert!(!script(&folder, "prolog.sh", "iopj").status.success());
    fs::write(folder.join("list"), "nomerges 2\nmissing 1\n").unwrap();
    assert!(!script(&folder, "prolog.sh", "iopj").status.success());
    assert!(script(&folder, "epilog.sh", "iopj").status.success());
    assert_eq!(value("nomerges"), "0");
}
