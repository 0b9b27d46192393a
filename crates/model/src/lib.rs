//! Cost models: what an I/O takes on a path, as a function of depth, size, sleeps and spins; calibrated by
//! measured data, with the covariance of every parameter; and what they predict. Pure: no I/O, no clock.

pub mod answers;
mod case;
mod drive;
mod file;
mod fit;
pub mod formula;
mod kernel;
mod linear;
mod model;
mod open;
mod parameter;
mod predict;
#[cfg(test)]
mod queueing;
mod recorded;
mod scenario;
mod score;
mod sensitivity;
pub mod simulate;
mod trials;

pub use case::{Case, NotClosed, Observation, Quantity};
pub use drive::{DataSheet, ParseDataSheetError};
pub use file::FileError;
pub use kernel::{Change, Kernel};
pub use model::{CalibrateError, FEWEST_CASES, Model};
pub use open::{Load, OpenError, OpenPrediction};
pub use parameter::{Front, Kind, Parameter, Prior, Quantile, UnknownParameter};
pub use predict::{Basis, CannotPredict, Prediction};
pub use recorded::{Recorded, RecordedIo};
pub use score::{Score, Scored, against, by_quantity, cross_validate, score};
pub use sensitivity::Turn;
pub use trials::{LeftOut, observations};
