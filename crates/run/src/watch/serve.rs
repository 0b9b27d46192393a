//! Metrics over plain HTTP for Prometheus: one thread, one request a connection, nothing but one text.

use super::error::WatchError;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Bytes of the longest request that is read.
const LONGEST: usize = 4096;
/// How long a connection may take.
const LIMIT: Duration = Duration::from_secs(2);
/// How often the thread looks whether it is to end.
const LOOK: Duration = Duration::from_millis(200);
/// Media type of OpenMetrics (OpenMetrics 1.0, "Protocol Negotiation").
const TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Serves a text until it is dropped.
#[derive(Debug)]
pub struct MetricsServer {
    address: SocketAddr,
    text: Arc<Mutex<String>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl MetricsServer {
    /// Listens on an address with a port, such as `[::1]:9187`, or on a port of 127.0.0.1.
    ///
    /// # Errors
    /// [`WatchError::Listen`].
    pub fn start(named: &str) -> Result<MetricsServer, WatchError> {
        let refused = |error| WatchError::Listen { address: named.to_owned(), error };
        let address = address_of(named).ok_or_else(|| {
            refused(std::io::Error::other("it is neither a port nor an IP address with a port"))
        })?;
        let listener = TcpListener::bind(address).map_err(refused)?;
        listener.set_nonblocking(true).map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let (text, stop) = (Arc::new(Mutex::new(String::from("# EOF\n"))), Arc::new(AtomicBool::new(false)));
        let (its_text, its_stop) = (Arc::clone(&text), Arc::clone(&stop));
        let thread = std::thread::Builder::new()
            .name("iopj-metrics".to_owned())
            .spawn(move || serve(&listener, &its_text, &its_stop))
            .map_err(refused)?;
        Ok(MetricsServer { address, text, stop, thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Replaces the text.
    pub fn set(&self, text: String) {
        *self.text.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
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

fn serve(listener: &TcpListener, text: &Mutex<String>, stop: &AtomicBool) {
    let look = Timespec { tv_sec: 0, tv_nsec: LOOK.subsec_nanos().into() };
    while !stop.load(Ordering::Relaxed) {
        let _ = poll(&mut [PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN)], Some(&look));
        if let Ok((connection, _)) = listener.accept() {
            let body = text.lock().unwrap_or_else(PoisonError::into_inner).clone();
            // A client that goes away early is no error of ours.
            let _ = answer(connection, &body);
        }
    }
}

fn answer(mut connection: TcpStream, body: &str) -> std::io::Result<()> {
    connection.set_nonblocking(false)?;
    connection.set_write_timeout(Some(LIMIT))?;
    let until = Instant::now() + LIMIT;
    let mut request = Vec::new();
    let mut part = [0; 512];
    while !is_whole(&request) && request.len() < LONGEST {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        connection.set_read_timeout(Some(left))?;
        match connection.read(&mut part)? {
            0 => return Ok(()),
            count => request.extend_from_slice(&part[..count]),
        }
    }
    connection.write_all(response(&request, body).as_bytes())
}

/// True if the request's head has ended; a body is never read.
fn is_whole(request: &[u8]) -> bool {
    request.windows(4).any(|end| end == b"\r\n\r\n")
}

/// The whole answer to a request (RFC 9112).
fn response(request: &[u8], body: &str) -> String {
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let (status, body) = match words[..] {
        _ if !is_whole(request) => ("431 Request Header Fields Too Large", ""),
        [method, path, version] if version.starts_with(b"HTTP/1.") => match (method, path) {
            (b"GET", b"/metrics" | b"/") => ("200 OK", body),
            (b"GET", _) => ("404 Not Found", ""),
            _ => ("405 Method Not Allowed", ""),
        },
        _ => ("400 Bad Request", ""),
    };
    let allow = if status.starts_with("405") { "Allow: GET\r\n" } else { "" };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {TYPE}\r\n{allow}Content-Length: {}\r\nConnection: \
         close\r\n\r\n{body}",
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

    #[test]
    fn the_text_is_served_on_loopback_and_nothing_else_is() {
        let server = MetricsServer::start("0").unwrap();
        assert!(server.address().ip().is_loopback());
        server.set("iopj_reads_total 7\n# EOF\n".to_owned());
        let text = asked(&server, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
        assert!(text.ends_with("\r\n\r\niopj_reads_total 7\n# EOF\n"), "{text}");
        assert!(text.contains("application/openmetrics-text; version=1.0.0"), "{text}");
        for (request, status) in [
            ("GET /etc/passwd HTTP/1.1\r\n\r\n", "404"),
            ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
            ("nonsense\r\n\r\n", "400"),
        ] {
            assert!(asked(&server, request).starts_with(&format!("HTTP/1.1 {status} ")), "{request}");
        }
    }

    #[test]
    fn a_port_is_of_this_machine_alone_and_an_address_is_taken_as_it_is() {
        assert_eq!(address_of("9187"), Some("127.0.0.1:9187".parse().unwrap()));
        assert_eq!(address_of("[::]:1"), Some("[::]:1".parse().unwrap()));
        for wrong in ["", "70000", "localhost:1", "127.0.0.1"] {
            assert_eq!(address_of(wrong), None, "{wrong}");
        }
        let taken = MetricsServer::start("0").unwrap();
        let error = MetricsServer::start(&taken.address().to_string()).unwrap_err().to_string();
        assert!(error.contains("--listen"), "{error}");
    }

    #[test]
    fn a_head_that_never_ends_is_refused() {
        let server = MetricsServer::start("0").unwrap();
        let text = asked(&server, &format!("GET /metrics HTTP/1.1\r\nX: {}", "a".repeat(LONGEST)));
        assert!(text.is_empty() || text.starts_with("HTTP/1.1 431 "), "{text}");
    }

    proptest! {
        #[test]
        fn any_request_is_answered_without_panic(
            request in proptest::collection::vec(any::<u8>(), 0..200),
            text in "GET /?[a-z]{0,9} HTTP/1\\.[01]\r\n(\r\n)?",
        ) {
            prop_assert!(response(&request, "x").starts_with("HTTP/1.1 "));
            prop_assert!(response(text.as_bytes(), "x").starts_with("HTTP/1.1 "));
        }
    }
}
