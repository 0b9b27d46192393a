//! The data set of a fleet: gathered from real stores, and compared with what is known of them.

mod gather;
mod kill;
mod report;
mod rows;
mod setups;
mod small;
mod sound;
mod statistics;
mod trouble;
