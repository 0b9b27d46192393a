//! An ssh server of one test, its keys, and a client that knows it as `target`.

use crate::common::{TestFolder, folder, have, is_root};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The longest wait for anything here.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// A server that ends when this is dropped.
pub(crate) struct Server {
    pub(crate) folder: TestFolder,
    pub(crate) port: u16,
    child: Child,
}

/// True if this user can run an ssh server.
pub(crate) fn have_sshd() -> bool {
    let has = |program: &str| Path::new(program).exists();
    have(is_root() && has("/usr/sbin/sshd") && has("/usr/bin/ssh"), "root, sshd and ssh (openssh-server)")
}

impl Server {
    /// Starts a server whose users have the home `folder/home`.
    pub(crate) fn start() -> Server {
        let folder = folder();
        for key in ["host", "user", "stranger"] {
            let file = folder.join(key).display().to_string();
            let arguments = ["-q", "-t", "ed25519", "-N", "", "-f", &file];
            assert!(Command::new("ssh-keygen").args(arguments).status().unwrap().success());
        }
        std::fs::create_dir(folder.join("home")).unwrap();
        std::fs::create_dir_all("/run/sshd").unwrap();
        // Another process may take the port meanwhile: then the server does not start, and another is tried.
        for _ in 0..20 {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let mut child = serve(&folder, port);
            if is_up(&mut child, port) {
                let server = Server { folder, port, child };
                server.write_client();
                return server;
            }
        }
        panic!("no ssh server starts: {}", std::fs::read_to_string(folder.join("sshd.log")).unwrap());
    }

    /// The client's program: ssh with this test's configuration.
    pub(crate) fn ssh(&self) -> PathBuf {
        self.folder.join("bin/ssh")
    }

    /// The program in this test's folder, with a `$PATH` on which ssh is this test's.
    pub(crate) fn iopj(&self, line: &str) -> Command {
        let mut command = crate::common::iopj(&self.folder, line);
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", self.folder.join("bin").display()));
        command
    }

    /// Changes the client's configuration.
    pub(crate) fn configure(&self, change: impl FnOnce(String) -> String) {
        let file = self.folder.join("ssh_config");
        std::fs::write(&file, change(std::fs::read_to_string(&file).unwrap())).unwrap();
    }

    fn write_client(&self) {
        let at = |name: &str| self.folder.join(name).display().to_string();
        let host_key = std::fs::read_to_string(self.folder.join("host.pub")).unwrap();
        let known = format!("[127.0.0.1]:{} {host_key}", self.port);
        std::fs::write(self.folder.join("known_hosts"), known).unwrap();
        let config = format!(
            "Host target\n HostName 127.0.0.1\n Port {}\n User root\n IdentityFile {}\n IdentitiesOnly yes\n \
             UserKnownHostsFile {}\n GlobalKnownHostsFile none\n StrictHostKeyChecking yes\n",
            self.port,
            at("user"),
            at("known_hosts")
        );
        std::fs::write(self.folder.join("ssh_config"), config).unwrap();
        std::fs::create_dir(self.folder.join("bin")).unwrap();
        let script = format!("#!/bin/sh\nexec /usr/bin/ssh -F {} \"$@\"\n", at("ssh_config"));
        std::fs::write(self.folder.join("ssh.sh"), script).unwrap();
        crate::common::install(&self.folder.join("ssh.sh"), &self.ssh());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a server in the foreground.
fn serve(folder: &Path, port: u16) -> Child {
    let at = |name: &str| folder.join(name).display().to_string();
    let config = format!(
        "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nStrictModes \
         no\nUsePAM no\nPasswordAuthentication yes\nKbdInteractiveAuthentication no\nPermitRootLogin \
         prohibit-password\nSetEnv HOME={} PATH={}\n",
        at("host"),
        at("user.pub"),
        at("home"),
        std::env::var("PATH").unwrap_or_default()
    );
    std::fs::write(folder.join("sshd_config"), config).unwrap();
    std::fs::set_permissions(folder.join("host"), std::fs::Permissions::from_mode(0o600)).unwrap();
    let log = std::fs::File::create(folder.join("sshd.log")).unwrap();
    let mut command = Command::new("/usr/sbin/sshd");
    command.args(["-D", "-e", "-f", &at("sshd_config")]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap()
}

/// True once the server answers; false if it ended.
fn is_up(child: &mut Child, port: u16) -> bool {
    let until = Instant::now() + LIMIT;
    while Instant::now() < until {
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        if TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("the ssh server does not answer");
}
