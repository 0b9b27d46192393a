//! Programs that measure the network, on either side: found, run with a time limit, and ended with what
//! started them.

use super::NetworkError;
use std::io::Read;
use std::net::{IpAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long a program may take.
const LIMIT: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(20);

/// A program of this name on `$PATH`.
pub fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// A port of this address that is free at this moment.
///
/// # Errors
/// The address is none of this host.
pub fn free_port(address: IpAddr) -> Result<u16, NetworkError> {
    let port = TcpListener::bind((address, 0)).and_then(|listener| listener.local_addr());
    port.map(|own| own.port()).map_err(|error| {
        NetworkError(format!("cannot listen on {address} ({error}): it must be an address of that host"))
    })
}

/// What a program printed, and how it ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Its standard output, and after it its standard error.
    pub text: String,
    /// Its exit status.
    pub status: ExitStatus,
}

/// A server that runs. Dropped, it ends.
#[derive(Debug)]
pub struct Serving(Child);

impl Serving {
    /// Starts a program that serves one test.
    ///
    /// # Errors
    /// It does not start.
    pub fn start(program: &str, arguments: &[String]) -> Result<Serving, NetworkError> {
        let mut command = command(program, arguments);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().map(Serving).map_err(|error| does_not_start(program, &error))
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a program to its end.
///
/// # Errors
/// It does not start, does not end within 20 s, or the user has ended this one.
pub fn output(program: &str, arguments: &[String], stop: &AtomicBool) -> Result<Ended, NetworkError> {
    let mut command = command(program, arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| does_not_start(program, &error))?;
    let texts = [child.stdout.take().map(read), child.stderr.take().map(read)];
    let until = Instant::now() + LIMIT;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Some(status),
            Ok(None) if Instant::now() < until && !stop.load(Ordering::Relaxed) => thread::sleep(LOOK),
            _ => break None,
        }
    };
    if status.is_none() {
        let _ = child.kill();
        let _ = child.wait();
    }
    let text = texts.into_iter().flatten().filter_map(|text| text.join().ok()).collect();
    status.map(|status| Ended { text, status }).ok_or_else(|| {
        NetworkError(format!("{program} did not end within {} s: run it by hand", LIMIT.as_secs()))
    })
}

fn read(mut stream: impl Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn does_not_start(program: &str, error: &std::io::Error) -> NetworkError {
    NetworkError(format!("{program} does not start ({error}): run it by hand"))
}

fn command(program: &str, arguments: &[String]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    // SAFETY: between fork and exec only prctl is called, which is async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
            Ok(())
        });
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn a_program_is_run_to_its_end_or_not_longer_than_it_may() {
        let (shell, stop) = (|script: &str| vec!["-c".to_owned(), script.to_owned()], AtomicBool::new(false));
        let ended = output("sh", &shell("echo one; echo two >&2; exit 3"), &stop).unwrap();
        assert_eq!((ended.text.as_str(), ended.status.code()), ("one\ntwo\n", Some(3)));
        assert!(find("sh").is_some_and(|file| file.is_absolute()) && find("no-such-program").is_none());
        let error = output("no-such-program", &[], &stop).unwrap_err().to_string();
        assert!(error.starts_with("no-such-program does not start ("), "{error}");
        stop.store(true, Ordering::Relaxed);
        assert!(output("sleep", &words("600"), &stop).is_err());
        assert!(free_port(Ipv4Addr::LOCALHOST.into()).unwrap() > 0);
    }

    #[test]
    fn a_server_ends_when_it_is_dropped() {
        let serving = Serving::start("sleep", &words("600")).unwrap();
        let file = format!("/proc/{}", serving.0.id());
        assert!(std::fs::exists(&file).unwrap());
        drop(serving);
        assert!(!std::fs::exists(&file).unwrap());
    }
}
