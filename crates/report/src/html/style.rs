//! The style and the script of every page.

/// Style of the page.
pub(super) const STYLE: &str = include_str!("style.css");

/// Style of the figures, with the colours as variables.
pub(super) const FIGURE_STYLE: &str = include_str!("figure.css");

/// The script: the switch between light and dark, and the downloads.
pub(super) const SCRIPT: &str = include_str!("script.js");

/// SHA-256 of the script in base64, by which the policy lets it run.
pub(super) const SCRIPT_SHA256: &str = "1uW7BfrUEiB/XlD4V1T5PIdOCgKOaQ2q9r5bRnDuxUY=";

/// Colours that differ between light and dark: name, light, dark.
pub(super) const COLOURS: [(&str, &str, &str); 6] = [
    ("--paper", "#ffffff", "#15181c"),
    ("--panel", "#f6f7f9", "#1c2025"),
    ("--ink", "#1c2128", "#e4e7eb"),
    ("--muted", "#59636e", "#9da7b3"),
    ("--rule", "#e1e4e8", "#30363d"),
    ("--accent", "#0065a3", "#6cb8ee"),
];

/// The figures' style with colours in place of the variables, which hardly any program but a browser knows.
pub(super) fn style(colour: fn((&str, &'static str, &'static str)) -> &'static str) -> String {
    COLOURS.iter().fold(FIGURE_STYLE.to_owned(), |style, named| {
        style.replace(&format!("var({})", named.0), colour(*named))
    })
}

/// The figures' style on white.
pub fn light_style() -> String {
    style(|(_, light, _)| light)
}
