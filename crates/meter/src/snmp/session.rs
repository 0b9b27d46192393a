//! Requests to one agent over UDP: a time limit for all tries, and answers distinguished from late and
//! foreign datagrams.

use super::ber::Oid;
use super::message::{self, Pdu, Variable};
use super::v3::{Reply, User};
use crate::clock::monotonic_raw_ns;
use crate::meter::OpenError;
use crate::random::random;
use crate::secret::Secret;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// Discovery, the clock, the request, and one more if the agent restarts in between.
const ROUNDS: usize = 4;

/// The credentials that a request carries.
pub(super) enum Credentials {
    /// `public` where none is given.
    Community(Option<Secret>),
    User(Box<User>),
}

/// Why there is no answer.
pub(super) enum Failure {
    /// None came within the limit.
    Silence,
    /// The network's error.
    Network(io::Error),
    /// The agent refused; why, as a clause after its name.
    Refused(String),
}

/// The values of the requested variables, in their order.
pub(super) struct Response {
    pub(super) values: Vec<Variable>,
    /// When the answered request was sent, `CLOCK_MONOTONIC_RAW` in ns.
    pub(super) begin_ns: u64,
}

/// One agent.
pub(super) struct Session {
    socket: UdpSocket,
    credentials: Credentials,
    limit: Duration,
    tries: u32,
    id: i32,
}

impl Session {
    /// A socket to an agent; nothing is sent yet. All `tries` share the time limit.
    pub(super) fn new(
        agent: SocketAddr,
        credentials: Credentials,
        limit: Duration,
        tries: u32,
    ) -> Result<Self, OpenError> {
        let any: SocketAddr = if agent.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
        let socket = UdpSocket::bind(any).and_then(|socket| socket.connect(agent).map(|()| socket)).map_err(
            |error| {
                OpenError(format!("there is no route to {agent} ({error}): check `host` and the network"))
            },
        )?;
        // A first id that nobody can guess: forged answers do not match.
        let id = (random()? >> 33) as i32;
        Ok(Self { socket, credentials, limit, tries: tries.max(1), id })
    }

    /// Asks for these variables. Returns within the limit, whatever the agent does.
    pub(super) fn get(&mut self, oids: &[Oid]) -> Result<Response, Failure> {
        let start = Instant::now();
        for number in 1..=self.tries {
            let until = start + self.limit * number / self.tries;
            match self.attempt(oids, until) {
                Err(Failure::Silence) => self.forget(),
                other => return other.inspect_err(|_| self.forget()),
            }
        }
        Err(Failure::Silence)
    }

    fn forget(&mut self) {
        if let Credentials::User(user) = &mut self.credentials {
            user.forget();
        }
    }

    fn attempt(&mut self, oids: &[Oid], until: Instant) -> Result<Response, Failure> {
        for _ in 0..ROUNDS {
            self.id = self.id.wrapping_add(1) & i32::MAX;
            let message = match &mut self.credentials {
                Credentials::Community(community) => message::encode_2c(
                    community.as_ref().map_or("public", Secret::expose),
                    message::get(self.id, oids),
                ),
                Credentials::User(user) => user.encode(self.id, oids),
            };
            let begin_ns = monotonic_raw_ns();
            self.socket.send(&message).map_err(Failure::Network)?;
            match self.receive(until)? {
                Reply::Answer(pdu) => return values(&pdu, oids).map(|values| Response { values, begin_ns }),
                Reply::Again => {}
                Reply::Refused(why) => return Err(Failure::Refused(why.into())),
            }
        }
        Err(Failure::Refused(
            "keeps asking for another clock or engine: check that only one agent has this address".into(),
        ))
    }

    /// Waits for the answer to the last request. Late answers and those of others are dropped.
    fn receive(&mut self, until: Instant) -> Result<Reply, Failure> {
        let mut buffer = [0; 4096];
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Failure::Silence);
            }
            self.socket.set_read_timeout(Some(left)).map_err(Failure::Network)?;
            let length = match self.socket.recv(&mut buffer) {
                Ok(length) => length,
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                    ) =>
                {
                    continue;
                }
                Err(error) => return Err(Failure::Network(error)),
            };
            let reply = match &mut self.credentials {
                Credentials::User(user) => user.decode(&buffer[..length], self.id),
                Credentials::Community(_) => message::decode_2c(&buffer[..length]).map(|pdu| {
                    let ours = pdu.tag == message::RESPONSE && pdu.request_id == self.id;
                    ours.then_some(Reply::Answer(pdu))
                }),
            };
            if let Ok(Some(reply)) = reply {
                return Ok(reply);
            }
        }
    }
}

/// The values of an answer, if it is about these variables.
fn values(pdu: &Pdu, oids: &[Oid]) -> Result<Vec<Variable>, Failure> {
    if pdu.error_status != 0 {
        return Err(Failure::Refused(format!(
            "answers with error status {} (RFC 3416 section 3): check what this user may read",
            pdu.error_status
        )));
    }
    let same = pdu.variables.len() == oids.len()
        && pdu.variables.iter().zip(oids).all(|((found, _), oid)| found == oid);
    if !same {
        return Err(Failure::Refused(
            "answers with variables that were not requested: update its firmware".into(),
        ));
    }
    Ok(pdu.variables.iter().map(|(_, value)| *value).collect())
}
