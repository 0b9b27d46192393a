//! `iopj fleet`: many hosts.

#[cfg(feature = "parquet")]
mod data;
#[cfg(feature = "parquet")]
mod gather;
#[cfg(feature = "parquet")]
mod report;

#[cfg(feature = "parquet")]
pub(crate) use data::data;
