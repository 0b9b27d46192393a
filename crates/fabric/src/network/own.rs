//! A stream and a ping-pong of our own over one TCP connection.

use super::{NetworkError, STREAM};
use iopj_host::settings::Uuid;
use serde::{Deserialize, Serialize};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long a listener waits for its connection. Threads of tests may get no processor for seconds.
const WAIT: Duration = Duration::from_secs(if cfg!(test) { 120 } else { 10 });
/// After how long a side that hears nothing gives the other up.
const SILENCE: Duration = Duration::from_secs(if cfg!(test) { 60 } else { 5 });
/// How often a listener looks for its connection.
const LOOK: Duration = Duration::from_millis(5);
/// A message of the ping-pong.
const MESSAGE: usize = 64;
/// Round trips that are not counted, then those that are, and the longest time that they may take.
const WARM: usize = 50;
const ROUNDS: usize = 1000;
const LONGEST: Duration = Duration::from_secs(if cfg!(test) { 60 } else { 2 });
/// Fewer show no median.
const FEWEST: usize = 10;
/// What a stream writes at once.
const PIECE: usize = 128 << 10;

/// What a connection is for, as its client sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Test {
    /// Small messages there and back.
    PingPong,
    /// A stream from the client to the listener.
    Send,
    /// A stream from the listener to the client.
    Receive,
}

impl Test {
    const ALL: [Test; 3] = [Test::PingPong, Test::Send, Test::Receive];

    fn letter(self) -> u8 {
        match self {
            Test::PingPong => b'p',
            Test::Send => b's',
            Test::Receive => b'r',
        }
    }
}

/// A secret by which a listener knows its client.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token(String);

/// The length of its text.
const TOKEN: usize = 72;

impl Token {
    /// A new one, from the kernel's random numbers.
    ///
    /// # Errors
    /// The kernel gives none.
    pub fn random() -> io::Result<Token> {
        Ok(Token(format!("{}{}", Uuid::random()?, Uuid::random()?)))
    }
}

/// No secret is in it.
impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

/// A port that waits for one connection.
#[derive(Debug)]
pub struct Listener {
    listener: TcpListener,
    peer: IpAddr,
    token: Token,
}

impl Listener {
    /// Listens on a port of this address that the kernel chooses, for one connection from `peer` that begins
    /// with the token.
    ///
    /// # Errors
    /// The address is none of this host.
    pub fn bind(address: IpAddr, peer: IpAddr, token: Token) -> Result<Listener, NetworkError> {
        let listener = TcpListener::bind((address, 0))
            .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
            .map_err(|error| {
                NetworkError(format!(
                    "cannot listen on {address} ({error}): it must be an address of that host"
                ))
            })?;
        Ok(Listener { listener, peer, token })
    }

    /// The port.
    ///
    /// # Errors
    /// The kernel does not say.
    pub fn port(&self) -> io::Result<u16> {
        Ok(self.listener.local_addr()?.port())
    }

    /// Waits at most ten seconds for the connection, then listens no more, and does what it asks for. Returns
    /// the bits per second that arrived here, of a stream to here.
    ///
    /// # Errors
    /// No connection came, or it broke.
    pub fn serve(self, stop: &AtomicBool) -> Result<Option<f64>, NetworkError> {
        let (mut stream, test) = self.accept(stop)?;
        let served = match test {
            Test::PingPong => echo(&mut stream, stop).map(|()| None),
            Test::Send => receive(&mut stream, stop).map(Some),
            Test::Receive => send(&mut stream, stop).map(|()| None),
        };
        served.map_err(|error| NetworkError(format!("the test connection broke ({error})")))
    }

    fn accept(self, stop: &AtomicBool) -> Result<(TcpStream, Test), NetworkError> {
        let until = Instant::now() + WAIT;
        while Instant::now() < until && !stop.load(Ordering::Relaxed) {
            match self.listener.accept() {
                Ok((stream, from)) if from.ip() == self.peer => {
                    if let Some(test) = greeted(&stream, &self.token) {
                        return Ok((stream, test));
                    }
                }
                // Somebody else: it is closed.
                Ok(_) => {}
                Err(_) => thread::sleep(LOOK),
            }
        }
        Err(NetworkError(format!("no connection of {} came within {} s", self.peer, WAIT.as_secs())))
    }
}

/// What a connection is for, if it begins with the token.
fn greeted(mut stream: &TcpStream, token: &Token) -> Option<Test> {
    stream.set_nonblocking(false).ok()?;
    prepared(stream).ok()?;
    let mut greeting = [0; TOKEN + 1];
    stream.read_exact(&mut greeting).ok()?;
    let (said, letter) = greeting.split_at(TOKEN);
    // All bytes are compared: the time tells nothing.
    let is_token =
        said.iter().zip(token.0.as_bytes()).fold(0, |apart, (one, other)| apart | (one ^ other)) == 0;
    let test = Test::ALL.into_iter().find(|test| [test.letter()] == letter);
    test.filter(|_| is_token && token.0.len() == TOKEN)
}

fn prepared(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(SILENCE))?;
    stream.set_write_timeout(Some(SILENCE))
}

/// Connects to a listener and runs a test: half of the median round trip in ns of a ping-pong, bits per
/// second of a stream to here, and nothing of a stream to there, whose listener knows.
///
/// # Errors
/// It is not reached, or the connection breaks.
pub fn run(
    to: SocketAddr,
    token: &Token,
    test: Test,
    stop: &AtomicBool,
) -> Result<Option<f64>, NetworkError> {
    let mut stream = TcpStream::connect_timeout(&to, SILENCE).map_err(|error| {
        NetworkError(format!("cannot connect to {to} ({error}): a firewall may keep such ports closed"))
    })?;
    let ran = (|| {
        prepared(&stream)?;
        stream.write_all(&[token.0.as_bytes(), &[test.letter()]].concat())?;
        match test {
            Test::PingPong => ping(&mut stream, stop).map(Some),
            Test::Send => {
                send(&mut stream, stop)?;
                // The listener has counted everything once it closes.
                stream.read(&mut [0]).map(|_| None)
            }
            Test::Receive => receive(&mut stream, stop).map(Some),
        }
    })();
    ran.map_err(|error: io::Error| NetworkError(format!("the test connection to {to} broke ({error})")))
}

fn stopped(stop: &AtomicBool) -> io::Result<()> {
    if stop.load(Ordering::Relaxed) { Err(ErrorKind::Interrupted.into()) } else { Ok(()) }
}

fn ping(stream: &mut TcpStream, stop: &AtomicBool) -> io::Result<f64> {
    let (mut message, mut times, began) = ([0; MESSAGE], Vec::with_capacity(ROUNDS), Instant::now());
    for round in 0..WARM + ROUNDS {
        if began.elapsed() > LONGEST {
            break;
        }
        stopped(stop)?;
        let sent = Instant::now();
        stream.write_all(&message)?;
        stream.read_exact(&mut message)?;
        if round >= WARM {
            times.push(sent.elapsed().as_nanos() as f64);
        }
    }
    if times.len() < FEWEST {
        return Err(io::Error::other(format!("only {} round trips in {} s", times.len(), LONGEST.as_secs())));
    }
    times.sort_by(f64::total_cmp);
    Ok(0.5 * times[times.len() / 2])
}

fn echo(stream: &mut TcpStream, stop: &AtomicBool) -> io::Result<()> {
    let mut message = [0; MESSAGE];
    loop {
        stopped(stop)?;
        match stream.read_exact(&mut message) {
            Ok(()) => stream.write_all(&message)?,
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

fn send(stream: &mut TcpStream, stop: &AtomicBool) -> io::Result<()> {
    let (piece, began) = (vec![0; PIECE], Instant::now());
    while began.elapsed() < STREAM {
        stopped(stop)?;
        stream.write_all(&piece)?;
    }
    stream.shutdown(Shutdown::Write)
}

/// Bits per second from the first bytes that arrive to the last.
fn receive(stream: &mut TcpStream, stop: &AtomicBool) -> io::Result<f64> {
    let mut piece = vec![0; PIECE];
    // Of a stream that ends at once the next read says so too.
    let _first = stream.read(&mut piece)?;
    let (began, mut last, mut bytes) = (Instant::now(), Duration::ZERO, 0);
    loop {
        stopped(stop)?;
        match stream.read(&mut piece)? {
            0 => break,
            more => (bytes, last) = (bytes + more as u64, began.elapsed()),
        }
    }
    if bytes == 0 || last.is_zero() {
        return Err(io::Error::other("nothing arrived"));
    }
    Ok(bytes as f64 * 8.0 / last.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use std::sync::Arc;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    /// A listener that serves on a thread, and where.
    fn listening(
        peer: IpAddr,
        token: &Token,
        stop: &Arc<AtomicBool>,
    ) -> (SocketAddr, thread::JoinHandle<Result<Option<f64>, NetworkError>>) {
        let listener = Listener::bind(HERE, peer, token.clone()).unwrap();
        let (to, stop) = (SocketAddr::new(HERE, listener.port().unwrap()), Arc::clone(stop));
        (to, thread::spawn(move || listener.serve(&stop)))
    }

    #[test]
    fn a_ping_pong_and_streams_both_ways_are_measured_by_who_receives() {
        let (token, stop) = (Token::random().unwrap(), Arc::new(AtomicBool::new(false)));
        for (test, here, there) in
            [(Test::PingPong, true, false), (Test::Send, false, true), (Test::Receive, true, false)]
        {
            let (to, served) = listening(HERE, &token, &stop);
            let ran = run(to, &token, test, &stop).unwrap();
            let served = served.join().unwrap().unwrap();
            assert_eq!((ran.is_some(), served.is_some()), (here, there), "{test:?}");
            assert!(ran.or(served).is_some_and(|value| value > 0.0));
            // Nothing listens there any more.
            assert!(TcpStream::connect_timeout(&to, SILENCE).is_err());
        }
    }

    #[test]
    fn only_the_client_with_the_token_is_served() {
        let (token, stop) = (Token::random().unwrap(), Arc::new(AtomicBool::new(false)));
        let (to, served) = listening(HERE, &token, &stop);
        let stranger = Token::random().unwrap();
        assert!(stranger != token && token.0.len() == TOKEN && format!("{token:?}") == "Token");
        let refused = run(to, &stranger, Test::PingPong, &stop).unwrap_err().to_string();
        assert!(refused.starts_with(&format!("the test connection to {to} broke (")), "{refused}");
        // It waits on for the right one.
        assert!(run(to, &token, Test::PingPong, &stop).is_ok() && served.join().unwrap().is_ok());
    }

    #[test]
    fn another_address_is_never_answered_and_the_wait_ends() {
        let (token, stop) = (Token::random().unwrap(), Arc::new(AtomicBool::new(false)));
        let (to, served) = listening(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), &token, &stop);
        assert!(run(to, &token, Test::PingPong, &stop).is_err());
        stop.store(true, Ordering::Relaxed);
        let error = served.join().unwrap().unwrap_err().to_string();
        assert_eq!(error, "no connection of 192.0.2.1 came within 120 s");
        let foreign = Listener::bind(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), HERE, token).unwrap_err();
        assert!(foreign.to_string().starts_with("cannot listen on 192.0.2.1 ("), "{foreign}");
    }
}
