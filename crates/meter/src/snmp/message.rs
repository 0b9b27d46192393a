//! SNMP messages of version 2c (RFC 1901) and the protocol data units inside every version's (RFC 3416).

use super::ber::{self, Malformed, Oid, Reader};

pub(super) const GET: u8 = 0xa0;
pub(super) const RESPONSE: u8 = 0xa2;
pub(super) const REPORT: u8 = 0xa8;
const VERSION_2C: i32 = 1;

/// The value of a variable, as far as a meter can use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variable {
    /// INTEGER.
    Integer(i64),
    /// Gauge32, the same as Unsigned32.
    Gauge32(u64),
    /// Counter32.
    Counter32(u64),
    /// Counter64.
    Counter64(u64),
    /// The agent has no such object or instance.
    Absent,
    /// Another type.
    Other(u8),
}

/// A protocol data unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pdu {
    pub(super) tag: u8,
    pub(super) request_id: i32,
    pub(super) error_status: i32,
    pub(super) variables: Vec<(Oid, Variable)>,
}

/// A request for these variables.
pub(super) fn get(request_id: i32, oids: &[Oid]) -> Vec<u8> {
    let variables: Vec<_> =
        oids.iter().map(|oid| ber::sequence(&[ber::oid(oid), ber::tlv(ber::NULL, &[])])).collect();
    let parts = [ber::integer(request_id), ber::integer(0), ber::integer(0), ber::sequence(&variables)];
    ber::constructed(GET, &parts)
}

/// Reads a protocol data unit.
pub(super) fn pdu(reader: &mut Reader<'_>) -> Result<Pdu, Malformed> {
    let (tag, content) = reader.any()?;
    let mut content = Reader(content);
    let (request_id, error_status) = (content.integer()?, content.integer()?);
    content.integer()?;
    let mut list = content.sequence()?;
    let mut variables = Vec::new();
    while !list.0.is_empty() {
        let mut variable = list.sequence()?;
        let oid = variable.oid()?;
        variables.push((oid, value(variable.any()?)?));
    }
    Ok(Pdu { tag, request_id, error_status, variables })
}

fn value((tag, content): (u8, &[u8])) -> Result<Variable, Malformed> {
    Ok(match tag {
        ber::INTEGER => Variable::Integer(ber::signed(content)?),
        ber::GAUGE32 => Variable::Gauge32(ber::unsigned(content)?),
        ber::COUNTER32 => Variable::Counter32(ber::unsigned(content)?),
        ber::COUNTER64 => Variable::Counter64(ber::unsigned(content)?),
        ber::NO_SUCH_OBJECT | ber::NO_SUCH_INSTANCE => Variable::Absent,
        other => Variable::Other(other),
    })
}

/// A message of version 2c.
pub(super) fn encode_2c(community: &str, pdu: Vec<u8>) -> Vec<u8> {
    ber::sequence(&[ber::integer(VERSION_2C), ber::octets(community.as_bytes()), pdu])
}

/// The data unit of a message of version 2c.
pub(super) fn decode_2c(message: &[u8]) -> Result<Pdu, Malformed> {
    let mut message = Reader(message).sequence()?;
    if message.integer()? != VERSION_2C {
        return Err(Malformed);
    }
    message.octets()?;
    pdu(&mut message)
}
