//! Random numbers of the kernel, for what no other side of a network may guess.

use crate::meter::OpenError;
use rustix::rand::{GetRandomFlags, getrandom};

pub(crate) fn random() -> Result<u64, OpenError> {
    let mut octets = [0; 8];
    getrandom(&mut octets, GetRandomFlags::empty()).map_err(|error| {
        OpenError(format!("the meter needs random numbers, and the kernel gives none ({error})"))
    })?;
    Ok(u64::from_ne_bytes(octets))
}
