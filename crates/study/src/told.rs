//! What a drive that was taken tells our driver of itself, and how it was set up.

use iopj_engine::nvme_user::{Controller, Identity};
use std::collections::BTreeMap;

/// Facts of the drive, under its address.
pub(crate) fn facts(controller: &Controller) -> BTreeMap<String, String> {
    let (address, identity) = (controller.address(), controller.identity());
    let facts = [
        ("model", identity.model.clone()),
        ("serial", identity.serial.clone()),
        ("firmware", identity.firmware.clone()),
        ("queue_pairs", identity.queue_pairs.to_string()),
        ("vectors", identity.vectors.to_string()),
        ("max_transfer_bytes", identity.max_transfer_bytes.to_string()),
        ("shadow_doorbells", if identity.shadow_doorbells { "yes" } else { "no" }.to_owned()),
        ("vfio", identity.vfio.to_owned()),
    ];
    let facts = facts.into_iter().map(|(name, value)| (name.to_owned(), value)).chain(set_up(identity));
    facts.map(|(name, value)| (format!("{address}.{name}"), value)).collect()
}

/// What was set up as under the kernel, or why it was not.
pub(crate) fn set_up(identity: &Identity) -> BTreeMap<String, String> {
    let of_host = [("host_memory_buffer", identity.host_memory.to_string()), ("apst", identity.apst.to_string())];
    let of_host = of_host.into_iter().map(|(name, value)| (name.to_owned(), value));
    let features = identity.features.iter().map(|state| (state.kept.name.replace(' ', "_"), state.to_string()));
    of_host.chain(features).collect()
}
