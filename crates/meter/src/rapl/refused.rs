//! A domain that cannot be read.

/// A RAPL domain that gives no channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedDomain {
    /// Control type and name (`intel-rapl-mmio/package-0`), as far as they are known.
    pub name: String,
    /// The cause, and the remedy if there is one.
    pub why: String,
}
