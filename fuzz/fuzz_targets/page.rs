//! Pages and figures have no element, attribute or script that iopj does not write.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| (iopj_harness::target("page").run)(bytes));
