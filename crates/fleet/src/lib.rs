//! Many hosts: jobs for Slurm, Kubernetes or ssh; and their stores, gathered into a Parquet data set.

#[cfg(feature = "parquet")]
pub mod table;
