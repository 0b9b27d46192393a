//! fio's JSON output, whatever it holds, is read or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = iopj_load::fio::parse(text);
});
