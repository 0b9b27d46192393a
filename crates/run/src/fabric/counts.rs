//! What either host counts and tells of itself.

use iopj_core::fabric::NicEvidence;
use iopj_probe::{NicSample, Nics};
use std::collections::BTreeMap;
use std::fs;

/// Context switches of all cores since the machine started (proc(5), `ctxt` in `/proc/stat`).
pub(crate) fn context_switches() -> u64 {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let count = text.lines().find_map(|line| line.strip_prefix("ctxt ")?.trim().parse().ok());
    count.unwrap_or_default()
}

/// Facts of a machine with a prefix before each name.
pub(crate) fn prefixed(prefix: &str, facts: BTreeMap<String, String>) -> BTreeMap<String, String> {
    facts.into_iter().map(|(name, value)| (format!("{prefix}.{name}"), value)).collect()
}

/// What the interfaces counted between two samples.
pub(crate) fn between(
    nics: Option<&Nics>,
    first: Option<NicSample>,
    last: Option<NicSample>,
) -> Vec<NicEvidence> {
    let samples = nics.zip(first.zip(last));
    samples.map(|(nics, (first, last))| nics.between(&first, &last)).unwrap_or_default()
}
