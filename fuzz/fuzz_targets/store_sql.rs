//! Stores on which statements were run are read, or refused, in the end.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| (iopj_harness::target("store_sql").run)(bytes));
