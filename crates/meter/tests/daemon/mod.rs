//! Daemons that a test starts and ends.

use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A daemon is up and answers long before.
const PATIENCE: Duration = Duration::from_secs(30);

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

/// A UDP port of this machine that nobody has now.
pub(crate) fn free_port() -> u16 {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// If a program is not there: said, and a failure in CI.
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
