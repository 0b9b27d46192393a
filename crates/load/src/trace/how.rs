//! How a trace is put on a target, in fio's words, and why it cannot be.
//!
//! The words do what they do in fio (`delay_since_ttime` and `ipo_bytes_align` of its iolog.c and iolog.h).

use super::Op;
use iopj_core::format_bytes;
use std::fmt;
use std::str::FromStr;

/// What becomes of an I/O that reaches beyond the target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Beyond {
    /// The trace is refused.
    #[default]
    Refuse,
    /// Its offset is taken modulo the target's length; if it then still reaches over the end, it is moved
    /// back to where it fits.
    Wrap,
}

impl fmt::Display for Beyond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Beyond::Refuse => "refuse",
            Beyond::Wrap => "wrap",
        })
    }
}

/// A text that says of no way what becomes of such an I/O.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a value of map; write refuse or wrap")]
pub struct ParseBeyondError(String);

impl FromStr for Beyond {
    type Err = ParseBeyondError;

    fn from_str(text: &str) -> Result<Beyond, ParseBeyondError> {
        match text {
            "refuse" => Ok(Beyond::Refuse),
            "wrap" => Ok(Beyond::Wrap),
            _ => Err(ParseBeyondError(text.to_owned())),
        }
    }
}

/// How a trace is replayed. The default is as it was recorded, whole.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct How {
    /// fio's `replay_time_scale`: the rate in per cent of the recorded one, so 50 is half as fast. At least
    /// 1.
    pub time_scale: u32,
    /// fio's `replay_no_stall`: every I/O is due at once.
    pub no_stall: bool,
    /// fio's `replay_scale`: offsets are divided by it. At least 1.
    pub scale: u64,
    /// fio's `replay_align`: offsets are lowered to multiples of it. A power of two; 1 leaves them.
    pub align: u64,
    /// What lies beyond the target.
    pub map: Beyond,
    /// The one device of the trace that is replayed. Without it all are, and they are laid one after the
    /// other on the target, each as long as its furthest byte.
    pub device: Option<String>,
    /// fio's `replay_skip`: what is not replayed.
    pub skip: Vec<Op>,
}

impl Default for How {
    fn default() -> How {
        How {
            time_scale: 100,
            no_stall: false,
            scale: 1,
            align: 1,
            map: Beyond::Refuse,
            device: None,
            skip: Vec::new(),
        }
    }
}

/// Where a trace is replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Onto {
    /// The first byte that may be used; a whole block.
    pub base: u64,
    /// How many bytes may be used from there on.
    pub len: u64,
    /// The logical block, of which offsets and lengths are multiples: a power of two.
    pub block: u32,
    /// The longest read or write: whole blocks. Longer ones are split.
    pub max_len: u32,
}

impl Onto {
    /// The longest piece of an operation. A discard has no buffer that would limit it.
    pub(super) fn most(self, op: Op) -> u64 {
        u64::from(if op.transfers() { self.max_len } else { u32::MAX - (self.block - 1) })
    }
}

/// Why a trace cannot be replayed on a target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what each field is")]
pub enum ReplayError {
    /// No speed at all.
    #[error("a replay_time_scale of 0 would last for ever; write a percentage of at least 1")]
    TimeScale,
    /// A division by nothing.
    #[error("a replay_scale of 0 divides no offset; write 1 or more")]
    Scale,
    /// An alignment that is no power of two.
    #[error("a replay_align of {0} bytes is no power of two; write 4k, for example")]
    Align(u64),
    /// A block that no device has.
    #[error("blocks of {0} bytes are no power of two")]
    Block(u32),
    /// A buffer that does not hold whole blocks.
    #[error("I/Os of at most {max_len} bytes are not whole blocks of {block}; take a multiple of it")]
    MaxLen { max_len: u32, block: u32 },
    /// A target that holds no block.
    #[error("a target of {len} bytes holds no block of {grain} (the larger of its own and replay_align)")]
    NoRoom { len: u64, grain: u64 },
    /// A device that the trace does not name.
    #[error("the trace has no device {name}; it has {devices}")]
    Device { name: String, devices: String },
    /// Nothing is left.
    #[error("nothing of the trace is left to be replayed; left out: {0}")]
    Nothing(String),
    /// Beyond the target, and not to be wrapped.
    #[error(
        "the trace reaches to byte {end} of a target of {len} that can be used; take a target of {}, \
         replay_map = \"wrap\", or replay_scale = {scale} or more", format_bytes(*end)
    )]
    Beyond { end: u64, len: u64, scale: u64 },
    /// An I/O that is longer than the target.
    #[error("an I/O of {len} bytes does not fit a target of {target} bytes; take a longer one")]
    TooLong { len: u64, target: u64 },
    /// Devices whose lengths do not add up to an offset.
    #[error("the devices of the trace, one after the other, reach beyond 8 EiB; choose one of them")]
    TooFar,
}

/// Refuses what cannot be.
pub(super) fn check(how: &How, onto: Onto) -> Result<(), ReplayError> {
    let Onto { block, max_len, .. } = onto;
    if how.time_scale == 0 {
        return Err(ReplayError::TimeScale);
    }
    if how.scale == 0 {
        return Err(ReplayError::Scale);
    }
    if !how.align.is_power_of_two() {
        return Err(ReplayError::Align(how.align));
    }
    if !block.is_power_of_two() {
        return Err(ReplayError::Block(block));
    }
    let grain = u64::from(block).max(how.align);
    if onto.len < grain {
        return Err(ReplayError::NoRoom { len: onto.len, grain });
    }
    if max_len == 0 || !max_len.is_multiple_of(block) {
        return Err(ReplayError::MaxLen { max_len, block });
    }
    Ok(())
}
