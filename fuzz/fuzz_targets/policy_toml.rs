//! Policies: what is read is written, and read as the same.

#![no_main]

use iopj_auto::Policy;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(policy) = text.parse::<Policy>() else { return };
    let again: Policy = policy.to_string().parse().expect("what iopj writes it reads");
    assert_eq!(again, policy);
});
