//! Horizontal bars: one value per path with its error bar, or counts side by side.

use super::axis::{PlotAxis, short};
use super::drawing::Drawing;
use super::label::{ABOVE, BELOW, LINE, TO_BASELINE, widest, width};
use super::{Anchor, Canvas, TO_BAR, TO_TICKS, TOP, WIDTH, left_of_bars};

/// One bar.
pub(in super::super) struct Bar {
    pub(in super::super) series: usize,
    pub(in super::super) label: String,
    pub(in super::super) value: f64,
    pub(in super::super) interval: Option<(f64, f64)>,
    /// No trial of it is verified: the bar is hollow.
    pub(in super::super) hollow: bool,
    /// The value as written beside the bar.
    pub(in super::super) text: String,
}

/// A part of a stacked bar: its class in `figure.css`, its name, its value, and the text written on it.
pub(in super::super) struct BarPart {
    pub(in super::super) class: String,
    pub(in super::super) what: String,
    pub(in super::super) value: f64,
    pub(in super::super) text: String,
}

const ROW: f64 = 24.0;

/// Distance from the end of a bar to its value.
const TO_VALUE: f64 = 6.0;

/// Distance from a part's mark to its name, and from the end of the name to the next mark.
const TO_PART: (f64, f64) = (13.0, 15.0);

/// One bar per row from zero, its value at the end. Every bar is one `mark`.
pub(in super::super) fn draw(title: &str, axis_title: &str, bars: &[Bar]) -> Drawing {
    let left = left_of_bars(bars.iter().map(|bar| bar.label.as_str()));
    let right = (TO_VALUE + widest(bars.iter().map(|bar| bar.text.as_str()))).max(52.0);
    let bottom = TOP + ROW * bars.len() as f64;
    let mut canvas = Canvas::new(WIDTH, bottom + TO_TICKS + BELOW);
    let greatest = bars.iter().map(|bar| bar.value).fold(0.0, f64::max);
    let reach = bars.iter().filter_map(|bar| bar.interval).map(|(_, high)| high.min(1.5 * greatest));
    let x = PlotAxis::from_zero(reach.fold(greatest, f64::max), (left, WIDTH - right));
    canvas.text((0.0, ABOVE), Anchor::Start, "axis-title", axis_title);
    for tick in x.ticks() {
        canvas.line((x.at(tick), TOP - 4.0), (x.at(tick), bottom), if tick == 0.0 { "base" } else { "grid" });
    }
    canvas.ticks(bottom, x.ticks().into_iter().map(|tick| (x.at(tick), short(tick))));
    for (index, bar) in bars.iter().enumerate() {
        let middle = TOP + ROW * (index as f64 + 0.5);
        canvas.text((left - TO_BAR, middle + TO_BASELINE), Anchor::End, "name", &bar.label);
        canvas.begin_series(bar.series);
        let class = if bar.hollow { "mark bar hollow" } else { "mark bar" };
        let size = (x.at(bar.value) - left, 12.0);
        canvas.rect((left, middle - 6.0), size, class, &format!("{}: {}", bar.label, bar.text));
        canvas.end_series();
        let mut end = x.at(bar.value);
        if let Some((low, high)) = bar.interval {
            canvas.line((x.at(low), middle), (x.at(high), middle), "whisker");
            for value in [low, high].into_iter().filter(|value| x.holds(*value)) {
                canvas.line((x.at(value), middle - 3.0), (x.at(value), middle + 3.0), "whisker");
            }
            end = end.max(x.at(high));
        }
        canvas.text((end + TO_VALUE, middle + TO_BASELINE), Anchor::Start, "value", &bar.text);
    }
    canvas.finish(title)
}

/// The parts of each row side by side, each with its text if there is room; `unit` names what they are parts
/// of. All rows have the same parts. Every part above zero is one `mark`.
pub(in super::super) fn stacked(title: &str, unit: &str, rows: &[(String, Vec<BarPart>)]) -> Drawing {
    let left = left_of_bars(rows.iter().map(|(label, _)| label.as_str()));
    let legend = rows.first().map_or(Vec::new(), |(_, parts)| legend(parts, left));
    let lines = legend.iter().map(|((_, line), _)| line + 1).max().unwrap_or(1);
    let top = TOP + LINE * (lines - 1) as f64;
    let mut canvas = Canvas::new(WIDTH, top + ROW * rows.len() as f64 + 4.0);
    let greatest =
        rows.iter().map(|(_, parts)| parts.iter().map(|part| part.value).sum::<f64>()).fold(0.0, f64::max);
    let scale = if greatest > 0.0 { (WIDTH - left - 4.0) / greatest } else { 0.0 };
    canvas.text_within((0.0, ABOVE), Anchor::Start, "axis-title", (unit, left - TO_BAR));
    for ((x, line), part) in legend {
        let y = LINE * line as f64;
        canvas.rect((x, ABOVE - 8.5 + y), (9.0, 9.0), &format!("part {}", part.class), &part.what);
        canvas.text((x + TO_PART.0, ABOVE + y), Anchor::Start, "axis-title", &part.what);
    }
    for (index, (label, parts)) in rows.iter().enumerate() {
        let middle = top + ROW * (index as f64 + 0.5);
        canvas.text((left - TO_BAR, middle + TO_BASELINE), Anchor::End, "name", label);
        let mut x = left;
        for part in parts.iter().filter(|part| part.value > 0.0) {
            let room = scale * part.value;
            let tip = format!("{label}: {} {}", part.text, part.what);
            canvas.rect((x, middle - 8.0), (room - 1.0, 16.0), &format!("mark part {}", part.class), &tip);
            let place = (x + room / 2.0, middle + TO_BASELINE);
            canvas.text_if_whole(
                place,
                Anchor::Middle,
                &format!("on {}", part.class),
                (&part.text, room - 5.0),
            );
            x += room;
        }
    }
    canvas.finish(title)
}

/// Where the name of each part is drawn: x, and the number of its line.
fn legend(parts: &[BarPart], left: f64) -> Vec<((f64, usize), &BarPart)> {
    let mut places = Vec::new();
    let (mut x, mut line) = (left, 0);
    for part in parts {
        let end = x + TO_PART.0 + width(&part.what);
        if x > left && end > WIDTH {
            (x, line) = (left, line + 1);
        }
        places.push(((x, line), part));
        x += TO_PART.0 + width(&part.what) + TO_PART.1;
    }
    places
}
