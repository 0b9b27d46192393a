//! Metrics over plain HTTP for Prometheus: one thread, one request a connection, nothing but one text. The
//! thread sleeps until somebody asks, and whoever is slow holds up nobody else.

use super::MetricsText;
use super::accept::wants_plain;
use super::error::MetricsError;
use super::own_name::OwnName;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::time::{ClockId, clock_gettime};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The name of its thread; it does no I/O of a trial.
pub(crate) const THREAD_NAME: &str = "iopj-metrics";
/// Bytes of the longest request that is read.
const LONGEST: usize = 4096;
/// How long a connection may take: as long as Prometheus waits.
const LIMIT: Duration = Duration::from_secs(10);
/// Connections at a time; another one takes the place of the oldest.
const MOST: usize = 8;
/// Time between two connections: at 0.1 ms each, nobody takes more than 0.2 % of a core.
const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// Media type of OpenMetrics (OpenMetrics 1.0, "Protocol Negotiation").
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Media type of the older format.
const PLAIN: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What answering took so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scrapes {
    /// Requests.
    pub count: u64,
    /// CPU time of the thread.
    pub cpu: Duration,
}

/// Serves a text until it is dropped.
#[derive(Debug)]
pub struct MetricsServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Becomes readable when the thread is to end.
    stop: OwnedFd,
}

#[derive(Debug, Default)]
struct State {
    text: Arc<MetricsText>,
    scrapes: Scrapes,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MetricsServer {
    /// Listens on an address with a port, such as `[::1]:9187`, or on a port of 127.0.0.1.
    ///
    /// # Errors
    /// [`MetricsError::Listen`].
    pub fn start(named: &str, text: MetricsText) -> Result<MetricsServer, MetricsError> {
        let refused = |error| MetricsError::Listen { address: named.to_owned(), error };
        let address = address_of(named).ok_or_else(|| {
            refused(std::io::Error::other("it is neither a port nor an IP address with a port"))
        })?;
        let listener = TcpListener::bind(address).map_err(refused)?;
        listener.set_nonblocking(true).map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let stop = eventfd(0, EventfdFlags::CLOEXEC).map_err(|error| refused(error.into()))?;
        let state = Mutex::new(State { text: Arc::new(text), scrapes: Scrapes::default() });
        let shared = Arc::new(Shared { state, stop });
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name(THREAD_NAME.to_owned())
            .spawn(move || serve(&listener, &theirs))
            .map_err(refused)?;
        Ok(MetricsServer { address, shared, thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Replaces the text.
    pub fn set(&self, text: MetricsText) {
        self.shared.state().text = Arc::new(text);
    }

    /// What answering took so far.
    pub fn scrapes(&self) -> Scrapes {
        self.shared.state().scrapes
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        let _ = rustix::io::write(&self.shared.stop, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn address_of(named: &str) -> Option<SocketAddr> {
    match named.parse::<u16>() {
        Ok(port) => Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)),
        Err(_) => named.parse().ok(),
    }
}

fn serve(listener: &TcpListener, shared: &Shared) {
    let mut open: Vec<Connection> = Vec::new();
    let own = OwnName::read();
    // At most 20 times a second, whoever asks, and also if no descriptor is left for a connection.
    while !has_stopped(listener, shared, &open) && !has_stopped_within(shared, PAUSE) {
        if let Ok((stream, _)) = listener.accept() {
            if open.len() == MOST {
                open.remove(0);
            }
            open.extend(Connection::new(stream).ok());
        }
        let (text, before) = (Arc::clone(&shared.state().text), open.len());
        open.retain_mut(|connection| connection.goes_on(&text, &own));
        let cpu = clock_gettime(ClockId::ThreadCPUTime);
        let scrapes = &mut shared.state().scrapes;
        scrapes.count += (before - open.len()) as u64;
        scrapes.cpu = Duration::new(cpu.tv_sec as u64, cpu.tv_nsec as u32);
    }
}

/// Waits until there is something to do, or a connection's time is over: true if the server is to stop.
fn has_stopped(listener: &TcpListener, shared: &Shared, open: &[Connection]) -> bool {
    let own = [shared.stop.as_fd(), listener.as_fd()].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    let mut waits: Vec<PollFd<'_>> = own.into_iter().chain(open.iter().map(Connection::wait)).collect();
    let first = open.iter().map(|connection| connection.until).min();
    let left = first.map(|until| until.saturating_duration_since(Instant::now()));
    let left =
        left.map(|left| Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() });
    let _ = poll(&mut waits, left.as_ref());
    !waits[0].revents().is_empty()
}

/// Waits so long: true if the server is to stop.
fn has_stopped_within(shared: &Shared, pause: Timespec) -> bool {
    let mut stop = [PollFd::from_borrowed_fd(shared.stop.as_fd(), PollFlags::IN)];
    let _ = poll(&mut stop, Some(&pause));
    !stop[0].revents().is_empty()
}

/// A client with its request, as far as it was read, or the part of the answer that is not sent.
struct Connection {
    stream: TcpStream,
    until: Instant,
    request: Vec<u8>,
    /// None before the whole request was read.
    answer: Option<VecDeque<u8>>,
}

impl Connection {
    fn new(stream: TcpStream) -> io::Result<Connection> {
        stream.set_nonblocking(true)?;
        Ok(Connection { stream, until: Instant::now() + LIMIT, request: Vec::new(), answer: None })
    }

    /// What it waits for.
    fn wait(&self) -> PollFd<'_> {
        let flags = if self.answer.is_some() { PollFlags::OUT } else { PollFlags::IN };
        PollFd::new(&self.stream, flags)
    }

    /// Reads and sends what is possible now: false once it has ended. A client that goes away early is no
    /// error of ours.
    fn goes_on(&mut self, text: &MetricsText, own: &OwnName) -> bool {
        let has_blocked = |error: io::Error| error.kind() == io::ErrorKind::WouldBlock;
        self.step(text, own).is_err_and(has_blocked) && Instant::now() < self.until
    }

    fn step(&mut self, text: &MetricsText, own: &OwnName) -> io::Result<()> {
        let mut part = [0; 512];
        while self.answer.is_none() {
            match self.stream.read(&mut part)? {
                0 => return Ok(()),
                count => self.request.extend_from_slice(&part[..count]),
            }
            if is_whole(&self.request) || self.request.len() >= LONGEST {
                self.answer = Some(response(&self.request, text, own).into_bytes().into());
            }
        }
        while let Some(answer) = self.answer.as_mut().filter(|answer| !answer.is_empty()) {
            let sent = self.stream.write(answer.as_slices().0)?;
            answer.drain(..sent);
        }
        Ok(())
    }
}

/// True if the request's head has ended; a body is never read.
fn is_whole(request: &[u8]) -> bool {
    request.windows(4).any(|end| end == b"\r\n\r\n")
}

/// The path of a request's target, which may be a whole address, and may have a query.
fn path_of(target: &[u8]) -> &[u8] {
    let path = match target.strip_prefix(b"http://") {
        Some(rest) => rest.iter().position(|byte| *byte == b'/').map_or(&b"/"[..], |at| &rest[at..]),
        None => target,
    };
    path.split(|byte| *byte == b'?').next().unwrap_or_default()
}

/// Whether a request is for this host, by each line that anybody could read as naming one, and by its target.
/// A page of another's that a browser here shows could otherwise read the metrics, by a name of its own that
/// leads here.
fn is_ours(request: &[u8], own: &OwnName) -> bool {
    let text = String::from_utf8_lossy(request);
    let mut lines = text.split(['\r', '\n']);
    let target = lines.next().and_then(|line| line.split(' ').nth(1)).unwrap_or_default();
    let whole = target.split_once("://").map(|(_, rest)| rest.split(['/', '?']).next().unwrap_or_default());
    let named = lines.filter_map(|line| line.split_once(':'));
    let mut hosts = named.filter(|(name, _)| name.trim().eq_ignore_ascii_case("host"));
    // The first version of HTTP has no such line.
    hosts.all(|(_, value)| own.is(value.trim())) && whole.is_none_or(|host| own.is(host))
}

/// The whole answer to a request (RFC 9112).
fn response(request: &[u8], text: &MetricsText, own: &OwnName) -> String {
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let (kind, whole) = match wants_plain(&String::from_utf8_lossy(request)) {
        true => (PLAIN, &text.plain),
        false => (OPENMETRICS, &text.openmetrics),
    };
    let (status, body) = match words[..] {
        _ if !is_whole(request) => ("431 Request Header Fields Too Large", ""),
        _ if !is_ours(request, own) => ("421 Misdirected Request", ""),
        [method, target, version] if version.starts_with(b"HTTP/1.") => match (method, path_of(target)) {
            (b"GET", b"/metrics" | b"/") => ("200 OK", whole.as_str()),
            (b"GET", _) => ("404 Not Found", ""),
            _ => ("405 Method Not Allowed", ""),
        },
        _ => ("400 Bad Request", ""),
    };
    let allow = if status.starts_with("405") { "Allow: GET\r\n" } else { "" };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nVary: Accept\r\n{allow}Content-Length: \
         {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn asked(server: &MetricsServer, request: &str) -> String {
        let mut connection = TcpStream::connect(server.address()).unwrap();
        connection.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        // What was not read of a request that is too long resets the connection.
        let _ = connection.read_to_string(&mut text);
        text
    }

    fn server() -> MetricsServer {
        MetricsServer::start("0", MetricsText::default()).unwrap()
    }

    /// A page of another's read them through a browser, by a name of its own that led here.
    #[test]
    fn a_request_by_a_foreign_name_is_refused() {
        let server = server();
        let own = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let status = |host: &str| {
            let text = asked(&server, &format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n"));
            text.lines().next().unwrap().to_owned()
        };
        for host in ["127.0.0.1", "127.0.0.1:9187", "[::1]:9187", "::1", "LocalHost:1", &own] {
            assert_eq!(status(host), "HTTP/1.1 200 OK", "{host}");
        }
        for host in ["evil.example", "evil.example:9187", "127.0.0.1.evil.example", "", "xlocalhost"] {
            assert_eq!(status(host), "HTTP/1.1 421 Misdirected Request", "{host}");
        }
        let text = asked(&server, "GET /metrics HTTP/1.0\r\n\r\n");
        assert!(text.starts_with("HTTP/1.1 200 OK"), "{text}");
        for (head, status) in [
            ("GET http://localhost:1/metrics HTTP/1.1\r\nHost: localhost:1", "200"),
            ("GET http://evil.example/metrics HTTP/1.1", "421"),
            ("GET http://localhost@evil.example/metrics HTTP/1.1\r\nHost: localhost", "421"),
            ("GET /metrics HTTP/1.1\r\nHost : evil.example", "421"),
            ("GET /metrics HTTP/1.1\r\n host: evil.example", "421"),
            ("GET /metrics HTTP/1.1\r\nX: y\nHost: evil.example", "421"),
            ("GET /metrics HTTP/1.1\r\nHost: localhost\r\nHost: evil.example", "421"),
        ] {
            let text = asked(&server, &format!("{head}\r\n\r\n"));
            assert!(text.starts_with(&format!("HTTP/1.1 {status} ")), "{head}: {text}");
        }
    }

    #[test]
    fn the_text_is_served_on_loopback_and_nothing_else_is() {
        let server = server();
        assert!(server.address().ip().is_loopback());
        server.set(MetricsText {
            openmetrics: "iopj_reads_total 7\n# EOF\n".to_owned(),
            plain: "7\n".to_owned(),
        });
        let text = asked(&server, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
        assert!(text.ends_with("\r\n\r\niopj_reads_total 7\n# EOF\n"), "{text}");
        assert!(text.contains("application/openmetrics-text; version=1.0.0"), "{text}");
        let text = asked(&server, "GET /metrics HTTP/1.1\r\nAccept: text/plain\r\n\r\n");
        assert!(
            text.contains("Content-Type: text/plain; version=0.0.4") && text.ends_with("\r\n7\n"),
            "{text}"
        );
        for (request, status) in [
            ("GET /etc/passwd HTTP/1.1\r\n\r\n", "404"),
            ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
            ("nonsense\r\n\r\n", "400"),
        ] {
            assert!(asked(&server, request).starts_with(&format!("HTTP/1.1 {status} ")), "{request}");
        }
    }

    #[test]
    fn scrapes_are_counted_with_their_cpu_time() {
        let server = server();
        assert_eq!(server.scrapes(), Scrapes::default());
        (0..3).for_each(|_| drop(asked(&server, "GET /metrics HTTP/1.1\r\n\r\n")));
        // The third is counted after its answer has gone out.
        while server.scrapes().count < 3 {
            std::thread::yield_now();
        }
        assert!(server.scrapes().cpu > Duration::ZERO);
    }

    fn connected(server: &MetricsServer, request: &str) -> TcpStream {
        let mut connection = TcpStream::connect(server.address()).unwrap();
        connection.write_all(request.as_bytes()).unwrap();
        connection
    }

    fn rest(mut connection: TcpStream) -> String {
        let mut text = String::new();
        connection.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn a_client_that_asks_or_reads_slowly_holds_up_nobody_and_has_its_answer() {
        let server = server();
        // More than the buffers of two sockets hold.
        server.set(MetricsText { openmetrics: "a".repeat(16 << 20), plain: "7\n".to_owned() });
        let reads_slowly = connected(&server, "GET /metrics HTTP/1.1\r\n\r\n");
        let mut asks_slowly = connected(&server, "GET /metrics HTTP/1.1\r\n");
        let plain = "Accept: text/plain\r\n\r\n";
        assert!(asked(&server, &format!("GET / HTTP/1.1\r\n{plain}")).ends_with("\r\n7\n"));
        asks_slowly.write_all(plain.as_bytes()).unwrap();
        assert!(rest(asks_slowly).ends_with("\r\n7\n"));
        assert!(rest(reads_slowly).len() > 16 << 20);
    }

    #[test]
    fn clients_that_never_ask_do_not_take_all_places() {
        let server = server();
        let mut silent: Vec<TcpStream> = (0..=MOST).map(|_| connected(&server, "")).collect();
        assert!(asked(&server, "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200 OK"));
        let mut last = silent.pop().unwrap();
        last.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        assert!(rest(last).starts_with("HTTP/1.1 200 OK"), "nobody waited for it");
    }

    #[test]
    fn a_port_is_of_this_machine_alone_and_an_address_is_taken_as_it_is() {
        assert_eq!(address_of("9187"), Some("127.0.0.1:9187".parse().unwrap()));
        assert_eq!(address_of("[::]:1"), Some("[::]:1".parse().unwrap()));
        for wrong in ["", "70000", "localhost:1", "127.0.0.1"] {
            assert_eq!(address_of(wrong), None, "{wrong}");
        }
        let taken = server();
        let error = MetricsServer::start(&taken.address().to_string(), MetricsText::default())
            .unwrap_err()
            .to_string();
        assert!(error.contains("--listen"), "{error}");
    }

    #[test]
    fn a_head_that_never_ends_is_refused() {
        let server = server();
        let text = asked(&server, &format!("GET /metrics HTTP/1.1\r\nX: {}", "a".repeat(LONGEST)));
        assert!(text.is_empty() || text.starts_with("HTTP/1.1 431 "), "{text}");
    }

    proptest! {
        #[test]
        fn any_request_is_answered_without_panic(
            request in proptest::collection::vec(any::<u8>(), 0..200),
            text in "GET /?[a-z]{0,9} HTTP/1\\.[01]\r\n(\r\n)?",
        ) {
            let metrics = MetricsText::default();
            prop_assert!(response(&request, &metrics, &OwnName::default()).starts_with("HTTP/1.1 "));
            prop_assert!(response(text.as_bytes(), &metrics, &OwnName::default()).starts_with("HTTP/1.1 "));
        }
    }
}
