//! Interrupt moderation and queues of a network card, by the ioctl that ethtool(8) uses (SIOCETHTOOL;
//! include/uapi/linux/ethtool.h). sysfs has no file for them.

use iopj_core::Setting;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::ffi::c_void;
use std::io;
use std::os::fd::AsRawFd;

const SIOCETHTOOL: libc::c_ulong = 0x8946;
const GET_COALESCE: u32 = 0x0e;
const SET_COALESCE: u32 = 0x0f;
const GET_CHANNELS: u32 = 0x3c;
const SET_CHANNELS: u32 = 0x3d;
/// Words of `struct ethtool_coalesce` and of `struct ethtool_channels`.
const COALESCE_WORDS: usize = 23;
const CHANNELS_WORDS: usize = 9;

/// `struct ifreq` as SIOCETHTOOL takes it: a name, a pointer, and room for the longest variant of its union.
#[repr(C)]
struct Request {
    name: [u8; 16],
    data: *mut c_void,
    rest: [u64; 2],
}

const _: () = assert!(size_of::<Request>() == 40);

/// Where a parameter is: the commands that read and write its structure, that structure's length, and its
/// place in it, all in words of 32 bits.
struct Place {
    get: u32,
    set: u32,
    words: usize,
    index: usize,
}

fn place(setting: Setting) -> Option<Place> {
    let coalesce = |index| Some(Place { get: GET_COALESCE, set: SET_COALESCE, words: COALESCE_WORDS, index });
    match setting {
        Setting::RxUsecs => coalesce(1),
        Setting::RxFrames => coalesce(2),
        Setting::TxUsecs => coalesce(5),
        Setting::TxFrames => coalesce(6),
        Setting::AdaptiveRx => coalesce(10),
        Setting::AdaptiveTx => coalesce(11),
        Setting::NicQueues => {
            Some(Place { get: GET_CHANNELS, set: SET_CHANNELS, words: CHANNELS_WORDS, index: 8 })
        }
        _ => None,
    }
}

/// The value of a parameter.
///
/// # Errors
/// `NotFound` without the interface; `Unsupported` if its driver does not have the parameter.
pub(super) fn read(nic: &str, setting: Setting) -> io::Result<String> {
    let place = place(setting).ok_or(io::ErrorKind::InvalidInput)?;
    let words = call(nic, place.get, [0; COALESCE_WORDS], place.words)?;
    Ok(words[place.index].to_string())
}

/// Gives a parameter a value. The others of its structure keep theirs.
///
/// # Errors
/// As for [`read`], or the driver refuses the value, or the user is not root.
pub(super) fn write(nic: &str, setting: Setting, value: &str) -> io::Result<()> {
    let place = place(setting).ok_or(io::ErrorKind::InvalidInput)?;
    let value = value.parse().map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut words = call(nic, place.get, [0; COALESCE_WORDS], place.words)?;
    words[place.index] = value;
    call(nic, place.set, words, place.words).map(drop)
}

/// One command, whose structure has so many words; the first is the command.
fn call(
    nic: &str,
    command: u32,
    mut words: [u32; COALESCE_WORDS],
    length: usize,
) -> io::Result<[u32; COALESCE_WORDS]> {
    debug_assert!(length <= COALESCE_WORDS);
    let mut name = [0; 16];
    // The last byte ends the name.
    let room = name.len() - 1;
    name.get_mut(..nic.len())
        .filter(|_| nic.len() <= room)
        .ok_or(io::ErrorKind::InvalidInput)?
        .copy_from_slice(nic.as_bytes());
    words[0] = command;
    let mut request = Request { name, data: words.as_mut_ptr().cast(), rest: [0; 2] };
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // SAFETY: `request` is a whole `struct ifreq` with a name that ends in a zero byte. The kernel reads and
    // writes the structure of the command at `data`, which has at most the words of `words`, and keeps no
    // pointer.
    let status = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) };
    if status < 0 {
        let error = io::Error::last_os_error();
        return Err(match error.raw_os_error() {
            Some(libc::ENODEV) => io::ErrorKind::NotFound.into(),
            _ => error,
        });
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_without_moderation_says_so() {
        let error = read("lo", Setting::RxUsecs).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EOPNOTSUPP), "{error}");
        let error = read("no-such-nic", Setting::RxUsecs).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound, "{error}");
        let error = read("a-name-that-is-too-long", Setting::RxUsecs).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{error}");
    }

    #[test]
    fn each_parameter_of_a_card_has_a_place_within_its_structure() {
        for setting in Setting::all() {
            if let Some(place) = place(setting) {
                assert!((1..place.words).contains(&place.index), "{setting}");
            }
        }
    }
}
