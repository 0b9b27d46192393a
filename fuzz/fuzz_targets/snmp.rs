//! A datagram from the network is an SNMP message or is none.
#![no_main]

use iopj_meter::is_snmp;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|datagram: &[u8]| {
    is_snmp(datagram);
});
