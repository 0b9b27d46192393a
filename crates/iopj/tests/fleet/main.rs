//! `iopj fleet` against what it is for: ten hosts of a real ssh server, a real Slurm cluster, the published
//! schema of Kubernetes. Everything listens on 127.0.0.1 alone and is made for the test.

mod campaigns;
#[path = "../common/mod.rs"]
mod common;
mod containers;
#[cfg(feature = "parquet")]
mod data;
mod drives;
mod kubectl;
mod manifests;
mod scripts;
mod slurm;
mod slurm_cluster;
mod ssh;
mod ssh_hosts;
mod tasks;
