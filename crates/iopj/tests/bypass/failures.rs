//! Drives that fail while they are driven from user space.

use crate::host::{Bench, qmp};
use iopj_lab::vm::{Backend, Drive, Nvme};

const SIZE_BYTES: u64 = 1 << 30;

/// The engine with a bad sector, a command that never ends, a controller's own failure, and a pulled drive.
#[test]
fn an_engine_ends_by_its_drives_failures_in_words() {
    let Some(mut bench) = Bench::new("6.18") else { return };
    let nothing = Backend::Null { size_bytes: SIZE_BYTES, latency_ns: 0 };
    // At 1 MiB, where the kernel looks for no partitions.
    let bad = Backend::BadSectors { size_bytes: SIZE_BYTES, sectors: vec![2048] };
    let stallable = Backend::Stallable { size_bytes: SIZE_BYTES };
    bench.drives =
        [bad, stallable, nothing.clone(), nothing].map(|backend| Drive::Nvme(Nvme::new(2, backend))).into();
    let script = "drives 4\ntests --ignored guest::failures:: --nocapture --test-threads 1\n";
    let left = bench.run(script, |line, run| match line {
        "stall" => qmp(run).stall(1).unwrap(),
        "resume" => qmp(run).resume(1).unwrap(),
        "pull" => qmp(run).pull(3).unwrap(),
        _ => {}
    });
    assert_eq!(left.status, 0, "{}", left.printed);
    assert!(left.printed.contains("test result: ok. 5 passed"), "{}", left.printed);
}
