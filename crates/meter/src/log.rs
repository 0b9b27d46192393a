//! Logs of meters that are read out afterwards: HOBOware's exports, and any CSV with named columns.
//!
//! A log is given as a whole; it is read correctly, or refused with the line. `docs/meters.md` lists the
//! forms that are known.

mod clock;
mod columns;
mod config;
mod csv;
mod hobo;
mod number;
mod series;
mod text;
mod time;
mod time_zone;

pub use config::{Log, LogConfig, LogError, LogFormat, LogKind, Logger, TimeFormat, Unit};
pub use number::Decimal;
pub use time::DateOrder;

/// Reads a log, given as the bytes of its file.
///
/// # Errors
/// [`LogError`] if the log, or one line of it, cannot be read with certainty.
pub fn read(bytes: &[u8], config: &LogConfig) -> Result<Log, LogError> {
    let text = text::decode(bytes)?;
    match config.format {
        LogFormat::Hobo => hobo::read(&text, config),
        LogFormat::Csv => csv::read(&text, config),
    }
}
