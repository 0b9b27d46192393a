//! Records of trials in one SQLite file: [`Store`].
//!
//! A trial is whole or absent. Nothing is written to a store inside a measured window. What it holds are the
//! types of `iopj-record`.

mod at_rest;
mod checksum;
mod copy;
mod create;
mod decode;
mod details;
mod energy;
mod error;
mod export_whole;
mod file;
mod json_column;
mod open;
mod pending;
mod place;
mod read;
mod repeat;
mod schema;
mod store;
mod trial_row;
mod verify;
mod watch;

pub use error::StoreError;
pub use export_whole::ExportError;
pub use place::new_path;
pub use store::Store;
pub use verify::Checked;
