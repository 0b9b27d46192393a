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
}

impl Announced<'_> {
    /// One sentence. How long a study takes whose blocks are decided on as it runs is said with their number.
    pub(crate) fn in_words(&self) -> String {
        let paths: BTreeSet<IoPath> = self.cells.iter().map(|cell| cell.path).collect();
        let rests = if self.times[0].idle.is_zero() { "" } else { " with the rests for its meters" };
        let replicates = &self.study.replicates;
        let time = match replicates.fewest() == replicates.most() {
            true => format!(": about {}", clock(self.times[0].all())),
            false => String::new(),
        };
        let target = self.target.display();
        let on = match self.made.map(format_bytes) {
            None => target.to_string(),
            Some(size) => format!("{target}, a file of {size} that is made now and removed at the end"),
        };
        let (paths, store) = (counted(paths.len() as u64, "path"), self.store.display());
        let trials = trials(self.study, self.cells);
        format!("{trials} of {paths} on {on}{time}{rests}; {store} keeps the results")
    }
}

/// One sentence about the run of a program. How long a program takes is not known.
pub(crate) fn of_program(study: &Study, cells: &[Cell], store: &Path) -> String {
    let variants = study.program.as_ref().map_or(0, |program| program.variants.len());
    let (trials, variants) = (trials(study, cells), counted(variants as u64, "variant"));
    let store = store.display();
    format!("{trials} of {variants} of the program, each as long as it takes; {store} keeps the results")
}

/// `12 trials`, or `8 to 36 trials` where the study decides as it runs.
fn trials(study: &Study, cells: &[Cell]) -> String {
    let blocks = [study.replicates.fewest(), study.replicates.most()];
    match blocks.map(|blocks| u64::from(blocks) * cells.len() as u64) {
        [least, most] if least == most => counted(least, "trial"),
        [least, most] => format!("{least} to {most} trials"),
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

    fn says(text: &str, made: Option<u64>, idle: Duration) -> String {
        let study = Study::parse(text, "s").unwrap();
        let (cells, _) = cells(&study, &[]).unwrap();
        let time = RunTime { windows: Duration::from_secs(79), idle, ..RunTime::default() };
        let (store, target) = (Path::new("s.iopj"), Path::new("s.iopj-data"));
        Announced { study: &study, cells: &cells, times: [time; 2], store, target, made }.in_words()
    }

    #[test]
    fn a_run_says_what_it_does_makes_and_keeps() {
        let study = "name = \"s\"\npaths = [\"libaio/syscall/interrupt\", \"posix-aio/syscall/interrupt\"]\n\
                     replicates = 3\n[[workload]]\niodepth = [1, 2]\n";
        assert_eq!(
            says(study, Some(1 << 30), Duration::ZERO),
            "12 trials of 2 paths on s.iopj-data, a file of 1g that is made now and removed at the end: \
             about 1 min 19 s; s.iopj keeps the results"
        );
        // Three rests take half a minute more, which was not said.
        assert!(says(study, None, Duration::from_secs(30)).ends_with(
            "on s.iopj-data: about 1 min 49 s with the rests for its meters; s.iopj keeps the results"
        ));
        let until = study.replace("replicates = 3", "replicates = { min = 2, max = 9, until = \"2 %\" }");
        assert_eq!(
            says(&until, None, Duration::from_secs(30)),
            "8 to 36 trials of 2 paths on s.iopj-data with the rests for its meters; s.iopj keeps the results"
        );
    }

    #[test]
    fn a_programs_run_says_what_it_does_and_keeps() {
        let says = |replicates: &str| {
            let text = format!(
                "name = \"s\"\ngenerator = \"program\"\nreplicates = {replicates}\n[program]\nfigure = \
                 {{ name = \"tps\", unit = \"1/s\", regex = '([0-9]+)' }}\n[[program.variants]]\nname = \
                 \"sync\"\ncommand = [\"sh\", \"{{numjobs}}\"]\n[[workload]]\nnumjobs = [1, 8]\n"
            );
            let study = Study::parse(&text, "s").unwrap();
            of_program(&study, &cells(&study, &[]).unwrap().0, Path::new("s.iopj"))
        };
        assert_eq!(
            says("3"),
            "6 trials of 1 variant of the program, each as long as it takes; s.iopj keeps the results"
        );
        let until = says("{ min = 2, max = 9, until = \"2 %\" }");
        assert!(until.starts_with("4 to 18 trials of 1 variant of"), "{until}");
    }
}
