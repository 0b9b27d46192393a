//! The name of Slurm's package, for messages.

/// What holds Slurm's programs (Debian's name).
pub(super) const PACKAGE: &str = "Slurm's commands (slurm-client), and run it where they reach the cluster";
