//! Axes: maps values to coordinates, and chooses round ticks.

use crate::number::without_zeros;

/// How values map to an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Scale {
    Linear,
    Log,
}

/// An axis from `low` at coordinate `from` to `high` at coordinate `to`.
#[derive(Clone, Debug)]
pub(in super::super) struct PlotAxis {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    pub(in super::super) scale: Scale,
}

impl PlotAxis {
    /// A linear axis from zero to `high` rounded up.
    pub(in super::super) fn from_zero(high: f64, places: (f64, f64)) -> PlotAxis {
        let high = if high > 0.0 { high } else { 1.0 };
        let step = step(high, 5.0);
        PlotAxis {
            low: 0.0,
            high: (high / step).ceil() * step,
            from: places.0,
            to: places.1,
            scale: Scale::Linear,
        }
    }

    /// A logarithmic axis between the two values; from 1 if the lower is not positive.
    pub(in super::super) fn log(low: f64, high: f64, places: (f64, f64)) -> PlotAxis {
        let low = if low > 0.0 { low } else { 1.0 };
        let high = if high > low { high } else { low * 2.0 };
        PlotAxis { low, high, from: places.0, to: places.1, scale: Scale::Log }
    }

    /// An axis between two values, neither rounded.
    pub(in super::super) fn linear(low: f64, high: f64, places: (f64, f64)) -> PlotAxis {
        let high = if high > low { high } else { low + 1.0 };
        PlotAxis { low, high, from: places.0, to: places.1, scale: Scale::Linear }
    }

    /// Logarithmic if the values span more than one and a half decades, else from zero.
    pub(in super::super) fn fitting(values: &[f64], places: (f64, f64)) -> PlotAxis {
        let high = values.iter().copied().fold(0.0, f64::max);
        let low = values.iter().copied().fold(high, f64::min);
        if low > 0.0 && high / low > 30.0 {
            PlotAxis::log(round_down(low), round_down(high) * 10f64.powf(0.302), places).reaching(high)
        } else {
            PlotAxis::from_zero(high * 1.04, places)
        }
    }

    fn reaching(mut self, high: f64) -> PlotAxis {
        while self.high < high {
            self.high *= 2.0;
        }
        self
    }

    /// The coordinate of a value; values beyond the axis are at its ends.
    pub(in super::super) fn at(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log if value <= self.low => 0.0,
            Scale::Log => (value / self.low).ln() / (self.high / self.low).ln(),
        };
        self.from + share.clamp(0.0, 1.0) * (self.to - self.from)
    }

    /// The coordinate at which it starts.
    pub(in super::super) fn start(&self) -> f64 {
        self.from
    }

    /// True if the axis contains a value, its ends included.
    pub(in super::super) fn holds(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// Round values along the axis.
    pub(in super::super) fn ticks(&self) -> Vec<f64> {
        match self.scale {
            Scale::Linear => {
                let step = step(self.high - self.low, 5.0);
                let first = (self.low / step).ceil() as i64;
                let last = (self.high / step * (1.0 + 1e-9)).floor() as i64;
                (first..=last).map(|tick| tick as f64 * step).collect()
            }
            Scale::Log => {
                let decades = (self.high / self.low).log10();
                let digits: &[f64] = match decades {
                    many if many > 3.0 => &[1.0],
                    several if several > 2.0 => &[1.0, 3.0],
                    _ => &[1.0, 2.0, 5.0],
                };
                let exponents = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
                exponents
                    .flat_map(|exponent| digits.iter().map(move |digit| digit * 10f64.powi(exponent)))
                    .filter(|tick| (self.low * (1.0 - 1e-9)..=self.high * (1.0 + 1e-9)).contains(tick))
                    .collect()
            }
        }
    }
}

/// A step of 1, 2 or 5 times a power of ten that divides a span into about this many parts.
fn step(span: f64, parts: f64) -> f64 {
    let raw = span / parts;
    let power = 10f64.powf(raw.log10().floor());
    let digit = [1.0, 2.0, 5.0].into_iter().find(|digit| digit * power >= raw * (1.0 - 1e-9)).unwrap_or(10.0);
    digit * power
}

/// The greatest 1, 2 or 5 times a power of ten that does not exceed a value.
fn round_down(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    [5.0, 2.0].into_iter().find(|digit| digit * power <= value * (1.0 + 1e-9)).unwrap_or(1.0) * power
}

/// A value on an axis in as few characters as possible: `80k`, `1.5M`, `0.2`.
pub(in super::super) fn short(value: f64) -> String {
    if value != 0.0 && !(1e-3..1e15).contains(&value.abs()) {
        return format!("{value:.1e}").replace(".0e", "e");
    }
    for (size, unit) in [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")] {
        if value.abs() >= size {
            return format!("{}{unit}", without_zeros(&format!("{:.4}", value / size)));
        }
    }
    without_zeros(&format!("{value:.4}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_within() {
        assert_eq!(PlotAxis::from_zero(83_000.0, (0.0, 1.0)).ticks(), [0.0, 20e3, 40e3, 60e3, 80e3, 100e3]);
        assert_eq!(PlotAxis::log(1.0, 10_000.0, (0.0, 1.0)).ticks(), [1.0, 10.0, 100.0, 1000.0, 10_000.0]);
        assert_eq!(PlotAxis::log(5.0, 50.0, (0.0, 1.0)).ticks(), [5.0, 10.0, 20.0, 50.0]);
    }

    #[test]
    fn places_stay_on_the_axis() {
        let axis = PlotAxis::log(1.0, 100.0, (0.0, 10.0));
        assert_eq!([0.0, 1.0, 10.0, 100.0, 1e9].map(|value| axis.at(value)), [0.0, 0.0, 5.0, 10.0, 10.0]);
        assert!(axis.holds(100.0) && !axis.holds(101.0));
    }

    #[test]
    fn wide_spans_are_logarithmic() {
        assert_eq!(PlotAxis::fitting(&[1.0, 100.0], (0.0, 1.0)).scale, Scale::Log);
        assert_eq!(PlotAxis::fitting(&[10.0, 100.0], (0.0, 1.0)).scale, Scale::Linear);
        assert_eq!(PlotAxis::fitting(&[0.0, 100.0], (0.0, 1.0)).scale, Scale::Linear);
        for values in [&[][..], &[0.0], &[4e-5, 5e9]] {
            let axis = PlotAxis::fitting(values, (0.0, 1.0));
            assert!(
                values.iter().all(|value| axis.holds(*value) && axis.at(*value).is_finite()),
                "{values:?}"
            );
        }
    }

    #[test]
    fn numbers_on_axes_are_short() {
        assert_eq!([80_000.0, 1.5e6, 0.2, 0.0, 512.0].map(short), ["80k", "1.5M", "0.2", "0", "512"]);
    }

    #[test]
    fn small_and_large_numbers_on_axes_differ() {
        assert_eq!(
            [2e-4, 1.5e-3, 25e-10, 5e12, 1.2e18].map(short),
            ["2e-4", "0.0015", "2.5e-9", "5T", "1.2e18"]
        );
    }
}
