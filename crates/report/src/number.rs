//! Numbers as text for terminals.

/// A value as text, or a dash if absent.
pub(super) fn or_dash<T>(value: Option<T>, text: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), text)
}

/// A whole number with thousands separators.
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

/// All digits of a figure that is printed with few; with thousands separators if it is whole.
pub(super) fn exact(value: f64) -> String {
    if value.fract() == 0.0 { thousands(value) } else { value.to_string() }
}

/// Four significant digits without trailing zeros, or the whole number with thousands separators.
pub(super) fn significant(value: f64) -> String {
    if value.abs() >= 1000.0 {
        return thousands(value);
    }
    let decimals =
        if value == 0.0 { 0 } else { (3.0 - value.abs().log10().floor()).clamp(0.0, 4.0) as usize };
    let text = format!("{value:.decimals$}");
    without_zeros(&text)
}

/// A decimal number without trailing zeros.
pub(super) fn without_zeros(text: &str) -> String {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }.to_owned()
}

/// A number with three or more significant digits.
pub(super) fn decimal(number: f64) -> String {
    match number {
        n if n >= 1000.0 => thousands(n),
        n if n >= 100.0 => format!("{n:.0}"),
        n if n >= 10.0 => format!("{n:.1}"),
        n => format!("{n:.2}"),
    }
}

/// Four significant digits with trailing zeros, or the whole number with thousands separators.
pub(super) fn four_digits(value: f64) -> String {
    match value.abs() {
        size if size >= 999.95 => thousands(value),
        size if size > 0.0 => {
            let decimals = (3.0 - size.log10().floor()).clamp(1.0, 6.0) as usize;
            format!("{value:.decimals$}")
        }
        _ => "0".to_owned(),
    }
}

/// Two significant digits.
pub(super) fn uncertainty(value: f64) -> String {
    match value.abs() {
        size if size >= 10.0 || size == 0.0 => thousands(value),
        size => {
            let decimals = (1.0 - size.log10().floor()).clamp(0.0, 6.0) as usize;
            format!("{value:.decimals$}")
        }
    }
}

/// A share in per cent.
pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
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

    #[test]
    fn numbers_are_readable() {
        assert_eq!([0.5, 12.34, 123.4, 12345.0].map(decimal), ["0.50", "12.3", "123", "12,345"]);
    }

    #[test]
    fn means_have_four_digits_and_uncertainties_two() {
        let means = [1234.5, 999.96, 123.4, 50.0, 5.0, 0.012_34, 0.0].map(four_digits);
        assert_eq!(means, ["1,234", "1,000", "123.4", "50.00", "5.000", "0.01234", "0"]);
        let halves = [1234.5, 12.34, 2.484, 0.994, 0.0012, 0.0].map(uncertainty);
        assert_eq!(halves, ["1,234", "12", "2.5", "0.99", "0.0012", "0"]);
    }
}
