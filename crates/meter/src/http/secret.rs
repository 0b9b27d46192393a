//! The place of a password in a request.

/// What stands in a url that has been read for `{password}`, whose braces no url may have.
pub(crate) const PASSWORD: &str = "iopj-password-of-the-meter";
