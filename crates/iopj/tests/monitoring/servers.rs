//! Programs that listen: iopj itself, Prometheus, the node exporter. Each says its address on standard error,
//! and ends with its descendants when it is dropped.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// What Prometheus' programs say in the line that has their address.
const LISTENS: &str = "msg=\"Listening on\"";

/// A program that listens, in a process group of its own.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: String,
}

impl Server {
    /// Starts a program, whose address comes after `before` in a line of its standard error: at once, or by
    /// name after others of its facts.
    pub(crate) fn start(command: &mut Command, before: &str) -> Server {
        let command = command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let mut server = Server { child, address: String::new() };
        let mut line = String::new();
        while server.address.is_empty() {
            line.clear();
            assert!(lines.read_line(&mut line).unwrap() > 0, "no address was said");
            eprint!("{line}");
            if let Some((_, rest)) = line.split_once(before) {
                let address = rest.rsplit_once(" address=").map_or(rest, |(_, address)| address);
                server.address = address.trim_end().trim_end_matches("/metrics").to_owned();
            }
        }
        // What it says later is shown if the test fails.
        std::thread::spawn(move || lines.lines().map_while(Result::ok).for_each(|line| eprintln!("{line}")));
        server
    }

    /// The body of the answer to a GET, with this `Accept` header; the answer must be 200.
    pub(crate) fn get(&self, path: &str, accept: &str) -> String {
        let (head, body) = self.answer(path, accept);
        assert!(head.contains(" 200 OK"), "{path}: {head}: {body}");
        body
    }

    /// The head and the body of the answer.
    fn answer(&self, path: &str, accept: &str) -> (String, String) {
        let mut connection = TcpStream::connect(&self.address).unwrap();
        let head = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\nAccept: {accept}\r\n\r\n");
        connection.write_all(head.as_bytes()).unwrap();
        let mut text = String::new();
        connection.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{text}"));
        (head.to_owned(), body.to_owned())
    }

    /// Asks it to end, as Ctrl-C does.
    pub(crate) fn interrupt(&self) {
        self.signal(libc::SIGINT);
    }

    fn signal(&self, signal: libc::c_int) {
        // SAFETY: sends a signal to the group of a child that has not been waited for.
        unsafe { libc::kill(-self.child.id().cast_signed(), signal) };
    }

    /// Its exit code, once it has ended.
    pub(crate) fn code(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            self.signal(libc::SIGKILL);
            let _ = self.child.wait();
        }
    }
}

/// Whether a program is here.
pub(crate) fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Prometheus, scraping these servers five times a second.
pub(crate) fn prometheus(folder: &Path, targets: &[&Server]) -> Server {
    let targets: Vec<String> = targets.iter().map(|server| format!("'{}'", server.address)).collect();
    let config = format!(
        "global: {{scrape_interval: 200ms}}\nscrape_configs:\n  - job_name: iopj\n    static_configs:\n      \
         - targets: [{}]\n",
        targets.join(", ")
    );
    std::fs::write(folder.join("prometheus.yml"), config).unwrap();
    let mut command = Command::new("prometheus");
    command.current_dir(folder).args(["--config.file=prometheus.yml", "--storage.tsdb.path=series"]);
    let server = Server::start(command.arg("--web.listen-address=127.0.0.1:0"), LISTENS);
    while !server.answer("/-/ready", "*/*").0.contains(" 200 OK") {
        std::thread::sleep(Duration::from_millis(20));
    }
    server
}

/// The node exporter with its textfile collector on a folder.
pub(crate) fn node_exporter(folder: &Path) -> Server {
    let mut command = Command::new("prometheus-node-exporter");
    command.args(["--collector.disable-defaults", "--collector.textfile"]);
    command.arg(format!("--collector.textfile.directory={}", folder.display()));
    Server::start(command.arg("--web.listen-address=127.0.0.1:0"), LISTENS)
}
