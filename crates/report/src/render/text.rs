//! Running text for terminals: broken into lines, made harmless, and names that occur in several reports.

/// Characters in a line of running text.
pub(super) const WIDTH: usize = 120;

/// Lines of at most `width` characters, broken at spaces and each preceded by `indent`.
pub fn wrap(text: &str, width: usize, indent: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if indent.len() + line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.iter().map(|line| format!("{indent}{line}\n")).collect()
}

/// Foreign text made harmless for a terminal: control characters are escaped.
pub fn escape(text: &str) -> String {
    text.chars()
        .flat_map(|c| if c.is_control() { c.escape_default().collect::<Vec<_>>() } else { vec![c] })
        .collect()
}

/// The short name of a column or path: A to Z, then A1 to Z1, and so on.
pub(super) fn letter(at: usize) -> String {
    let letter = char::from(b'A' + (at % 26) as u8);
    if at < 26 { letter.to_string() } else { format!("{letter}{}", at / 26) }
}

/// Settings as they follow a path's name: each ` name=value`.
pub(super) fn settings<'a>(settings: impl IntoIterator<Item = (&'a String, &'a String)>) -> String {
    settings.into_iter().map(|(name, value)| format!(" {name}={value}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_broken_at_spaces() {
        assert_eq!(wrap("one two three", 9, "  "), "  one two\n  three\n");
        assert_eq!(wrap("averyverylongword b", 5, ""), "averyverylongword\nb\n");
    }

    #[test]
    fn columns_have_letters() {
        assert_eq!([0, 2, 25, 26, 53].map(letter), ["A", "C", "Z", "A1", "B2"]);
    }
}
