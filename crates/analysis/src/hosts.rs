//! The two hosts of a study over fabrics, by their provenance.

use iopj_record::StudyRecord;
use serde::Serialize;

/// What makes two processors the same: their kind, their name, and how many of them there are.
const PROCESSOR: [&str; 3] = ["architecture", "cpu_model", "cpus_online"];

/// The processors of a study's two hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Processors {
    /// The host's architecture, such as `x86_64`; absent in a store that does not say it.
    pub host: Option<String>,
    /// The target host's.
    pub target_host: Option<String>,
    /// True if both hosts are known to have the same processor with as many cores.
    pub are_alike: bool,
}

impl Processors {
    /// Those of a study over fabrics; `None` if no agent told of a target host.
    pub fn of(study: &StudyRecord) -> Option<Processors> {
        let own = |name: &str| study.provenance.get(name);
        let far = |name: &str| study.provenance.get(&format!("target_host.{name}"));
        let target_host = far("architecture").cloned()?;
        let are_alike = PROCESSOR.iter().all(|name| own(name).is_some() && own(name) == far(name));
        Some(Processors { host: own("architecture").cloned(), target_host: Some(target_host), are_alike })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_processors_are_alike_only_in_kind_name_and_number() {
        let of = |facts: &[(&str, &str)]| {
            let facts = facts.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            Processors::of(&StudyRecord { provenance: facts.collect(), ..StudyRecord::default() })
        };
        let host = [("architecture", "x86_64"), ("cpu_model", "i7"), ("cpus_online", "0-7")];
        assert_eq!(of(&host), None);
        let with = |architecture, model, online| {
            let far = [
                ("target_host.architecture", architecture),
                ("target_host.cpu_model", model),
                ("target_host.cpus_online", online),
            ];
            of(&[&host[..], &far[..]].concat()).unwrap()
        };
        let alike = |processors: Processors| processors.are_alike;
        assert!(alike(with("x86_64", "i7", "0-7")));
        assert!(!alike(with("x86_64", "i7", "0-3")) && !alike(with("x86_64", "Xeon", "0-7")));
        let arm = with("aarch64", "i7", "0-7");
        assert_eq!([arm.host, arm.target_host], [Some("x86_64".to_owned()), Some("aarch64".to_owned())]);
        assert!(!arm.are_alike);
    }
}
