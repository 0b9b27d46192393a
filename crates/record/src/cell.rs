//! The text of a cell of a CSV.

/// Empty if there is no value.
pub(crate) fn known<T: ToString>(value: Option<T>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}
