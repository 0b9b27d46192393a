//! Decimal numbers as meters write them: exact times, counts of energy, and the step that the last digit
//! shows.

/// Whole numbers below this are exact in an `f64`, and so are their neighbours.
pub(crate) const EXACT_BELOW: f64 = 9_007_199_254_740_992.0;
/// Energies are counted in mJ: decimals of Wh and kWh come out whole.
pub(crate) const JOULES_PER_COUNT: f64 = 1e-3;
const SECOND_NS: i64 = 1_000_000_000;

/// A number of units of `unit_ns`, such as seconds since 1970, in ns; more decimals than that are cut off.
/// `None` for anything but digits with at most one decimal `mark`.
pub(crate) fn nanoseconds(text: &str, mark: char, unit_ns: i64) -> Option<i64> {
    let (whole, fraction) = text.split_once(mark).unwrap_or((text, ""));
    let is_whole = !whole.is_empty() && whole.bytes().all(|byte| byte.is_ascii_digit());
    // A fraction of a unit is one of a second, scaled by the unit's size.
    let part_ns = billionths(fraction)? / (SECOND_NS / unit_ns);
    whole.parse::<i64>().ok().filter(|_| is_whole)?.checked_mul(unit_ns)?.checked_add(part_ns)
}

/// The digits after a decimal mark as billionths; further digits are cut off.
pub(crate) fn billionths(fraction: &str) -> Option<i64> {
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let digits: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    digits.parse().ok()
}

/// An energy in mJ; `None` for what no counter shows.
pub(crate) fn count_of(joules: f64) -> Option<u64> {
    let count = (joules / JOULES_PER_COUNT).round();
    (0.0..EXACT_BELOW).contains(&count).then_some(count as u64)
}

/// The step that a number's last decimal shows: 0.01 for 2.21, 1 for 42. A zero at the end of the number is
/// lost; the step is then ten times too coarse, never too fine.
pub(crate) fn step_of(number: f64) -> f64 {
    let text = number.to_string();
    let decimals = text.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    10f64.powi(-i32::try_from(decimals).unwrap_or(i32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_decimal_is_the_step() {
        assert_eq!([42.0, 41.7, 14.093, 0.0, -2.25].map(step_of), [1.0, 0.1, 0.001, 1.0, 0.01]);
        assert_eq!(step_of(f64::MAX), 1.0);
    }
}
