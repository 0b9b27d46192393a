//! Pages in a real browser, for tests: what drives it, and what every page of a report must do.

pub mod devtools;
pub mod reader;

/// What a page looks like, as a script that the browser evaluates.
pub const PROBE: &str = include_str!("browser/probe.js");
