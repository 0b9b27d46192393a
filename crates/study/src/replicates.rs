//! `replicates`: how often each cell is measured, as a number of blocks or as blocks until decisions are
//! made.

use crate::error::{StudyError, error};
use iopj_core::Sequential;
use serde::{Deserialize, Serialize};

/// Times that each cell is measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "write a whole number of 1 or more, or a table such as { min = 5, max = 30, until = \"2 %\" \
                 }"
)]
pub enum Replicates {
    /// This many blocks.
    Blocks(u32),
    /// Blocks until decisions are made.
    Until(Until),
}

/// The table of [`Replicates`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Until {
    /// The fewest blocks.
    min: u32,
    /// The most blocks.
    max: u32,
    /// The difference of two means below which they count as equal, such as `2 %`.
    until: String,
}

impl Default for Replicates {
    fn default() -> Replicates {
        Replicates::Blocks(1)
    }
}

impl Replicates {
    /// The least number of blocks.
    pub fn fewest(&self) -> u32 {
        match self {
            Replicates::Blocks(blocks) => *blocks,
            Replicates::Until(until) => until.min,
        }
    }

    /// The greatest number of blocks.
    pub fn most(&self) -> u32 {
        match self {
            Replicates::Blocks(blocks) => *blocks,
            Replicates::Until(until) => until.max,
        }
    }

    /// The rule that decides how many blocks there are, if the number is not fixed.
    ///
    /// # Errors
    /// Fewer than two blocks, a maximum below the minimum, or a bad share.
    pub fn sequential(&self) -> Result<Option<Sequential>, StudyError> {
        let Replicates::Until(Until { min, max, until }) = self else { return Ok(None) };
        if *min < 2 {
            return error(format!(
                "replicates: min = {min} is too few, because one block shows no spread: the least is 2"
            ));
        }
        if max < min {
            return error(format!(
                "replicates: max = {max} is less than min = {min}: raise max, or lower min"
            ));
        }
        let share = until.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
        match share {
            Some(percent) if percent > 0.0 && percent < 100.0 => {
                Ok(Some(Sequential { min: *min, max: *max, until: percent / 100.0 }))
            }
            _ => error(format!(
                "replicates: until = \"{until}\" is not a share of a mean: write one between 0 and 100 per \
                 cent, such as \"2 %\""
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Study;
    use super::*;

    fn study(replicates: &str) -> Result<Study, StudyError> {
        let text = format!(
            "name = \"t\"\npaths = \"available\"\nreplicates = {replicates}\nseed = 7\n[settings]\nnomerges \
             = 2\n[[workload]]\nrw = \"read\"\n"
        );
        Study::parse(&text, "t.toml")
    }

    #[test]
    fn a_number_and_a_table_are_read_and_written() {
        for (text, fewest, most) in [("4", 4, 4), ("{ min = 5, max = 30, until = \"2 %\" }", 5, 30)] {
            let study = study(text).unwrap();
            assert_eq!((study.replicates.fewest(), study.replicates.most()), (fewest, most));
            assert_eq!(Study::parse(&study.to_toml().unwrap(), "again").unwrap(), study);
        }
        let sequential = study("{ min = 2, max = 2, until = \"0.5%\" }").unwrap().replicates.sequential();
        assert_eq!(sequential, Ok(Some(Sequential { min: 2, max: 2, until: 0.005 })));
        assert_eq!(study("9").unwrap().replicates.sequential(), Ok(None));
    }

    #[test]
    fn bad_tables_are_refused_by_name() {
        for (text, part) in [
            ("{ min = 1, max = 3, until = \"2 %\" }", "min = 1 is too few"),
            ("{ min = 5, max = 4, until = \"2 %\" }", "max = 4 is less than min = 5"),
            ("{ min = 5, max = 9, until = \"2\" }", "until = \"2\" is not a share"),
            ("{ min = 5, max = 9, until = \"0 %\" }", "between 0 and 100"),
            ("{ min = 5, max = 9, until = \"nan %\" }", "is not a share"),
            ("{ min = 5, max = 9 }", "write a whole number"),
            (
                "{ min = 5, max = 9, untill = \"2 %\" }",
                "unknown key `untill` in replicates: did you mean `until`?",
            ),
            ("-1", "write a whole number"),
            ("\"5\"", "write a whole number"),
        ] {
            let error = study(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
