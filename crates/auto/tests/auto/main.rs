//! The adaptive engine: the suite that every engine passes, changes of way by the thousand, scripted drives,
//! real files, and what it refuses.

mod bypass;
mod conformance;
mod refusals;
mod scripted;
#[path = "../../../engine/tests/conformance/suite/mod.rs"]
mod suite;
mod switches;

use iopj_auto::chooser::Epochs;

/// Epochs of so few I/Os that a short test sees many.
fn short_epochs() -> Epochs {
    Epochs { ios: 16, ns: 0, burst_ios: 8 }
}
