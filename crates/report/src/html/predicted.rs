//! Predictions against measurements: a point each, beside the line on which both are equal.

use super::figure::Figure;
use super::svg::scatter::{self, Dot, Dots, ScatterChart};
use super::text::readable;
use crate::table::Table;

/// A prediction beside its measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Predicted {
    /// What is predicted, with its unit; each has a figure of its own.
    pub quantity: String,
    /// What it is of: points of one series have one colour.
    pub series: String,
    /// The rest of what it is of.
    pub place: String,
    /// What was measured.
    pub measured: f64,
    /// What was predicted.
    pub predicted: f64,
    /// Its interval.
    pub interval: [f64; 2],
    /// True if the interval has the measured value; otherwise the point is hollow.
    pub is_covered: bool,
}

/// A figure for each quantity, in their order.
pub(super) fn figures(all: &[Predicted], title: &str) -> Vec<Figure> {
    let quantities = unique(all.iter().map(|one| one.quantity.as_str()));
    quantities.into_iter().filter_map(|quantity| figure(all, title, quantity)).collect()
}

/// The texts in the order in which they come, each once.
fn unique<'a>(all: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for one in all {
        if !seen.contains(&one) {
            seen.push(one);
        }
    }
    seen
}

fn figure(all: &[Predicted], title: &str, quantity: &str) -> Option<Figure> {
    let own: Vec<&Predicted> = all.iter().filter(|one| one.quantity == quantity).collect();
    let series = unique(own.iter().map(|one| one.series.as_str()));
    let dots = |label: &&str| {
        let own = own.iter().filter(|one| one.series == *label);
        own.map(|one| dot(one)).collect::<Vec<Dot>>()
    };
    let all = series.iter().enumerate();
    let all = all.map(|(series, label)| Dots { series, label: (*label).to_owned(), dots: dots(label) });
    let values = || own.iter().map(|one| one.measured);
    let (least, most) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
    let chart = ScatterChart {
        title: format!("{title}: {quantity}, predicted and measured"),
        x_title: format!("measured {quantity}"),
        y_title: format!("predicted {quantity}"),
        all: all.collect(),
        joined: false,
        front: vec![(least, least), (most, most)],
        front_name: "predicted as measured",
        bound: None,
    };
    let table = Table::of(&own)
        .left("of", |one| format!("{}, {}", one.series, one.place))
        .right("measured", |one| readable(one.measured))
        .right("predicted", |one| readable(one.predicted));
    Figure::new(format!("{quantity}, predicted and measured"), scatter::draw(&chart), table.data())
}

fn dot(one: &Predicted) -> Dot {
    let [low, high] = one.interval.map(readable);
    let (predicted, measured) = (readable(one.predicted), readable(one.measured));
    let tip = format!(
        "{}, {}: predicted {predicted} ({low} to {high}), measured {measured}",
        one.series, one.place
    );
    Dot { x: one.measured, y: one.predicted, hollow: !one.is_covered, tip }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_quantity_has_a_figure_with_a_mark_for_each_prediction() {
        let one = |quantity: &str, series: &str, measured: f64, is_covered| Predicted {
            quantity: quantity.to_owned(),
            series: series.to_owned(),
            place: "iodepth 1".to_owned(),
            measured,
            predicted: measured * 1.1,
            interval: [measured, measured * 1.2],
            is_covered,
        };
        let all = [
            one("IOPS", "libaio", 1e5, true),
            one("p99 us", "libaio", 12.0, true),
            one("IOPS", "io_uring", 2e5, false),
        ];
        let figures = figures(&all, "drive");
        assert_eq!(figures.len(), 2);
        let svg = figures[0].drawing.svg();
        assert_eq!(
            (svg.matches("class=\"mark").count(), svg.matches("mark hollow").count()),
            (2, 1),
            "{svg}"
        );
        for part in
            ["measured IOPS", "predicted as measured", "predicted 110,000 (100,000 to 120,000)", "io_uring"]
        {
            assert!(svg.contains(part), "{part}: {svg}");
        }
        assert_eq!(figures[0].rows.len(), 2);
    }
}
