//! Streams in the compressions that kernels, images and modules come in.

use crate::elf::number;
use ruzstd::decoding::StreamingDecoder;
use std::io::{self, Read};

/// More than any kernel's payload unpacks to: a broken one must not fill the memory.
pub(super) const LARGEST_BYTES: u64 = 1 << 30;
/// The window of `zstd -22 --ultra`, with which kernels are built (scripts/Makefile.lib, "zstd22").
const LARGEST_WINDOW: u64 = 1 << 27;

/// Unpacks one stream of xz, zstd, gzip or lz4 (the kernel's legacy frames) and ignores what follows it: the
/// kernel's build appends the unpacked size to the payload, and a signature to modules.
///
/// # Errors
/// Another compression, or a broken stream.
pub(super) fn decompress(packed: &[u8]) -> io::Result<Vec<u8>> {
    let mut unpacked = Vec::new();
    let mut collect = |reader: &mut dyn Read| reader.take(LARGEST_BYTES).read_to_end(&mut unpacked).map(drop);
    match packed {
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => collect(&mut liblzma::read::XzDecoder::new(packed))?,
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            let mut frame =
                StreamingDecoder::new_with_max_window_size(packed, LARGEST_WINDOW).map_err(broken)?;
            collect(&mut frame)?;
            let decoder = &frame.decoder;
            let sum = decoder.get_checksum_from_data();
            if sum.is_some() && sum != decoder.get_calculated_checksum() {
                return Err(broken("its checksum is another"));
            }
        }
        [0x1f, 0x8b, ..] => collect(&mut flate2::read::GzDecoder::new(packed))?,
        [0x02, 0x21, 0x4c, 0x18, blocks @ ..] => return decompress_lz4(blocks),
        _ => return Err(broken("its compression is not known here")),
    }
    Ok(unpacked)
}

fn broken(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Blocks of at most 8 MiB, each after its packed size; a rest without a whole block follows the stream.
fn decompress_lz4(mut blocks: &[u8]) -> io::Result<Vec<u8>> {
    const BLOCK_BYTES: usize = 8 << 20;
    let mut unpacked = Vec::new();
    while let Some(block) = number::<4>(blocks, 0).and_then(|bytes| blocks.get(4..4 + bytes as usize)) {
        if unpacked.len() as u64 >= LARGEST_BYTES {
            return Err(broken("it unpacks to more than any kernel"));
        }
        let begin = unpacked.len();
        unpacked.resize(begin + BLOCK_BYTES, 0);
        let bytes = lz4_flex::block::decompress_into(block, &mut unpacked[begin..]).map_err(broken)?;
        unpacked.truncate(begin + bytes);
        blocks = &blocks[4 + block.len()..];
    }
    Ok(unpacked)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame (RFC 8878, 3.1.1) of one raw block, with this descriptor of its window.
    fn frame(window: u8) -> Vec<u8> {
        let plain = b"plain";
        let header = [0x28, 0xb5, 0x2f, 0xfd, 0, window];
        let block = ((plain.len() as u32) << 3 | 1).to_le_bytes();
        [&header[..], &block[..3], plain].concat()
    }

    #[test]
    fn a_window_may_be_as_large_as_that_of_a_kernels_build_and_no_larger() {
        let exponent = |log: u8| (log - 10) << 3;
        assert_eq!(decompress(&frame(exponent(27))).unwrap(), b"plain");
        assert!(decompress(&frame(exponent(28))).is_err());
    }

    /// Its reader computes the checksum, and compares it with nothing.
    #[test]
    fn a_damaged_zstd_frame_is_refused() {
        let level = ruzstd::encoding::CompressionLevel::Fastest;
        let plain = vec![7; 1000];
        let mut packed = ruzstd::encoding::compress_to_vec(&plain[..], level);
        assert_eq!(decompress(&packed).unwrap(), plain);
        *packed.last_mut().unwrap() ^= 1;
        assert_eq!(decompress(&packed).unwrap_err().to_string(), "its checksum is another");
    }
}
