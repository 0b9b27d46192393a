//! Stores whose bytes were changed never make another figure.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| (iopj_harness::target("store_bytes").run)(bytes));
