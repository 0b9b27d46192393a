//! What iperf3 and perftest print gives a positive number, or an error in one line.
#![no_main]

use iopj_fabric::network::{bits_per_s, iperf3, latency_ns, version};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let rate = iperf3(text).map(|stream| stream.bits_per_s);
    for number in [rate, latency_ns(text), bits_per_s(text)].into_iter().flatten() {
        assert!(number > 0.0);
    }
    assert!(version(text).starts_with("perftest"));
});
