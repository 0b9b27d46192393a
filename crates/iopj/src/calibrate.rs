//! The cost model of a store or of a file, for the commands that use one.

use crate::args::Competing;
use crate::opened::open;
use crate::output::note;
use anyhow::{Context, anyhow};
use iopj_core::files::read_whole_text;
use iopj_model::{Model, Observation, observations};
use iopj_store::Store;
use std::collections::BTreeMap;
use std::path::Path;

/// The longest model, in bytes.
const LONGEST_MODEL: u64 = 16 << 20;

/// The model of a file, or one that a store calibrates, with what that store says.
pub(crate) fn calibrated(source: &Path, competing: &Competing) -> anyhow::Result<(Model, Vec<Observation>)> {
    if source.extension().is_some_and(|ending| ending == "toml") {
        let text = read_whole_text(source, LONGEST_MODEL)
            .with_context(|| format!("{} cannot be read: name a store or a model", source.display()))?;
        let model = Model::from_toml(&text).map_err(|error| anyhow!("{}: {error}", source.display()))?;
        return Ok((model, Vec::new()));
    }
    let (observations, mut provenance) = observed(source, competing)?;
    provenance.insert("store".to_owned(), source.display().to_string());
    let model = Model::calibrate(&observations, provenance)
        .map_err(|error| anyhow!("{}: {error}{}", source.display(), barred(source, competing)))?;
    Ok((model, observations))
}

/// What the competing trials of a store say, and the store's provenance. Trials that say nothing are noted.
pub(crate) fn observed(
    store: &Path,
    competing: &Competing,
) -> anyhow::Result<(Vec<Observation>, BTreeMap<String, String>)> {
    let opened = open(store)?;
    let study = opened.study()?;
    if let Some(emulator) = &study.emulated {
        return Err(anyhow!(
            "{}: times mean nothing under {emulator}, so nothing can be predicted from it: name a store of a \
             real machine",
            store.display()
        ));
    }
    let trials = opened.trials()?;
    let admission = competing.admission().of(&study);
    let (observations, left_out) = observations(&trials, |trial| admission.admit(trial).is_ok());
    for (why, count) in left_out {
        note(&format!("{}: {count} trials say nothing to the model, because of {why}", store.display()));
    }
    Ok((observations, study.provenance))
}

/// Why no trial of a store competes, if that is so, as a further sentence.
fn barred(store: &Path, competing: &Competing) -> String {
    let nobody = || {
        let store = Store::open(store).ok()?;
        let (study, trials) = (store.study().ok()?, store.trials().ok()?);
        competing.admission().of(&study).why_none_competes(&trials)
    };
    nobody().map_or(String::new(), |why| format!(" ({why})"))
}
