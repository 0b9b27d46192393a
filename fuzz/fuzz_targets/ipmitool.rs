//! ipmitool's text gives a power reading, or the label that has no value.
#![no_main]

use iopj_meter::parse_dcmi;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Err(why) = parse_dcmi(text) {
        assert!(why.to_string().ends_with("has no value"));
    }
});
