//! `[score]`: what `iopj policy score` demands of the paths of a study that choose their way.

use crate::error::{StudyError, error};
use serde::{Deserialize, Serialize};

/// The table. The store keeps it with the study, so it is what was demanded before anything was measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScoreKeys {
    /// The share of the best static path's figure that is to be reached: above 0, at most 1.
    pub margin: f64,
    /// The confidence of each limit: 0.5 or more, below 1.
    pub level: f64,
}

impl Default for ScoreKeys {
    fn default() -> ScoreKeys {
        ScoreKeys { margin: 0.97, level: 0.95 }
    }
}

impl ScoreKeys {
    /// Refuses values that demand nothing, or what no test can show.
    pub(crate) fn check(&self) -> Result<(), StudyError> {
        let ScoreKeys { margin, level } = *self;
        if !(margin > 0.0 && margin <= 1.0) {
            return error(format!(
                "[score]: margin = {margin} is not a share of the best static path: write one above 0 and up \
                 to 1, such as 0.97"
            ));
        }
        if !(0.5..1.0).contains(&level) {
            return error(format!(
                "[score]: level = {level} is not a confidence: write one from 0.5 to below 1, such as 0.95"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Study;
    use super::*;

    fn study(table: &str) -> Result<Study, StudyError> {
        let text = format!("name = \"t\"\npaths = \"available\"\n{table}\n[[workload]]\nrw = \"randread\"\n");
        Study::parse(&text, "t.toml")
    }

    #[test]
    fn thresholds_are_read_and_written_and_have_usual_values() {
        let score = |table: &str| study(table).unwrap().score;
        assert_eq!(score(""), None);
        assert_eq!(score("[score]"), Some(ScoreKeys { margin: 0.97, level: 0.95 }));
        let own = study("[score]\nmargin = 0.9\nlevel = 0.99").unwrap();
        assert_eq!(own.score, Some(ScoreKeys { margin: 0.9, level: 0.99 }));
        assert_eq!(Study::parse(&own.to_toml().unwrap(), "again").unwrap(), own);
    }

    #[test]
    fn bad_thresholds_are_refused_by_name() {
        for (table, part) in [
            ("[score]\nmargin = 0.0", "t.toml: [score]: margin = 0 is not a share"),
            ("[score]\nmargin = 1.01", "margin = 1.01 is not a share"),
            ("[score]\nmargin = nan", "margin = NaN is not a share"),
            ("[score]\nlevel = 1.0", "level = 1 is not a confidence"),
            ("[score]\nlevel = 0.05", "level = 0.05 is not a confidence"),
            ("[score]\nmargins = 0.9", "unknown key `margins` in [score]: did you mean `margin`?"),
            ("[score]\nmargin = \"97 %\"", "line 4"),
            (
                "score = 0.97",
                "it is a table: write the line [score], and below it a line such as margin = 0.97",
            ),
        ] {
            let error = study(table).unwrap_err().to_string();
            assert!(error.contains(part), "{table}: {error}");
        }
    }
}
