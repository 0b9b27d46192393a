//! The part of ASN.1's basic encoding rules that SNMP uses (RFC 3417 section 8): definite lengths, tags of
//! one octet.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

pub(super) const INTEGER: u8 = 0x02;
pub(super) const OCTETS: u8 = 0x04;
pub(super) const NULL: u8 = 0x05;
pub(super) const OID: u8 = 0x06;
pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const COUNTER32: u8 = 0x41;
pub(super) const GAUGE32: u8 = 0x42;
pub(super) const COUNTER64: u8 = 0x46;
pub(super) const NO_SUCH_OBJECT: u8 = 0x80;
pub(super) const NO_SUCH_INSTANCE: u8 = 0x81;

/// Octets that are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// An object identifier.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Oid(Vec<u32>);

impl Oid {
    /// Below iso.org.dod.internet.private.enterprises (RFC 2578 section 2).
    pub(super) fn enterprise(arcs: &[u32]) -> Self {
        Self(vec![1, 3, 6, 1, 4, 1]).with(arcs)
    }

    /// With more arcs at its end: an index of a table's column.
    pub(super) fn with(mut self, arcs: &[u32]) -> Self {
        self.0.extend_from_slice(arcs);
        self
    }

    fn encode(&self) -> Vec<u8> {
        // `from_str` and `decode` make only identifiers of two arcs or more.
        let mut out = Vec::with_capacity(2 * self.0.len());
        push_arc(&mut out, u64::from(self.0[0]) * 40 + u64::from(self.0[1]));
        self.0[2..].iter().for_each(|&arc| push_arc(&mut out, u64::from(arc)));
        out
    }

    fn decode(octets: &[u8]) -> Result<Self, Malformed> {
        let mut arcs = Vec::new();
        let mut arc = 0u64;
        for &octet in octets {
            arc = (arc << 7) | u64::from(octet & 0x7f);
            if arc > u64::from(u32::MAX) + 80 {
                return Err(Malformed);
            }
            if octet & 0x80 == 0 {
                if arcs.is_empty() {
                    let first = (arc / 40).min(2);
                    arcs.push(first);
                    arc -= first * 40;
                }
                arcs.push(arc);
                arc = 0;
            }
        }
        if arcs.is_empty() || octets.last().is_some_and(|last| last & 0x80 != 0) {
            return Err(Malformed);
        }
        arcs.into_iter()
            .map(|arc| u32::try_from(arc).map_err(|_| Malformed))
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

/// Seven bits per octet, the highest first.
fn push_arc(out: &mut Vec<u8>, arc: u64) {
    let mut shift = (64 - (arc | 1).leading_zeros()).div_ceil(7) * 7;
    while shift > 7 {
        shift -= 7;
        out.push(0x80 | (arc >> shift) as u8 & 0x7f);
    }
    out.push(arc as u8 & 0x7f);
}

impl fmt::Display for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let arcs: Vec<String> = self.0.iter().map(u32::to_string).collect();
        f.write_str(&arcs.join("."))
    }
}

/// A text that is not an object identifier.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("`{}` is not an object identifier: write numbers with dots, `1.3.6.1.2.1`", .0.escape_debug())]
pub struct BadOid(pub String);

impl FromStr for Oid {
    type Err = BadOid;
    fn from_str(text: &str) -> Result<Self, BadOid> {
        let bad = || BadOid(text.to_owned());
        let arcs = text.strip_prefix('.').unwrap_or(text).split('.');
        let arcs: Vec<u32> = arcs.map(|arc| arc.parse().map_err(|_| bad())).collect::<Result<_, _>>()?;
        match arcs[..] {
            [0 | 1, 0..=39, ..] | [2, _, ..] if arcs.len() <= 128 => Ok(Self(arcs)),
            _ => Err(bad()),
        }
    }
}

impl TryFrom<String> for Oid {
    type Error = BadOid;
    fn try_from(text: String) -> Result<Self, BadOid> {
        text.parse()
    }
}

impl From<Oid> for String {
    fn from(oid: Oid) -> Self {
        oid.to_string()
    }
}

/// Tag, length and content.
pub(super) fn tlv(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(content.len() + 6);
    out.push(tag);
    match u32::try_from(content.len()).unwrap_or(u32::MAX) {
        length @ 0..=0x7f => out.push(length as u8),
        length => {
            let octets = length.to_be_bytes();
            let octets = &octets[length.leading_zeros() as usize / 8..];
            out.push(0x80 | octets.len() as u8);
            out.extend_from_slice(octets);
        }
    }
    out.extend_from_slice(content);
    out
}

/// Elements in a row, under one tag.
pub(super) fn constructed(tag: u8, parts: &[Vec<u8>]) -> Vec<u8> {
    tlv(tag, &parts.concat())
}

pub(super) fn sequence(parts: &[Vec<u8>]) -> Vec<u8> {
    constructed(SEQUENCE, parts)
}

/// An integer in as few octets as two's complement allows.
pub(super) fn integer(value: i32) -> Vec<u8> {
    let octets = value.to_be_bytes();
    let sign_only = |i: usize| {
        let next_negative = octets[i + 1] & 0x80 != 0;
        octets[i] == if next_negative { 0xff } else { 0 }
    };
    let skip = (0..3).take_while(|&i| sign_only(i)).count();
    tlv(INTEGER, &octets[skip..])
}

pub(super) fn octets(content: &[u8]) -> Vec<u8> {
    tlv(OCTETS, content)
}

pub(super) fn oid(oid: &Oid) -> Vec<u8> {
    tlv(OID, &oid.encode())
}

/// The octets that are left to read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    /// The next tag and its content.
    pub(super) fn any(&mut self) -> Result<(u8, &'a [u8]), Malformed> {
        let [tag, first, rest @ ..] = self.0 else { return Err(Malformed) };
        let (length, rest) = match first {
            0..=0x7f => (usize::from(*first), rest),
            0x81..=0x84 => {
                let (length, rest) = rest.split_at_checked(usize::from(first & 0x7f)).ok_or(Malformed)?;
                (length.iter().fold(0, |sum, &octet| sum << 8 | usize::from(octet)), rest)
            }
            _ => return Err(Malformed),
        };
        let (content, rest) = rest.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        Ok((*tag, content))
    }

    /// The content of the next element, if it has this tag.
    pub(super) fn take(&mut self, tag: u8) -> Result<&'a [u8], Malformed> {
        self.any().and_then(|(found, content)| if found == tag { Ok(content) } else { Err(Malformed) })
    }

    pub(super) fn sequence(&mut self) -> Result<Reader<'a>, Malformed> {
        self.take(SEQUENCE).map(Reader)
    }

    pub(super) fn octets(&mut self) -> Result<&'a [u8], Malformed> {
        self.take(OCTETS)
    }

    pub(super) fn integer(&mut self) -> Result<i32, Malformed> {
        i32::try_from(signed(self.take(INTEGER)?)?).map_err(|_| Malformed)
    }

    pub(super) fn oid(&mut self) -> Result<Oid, Malformed> {
        Oid::decode(self.take(OID)?)
    }
}

/// Two's complement of one to eight octets.
pub(super) fn signed(content: &[u8]) -> Result<i64, Malformed> {
    let sign = match content {
        [] => return Err(Malformed),
        [first, ..] => i64::from(*first as i8 >> 7),
    };
    if content.len() > 8 {
        return Err(Malformed);
    }
    Ok(content.iter().fold(sign, |sum, &octet| sum << 8 | i64::from(octet)))
}

/// An unsigned number of one to eight octets, or nine with a leading 0.
pub(super) fn unsigned(content: &[u8]) -> Result<u64, Malformed> {
    let content = match content {
        [] => return Err(Malformed),
        [0, rest @ ..] => rest,
        all => all,
    };
    if content.len() > 8 {
        return Err(Malformed);
    }
    Ok(content.iter().fold(0, |sum, &octet| sum << 8 | u64::from(octet)))
}
