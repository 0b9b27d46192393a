//! Tests of reading kernel images, on small ones made here in each form and compression, and on broken ones.

use super::*;
use proptest::prelude::*;
use std::fs;
use std::io::Write;

/// An ELF image that states its release and has a PVH entry.
pub(in super::super) fn vmlinux(release: &str) -> Vec<u8> {
    let note = [&[4, 0, 0, 0, 4, 0, 0, 0, 18, 0, 0, 0][..], b"Xen\0", &[0, 0, 0, 1]].concat();
    elf(
        Arch::X86_64.elf_machine() as u8,
        &note,
        &format!("Linux version %s (x)\0Linux version {release} (builder@host) #1 SMP\0"),
    )
}

/// An ELF header, two program headers (a note, what is loaded) and what they point to.
fn elf(machine: u8, note: &[u8], loaded: &str) -> Vec<u8> {
    let mut file = vec![0; 0x40];
    file[..6].copy_from_slice(b"\x7fELF\x02\x01");
    file[0x12] = machine;
    file[0x20] = 0x40;
    file[0x36] = 0x38;
    file[0x38] = 2;
    let notes_at = 0x40 + 2 * 0x38;
    for (kind, at, bytes) in [(NOTE, notes_at, note.len()), (LOAD, notes_at + note.len(), loaded.len())] {
        let mut header = [0; 0x38];
        header[..4].copy_from_slice(&(kind as u32).to_le_bytes());
        header[8..16].copy_from_slice(&(at as u64).to_le_bytes());
        header[0x20..0x28].copy_from_slice(&(bytes as u64).to_le_bytes());
        file.extend(header);
    }
    file.extend(note);
    file.extend(loaded.as_bytes());
    file
}

/// A bzImage of protocol 2.15 with one sector of setup code and this payload.
pub(in super::super) fn bz_image(release: &str, payload: &[u8]) -> Vec<u8> {
    let mut image = vec![0; 2 * 512 + 64];
    image[0x1f1] = 1;
    image[0x1fe..0x200].copy_from_slice(b"\x55\xaa");
    image[0x202..0x206].copy_from_slice(b"HdrS");
    image[0x206..0x208].copy_from_slice(&0x20f_u16.to_le_bytes());
    image[0x20e..0x210].copy_from_slice(&0x100_u16.to_le_bytes());
    image[0x248..0x24c].copy_from_slice(&64_u32.to_le_bytes());
    image[0x24c..0x250].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    let version = format!("{release} (builder@host) #1 SMP\0");
    image[0x300..0x300 + version.len()].copy_from_slice(version.as_bytes());
    image.extend(payload);
    image.extend([0xcc; 100]);
    image
}

/// Packs as the kernel's build does: the unpacked size follows.
fn with_size(mut packed: Vec<u8>, plain: &[u8]) -> Vec<u8> {
    packed.extend((plain.len() as u32).to_le_bytes());
    packed
}

pub(in super::super) fn xz(plain: &[u8]) -> Vec<u8> {
    let mut filters = liblzma::stream::Filters::new();
    filters.x86().lzma2(&liblzma::stream::LzmaOptions::new_preset(0).unwrap());
    let stream =
        liblzma::stream::Stream::new_stream_encoder(&filters, liblzma::stream::Check::Crc32).unwrap();
    let mut encoder = liblzma::write::XzEncoder::new_stream(Vec::new(), stream);
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

pub(in super::super) fn zstd_packed(plain: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(plain, ruzstd::encoding::CompressionLevel::Fastest)
}

pub(in super::super) fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

fn lz4(plain: &[u8]) -> Vec<u8> {
    let mut packed = vec![0x02, 0x21, 0x4c, 0x18];
    for chunk in plain.chunks(8 << 20) {
        let block = lz4_flex::block::compress(chunk);
        packed.extend((block.len() as u32).to_le_bytes());
        packed.extend(block);
    }
    packed
}

fn reason(bytes: &[u8]) -> String {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), bytes).unwrap();
    read(file.path()).err().unwrap().to_string()
}

#[test]
fn every_compression_is_unpacked_to_the_same_image() {
    let mut plain = vmlinux("6.1.0-9-amd64");
    // More than one block of lz4, not all alike.
    plain.extend((0..9 << 20).map(|at: u32| (at.wrapping_mul(2_654_435_761) >> 28) as u8));
    for (name, packed) in
        [("xz", xz(&plain)), ("zstd", zstd_packed(&plain)), ("gzip", gzip(&plain)), ("lz4", lz4(&plain))]
    {
        let image = bz_image("6.1.0-9-amd64", &with_size(packed, &plain));
        assert_eq!(identify(&image).unwrap(), (Kind::BzImage, "6.1.0-9-amd64".to_owned()));
        assert!(unpack(&image).as_ref() == Some(&plain), "{name}");
    }
}

#[test]
fn an_image_that_cannot_be_unpacked_is_left_as_it_is() {
    let lzma = bz_image("6.1.0", &[0x5d, 0, 0, 1, 0]);
    assert_eq!(unpack(&lzma), None);
    assert_eq!(unpack(&bz_image("6.1.0", &gzip(b"no ELF file"))), None);
    assert_eq!(unpack(&bz_image("6.1.0", &gzip(&elf(62, &[], "Linux version 6.1.0 (x)")))), None);
    let mut cut = bz_image("6.1.0", &gzip(&vmlinux("6.1.0")));
    cut.truncate(0x260);
    assert_eq!(unpack(&cut), None);
    let mut old = bz_image("6.1.0", &gzip(&vmlinux("6.1.0")));
    old[0x206] = 7;
    assert_eq!(unpack(&old), None);
}

#[test]
fn an_elf_image_says_its_release_and_leaves_its_debug_information() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let plain = vmlinux("6.18.15+deb13-amd64");
    fs::write(file.path(), [plain.clone(), vec![1; 9000]].concat()).unwrap();
    let image = read(file.path()).unwrap();
    assert_eq!((image.kind, image.release.as_str()), (Kind::Vmlinux, "6.18.15+deb13-amd64"));
    assert!(image.bytes.len() < plain.len() + 9000);
}

#[test]
fn what_is_no_kernel_is_refused_with_the_reason() {
    assert_eq!(
        reason(b""),
        "it has neither the boot protocol's header nor that of an ELF file or of an Arm image"
    );
    assert_eq!(
        reason(&[7; 5000]),
        "it has neither the boot protocol's header nor that of an ELF file or of an Arm image"
    );
    assert_eq!(reason(&elf(62, &[], "usage: %s")), "it lacks the words `Linux version`");
    assert_eq!(reason(&elf(183, &[], "Linux version 6.1.0 (x)")), "it is an ELF file for another processor");
    assert!(reason(&elf(62, &[], "Linux version 6.1.0 (x)")).contains("without a PVH entry"));
    assert!(read(Path::new("/nonexistent/vmlinuz")).err().unwrap().to_string().contains("No such file"));
}

proptest! {
    #[test]
    fn broken_images_are_refused_without_harm(at in 0..0x400_usize, byte: u8, end in 0..2000_usize) {
        for mut image in [bz_image("6.1.0", &gzip(&vmlinux("6.1.0"))), vmlinux("6.1.0")] {
            let place = at % image.len();
            image[place] = byte;
            image.truncate(end);
            let _ = (identify(&image), unpack(&image), loaded_end(&image), has_pvh_entry(&image));
        }
    }
}

proptest! {
    // Each case sets up four encoders.
    #![proptest_config(ProptestConfig::with_cases(30))]
    #[test]
    fn whatever_is_packed_comes_back(
        plain in prop::collection::vec(any::<u8>(), 1..3000),
        tail in prop::collection::vec(any::<u8>(), 0..3),
    ) {
        for packed in [xz(&plain), zstd_packed(&plain), gzip(&plain), lz4(&plain)] {
            prop_assert_eq!(&decompress(&[packed, tail.clone()].concat()).unwrap(), &plain);
        }
    }
}

/// `lab run --kernel` waited for whoever would write into it.
#[test]
fn a_pipe_is_no_kernel() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, 0o644.into()).unwrap();
    let fault = read(&pipe).err().unwrap().to_string();
    assert!(fault.contains("it is a pipe, not a file"), "{fault}");
}
