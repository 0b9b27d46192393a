//! A text names no I/O path, or a path whose own text names it again.
#![no_main]

use iopj_core::IoPath;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(path) = text.parse::<IoPath>() {
        assert_eq!(path.to_string().parse(), Ok(path));
    }
});
