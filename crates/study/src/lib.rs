//! Study files, plan, runner, generators, settings and their restoring.

pub mod fio;
mod native;
pub mod power;
pub mod settings;
