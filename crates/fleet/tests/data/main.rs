//! The data set of a fleet: gathered from real stores, and compared with what is known of them.

#[path = "../../examples/generate/fleet.rs"]
mod fleet;
mod gather;
mod kill;
#[path = "../../examples/generate/measure.rs"]
mod measure;
mod report;
mod rows;
mod setups;
mod small;
mod sound;
mod statistics;
mod trouble;
#[path = "../../examples/generate/uneven.rs"]
mod uneven;
