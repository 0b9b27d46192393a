//! Energy in *When Poll is More Energy Efficient than Interrupt*: power against CPU use, and bytes per joule
//! over request size and threads.

use super::{HYBRID, INTERRUPT, POLL};
use crate::claims::comparison::{Comparison, Relation};
use crate::claims::data::{ClaimCell, Shape, TrialSet};
use crate::claims::metrics::{BYTES_PER_JOULE, CPU, MEAN_LATENCY, WATTS};
use crate::claims::parts::{Each, MostCells, SomeWorkload};
use crate::claims::question::Question;
use crate::claims::{Answer, ClaimFigure, Part};
use iopj_analysis::exact::rank_test;
use iopj_analysis::metric;
use iopj_analysis::stats::{LEVEL, over, p_statement};
use iopj_analysis::winner::{self, Axis, Decision, rank};
use iopj_core::{IoPath, Rw};

/// What to know about the answer on power.
pub(super) const POWER_NOTE: &str = "One workload is enough for each part, after Holm's correction over the \
                                     workloads of both. The paper draws power over threads (Figure 1) and \
                                     prints no figure.";

/// What to know about the answer on bytes per joule.
pub(super) const BYTES_NOTE: &str = "A cell is a request size and a number of threads; its winner differs \
                                     significantly from both others, within blocks where the study ran in \
                                     them, after Holm's correction over the cells. Its latency is \
                                     interrupt's own; the cells that poll wins are compared with interrupt's \
                                     by their ranks, a cell counting as one value. The paper draws the map \
                                     (Figure 3) and prints no figure.";

/// What to know about the answer on the least efficient mode.
pub(super) const LEAST_NOTE: &str = "A cell is a request size and a number of threads; it is decided if \
                                     hybrid differs significantly from both others, or one of them is \
                                     significantly behind it, after Holm's correction over the cells. The \
                                     paper draws the map and prints no figure.";

/// The share of the decided cells that is nearly none.
const NEARLY_NONE: f64 = 0.1;

/// The replicates that a cell needs.
const REPLICATES: usize = 3;

/// The shapes of random reads, one I/O at a time, under which any of the three completion modes was measured;
/// else 4 KiB on one thread.
fn shapes(data: &TrialSet<'_>) -> Vec<Shape> {
    let fits = |one: &Shape| one.rw == Rw::Randread && one.iodepth == 1;
    let shapes = data.shapes(&[INTERRUPT, POLL, HYBRID], fits);
    if shapes.is_empty() { vec![Shape::of_4k(Rw::Randread)] } else { shapes }
}

pub(super) fn power<'a>(data: &TrialSet<'a>) -> Vec<Question<'a>> {
    let shapes = shapes(data);
    let hybrid = |shape: &Shape| {
        vec![
            Comparison::of_paths(data, CPU, HYBRID, Relation::Less, POLL, *shape),
            Comparison::of_paths(data, WATTS, HYBRID, Relation::More, POLL, *shape),
        ]
    };
    let poll =
        |shape: &Shape| vec![Comparison::of_paths(data, WATTS, POLL, Relation::Less, INTERRUPT, *shape)];
    let somewhere = |text: String, of: &dyn Fn(&Shape) -> Vec<Comparison<'a>>| {
        let workloads = shapes.iter().map(|shape| (*shape, of(shape))).collect();
        Question::SomeWorkload(SomeWorkload { text, workloads })
    };
    vec![
        somewhere(format!("somewhere {HYBRID} has less CPU use than {POLL}, and more power"), &hybrid),
        somewhere(format!("somewhere {POLL} has less power than {INTERRUPT}"), &poll),
    ]
}

/// A cell of the map: its winner, if it is decided, and its latency in us.
struct MapTile {
    winner: Option<IoPath>,
    latency_us: f64,
}

pub(super) fn bytes<'a>(data: &TrialSet<'a>) -> Vec<Question<'a>> {
    let cells: Vec<(Shape, [ClaimCell<'a>; 3])> = shapes(data)
        .into_iter()
        .map(|shape| (shape, [INTERRUPT, POLL, HYBRID].map(|path| data.cell(path, shape))))
        .collect();
    let lacks =
        |cells: &[ClaimCell<'a>; 3]| cells.iter().find_map(|cell| cell.lacks(BYTES_PER_JOULE, REPLICATES));
    let complete: Vec<&(Shape, [ClaimCell<'a>; 3])> =
        cells.iter().filter(|(_, cells)| lacks(cells).is_none()).collect();
    let several = |of: fn(&Shape) -> u32| complete.iter().any(|(shape, _)| of(shape) != of(&complete[0].0));
    let text = "the map of bytes per joule over request size and threads";
    if !several(|shape| shape.bs) || !several(|shape| shape.numjobs) {
        let first = cells.iter().find_map(|(_, cells)| lacks(cells));
        let grid = "bytes per joule of all three completion modes at two request sizes and two thread counts";
        let need = first.map_or_else(|| grid.to_owned(), |first| format!("{grid}; first of all {first}"));
        return vec![Question::missing_for(text, "", need)];
    }
    let cores = data.machine.cores;
    if !complete.iter().any(|(shape, _)| shape.numjobs > cores) {
        let need =
            format!("bytes per joule of all three completion modes with more threads than cores ({cores})");
        return vec![Question::missing_for(text, "", need)];
    }
    let mut decided: Vec<winner::MapCell> =
        complete.iter().map(|(_, cells)| ranked(cells, complete.len())).collect();
    winner::correct(decided.iter_mut());
    let tiles: Vec<MapTile> =
        complete.iter().zip(&decided).filter_map(|((_, cells), ranked)| tile(cells, ranked)).collect();
    let all: Vec<ClaimCell<'a>> = complete.iter().flat_map(|(_, cells)| cells.clone()).collect();
    let low = where_latency_is_low(&tiles, data.machine.looks.max(1));
    vec![Question::Decided(seldom(&tiles), all), Question::Decided(low, Vec::new())]
}

/// The winner of a cell, in a family of this many.
fn ranked(cells: &[ClaimCell<'_>; 3], family: usize) -> winner::MapCell {
    let plan = cells[0].plan(BYTES_PER_JOULE, family);
    // Any two axes will do: cells are ranked one by one.
    let (metric, x, y) = (metric::Metric::BytesPerJoule, Axis::Bs, Axis::Numjobs);
    let question = winner::WinnerQuestion {
        metric,
        x,
        y,
        method: plan.method,
        admission: Default::default(),
        looks: plan.looks,
        tolerance: plan.tolerance,
    };
    rank(cells.iter().map(|cell| (cell.path, cell.sample(BYTES_PER_JOULE))).collect(), &question, family)
}

fn tile(cells: &[ClaimCell<'_>; 3], ranked: &winner::MapCell) -> Option<MapTile> {
    Some(MapTile {
        winner: (ranked.decision() == Decision::Wins).then(|| ranked.ranking[0].path),
        latency_us: cells.iter().find(|cell| cell.path == INTERRUPT)?.mean(MEAN_LATENCY)?,
    })
}

/// Hybrid does the fewest bytes per joule, generally.
pub(super) fn least<'a>(data: &TrialSet<'a>) -> Vec<Question<'a>> {
    let each = |shape: Shape| {
        let less =
            |other: IoPath| Comparison::of_paths(data, BYTES_PER_JOULE, HYBRID, Relation::Less, other, shape);
        Each { all: vec![less(INTERRUPT), less(POLL)] }
    };
    let text = format!("bytes per joule: {HYBRID} less than {INTERRUPT} and {POLL}");
    let is_whole = |each: &Each<'_>| each.all.iter().all(|one| one.missing(REPLICATES).is_empty());
    let (whole, lacking): (Vec<Each<'a>>, Vec<Each<'a>>) =
        shapes(data).into_iter().map(each).partition(is_whole);
    match (whole.is_empty(), lacking.first()) {
        (true, Some(first)) => {
            let need = first.all.iter().flat_map(|one| one.missing(REPLICATES)).next().unwrap_or_default();
            vec![Question::Missing { text, at: String::new(), need }]
        }
        _ => vec![Question::MostCells(MostCells { text, each: whole })],
    }
}

/// Hybrid wins nearly nowhere.
fn seldom(tiles: &[MapTile]) -> Part {
    let decided = tiles.iter().filter(|tile| tile.winner.is_some()).count();
    let won = tiles.iter().filter(|tile| tile.winner == Some(HYBRID)).count();
    let answer = match (decided, won as f64 <= NEARLY_NONE * decided as f64) {
        (0, _) => Answer::Undecided(format!("no path wins any of the {} cells of the map", tiles.len())),
        (_, true) => Answer::Holds,
        (_, false) => Answer::DoesNotHold,
    };
    let text = format!("bytes per joule: {HYBRID} wins at most {NEARLY_NONE} of the decided cells");
    let figures = vec![
        ClaimFigure::of(HYBRID.to_string(), "cells", &[won as f64], None),
        ClaimFigure::of("all".to_owned(), "decided cells", &[decided as f64], None),
    ];
    Part::new(text, String::new(), answer, figures, None)
}

/// Poll wins where latency is low, interrupt where it is high.
fn where_latency_is_low(tiles: &[MapTile], looks: u32) -> Part {
    let of = |path: IoPath| -> Vec<f64> {
        tiles.iter().filter(|tile| tile.winner == Some(path)).map(|tile| tile.latency_us).collect()
    };
    let (poll, interrupt) = (of(POLL), of(INTERRUPT));
    let test = rank_test(&poll, &interrupt);
    let p = test.map(|test| over(looks, test.p));
    let lower = test.is_some_and(|test| 2.0 * test.u < (poll.len() * interrupt.len()) as f64);
    let answer = match p {
        None => Answer::Undecided(format!(
            "poll wins {} cells and interrupt {}: a test needs some of each",
            poll.len(),
            interrupt.len()
        )),
        Some(p) if p >= LEVEL => Answer::Undecided(format!("no significant difference ({})", p_statement(p))),
        Some(_) if lower => Answer::Holds,
        Some(_) => Answer::DoesNotHold,
    };
    let text = format!(
        "interrupt's mean latency in the cells that {POLL} wins less than of those that {INTERRUPT} wins"
    );
    let figure = |path: IoPath, values: &[f64]| ClaimFigure::of(path.to_string(), "us", values, None);
    Part::new(text, String::new(), answer, vec![figure(POLL, &poll), figure(INTERRUPT, &interrupt)], p)
}
