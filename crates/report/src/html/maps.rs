//! Winner maps: the best path in each cell of two axes of the workload. `analysis::winner` decides.

use super::figure::{Figure, Group, Section, TIPPED_CELLS};
use super::model::{AXES, Model, Series, shown};
use super::svg::map::{self, DrawnCell, DrawnMap};
use super::text::{exact, plural, readable};
use super::unsteady;
use crate::table::Table;
use crate::unsteady::{decision, without_words};
use iopj_analysis::contrast::{Contrast, in_blocks};
use iopj_analysis::grouping::ascending;
use iopj_analysis::metric::Metric;
use iopj_analysis::stats::Ratio;
use iopj_analysis::winner::{
    Axis, AxisValue, Decision, MapCell, RankedPath, WinnerMap, WinnerQuestion, winner_maps,
};
use iopj_analysis::without_unsteady::{MapWithoutUnsteady, maps_without_unsteady};

/// The metrics that get maps if the store holds them. Every trial has the first, and the first that is
/// not a time.
const METRICS: [Metric; 12] = [
    Metric::Figure,
    Metric::FigurePerCpu,
    Metric::FigurePerJoule,
    Metric::LatencyMean,
    Metric::LatencyP99,
    Metric::LatencyP99_9,
    Metric::IosPerJoule,
    Metric::IopsPerCpu,
    Metric::ContextSwitchesPerIo,
    Metric::InterruptsPerIo,
    Metric::SystemCallsPerIo,
    Metric::Instructions(None),
];

/// Winner maps, one per metric and set of workloads that differ in two axes only.
pub(super) fn section(model: &Model<'_>) -> Section {
    let mut axes = AXES;
    axes.sort_by_key(|axis| std::cmp::Reverse(model.values_of(*axis).len()));
    let [x, y, ..] = axes;
    let is_map = model.values_of(x).len() > 1;
    let is_shown = |metric: &Metric| {
        (model.figure.is_some() || !metric.is_figure()) && (model.emulated.is_none() || !metric.is_time())
    };
    let metrics = METRICS.into_iter().filter(is_shown);
    let mut all: Vec<_> =
        metrics.filter(|_| is_map).map(|metric| maps_with_unsteady(model, metric, x, y)).collect();
    let (mut groups, mut left_out, mut incomplete) = (Vec::new(), 0, 0);
    // All metrics have the same maps in the same order: those with one index are a group.
    loop {
        let maps: Vec<(WinnerMap, Option<MapWithoutUnsteady>)> =
            all.iter_mut().filter_map(Iterator::next).collect();
        let Some((first, _)) = maps.first() else { break };
        left_out += first.left_out().total();
        incomplete += maps.iter().map(|(map, _)| map.left_out().energy_incomplete).sum::<usize>();
        let heading = format!("{}{}", model.title(&first.workload, &[x, y]), suffix(model, first));
        let figure =
            |(map, without): &(_, Option<_>)| figure(model, (map, without.as_ref()), (x, y), &heading);
        let figures = maps.iter().filter_map(figure).collect();
        groups.extend(Group::new(heading, figures));
    }
    let mut words = format!(
        "The best path in each cell, its lead over the next path, and the 95 % interval of the lead. In \
         dashed cells no path wins by {} at 5 %, after Holm over all cells: the best are equal, or \
         undecided. A map of counts names the path with the lowest count, which need not be the fastest. {} \
         out: refuted, unproven, failed, incomplete, or of paths that only show what choosing is worth.",
        test_words(model),
        if left_out == 1 { "1 trial is left".to_owned() } else { format!("{left_out} trials are left") }
    );
    if incomplete > 0 {
        words += &format!(" Energy of {} is incomplete and not in its maps.", plural(incomplete, "trial"));
    }
    Section::new(("winners", "Winner maps"), words, groups)
}

fn heading(model: &Model<'_>, metric: Metric) -> String {
    match metric {
        Metric::LatencyMean | Metric::LatencyP99 | Metric::LatencyP99_9 => {
            format!("Least {}", metric.title())
        }
        Metric::IosPerJoule => "Most I/Os per joule".to_owned(),
        Metric::IopsPerCpu => "Most I/Os per second of CPU time".to_owned(),
        figure if figure.is_figure() => format!("Most {}", model.title_of(figure)),
        count => format!("Fewest {}", model.name_of(count).replacen(", per", " per", 1)),
    }
}

pub(super) fn maps(model: &Model<'_>, metric: Metric, x: Axis, y: Axis) -> Vec<WinnerMap> {
    // The axes differ, so there is no error to report.
    let question = WinnerQuestion::new(metric, x, y);
    let of_study =
        |question: WinnerQuestion| WinnerQuestion { admission: model.admission, ..question.of(model.study) };
    question.map_or(Vec::new(), |question| winner_maps(model.trials, &of_study(question)))
}

/// The maps, each with what changes without its unsteady trials if it has any.
fn maps_with_unsteady(
    model: &Model<'_>,
    metric: Metric,
    x: Axis,
    y: Axis,
) -> impl Iterator<Item = (WinnerMap, Option<MapWithoutUnsteady>)> {
    let maps = maps(model, metric, x, y);
    let question = maps.first().map(|map| map.question);
    let apart = question.map(|question| maps_without_unsteady(model.study, model.trials, &question, &maps));
    maps.into_iter().zip(apart.unwrap_or_default())
}

/// The test that decides.
pub(super) fn test_words(model: &Model<'_>) -> &'static str {
    if in_blocks(model.study) { "the t-test within blocks" } else { "Welch's t-test" }
}

/// What distinguishes the series of a map from those of others: generator and settings.
fn suffix<'a>(model: &'a Model<'_>, map: &WinnerMap) -> &'a str {
    let same = |one: &&Series| one.generator == map.generator && one.settings == map.settings;
    model.series.iter().find(same).map_or("", |one| &one.suffix)
}

/// A cell with its values (y, x) and the series of its best path.
type BestOf<'a> = ((AxisValue, AxisValue), &'a MapCell, usize);

fn figure(
    model: &Model<'_>,
    (winners, without): (&WinnerMap, Option<&MapWithoutUnsteady>),
    (x, y): (Axis, Axis),
    rest: &str,
) -> Option<Figure> {
    let rows = ascending(winners.cells.keys().map(|(y, _)| *y));
    let columns = ascending(winners.cells.keys().map(|(_, x)| *x));
    let series = |path| model.series_like(path, winners.generator, &winners.settings);
    let cells = winners.cells.iter();
    let cells: Vec<BestOf<'_>> =
        cells.filter_map(|(at, cell)| Some((*at, cell, series(cell.ranking.first()?.path)?))).collect();
    let drawn = |best: &BestOf<'_>| {
        drawn(model, winners, without, (position(&columns, best.0.1), position(&rows, best.0.0)), best)
    };
    let of = winners.source.as_ref().map_or(String::new(), |source| format!(" ({source})"));
    let caption = format!("{}{of}", heading(model, winners.question.metric));
    let drawing = DrawnMap {
        title: format!("{caption}: {rest}"),
        x_title: x.as_str().to_owned(),
        y_title: y.as_str().to_owned(),
        columns: columns.iter().map(AxisValue::to_string).collect(),
        rows: rows.iter().map(AxisValue::to_string).collect(),
        cells: cells.iter().map(drawn).collect(),
        footnote: without
            .map_or_else(String::new, |without| format!("decided differently {}", without_words(without))),
    };
    let wide = drawing.columns.len() > 4;
    let note = without.map(|without| unsteady::note(winners, without));
    let table = table(winners, &cells, (x, y));
    Some(Figure { wide, note, ..Figure::new(caption, map::draw(&drawing), table.data())? })
}

/// The place of a value among all, ascending.
fn position(values: &[AxisValue], value: AxisValue) -> usize {
    values.binary_search(&value).unwrap_or_default()
}

/// A cell as drawn. One that is decided differently without the unsteady trials is marked, and its tooltip
/// says how.
fn drawn(
    model: &Model<'_>,
    map: &WinnerMap,
    without: Option<&MapWithoutUnsteady>,
    at: (usize, usize),
    (place, cell, series): &BestOf<'_>,
) -> DrawnCell {
    let decided = cell.decision();
    let (unit, factor) = match map.question.metric {
        metric if metric.is_figure() => (model.name_of(metric), 1.0),
        metric => shown(metric),
    };
    let value = |ranked: &RankedPath| format!("{} {}", ranked.path, readable(ranked.summary.mean * factor));
    let mut tips = Vec::new();
    if model.cells.len() <= TIPPED_CELLS {
        let ranked: Vec<String> = cell.ranking.iter().take(2).map(value).collect();
        tips.push(format!("{unit}: {}", ranked.join("; next ")));
    }
    let differs = without.and_then(|without| {
        let cell = without.cells.iter().find(|cell| cell.at == *place)?;
        Some(format!("{}: {}", without_words(without), decision(&cell.without)))
    });
    tips.extend(differs.clone());
    DrawnCell {
        at,
        series: *series,
        label: model.series[*series].label.clone(),
        margin: match decided {
            Decision::Equal => "equal".to_owned(),
            Decision::Undecided => "undecided".to_owned(),
            Decision::Alone => "alone".to_owned(),
            _ => margin(cell),
        },
        interval: interval(cell),
        tie: matches!(decided, Decision::Equal | Decision::Undecided),
        differs: differs.is_some(),
        tip: tips.join("; "),
    }
}

/// How far the next path is from the best: in per cent of the best, or as a factor if that reads better.
fn margin(cell: &MapCell) -> String {
    let [best, next, ..] = cell.ranking.as_slice() else { return String::new() };
    match next.summary.mean / best.summary.mean {
        // A count of the best path may be zero: then the next one's count itself is shown.
        ratio if !ratio.is_finite() => format!("next {}", readable(next.summary.mean)),
        ratio if ratio >= 2.0 => format!("next {}\u{d7}", readable(ratio)),
        ratio => format!("next {:+.1} %", 100.0 * (ratio - 1.0)),
    }
}

/// The 95 % interval of how far the next path is from the best, as [`margin`] shows the distance itself; in
/// an undecided cell of how far the path is that would take the most to decide.
fn interval(cell: &MapCell) -> String {
    let hardest = cell.open().and_then(|(place, _)| place.contrast.as_ref());
    let Some(ratio) = hardest.or(cell.lead()).and_then(|lead| lead.ratio) else { return String::new() };
    match [ratio.high, ratio.low].map(f64::recip) {
        // A bound of the ratio of zero or less is no bound of how far the next path is.
        [low, high] if low <= 0.0 || high <= 0.0 || !high.is_finite() => String::new(),
        [low, high] if low >= 2.0 => format!("{} to {}\u{d7}", readable(low), readable(high)),
        bounds => {
            let [low, high] = bounds.map(|bound| {
                let percent = 100.0 * (bound - 1.0);
                format!("{percent:+.*}", usize::from(percent.abs() < 9.95))
            });
            format!("{low} to {high} %")
        }
    }
}

fn table<'a>(map: &WinnerMap, cells: &'a [BestOf<'a>], (x, y): (Axis, Axis)) -> Table<'a, BestOf<'a>> {
    let (_, factor) = shown(map.question.metric);
    let path = |cell: &MapCell, at: usize| {
        cell.ranking.get(at).map_or(String::new(), |ranked| ranked.path.to_string())
    };
    let mean = move |cell: &MapCell, at: usize| {
        cell.ranking.get(at).map_or(String::new(), |ranked| exact(ranked.summary.mean * factor))
    };
    let of_ratio = |cell: &MapCell, of: fn(&Ratio) -> f64| {
        cell.lead().and_then(|lead| lead.ratio.as_ref()).map_or(String::new(), |one| exact(of(one)))
    };
    Table::of(cells)
        .left(x.as_str(), |((_, x), ..)| x.to_string())
        .left(y.as_str(), |((y, _), ..)| y.to_string())
        .left("best path", move |(_, cell, _)| path(cell, 0))
        .left("decision", |(_, cell, _)| {
            match cell.decision() {
                Decision::Empty => "",
                decision => decision.as_str(),
            }
            .to_owned()
        })
        .left("mean", move |(_, cell, _)| mean(cell, 0))
        .left("next path", move |(_, cell, _)| path(cell, 1))
        .left("mean of next", move |(_, cell, _)| mean(cell, 1))
        .left("ratio", move |(_, cell, _)| of_ratio(cell, |one| one.ratio))
        .left("95 % from", move |(_, cell, _)| of_ratio(cell, |one| one.low))
        .left("95 % to", move |(_, cell, _)| of_ratio(cell, |one| one.high))
        .left("could see, %", |(_, cell, _)| {
            let least = cell.lead().and_then(Contrast::least);
            least.map_or(String::new(), |least| exact(100.0 * least))
        })
        .left("p", |(_, cell, _)| cell.p.map_or(String::new(), exact))
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopj_analysis::winner::rank;

    #[test]
    fn an_interval_with_a_bound_of_zero_or_less_is_not_shown() {
        let (best, next) = ("libaio/syscall/interrupt", "io_uring/syscall/interrupt");
        let shown = |metric, best_values: [f64; 3], next_values: [f64; 3]| {
            let question = WinnerQuestion::new(metric, Axis::Bs, Axis::Iodepth).unwrap();
            let sample = |values: [f64; 3]| (0..).zip(values).collect();
            let samples = [(best, best_values), (next, next_values)];
            let samples = samples.map(|(path, values)| (path.parse().unwrap(), sample(values)));
            interval(&rank(samples.into(), &question, 1))
        };
        let wild = [10.0, 300.0, 20.0];
        // The bounds of the ratio are -0.19 and 1.0, or 0 and 1.0.
        assert_eq!(shown(Metric::WattsAboveIdle, wild, [400.0, 380.0, 390.0]), "");
        assert_eq!(shown(Metric::LatencyMean, wild, [400.0, 380.0, 390.0]), "");
        assert_eq!(shown(Metric::LatencyMean, [100.0, 101.0, 99.0], [110.0, 111.5, 109.0]), "+9.6 to +11 %");
    }
}
