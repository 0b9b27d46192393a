//! The model against the papers: half of the figures that they print calibrate it, and it predicts the
//! others. Nothing here was measured by iopj.

use super::{draw, text};
use crate::args::PredictArgs;
use crate::output::{print, print_json};
use anyhow::anyhow;
use iopj_core::workload::Rw;
use iopj_model::answers::{Scores, json};
use iopj_model::{Case, Model, Observation, Quantity, against};
use iopj_papers::published::{COMPLETION_MODES, LATENCY, Paper};
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::ExitCode;

/// Hardware threads of both papers' processors.
const CORES: u32 = 8;

/// A printed figure and the half that it belongs to: the fields of the table alternate, as on a chessboard.
struct Printed {
    half: usize,
    observation: Observation,
}

/// A model of one paper's figures.
struct Tested {
    paper: Paper,
    /// Figures, parameters, and how many of these the data decide, in each half.
    counts: [(usize, usize, f64); 2],
    scores: Scores,
}

pub(super) fn published(args: &PredictArgs) -> anyhow::Result<ExitCode> {
    let papers = [tested(Paper::Poll22, &poll22()?)?, tested(Paper::Iface23, &iface23()?)?];
    if let Some(folder) = &args.figures {
        for (one, name) in papers.iter().zip(["poll22", "iface23"]) {
            draw(folder, &one.scores, name)?;
        }
    } else if args.json {
        let of = |one: &Tested| {
            let mut value = json::scores(&one.scores);
            value["paper"] = serde_json::json!(one.paper);
            value
        };
        print_json(&Value::Array(papers.iter().map(of).collect()))?;
    } else {
        print(&papers.iter().map(words).collect::<Vec<_>>().join("\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn words(one: &Tested) -> String {
    let [first, second] = one.counts;
    format!(
        "{}\n{} and {} figures calibrate a model of {} and {} parameters, of which they decide {:.1} and \
         {:.1}\n{}",
        one.paper.citation(),
        first.0,
        second.0,
        first.1,
        second.1,
        first.2,
        second.2,
        text::scores(&one.scores)
    )
}

/// Predicts each half of the figures from the other.
fn tested(paper: Paper, printed: &[Printed]) -> anyhow::Result<Tested> {
    let mut scores = Scores {
        scored: Vec::new(),
        lacking: 0,
        held_back: "each figure is predicted by a model that the other half of the figures calibrates".into(),
    };
    let mut counts = [(0, 0, 0.0); 2];
    for (half, count) in counts.iter_mut().enumerate() {
        let (own, others): (Vec<&Printed>, Vec<&Printed>) = printed.iter().partition(|one| one.half == half);
        let of = |all: Vec<&Printed>| all.into_iter().map(|one| one.observation).collect::<Vec<_>>();
        let (own, others) = (of(own), of(others));
        let model = Model::calibrate(&own, BTreeMap::new()).map_err(|error| anyhow!("{error}"))?;
        *count = (own.len(), model.parameters().count(), model.decided());
        let (scored, lacking) = against(&model, &others);
        scores.scored.extend(scored);
        scores.lacking += lacking;
    }
    Ok(Tested { paper, counts, scores })
}

fn case(path: &str, rw: Rw, numjobs: u32) -> anyhow::Result<Case> {
    Ok(Case { path: path.parse()?, rw, rwmixread: 50, bs: 4096, iodepth: 1, numjobs, batch: 1, cores: CORES })
}

fn printed(half: usize, case: Case, quantity: Quantity, value: f64) -> Printed {
    Printed {
        half: half % 2,
        observation: Observation { case, quantity, value, variance: 0.0, replicates: 1 },
    }
}

/// `poll22` Table 1: a row for each completion, a column for each number of threads.
fn poll22() -> anyhow::Result<Vec<Printed>> {
    let mut all = Vec::new();
    for (at, row) in COMPLETION_MODES.iter().enumerate() {
        let (half, case) = (at / 2 + at % 2, case(row.path, Rw::Randread, row.numjobs)?);
        all.push(printed(half, case, Quantity::LatencyMean, row.latency_us * 1e3));
        all.push(printed(half, case, Quantity::Iops, row.iops));
    }
    Ok(all)
}

/// `iface23` Table 2: a row for each path, a column for reads and one for writes.
fn iface23() -> anyhow::Result<Vec<Printed>> {
    let mut all = Vec::new();
    for (at, row) in LATENCY.iter().enumerate() {
        for (column, rw) in [Rw::Randread, Rw::Randwrite].into_iter().enumerate() {
            let case = case(row.path, rw, 1)?;
            let [p50, p99] = [row.us[column * 2], row.us[column * 2 + 1]];
            all.push(printed(at + column, case, Quantity::LatencyP50, p50 * 1e3));
            all.push(printed(at + column, case, Quantity::LatencyP99, p99 * 1e3));
        }
    }
    Ok(all)
}
