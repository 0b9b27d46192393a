//! Whatever a server sends as its challenge, it is taken or refused, alone and beside others alike.
#![no_main]

use iopj_meter::digest_challenge;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let alone = digest_challenge([text]);
    assert_eq!(digest_challenge(["Basic realm=\"x\"", text]), alone);
    if alone.is_ok() {
        assert_eq!(digest_challenge([text, "Digest"]), alone);
    }
});
