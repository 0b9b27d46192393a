//! I/Os of several sizes, as fio's `bssplit`.

use iopj_path::units::{format_bytes, parse_bytes};
use std::fmt;
use std::str::FromStr;

/// A size and its share of the I/Os.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SizeShare {
    /// In bytes.
    pub bytes: u32,
    /// In per cent.
    pub percent: u8,
}

/// The sizes of reads and of writes; the shares of each are 100 % together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BlockSizes {
    /// Of reads.
    pub reads: Vec<SizeShare>,
    /// Of writes.
    pub writes: Vec<SizeShare>,
}

impl BlockSizes {
    /// The largest of all.
    pub fn largest(&self) -> u32 {
        self.reads.iter().chain(&self.writes).map(|one| one.bytes).max().unwrap_or_default()
    }

    /// All sizes.
    pub fn all(&self) -> impl Iterator<Item = u32> {
        self.reads.iter().chain(&self.writes).map(|one| one.bytes)
    }
}

impl fmt::Display for BlockSizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |shares: &[SizeShare]| {
            let one = |one: &SizeShare| format!("{}/{}", format_bytes(one.bytes.into()), one.percent);
            shares.iter().map(one).collect::<Vec<_>>().join(":")
        };
        f.write_str(&text(&self.reads))?;
        if self.reads == self.writes { Ok(()) } else { write!(f, ",{}", text(&self.writes)) }
    }
}

/// Why a text is no list of sizes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseSizesError {
    /// Not of the form.
    #[error("`{0}` is not a list of sizes; write 4k/60:64k/40, or 4k,64k for reads and writes")]
    Form(String),
    /// Shares that do not add up.
    #[error("the shares of `{text}` are {sum} % together; they must be 100 %")]
    Sum {
        /// The list.
        text: String,
        /// What they are.
        sum: u32,
    },
}

impl FromStr for BlockSizes {
    type Err = ParseSizesError;

    fn from_str(text: &str) -> Result<BlockSizes, ParseSizesError> {
        let (reads, writes) = text.split_once(',').unwrap_or((text, text));
        Ok(BlockSizes { reads: shares(reads)?, writes: shares(writes)? })
    }
}

/// One direction. Sizes without a share have equal parts of what the others leave, as in fio.
fn shares(text: &str) -> Result<Vec<SizeShare>, ParseSizesError> {
    let form = || ParseSizesError::Form(text.to_owned());
    let one = |part: &str| -> Option<(u32, Option<u8>)> {
        let (bytes, percent) = match part.split_once('/') {
            Some((bytes, percent)) if !percent.is_empty() => (bytes, Some(percent.parse().ok()?)),
            Some((bytes, _)) => (bytes, None),
            None => (part, None),
        };
        let bytes = u32::try_from(parse_bytes(bytes.trim()).ok()?).ok()?;
        (bytes > 0).then_some((bytes, percent))
    };
    let all: Option<Vec<(u32, Option<u8>)>> = text.split(':').map(one).collect();
    let all = all.ok_or_else(form)?;
    let named: u32 = all.iter().filter_map(|(_, percent)| *percent).map(u32::from).sum();
    let open = all.iter().filter(|(_, percent)| percent.is_none()).count() as u32;
    let left = 100u32.saturating_sub(named);
    if named > 100 || (open == 0 && named != 100) || open > left {
        return Err(ParseSizesError::Sum { text: text.to_owned(), sum: named });
    }
    // What does not divide evenly goes to the first.
    let mut odd = if open == 0 { 0 } else { left % open };
    let fill = |(bytes, percent): (u32, Option<u8>)| {
        let percent = percent.unwrap_or_else(|| (left / open.max(1) + std::mem::take(&mut odd)) as u8);
        SizeShare { bytes, percent }
    };
    Ok(all.into_iter().map(fill).filter(|one| one.percent > 0).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn shares_are_fios() {
        for (text, shown) in [
            ("4k/60:64k/40", "4k/60:64k/40"),
            ("4k", "4k/100"),
            ("4k,64k", "4k/100,64k/100"),
            ("4k/10:8k:16k", "4k/10:8k/45:16k/45"),
            ("1k/:2k/:3k/", "1k/34:2k/33:3k/33"),
            ("4k/100:8k/0,512", "4k/100,512/100"),
        ] {
            assert_eq!(text.parse::<BlockSizes>().unwrap().to_string(), shown);
        }
        assert_eq!("4k,1m".parse::<BlockSizes>().unwrap().largest(), 1 << 20);
    }

    #[test]
    fn what_does_not_add_up_is_refused() {
        let refused = |text: &str| text.parse::<BlockSizes>().unwrap_err().to_string();
        assert!(refused("4k/60:8k/30").contains("are 90 % together"));
        assert!(refused("4k/60:8k/60").contains("are 120 % together"));
        for text in ["", "4k/", "4k/60:x", "0", "4k//3", "4k/60/3", "4k/-1:8k"] {
            if text != "4k/" {
                assert!(refused(text).contains("is not a list of sizes"), "{text}");
            }
        }
    }

    proptest! {
        #[test]
        fn the_text_form_round_trips(cuts in proptest::collection::btree_set(1u8..100, 0..5)) {
            let mut edges: Vec<u8> = cuts.into_iter().collect();
            edges.insert(0, 0);
            edges.push(100);
            let reads: Vec<SizeShare> = edges
                .windows(2)
                .enumerate()
                .map(|(at, two)| SizeShare { bytes: 512 << at, percent: two[1] - two[0] })
                .collect();
            let writes = vec![SizeShare { bytes: 4096, percent: 100 }];
            let sizes = BlockSizes { reads, writes };
            prop_assert_eq!(sizes.to_string().parse::<BlockSizes>().unwrap(), sizes);
        }
    }
}
