//! Numbers as text.

/// A whole number with its thousands apart.
pub(super) fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits.as_str()), |digits| ("-", digits));
    let mut text = sign.to_owned();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// All digits of a figure that was written with a few, the thousands apart where it is whole.
pub(super) fn exact(value: f64) -> String {
    if value.fract() == 0.0 { thousands(value) } else { value.to_string() }
}

/// Four significant digits, or the whole number with its thousands apart, without zeros at the end.
pub(super) fn significant(value: f64) -> String {
    if value.abs() >= 1000.0 {
        return thousands(value);
    }
    let decimals =
        if value == 0.0 { 0 } else { (3.0 - value.abs().log10().floor()).clamp(0.0, 4.0) as usize };
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_what_the_papers_print() {
        let printed = [8.1, 120_470.0, 6.23, 102.97, 0.0, 1139.0, -19.0];
        assert_eq!(printed.map(exact), ["8.1", "120,470", "6.23", "102.97", "0", "1,139", "-19"]);
    }

    #[test]
    fn measured_numbers_have_four_digits() {
        let measured = [8.123_45, 120_470.4, 27.525, 0.0, 0.012_34, 0.000_01, 999.96, -1234.5];
        let texts = ["8.123", "120,470", "27.52", "0", "0.0123", "0", "1000", "-1,234"];
        assert_eq!(measured.map(significant), texts);
    }
}
