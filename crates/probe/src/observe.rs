//! What evidence shows to have happened, found without knowing what was asked for.
//!
//! A property is seen only if the counts leave no other explanation; what the reasons call foreign, missing
//! or split is explained in `docs/verdicts.md`. Completions are left to `completion_by_counts` and
//! `completion_by_interrupts`, submissions to `submission`.

use crate::completion_by_counts::by_counts;
use crate::completion_by_interrupts::{by_interrupts, unclear};
use crate::doubt::{doubt, uncounted};
use crate::over_tcp::polled_over_tcp;
use crate::quantities::completions_text;
use crate::remedy::Remedy;
use crate::submission::submission;
use iopj_core::evidence::{Evidence, Finding, Observed};
use iopj_core::path::CompletionMode;

/// What the evidence shows.
pub fn observe(evidence: &Evidence) -> Observed {
    let completion = completion(evidence);
    Observed { submission: submission(evidence, &completion), completion, doubt: doubt(evidence) }
}

fn completion(evidence: &Evidence) -> Finding<CompletionMode> {
    if evidence.ios() == 0 || evidence.devices.is_empty() {
        let remedy = if evidence.ios() == 0 { Remedy::MeasureLonger } else { Remedy::KnownDisk };
        return unclear("no I/O on a known disk, so nothing shows how completions were found", remedy);
    }
    if let Some(disk) = uncounted(evidence) {
        let why = format!("the interrupts cannot be compared with the I/Os: `queue/iostats` of {disk} is 0");
        return unclear(why, Remedy::CountIos);
    }
    if let Some(Finding::Seen(counts)) = &evidence.completions {
        let found = polled_over_tcp(evidence, counts).or_else(|| by_counts(evidence, counts));
        if let Some(finding) = found {
            return finding;
        }
        if counts.total() > 0 {
            let why = "a cache, a hole or merges kept the others from the disk";
            return unclear(format!("{}: {why}", completions_text(counts)), Remedy::WholeTarget);
        }
    }
    by_interrupts(evidence)
}
