//! Study files, plan, runner, generators, settings and their restoring.

pub mod access;
pub mod blocks;
mod by_fio;
mod control;
mod counting;
pub mod descriptors;
pub mod energy;
pub mod fio;
pub mod import;
mod machine;
mod native;
mod nvme_features;
mod pace;
pub mod plan;
pub mod power;
mod precondition;
mod profile;
pub mod programs;
pub mod runner;
pub mod settings;
mod setup;
mod steadystate;
pub mod study;
mod told;
mod trial;
mod trials;
