//! Drives that fail, by QEMU's own means.

use std::time::Duration;

use iopj_lab::vm::{Backend, Qmp};

use crate::bench::{Bench, null, nvme, virtio};

const SIZE_BYTES: u64 = 1 << 30;

/// Reads directly until a read fails, at most 100,000 blocks.
const READ_ON: &str = "read_on() { dd if=$1 of=/dev/null bs=4096 count=100000 iflag=direct 2>/out/error; \
                       echo $? >/out/code; }\n";

#[test]
fn bad_sectors_fail_and_others_do_not() {
    let script = "drive=/dev/nvme0n1; [ -b $drive ] || drive=/dev/vda\nfor block in 0 1 2 3; do\ndd \
                  if=$drive bs=4096 skip=$block count=1 iflag=direct of=/dev/null 2>/out/error.$block; echo \
                  $?\ndone >/out/codes";
    let bad = || Backend::BadSectors { size_bytes: SIZE_BYTES, sectors: vec![8, 31] };
    for (drive, words) in [(nvme(bad()), "No data available"), (virtio(bad()), "Input/output error")] {
        let Some(bench) = Bench::old(script, drive) else { return };
        bench.run(&mut |_| {}).unwrap();
        assert_eq!(bench.left("codes"), "0\n1\n0\n1");
        assert!(bench.left("error.3").contains(words), "{}", bench.left("error.3"));
    }
}

#[test]
fn a_drive_fails_while_it_is_read() {
    let script = format!(
        "{READ_ON}dd if=/dev/nvme0n1 of=/out/block bs=4096 count=1 iflag=direct; echo now; read_on \
         /dev/nvme0n1"
    );
    let Some(bench) = Bench::old(&script, nvme(Backend::Failable { size_bytes: SIZE_BYTES })) else { return };
    bench.run_and(|qmp| qmp.fail(0).unwrap()).unwrap();
    assert_eq!(bench.left("code"), "1");
    assert!(bench.left("error").contains("No data available"), "{}", bench.left("error"));
    assert_eq!(std::fs::read(bench.out.join("block")).unwrap(), [0; 4096]);
}

#[test]
fn a_drive_is_pulled_while_it_is_read() {
    // The reads fail before the guest has released the drive: it needs time for that.
    let script = format!(
        "{READ_ON}echo now; read_on /dev/nvme0n1\nwhile [ -e /sys/class/nvme/nvme0 ]; do sleep 1; done; \
         sleep 1; [ -e /dev/nvme0n1 ]; echo $? >/out/gone"
    );
    let Some(bench) = Bench::old(&script, nvme(null())) else { return };
    let ended = bench.run_and(|qmp| {
        qmp.pull(0).unwrap();
        let gone =
            qmp.event("DEVICE_DELETED", Duration::from_secs(300)).unwrap().expect("the guest lets it go");
        assert_eq!(gone["device"], "drive0");
    });
    assert_eq!(ended.unwrap().status, 0);
    assert_eq!(bench.left("gone"), "1");
}

#[test]
fn a_stalled_drive_answers_nothing() {
    let script = "reads() { set -- $(cat /sys/block/vda/stat); echo $1; }\ndd if=/dev/vda of=/dev/null \
                  bs=4096 iflag=direct count=10000000 & echo now\nfor second in $(seq 60); \
                  do\nbefore=$(reads); sleep 3; [ $(reads) = $before ] && break\ndone\nset -- $(cat \
                  /sys/block/vda/stat); echo $9 >/out/in_flight; grep State: /proc/$!/status >/out/state";
    let Some(bench) = Bench::old(script, virtio(Backend::Stallable { size_bytes: SIZE_BYTES })) else {
        return;
    };
    bench.run_and(|qmp| qmp.stall(0).unwrap()).unwrap();
    assert_eq!(bench.left("in_flight"), "1");
    assert_eq!(bench.left("state"), "State:\tD (disk sleep)");
    bench.assert_gone();
}

#[test]
fn a_stalled_drive_that_goes_on_answers_what_it_was_asked() {
    let script = "reads() { set -- $(cat /sys/block/vda/stat); echo $1; }\ndd if=/dev/vda of=/dev/null \
                  bs=4096 iflag=direct count=10000000 & echo now\nfor second in $(seq 60); \
                  do\nbefore=$(reads); sleep 3; [ $(reads) = $before ] && break\ndone\necho stalled\nfor \
                  second in $(seq 60); do\n[ $(reads) -gt $((before + 1)) ] && break; sleep 1\ndone\n[ \
                  $(reads) -gt $((before + 1)) ]; echo $? >/out/code";
    let Some(bench) = Bench::old(script, virtio(Backend::Stallable { size_bytes: SIZE_BYTES })) else {
        return;
    };
    let mut was_stalled = false;
    let ended = bench.run(&mut |line| {
        let qmp = || Qmp::connect(&bench.folder).unwrap();
        match line {
            "now" => qmp().stall(0).unwrap(),
            "stalled" => {
                was_stalled = true;
                qmp().resume(0).unwrap();
            }
            _ => {}
        }
    });
    ended.unwrap();
    assert!(was_stalled);
    assert_eq!(bench.left("code"), "0");
}

#[test]
fn a_refused_command_says_why() {
    // The guest runs until its drive is pulled.
    let script = "echo now; while [ -e /sys/class/nvme/nvme0 ]; do sleep 1; done";
    let Some(bench) = Bench::old(script, nvme(null())) else { return };
    let mut error = String::new();
    let ended = bench.run_and(|qmp| {
        error = qmp.pull(7).unwrap_err().to_string();
        qmp.pull(0).unwrap();
    });
    ended.unwrap();
    assert_eq!(error, "QEMU's control socket: device_del: Device 'drive7' not found");
}
