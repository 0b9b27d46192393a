//! Ten hosts: ten users of one ssh server, each with a drive of its own below its home.

use crate::campaigns::{Disk, LIMIT, open_folder};
use crate::common::{Undo, have, have_mounts, install, tool};
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The hosts, which end when this is dropped: what is declared first is dropped first.
pub(crate) struct Hosts {
    server: Child,
    _users: Vec<Undo>,
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
            let (home, user) = (at(&format!("h{number}")), user(number));
            disks.push(Disk::mounted(&home));
            tool(&format!("useradd -M -N -d {} -p * -s /bin/sh {user}", home.display()));
            users.push(Undo(format!("userdel {user}")));
            tool(&format!("chown {user} {}", home.display()));
        }
        let (server, port) = serve(folder.path());
        let hosts = Hosts { server, _users: users, _disks: disks, folder, port };
        for number in 0..count {
            hosts.configure(number, true);
        }
        hosts.write_client(count);
        hosts
    }

    /// Lets a host be up, or down: then nobody listens where ssh looks for it.
    pub(crate) fn configure(&self, number: usize, is_up: bool) {
        let port = if is_up { self.port } else { 1 };
        let text = format!("Port {port}\nUser {}\n", user(number));
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
        let uid: u32 = tool(&format!("id -u {}", user(number))).parse().unwrap();
        let mut cut = 0;
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
                continue;
            };
            let read = |file: &str| fs::read_to_string(entry.path().join(file)).unwrap_or_default();
            let is_users = read("status").lines().any(|line| {
                line.strip_prefix("Uid:").is_some_and(|ids| {
                    ids.split_whitespace().next().and_then(|id| id.parse().ok()) == Some(uid)
                })
            });
            if is_users && read("comm").trim() == "sshd" {
                // SAFETY: takes no pointer; only this test's server has sessions of this test's user.
                cut += i32::from(unsafe { libc::kill(pid, libc::SIGKILL) } == 0);
            }
        }
        assert!(cut > 0, "no connection to cut");
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// The user that is a host; two tests at the same time have others.
fn user(number: usize) -> String {
    format!("iopj{}h{number}", std::process::id())
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
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nStrictModes \
             no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nMaxStartups \
             100\nSetEnv PATH={}:/usr/bin:/bin\n",
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
