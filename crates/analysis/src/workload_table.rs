//! Trials grouped into cells and tables: means over replicates, their spread, and the order of paths.

use super::admission::Admission;
use super::cost::Costs;
use super::energy::CellEnergy;
use super::figure::FigureName;
use super::grouping::{grouped, unique};
use super::kinds::KindMeans;
use super::metric::Metric;
use super::open_load::LoadMeans;
use super::routes;
use super::stats;
use super::two_hosts::{SideSources, TwoHosts};
use iopj_core::{IoPath, Spinner, VerdictKind, Workload};
use iopj_record::{EnergySource, Generator, Latency, Measurement, Outcome, Pooled, StudyRecord, Trial};
use std::collections::BTreeMap;

/// The paths of one workload: those that compete, the one of least mean latency first; then, unranked, the
/// others, refuted ones last. Where times mean nothing, the paths are in their own order.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadTable {
    /// The workload.
    pub workload: Workload,
    /// What emulated the processor; then no row has [`Times`].
    pub emulated: Option<String>,
    /// Its cells.
    pub rows: Vec<CellRow>,
}

/// One cell: a path under a workload, settings and a generator, over its replicates.
#[derive(Clone, Debug, PartialEq)]
pub struct CellRow {
    /// The path requested.
    pub path: IoPath,
    /// Settings of the study, by name.
    pub settings: BTreeMap<String, String>,
    /// What issued the I/O.
    pub generator: Generator,
    /// Trials by verdict, in the order of [`VerdictKind`].
    pub verdicts: Vec<(VerdictKind, usize)>,
    /// Trials that failed.
    pub failed: usize,
    /// Means over the trials that compete; if none does, over the unproven ones; if all were refuted, over
    /// those; absent if none was measured.
    pub figures: Option<CellMeans>,
    /// True if a trial of it competes.
    pub competes: bool,
    /// True if an unproven trial of it competes.
    pub marked: bool,
    /// Mean latency over that of the table's first row, or for a program the first row's figure over its own,
    /// less one; absent for rows that do not compete and
    /// under emulation.
    pub slower: Option<f64>,
    /// Which ways an engine took that chooses them; reasons of verdicts other than `verified`, and errors.
    /// Each once.
    pub reasons: Vec<String>,
    /// Short I/Os over all trials.
    pub short_ios: u64,
    /// How the target was preconditioned; for rows that write, also that it was not.
    pub preconditioning: Option<String>,
}

impl WorkloadTable {
    /// True if a row is over fabrics.
    pub fn is_over_fabrics(&self) -> bool {
        self.rows.iter().filter_map(|row| row.figures.as_ref()).any(|figures| figures.two_hosts.is_some())
    }

    /// The meter and scope of its joules, one for all tables of a store; absent without any, and under
    /// emulation.
    pub fn energy(&self) -> Option<&EnergySource> {
        let energies = self.rows.iter().filter_map(|row| row.figures.as_ref()?.energy.as_ref());
        energies.filter(|energy| energy.replicates > 0).map(|energy| &energy.source).next()
    }
}

impl CellRow {
    /// True if every measured trial was refuted.
    pub fn is_refuted(&self) -> bool {
        !self.verdicts.is_empty() && self.verdicts.iter().all(|(kind, _)| *kind == VerdictKind::Refuted)
    }

    /// What rows are ordered by, the least first: the mean latency, or for a program the reciprocal of its
    /// figure.
    fn slowness(&self) -> Option<f64> {
        let figures = self.figures.as_ref()?;
        let latency = || figures.times.as_ref().map(|times| times.mean_ns);
        figures.figure.as_ref().map_or_else(latency, |figure| Some(figure.mean.recip()))
    }
}

/// The means over the replicates of a cell.
#[derive(Clone, Debug, PartialEq)]
pub struct CellMeans {
    /// Trials.
    pub replicates: usize,
    /// Figures measured by a clock; absent under emulation, where they mean nothing.
    pub times: Option<Times>,
    /// Context switches per I/O.
    pub context_switches_per_io: f64,
    /// Interrupts per I/O; absent if they cannot be counted.
    pub interrupts_per_io: Option<f64>,
    /// System calls of the engine per I/O; absent if fio did the I/O.
    pub system_calls_per_io: Option<f64>,
    /// Voluntary context switches of the jobs per I/O; absent if no I/O was issued.
    pub sleeps_per_io: Option<f64>,
    /// Instructions, loads and stores, if they were counted or sampled.
    pub costs: Option<Costs>,
    /// Energy by the table's source; absent if it took part in no replicate.
    pub energy: Option<CellEnergy>,
    /// What the co-runner got done; absent unless every replicate had one, and under emulation.
    pub corunner: Option<CorunnerMeans>,
    /// Host and target host; absent unless the study is over fabrics.
    pub two_hosts: Option<TwoHosts>,
    /// What became of an open load; absent of a closed one.
    pub load: Option<LoadMeans>,
    /// Each kind of jobs, where several did I/O at once.
    pub kinds: Vec<KindMeans>,
    /// What a program reported; absent unless one did the I/O, and under emulation.
    pub figure: Option<FigureMeans>,
}

impl CellMeans {
    /// Context switches per I/O; absent where a program's disks did no I/O.
    pub fn context_switches_per_io(&self) -> Option<f64> {
        let had_none = self.figure.is_some() && self.times.as_ref().is_some_and(|times| times.iops == 0.0);
        (!had_none).then_some(self.context_switches_per_io)
    }
}

/// Means of what a program reported of itself.
#[derive(Clone, Debug, PartialEq)]
pub struct FigureMeans {
    /// What the program calls it.
    pub name: FigureName,
    /// The figure.
    pub mean: f64,
    /// Standard deviation of the replicates' figures over their mean; absent for one replicate.
    pub spread: Option<f64>,
    /// The figure per second of CPU time; absent without any.
    pub per_cpu: Option<f64>,
    /// The figure per joule of the table's source; absent without energy.
    pub per_joule: Option<f64>,
}

/// Means of a co-runner's figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CorunnerMeans {
    /// Rounds per second.
    pub per_s: f64,
    /// What it lost to each I/O, in ns of CPU time; absent if it was not counted alone.
    pub loss_ns_per_io: Option<f64>,
    /// Rounds per joule of the table's source; absent without energy.
    pub per_joule: Option<f64>,
}

/// Times, rates and shares: means of rates and of mean latencies, percentiles of all I/Os.
#[derive(Clone, Debug, PartialEq)]
pub struct Times {
    /// I/Os per second.
    pub iops: f64,
    /// Standard deviation of the replicates' IOPS over their mean; absent for one replicate.
    pub iops_spread: Option<f64>,
    /// Megabytes (10^6) per second.
    pub mb_per_s: f64,
    /// Mean latency in ns.
    pub mean_ns: f64,
    /// Median latency in ns, as all percentiles of the replicates' pooled histograms.
    pub p50_ns: f64,
    /// 20th percentile in ns; absent if a replicate lacks it: older stores, and fio's results without it.
    pub p20_ns: Option<f64>,
    /// 80th percentile in ns; absent where the 20th is.
    pub p80_ns: Option<f64>,
    /// 95th percentile in ns.
    pub p95_ns: f64,
    /// 99th percentile in ns.
    pub p99_ns: f64,
    /// 99.9th percentile in ns.
    pub p99_9_ns: f64,
    /// CPU use of the I/O's threads in per cent of one core.
    pub cpu_percent: f64,
}

/// A table for each workload, in the order in which the workloads first appear in `trials`.
pub fn workload_tables(study: &StudyRecord, trials: &[Trial], admission: Admission) -> Vec<WorkloadTable> {
    let mut workloads = grouped(trials.iter().map(|trial| (&trial.workload, trial)));
    // Random reads before the rest, small and shallow first.
    workloads.sort_by_key(|(w, _)| (w.rw, w.bs, w.numjobs, w.iodepth, w.open.map(|open| open.rate_iops)));
    let energy = EnergySource::shown(trials).filter(|_| study.emulated.is_none());
    let emulated = study.emulated.as_ref();
    let sides = SideSources::of(trials);
    let shown = Shown { timed: emulated.is_none(), energy: energy.as_ref(), sides: &sides, admission };
    let table = |(workload, trials): (&Workload, Vec<&Trial>)| WorkloadTable {
        workload: workload.clone(),
        emulated: emulated.cloned(),
        rows: rows(&trials, &shown),
    };
    workloads.into_iter().map(table).collect()
}

/// Which figures are shown, and which trials compete.
struct Shown<'a> {
    /// True if times mean something.
    timed: bool,
    /// The meter and scope of energy.
    energy: Option<&'a EnergySource>,
    /// The same of each host over fabrics.
    sides: &'a SideSources,
    admission: Admission,
}

fn rows(trials: &[&Trial], shown: &Shown<'_>) -> Vec<CellRow> {
    let cells = grouped(trials.iter().map(|trial| ((trial.path, trial.generator, &trial.settings), *trial)));
    let mut rows: Vec<CellRow> = cells.iter().map(|(_, all)| row(all[0], all, shown)).collect();
    rows.sort_by(|a, b| order(a).partial_cmp(&order(b)).unwrap_or(std::cmp::Ordering::Equal));
    let first = rows.iter().find(|row| row.competes).and_then(CellRow::slowness);
    if let Some(first) = first.filter(|first| *first > 0.0) {
        for row in rows.iter_mut().filter(|row| row.competes) {
            row.slower = row.slowness().map(|one| one / first - 1.0);
        }
    }
    rows
}

/// Competing rows by latency, or by path without times; then the others that are not refuted, the refuted
/// ones, and those without figures.
fn order(row: &CellRow) -> (u8, f64, IoPath) {
    let rank = match &row.figures {
        Some(_) if row.competes => 0,
        Some(_) if !row.is_refuted() => 1,
        Some(_) => 2,
        None => 3,
    };
    (rank, row.slowness().unwrap_or(0.0), row.path)
}

fn row(first: &Trial, trials: &[&Trial], shown: &Shown<'_>) -> CellRow {
    let measured: Vec<&Measurement> = trials.iter().filter_map(|trial| trial.outcome.measurement()).collect();
    let mut verdicts: BTreeMap<VerdictKind, usize> = BTreeMap::new();
    let mut reasons: Vec<String> = routes::took(&measured).into_iter().collect();
    for measurement in &measured {
        *verdicts.entry(measurement.verdict.kind).or_default() += 1;
    }
    // One trial's reasons represent all of its verdict: others differ only in the last digits of their
    // figures.
    for kind in [VerdictKind::Refuted, VerdictKind::Unproven, VerdictKind::Seen] {
        if let Some(one) = measured.iter().find(|measurement| measurement.verdict.kind == kind) {
            reasons.push(format!("{}: {}", kind.as_str(), one.verdict.reasons.join("; ")));
        }
    }
    let disturbed: Vec<String> = measured.iter().filter_map(|one| shown.admission.disturbed(one)).collect();
    if let Some(one) = disturbed.first() {
        reasons.push(format!("disturbed ({} of {}): {one}", disturbed.len(), measured.len()));
    }
    let starved: Vec<&Spinner> =
        measured.iter().filter_map(|measurement| shown.admission.starved(measurement)).collect();
    if let Some(one) = starved.first() {
        reasons.push(format!("starved ({} of {}): {one}", starved.len(), measured.len()));
    }
    for trial in trials {
        if let Outcome::Failed(error) = &trial.outcome {
            reasons.push(format!("failed: {error}"));
        }
    }
    let competing: Vec<&Measurement> =
        trials.iter().filter_map(|trial| shown.admission.admit(trial).ok()).collect();
    let unrefuted = || measured.iter().copied().filter(|m| m.verdict.kind != VerdictKind::Refuted).collect();
    let bases: [Vec<&Measurement>; 2] = [competing.clone(), unrefuted()];
    let basis = bases.iter().find(|basis| !basis.is_empty()).unwrap_or(&measured);
    CellRow {
        path: first.path,
        settings: first.settings.clone(),
        generator: first.generator,
        verdicts: verdicts.into_iter().collect(),
        failed: trials.len() - measured.len(),
        figures: figures(basis, shown),
        competes: !competing.is_empty(),
        marked: competing.iter().any(|one| shown.admission.is_marked(one)),
        slower: None,
        reasons: unique(reasons),
        short_ios: measured.iter().map(|measurement| measurement.short_ios).sum(),
        preconditioning: measured.iter().find_map(|measurement| measurement.preconditioning.clone()),
    }
}

fn figures(measured: &[&Measurement], shown: &Shown<'_>) -> Option<CellMeans> {
    if measured.is_empty() {
        return None;
    }
    let mean = |of: &dyn Fn(&Measurement) -> f64| {
        measured.iter().map(|m| of(m)).sum::<f64>() / measured.len() as f64
    };
    let if_all = |metric: Metric| {
        let all: Option<Vec<f64>> =
            measured.iter().map(|measurement| metric.value(measurement, shown.energy)).collect();
        all.map(|all| stats::mean(&all))
    };
    let two_hosts = TwoHosts::of(measured, shown.timed, shown.sides);
    Some(CellMeans {
        replicates: measured.len(),
        times: shown.timed.then(|| times(measured, mean)),
        context_switches_per_io: mean(&|m| m.context_switches_per_io),
        interrupts_per_io: if_all(Metric::InterruptsPerIo),
        system_calls_per_io: if_all(Metric::SystemCallsPerIo),
        sleeps_per_io: if_all(Metric::SleepsPerIo),
        costs: Costs::of(measured),
        energy: shown.energy.and_then(|source| CellEnergy::of(measured, source)),
        corunner: if_all(Metric::CorunnerPerS).filter(|_| shown.timed).map(|per_s| CorunnerMeans {
            per_s,
            loss_ns_per_io: if_all(Metric::CorunnerLossPerIo),
            per_joule: if_all(Metric::CorunnerPerJoule),
        }),
        two_hosts,
        load: LoadMeans::of(measured),
        kinds: KindMeans::of(measured),
        figure: FigureName::of_one(measured[0]).filter(|_| shown.timed).and_then(|name| {
            Some(FigureMeans {
                name,
                mean: if_all(Metric::Figure)?,
                spread: spread(measured, |one| Metric::Figure.value(one, None)),
                per_cpu: if_all(Metric::FigurePerCpu),
                per_joule: if_all(Metric::FigurePerJoule),
            })
        }),
    })
}

/// The standard deviation over replicates over their mean; `None` for one replicate, or a mean of 0.
fn spread(measured: &[&Measurement], of: impl Fn(&Measurement) -> Option<f64>) -> Option<f64> {
    let values: Vec<f64> = measured.iter().filter_map(|one| of(one)).collect();
    let mean = stats::mean(&values);
    (values.len() > 1 && mean > 0.0).then(|| {
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        (squares / (values.len() - 1) as f64).sqrt() / mean
    })
}

fn times(measured: &[&Measurement], mean: impl Fn(&dyn Fn(&Measurement) -> f64) -> f64) -> Times {
    let iops = mean(&Measurement::iops);
    let pooled = Pooled::of(measured.iter().map(|one| &one.latency.histogram[..]));
    let quantile = |quantile: f64| pooled.value_at_quantile(quantile) as f64;
    let all_have = |of: fn(&Latency) -> Option<u64>| measured.iter().all(|one| of(&one.latency).is_some());
    Times {
        iops,
        iops_spread: spread(measured, |one| Some(one.iops())),
        mb_per_s: mean(&Measurement::mb_per_s),
        mean_ns: mean(&|m| m.latency.mean),
        p50_ns: quantile(0.5),
        p20_ns: all_have(|one| one.p20).then(|| quantile(0.2)),
        p80_ns: all_have(|one| one.p80).then(|| quantile(0.8)),
        p95_ns: quantile(0.95),
        p99_ns: quantile(0.99),
        p99_9_ns: quantile(0.999),
        cpu_percent: mean(&|m| m.cpu_percent),
    }
}
