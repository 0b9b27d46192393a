//! `iopj predict`: what paths and workloads would do that were not measured, and how good such predictions
//! are.

mod cases;
mod json;
mod kernel;
mod load;
mod published;
mod text;

use crate::args::PredictArgs;
use crate::calibrate::{calibrated, observed};
use crate::output::{note, print, print_json, write_figures, write_new};
use anyhow::anyhow;
use iopj_model::{
    CannotPredict, Case, DataSheet, Model, Observation, OpenError, OpenPrediction, Prediction, Quantity,
    Scored, Turn, against, cross_validate,
};
use iopj_report::render::html::{Predicted, predicted_figures};
use load::Asked;
use std::path::Path;
use std::process::ExitCode;

/// Folds of a cross-validation.
const FOLDS: usize = 10;
/// What paths are ranked by.
const RANKED: [Quantity; 4] =
    [Quantity::Iops, Quantity::LatencyP99, Quantity::CpuPerIo, Quantity::IosPerJoule];

/// Which path is the best in a quantity, how sure it is that it beats the next, and what would change
/// their order.
struct Lead {
    quantity: Quantity,
    pair: [Case; 2],
    probability: f64,
    /// Absent under an open load, for which they are not sought.
    turns: Option<Vec<Turn>>,
}

/// Predictions of one workload, the path with the most IOPS first.
struct Group {
    workload: String,
    rows: Vec<Vec<Prediction>>,
    leads: Vec<Lead>,
    /// Paths that fall behind an open load, and the share of the parameters' draws in which they do.
    behind: Vec<(Case, f64)>,
    /// True if the latency of those is as long as the simulation is; a trace that is simulated whole has an
    /// end, and its latency is a figure.
    grows: bool,
    /// Paths without a prediction, and why.
    without: Vec<(Case, String)>,
}

/// Predictions beside measurements.
struct Scores {
    scored: Vec<Scored>,
    /// Measurements for which the model lacks a parameter.
    lacking: usize,
    /// How the model came not to see them.
    held_back: String,
}

pub(crate) fn predict(args: &PredictArgs) -> anyhow::Result<ExitCode> {
    if args.figures.is_some() && args.against.is_none() && !args.published {
        return Err(anyhow!("--figures draws predictions against measurements: add --against STORE"));
    }
    if args.published {
        return published::published(args);
    }
    let source = args.source.as_ref().ok_or_else(|| anyhow!("name a store or a model"))?;
    let (model, observations) = calibrated(source, &args.competing)?;
    if let Some(file) = &args.write_model {
        let text = model.to_toml().map_err(|error| anyhow!("--write-model: {error}"))?;
        write_new("--write-model", file, &text)?;
        note(&format!("{} is written", file.display()));
    }
    let model = match (&args.from_kernel, &args.kernel) {
        (Some(from), Some(to)) => model.on_kernel(kernel::changed(&model, [from, to])?),
        _ => model,
    };
    if let Some(store) = &args.against {
        let scores = scores(&model, &observations, (source, store), args)?;
        if let Some(folder) = &args.figures {
            draw(folder, &scores, "predictions")?;
        } else if args.json {
            print_json(&json::scores(&scores))?;
        } else {
            print(&text::scores(&scores))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let sheet = args.drive.as_deref().map(str::parse::<DataSheet>).transpose();
    let sheet = sheet.map_err(|error| anyhow!("--drive: {error}"))?;
    let model = match sheet {
        Some(sheet) => model.on(&sheet),
        None => model,
    };
    let groups = groups(args, &model)?;
    if args.json {
        print_json(&json::groups(&model, &groups))?;
    } else {
        print(&text::groups(&model, &groups))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Predictions of the workloads that the options ask for.
fn groups(args: &PredictArgs, model: &Model) -> anyhow::Result<Vec<Group>> {
    let asked = load::load(args)?;
    let of = |(workload, cases): (String, Vec<Case>)| match &asked {
        Asked::Closed => closed(model, workload, &cases),
        Asked::Open(load, words) => {
            let title = format!("{workload}, {words}");
            let group = simulated(model, title, &cases, &RANKED[1..], |case| model.open(case, *load));
            Group { grows: true, ..group }
        }
        Asked::Trace(recorded, words) => {
            let title = format!("{words}{}: {workload}", load::kinds(recorded, model));
            // What is due at once is a closed loop, whose rate is the path's.
            let ranked = if recorded.span_ns().is_some() { &RANKED[1..] } else { &RANKED[..] };
            let group = simulated(model, title, &cases, ranked, |case| model.replay(case, recorded));
            Group { grows: recorded.is_cut(), ..group }
        }
    };
    let words = match &asked {
        Asked::Trace(recorded, _) => Some(recorded.words(model)),
        _ => None,
    };
    Ok(cases::cases(args, model, words)?.into_iter().map(of).collect())
}

/// Predictions of another store's trials, or of each cell of the same store from the others.
fn scores(
    model: &Model,
    own: &[Observation],
    (source, store): (&Path, &Path),
    args: &PredictArgs,
) -> anyhow::Result<Scores> {
    let is_same = source.canonicalize().ok().is_some_and(|path| store.canonicalize().ok() == Some(path));
    if is_same && args.kernel.is_some() {
        return Err(anyhow!(
            "--kernel: {} is of the kernel that the model was calibrated on: compare with a store of the \
             other",
            store.display()
        ));
    }
    if is_same {
        let (scored, lacking) = cross_validate(own, FOLDS)
            .map_err(|error| anyhow!("{}: without a tenth of its cells, {error}", store.display()))?;
        let held_back = format!("each cell is predicted by a model of the other cells, in {FOLDS} parts");
        return Ok(Scores { scored, lacking, held_back });
    }
    let calibrated_by = model.provenance.get("store").and_then(|name| Path::new(name).canonicalize().ok());
    if calibrated_by.is_some_and(|path| store.canonicalize().ok() == Some(path)) {
        return Err(anyhow!(
            "{} was calibrated by {store}, so it has seen what it would be compared with: predict from \
             {store} itself, which holds cells back",
            source.display(),
            store = store.display()
        ));
    }
    let (observations, _) = observed(store, &args.competing)?;
    let (scored, lacking) = against(model, &observations);
    let held_back = format!("{} calibrated the model, and {} did not", source.display(), store.display());
    Ok(Scores { scored, lacking, held_back })
}

/// Predictions of a closed workload.
fn closed(model: &Model, workload: String, cases: &[Case]) -> Group {
    let (mut rows, mut without) = (Vec::new(), Vec::new());
    for case in cases {
        match model.predict(case, Quantity::Iops) {
            Err(CannotPredict::Crowded { .. }) => match model.closed(case) {
                Ok(simulated) => rows.push(simulated.predictions),
                Err(why) => without.push((*case, why.to_string())),
            },
            Err(why) => without.push((*case, why.to_string())),
            Ok(_) => {
                let all = Quantity::ALL.into_iter().filter_map(|one| model.predict(case, one).ok());
                rows.push(all.collect::<Vec<Prediction>>());
            }
        }
    }
    // The first quantity is the rate, of which each row has one.
    rows.sort_by(|a, b| b[0].value.total_cmp(&a[0].value));
    let sure = |[first, second]: [&Case; 2], quantity| model.better([first, second], quantity).ok();
    let turns = |pair: [&Case; 2], quantity| Some(model.turns(pair, quantity));
    let leads = RANKED.into_iter().filter_map(|quantity| lead(&rows, quantity, sure, turns)).collect();
    Group { workload, rows, leads, behind: Vec::new(), grows: false, without }
}

/// Predictions of an open load or a trace. Those that keep up are ranked, but not by a rate that is the
/// load's.
fn simulated(
    model: &Model,
    workload: String,
    cases: &[Case],
    ranked: &[Quantity],
    simulate: impl Fn(&Case) -> Result<OpenPrediction, OpenError>,
) -> Group {
    let (mut rows, mut behind, mut without) = (Vec::new(), Vec::new(), Vec::new());
    let mut known: Vec<(Case, OpenPrediction)> = Vec::new();
    for case in cases {
        match simulate(case) {
            Err(why) => without.push((*case, why.to_string())),
            Ok(open) => {
                rows.push(open.predictions.clone());
                match open.overload {
                    true => behind.push((*case, open.overloaded)),
                    false => known.push((*case, open)),
                }
            }
        }
    }
    let of = |case: &Case| known.iter().find(|(one, _)| one == case).map(|(_, open)| open);
    let sure = |[first, second]: [&Case; 2], quantity| model.better_open([of(first)?, of(second)?], quantity);
    let keep_up: Vec<Vec<Prediction>> = known.iter().map(|(_, open)| open.predictions.clone()).collect();
    let leads = ranked.iter().filter_map(|quantity| lead(&keep_up, *quantity, sure, |_, _| None)).collect();
    Group { workload, rows, leads, behind, grows: false, without }
}

/// The lead in a quantity, of which two paths at least have a prediction.
fn lead(
    rows: &[Vec<Prediction>],
    quantity: Quantity,
    sure: impl Fn([&Case; 2], Quantity) -> Option<f64>,
    turns: impl Fn([&Case; 2], Quantity) -> Option<Vec<Turn>>,
) -> Option<Lead> {
    let mut all: Vec<&Prediction> = rows.iter().flatten().filter(|one| one.quantity == quantity).collect();
    all.sort_by(|a, b| match quantity.more_is_better() {
        true => b.value.total_cmp(&a.value),
        false => a.value.total_cmp(&b.value),
    });
    let pair = [all.first()?.case, all.get(1)?.case];
    let [first, second] = &pair;
    let probability = sure([first, second], quantity)?;
    Some(Lead { quantity, pair, probability, turns: turns([first, second], quantity) })
}

/// Draws predictions against measurements into a folder.
fn draw(folder: &Path, scores: &Scores, title: &str) -> anyhow::Result<()> {
    let point = |one: &Scored| {
        let (quantity, factor) = one.observation.quantity.shown();
        Predicted {
            quantity: quantity.to_owned(),
            series: one.observation.case.path.to_string(),
            place: one.observation.case.workload(),
            measured: one.observation.value * factor,
            predicted: one.prediction.value * factor,
            interval: one.prediction.interval.map(|end| end * factor),
            is_covered: one.is_covered(),
        }
    };
    let mut points: Vec<Predicted> = scores.scored.iter().map(point).collect();
    points.sort_by(|a, b| a.series.cmp(&b.series));
    write_figures(folder, &predicted_figures(&points, title))
}
