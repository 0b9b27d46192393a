//! Streams in the compressions that kernels, images and modules come in.

use crate::elf::number;
use liblzma::read::XzDecoder;
use liblzma::stream::Stream;
use ruzstd::decoding::StreamingDecoder;
use std::io::{self, Read};

/// More than any kernel's payload unpacks to: a broken one must not fill the memory.
pub(super) const LARGEST_BYTES: u64 = 1 << 30;
/// More than any of them shrinks by, once it is longer than a small one.
const LARGEST_RATIO: u64 = 200;
const SMALL_BYTES: u64 = 64 << 20;
/// What a decoder of xz may take: `xz -9` has a dictionary of 64 MiB (xz(1)), kernels' are of 32 MiB at most
/// (scripts/xz_wrap.sh).
const LARGEST_DECODER: u64 = 128 << 20;
/// The window of `zstd -22 --ultra`, with which kernels are built (scripts/Makefile.lib, "zstd22").
const LARGEST_WINDOW: u64 = 1 << 27;

/// Unpacks one stream of xz, zstd, gzip or lz4 (the kernel's legacy frames) and ignores what follows it: the
/// kernel's build appends the unpacked size to the payload, and a signature to modules.
///
/// # Errors
/// Another compression, a broken stream, or one that unpacks to more than any kernel.
pub(super) fn decompress(packed: &[u8]) -> io::Result<Vec<u8>> {
    let most = most_of(packed);
    let mut unpacked = Vec::new();
    let mut collect = |reader: &mut dyn Read| {
        let bytes = reader.take(most + 1).read_to_end(&mut unpacked)? as u64;
        if bytes > most { Err(too_much()) } else { Ok(()) }
    };
    match packed {
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => {
            let decoder = Stream::new_stream_decoder(LARGEST_DECODER, 0).map_err(broken)?;
            collect(&mut XzDecoder::new_stream(packed, decoder))?;
        }
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
        [0x02, 0x21, 0x4c, 0x18, blocks @ ..] => return decompress_lz4(blocks, most),
        _ => return Err(broken("its compression is not known here")),
    }
    Ok(unpacked)
}

/// How much a stream of this length may unpack to.
fn most_of(packed: &[u8]) -> u64 {
    (packed.len() as u64).saturating_mul(LARGEST_RATIO).clamp(SMALL_BYTES, LARGEST_BYTES)
}

fn too_much() -> io::Error {
    broken("it unpacks to more than any kernel")
}

fn broken(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Blocks of at most 8 MiB, each after its packed size; a rest without a whole block follows the stream.
fn decompress_lz4(mut blocks: &[u8], most: u64) -> io::Result<Vec<u8>> {
    const BLOCK_BYTES: usize = 8 << 20;
    let mut unpacked = Vec::new();
    while let Some(block) = number::<4>(blocks, 0).and_then(|bytes| blocks.get(4..4 + bytes as usize)) {
        let begin = unpacked.len();
        unpacked.resize(begin + BLOCK_BYTES, 0);
        let bytes = lz4_flex::block::decompress_into(block, &mut unpacked[begin..]).map_err(broken)?;
        unpacked.truncate(begin + bytes);
        if unpacked.len() as u64 > most {
            return Err(too_much());
        }
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

    /// What was longer than 1 GiB was cut off there without a word, and a decoder of xz took 4 GiB.
    #[test]
    fn what_unpacks_to_more_than_any_kernel_is_refused() {
        use std::io::Write;
        let zeros = vec![0; SMALL_BYTES as usize];
        let gzip = |parts: &[&[u8]]| {
            let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            parts.iter().for_each(|part| packer.write_all(part).unwrap());
            packer.finish().unwrap()
        };
        assert!(decompress(&gzip(&[&zeros])).unwrap() == zeros);
        let lz4 = |blocks: usize| {
            let block = lz4_flex::block::compress(&zeros[..8 << 20]);
            let one = [&(block.len() as u32).to_le_bytes()[..], &block].concat();
            [&[0x02, 0x21, 0x4c, 0x18], &one.repeat(blocks)[..]].concat()
        };
        assert_eq!(decompress(&lz4(8)).unwrap().len(), zeros.len());
        for packed in [gzip(&[&zeros, b"x"]), lz4(9)] {
            let error = decompress(&packed).unwrap_err().to_string();
            assert_eq!(error, "it unpacks to more than any kernel");
        }
        // A block with a dictionary of 4 GiB (xz-file-format.txt, 3.1 and 5.3.1), and the right CRC32.
        let mut header = vec![2, 0, 0x21, 1, 40, 0, 0, 0];
        let mut sum = flate2::Crc::new();
        sum.update(&header);
        header.extend(sum.sum().to_le_bytes());
        let stream = [&[0xfd, b'7', b'z', b'X', b'Z', 0, 0, 0, 0xff, 0x12, 0xd9, 0x41][..], &header].concat();
        let error = decompress(&stream).unwrap_err().to_string();
        assert!(error.to_lowercase().contains("mem"), "{error}");
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
