//! Manifests and scripts are read by another parser as what was meant.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| (iopj_harness::target("manifest").run)(bytes));
