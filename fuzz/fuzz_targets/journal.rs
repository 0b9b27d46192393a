//! Journals put back what is on the list of settings, and nothing else.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| (iopj_harness::target("journal").run)(bytes));
