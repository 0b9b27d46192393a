//! `iopj predict`: what paths and workloads would do that were not measured, and how good such predictions
//! are.

mod cases;
mod drawing;
mod kernel;
mod load;
mod published;
mod text;

use crate::args::PredictArgs;
use crate::calibrate::{calibrated, observed};
use crate::output::{note, print, print_json, write_new};
use anyhow::anyhow;
use drawing::draw;
use iopj_model::answers::{Group, RANKED, Scores, Wanted, closed, json, simulated};
use iopj_model::{Case, DataSheet, Model, Observation, against, cross_validate};
use load::Asked;
use std::path::Path;
use std::process::ExitCode;

/// Folds of a cross-validation.
const FOLDS: usize = 10;
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
    let mut wanted = cases::wanted(args)?;
    if let Asked::Trace(recorded, _) = &asked {
        let (rw, reads, bs) = recorded.words(model);
        wanted = Wanted { rws: vec![rw], rwmixread: Some(reads), sizes: vec![bs], ..wanted };
    }
    Ok(wanted.cases(model).into_iter().map(of).collect())
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
