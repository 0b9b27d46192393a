//! Kernel images for 64-bit Arm: the plain image, and the two compressed forms in which distributions ship it
//! (Documentation/arch/arm64/booting.rst; drivers/firmware/efi/libstub/zboot-header.S).

use super::packed::decompress;
use crate::elf::number;
use std::borrow::Cow;

/// In the header of a plain image.
const MAGIC: &[u8] = b"ARM\x64";
const MAGIC_AT: usize = 0x38;

/// The plain image, which QEMU boots; `None` if this is another kind of file.
pub(super) fn plain(bytes: &[u8]) -> Option<Cow<'_, [u8]>> {
    if bytes.get(MAGIC_AT..MAGIC_AT + MAGIC.len()) == Some(MAGIC) {
        return Some(Cow::Borrowed(bytes));
    }
    let packed = match bytes {
        [0x1f, 0x8b, ..] => bytes,
        [b'M', b'Z', _, _, b'z', b'i', b'm', b'g', ..] => {
            let (begin, length) = (number::<4>(bytes, 8)? as usize, number::<4>(bytes, 12)? as usize);
            bytes.get(begin..begin.checked_add(length)?)?
        }
        _ => return None,
    };
    let unpacked = decompress(packed).ok()?;
    (unpacked.get(MAGIC_AT..MAGIC_AT + MAGIC.len()) == Some(MAGIC)).then_some(Cow::Owned(unpacked))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;

    /// A plain image that states its release.
    pub(in super::super) fn image(release: &str) -> Vec<u8> {
        let mut image = vec![0; 0x40];
        image[MAGIC_AT..MAGIC_AT + MAGIC.len()].copy_from_slice(MAGIC);
        image.extend(format!("Linux version {release} (builder@host) #1 SMP\0").as_bytes());
        image
    }

    fn zipped(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn in_zboot(payload: &[u8]) -> Vec<u8> {
        let mut file = vec![0; 0x40];
        file[..8].copy_from_slice(b"MZ\0\0zimg");
        file[8..12].copy_from_slice(&0x40_u32.to_le_bytes());
        file[12..16].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        [file, payload.to_vec()].concat()
    }

    #[test]
    fn every_form_becomes_the_plain_image() {
        let image = image("6.18.15+deb13-arm64");
        for form in [image.clone(), zipped(&image), in_zboot(&zipped(&image))] {
            assert_eq!(plain(&form).as_deref(), Some(&image[..]));
        }
        assert_eq!(plain(&zipped(b"a page of a manual")), None);
        assert_eq!(plain(&in_zboot(&zipped(&image))[..0x50]), None, "cut short");
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            head in prop::bool::ANY,
            bytes in prop::collection::vec(any::<u8>(), 0..80),
        ) {
            let bytes = if head { [b"MZ\0\0zimg".as_slice(), &bytes].concat() } else { bytes };
            let _ = plain(&bytes);
        }
    }
}
