//! The life of a run and of a trial: target, paths, settings, generators, evidence, meters, store.

pub mod access;
pub mod blocks;
mod by_fio;
mod control;
pub mod energy;
pub mod import;
mod pace;
mod precondition;
mod profile;
pub mod programs;
pub mod runner;
mod setup;
mod trial;
mod trials;

pub use energy::read_study;
