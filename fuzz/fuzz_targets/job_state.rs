//! Records of hosts lead nowhere else.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| (iopj_harness::target("job_state").run)(bytes));
