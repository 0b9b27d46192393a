//! A secret of DH-HMAC-CHAP in the text form that the kernel takes (NVM Express Base Specification 2.0,
//! 8.13.5.8): `DHHC-1:00:` and the key with its CRC-32 in base64. `00` is a key that no hash has changed.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustix::rand::{GetRandomFlags, getrandom};
use std::io;

/// A new secret of 256 bits.
///
/// # Errors
/// The kernel gives no random bytes.
pub(super) fn random() -> io::Result<String> {
    let mut key = [0; 32];
    // Up to 256 bytes come whole.
    getrandom(&mut key, GetRandomFlags::empty())?;
    Ok(text(&key))
}

fn text(key: &[u8]) -> String {
    let whole = [key, &crc32(key).to_le_bytes()].concat();
    format!("DHHC-1:00:{}:", STANDARD.encode(whole))
}

/// CRC-32 as in IEEE 802.3: polynomial 04C11DB7h, reflected.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
    !bytes.iter().fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_ends_in_the_check_of_its_key() {
        // The check value of CRC-32/ISO-HDLC.
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        let secret = random().unwrap();
        let key = STANDARD.decode(secret.strip_prefix("DHHC-1:00:").unwrap().trim_end_matches(':')).unwrap();
        assert_eq!(key.len(), 36);
        assert_eq!(crc32(&key[..32]).to_le_bytes(), key[32..]);
        assert_ne!(random().unwrap(), secret);
    }
}
