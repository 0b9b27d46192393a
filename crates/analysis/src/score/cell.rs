//! The paths of one cell: which static one is best, chosen in one half of the blocks, and how the others
//! compare with it in the other half.

use super::used::Used;
use super::{Answer, Kind, Role, Row, ScoreQuestion, ScoredCell};
use crate::admission::{Admission, Barred, BarredCounts};
use crate::contrast::{Sample, pairs, ratio_of_logs};
use crate::grouping::{TrialSetup, list, unique};
use crate::metric::Metric;
use crate::stats::{Method, Ratio, beyond, mean, over, t_test, upper_quantile};
use iopj_core::IoPath;
use iopj_record::{EnergySource, Measurement, Trial};

/// The trials of one workload with its settings and generator.
pub(super) struct Cell<'a> {
    pub(super) setup: TrialSetup,
    /// Its paths, in their order.
    pub(super) paths: Vec<IoPath>,
    pub(super) trials: Vec<&'a Trial>,
    pub(super) question: &'a ScoreQuestion<'a>,
    /// The meter of the whole machine.
    pub(super) energy: Option<&'a EnergySource>,
}

/// The blocks of a comparison: every second one chooses the best static path, the others test.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Blocks {
    /// Those with an odd number.
    Choosing,
    /// Those with an even number, the first included.
    Testing,
    /// All, where nothing is chosen.
    All,
}

impl Blocks {
    pub(super) fn has(self, block: u32) -> bool {
        match self {
            Blocks::Choosing => !block.is_multiple_of(2),
            Blocks::Testing => block.is_multiple_of(2),
            Blocks::All => true,
        }
    }

    fn of(self, sample: Sample) -> Sample {
        sample.into_iter().filter(|(block, _)| self.has(*block)).collect()
    }
}

/// Logarithms of two samples by block, more being better, and how they are tested.
pub(super) struct Compared {
    x: Vec<f64>,
    y: Vec<f64>,
}

/// How a sample compares with a given share of another.
pub(super) struct Against {
    /// p-values of its being more, and of its being less, for all looks.
    pub(super) p: [f64; 2],
    /// By how many standard errors it is more.
    pub(super) above: f64,
}

impl Compared {
    /// The blocks that have both.
    pub(super) fn of(x: &Sample, y: &Sample) -> Compared {
        let (x, y) = pairs(x, y).into_iter().unzip();
        Compared { x, y }
    }

    pub(super) fn blocks(&self) -> usize {
        self.x.len()
    }

    /// The first over the second, with a lower and an upper limit of this confidence each.
    pub(super) fn ratio(&self, level: f64) -> Option<Ratio> {
        let test = t_test(Method::Paired, &self.x, &self.y)?;
        ratio_of_logs(&self.x, &self.y, &test, upper_quantile(test.df, 1.0 - level)?)
    }

    /// The first against this share of the second.
    pub(super) fn against(&self, share: f64, looks: u32) -> Option<Against> {
        let bound: Vec<f64> = self.y.iter().map(|y| y + share.ln()).collect();
        let ((more, above), (less, _)) =
            (beyond(Method::Paired, &self.x, &bound, 1.0)?, beyond(Method::Paired, &self.x, &bound, -1.0)?);
        Some(Against { p: [over(looks, more), over(looks, less)], above })
    }
}

impl<'a> Cell<'a> {
    /// The paths that choose, each with its metric.
    pub(super) fn chooses(&self) -> impl Iterator<Item = (IoPath, Metric)> {
        let metric = |path: IoPath| match self.question.role(path) {
            Role::Chooses(metric) => Some((path, metric)),
            _ => None,
        };
        self.paths.iter().copied().filter_map(metric)
    }

    /// The static paths.
    pub(super) fn statics(&self) -> impl Iterator<Item = IoPath> {
        self.paths.iter().copied().filter(|path| self.question.role(*path) == Role::Static)
    }

    /// The trials of a path.
    fn of_path(&self, path: IoPath) -> impl Iterator<Item = &'a Trial> {
        self.trials.iter().copied().filter(move |trial| trial.path == path)
    }

    /// The measurements of a path that compete, with their blocks.
    fn competing(&self, path: IoPath, admission: Admission) -> impl Iterator<Item = (u32, &'a Measurement)> {
        self.of_path(path).filter_map(move |trial| Some((trial.replicate, admission.admit(trial).ok()?)))
    }

    /// The figures of a path.
    fn figures(&self, path: IoPath, metric: Metric) -> Sample {
        self.figures_by(path, metric, self.question.admission)
    }

    fn figures_by(&self, path: IoPath, metric: Metric, admission: Admission) -> Sample {
        self.competing(path, admission)
            .filter_map(|(block, one)| Some((block, metric.value(one, self.energy)?)))
            .collect()
    }

    /// Their logarithms, more being better.
    pub(super) fn logs(&self, path: IoPath, metric: Metric, blocks: Blocks) -> Sample {
        self.logs_by(path, metric, blocks, self.question.admission)
    }

    fn logs_by(&self, path: IoPath, metric: Metric, blocks: Blocks, admission: Admission) -> Sample {
        let log = |value: f64| if metric.more_is_better() { value.ln() } else { -value.ln() };
        let all = self.figures_by(path, metric, admission).into_iter();
        let logs = all.map(|(block, value)| (block, log(value)));
        blocks.of(logs.filter(|(_, log)| log.is_finite()).collect())
    }

    /// What of a path counts, and what does not.
    fn used(&self, path: IoPath, metric: Metric) -> Used {
        let [choosing, testing] =
            [Blocks::Choosing, Blocks::Testing].map(|half| self.logs(path, metric, half).len());
        let mut left_out = BarredCounts::default();
        let barred = self.of_path(path).filter_map(|trial| self.question.admission.admit(trial).err());
        barred.for_each(|why| left_out.add(why));
        let unmeasured = self.of_path(path).count() - left_out.total() - choosing - testing;
        Used { path, choosing, testing, left_out, unmeasured }
    }

    /// How many blocks of the cell are of this part.
    fn count(&self, blocks: Blocks) -> usize {
        let own = self.trials.iter().map(|trial| trial.replicate).filter(|block| blocks.has(*block));
        unique(own).len()
    }

    /// The static paths that have a figure in the blocks that choose, the worst first: by geometric means.
    fn ranked(&self, metric: Metric) -> Vec<IoPath> {
        let worth = |path: IoPath| {
            let logs: Vec<f64> =
                self.logs(path, metric, Blocks::Choosing).into_iter().map(|(_, log)| log).collect();
            (!logs.is_empty()).then(|| (path, mean(&logs)))
        };
        let mut all: Vec<(IoPath, f64)> = self.statics().filter_map(worth).collect();
        all.sort_by(|(_, a), (_, b)| a.total_cmp(b));
        all.into_iter().map(|(path, _)| path).collect()
    }

    /// The cell by each metric that one of its paths chooses for; p-values are not corrected.
    pub(super) fn scored(&self, looks: u32) -> Vec<ScoredCell> {
        let metrics = unique(self.chooses().map(|(_, metric)| metric));
        metrics.into_iter().map(|metric| self.scored_by(metric, looks)).collect()
    }

    fn scored_by(&self, metric: Metric, looks: u32) -> ScoredCell {
        let ranked = self.ranked(metric);
        let (best, worst) = (ranked.last().copied(), ranked.first().copied());
        let by_metric = self.chooses().filter(|(_, own)| *own == metric).map(|(path, _)| path);
        let mut rows: Vec<Row> = by_metric.map(|path| self.tested(path, metric, best, looks)).collect();
        for path in &self.paths {
            rows.extend(match self.question.role(*path) {
                Role::Random => Some(self.row(*path, Kind::Random, best, metric)),
                Role::Pinned(way) => {
                    let beside = way.filter(|way| self.paths.contains(way));
                    Some(self.row(*path, Kind::Pinned, beside, metric))
                }
                Role::Static | Role::Chooses(_) => None,
            });
        }
        let worst = worst.filter(|worst| best != Some(*worst));
        rows.extend(worst.map(|worst| self.row(worst, Kind::Worst, best, metric)));
        let used: Vec<Used> = self.paths.iter().map(|path| self.used(*path, metric)).collect();
        let mut left_out = BarredCounts::default();
        used.iter().for_each(|used| left_out += used.left_out);
        let blocks = [Blocks::Choosing, Blocks::Testing].map(|half| self.count(half));
        ScoredCell { setup: self.setup.clone(), metric, best, blocks, rows, used, left_out }
    }

    /// A path that chooses, tested against the best static one.
    fn tested(&self, path: IoPath, metric: Metric, best: Option<IoPath>, looks: u32) -> Row {
        let row = self.row(path, Kind::Chooses, best, metric);
        let against = best.and_then(|best| {
            self.compared([path, best], metric, Blocks::Testing).against(self.question.margin, looks)
        });
        let answer = match against {
            Some(_) => Answer::Undecided,
            None => Answer::NotTested(self.lacks(path, metric, best)),
        };
        let (p, above) = against.map(|Against { p, above }| (p, above)).unzip();
        Row { p, above, answer: Some(answer), ..row }
    }

    fn row(&self, path: IoPath, is: Kind, against: Option<IoPath>, metric: Metric) -> Row {
        let half = if is == Kind::Pinned { Blocks::All } else { Blocks::Testing };
        let mut row = Row {
            path,
            is,
            against,
            blocks: 0,
            of_blocks: self.count(half),
            means: None,
            ratio: None,
            with_left_out: None,
            iops: None,
            p: None,
            answer: None,
            more: None,
            above: None,
            marked: false,
        };
        let Some(other) = against else { return row };
        let compared = self.compared([path, other], metric, half);
        row.blocks = compared.blocks();
        row.ratio = compared.ratio(self.question.level);
        row.with_left_out = self.with_left_out([path, other], metric, half);
        row.iops = self.compared([path, other], Metric::Iops, half).ratio(self.question.level);
        let [own, others] = [path, other].map(|path| half.of(self.figures(path, metric)));
        let (own, others): (Vec<f64>, Vec<f64>) = pairs(&own, &others).into_iter().unzip();
        row.means = (!own.is_empty()).then(|| [mean(&own), mean(&others)]);
        let is_marked = |(_, one): (u32, &Measurement)| self.question.admission.is_marked(one);
        let admission = self.question.admission;
        row.marked = self.competing(path, admission).chain(self.competing(other, admission)).any(is_marked);
        row
    }

    fn compared(&self, [path, other]: [IoPath; 2], metric: Metric, blocks: Blocks) -> Compared {
        Compared::of(&self.logs(path, metric, blocks), &self.logs(other, metric, blocks))
    }

    /// The ratio of two paths if unproven and disturbed trials of them counted too; `None` if all of these
    /// count already.
    fn with_left_out(&self, [path, other]: [IoPath; 2], metric: Metric, half: Blocks) -> Option<Ratio> {
        let lax = Admission { with_unproven: true, ..self.question.admission };
        let would_count = |trial: &Trial| {
            let why = self.question.admission.admit(trial).err();
            half.has(trial.replicate) && matches!(why, Some(Barred::Unproven | Barred::Disturbed))
        };
        let any = self.of_path(path).chain(self.of_path(other)).any(would_count);
        let [own, others] = [path, other].map(|path| self.logs_by(path, metric, half, lax));
        any.then(|| Compared::of(&own, &others).ratio(self.question.level)).flatten()
    }

    /// What is missing for a test.
    fn lacks(&self, path: IoPath, metric: Metric, best: Option<IoPath>) -> String {
        if metric.is_energy() && self.energy.is_none() {
            return "no joules of the whole machine were measured: name a meter of it under [meters] in the \
                    study"
                .to_owned();
        }
        if self.statics().next().is_none() {
            return "there is no static path beside it: add one to the paths of its workload".to_owned();
        }
        let used = self.used(path, metric);
        if self.competing(path, self.question.admission).next().is_none() {
            return format!("no trial of {path} competes ({})", list(&used.left_out.words()));
        }
        let Some(best) = best else {
            return "no static path has a figure in a block that chooses, which are the second and every \
                    other one after it: measure 4 blocks or more"
                .to_owned();
        };
        let (all, of_best) = (self.count(Blocks::Testing), self.used(best, metric));
        let shared = self.compared([path, best], metric, Blocks::Testing).blocks();
        let remedy = match all {
            0 | 1 => "measure 4 blocks or more",
            _ => "measure again what was left out",
        };
        format!(
            "of {all} blocks that test, {} have a figure of {path}, {} of {best}, which the other blocks \
             chose, and {shared} of both, where a test needs 2; no path takes its place: {remedy}",
            used.testing, of_best.testing
        )
    }
}
