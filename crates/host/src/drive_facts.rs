//! What a drive that was taken reports to our driver about itself, and how our driver set it up.

use iopj_engine::PciAddress;
use iopj_engine::nvme_user::{Controller, Identity};
use std::collections::BTreeMap;

/// Facts of the drive, under its address.
pub fn facts(controller: &Controller) -> BTreeMap<String, String> {
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

/// Which features are set as under the kernel, and why the others are not.
pub fn set_up(identity: &Identity) -> BTreeMap<String, String> {
    let of_host =
        [("host_memory_buffer", identity.host_memory.to_string()), ("apst", identity.apst.to_string())];
    let of_host = of_host.into_iter().map(|(name, value)| (name.to_owned(), value));
    let features =
        identity.features.iter().map(|state| (state.prior.name.replace(' ', "_"), state.to_string()));
    let unknown = identity.features.is_empty().then(|| ("features".to_owned(), NOT_KNOWN.to_owned()));
    of_host.chain(features).chain(unknown).collect()
}

/// The features of a drive of which none was read before it was taken.
const NOT_KNOWN: &str = "not known as they were under the kernel, so as the reset left them";

/// One warning for each feature that a drive did not take again: its trials measure another drive than those
/// of the kernel's paths.
pub fn not_as_before(address: PciAddress, identity: &Identity) -> Vec<String> {
    let others = identity.features.iter().filter(|state| !state.is_as_before());
    let warning = others.map(|state| {
        let (name, id) = (state.prior.name, state.prior.id);
        format!(
            "{address}: {name} (feature {id:02X}h) under nvme-user is {state}; to compare the two, give the \
             drive a value under the kernel that it keeps under both"
        )
    });
    warning.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopj_engine::nvme_user::{Apst, FeatureState, FeatureValue, HostMemory};

    fn identity(features: Vec<FeatureState>) -> Identity {
        Identity {
            model: "Sim".to_owned(),
            serial: "S 1".to_owned(),
            firmware: "1".to_owned(),
            queue_pairs: 4,
            max_transfer_bytes: 2 << 20,
            vectors: 2,
            shadow_doorbells: false,
            host_memory: HostMemory::NotAsked,
            apst: Apst::Unsupported,
            features,
            vfio: "type1",
        }
    }

    fn state(id: u8, name: &'static str, current: Result<u32, u16>, refusal: Option<u16>) -> FeatureState {
        FeatureState { prior: FeatureValue { name, id, value: 0, mask: u32::MAX }, current, refusal }
    }

    /// Only the evidence said that a drive did not take its write cache's old value, and nobody
    /// looks there.
    #[test]
    fn a_feature_that_is_not_as_it_was_is_a_warning_with_both_values() {
        let identity = identity(vec![
            state(0x02, "power state", Ok(0), None),
            state(0x06, "volatile write cache", Ok(1), Some(0x10e)),
            state(0x08, "interrupt coalescing", Err(0x2), Some(0x2)),
        ]);
        let remedy = "to compare the two, give the drive a value under the kernel that it keeps under both";
        let is = [
            "volatile write cache (feature 06h) under nvme-user is 0x1, 0x0 under the kernel: it refuses \
             that (NVMe status 0x10e)",
            "interrupt coalescing (feature 08h) under nvme-user is unknown, 0x0 under the kernel: it does \
             not say (NVMe status 0x2)",
        ];
        let warnings = not_as_before("0000:01:00.0".parse().unwrap(), &identity);
        assert_eq!(warnings, is.map(|is| format!("0000:01:00.0: {is}; {remedy}")));
        assert_eq!(set_up(&identity)["power_state"], "0x0 as under the kernel");
        assert_eq!(set_up(&identity).get("features"), None);
    }

    /// A trial on a drive that vfio-pci had already looked like one on a drive without these features.
    #[test]
    fn features_of_which_nothing_is_known_are_said_to_be_so() {
        let identity = identity(Vec::new());
        assert_eq!(
            set_up(&identity)["features"],
            "not known as they were under the kernel, so as the reset left them"
        );
        assert_eq!(not_as_before("0000:01:00.0".parse().unwrap(), &identity), [""; 0]);
    }
}
