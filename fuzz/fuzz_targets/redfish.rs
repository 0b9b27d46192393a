//! A Redfish document tells power and energy that are finite and not below zero, or nothing.
#![no_main]

use iopj_meter::redfish::parse_redfish;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(power) = parse_redfish(text) else { return };
    let is_good = |number: f64| number.is_finite() && number >= 0.0;
    assert!(power.watts.is_none_or(is_good));
    assert!(power.mean.is_none_or(|mean| is_good(mean.watts) && mean.window_ns > 0));
    assert!(power.energy.is_none_or(|energy| is_good(energy.joules) && energy.resolution_j > 0.0));
});
