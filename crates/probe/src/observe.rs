//! What evidence shows to have happened, found without knowing what was asked for.
//!
//! A property is seen only if the counts leave no other explanation; what the reasons call foreign, missing
//! or split is explained in `docs/verdicts.md`. Completions are left to `completion_by_counts` and
//! `completion_by_interrupts`, submissions to `submission`.

use crate::completion_by_counts::by_counts;
use crate::completion_by_interrupts::{by_interrupts, unclear};
use crate::doubt::{doubt, uncounted};
use crate::quantities::completions_text;
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
        return unclear("no I/O on a known disk, so nothing shows how completions were found");
    }
    if let Some(disk) = uncounted(evidence) {
        return unclear(format!(
            "the interrupts cannot be compared with the I/Os: `queue/iostats` of {disk} is 0, set it to 1"
        ));
    }
    if let Some(Finding::Seen(counts)) = &evidence.completions {
        if let Some(finding) = by_counts(evidence, counts) {
            return finding;
        }
        if counts.total() > 0 {
            return unclear(format!(
                "{}: a cache, a hole or merges kept the others from the disk",
                completions_text(counts)
            ));
        }
    }
    by_interrupts(evidence)
}
