//! The claims of *When NVMe over Fabrics Meets Arm*: one drive, local and remote. No record can have a remote
//! drive and the counts of two hosts yet, so only their needs are stated.

use super::{BASE, Definition};
use crate::analysis::published::{self, PrintedFigure};

const DRIVE: &str = "one drive local and over fabrics, which no record can hold yet";

/// Its claims, in their order.
pub(super) const DEFINITIONS: &[Definition] = &[
    fabric(
        "fabric-1",
        "Sequential reads over growing request size: at 128 KiB the remote p95 is that of local access; \
         remote bandwidth stays within 20 % of it; target CPU falls as requests grow; host CPU is least at \
         64 KiB and more at 128 KiB.",
        &["one drive local and over fabrics", "read 4k to 128k, numjobs 8", "CPU of both hosts"],
        &[DRIVE, "CPU of both hosts"],
        &published::FABRIC_1_PRINTED,
    ),
    fabric(
        "fabric-2",
        "More processes: bandwidth peaks at four and stays; at sixteen the remote p95 is below the local \
         one.",
        &["one drive local and over fabrics", "read 4k, numjobs 1 to 16"],
        &[DRIVE],
        &published::FABRIC_2_PRINTED,
    ),
    fabric(
        "fabric-3",
        "Small random writes cost the remote host far more CPU than local access, mostly in the kernel, at \
         equal bandwidth.",
        &["one drive local and over fabrics", "randwrite 4k, numjobs 8", "host CPU by kind"],
        &[DRIVE],
        &published::FABRIC_3_PRINTED,
    ),
    fabric(
        "fabric-4",
        "On one target core with interrupt moderation: remote bandwidth dips between depth 4 and 16 (target \
         CPU is the limit); interrupts per I/O fall with depth while local stays at one; from depth 64 on \
         the remote p80 is below the local one at the same depth; at 128 remote throughput is above, and \
         CPU below, that at 32.",
        &[
            "one drive local and over fabrics, one target core",
            "read 4k, iodepth 1 to 128",
            "interrupts of both hosts",
        ],
        &[DRIVE, "interrupts of both hosts"],
        &published::FABRIC_4_PRINTED,
    ),
];

const fn fabric(
    id: &'static str,
    text: &'static str,
    needs: &'static [&'static str],
    missing: &'static [&'static str],
    published: &'static [PrintedFigure],
) -> Definition {
    let run = |_| "no shipped study yet: it takes a target and a host".to_owned();
    Definition { id, text, needs, missing, published, run, ..BASE }
}
