//! `iopj policy score`: whether paths that choose come up to the best static path of each cell, by the
//! thresholds that the study states.

use crate::args::ScoreArgs;
use crate::opened::open;
use crate::output::{FAILURES, print, print_json};
use anyhow::anyhow;
use iopj_analysis::metric::Metric;
use iopj_analysis::score::{ScoreQuestion, admits, score as score_trials};
use iopj_auto::{Aim, Policy};
use iopj_core::PolicyName;
use iopj_record::{StudyRecord, Trial};
use iopj_study::{ScoreKeys, Study};
use serde_json::json;
use std::collections::BTreeMap;
use std::process::ExitCode;

pub(super) fn score(args: &ScoreArgs) -> anyhow::Result<ExitCode> {
    let name = args.store.display();
    let store = open(&args.store)?;
    let (record, trials) = (store.study()?, store.trials()?);
    admits(&record, &trials).map_err(|why| anyhow!("{name}: {why}"))?;
    let study = Study::parse(&record.text, "the store's study").map_err(|why| anyhow!("{name}: {why}"))?;
    let ScoreKeys { margin, level } = study.score.unwrap_or_default();
    let aims = aims(&record, &trials).map_err(|why| anyhow!("{name}: {why}"))?;
    let aim = |policy: &PolicyName| aims.get(policy).copied().unwrap_or(Metric::LatencyMean);
    let (frozen, admission) = (study.score.is_some(), args.competing.admission());
    let question = ScoreQuestion { margin, level, frozen, admission, aim: &aim };
    let score = score_trials(&record, &trials, &question).map_err(|why| anyhow!("{name}: {why}"))?;
    if args.json {
        print_json(&json!(score))?;
    } else {
        print(&iopj_report::score(&score))?;
    }
    if let Some(why) = score.nothing() {
        return Err(anyhow!("{name}: nothing was tested: {why}"));
    }
    Ok(if score.fails() { ExitCode::from(FAILURES) } else { ExitCode::SUCCESS })
}

/// What each policy file of the paths is for, by the text that the store keeps of it.
fn aims(record: &StudyRecord, trials: &[Trial]) -> anyhow::Result<BTreeMap<PolicyName, Metric>> {
    let mut aims = BTreeMap::new();
    for name in trials.iter().filter_map(|trial| trial.path.auto()?.policy().copied()) {
        if aims.contains_key(&name) {
            continue;
        }
        let text = record.provenance.get(&format!("policy.{name}"));
        let text = text.ok_or_else(|| {
            anyhow!("the store has no text of the policy {name}, so nobody knows what it is for")
        })?;
        let policy: Policy = text.parse().map_err(|why| anyhow!("policy {name}: {why}"))?;
        let metric = match policy.aim {
            Aim::Latency => Metric::LatencyMean,
            Aim::Cpu => Metric::IopsPerCpu,
            Aim::IosPerJoule => Metric::IosPerJoule,
        };
        aims.insert(name, metric);
    }
    Ok(aims)
}
