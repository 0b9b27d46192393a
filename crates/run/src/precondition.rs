//! Preconditioning: before the trials of a class of workloads, the target is brought to the state in which
//! such workloads leave it.
//!
//! Source: SNIA Solid State Storage Performance Test Specification, sections on workload-independent
//! and workload-dependent preconditioning: write the whole capacity twice in order, then run the
//! workload in rounds until, over the last five, the range of IOPS is at most 20 % of their mean and
//! the straight line fitted to them rises or falls by at most 10 % of it. Rounds here last as long as a
//! trial's window; at most 25 are run.

use iopj_core::{IoPath, Length, Ring, Rw, Workload, WriteSync, format_bytes};
use iopj_engine::{KernelCpus, Target};
use iopj_load::native::{self, JobEngine, JobSpec, NativeError};
use iopj_study::Study;
use iopj_study::plan::{Cell, Planned};
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

const ROUNDS_OF_WINDOW: usize = 5;
const MOST_ROUNDS: usize = 25;
const RANGE_LIMIT: f64 = 0.20;
const SLOPE_LIMIT: f64 = 0.10;

/// The words for a target that was not preconditioned.
const NONE: &str = "not preconditioned";

/// Workloads that leave a drive in the same state: by what they write, and random writes by size. A drive
/// that maps its blocks in units of 16k or more moves the rest of a unit with each smaller write, and a write
/// beyond 128k fills whole stripes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    Reads,
    SequentialWrites,
    RandomWritesTo16k,
    RandomWritesTo128k,
    RandomWritesBeyond,
}

impl Class {
    /// That of the jobs which are hardest on the drive, where several kinds do I/O at once.
    pub(crate) fn of(workload: &Workload) -> Class {
        Class::of_jobs(hardest(workload))
    }

    fn of_jobs(workload: &Workload) -> Class {
        match workload.bs {
            _ if !workload.rw.writes() => Class::Reads,
            _ if !workload.rw.is_random() => Class::SequentialWrites,
            ..=16_384 => Class::RandomWritesTo16k,
            16_385..=131_072 => Class::RandomWritesTo128k,
            _ => Class::RandomWritesBeyond,
        }
    }

    fn is_random(self) -> bool {
        !matches!(self, Class::Reads | Class::SequentialWrites)
    }

    /// Whether the target must be filled on its way to this state, coming `from` another. Reads and
    /// sequential writes begin on a target that was filled in order; random writes begin on any full one.
    /// What sequential writes left does not serve reads, because several jobs, small blocks and mixed
    /// workloads write in another order than a fill. What reads left does not serve sequential writes,
    /// because the drive may have emptied its write cache meanwhile.
    fn needs_fill(self, from: Option<Class>) -> bool {
        from.is_none() || !self.is_random()
    }
}

/// The kind of jobs of a workload that is hardest on a drive, alone.
pub(crate) fn hardest(workload: &Workload) -> &Workload {
    let beside = workload.beside.iter().map(|jobs| &jobs.workload);
    beside.fold(
        workload,
        |hardest, jobs| {
            if Class::of_jobs(jobs) > Class::of_jobs(hardest) { jobs } else { hardest }
        },
    )
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Class::Reads => "reads",
            Class::SequentialWrites => "sequential writes",
            Class::RandomWritesTo16k => "random writes of up to 16k",
            Class::RandomWritesTo128k => "random writes of up to 128k",
            Class::RandomWritesBeyond => "random writes beyond 128k",
        })
    }
}

/// The class of each cell; the same for all where nothing is preconditioned.
pub(crate) fn classes(study: &Study, cells: &[Cell]) -> Vec<usize> {
    let class = |cell: &Cell| if study.precondition { Class::of(&cell.workload) as usize } else { 0 };
    cells.iter().map(class).collect()
}

/// How much the preconditioning of a study writes for these trials; `None` if it does none. `len` is the
/// bytes of the target.
pub(crate) fn announcement(study: &Study, cells: &[Cell], trials: &[Planned], len: u64) -> Option<String> {
    if !study.precondition || trials.is_empty() {
        return None;
    }
    let classes: Vec<Class> = trials.iter().map(|planned| Class::of(&cells[planned.cell].workload)).collect();
    let blocks: BTreeSet<u32> = trials.iter().map(|planned| planned.replicate).collect();
    Some(words(&classes, blocks.len(), len))
}

fn words(classes: &[Class], blocks: usize, len: u64) -> String {
    let mut state = None;
    let fills = classes.iter().filter(|class| {
        let from = state.replace(**class);
        from != Some(**class) && class.needs_fill(from)
    });
    let fills = fills.count() as u64;
    let rough = |bytes: u64| {
        let shift = [30, 20].into_iter().find(|shift| bytes >> shift >= 100).unwrap_or(0);
        format_bytes(bytes >> shift << shift)
    };
    let count = |count: u64, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let [fill, all] = [2 * len, (2 * len).saturating_mul(fills)].map(rough);
    let (fills, blocks) = (count(fills, "fill"), count(blocks as u64, "block"));
    let rounds =
        if classes.iter().any(|class| class.is_random()) { ", plus rounds of random writes" } else { "" };
    format!("preconditioning: {fills} of the target in {blocks}, {fill} each, {all} in all{rounds}")
}

/// The state of a target so far.
#[derive(Default)]
pub(crate) struct Preconditioning {
    /// The class whose state it is in, and what brought it there.
    state: Option<(Class, String)>,
}

impl Preconditioning {
    /// Whether the target must be preconditioned before a trial of this class. Reads have a state of their
    /// own too: a drive answers reads of unwritten blocks without its medium, and it reads blocks that were
    /// written at random at another rate.
    pub(crate) fn is_due(&self, class: Class) -> bool {
        self.state.as_ref().is_none_or(|(state, _)| *state != class)
    }

    /// What was done to the target for a trial of this class, or that nothing was; `None` for reads of a
    /// target that was not preconditioned.
    pub(crate) fn found(&self, class: Class) -> Option<String> {
        match &self.state {
            Some((state, words)) if *state == class => Some(words.clone()),
            _ => (class != Class::Reads).then(|| NONE.to_owned()),
        }
    }

    /// Brings `target` to the state of a class by its smallest workload. Returns a sentence that says what
    /// was done and whether the criterion was met.
    ///
    /// # Errors
    /// A write failed, or the run was interrupted.
    pub(crate) fn bring(
        &mut self,
        target: &Target,
        class: Class,
        smallest: &Workload,
        stop: &AtomicBool,
        tick: &mut dyn FnMut(),
    ) -> Result<&str, NativeError> {
        let from = self.state.take().map(|(state, _)| state);
        let mut writer = Writer { target, stop, tick };
        let filled = if class.needs_fill(from) { "filled twice" } else { "" };
        if !filled.is_empty() {
            writer.fill()?;
        }
        let rounds = if class.is_random() { writer.rounds(smallest)? } else { String::new() };
        let done: Vec<&str> = [filled, &rounds].into_iter().filter(|part| !part.is_empty()).collect();
        let words = format!("preconditioned for {class}: {}", done.join(", then "));
        Ok(&self.state.insert((class, words)).1)
    }
}

/// Writes a target by the kernel's plainest path.
struct Writer<'a> {
    target: &'a Target,
    stop: &'a AtomicBool,
    tick: &'a mut dyn FnMut(),
}

impl Writer<'_> {
    /// Runs a workload once on these bytes; its IOPS.
    fn run(&mut self, workload: &Workload, bytes: Range<u64>, seed: u64) -> Result<f64, NativeError> {
        let path =
            if self.target.nvme().is_some() { IoPath::NvmePassthrough(Ring::PLAIN) } else { IoPath::Libaio };
        let cpus = KernelCpus::default();
        let open = |pool: &_, depth| {
            iopj_engine::open_on(path, self.target, pool, depth, &cpus).map(JobEngine::from)
        };
        let (base, len) = (bytes.start, bytes.end - bytes.start);
        let spec =
            JobSpec { base, len, huge_pages: false, ..JobSpec::on(workload, self.target, seed, &open) };
        let run = native::run(&spec, self.stop, &mut |_, _| Ok(()), self.tick)?;
        Ok(run.ios() as f64 * 1e9 / (run.last_ns - run.first_ns).max(1) as f64)
    }

    /// Writes the whole target twice, in order.
    fn fill(&mut self) -> Result<(), NativeError> {
        let Range { start: base, end } = self.whole();
        let len = end - base;
        let block = u64::from(self.target.logical_block());
        let bs = ((128 << 10).min(len) / block * block) as u32;
        let ios = 2 * (len / u64::from(bs)).max(1);
        let fill =
            Workload { rw: Rw::Write, bs, iodepth: 16, length: Length::Ios(ios), ..Workload::default() };
        self.run(&fill, base..end, 1)?;
        // The blocks beyond the last whole write.
        let rest = len % u64::from(bs) / block * block;
        if rest > 0 {
            let fill = Workload { bs: rest as u32, length: Length::Ios(2), ..fill };
            let from = end - len % u64::from(bs);
            self.run(&fill, from..from + rest, 1)?;
        }
        Ok(())
    }

    /// The bytes of the target that hold data.
    fn whole(&self) -> Range<u64> {
        let base = self.target.data_offset();
        base..base + self.target.data_len()
    }

    /// Random writes in rounds until they are steady.
    fn rounds(&mut self, workload: &Workload) -> Result<String, NativeError> {
        let length = match workload.length {
            Length::Runtime(time) => Length::Runtime(time),
            Length::Ios(_) => Length::Runtime(Duration::from_secs(10)),
        };
        let round = Workload {
            rw: Rw::Randwrite,
            iodepth: 16,
            numjobs: 1,
            ramp_time: Duration::ZERO,
            length,
            open: None,
            trace: None,
            sizes: None,
            fsync: 0,
            fdatasync: 0,
            sync: WriteSync::None,
            corunner: None,
            beside: Vec::new(),
            ..workload.clone()
        };
        let bs = format_bytes(workload.bs.into());
        let mut iops = Vec::new();
        while iops.len() < MOST_ROUNDS {
            iops.push(self.run(&round, self.whole(), 2 + iops.len() as u64)?);
            let found =
                steadiness(&iops).filter(|(range, slope)| *range <= RANGE_LIMIT && *slope <= SLOPE_LIMIT);
            if let Some((range, slope)) = found {
                let (rounds, range, slope) = (iops.len(), 100.0 * range, 100.0 * slope);
                return Ok(format!(
                    "{rounds} rounds of {bs} random writes until steady (range {range:.0} %, slope \
                     {slope:.0} %)"
                ));
            }
        }
        Ok(format!("{MOST_ROUNDS} rounds of {bs} random writes, not steady at the end"))
    }
}

/// Range, and rise or fall of the fitted line, over the last five rounds, as shares of their mean.
fn steadiness(iops: &[f64]) -> Option<(f64, f64)> {
    let last = iops.get(iops.len().checked_sub(ROUNDS_OF_WINDOW)?..)?;
    let n = ROUNDS_OF_WINDOW as f64;
    let mean = last.iter().sum::<f64>() / n;
    let middle = (n - 1.0) / 2.0;
    let products: f64 = last.iter().enumerate().map(|(x, y)| (x as f64 - middle) * (y - mean)).sum();
    let squares: f64 = (0..ROUNDS_OF_WINDOW).map(|x| (x as f64 - middle).powi(2)).sum();
    let (low, high) = last.iter().fold((f64::MAX, f64::MIN), |(low, high), y| (low.min(*y), high.max(*y)));
    (mean > 0.0).then(|| ((high - low) / mean, (products / squares * (n - 1.0)).abs() / mean))
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopj_engine::target::{WritePermission, make_file};

    #[test]
    fn a_class_is_what_is_written_and_for_random_writes_how_large() {
        let class = |rw, bs| Class::of(&Workload { rw, bs, ..Workload::default() });
        assert_eq!([class(Rw::Randread, 4096), class(Rw::Read, 1 << 20)], [Class::Reads; 2]);
        assert_eq!([class(Rw::Write, 4096), class(Rw::Rw, 1 << 20)], [Class::SequentialWrites; 2]);
        assert_eq!([class(Rw::Randwrite, 512), class(Rw::Randrw, 16 << 10)], [Class::RandomWritesTo16k; 2]);
        let large = [(16 << 10) + 512, 128 << 10, (128 << 10) + 512].map(|bs| class(Rw::Randwrite, bs));
        assert_eq!(large, [Class::RandomWritesTo128k, Class::RandomWritesTo128k, Class::RandomWritesBeyond]);
    }

    #[test]
    fn each_class_has_its_own_preconditioning_and_says_so() {
        let folder = tempfile::tempdir_in(std::env::current_exe().unwrap().parent().unwrap()).unwrap();
        let path = folder.path().join("data");
        let id = make_file(&path, 1 << 20, &mut |_| true).unwrap();
        let target = Target::open_for_writing(&path, WritePermission::OwnFile { id: &id }).unwrap();
        let mut done = Preconditioning::default();
        let length = Length::Runtime(Duration::from_millis(20));
        let bring = |done: &mut Preconditioning, rw, bs| {
            let workload = Workload { rw, bs, length, ..Workload::default() };
            let class = Class::of(&workload);
            assert!(done.is_due(class));
            let stop = AtomicBool::new(false);
            let words = done.bring(&target, class, &workload, &stop, &mut || {}).unwrap().to_owned();
            assert!(!done.is_due(class) && done.found(class).as_ref() == Some(&words));
            words
        };
        let words = bring(&mut done, Rw::Randwrite, 4096);
        let first = "preconditioned for random writes of up to 16k: filled twice, then ";
        assert!(words.starts_with(first) && words.contains(" rounds of 4k random writes"), "{words}");
        let words = bring(&mut done, Rw::Randrw, 32 << 10);
        assert!(
            words.starts_with("preconditioned for random writes of up to 128k: ")
                && !words.contains("filled"),
            "{words}"
        );
        assert_eq!(bring(&mut done, Rw::Write, 4096), "preconditioned for sequential writes: filled twice");
        assert!(done.is_due(Class::RandomWritesTo16k));
        assert_eq!(bring(&mut done, Rw::Randread, 4096), "preconditioned for reads: filled twice");
        assert!(done.is_due(Class::SequentialWrites));
    }

    /// Hours of writing began, and no message said how much.
    #[test]
    fn what_a_study_writes_is_announced() {
        let (reads, random) = (Class::Reads, Class::RandomWritesTo16k);
        let one = "preconditioning: 1 fill of the target in 1 block, 64g each, 64g in all";
        assert_eq!(words(&[reads; 3], 1, 32 << 30), one);
        // A class whose state is there needs nothing, and random writes begin on any full target.
        let classes =
            [random, random, reads, reads, Class::RandomWritesTo128k, random, Class::SequentialWrites];
        let more = "preconditioning: 3 fills of the target in 3 blocks, 745g each, 2235g in all, plus \
                    rounds of random writes";
        assert_eq!(words(&classes, 3, 400_088_457_216), more);
    }

    /// Reads took the target as they found it: with unwritten blocks, or as earlier writes left it.
    #[test]
    fn reads_find_a_filled_target_whatever_was_before() {
        let folder = tempfile::tempdir_in(std::env::current_exe().unwrap().parent().unwrap()).unwrap();
        let path = folder.path().join("data");
        // No multiple of what the fill writes at once.
        let id = make_file(&path, (1 << 20) + (12 << 10), &mut |_| true).unwrap();
        let target = Target::open_for_writing(&path, WritePermission::OwnFile { id: &id }).unwrap();
        let mut done = Preconditioning::default();
        assert!(done.is_due(Class::Reads) && done.found(Class::Reads).is_none());
        assert_eq!(done.found(Class::SequentialWrites).as_deref(), Some(NONE));
        let before = std::fs::read(&path).unwrap();
        let reads = Workload { rw: Rw::Randread, ..Workload::default() };
        let stop = AtomicBool::new(false);
        done.bring(&target, Class::Reads, &reads, &stop, &mut || {}).unwrap();
        let data = target.data_offset() as usize..(target.data_offset() + target.data_len()) as usize;
        let after = std::fs::read(&path).unwrap();
        let is_written = |at: usize| before[at..at + 4096] != after[at..at + 4096];
        assert!(data.clone().step_by(4096).all(is_written), "not every block was written");
        // Reads change nothing; any write does.
        assert!(!done.is_due(Class::Reads) && done.is_due(Class::SequentialWrites));
    }

    #[test]
    fn steadiness_is_range_and_slope_of_five_rounds() {
        assert_eq!(steadiness(&[1.0; 4]), None);
        assert_eq!(steadiness(&[9.0, 100.0, 100.0, 100.0, 100.0, 100.0]), Some((0.0, 0.0)));
        // A line from 80 to 120: range 40 % and rise 40 % of the mean.
        let (range, slope) = steadiness(&[80.0, 90.0, 100.0, 110.0, 120.0]).unwrap();
        assert!((range - 0.4).abs() < 1e-12 && (slope - 0.4).abs() < 1e-12);
        // Up and down again: a range without a slope.
        let (range, slope) = steadiness(&[90.0, 110.0, 100.0, 110.0, 90.0]).unwrap();
        assert!((range - 0.2).abs() < 1e-12 && slope < 1e-12);
    }
}
