//! The user-based security model of SNMPv3 (RFC 3414): keys, authentication by HMAC-SHA-1-96 or
//! HMAC-SHA-256-192 (RFC 7860), and privacy by AES-128 in CFB mode (RFC 3826).

use crate::secret::Secret;
use aes::Aes128;
use aes::cipher::KeyIvInit;
use cfb_mode::{Decryptor, Encryptor};
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha1::{Digest, Sha1};
use sha2::Sha256;

/// Octets that a password is repeated to before it is hashed (RFC 3414 A.2).
const STRETCHED: usize = 1 << 20;

/// How messages are authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SnmpAuth {
    /// HMAC-SHA-1-96 (RFC 3414): `SHA` in most agents.
    Sha1,
    /// HMAC-SHA-256-192 (RFC 7860): `SHA-256`.
    Sha256,
}

impl SnmpAuth {
    /// Octets of an authentication code on the wire.
    pub(super) fn code_length(self) -> usize {
        match self {
            Self::Sha1 => 12,
            Self::Sha256 => 24,
        }
    }

    fn hash(self, parts: &[&[u8]]) -> Vec<u8> {
        match self {
            Self::Sha1 => digest::<Sha1>(parts),
            Self::Sha256 => digest::<Sha256>(parts),
        }
    }

    /// The key of a password, before it is localized.
    fn stretch(self, password: &Secret) -> Vec<u8> {
        let password = password.expose().as_bytes();
        let stretched: Vec<u8> = password.iter().copied().cycle().take(STRETCHED).collect();
        self.hash(&[&stretched])
    }

    fn localize(self, key: &[u8], engine_id: &[u8]) -> Vec<u8> {
        self.hash(&[key, engine_id, key])
    }

    /// The code of a message whose code's octets are 0.
    pub(super) fn code(self, key: &[u8], message: &[u8]) -> Vec<u8> {
        let mut code = match self {
            Self::Sha1 => hmac::<Hmac<Sha1>>(key, message).map(|mac| mac.finalize().into_bytes().to_vec()),
            Self::Sha256 => {
                hmac::<Hmac<Sha256>>(key, message).map(|mac| mac.finalize().into_bytes().to_vec())
            }
        }
        .unwrap_or_default();
        code.truncate(self.code_length());
        code
    }

    /// Whether this is the code of a message; the time that it takes does not reveal where they differ.
    pub(super) fn verify(self, key: &[u8], message: &[u8], code: &[u8]) -> bool {
        code.len() == self.code_length()
            && match self {
                Self::Sha1 => hmac::<Hmac<Sha1>>(key, message)
                    .is_some_and(|mac| mac.verify_truncated_left(code).is_ok()),
                Self::Sha256 => hmac::<Hmac<Sha256>>(key, message)
                    .is_some_and(|mac| mac.verify_truncated_left(code).is_ok()),
            }
    }
}

fn digest<D: Digest>(parts: &[&[u8]]) -> Vec<u8> {
    parts.iter().fold(D::new(), |hash, part| hash.chain_update(part)).finalize().to_vec()
}

/// HMAC takes a key of any length, so the result is never `None`.
fn hmac<M: Mac + KeyInit>(key: &[u8], message: &[u8]) -> Option<M> {
    M::new_from_slice(key).ok().map(|mac| mac.chain_update(message))
}

/// A user's passwords as keys that are not yet localized: making them takes milliseconds, localizing them
/// almost nothing.
pub(super) struct Passwords {
    protocol: SnmpAuth,
    auth: Vec<u8>,
    privacy: Option<Vec<u8>>,
}

impl Passwords {
    pub(super) fn new(protocol: SnmpAuth, auth: &Secret, privacy: Option<&Secret>) -> Self {
        Self {
            protocol,
            auth: protocol.stretch(auth),
            privacy: privacy.map(|secret| protocol.stretch(secret)),
        }
    }

    /// The keys for the agent of this engine.
    pub(super) fn localize(&self, engine_id: &[u8]) -> Keys {
        Keys {
            protocol: self.protocol,
            auth: self.protocol.localize(&self.auth, engine_id),
            // Both hashes are longer than the 16 octets that AES-128 takes from their start (RFC 3826 section
            // 3.1.2.1).
            privacy: self
                .privacy
                .as_ref()
                .and_then(|key| self.protocol.localize(key, engine_id).first_chunk::<16>().copied()),
        }
    }
}

/// A user's keys for one agent.
pub(super) struct Keys {
    pub(super) protocol: SnmpAuth,
    pub(super) auth: Vec<u8>,
    pub(super) privacy: Option<[u8; 16]>,
}

/// The initial vector of a message: the agent's boots and time, and the sender's salt (RFC 3826 section
/// 3.1.2.1).
pub(super) fn initial_vector(boots: i32, time: i32, salt: [u8; 8]) -> [u8; 16] {
    let mut vector = [0; 16];
    vector[..4].copy_from_slice(&boots.to_be_bytes());
    vector[4..8].copy_from_slice(&time.to_be_bytes());
    vector[8..].copy_from_slice(&salt);
    vector
}

/// Encrypts in place.
pub(super) fn encrypt(key: &[u8; 16], vector: [u8; 16], data: &mut [u8]) {
    Encryptor::<Aes128>::new(&(*key).into(), &vector.into()).encrypt(data);
}

/// Decrypts in place.
pub(super) fn decrypt(key: &[u8; 16], vector: [u8; 16], data: &mut [u8]) {
    Decryptor::<Aes128>::new(&(*key).into(), &vector.into()).decrypt(data);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
    }

    #[test]
    fn a_password_becomes_the_keys_of_the_rfc() {
        // RFC 3414 A.3.2.
        let passwords = Passwords::new(SnmpAuth::Sha1, &Secret::new("maplesyrup").unwrap(), None);
        assert_eq!(passwords.auth, hex("9fb5cc0381497b3793528939ff788d5d79145211"));
        let keys = passwords.localize(&hex("000000000000000000000002"));
        assert_eq!(keys.auth, hex("6695febc9288e36282235fc7151f128497b38f3f"));
    }

    #[test]
    fn cipher_feedback_gives_the_octets_of_the_standard() {
        // NIST SP 800-38A F.3.13, and a last segment that is not full.
        let key = hex("2b7e151628aed2a6abf7158809cf4f3c").try_into().unwrap();
        let vector: [u8; 16] = hex("000102030405060708090a0b0c0d0e0f").try_into().unwrap();
        let plain = hex("6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e5130c81c46");
        let mut data = plain.clone();
        encrypt(&key, vector, &mut data);
        assert_eq!(data, hex("3b3fd92eb72dad20333449f8e83cfb4ac8a64537a0b3a93fcde3cdad9f1ce58b26751f67"));
        decrypt(&key, vector, &mut data);
        assert_eq!(data, plain);
    }

    #[test]
    fn codes_are_those_of_the_rfcs_cut_off() {
        // RFC 2202 case 2 and RFC 4231 case 2.
        let (key, message) = (b"Jefe".as_slice(), b"what do ya want for nothing?".as_slice());
        let (short, long) =
            (hex("effcdf6ae5eb2fa2d27416d5"), hex("5bdcc146bf60754e6a042426089575c75a003f089d273983"));
        assert_eq!(SnmpAuth::Sha1.code(key, message), short);
        assert_eq!(SnmpAuth::Sha256.code(key, message), long);
        assert!(SnmpAuth::Sha1.verify(key, message, &short) && SnmpAuth::Sha256.verify(key, message, &long));
        assert!(!SnmpAuth::Sha1.verify(key, message, &short[..8]), "a code cut shorter is none");
        assert!(!SnmpAuth::Sha256.verify(key, b"another", &long));
    }
}
