//! The paths of one cell: which static one is best, chosen in one half of the blocks, and how the others
//! compare with it in the other half.

use super::{Answer, Kind, Role, Row, ScoreQuestion, ScoredCell};
use crate::analysis::admission::BarredCounts;
use crate::analysis::contrast::{Sample, pairs, ratio_of_logs};
use crate::analysis::grouping::{TrialSetup, list, unique};
use crate::analysis::metric::Metric;
use crate::analysis::stats::{Method, Ratio, beyond, mean, over, t_test, upper_quantile};
use iopj_core::IoPath;
use iopj_store::{EnergySource, Measurement, Trial};

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

    /// p-values of the first being more than this share of the second, and of its being less, for all looks.
    pub(super) fn against(&self, share: f64, looks: u32) -> Option<[f64; 2]> {
        let bound: Vec<f64> = self.y.iter().map(|y| y + share.ln()).collect();
        let p = |direction| beyond(Method::Paired, &self.x, &bound, direction).map(|(p, _)| over(looks, p));
        Some([p(1.0)?, p(-1.0)?])
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

    /// The measurements of a path that compete, with their blocks.
    fn competing(&self, path: IoPath) -> impl Iterator<Item = (u32, &'a Measurement)> {
        let own = self.trials.iter().filter(move |trial| trial.path == path);
        own.filter_map(|trial| Some((trial.replicate, self.question.admission.admit(trial).ok()?)))
    }

    /// The figures of a path.
    fn figures(&self, path: IoPath, metric: Metric) -> Sample {
        self.competing(path)
            .filter_map(|(block, one)| Some((block, metric.value(one, self.energy)?)))
            .collect()
    }

    /// Their logarithms, more being better.
    pub(super) fn logs(&self, path: IoPath, metric: Metric, blocks: Blocks) -> Sample {
        let log = |value: f64| if metric.more_is_better() { value.ln() } else { -value.ln() };
        let all = self.figures(path, metric).into_iter().map(|(block, value)| (block, log(value)));
        blocks.of(all.filter(|(_, log)| log.is_finite()).collect())
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
        let mut left_out = BarredCounts::default();
        let barred = self.trials.iter().filter_map(|trial| self.question.admission.admit(trial).err());
        barred.for_each(|why| left_out.add(why));
        ScoredCell { setup: self.setup.clone(), metric, best, rows, left_out }
    }

    /// A path that chooses, tested against the best static one.
    fn tested(&self, path: IoPath, metric: Metric, best: Option<IoPath>, looks: u32) -> Row {
        let mut row = self.row(path, Kind::Chooses, best, metric);
        let p = best.and_then(|best| {
            self.compared([path, best], metric, Blocks::Testing).against(self.question.margin, looks)
        });
        row.answer = match p {
            Some(_) => Some(Answer::Undecided),
            None => Some(Answer::NotTested(self.lacks(path, metric, best))),
        };
        Row { p, ..row }
    }

    fn row(&self, path: IoPath, is: Kind, against: Option<IoPath>, metric: Metric) -> Row {
        let half = if is == Kind::Pinned { Blocks::All } else { Blocks::Testing };
        let mut row = Row {
            path,
            is,
            against,
            blocks: 0,
            means: None,
            ratio: None,
            iops: None,
            p: None,
            answer: None,
            marked: false,
        };
        let Some(other) = against else { return row };
        let compared = self.compared([path, other], metric, half);
        row.blocks = compared.blocks();
        row.ratio = compared.ratio(self.question.level);
        row.iops = self.compared([path, other], Metric::Iops, half).ratio(self.question.level);
        let [own, others] = [path, other].map(|path| half.of(self.figures(path, metric)));
        let (own, others): (Vec<f64>, Vec<f64>) = pairs(&own, &others).into_iter().unzip();
        row.means = (!own.is_empty()).then(|| [mean(&own), mean(&others)]);
        let is_marked = |(_, one): (u32, &Measurement)| self.question.admission.is_marked(one);
        row.marked = self.competing(path).chain(self.competing(other)).any(is_marked);
        row
    }

    fn compared(&self, [path, other]: [IoPath; 2], metric: Metric, blocks: Blocks) -> Compared {
        Compared::of(&self.logs(path, metric, blocks), &self.logs(other, metric, blocks))
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
        if self.competing(path).next().is_none() {
            let mut barred = BarredCounts::default();
            let own = self.trials.iter().filter(|trial| trial.path == path);
            let why = own.filter_map(|trial| self.question.admission.admit(trial).err());
            why.for_each(|why| barred.add(why));
            return format!("no trial of {path} competes ({})", list(&barred.words()));
        }
        let Some(best) = best else {
            return "no static path has a figure in a block that chooses, which are the second and every \
                    other one after it: measure 4 blocks or more"
                .to_owned();
        };
        let shared = self.compared([path, best], metric, Blocks::Testing).blocks();
        format!(
            "blocks that test and have figures of {path} and of {best}: {shared}, and a test needs 2: \
             measure 4 blocks or more"
        )
    }
}
