//! A trace as the load: I/O that was recorded elsewhere, in fio's words.

use serde::{Deserialize, Serialize};

/// Which trace is replayed, and how it is put on the target. docs/traces.md says what each word does.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TraceLoad {
    /// The file (`read_iolog`).
    #[serde(rename = "read_iolog")]
    pub file: String,
    /// The rate in per cent of the recorded one.
    #[serde(rename = "replay_time_scale", default = "hundred", skip_serializing_if = "is_hundred")]
    pub time_scale: u32,
    /// Every I/O is due at once.
    #[serde(rename = "replay_no_stall", default, skip_serializing_if = "std::ops::Not::not")]
    pub no_stall: bool,
    /// Offsets are divided by it.
    #[serde(rename = "replay_scale", default = "one", skip_serializing_if = "is_one")]
    pub scale: u64,
    /// Offsets are lowered to multiples of so many bytes.
    #[serde(rename = "replay_align", default = "one", skip_serializing_if = "is_one")]
    pub align: u64,
    /// What lies beyond the target is wrapped into it; else the trace is refused.
    #[serde(rename = "replay_wrap", default, skip_serializing_if = "std::ops::Not::not")]
    pub wrap: bool,
    /// The one device of the trace that is replayed.
    #[serde(rename = "replay_device", default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Operations that are not replayed.
    #[serde(rename = "replay_skip", default, skip_serializing_if = "Vec::is_empty")]
    pub skip: Vec<TraceOp>,
}

fn hundred() -> u32 {
    100
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_hundred(scale: &u32) -> bool {
    *scale == 100
}

fn one() -> u64 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_one(number: &u64) -> bool {
    *number == 1
}

/// An operation of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TraceOp {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// fdatasync, or a flush of the drive.
    Flush,
    /// fsync.
    Fsync,
    /// Discards.
    Discard,
}

impl TraceLoad {
    /// All keys.
    pub const KEYS: [&str; 8] = [
        "read_iolog",
        "replay_time_scale",
        "replay_no_stall",
        "replay_scale",
        "replay_align",
        "replay_map",
        "replay_device",
        "replay_skip",
    ];

    /// A whole trace, as it was recorded.
    pub fn of(file: &str) -> TraceLoad {
        TraceLoad {
            file: file.to_owned(),
            time_scale: 100,
            no_stall: false,
            scale: 1,
            align: 1,
            wrap: false,
            device: None,
            skip: Vec::new(),
        }
    }

    /// True if the replay may change what the target holds.
    pub fn writes(&self) -> bool {
        ![TraceOp::Write, TraceOp::Discard].iter().all(|op| self.skip.contains(op))
    }

    /// True if a read may be replayed.
    pub fn reads(&self) -> bool {
        !self.skip.contains(&TraceOp::Read)
    }

    /// The keys that differ from a whole trace as it was recorded, with their values.
    pub fn keys(&self) -> Vec<(&'static str, String)> {
        let plain = TraceLoad::of(&self.file);
        let words: Vec<String> = self.skip.iter().map(|op| format!("{op:?}").to_lowercase()).collect();
        let all = [
            ("read_iolog", true, self.file.clone()),
            ("replay_time_scale", self.time_scale != plain.time_scale, self.time_scale.to_string()),
            ("replay_no_stall", self.no_stall, "true".to_owned()),
            ("replay_scale", self.scale != plain.scale, self.scale.to_string()),
            ("replay_align", self.align != plain.align, self.align.to_string()),
            ("replay_map", self.wrap, "wrap".to_owned()),
            ("replay_device", self.device.is_some(), self.device.clone().unwrap_or_default()),
            ("replay_skip", !words.is_empty(), words.join(",")),
        ];
        all.into_iter().filter(|(_, differs, _)| *differs).map(|(key, _, value)| (key, value)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_names_only_what_differs_and_round_trips() {
        let plain = TraceLoad::of("a.csv");
        assert_eq!(serde_json::to_string(&plain).unwrap(), r#"{"read_iolog":"a.csv"}"#);
        assert_eq!(plain.keys(), [("read_iolog", "a.csv".to_owned())]);
        let skip = vec![TraceOp::Write, TraceOp::Discard];
        let other =
            TraceLoad { time_scale: 200, no_stall: true, align: 4096, wrap: true, skip, ..plain.clone() };
        let json = serde_json::to_string(&other).unwrap();
        assert_eq!(serde_json::from_str::<TraceLoad>(&json).unwrap(), other);
        assert!(json.contains(r#""replay_skip":["write","discard"]"#), "{json}");
        assert_eq!((plain.writes(), other.writes(), other.keys().len()), (true, false, 6));
    }
}
