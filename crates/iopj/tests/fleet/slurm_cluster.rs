//! A Slurm cluster of this machine: munge, a controller, and two nodes.

use crate::campaigns::{Disk, open_folder, until};
use crate::common::{have, have_mounts};
use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// The cluster, which ends when this is dropped: what is declared first is dropped first.
pub(crate) struct Cluster {
    daemons: Vec<Child>,
    _disk: Disk,
    pub(crate) folder: TempDir,
}

/// True if this user can run a cluster.
pub(crate) fn have_cluster() -> bool {
    let has = |program: &str| Path::new("/usr/sbin").join(program).exists();
    let all = ["munged", "slurmctld", "slurmd"].into_iter().all(has);
    have_mounts() && have(all, "munged, slurmctld and slurmd (munge, slurm-wlm)")
}

impl Cluster {
    /// Nodes `n1` and `n2`, with a small drive that they share at `shared`. Another process may take one of
    /// its ports before it does: then a daemon ends, and others are tried.
    pub(crate) fn start() -> Cluster {
        until("a cluster", Cluster::try_start)
    }

    fn try_start() -> Option<Cluster> {
        let folder = open_folder();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("munge.key"), [7; 64]).unwrap();
        fs::set_permissions(at("munge.key"), fs::Permissions::from_mode(0o600)).unwrap();
        fs::create_dir(at("state")).unwrap();
        let disk = Disk::mounted(&at("shared"));
        scripts(folder.path());
        fs::write(at("slurm.conf"), configuration(folder.path())).unwrap();
        let mut cluster = Cluster { daemons: Vec::new(), _disk: disk, folder };
        let file = |option: &str, name: &str| format!("--{option}={}", cluster.at(name).display());
        let munge = [
            "--foreground".to_owned(),
            "--force".to_owned(),
            file("key-file", "munge.key"),
            file("socket", "munge.sock"),
            file("pid-file", "munged.pid"),
            file("log-file", "munged.log"),
            file("seed-file", "munge.seed"),
        ];
        cluster.start_daemon("munged", &munge);
        until("munge", || cluster.at("munge.sock").exists().then_some(()));
        cluster.start_daemon("slurmctld", &["-D".to_owned()]);
        for node in ["n1", "n2"] {
            cluster.start_daemon("slurmd", &["-D".to_owned(), "-N".to_owned(), node.to_owned()]);
        }
        let is_up = until("two nodes", || {
            let has_ended = |daemon: &mut Child| daemon.try_wait().unwrap().is_some();
            if cluster.daemons.iter_mut().any(has_ended) {
                return Some(false);
            }
            let output = cluster.command("sinfo", "--noheader --format=%D%t").output().unwrap();
            (String::from_utf8_lossy(&output.stdout).trim() == "2idle").then_some(true)
        });
        if !is_up {
            eprintln!("{}", fs::read_to_string(cluster.at("slurmctld.log")).unwrap_or_default());
        }
        is_up.then_some(cluster)
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A program that reaches this cluster.
    pub(crate) fn command(&self, program: &str, line: &str) -> Command {
        let mut command = Command::new(program);
        command.args(line.split_whitespace()).current_dir(self.folder.path());
        command.env("SLURM_CONF", self.at("slurm.conf"));
        command
    }

    pub(crate) fn iopj(&self, line: &str) -> Command {
        self.command(env!("CARGO_BIN_EXE_iopj"), line)
    }

    /// iopj, for which a script stands in for one of Slurm's programs.
    pub(crate) fn with_program(&self, name: &str, script: &str) -> Command {
        let folder = self.at(&format!("instead-of-{name}"));
        fs::create_dir(&folder).unwrap();
        self::script(&folder.join(name), &format!("#!/bin/sh\n{script}\n"));
        let mut command = self.iopj("");
        command.env("PATH", format!("{}:{}", folder.display(), std::env::var("PATH").unwrap()));
        command
    }

    fn start_daemon(&mut self, program: &str, arguments: &[String]) {
        let log = File::options().create(true).append(true).open(self.at("daemons.log")).unwrap();
        let mut command = self.command(&format!("/usr/sbin/{program}"), "");
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.daemons.push(command.spawn().unwrap());
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.command("scancel", "--user=root").status();
        // Nodes first: a controller that is gone leaves them trying.
        for daemon in self.daemons.iter_mut().rev() {
            let _ = Command::new("kill").arg(daemon.id().to_string()).status();
            let _ = daemon.wait();
        }
    }
}

/// Writes the prolog and the epilog as an administrator would, each node on a folder in sysfs' place; and
/// what starts iopj as `sudo` does.
fn scripts(folder: &Path) {
    for node in ["n1", "n2"] {
        fs::create_dir(folder.join(format!("sys-{node}"))).unwrap();
        fs::write(folder.join(format!("sys-{node}/nomerges")), "0\n").unwrap();
    }
    fs::write(folder.join("settings"), "nomerges 2\n").unwrap();
    let iopj = Path::new(env!("CARGO_BIN_EXE_iopj")).parent().unwrap().display();
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/slurm");
    let of = folder.display();
    for name in ["prolog", "epilog"] {
        let text = format!(
            "#!/bin/sh\nexport PATH={iopj}:$PATH IOPJ_SLURM_SETTINGS={of}/settings \
             IOPJ_SLURM_STATE={of}/kept-$SLURMD_NODENAME IOPJ_SLURM_SYS={of}/sys-$SLURMD_NODENAME\n\
             exec sh {shipped}/{name}.sh\n"
        );
        script(&folder.join(name), &text);
    }
    // As `sudo -n iopj`: nothing of the environment comes through.
    let iopj = env!("CARGO_BIN_EXE_iopj");
    script(&folder.join("sudo"), &format!("#!/bin/sh\nexec env -i {iopj} \"$@\"\n"));
}

fn script(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn configuration(folder: &Path) -> String {
    let listeners = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let [controller, n1, n2] = listeners.map(|listener| listener.local_addr().unwrap().port());
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let (name, folder) = (name.trim(), folder.display());
    format!(
        "ClusterName=iopj
SlurmctldHost={name}(127.0.0.1)
SlurmctldPort={controller}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
SchedulerParameters=sched_interval=1,batch_sched_delay=0
KillWait=30
Prolog={folder}/prolog
Epilog={folder}/epilog
NodeName=n1 NodeHostname={name} NodeAddr=127.0.0.1 Port={n1} CPUs=1
NodeName=n2 NodeHostname={name} NodeAddr=127.0.0.1 Port={n2} CPUs=1
PartitionName=io Nodes=n1,n2 Default=YES State=UP
"
    )
}
