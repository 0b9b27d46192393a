//! Jobs of several kinds at once in the report: what each did, by which path.

use super::number::{decimal, thousands};
use super::table::Table;
use iopj_analysis::kinds::KindMeans;
use iopj_analysis::{CellRow, WorkloadTable};

/// What the figures of such a workload mean, for the report's foot.
const WORDS: &str = "Of jobs of several kinds at once, rate, latency and I/Os per joule are those of the \
                     workload's own jobs; CPU time, context switches and energy are those of all. Each \
                     kind's path was judged as it did I/O alone, just before the trial.";

fn kinds(row: &CellRow) -> &[KindMeans] {
    row.figures.as_ref().map_or(&[], |figures| &figures.kinds)
}

/// A kind of jobs, and the name of its row.
pub(super) type Line<'a> = (String, &'a KindMeans);

/// Every kind of every row of a workload; `name` names a row. None if there is one kind, and under emulation,
/// where times mean nothing.
pub(super) fn lines<'a>(table: &'a WorkloadTable, name: &dyn Fn(&CellRow) -> String) -> Vec<Line<'a>> {
    let rows = table.rows.iter().filter(|_| table.emulated.is_none());
    rows.flat_map(|row| kinds(row).iter().map(|kind| (name(row), kind))).collect()
}

/// Their table, below that of the workload's results.
pub(super) fn table<'a>(all: &'a [Line<'a>]) -> Table<'a, Line<'a>> {
    let mut grid = Table::of(all)
        .left("beside", |(name, _)| name.clone())
        .left("jobs", |(_, kind)| kind.title.clone())
        .left("by", |(_, kind)| kind.path.to_string())
        .left("verdict", |(_, kind)| verdicts(kind))
        .right("IOPS", |(_, kind)| thousands(kind.iops))
        .right("MB/s", |(_, kind)| decimal(kind.mb_per_s))
        .right("mean us", |(_, kind)| us(kind.latency_ns[0]))
        .right("p99", |(_, kind)| us(kind.latency_ns[1]));
    let or_none = |value: Option<f64>, text: fn(f64) -> String| value.map_or("-".to_owned(), text);
    if all.iter().any(|(_, kind)| kind.offered_iops.is_some()) {
        grid = grid.right("due/s", |(_, kind)| or_none(kind.offered_iops, thousands));
    }
    if all.iter().any(|(_, kind)| kind.sync_ns.is_some()) {
        grid = grid
            .right("sync us", |(_, kind)| or_none(kind.sync_ns.map(|[mean, _]| mean), us))
            .right("sync p99", |(_, kind)| or_none(kind.sync_ns.map(|[_, p99]| p99), us));
    }
    if all.iter().any(|(_, kind)| kind.overloaded > 0) {
        grid = grid.left("", |(_, kind)| match kind.overloaded {
            0 => String::new(),
            _ => "overload".to_owned(),
        });
    }
    grid
}

fn us(ns: f64) -> String {
    decimal(ns / 1e3)
}

fn verdicts(kind: &KindMeans) -> String {
    match &kind.verdicts[..] {
        [(one, _)] => one.as_str().to_owned(),
        several => {
            let each = several.iter().map(|(kind, count)| format!("{count} {}", kind.as_str()));
            each.collect::<Vec<_>>().join(", ")
        }
    }
}

/// What to know about such workloads, if a table has one.
pub(super) fn words(tables: &[WorkloadTable]) -> Option<&'static str> {
    let any = tables.iter().flat_map(|table| &table.rows).any(|row| !kinds(row).is_empty());
    any.then_some(WORDS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopj_analysis::testing::row;
    use iopj_core::{VerdictKind, Workload};
    use iopj_record::Measurement;
    use iopj_record::testing::kinds::kind;

    #[test]
    fn every_kind_of_every_path_has_a_line() {
        let measured = Measurement {
            window_ns: 1_000_000_000,
            kinds: vec![
                kind("io_uring/syscall/poll", 5000, 100_000.0, VerdictKind::Verified),
                kind("posix-sio/syscall/interrupt", 500, 2_000_000.0, VerdictKind::Unproven),
            ],
            ..Measurement::default()
        };
        let mut both = row("io_uring/syscall/poll", 5000.0);
        both.figures.as_mut().unwrap().kinds = KindMeans::of(&[&measured]);
        let tables = [WorkloadTable { workload: Workload::default(), emulated: None, rows: vec![both] }];
        let text = table(&lines(&tables[0], &|_| "poll".to_owned())).text();
        let written: Vec<&str> = text.lines().collect();
        assert_eq!(written.len(), 3, "{text}");
        let cells: Vec<&str> = written[2].split_whitespace().collect();
        let title = ["randread", "4k", "iodepth", "1", "numjobs", "1"];
        assert_eq!((cells[0], &cells[1..7]), ("poll", &title[..]));
        assert_eq!(cells[7..], ["posix-sio/syscall/interrupt", "unproven", "500", "2.05", "2,000", "6,000"]);
        assert!(words(&tables).is_some());
        let plain = [WorkloadTable { rows: vec![row("io_uring/syscall/poll", 1.0)], ..tables[0].clone() }];
        assert!(lines(&plain[0], &|_| String::new()).is_empty() && words(&plain).is_none());
    }
}
