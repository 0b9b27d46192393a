//! Records of campaigns name nothing that a shell, ssh or kubectl takes for something else.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| (iopj_harness::target("campaign").run)(bytes));
