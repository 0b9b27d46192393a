//! Lines between a host and its agent are read, or passed over.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| (iopj_harness::target("frames").run)(bytes));
