//! The texts of a value of JSON.

/// The texts of an input, parted by NUL; empty ones where it has fewer.
pub(super) fn texts<const N: usize>(input: &[u8]) -> [String; N] {
    let mut parts = input.split(|byte| *byte == 0).map(|part| String::from_utf8_lossy(part).into_owned());
    std::array::from_fn(|_| parts.next().unwrap_or_default())
}
