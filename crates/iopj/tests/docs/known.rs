//! The one list of commands that are not simply run, each with the reason. A pattern is a part of the
//! command; the first that fits counts, and one that fits no command is a fault.

/// What is done with a command in place of running it as written.
pub(crate) enum Instead {
    /// The command line must be understood, because running it needs what a test does not have.
    Understood(&'static str),
    /// It is run, and must end with this exit code and say this: the sandbox cannot give it what it asks for.
    Ends(i32, &'static str),
}
use Instead::{Ends, Understood};

pub(crate) const KNOWN: &[(&str, Instead)] = &[
    // What is not iopj.
    ("cargo ", Understood("builds and tests; CI does all of it")),
    ("modprobe", Understood("changes the kernel of this machine")),
    ("LD_PRELOAD=", Understood("needs the preload library's build; crates/preload/tests runs fio under it")),
    (
        "fio --name=job",
        Understood("ten minutes under the preload library; `cargo xtask soak ignored` runs it"),
    ),
    ("db_bench", Understood("needs RocksDB; `cargo xtask soak ignored` runs it")),
    ("ldb ", Understood("needs RocksDB; `cargo xtask soak ignored` runs it")),
    ("initdb", Understood("needs PostgreSQL; `cargo xtask soak ignored` runs it")),
    ("pg_", Understood("needs PostgreSQL; `cargo xtask soak ignored` runs it")),
    ("createdb", Understood("needs PostgreSQL; `cargo xtask soak ignored` runs it")),
    ("psql", Understood("needs PostgreSQL; `cargo xtask soak ignored` runs it")),
    ("pgbench -", Understood("needs PostgreSQL; `cargo xtask soak ignored` runs it")),
    ("iopj-0.2.0", Understood("needs the packages; `cargo xtask dist --check` uses them")),
    ("iopj_0.2.0", Understood("needs the packages; `cargo xtask dist --check` uses them")),
    ("libiopj0", Understood("needs the packages; `cargo xtask dist --check` uses them")),
    ("libiopj-dev", Understood("needs the packages; `cargo xtask dist --check` uses them")),
    ("SHA256SUMS", Understood("needs the packages; `cargo xtask dist --check` uses them")),
    ("jq -c", Understood("needs the log of a run; crates/iopj/tests/monitoring reads one")),
    ("install -d -o 65532", Understood("makes a folder of the host's for the pods of a cluster")),
    // Hardware and hosts.
    ("--manifest-only", Ends(0, "")),
    ("iopj fleet submit", Understood("needs hosts; crates/iopj/tests/fleet has them")),
    ("iopj fleet status", Understood("needs a campaign; crates/iopj/tests/fleet has some")),
    ("iopj fleet fetch", Understood("needs a campaign; crates/iopj/tests/fleet has some")),
    ("iopj fleet cancel", Understood("needs a campaign; crates/iopj/tests/fleet has some")),
    ("iopj lab ", Understood("boots a virtual machine; crates/iopj/tests/lab does")),
    ("iopj watch", Understood("needs a program that runs here; crates/iopj/tests/watch starts some")),
    ("iopj run studies/pgbench.toml", Understood("needs PostgreSQL; crates/load has programs of its own")),
    ("/dev/nvme", Understood("needs an NVMe drive; crates/iopj/tests/lab and bypass have emulated ones")),
    (
        "iopj run far.toml",
        Understood("needs a second host; crates/iopj/tests/lab runs it between two guests"),
    ),
    ("iopj meter test", Understood("needs the meters of the study; crates/iopj/tests/energy has some")),
    ("iopj meter attach", Understood("needs the log of a meter; crates/iopj/tests/energy makes some")),
    (
        "iopj restore",
        Understood("puts back what the machine's own runs left; crates/iopj/tests/crash has such"),
    ),
    ("generator native,fio", Understood("stands for a part of a command")),
    // Hours.
    (
        "iopj policy simulate",
        Understood("simulates for minutes; crates/iopj/tests/predict.rs does less of it"),
    ),
    ("--resume", Understood("measures for minutes; crates/iopj/tests/crash resumes shorter runs")),
    // Stores that only such machines make.
    ("iopj explain", Ends(2, "the store holds no costs by function")),
    ("iopj policy score", Ends(2, "auto")),
    ("--kernel 6.18.iopj", Ends(2, "has no exact counts")),
    ("transactions_per_joule", Ends(2, "transactions_per_joule")),
    ("read_iops_per_joule", Ends(2, "read_iops_per_joule")),
    ("path=program:", Ends(2, "no trial has path `program:")),
];
