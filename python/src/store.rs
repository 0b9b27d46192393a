//! Stores for Python: their tables, and the answers to questions, as JSON.

use crate::error::{Error, failed, wrong};
use crate::predict::{Asked, predicted};
use crate::table::Batches;
use iopj_analysis::Admission;
use iopj_analysis::advise::advise;
use iopj_analysis::asked::{AdviseWords, WinnerWords, metric};
use iopj_analysis::compare::{Comparison, compare, compare_within};
use iopj_analysis::stats;
use iopj_analysis::winner::Axis;
use iopj_fleet::table::{Contents, Table, batch};
use iopj_papers::claims::{ClaimContext, decide};
use iopj_record::{StudyRecord, Trial};
use iopj_report::{html, json};
use iopj_store::Store as File;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::path::PathBuf;

/// A store, read when it was opened.
#[pyclass(frozen, module = "iopj._native")]
pub(crate) struct Store {
    /// Absolute.
    path: PathBuf,
    contents: Contents,
    /// The trials in force; absent if all are.
    in_force: Option<Vec<Trial>>,
}

fn admission(with_unproven: bool) -> Admission {
    Admission { with_unproven, ..Admission::default() }
}

impl Store {
    fn study(&self) -> &StudyRecord {
        &self.contents.study
    }

    /// Those in force.
    fn trials(&self) -> &[Trial] {
        self.in_force.as_deref().unwrap_or(&self.contents.trials)
    }

    fn named(&self, why: impl ToString) -> PyErr {
        Error::new_err(format!("{}: {}", self.path.display(), why.to_string()))
    }
}

#[pymethods]
impl Store {
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Store> {
        let contents = py.detach(|| File::open(&path).and_then(|store| Contents::read(&store)));
        let contents = contents.map_err(failed)?;
        let is_in_force = |trial: &&Trial| contents.study.is_in_force(trial.replicate);
        let are_all = contents.trials.iter().all(|trial| is_in_force(&trial));
        let in_force = (!are_all).then(|| contents.trials.iter().filter(is_in_force).cloned().collect());
        let path = std::path::absolute(&path)?;
        Ok(Store { path, contents, in_force })
    }

    #[getter]
    fn path(&self) -> PathBuf {
        self.path.clone()
    }

    #[getter]
    fn name(&self) -> &str {
        &self.study().name
    }

    /// What the study's text is, as TOML.
    #[getter(study)]
    fn study_text(&self) -> &str {
        &self.study().text
    }

    /// Facts of the machine.
    #[getter]
    fn provenance(&self) -> std::collections::BTreeMap<String, String> {
        self.study().provenance.clone()
    }

    /// The emulator under which times mean nothing.
    #[getter]
    fn emulated(&self) -> Option<String> {
        self.study().emulated.as_ref().map(ToString::to_string)
    }

    /// The series of figures in the report's order: path, generator, settings as in the table of trials, and
    /// a label that tells it from the others.
    fn series(&self) -> Vec<Series> {
        let of = |one: html::SeriesName| {
            let settings = one.settings.iter().map(|(name, value)| format!("{name}={value}"));
            let settings = settings.collect::<Vec<_>>().join(" ");
            (one.path.to_string(), one.generator.as_str().to_owned(), settings, one.label)
        };
        html::series(self.trials()).into_iter().map(of).collect()
    }

    /// The plots of figures by the report's rules: along an axis, or one for each workload.
    fn plots(&self, py: Python<'_>, axis: Option<&str>) -> PyResult<Vec<Plot>> {
        let plots = py.detach(|| {
            let axis = axis.map(str::parse::<Axis>).transpose().ok()?;
            html::plots(self.study(), self.trials(), axis, admission(false).of(self.study()))
        });
        let plots = plots.ok_or_else(|| {
            let named = axis.unwrap_or_default();
            let text = format!("axis: `{named}` has no numbers: use iodepth, numjobs, bs or rate_iops");
            PyValueError::new_err(text)
        })?;
        let cell = |cell: html::PlotCell| (cell.series, cell.at, cell.positions, cell.is_verified);
        Ok(plots.into_iter().map(|plot| (plot.title, plot.cells.into_iter().map(cell).collect())).collect())
    }

    fn table(&self, py: Python<'_>, name: &str) -> PyResult<Batches> {
        let table = Table::named(name).ok_or_else(|| {
            let names: Vec<&str> = Table::ALL.into_iter().map(Table::name).collect();
            PyValueError::new_err(format!("there is no table `{name}`: use one of {}", names.join(", ")))
        })?;
        Ok(Batches(py.detach(|| batch(&self.contents, table))))
    }

    fn winners(
        &self,
        py: Python<'_>,
        metric_name: Option<String>,
        axes: (String, String),
        test: Option<String>,
        with_unproven: bool,
    ) -> PyResult<String> {
        py.detach(|| {
            let words = WinnerWords::of([&axes.0, &axes.1], test.as_deref()).map_err(wrong)?;
            let mut question = words.question(self.study(), admission(with_unproven)).map_err(wrong)?;
            let metric = metric(metric_name.as_deref(), self.study(), self.trials(), question.admission);
            question.metric = metric.map_err(wrong)?;
            question.admits(self.study()).map_err(|why| self.named(why))?;
            Ok(json::winners(self.study(), self.trials(), &question).to_string())
        })
    }

    fn claims(&self, py: Python<'_>, with_unproven: bool) -> PyResult<String> {
        py.detach(|| {
            let context = ClaimContext::of(self.study(), self.trials(), admission(with_unproven));
            let claims = decide(self.trials(), &context);
            json::claims(&claims).map(|value| value.to_string()).map_err(failed)
        })
    }

    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    #[pyo3(signature = (objective, p99, p99_9, rate, price, with_unproven))]
    fn advise(
        &self,
        py: Python<'_>,
        objective: Option<String>,
        p99: Option<String>,
        p99_9: Option<String>,
        rate: Option<String>,
        price: Option<f64>,
        with_unproven: bool,
    ) -> PyResult<String> {
        let words = AdviseWords {
            objective: objective.as_deref(),
            p99: p99.as_deref(),
            p99_9: p99_9.as_deref(),
            rate: rate.as_deref(),
            price,
        };
        py.detach(|| {
            let question = words.question(self.study(), admission(with_unproven)).map_err(wrong)?;
            let advice = advise(self.study(), self.trials(), &question).map_err(|why| self.named(why))?;
            Ok(json::advice(&advice, &question).to_string())
        })
    }

    fn predict(&self, py: Python<'_>, asked: &str, with_unproven: bool) -> PyResult<String> {
        let asked: Asked =
            serde_json::from_str(asked).map_err(|why| PyValueError::new_err(why.to_string()))?;
        let answer = py.detach(|| predicted(self.study(), self.trials(), admission(with_unproven), &asked));
        answer.map_err(|refused| refused.into_error(&self.path))
    }

    /// The comparison of the two sides of `by`.
    fn compare_within(
        &self,
        py: Python<'_>,
        by: &str,
        ignore: Vec<String>,
        with_unproven: bool,
    ) -> PyResult<String> {
        py.detach(|| {
            let admission = admission(with_unproven);
            let within = compare_within(self.study(), self.trials().to_vec(), by, &ignore, admission);
            compared(&within.map_err(|why| self.named(why))?)
        })
    }

    /// The comparison with another store, measured after this one.
    fn compare(
        &self,
        py: Python<'_>,
        after: &Store,
        ignore: Vec<String>,
        with_unproven: bool,
    ) -> PyResult<String> {
        py.detach(|| {
            let [before, after] = [self, after].map(|store| (store.study(), store.trials()));
            compared(&compare(before, after, &ignore, admission(with_unproven)).map_err(failed)?)
        })
    }
}

fn compared(comparison: &Comparison) -> PyResult<String> {
    if let Some(nothing) = comparison.nothing() {
        return Err(failed(nothing));
    }
    json::comparison(comparison, None).map(|value| value.to_string()).map_err(failed)
}

/// A series of figures: path, generator, settings and label.
type Series = (String, String, String, String);

/// A plot: its title, and of each cell its series, its value on the axis, the positions of its trials, and
/// whether one of them is verified.
type Plot = (String, Vec<(usize, Option<u32>, Vec<u64>, bool)>);

/// The style of the report's figures on white, as CSS.
#[pyfunction]
pub(crate) fn figure_style() -> String {
    html::light_style()
}

/// The number of values, their mean, and its 95 % interval by Student's t if there are two or more.
type Summary = (usize, f64, Option<(f64, f64)>);

/// The summary of values; nothing of no value.
#[pyfunction]
pub(crate) fn summarize(values: Vec<f64>) -> Option<Summary> {
    stats::summarize(&values).map(|summary| (summary.n, summary.mean, summary.interval))
}
