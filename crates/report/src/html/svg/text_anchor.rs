//! Numbers and anchors of text in a drawing.

/// Where a text is relative to its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    /// As in its group.
    Inherited,
    Start,
    Middle,
    End,
}

impl Anchor {
    /// Its class in `figure.css`.
    pub(super) fn class(self) -> &'static str {
        match self {
            Anchor::Inherited | Anchor::Start => "",
            Anchor::Middle => " middle",
            Anchor::End => " end",
        }
    }
}

/// A coordinate with at most one decimal.
pub(crate) fn number(value: f64) -> String {
    let value = if value.is_finite() { value } else { 0.0 };
    let text = format!("{value:.1}");
    match text.strip_suffix(".0") {
        Some("-0") => "0".to_owned(),
        Some(whole) => whole.to_owned(),
        None => text,
    }
}
