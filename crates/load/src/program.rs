//! Programs that do their own I/O: what one of them reports of itself. Running and watching it is left to the
//! caller.

mod figure;
mod output;

pub use figure::{Figure, FigureError};
pub use output::{MOST_OUTPUT, Output, last_lines};
