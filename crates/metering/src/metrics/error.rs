//! Why metrics cannot be published.

use std::io;
use std::path::PathBuf;

/// Why metrics cannot be published, with the remedy.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what each field is")]
pub enum MetricsError {
    /// They cannot be served.
    #[error("`{address}` cannot be listened on: {error}; name another address or port by --listen")]
    Listen { address: String, error: io::Error },
    /// They cannot be written.
    #[error(
        "`{path}` cannot be written: {error}; name a file in a folder that you can write to by --metrics"
    )]
    Write { path: PathBuf, error: io::Error },
}
