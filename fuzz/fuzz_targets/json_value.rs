//! A pointer into any document finds a finite number or an error. The first line is the pointer, the rest the
//! document.
#![no_main]

use iopj_meter::{json_value, parse_json};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let (pointer, document) = text.split_once('\n').unwrap_or(("", text));
    if let Ok(document) = parse_json(document) {
        assert!(json_value(&document, pointer).map_or(true, f64::is_finite));
    }
});
