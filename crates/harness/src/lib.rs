//! What iopj promises of inputs that others made: a function for each kind of them, which panics where the
//! promise is broken. libFuzzer calls them (`fuzz/`), and so does the test of this crate, for seconds.
//! [`browser`] shows pages to a real one, for the tests of others.

mod texts;

use texts::texts;
pub mod browser;
mod campaign;
mod frames;
mod journal;
mod manifest;
mod page;
mod store;
mod study;

/// One kind of input.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name of its fuzz target.
    pub name: &'static str,
    /// Takes an input, and panics where a promise is broken.
    pub run: fn(&[u8]),
    /// The first inputs.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All kinds.
pub const TARGETS: &[Target] = &[
    Target { name: "store_bytes", run: store::bytes, seeds: store::seeds_of_bytes },
    Target { name: "store_sql", run: store::sql, seeds: store::seeds_of_sql },
    Target { name: "journal", run: journal::run, seeds: journal::seeds },
    Target { name: "frames", run: frames::run, seeds: frames::seeds },
    Target { name: "campaign", run: campaign::run, seeds: campaign::seeds },
    Target { name: "job_state", run: campaign::state, seeds: campaign::seeds_of_states },
    Target { name: "manifest", run: manifest::run, seeds: manifest::seeds },
    Target { name: "page", run: page::run, seeds: page::seeds },
];

/// The target of this name.
///
/// # Panics
/// There is none.
pub fn target(name: &str) -> Target {
    *TARGETS.iter().find(|target| target.name == name).expect("a target of this name")
}
