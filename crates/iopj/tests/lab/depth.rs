//! Rings and passthrough with many I/Os in flight are verified on Linux 6.18. `every_path` tells what they do
//! with one; the soak boots once for both.

use crate::every_path::boot;
use crate::{are, lab, study_text, trials_kept};
use iopj_core::VerdictKind;
use iopj_record::Trial;

/// Of `ring-lab`. A poller of 32 I/Os sleeps in few of its rounds, if these are many.
const RING: [(&str, &str); 2] = [("replicates = 5", "replicates = 3"), ("ios = 4000", "ios = 16000")];
/// The workload of `ring-lab` with one in flight.
const ONE: &str =
    "[[workload]]\nrw = \"randread\"\nbs = \"4k\"\niodepth = 1\nramp_time = \"100ms\"\nios = 1000\n\n";
/// Of `passthrough-lab`.
const PASSTHROUGH: (&str, &str) = ("ios = 1000", "ios = 4000");
const DEPTHS: &str = "iodepth = [1, 8]";

#[test]
fn rings_and_passthrough_are_proven_at_depth_on_6_18() {
    let ring = study_text("ring-lab", &[RING[0], RING[1], (ONE, "")]);
    let passthrough = study_text("passthrough-lab", &[PASSTHROUGH, (DEPTHS, "iodepth = 8")]);
    let Some([ring, passthrough]) = trials(&ring, &passthrough) else { return };
    assert_eq!([ring.len(), passthrough.len()], [18, 18]);
    every_way_is_proven(&ring, "io_uring");
    every_way_is_proven(&passthrough, "nvme-passthrough");
}

#[test]
#[ignore = "a soak: cargo xtask soak"]
fn soak_rings_and_passthrough_are_proven_on_6_18() {
    let (ring, passthrough) = (study_text("ring-lab", &RING), study_text("passthrough-lab", &[PASSTHROUGH]));
    let Some([ring, passthrough]) = trials(&ring, &passthrough) else { return };
    assert_eq!([ring.len(), passthrough.len()], [42, 36]);
    every_way_is_proven(&ring, "io_uring");
    every_way_is_proven(&passthrough, "nvme-passthrough");
    are(&ring, "posix-sio/syscall/interrupt", VerdictKind::Verified);
    are(&ring, "posix-sio/syscall/poll", VerdictKind::Refuted);
}

/// The trials of both studies in one boot.
fn trials(ring: &str, passthrough: &str) -> Option<[Vec<Trial>; 2]> {
    let (_alone, folder) = lab(&["6.18"])?;
    let (words, code) = boot(&folder, "6.18", &[("ring-lab", ring), ("passthrough-lab", passthrough)], "");
    assert_eq!(code, Some(0), "{words}");
    Some(["ring-lab", "passthrough-lab"].map(|name| trials_kept(&folder, name, &words)))
}

/// Asserts that an interface is verified with each submission and completion, all of which this kernel has.
#[track_caller]
fn every_way_is_proven(trials: &[Trial], interface: &str) {
    for submission in ["syscall", "sqpoll"] {
        for completion in ["interrupt", "poll", "hybrid"] {
            are(trials, &format!("{interface}/{submission}/{completion}"), VerdictKind::Verified);
        }
    }
}
