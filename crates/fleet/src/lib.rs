//! Many hosts: jobs for Slurm, Kubernetes or ssh; and their stores, gathered into a Parquet data set.

pub mod campaign;
mod each;
mod error;
mod files;
pub mod hosts;
pub mod job;
mod job_folder;
pub mod kubernetes;
pub mod lease;
pub mod owner;
mod plan;
mod process;
mod program;
mod queue;
pub mod serials;
pub mod slurm;
mod ssh;
pub mod transfer;

pub use campaign::Campaign;
pub use error::FleetError;
pub use job_folder::JobFolder;
pub use kubernetes::Kubernetes;
pub use slurm::Slurm;
pub use ssh::Ssh;
#[cfg(feature = "parquet")]
pub mod gather;
#[cfg(feature = "parquet")]
pub mod report;
#[cfg(feature = "parquet")]
pub mod table;
#[cfg(feature = "testing")]
pub mod testing;
