//! The plan: the cells of a study, and the order in which their trials run.

use crate::axis::Axis;
use crate::error::StudyError;
use crate::fabric::{Fabric, FabricCell};
use crate::matrix::WorkloadMatrix;
use crate::study::Study;
use crate::values::parse_paths;
use iopj_core::workload::Length;
use iopj_core::{CompletionMode, Generator, IoPath, Setting, Transport, Workload};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

/// A path and a workload under settings, done by a generator; measured once in each replicate.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Cell {
    /// The I/O path.
    pub path: IoPath,
    /// The workload.
    pub workload: Workload,
    /// Settings in force meanwhile.
    pub settings: BTreeMap<Setting, String>,
    /// What issues the I/O.
    pub generator: Generator,
    /// How the drive is reached, in a study over fabrics.
    pub fabric: Option<FabricCell>,
}

impl Cell {
    /// The settings by name.
    pub fn settings_by_name(&self) -> BTreeMap<String, String> {
        let own = self.settings.iter().map(|(setting, value)| (setting.to_string(), value.clone()));
        own.chain(self.fabric.iter().flat_map(FabricCell::settings_by_name)).collect()
    }

    /// One cell for each kind of its jobs, as if they did I/O alone: its own first, then those beside.
    pub fn kinds(&self) -> Vec<Cell> {
        let own = Cell { workload: self.workload.alone(), ..self.clone() };
        let beside = self.workload.beside.iter().map(|jobs| Cell {
            path: jobs.path,
            workload: jobs.workload.clone(),
            ..self.clone()
        });
        std::iter::once(own).chain(beside).collect()
    }

    /// True if its path polls where nothing can be polled.
    fn is_polled_over_loop(&self) -> bool {
        let is_loop = self.fabric.as_ref().is_some_and(|fabric| fabric.transport == Transport::Loop);
        is_loop && self.path.completion() != CompletionMode::Interrupt
    }
}

/// One planned trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Index of its cell.
    pub cell: usize,
    /// Its replicate.
    pub replicate: u32,
    /// Its position in the order of the whole study.
    pub position: u64,
}

impl Cell {
    /// True for an I/O on a drive of this host in a study over fabrics.
    pub fn is_here(&self) -> bool {
        self.fabric.as_ref().is_some_and(|fabric| fabric.transport == Transport::Here)
    }
}

/// Combinations of a study that are no cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Of a synchronous path with a depth above 1.
    pub deep: usize,
    /// Of a path that polls, over `loop`: the kernel's nvme-loop has no polled queues
    /// (drivers/nvme/target/loop.c).
    pub polled_over_loop: usize,
}

impl LeftOut {
    /// How many there are.
    pub fn total(self) -> usize {
        self.deep + self.polled_over_loop
    }

    /// How many there are of each kind, and why.
    pub fn reasons(self) -> Vec<(usize, &'static str)> {
        let kinds = [
            (self.deep, "posix-sio is synchronous and has no iodepth above 1"),
            (self.polled_over_loop, "transport `loop` cannot poll"),
        ];
        kinds.into_iter().filter(|(count, _)| *count > 0).collect()
    }
}

/// The most trials of a study: at a tenth of a second each, more than a day.
const MAX_TRIALS: u64 = 1_000_000;

/// The cells of a study, with the `available` paths for `paths = "available"`, and the combinations that were
/// left out.
///
/// # Errors
/// A bad value, an empty matrix, or nothing but combinations that are left out.
pub fn cells(study: &Study, available: &[IoPath]) -> Result<(Vec<Cell>, LeftOut), StudyError> {
    let blocks = study.replicates.most();
    if blocks == 0 {
        return Err(StudyError("replicates: 0 is too few: the least is 1".to_owned()));
    }
    refuse_too_many(study, available.len() as u64)?;
    let mut cells: Vec<Cell> = Vec::new();
    let (mut left_out, mut example) = (LeftOut::default(), None);
    let settings = study.settings_matrix()?;
    let generators = study.generators()?;
    let fabrics = fabrics(study)?;
    for matrix in &study.workloads {
        let paths = match &study.program {
            Some(program) => program.paths()?,
            None => parse_paths(matrix.paths.as_ref().unwrap_or(&study.paths))?
                .unwrap_or_else(|| available.to_vec()),
        };
        for workload in matrix.workloads()? {
            let workload = match &study.program {
                Some(program) => program.told(workload),
                None => workload,
            };
            for &path in &paths {
                if path.is_synchronous() && workload.iodepth > 1 {
                    left_out.deep += 1;
                    example = Some((path, workload.iodepth));
                    continue;
                }
                for settings in &settings {
                    let cell = |generator| Cell {
                        path,
                        workload: workload.clone(),
                        settings: settings.clone(),
                        generator,
                        fabric: None,
                    };
                    let by = generators_of(path, &generators).map(cell);
                    let all = by.flat_map(|cell| over(cell, &fabrics));
                    let (polled, can): (Vec<Cell>, Vec<Cell>) = all.partition(Cell::is_polled_over_loop);
                    left_out.polled_over_loop += polled.len();
                    cells.extend(can);
                }
            }
        }
    }
    let mut seen: HashSet<&Cell> = HashSet::with_capacity(cells.len());
    let first: Vec<bool> = cells.iter().map(|cell| seen.insert(cell)).collect();
    let mut first = first.into_iter();
    cells.retain(|_| first.next().unwrap_or(true));
    let trials = cells.len() as u64 * u64::from(blocks);
    if trials > MAX_TRIALS {
        let cells = cells.len();
        return Err(StudyError(format!(
            "the study has {trials} trials ({cells} cells by {blocks} replicates), more than {MAX_TRIALS}: \
             shorten its lists or lower replicates"
        )));
    }
    if cells.is_empty() { Err(no_cell(left_out, example)) } else { Ok((cells, left_out)) }
}

/// Why a study has no cell; `example` is a synchronous path with a depth above 1.
fn no_cell(left_out: LeftOut, example: Option<(IoPath, u32)>) -> StudyError {
    StudyError(match example {
        Some((path, depth)) => {
            format!("{path} is synchronous and cannot keep iodepth {depth}: use iodepth 1 and more numjobs")
        }
        None if left_out.polled_over_loop > 0 => {
            "transport `loop` cannot poll, and every path of the study polls: add a path that completes by \
             interrupt, or another transport"
                .to_owned()
        }
        None => {
            "the study has no trial: it needs a [[workload]] and a path that works on the target".to_owned()
        }
    })
}

/// The ways over which the drive of a study is reached: one without fabrics if it has none.
fn fabrics(study: &Study) -> Result<Vec<Option<FabricCell>>, StudyError> {
    match &study.fabric {
        None => Ok(vec![None]),
        Some(fabric) => Ok(fabric.cells()?.into_iter().map(Some).collect()),
    }
}

/// A cell, over each way.
fn over(cell: Cell, fabrics: &[Option<FabricCell>]) -> Vec<Cell> {
    fabrics.iter().map(|fabric| Cell { fabric: fabric.clone(), ..cell.clone() }).collect()
}

/// Counts the combinations of a study before any is made, and refuses those of a study that is too large.
fn refuse_too_many(study: &Study, available: u64) -> Result<(), StudyError> {
    let settings = study.settings.values().map(Axis::count).fold(1, u64::saturating_mul);
    let fabrics = study.fabric.as_ref().map_or(1, Fabric::count);
    let others = settings.saturating_mul(study.generator.count()).saturating_mul(fabrics);
    let of_matrix = |matrix: &WorkloadMatrix| {
        let paths = matrix.paths.as_ref().unwrap_or(&study.paths);
        let paths = match &study.program {
            Some(program) => program.variants.len() as u64,
            None if paths.values() == ["available"] => available,
            None => paths.count(),
        };
        matrix.count().saturating_mul(paths).saturating_mul(others)
    };
    let combinations = study.workloads.iter().map(of_matrix).fold(0, u64::saturating_add);
    if combinations > MAX_TRIALS {
        return Err(StudyError(format!(
            "the study has {combinations} combinations of paths, workloads, settings and generators, more \
             than {MAX_TRIALS}: shorten its lists"
        )));
    }
    Ok(())
}

/// The generators among `all` that can take a path: fio alone drives SPDK, and the native one alone what fio
/// cannot take (our driver, io_uring's hybrid completion). If that one is not among them, all remain and are
/// refused by name.
fn generators_of(path: IoPath, all: &[Generator]) -> impl Iterator<Item = Generator> {
    let only = match path {
        IoPath::Spdk => Some(Generator::Fio),
        IoPath::Program(_) => Some(Generator::Program),
        _ if path.fio_engine().is_err() => Some(Generator::Native),
        _ => None,
    };
    let only = only.filter(|only| all.contains(only));
    all.iter().copied().filter(move |generator| only.is_none_or(|only| only == *generator))
}

/// The order of randomised complete blocks: each replicate holds every cell once, shuffled by the seed.
/// `classes` holds the class of each cell: within a block the cells of a class are together; the classes, and
/// the cells within a class, are shuffled anew for each block.
pub fn order(classes: &[usize], replicates: u32, seed: u64) -> Vec<Planned> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut plan = Vec::with_capacity(classes.len() * replicates as usize);
    let kinds: BTreeSet<usize> = classes.iter().copied().collect();
    for replicate in 0..replicates {
        let mut kinds: Vec<usize> = kinds.iter().copied().collect();
        shuffle(&mut kinds, &mut random);
        for kind in kinds {
            let mut group: Vec<usize> = (0..classes.len()).filter(|cell| classes[*cell] == kind).collect();
            shuffle(&mut group, &mut random);
            for cell in group {
                plan.push(Planned { cell, replicate, position: plan.len() as u64 });
            }
        }
    }
    plan
}

/// Fisher and Yates.
fn shuffle(all: &mut [usize], random: &mut Xoshiro256PlusPlus) {
    for last in (1..all.len()).rev() {
        let other = ((u128::from(random.next_u64()) * (last as u128 + 1)) >> 64) as usize;
        all.swap(last, other);
    }
}

/// The least time that a trial of a workload takes; `None` if it ends after a number of I/Os.
pub fn window(workload: &Workload) -> Option<Duration> {
    match workload.length {
        Length::Runtime(time) => Some(time + workload.ramp_time),
        Length::Ios(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::axis::COMBINED;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_block_holds_every_cell_once_and_its_classes_together(
            classes in proptest::collection::vec(0usize..4, 1..40), replicates in 1u32..6, seed: u64,
        ) {
            let (cells, plan) = (classes.len(), order(&classes, replicates, seed));
            let kinds = classes.iter().collect::<BTreeSet<_>>().len();
            prop_assert_eq!(plan.len(), cells * replicates as usize);
            for (number, block) in plan.chunks(cells).enumerate() {
                let mut seen: Vec<usize> = block.iter().map(|planned| planned.cell).collect();
                seen.sort_unstable();
                prop_assert_eq!(seen, (0..cells).collect::<Vec<_>>());
                prop_assert!(block.iter().all(|planned| planned.replicate == number as u32));
                let changes = |two: &&[Planned]| classes[two[0].cell] != classes[two[1].cell];
                prop_assert_eq!(block.windows(2).filter(changes).count(), kinds - 1);
            }
            prop_assert_eq!(order(&classes, replicates, seed), plan);
        }
    }

    #[test]
    fn blocks_differ_from_each_other() {
        let plan = order(&[0; 12], 2, 1);
        let cells = |block: &[Planned]| block.iter().map(|planned| planned.cell).collect::<Vec<_>>();
        assert_ne!(cells(&plan[..12]), cells(&plan[12..]));
    }

    /// Every cell has every place of its class, and every class every place of a block, equally often.
    #[test]
    fn classes_and_cells_are_in_fair_order() {
        let classes = [0, 0, 0, 1, 1, 1];
        let mut firsts = [0; 6];
        for planned in order(&classes, 6000, 7).chunks(6).map(|block| block[0]) {
            firsts[planned.cell] += 1;
        }
        // 1,000 each, with a standard deviation of 29.
        assert!(firsts.iter().all(|first| (850..1150).contains(first)), "{firsts:?}");
    }

    fn study(workload: &str) -> Study {
        let text = format!("name = \"t\"\npaths = \"available\"\n[[workload]]\n{workload}");
        Study::parse(&text, "t").unwrap()
    }

    #[test]
    fn synchronous_paths_have_no_depth() {
        let paths: Vec<IoPath> =
            ["posix-sio/syscall/interrupt", "libaio/syscall/interrupt"].map(|p| p.parse().unwrap()).into();
        let (cells, left_out) = super::cells(&study("iodepth = [1, 32]"), &paths).unwrap();
        let texts: Vec<String> =
            cells.iter().map(|c| format!("{} {}", c.path.interface(), c.workload.iodepth)).collect();
        assert_eq!(
            (texts.as_slice(), left_out.reasons()),
            (
                ["posix-sio 1", "libaio 1", "libaio 32"].map(String::from).as_slice(),
                vec![(1, "posix-sio is synchronous and has no iodepth above 1")]
            )
        );
        let error = super::cells(&study("iodepth = 32"), &paths[..1]).unwrap_err().to_string();
        assert!(error.contains("is synchronous"), "{error}");
        assert!(super::cells(&study(""), &[]).unwrap_err().to_string().contains("no trial"));
    }

    #[test]
    fn paths_that_one_generator_alone_can_take_have_one_cell_each() {
        let paths: Vec<IoPath> = [
            "libaio/syscall/interrupt",
            "io_uring/syscall/hybrid",
            "nvme-user/doorbell/poll",
            "spdk/doorbell/poll",
        ]
        .map(|p| p.parse().unwrap())
        .into();
        let generators = |generators: Axis<String>| -> Vec<String> {
            let study = Study { generator: generators, ..study("") };
            let (cells, _) = super::cells(&study, &paths).unwrap();
            cells.iter().map(|cell| format!("{} {:?}", cell.path.interface(), cell.generator)).collect()
        };
        let both = Axis::Many(vec!["native".into(), "fio".into()]);
        assert_eq!(
            generators(both),
            ["libaio Native", "libaio Fio", "io_uring Native", "nvme-user Native", "spdk Fio"]
        );
        assert_eq!(
            generators(Axis::One("fio".into())),
            ["libaio Fio", "io_uring Fio", "nvme-user Fio", "spdk Fio"]
        );
    }

    /// Every combination was made, and compared with all others, before the study was refused.
    #[test]
    fn a_study_that_is_too_large_is_refused_before_it_is_made() {
        let paths = ["libaio/syscall/interrupt".parse().unwrap()];
        let list = (1..=1000).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
        let axes = ["iodepth", "numjobs", "iodepth_batch_submit"].map(|key| format!("{key} = [{list}]\n"));
        let study = study(&axes.concat());
        let before = COMBINED.get();
        let error = super::cells(&study, &paths).unwrap_err().to_string();
        assert!(error.starts_with("the study has 1000000000 combinations"), "{error}");
        assert_eq!(COMBINED.get() - before, 0);
    }

    #[test]
    fn the_same_cell_is_planned_once() {
        let paths = ["libaio/syscall/interrupt".parse().unwrap()];
        let (cells, _) = super::cells(&study("iodepth = [1, 1]\n[[workload]]\niodepth = 1"), &paths).unwrap();
        assert_eq!(cells.len(), 1);
    }
}
