//! Constructed records for tests of what reads them (feature `testing`): cells whose replicates have chosen
//! figures, pairs to compare, costs, joules, open loads, two hosts, watches.

pub mod cells;
pub mod costs;
pub mod counted;
pub mod energy;
pub mod hosts;
pub mod kinds;
pub mod loads;
pub mod pages;
pub mod pairs;
pub mod plain;
pub mod watched;
pub mod watches;
