//! With any data and any font, the texts of a figure neither overlap nor are cut. The tests compute this from
//! the SVG and the metrics of fonts, without a browser.

use super::super::bars::{self, Bar, BarPart};
use super::super::curves::{self, Curve};
use super::super::drawing::Drawing;
use super::super::lines::{self, Line, LineChart, LinePoint};
use super::super::map::{self, DrawnMap};
use super::super::power::{self, Stroke};
use super::super::scatter::{self, Dot, Dots, ScatterChart};
use super::super::steps::{self, Lane, StepChart, StepLine, Stretch};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use unicode_width::UnicodeWidthStr;

/// Height of text, in units, in a wide window and in a narrow one.
const SIZES: [f64; 2] = [11.0, 12.0];

/// Noto Sans' ascent and descent over its size, the greatest of DejaVu Sans (0.928, 0.236), Liberation Sans
/// (0.905, 0.212) and Noto Sans.
const NOTO: (f64, f64) = (1.069, 0.293);

/// Widths of DejaVu Sans, the widest of the three, in thousandths of its size, from the space to the tilde.
/// Printed by fontTools.
#[rustfmt::skip]
const DEJAVU: [u16; 95] = [
    318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337, 636, 636, 636, 636, 636,
    636, 636, 636, 636, 636, 337, 337, 838, 838, 838, 531, 1000, 684, 686, 698, 770, 632, 575, 775, 752, 295,
    295, 656, 557, 863, 748, 787, 603, 787, 695, 635, 611, 732, 684, 989, 685, 611, 685, 390, 337, 390, 838,
    500, 500, 613, 635, 550, 635, 615, 352, 635, 634, 278, 278, 579, 278, 974, 634, 612, 635, 635, 411, 521,
    392, 634, 592, 818, 592, 592, 525, 636, 337, 636, 838,
];

/// The width at which a font draws a text without a prescribed width.
fn free_width(text: &str, size: f64) -> f64 {
    let of = |c: char| match c {
        ' '..='~' => f64::from(DEJAVU[c as usize - 0x20]) / 1000.0,
        other => [0.0, 0.69, 1.0][other.to_string().width().min(2)],
    };
    size * text.chars().map(of).sum::<f64>()
}

/// A text of a figure.
#[derive(Clone, Debug)]
struct Text {
    text: String,
    class: String,
    x: f64,
    baseline: f64,
    /// The width prescribed for every font.
    held: Option<f64>,
}

impl Text {
    /// Left, right, top and bottom if text has this size.
    fn sides(&self, size: f64) -> [f64; 4] {
        let width = self.held.unwrap_or_else(|| free_width(&self.text, size));
        let left = match &self.class {
            end if end.contains("end") => self.x - width,
            middle if middle.contains("middle") => self.x - width / 2.0,
            _ => self.x,
        };
        [left, left + width, self.baseline - NOTO.0 * size, self.baseline + NOTO.1 * size]
    }
}

/// An attribute of a tag.
fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    tag.split_once(&format!(" {name}=\""))?.1.split_once('"').map(|(value, _)| value)
}

fn number(tag: &str, name: &str) -> f64 {
    attribute(tag, name).map_or(0.0, |value| value.parse().unwrap())
}

/// The texts of a drawing and its width and height.
fn read(drawing: &Drawing) -> (Vec<Text>, f64, f64) {
    let svg = drawing.svg();
    let frame: Vec<f64> =
        attribute(&svg, "viewBox").unwrap().split(' ').map(|number| number.parse().unwrap()).collect();
    let (mut texts, mut groups) = (Vec::new(), vec![(String::new(), 0.0, 0.0)]);
    for tag in svg.split('<') {
        let group = groups.last().unwrap();
        if tag.starts_with("g ") {
            let place = attribute(tag, "transform").map_or((0.0, 0.0), |moved| {
                let (x, y) = moved
                    .strip_prefix("translate(")
                    .unwrap()
                    .strip_suffix(')')
                    .unwrap()
                    .split_once(' ')
                    .unwrap();
                (x.parse().unwrap(), y.parse().unwrap())
            });
            groups.push((attribute(tag, "class").unwrap().to_owned(), place.0, place.1));
        } else if tag == "/g>" {
            groups.pop();
        } else if tag.starts_with("text") {
            texts.push(Text {
                text: tag.split_once('>').unwrap().1.to_owned(),
                class: attribute(tag, "class").unwrap_or(&group.0).to_owned(),
                x: group.1 + number(tag, "x"),
                baseline: group.2 + number(tag, "y"),
                held: attribute(tag, "textLength")
                    .filter(|_| tag.contains(" lengthAdjust=\"spacingAndGlyphs\""))
                    .map(|width| width.parse().unwrap()),
            });
        } else if let Some(text) = texts.last_mut().filter(|text: &&mut Text| text.text.is_empty()) {
            // Behind the title of a shortened text.
            tag.strip_prefix("/title>").unwrap_or_default().clone_into(&mut text.text);
        }
    }
    for text in &mut texts {
        for (code, c) in [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")] {
            text.text = text.text.replace(code, c);
        }
    }
    (texts, frame[2], frame[3])
}

/// The faults of a drawing.
fn faults(drawing: &Drawing) -> Vec<String> {
    let (texts, width, height) = read(drawing);
    let mut faults = Vec::new();
    // Too little to see.
    let beyond = |a: f64, b: f64| a > b + 0.01;
    for size in SIZES {
        let boxes: Vec<[f64; 4]> = texts.iter().map(|text| text.sides(size)).collect();
        for (index, [left, right, top, bottom]) in boxes.iter().copied().enumerate() {
            if beyond(0.0, left) || beyond(right, width) || beyond(0.0, top) || beyond(bottom, height) {
                faults.push(format!("{size}: `{}` is cut", texts[index].text));
            }
            for (other, [other_left, other_right, other_top, other_bottom]) in
                boxes.iter().copied().enumerate().take(index)
            {
                if beyond(right, other_left)
                    && beyond(other_right, left)
                    && beyond(bottom, other_top)
                    && beyond(other_bottom, top)
                {
                    faults
                        .push(format!("{size}: `{}` and `{}` overlap", texts[index].text, texts[other].text));
                }
            }
        }
    }
    faults
}

/// Data that a figure may have to show.
#[derive(Clone, Debug)]
struct Data {
    names: Vec<String>,
    /// The least value, and the number of decades that values span.
    low: f64,
    decades: f64,
    /// The values on an axis of the workload.
    places: Vec<u32>,
    rows: Vec<u32>,
    title: String,
    seconds: f64,
    seed: u64,
}

impl Data {
    /// A value between the least and the greatest, both of which occur.
    fn value(&self, series: usize, point: usize) -> f64 {
        let hash = (self.seed ^ (series as u64) << 32 ^ point as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let share = match series + point {
            0 => 0.0,
            1 => 1.0,
            _ => (hash >> 11) as f64 / (1u64 << 53) as f64,
        };
        self.low * 10f64.powf(self.decades * share)
    }

    fn interval(&self, series: usize, point: usize) -> Option<(f64, f64)> {
        let value = self.value(series, point);
        // Some reach far beyond the axis.
        let high = [None, Some(1.2), Some(30.0)][(self.seed % 3) as usize]?;
        Some((value * 0.7, value * high))
    }

    fn text(&self, value: f64) -> String {
        crate::html::text::readable(value)
    }

    fn series<T>(&self, of: impl Fn(usize, String) -> T) -> Vec<T> {
        self.names.iter().enumerate().map(|(series, name)| of(series, name.clone())).collect()
    }

    fn lines(&self) -> Drawing {
        let point = |series: usize, at: usize| LinePoint {
            x: f64::from(self.places[at]),
            y: self.value(series, at),
            interval: self.interval(series, at),
            hollow: false,
            tip: String::new(),
        };
        lines::draw(&LineChart {
            title: self.title.clone(),
            x_title: "iodepth, I/Os in flight per job".to_owned(),
            y_title: self.title.clone(),
            x_values: self.places.iter().map(|place| (f64::from(*place), place.to_string())).collect(),
            lines: self.series(|series, label| Line {
                series,
                label,
                points: (0..self.places.len()).map(|at| point(series, at)).collect(),
            }),
            bound: self.seed.is_multiple_of(2).then(|| self.value(1, 1)),
        })
    }

    fn bars(&self) -> Drawing {
        let bar = |series: usize, label: String| Bar {
            series,
            label,
            value: self.value(series, 0),
            interval: self.interval(series, 0),
            hollow: false,
            text: self.text(self.value(series, 0)),
        };
        bars::draw(&self.title, &self.title, &self.series(bar))
    }

    fn stacked(&self) -> Drawing {
        let part = |series: usize, (index, what): (usize, &String)| BarPart {
            class: format!("d{}", index % 8),
            what: what.clone(),
            value: self.value(series, index),
            text: self.text(self.value(series, index)),
        };
        let parts =
            |series| self.names.iter().rev().take(11).enumerate().map(|one| part(series, one)).collect();
        bars::stacked(
            &self.title,
            "instructions per I/O",
            &self.series(|series, label| (label, parts(series))),
        )
    }

    fn percentiles(&self) -> Drawing {
        let quantiles = [0.0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9995, 0.9999, 0.99999];
        let seen = 1 + (self.seed % 12) as usize;
        let points = |series| (0..seen).map(|at| (quantiles[at], self.value(series, at))).collect();
        curves::percentiles(
            &self.title,
            &self.series(|series, label| Curve { series, label, points: points(series), hollow: false }),
        )
    }

    fn distribution(&self) -> Drawing {
        let seen = 1 + (self.seed % 12) as usize;
        let quantile = |at: usize| 1.0 - 10f64.powf(-(at as f64) / 2.0);
        let points = |series| (0..seen).map(|at| (quantile(at), self.value(series, at))).collect();
        curves::distribution(
            &self.title,
            &self.series(|series, label| Curve { series, label, points: points(series), hollow: false }),
        )
    }

    fn scatter(&self) -> Drawing {
        let dot = |series: usize, at: usize| Dot {
            x: self.value(at, series),
            y: self.value(series, at),
            hollow: false,
            tip: String::new(),
        };
        let dots = |series: usize| (0..self.places.len()).map(|at| dot(series, at)).collect();
        scatter::draw(&ScatterChart {
            title: self.title.clone(),
            x_title: "p99 latency, \u{b5}s".to_owned(),
            y_title: self.title.clone(),
            all: self.series(|series, label| Dots { series, label, dots: dots(series) }),
            joined: true,
            front: (0..3).map(|at| (self.value(at, 0), self.value(0, at))).collect(),
            front_name: "Pareto front",
            bound: self.seed.is_multiple_of(2).then(|| self.value(1, 1)),
        })
    }

    fn timeline(&self) -> Drawing {
        let end = |series: usize| self.seconds * (series + 1) as f64 / self.names.len() as f64;
        let points =
            |series| vec![(end(series) * 0.9, self.value(series, 0)), (end(series), self.value(series, 1))];
        let curve = |series, _| Curve { series, label: String::new(), points: points(series), hollow: false };
        curves::timeline(&self.title, &self.series(|series, name| (series, name)), &self.series(curve))
    }

    fn power(&self) -> Drawing {
        let stroke = |series, tip| Stroke { series, from_s: 0.0, until_s: self.seconds, tip };
        power::draw(&power::PowerChart {
            title: self.title.clone(),
            y_title: self.title.clone(),
            end_s: self.seconds,
            points: (0..8).map(|at| (self.seconds * at as f64 / 7.0, self.value(0, at))).collect(),
            strokes: self.series(stroke),
            names: self.series(|series, name| (series, name)),
        })
    }

    fn map(&self) -> Drawing {
        let places =
            (0..self.places.len()).flat_map(|column| (0..self.rows.len()).map(move |row| (column, row)));
        let cell = |(column, row): (usize, usize)| {
            let series = (column + row) % self.names.len();
            let margin = format!("next {}\u{d7}", self.text(self.value(column, row)));
            map::DrawnCell {
                at: (column, row),
                series,
                label: self.names[series].clone(),
                interval: format!("{margin} to {margin}"),
                margin,
                tie: false,
                differs: (column + row + (self.seed % 3) as usize).is_multiple_of(3),
                tip: String::new(),
            }
        };
        map::draw(&DrawnMap {
            title: self.title.clone(),
            x_title: "iodepth".to_owned(),
            y_title: "numjobs".to_owned(),
            columns: self.places.iter().map(u32::to_string).collect(),
            rows: self.rows.iter().map(u32::to_string).collect(),
            cells: places.map(cell).collect(),
            footnote: format!("decided differently without the {} trials whose rate changed", self.seed),
        })
    }

    /// Steps, some without a value, with marked stretches below; as lines or stacked.
    fn steps(&self) -> Drawing {
        let draw = if self.seed.is_multiple_of(2) { steps::lines } else { steps::stacked };
        let at = |step: usize| self.seconds * step as f64 / 5.0;
        let spans: Vec<(f64, f64)> = (0..5).map(|step| (at(step), at(step + 1))).collect();
        let value = |series, step| (series + step != 3).then(|| self.value(series, step));
        let values: Vec<Vec<Option<f64>>> =
            self.series(|series, _| (0..5).map(|step| value(series, step)).collect());
        let stretch = |step: usize| Stretch {
            from_s: at(step),
            until_s: at(step + 1),
            faint: step.is_multiple_of(2),
            tip: String::new(),
        };
        draw(&StepChart {
            title: self.title.clone(),
            y_title: self.title.clone(),
            since: "the watch began",
            spans: &spans,
            lines: self.names.iter().zip(&values).map(|(name, values)| StepLine { name, values }).collect(),
            lane: Some(Lane { name: "~", stretches: (0..3).map(stretch).collect() }),
            right: super::super::right_of_plot(self.names.iter().map(String::as_str)),
        })
    }

    fn drawings(&self) -> [(&'static str, Drawing); 10] {
        [
            ("lines", self.lines()),
            ("bars", self.bars()),
            ("stacked", self.stacked()),
            ("percentiles", self.percentiles()),
            ("distribution", self.distribution()),
            ("scatter", self.scatter()),
            ("timeline", self.timeline()),
            ("power", self.power()),
            ("steps", self.steps()),
            ("map", self.map()),
        ]
    }
}

/// Names like those of paths, long ones, and ones in other scripts: wide, joined, right to left, or
/// invisible.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => proptest::sample::select(vec![
            "libaio", "posix-sio interrupt", "io_uring syscall/poll+registered", "nvme-passthrough sqpoll",
        ])
            .prop_map(str::to_owned),
        2 => "[a-z_]{3,12} [a-z]{5,9}/[a-z]{4,9} (scheduler|nr_requests)=[ -~]{0,50}",
        1 => "[MW@ ]{1,60}",
        1 => "[\u{4e00}-\u{9fa5}\u{3041}-\u{3093}\u{ac00}-\u{d7a3}]{1,50}",
        1 => "[\u{5d0}-\u{5ea}\u{621}-\u{64a} ]{1,50}",
        1 => "[\u{391}-\u{3c9}\u{410}-\u{44f}]{1,50}",
        1 => "(e\u{301}\u{302}|\u{1f600}|\u{1f468}\u{200d}\u{1f469}){1,20}",
        1 => "\\PC{0,60}",
        1 => "[\u{0}-\u{20}\u{202a}-\u{202e}]{0,12}",
    ]
}

fn data() -> impl Strategy<Value = Data> {
    let places =
        |most| proptest::collection::btree_set(prop_oneof![3 => 1u32..=256, 1 => 1u32..=u32::MAX], 1..=most);
    let decades = prop_oneof![Just(0.0), 0.0..2.0, 0.0..9.0];
    let names = proptest::collection::vec(name(), 1..=20);
    (names, -6.0..9.0f64, decades, places(12), places(5), name(), 0.0..6.0f64, any::<u64>()).prop_map(
        |(names, low, decades, places, rows, title, seconds, seed)| Data {
            names,
            low: 10f64.powf(low),
            decades,
            places: places.into_iter().collect(),
            rows: rows.into_iter().collect(),
            title: format!("power, W, system by {title}"),
            seconds: 10f64.powf(seconds) - 1.0,
            seed,
        },
    )
}

/// This many sets of data, always the same for a seed.
fn is_sound(cases: u32, seed: u8) {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]));
    let sound = |data: Data| {
        for (what, drawing) in data.drawings() {
            let faults = faults(&drawing);
            prop_assert!(faults.is_empty(), "{what}: {faults:?}");
        }
        Ok(())
    };
    if let Err(error) = runner.run(&data(), sound) {
        panic!("{error}");
    }
}

#[test]
fn no_data_and_no_font_make_texts_overlap_or_be_cut() {
    is_sound(1500, 0);
}

#[test]
#[ignore = "a soak: cargo xtask soak"]
fn soak_no_data_and_no_font_make_texts_overlap_or_be_cut() {
    std::thread::scope(|scope| {
        for seed in 1..5 {
            scope.spawn(move || is_sound(2500, seed));
        }
    });
}

#[test]
fn texts_that_overlap_or_are_cut_would_be_seen() {
    let drawn = |texts: &[(f64, f64, &str)]| {
        let mut canvas = super::super::Canvas::new(100.0, 50.0);
        for (x, y, text) in texts {
            canvas.text_within((*x, *y), super::super::Anchor::Start, "name", (text, 1000.0));
        }
        faults(&canvas.finish("t"))
    };
    assert_eq!(drawn(&[(0.0, 20.0, "one"), (30.0, 20.0, "two"), (0.0, 37.0, "a&b")]), Vec::<String>::new());
    assert_eq!(
        drawn(&[(0.0, 20.0, "one"), (10.0, 32.0, "<")]),
        ["11: `<` and `one` overlap", "12: `<` and `one` overlap"]
    );
    assert_eq!(drawn(&[(90.0, 20.0, "one")]).len(), 2, "it is cut in both sizes");
    assert_eq!(drawn(&[(0.0, 12.0, "one")]), ["12: `one` is cut"]);
}

#[test]
fn the_usual_fonts_are_stretched_and_squeezed_a_little() {
    for text in [
        "10",
        "99.99",
        "100k",
        "min",
        "posix-sio interrupt",
        "io_uring syscall/poll",
        "percentile, each further nine as wide",
    ] {
        let held = super::super::label::width(text);
        let arial: f64 =
            text.chars().map(|c| f64::from(crate::html::helvetica::width(c, false).unwrap())).sum::<f64>()
                * 11e-3;
        assert!((1.0..1.2).contains(&(held / arial)), "{text}: {held} for Arial's {arial}");
        let dejavu = free_width(text, 11.0);
        assert!((0.88..1.0).contains(&(held / dejavu)), "{text}: {held} for DejaVu Sans' {dejavu}");
    }
}
