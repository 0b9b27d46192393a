//! The page of a watch: a mark for every line and stretch, tables with every step, and no foreign markup.

use super::super::figure::Figure;
use super::super::{watch_figures, watch_page, watch_time};
use iopj_core::watch::{EventCounts, WatchSubject};
use iopj_record::testing::watches::watch;
use iopj_record::watch::WatchRecord;

fn drawn(record: &WatchRecord) -> Vec<Figure> {
    watch_time::section(record).groups.into_iter().flat_map(|group| group.figures).collect()
}

fn figure<'a>(all: &'a [Figure], id: &str) -> &'a Figure {
    all.iter().find(|figure| figure.id == id).unwrap_or_else(|| panic!("no {id}"))
}

fn count(figure: &Figure, class: &str) -> usize {
    figure.drawing.svg().matches(&format!("class=\"{class}\"")).count()
}

const PER_IO: &str = "context-switches-system-calls-and-interrupts-per-i-o-over-time";

#[test]
fn every_quantity_is_a_mark_and_every_step_a_row() {
    let all = drawn(&watch(4));
    let found: Vec<_> = all.iter().map(|one| (one.id.as_str(), one.columns.len(), one.rows.len())).collect();
    let expected = [
        ("iops-by-disk-over-time", 3, 4),
        ("mb-s-by-disk-over-time", 3, 4),
        ("latency-by-disk-over-time", 3, 4),
        ("cpu-of-the-machine-by-kind-over-time", 4, 4),
        ("cpu-of-the-program-over-time", 4, 4),
        (PER_IO, 6, 4),
        ("power-package-over-time", 3, 4),
    ];
    assert_eq!(found, expected);
    let lines: Vec<usize> = all.iter().map(|one| count(one, "mark curve")).collect();
    assert_eq!(lines, [1, 1, 1, 0, 2, 3, 1]);
    let cpu = figure(&all, "cpu-of-the-machine-by-kind-over-time");
    assert_eq!((count(cpu, "mark part d0"), count(cpu, "mark part d1")), (1, 1));
    assert_eq!(figure(&all, "iops-by-disk-over-time").rows[2], ["4", "6", "1500"]);
    let page = watch_page(&watch(4));
    let marks = |svg: &str| svg.matches("class=\"mark").count();
    let of_figures = all.iter().map(|one| marks(&one.drawing.svg())).sum::<usize>();
    assert_eq!((marks(&page), watch_figures(&watch(4)).pdf().len()), (of_figures, 7));
}

#[test]
fn a_line_is_broken_where_counting_rested_and_the_lane_says_so() {
    let mut record = watch(4);
    record.intervals[1].evidence.events =
        Some(EventCounts { of_ns: 2_000_000_000, ..EventCounts::default() });
    let whole = record.intervals[3].evidence.events.as_mut().unwrap();
    whole.counted_ns = whole.of_ns;
    let all = drawn(&record);
    let per_io = figure(&all, PER_IO);
    let svg = per_io.drawing.svg();
    let path = |name: &str| {
        let (before, _) = svg.split_once(&format!("<title>{name}</title>")).unwrap();
        before.rsplit_once("d=\"").unwrap().1.to_owned()
    };
    assert_eq!(["context switches", "system calls"].map(|name| path(name).matches('M').count()), [1, 2]);
    // Counted in part, not at all, in part; the last was counted throughout.
    let lane = [count(per_io, "mark trial window faint s5"), count(per_io, "mark trial window s5")];
    assert_eq!(lane, [2, 1]);
    assert!(svg.contains("~ counted 50.0 % of the time") && svg.contains("counting rested"));
    let shares: Vec<&str> = per_io.rows.iter().map(|row| row.last().unwrap().as_str()).collect();
    assert_eq!(shares, ["50", "0", "50", "100"]);
    assert_eq!(per_io.rows[1][3], "", "no figure");
    record.intervals.iter_mut().for_each(|one| one.evidence.events = None);
    assert!(!figure(&drawn(&record), PER_IO).drawing.svg().contains("window"));
}

#[test]
fn the_page_says_which_paths_what_shows_them_and_what_is_not_seen() {
    let page = watch_page(&watch(2));
    for part in [
        "posix-sio, buffered",
        "500 calls of pread64",
        "proven",
        "ended with exit code 3",
        "all ~1,500<br>pread64 ~1,250",
        "<b>~1.50</b> system calls per I/O",
        "hits 50.0 %",
        "<h2>Not seen</h2>",
        "Latencies are not sampled: no tracefs",
        "Each step is an interval of 2 s.",
        "~ marks where counting rested",
    ] {
        assert!(page.contains(part), "no `{part}`");
    }
    assert!(!page.contains('\u{1b}') && !page.contains("NaN"));
}

#[test]
fn foreign_texts_are_texts_and_what_is_absent_is_a_sentence() {
    let evil = "<img src=x onerror=alert(1)>";
    let mut record = watch(2);
    record.subject = WatchSubject::Command(vec![evil.to_owned(); 2]);
    record.denied = vec![evil.to_owned()];
    record.paths[0].why = evil.to_owned();
    record.provenance.insert(evil.to_owned(), evil.to_owned());
    let whole = &mut record.evidence;
    for evidence in record.intervals.iter_mut().map(|one| &mut one.evidence).chain([whole]) {
        evidence.devices[0].counts.name = evil.to_owned();
        evidence.power[0].meter = evil.to_owned();
        evidence.events.as_mut().unwrap().calls = [(evil.to_owned(), 5)].into();
    }
    let page = watch_page(&record);
    assert!(!page.contains("<img") && page.contains("&lt;img src=x onerror=alert(1)&gt;"));
    record.intervals.clear();
    let short = watch_page(&record);
    assert!(short.contains("there is nothing to show over time") && !short.contains("<figure"));
    assert!(watch_figures(&record).svg().is_empty());
}

#[test]
fn many_intervals_are_joined_and_those_that_were_not_kept_are_said() {
    let mut record = watch(1500);
    record.evidence.over_ns = 4_000_000_000_000;
    let all = drawn(&record);
    assert!(all.iter().all(|one| one.rows.len() == 500), "three intervals a step");
    let page = watch_page(&record);
    assert!(page.contains("Each step is 3 intervals of 2 s: their mean"));
    assert!(page.contains("The store keeps the first 1,500 intervals of 4,000 s"));
}
