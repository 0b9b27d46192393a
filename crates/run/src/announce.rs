//! What a run says first: what it will do, how long that takes, what it makes and what it keeps.

use crate::blocks::clock;
use crate::pace::RunTime;
use iopj_core::{IoPath, format_bytes};
use iopj_study::Study;
use iopj_study::plan::Cell;
use std::collections::BTreeSet;
use std::path::Path;

/// A run that is about to begin.
pub(crate) struct Announced<'a> {
    pub(crate) study: &'a Study,
    /// The cells that will be measured.
    pub(crate) cells: &'a [Cell],
    /// The time of the fewest and of the most blocks.
    pub(crate) times: [RunTime; 2],
    pub(crate) store: &'a Path,
    pub(crate) target: &'a Path,
    /// The size of the file that the run makes for a target.
    pub(crate) made: Option<u64>,
    /// Meters rest beside the trials for a time that is not known yet.
    pub(crate) rests: bool,
}

impl Announced<'_> {
    /// One sentence. How long a study takes whose blocks are decided on as it runs is said with their number.
    pub(crate) fn in_words(&self) -> String {
        let paths: BTreeSet<IoPath> = self.cells.iter().map(|cell| cell.path).collect();
        let blocks = [self.study.replicates.fewest(), self.study.replicates.most()];
        let [least, most] = blocks.map(|blocks| u64::from(blocks) * self.cells.len() as u64);
        let (trials, time) = match least == most {
            true => (counted(least, "trial"), format!(": about {}", clock(self.times[0].all()))),
            false => (format!("{least} to {most} trials"), String::new()),
        };
        let rests = if self.rests { " plus the rests for its meters" } else { "" };
        let target = self.target.display();
        let on = match self.made.map(format_bytes) {
            None => target.to_string(),
            Some(size) => format!("{target}, a file of {size} that is made now and removed at the end"),
        };
        let (paths, store) = (counted(paths.len() as u64, "path"), self.store.display());
        format!("{trials} of {paths} on {on}{time}{rests}; {store} keeps the results")
    }
}

/// `1 trial`, `2 trials`.
fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopj_study::plan::cells;
    use std::time::Duration;

    fn says(text: &str, made: Option<u64>) -> String {
        let study = Study::parse(text, "s").unwrap();
        let (cells, _) = cells(&study, &[]).unwrap();
        let time = RunTime { windows: Duration::from_secs(79), ..RunTime::default() };
        let (store, target) = (Path::new("s.iopj"), Path::new("s.iopj-data"));
        let rests = made.is_none();
        Announced { study: &study, cells: &cells, times: [time; 2], store, target, made, rests }.in_words()
    }

    #[test]
    fn a_run_says_what_it_does_makes_and_keeps() {
        let study = "name = \"s\"\npaths = [\"libaio/syscall/interrupt\", \"posix-aio/syscall/interrupt\"]\n\
                     replicates = 3\n[[workload]]\niodepth = [1, 2]\n";
        assert_eq!(
            says(study, Some(1 << 30)),
            "12 trials of 2 paths on s.iopj-data, a file of 1g that is made now and removed at the end: \
             about 1 min 19 s; s.iopj keeps the results"
        );
        let until = study.replace("replicates = 3", "replicates = { min = 2, max = 9, until = \"2 %\" }");
        assert_eq!(
            says(&until, None),
            "8 to 36 trials of 2 paths on s.iopj-data plus the rests for its meters; s.iopj keeps the results"
        );
    }
}
