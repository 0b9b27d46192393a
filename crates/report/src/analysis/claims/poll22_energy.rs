//! Energy in *When Poll is More Energy Efficient than Interrupt*: power against CPU use, and bytes per joule
//! over request size and threads.

use super::parts::{Each, MostCells, OwnRule, SomeWorkload};
use super::poll22::{HYBRID, INTERRUPT, POLL};
use super::rule::{
    Against, BYTES_PER_JOULE, CPU, ClaimCell, ClaimMetric, Comparison, MEAN_LATENCY, Question, Relation,
    Shape, TrialSet, WATTS,
};
use super::{Answer, ClaimFigure};
use crate::analysis::exact::rank_test;
use crate::analysis::metric;
use crate::analysis::stats::{LEVEL, over, summarize};
use crate::analysis::winner::{self, Axis, Decision, rank};
use iopj_core::{IoPath, Rw};

/// What to know about the answer on power.
pub(super) const POWER_NOTE: &str = "One workload is enough for each part, after Holm's correction over the \
                                     workloads of both. The paper draws power over threads (Figure 1) and \
                                     prints no figure.";

/// What to know about the answer on bytes per joule.
pub(super) const BYTES_NOTE: &str = "A cell is a request size and a number of threads; its winner is told from both others, within blocks \
     where the study ran in them, after Holm's correction over the cells. Its latency is interrupt's own; \
     the cells that poll wins are compared with interrupt's by their ranks, a cell counting as one value. \
     The paper draws the map (Figure 3) and prints no figure.";

/// What to know about the answer on the least efficient mode.
pub(super) const LEAST_NOTE: &str = "A cell is a request size and a number of threads; it is decided where \
                                     hybrid is told from both others, or one of them is told to be behind \
                                     it, after Holm's correction over the cells. The paper draws the map \
                                     and prints no figure.";

/// The share of the decided cells that is nearly none.
const NEARLY_NONE: f64 = 0.1;

/// The replicates that a cell needs.
const REPLICATES: usize = 3;

/// Random reads of one at a time under which any of the three completion modes was measured, or 4 KiB on one
/// thread.
fn shapes(data: &TrialSet<'_>) -> Vec<Shape> {
    let fits = |one: &Shape| one.rw == Rw::Randread && one.iodepth == 1;
    let shapes = data.shapes(&[INTERRUPT, POLL, HYBRID], fits);
    if shapes.is_empty() { vec![Shape::of_4k(Rw::Randread)] } else { shapes }
}

pub(super) fn power<'a>(data: &TrialSet<'a>) -> Vec<Question<'a>> {
    let shapes = shapes(data);
    let compare = |metric: ClaimMetric, path: IoPath, relation, against: Against<'a>, shape: Shape| {
        Comparison { metric, cell: data.cell(path, shape), relation, against, published: [None; 2] }
    };
    let cell = |path, shape: &Shape| Against::ClaimCell(data.cell(path, *shape));
    let hybrid = |shape: &Shape| {
        vec![
            compare(CPU, HYBRID, Relation::Less, cell(POLL, shape), *shape),
            compare(WATTS, HYBRID, Relation::More, cell(POLL, shape), *shape),
        ]
    };
    let poll = |shape: &Shape| vec![compare(WATTS, POLL, Relation::Less, cell(INTERRUPT, shape), *shape)];
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
    let text = "the map of bytes per joule over request size and threads".to_owned();
    if !several(|shape| shape.bs) || !several(|shape| shape.numjobs) {
        let first = cells.iter().find_map(|(_, cells)| lacks(cells));
        let grid = "bytes per joule of all three completion modes at two request sizes and two thread counts";
        let need = first.map_or_else(|| grid.to_owned(), |first| format!("{grid}; first of all {first}"));
        return vec![Question::Missing { text, at: String::new(), need }];
    }
    let cores = data.machine.cores;
    if !complete.iter().any(|(shape, _)| shape.numjobs > cores) {
        let need =
            format!("bytes per joule of all three completion modes with more threads than cores ({cores})");
        return vec![Question::Missing { text, at: String::new(), need }];
    }
    let mut decided: Vec<winner::MapCell> =
        complete.iter().map(|(_, cells)| ranked(cells, complete.len())).collect();
    winner::correct(decided.iter_mut());
    let tiles: Vec<MapTile> =
        complete.iter().zip(&decided).filter_map(|((_, cells), ranked)| tile(cells, ranked)).collect();
    let all: Vec<ClaimCell<'a>> = complete.iter().flat_map(|(_, cells)| cells.clone()).collect();
    let low = where_latency_is_low(&tiles, data.machine.looks.max(1));
    vec![Question::OwnRule(seldom(&tiles, all)), Question::OwnRule(low)]
}

/// The winner of a cell, one of so many.
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
    };
    rank(cells.iter().map(|cell| (cell.path, cell.sample(BYTES_PER_JOULE))).collect(), &question, family)
}

fn tile(cells: &[ClaimCell<'_>; 3], ranked: &winner::MapCell) -> Option<MapTile> {
    Some(MapTile {
        winner: (ranked.decision() == Decision::Winner).then(|| ranked.ranking[0].path),
        latency_us: cells.iter().find(|cell| cell.path == INTERRUPT)?.mean(MEAN_LATENCY)?,
    })
}

/// Hybrid does the fewest bytes per joule, generally.
pub(super) fn least<'a>(data: &TrialSet<'a>) -> Vec<Question<'a>> {
    let each = |shape: Shape| {
        let less = |other: IoPath| Comparison {
            metric: BYTES_PER_JOULE,
            cell: data.cell(HYBRID, shape),
            relation: Relation::Less,
            against: Against::ClaimCell(data.cell(other, shape)),
            published: [None; 2],
        };
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

fn figure(of: String, unit: &'static str, values: &[f64]) -> ClaimFigure {
    let summary = summarize(values);
    let mean = summary.map(|summary| summary.mean);
    let interval = summary.and_then(|summary| summary.interval);
    ClaimFigure { of, unit, replicates: values.len(), mean, interval, published: None }
}

/// Hybrid wins nearly nowhere.
fn seldom<'a>(tiles: &[MapTile], cells: Vec<ClaimCell<'a>>) -> OwnRule<'a> {
    let decided = tiles.iter().filter(|tile| tile.winner.is_some()).count();
    let won = tiles.iter().filter(|tile| tile.winner == Some(HYBRID)).count();
    let answer = match (decided, won as f64 <= NEARLY_NONE * decided as f64) {
        (0, _) => Answer::Undecided(format!("all {} cells of the map are ties", tiles.len())),
        (_, true) => Answer::Holds,
        (_, false) => Answer::DoesNotHold,
    };
    OwnRule {
        text: format!("bytes per joule: {HYBRID} wins at most {NEARLY_NONE} of the decided cells"),
        at: String::new(),
        answer,
        figures: vec![
            figure(HYBRID.to_string(), "cells", &[won as f64]),
            figure("all".to_owned(), "decided cells", &[decided as f64]),
        ],
        p: None,
        cells,
    }
}

/// Poll wins where latency is low, interrupt where it is high.
fn where_latency_is_low<'a>(tiles: &[MapTile], looks: u32) -> OwnRule<'a> {
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
        Some(p) if p >= LEVEL => Answer::Undecided(format!("no significant difference (p = {p:.2})")),
        Some(_) if lower => Answer::Holds,
        Some(_) => Answer::DoesNotHold,
    };
    OwnRule {
        text: format!(
            "interrupt's mean latency in the cells that {POLL} wins less than of those that {INTERRUPT} wins"
        ),
        at: String::new(),
        answer,
        figures: vec![figure(POLL.to_string(), "us", &poll), figure(INTERRUPT.to_string(), "us", &interrupt)],
        p,
        cells: Vec::new(),
    }
}
