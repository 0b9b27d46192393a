//! Real servers for the tests: started, killed, started again on the same port.

use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

pub(crate) const PASSWORD: &str = "open sesame";

/// True if a program is there. In CI all of them must be.
pub(crate) fn has(program: &str) -> bool {
    has_version(program, "--version")
}

fn has_version(program: &str, option: &str) -> bool {
    let found =
        Command::new(program).arg(option).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !found {
        eprintln!("skipped: needs {program}");
        assert!(std::env::var("CI").map_or(true, |ci| ci != "true"), "needs {program}");
    }
    found
}

/// A process that ends with its owner.
pub(crate) struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `server.py`, and a folder for its log, certificates and passwords.
pub(crate) struct Server {
    pub(crate) port: u16,
    folder: TempDir,
    tls: bool,
    process: Option<Process>,
}

impl Server {
    pub(crate) fn start() -> Option<Self> {
        has("python3").then(|| Self::of(tempfile::tempdir().unwrap(), false))
    }

    pub(crate) fn start_tls() -> Option<Self> {
        (has("python3") && has("openssl")).then(|| {
            let folder = tempfile::tempdir().unwrap();
            certificates(folder.path());
            Self::of(folder, true)
        })
    }

    fn of(folder: TempDir, tls: bool) -> Self {
        std::fs::write(folder.path().join("password"), format!("{PASSWORD}\n")).unwrap();
        std::fs::write(folder.path().join("wrong"), "wrong sesame\n").unwrap();
        let mut server = Self { port: 0, folder, tls, process: None };
        server.restart();
        server
    }

    pub(crate) fn kill(&mut self) {
        self.process = None;
    }

    /// On its former port, if it had one.
    pub(crate) fn restart(&mut self) {
        self.kill();
        // Another process may have the port for a moment: then the server ends at once.
        let started = (0..600).find_map(|_| self.started()).expect("the server prints its port");
        (self.process, self.port) = (Some(started.0), started.1);
    }

    /// `None` if it ended before it listened.
    fn started(&self) -> Option<(Process, u16)> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/web/server.py");
        let mut command = Command::new("python3");
        command.arg(script).arg(self.port.to_string()).arg(self.path("log")).stdout(Stdio::piped());
        if self.tls {
            command.args([self.path("leaf.pem"), self.path("leaf.key")]);
        }
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let process = Process(child);
        Some((process, line.trim().parse().ok()?))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}://127.0.0.1:{}{path}", if self.tls { "https" } else { "http" }, self.port)
    }

    /// The requests: method, path and kind of credentials, one per line.
    pub(crate) fn log(&self) -> Vec<String> {
        std::fs::read_to_string(self.path("log")).unwrap().lines().map(str::to_owned).collect()
    }
}

/// lighttpd, which lets `admin` with the password read `rpc/Switch.GetStatus` after a SHA-256 digest.
pub(crate) struct Lighttpd {
    pub(crate) port: u16,
    pub(crate) folder: TempDir,
    _process: Process,
}

impl Lighttpd {
    pub(crate) fn start() -> Option<Self> {
        let program = "/usr/sbin/lighttpd";
        has_version(program, "-v").then(|| {
            let folder = tempfile::tempdir().unwrap();
            let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
            std::fs::create_dir_all(folder.path().join("www/rpc")).unwrap();
            write("www/rpc/Switch.GetStatus", r#"{"id": 0, "apower": 7.5, "aenergy": {"total": 2.5}}"#);
            write("users", &format!("admin:{PASSWORD}\n"));
            write("password", &format!("{PASSWORD}\n"));
            write("wrong", "wrong sesame\n");
            // Another process may take the port meanwhile: then another one is tried.
            let (process, port) =
                (0..10).find_map(|_| Self::started(program, folder.path())).expect("it listens");
            Self { port, folder, _process: process }
        })
    }

    fn started(program: &str, folder: &Path) -> Option<(Process, u16)> {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let root = folder.display();
        let text = format!(
            "server.document-root = \"{root}/www\"\nserver.bind = \"127.0.0.1\"\nserver.port = {port}\n\
             server.errorlog = \"{root}/log\"\nserver.modules = (\"mod_auth\", \"mod_authn_file\")\n\
             auth.backend = \"plain\"\nauth.backend.plain.userfile = \"{root}/users\"\n\
             auth.require = (\"\" => (\"method\" => \"digest\", \"algorithm\" => \"SHA-256\", \
             \"realm\" => \"shellyplus1\", \"require\" => \"valid-user\"))\n"
        );
        std::fs::write(folder.join("conf"), text).unwrap();
        let mut command = Command::new(program);
        let mut process = Process(command.arg("-D").arg("-f").arg(folder.join("conf")).spawn().unwrap());
        loop {
            if process.0.try_wait().unwrap().is_some() {
                return None;
            }
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Some((process, port));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn openssl(folder: &Path, arguments: &str) {
    let output = Command::new("openssl").args(arguments.split(' ')).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

/// An authority `ca.pem`, and `leaf.pem` of 127.0.0.1 that it signed.
fn certificates(folder: &Path) {
    std::fs::write(folder.join("san"), "subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:FALSE\n").unwrap();
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    openssl(folder, &format!("req -x509 {key} -keyout ca.key -out ca.pem -subj /CN=lab -days 2"));
    openssl(folder, &format!("req {key} -keyout leaf.key -out leaf.csr -subj /CN=bmc"));
    openssl(
        folder,
        "x509 -req -in leaf.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out leaf.pem -days 2 -extfile san",
    );
}

/// Prometheus' node exporter on a free port of the loopback interface.
pub(crate) fn node_exporter() -> Option<(Process, u16)> {
    // Another process may take the port meanwhile: then another one is tried.
    has("prometheus-node-exporter").then(|| (0..10).find_map(|_| start_node_exporter()).expect("it listens"))
}

/// None if it ended before it listened.
fn start_node_exporter() -> Option<(Process, u16)> {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut command = Command::new("prometheus-node-exporter");
    command
        .arg(format!("--web.listen-address=127.0.0.1:{port}"))
        .args(["--collector.disable-defaults", "--collector.time"]);
    command.args(["--collector.loadavg", "--collector.cpu"]).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let process = Process(child);
    // It announces that it listens just before it does.
    let mut line = String::new();
    while !line.contains("istening on") {
        line.clear();
        if lines.read_line(&mut line).unwrap() == 0 {
            return None;
        }
        eprintln!("{}", line.trim_end());
    }
    std::thread::spawn(move || lines.lines().count());
    Some((process, port))
}
