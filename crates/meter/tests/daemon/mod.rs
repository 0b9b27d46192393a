//! Daemons that a test starts and ends.

use std::fs;
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The limit for a daemon to start and answer, which takes far less.
const PATIENCE: Duration = Duration::from_secs(300);

/// A daemon that ends with the test.
pub(crate) struct Daemon(Child);

impl Daemon {
    /// Starts a program without input and output.
    pub(crate) fn start(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().unwrap())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        self.0.wait().unwrap();
    }
}

impl Daemon {
    /// Waits until it has the UDP port; false if it ends before.
    fn comes_to(&mut self, port: u16) -> bool {
        let end = Instant::now() + PATIENCE;
        while !self.has(port) {
            assert!(Instant::now() < end, "the daemon has no port");
            if self.0.try_wait().unwrap().is_some() {
                return false;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        true
    }

    fn has(&self, port: u16) -> bool {
        let table = fs::read_to_string("/proc/net/udp").unwrap();
        let end = format!(":{port:04X}");
        // proc_net_udp: the local address is the second word, the socket's inode the tenth.
        let sockets = table.lines().filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words.get(1)?.ends_with(&end).then(|| format!("socket:[{}]", words[9]))
        });
        let sockets: Vec<String> = sockets.collect();
        let files = fs::read_dir(format!("/proc/{}/fd", self.0.id())).into_iter().flatten().flatten();
        files
            .filter_map(|file| fs::read_link(file.path()).ok())
            .any(|link| sockets.iter().any(|s| link == Path::new(s)))
    }
}

/// Starts a daemon on a free UDP port. Another process may take the port meanwhile: then the daemon ends, and
/// another one is started.
pub(crate) fn on_a_free_port(mut start: impl FnMut(u16) -> Daemon) -> (u16, Daemon) {
    for _ in 0..10 {
        let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut daemon = start(port);
        if daemon.comes_to(port) {
            return (port, daemon);
        }
        eprintln!("the daemon ended early");
    }
    panic!("the daemon has no port");
}

/// True if a program is missing, which is printed, and fails in CI.
pub(crate) fn missing(package: &str, path: &str) -> bool {
    let missing = !std::path::Path::new(path).exists();
    assert!(!missing || std::env::var_os("CI").is_none_or(|ci| ci != "true"), "needs the package {package}");
    if missing {
        eprintln!("skipped: needs {path} of the package {package}");
    }
    missing
}

/// Tries until it works.
pub(crate) fn wait_for<T, E: std::fmt::Display>(mut attempt: impl FnMut() -> Result<T, E>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        match attempt() {
            Ok(value) => return value,
            Err(error) if Instant::now() > end => panic!("{error}"),
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}
