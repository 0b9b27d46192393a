//! Messages of SNMPv3 (RFC 3412) between one user and one agent: discovery of the agent's engine and clock,
//! and which answers are accepted.

use super::ber::{self, Malformed, Oid, Reader};
use super::message::{self, Pdu};
use super::usm::{self, Keys, Passwords};
use std::time::Instant;

const VERSION_3: i32 = 3;
const USER_BASED: i32 = 3;
/// `msgFlags` (RFC 3412 section 6.4).
const AUTHENTICATED: u8 = 1;
const ENCRYPTED: u8 = 2;
const REPORTABLE: u8 = 4;
/// The longest message that this side accepts; everybody must accept 484 octets.
const LONGEST: i32 = 65_507;
/// How much older than the agent's clock a message may be (RFC 3414 section 2.2.3).
const WINDOW_S: i64 = 150;
/// `usmStats`: what an agent reports instead of an answer (RFC 3414 section 5).
const REPORTS: &str = "1.3.6.1.6.3.15.1.1";

/// What a message means for the request.
pub(super) enum Reply {
    /// The answer.
    Answer(Pdu),
    /// The agent supplied what was missing: ask again.
    Again,
    /// The agent will not answer this user; why, and the remedy.
    Refused(&'static str),
}

/// A user of one agent.
pub(super) struct User {
    name: String,
    passwords: Option<Passwords>,
    engine: Option<Engine>,
    /// Differs in every message, so that no two are encrypted alike (RFC 3826 section 3.1.2.1).
    salt: u64,
}

/// What is known of the agent's engine.
struct Engine {
    id: Vec<u8>,
    keys: Option<Keys>,
    boots: i32,
    /// Its clock in s, and when that was received.
    time: i32,
    time_at: Instant,
}

impl Engine {
    fn now(&self) -> i32 {
        self.time.saturating_add(i32::try_from(self.time_at.elapsed().as_secs()).unwrap_or(i32::MAX))
    }

    /// Whether a message of this time is accepted; the newest sets the clock (RFC 3414 section 3.2, 7b).
    fn accepts(&mut self, boots: i32, time: i32) -> bool {
        if boots > self.boots || (boots == self.boots && time > self.time) {
            (self.boots, self.time, self.time_at) = (boots, time, Instant::now());
        }
        boots == self.boots && boots != i32::MAX && i64::from(time) + WINDOW_S >= i64::from(self.now())
    }
}

impl User {
    pub(super) fn new(name: String, passwords: Option<Passwords>, salt: u64) -> Self {
        Self { name, passwords, engine: None, salt }
    }

    /// Begins anew: an agent that restarted may have another engine, or count its boots from 1.
    pub(super) fn forget(&mut self) {
        self.engine = None;
    }

    /// The message that asks for these variables, or for the engine as long as it is not known (RFC 3414
    /// section 4).
    pub(super) fn encode(&mut self, id: i32, oids: &[Oid]) -> Vec<u8> {
        self.salt = self.salt.wrapping_add(1);
        let Some(engine) = &self.engine else {
            let scoped = scoped(&[], message::get(id, &[]));
            return assemble(id, REPORTABLE, &Parameters::default(), scoped);
        };
        let mut parameters =
            Parameters { engine: &engine.id, user: self.name.as_bytes(), ..Parameters::default() };
        let mut data = scoped(&engine.id, message::get(id, oids));
        let Some(keys) = &engine.keys else {
            return assemble(id, REPORTABLE, &parameters, data);
        };
        let salt = self.salt.to_be_bytes();
        let code = vec![0; keys.protocol.code_length()];
        (parameters.boots, parameters.time, parameters.code) = (engine.boots, engine.now(), &code);
        let mut flags = REPORTABLE | AUTHENTICATED;
        if let Some(key) = &keys.privacy {
            flags |= ENCRYPTED;
            parameters.salt = &salt;
            usm::encrypt(key, usm::initial_vector(parameters.boots, parameters.time, salt), &mut data);
            data = ber::octets(&data);
        }
        // The code's octets lie before the salt and the data, which end the message.
        let behind = ber::octets(parameters.salt).len() + data.len();
        let mut whole = assemble(id, flags, &parameters, data);
        let end = whole.len() - behind;
        let sum = keys.protocol.code(&keys.auth, &whole);
        whole[end - sum.len()..end].copy_from_slice(&sum);
        whole
    }

    /// What a message means for the request with this id; `None` if it is not an answer to it, or not from
    /// the agent.
    pub(super) fn decode(&mut self, whole: &[u8], id: i32) -> Result<Option<Reply>, Malformed> {
        let incoming = Incoming::parse(whole)?;
        if incoming.id != id {
            return Ok(None);
        }
        if incoming.flags & AUTHENTICATED == 0 {
            return self.unauthenticated(&incoming);
        }
        let Some(engine) = &mut self.engine else { return Ok(None) };
        let Some(keys) = &engine.keys else { return Ok(None) };
        let genuine = incoming.engine == engine.id
            && incoming.user == self.name.as_bytes()
            && keys.protocol.verify(&keys.auth, &incoming.blanked(whole), incoming.code);
        if !genuine {
            return Ok(None);
        }
        let private = keys.privacy;
        if !engine.accepts(incoming.boots, incoming.time) {
            return Ok(None);
        }
        let pdu = incoming.open(private.as_ref())?;
        let secret_enough = private.is_none() || incoming.flags & ENCRYPTED != 0;
        match pdu.tag {
            message::RESPONSE if secret_enough && pdu.request_id == id => Ok(Some(Reply::Answer(pdu))),
            // The clock has been set by now.
            message::REPORT if report(&pdu) == Some(2) => Ok(Some(Reply::Again)),
            message::REPORT => Ok(refusal(&pdu).map(Reply::Refused)),
            _ => Ok(None),
        }
    }

    /// A message that anybody may have sent: with the engine's id, with a refusal, or with the answer to a
    /// user without passwords. It never sets the clock.
    fn unauthenticated(&mut self, incoming: &Incoming<'_>) -> Result<Option<Reply>, Malformed> {
        let pdu = incoming.open(None)?;
        match (pdu.tag, &self.engine) {
            (message::REPORT, known) if report(&pdu) == Some(4) => {
                if incoming.engine.is_empty()
                    || known.as_ref().is_some_and(|engine| engine.id == incoming.engine)
                {
                    return Ok(None);
                }
                let id = incoming.engine.to_vec();
                let keys = self.passwords.as_ref().map(|passwords| passwords.localize(&id));
                self.engine = Some(Engine { id, keys, boots: 0, time: 0, time_at: Instant::now() });
                Ok(Some(Reply::Again))
            }
            (message::REPORT, _) => Ok(refusal(&pdu).map(Reply::Refused)),
            (message::RESPONSE, Some(engine)) if engine.keys.is_none() && incoming.engine == engine.id => {
                Ok(Some(Reply::Answer(pdu)))
            }
            _ => Ok(None),
        }
    }
}

/// Which of `usmStats` is reported.
fn report(pdu: &Pdu) -> Option<u32> {
    let (oid, _) = pdu.variables.first()?;
    oid.to_string().strip_prefix(REPORTS)?.strip_prefix('.')?.split('.').next()?.parse().ok()
}

fn refusal(pdu: &Pdu) -> Option<&'static str> {
    match report(pdu)? {
        1 => Some(
            "refuses this user with these passwords alone: give `auth` and `privacy` as the agent demands",
        ),
        3 => Some("does not know the user: check `user`"),
        5 => Some("found the authentication wrong: check the password and `auth`"),
        6 => Some("could not decrypt the request: check the privacy password and `privacy`"),
        _ => None,
    }
}

fn scoped(engine: &[u8], pdu: Vec<u8>) -> Vec<u8> {
    ber::sequence(&[ber::octets(engine), ber::octets(&[]), pdu])
}

/// `UsmSecurityParameters` (RFC 3414 section 2.4).
#[derive(Default)]
struct Parameters<'a> {
    engine: &'a [u8],
    boots: i32,
    time: i32,
    user: &'a [u8],
    code: &'a [u8],
    salt: &'a [u8],
}

/// A whole message (RFC 3412 section 6).
fn assemble(id: i32, flags: u8, parameters: &Parameters<'_>, data: Vec<u8>) -> Vec<u8> {
    let global = [ber::integer(id), ber::integer(LONGEST), ber::octets(&[flags]), ber::integer(USER_BASED)];
    let security = ber::sequence(&[
        ber::octets(parameters.engine),
        ber::integer(parameters.boots),
        ber::integer(parameters.time),
        ber::octets(parameters.user),
        ber::octets(parameters.code),
        ber::octets(parameters.salt),
    ]);
    ber::sequence(&[ber::integer(VERSION_3), ber::sequence(&global), ber::octets(&security), data])
}

/// A message's parts.
struct Incoming<'a> {
    id: i32,
    flags: u8,
    engine: &'a [u8],
    boots: i32,
    time: i32,
    user: &'a [u8],
    code: &'a [u8],
    /// Where the code begins in the message.
    code_at: usize,
    salt: &'a [u8],
    data: Reader<'a>,
}

impl<'a> Incoming<'a> {
    fn parse(whole: &'a [u8]) -> Result<Self, Malformed> {
        let mut message = Reader(whole).sequence()?;
        let version = message.integer()?;
        let mut global = message.sequence()?;
        let id = global.integer()?;
        global.integer()?;
        let flags = global.octets()?;
        let model = global.integer()?;
        let ([flags], VERSION_3, USER_BASED) = (flags, version, model) else { return Err(Malformed) };
        let mut security = Reader(message.octets()?).sequence()?;
        let (engine, boots, time) = (security.octets()?, security.integer()?, security.integer()?);
        let user = security.octets()?;
        let code = security.octets()?;
        let code_at = code.as_ptr() as usize - whole.as_ptr() as usize;
        let salt = security.octets()?;
        Ok(Self { id, flags: *flags, engine, boots, time, user, code, code_at, salt, data: message })
    }

    /// The message that its code was computed from: with zeros in place of the code.
    fn blanked(&self, whole: &[u8]) -> Vec<u8> {
        let mut whole = whole.to_vec();
        whole[self.code_at..self.code_at + self.code.len()].fill(0);
        whole
    }

    /// The data unit inside, decrypted if necessary.
    fn open(&self, key: Option<&[u8; 16]>) -> Result<Pdu, Malformed> {
        let mut data = self.data;
        if self.flags & ENCRYPTED == 0 {
            return scoped_pdu(data);
        }
        let (Some(key), Ok(salt)) = (key, self.salt.try_into()) else { return Err(Malformed) };
        let mut plain = data.octets()?.to_vec();
        usm::decrypt(key, usm::initial_vector(self.boots, self.time, salt), &mut plain);
        scoped_pdu(Reader(&plain))
    }
}

/// Parses any octets as a message, with a key that fits none: to show that no datagram does harm.
pub(super) fn parse_any(whole: &[u8]) -> Result<Pdu, Malformed> {
    let incoming = Incoming::parse(whole)?;
    let blanked = incoming.blanked(whole);
    incoming.open(Some(&[0; 16])).or_else(|_| Incoming::parse(&blanked)?.open(None))
}

fn scoped_pdu(mut reader: Reader<'_>) -> Result<Pdu, Malformed> {
    let mut scoped = reader.sequence()?;
    scoped.octets()?;
    scoped.octets()?;
    message::pdu(&mut scoped)
}
