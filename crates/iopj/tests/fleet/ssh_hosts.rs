//! Ten hosts: ten users of one ssh server, each with a drive of its own below its home.

use crate::campaigns::{Disk, LIMIT, open_folder};
use crate::common::{Undo, have, have_mounts, install, tool};
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The hosts, which end when this is dropped: what is declared first is dropped first.
pub(crate) struct Hosts {
    server: Child,
    users: Vec<User>,
    _disks: Vec<Disk>,
    pub(crate) folder: TempDir,
    port: u16,
}

/// True if this user can make users and run an ssh server.
pub(crate) fn have_hosts() -> bool {
    let has = |program: &str| Path::new(program).exists();
    let all = ["/usr/sbin/sshd", "/usr/bin/ssh", "/usr/sbin/useradd"].into_iter().all(has);
    have_mounts() && have(all, "sshd, ssh and useradd (openssh-server, passwd)")
}

impl Hosts {
    /// Makes so many hosts, `h0` and on.
    pub(crate) fn new(count: usize) -> Hosts {
        let folder = open_folder();
        let at = |name: &str| folder.path().join(name);
        for name in ["bin", "ssh"] {
            fs::create_dir(at(name)).unwrap();
        }
        install(Path::new(env!("CARGO_BIN_EXE_iopj")), &at("bin/iopj"));
        for key in ["host", "user"] {
            let file = at(key).display().to_string();
            let arguments = ["-q", "-t", "ed25519", "-N", "", "-f", &file];
            assert!(Command::new("ssh-keygen").args(arguments).status().unwrap().success());
        }
        let (mut disks, mut users) = (Vec::new(), Vec::new());
        for number in 0..count {
            let home = at(&format!("h{number}"));
            disks.push(Disk::mounted(&home));
            users.push(User::add(&home));
        }
        let (server, port) = serve(folder.path());
        let hosts = Hosts { server, users, _disks: disks, folder, port };
        for number in 0..count {
            hosts.configure(number, true);
        }
        hosts.write_client(count);
        hosts
    }

    /// Lets a host be up, or down: then nobody listens where ssh looks for it.
    pub(crate) fn configure(&self, number: usize, is_up: bool) {
        let port = if is_up { self.port } else { 1 };
        let text = format!("Port {port}\nUser {}\n", self.users[number].0);
        fs::write(self.at(&format!("ssh/h{number}.conf")), text).unwrap();
    }

    fn write_client(&self, count: usize) {
        let host_key = fs::read_to_string(self.at("host.pub")).unwrap();
        let known = format!("[127.0.0.1]:{} {host_key}", self.port);
        fs::write(self.at("known_hosts"), known).unwrap();
        let mut config = String::new();
        for number in 0..count {
            let included = self.at(&format!("ssh/h{number}.conf"));
            config += &format!("Host h{number} twin{number}\n Include {}\n", included.display());
        }
        config += &format!(
            "Host *\n HostName 127.0.0.1\n IdentityFile {}\n IdentitiesOnly yes\n UserKnownHostsFile {}\n \
             GlobalKnownHostsFile none\n StrictHostKeyChecking yes\n",
            self.at("user").display(),
            self.at("known_hosts").display()
        );
        fs::write(self.at("ssh_config"), config).unwrap();
        let script = format!("#!/bin/sh\nexec /usr/bin/ssh -F {} \"$@\"\n", self.at("ssh_config").display());
        fs::write(self.at("ssh.sh"), script).unwrap();
        install(&self.at("ssh.sh"), &self.at("ssh/ssh"));
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The program in this test's folder, with a `$PATH` on which ssh is this test's.
    pub(crate) fn iopj(&self, line: &str) -> Command {
        let mut command = crate::common::iopj(self.folder.path(), line);
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", self.at("ssh").display()));
        command
    }

    /// The folder of a host's job, of the only campaign that it has had.
    pub(crate) fn job(&self, number: usize) -> Option<PathBuf> {
        let above = self.at(&format!("h{number}")).join(".local/state/iopj/fleet");
        fs::read_dir(above).ok()?.find_map(|entry| Some(entry.ok()?.path()))
    }

    /// Cuts every connection of a host's user, as a network does that fails.
    pub(crate) fn cut(&self, number: usize) {
        // From OpenSSH 9.8 on a session is a program of its own.
        let is_session = |program: &str| ["sshd", "sshd-session"].contains(&program);
        let sessions = processes(&self.users[number].0, is_session);
        assert!(!sessions.is_empty(), "no connection to cut");
        sessions.into_iter().for_each(kill);
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
        // What still runs there keeps its user and its drive.
        for User(name, _) in &self.users {
            let end = Instant::now() + LIMIT;
            while Instant::now() < end && !processes(name, |_| true).is_empty() {
                processes(name, |_| true).into_iter().for_each(kill);
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

/// A user that is a host, until this is dropped.
struct User(String, #[expect(dead_code, reason = "removes the user")] Undo);

impl User {
    fn add(home: &Path) -> User {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("iopj{}h{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        tool(&format!("useradd -M -N -d {} -p * -s /bin/sh {name}", home.display()));
        let user = User(name.clone(), Undo(format!("userdel {name}")));
        tool(&format!("chown {name} {}", home.display()));
        user
    }
}

/// The processes of a user of this test that run a program.
fn processes(user: &str, is_meant: impl Fn(&str) -> bool) -> Vec<i32> {
    let uid = tool(&format!("id -u {user}"));
    let of_user = |folder: &Path| {
        let status = fs::read_to_string(folder.join("status")).unwrap_or_default();
        let uids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
        uids.and_then(|uids| uids.split_whitespace().next()) == Some(&uid)
            && !status.contains("State:\tZ")
            && is_meant(fs::read_to_string(folder.join("comm")).unwrap_or_default().trim())
    };
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        of_user(&entry.path()).then_some(pid)
    });
    pids.collect()
}

fn kill(pid: i32) {
    // SAFETY: takes no pointer; the process is one of a user that this test made.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}

/// A server on a port that is free.
fn serve(folder: &Path) -> (Child, u16) {
    fs::create_dir_all("/run/sshd").unwrap();
    let end = Instant::now() + LIMIT;
    // Another process may take the port meanwhile: then the server does not start, and another is tried.
    while Instant::now() < end {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let at = |name: &str| folder.join(name).display().to_string();
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\nPidFile \
             none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication \
             no\nMaxStartups 100\nSetEnv PATH={}:/usr/bin:/bin\n",
            at("host"),
            at("user.pub"),
            at("bin"),
        );
        fs::write(folder.join("sshd_config"), config).unwrap();
        let log = fs::File::create(folder.join("sshd.log")).unwrap();
        let mut command = Command::new("/usr/sbin/sshd");
        command.args(["-D", "-e", "-f", &at("sshd_config")]);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        while child.try_wait().unwrap().is_none() && Instant::now() < end {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return (child, port);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    panic!("no ssh server starts: {}", fs::read_to_string(folder.join("sshd.log")).unwrap());
}
