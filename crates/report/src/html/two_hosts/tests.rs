//! Figures and tables of both hosts on the page.

use super::super::{figures, page};
use super::*;
use iopj_analysis::Admission;
use iopj_core::fabric::NetworkBaseline;
use iopj_record::testing::cells::measurement_of;
use iopj_record::testing::hosts::{by, store};
use iopj_record::testing::pairs::study;
use iopj_record::{StudyRecord, Trial};

fn drawn(study: &StudyRecord, trials: &[Trial]) -> Vec<Figure> {
    let section = section(&Model::new(study, trials, Admission::default()));
    section.groups.into_iter().flat_map(|group| group.figures).collect()
}

fn marks(figure: &Figure) -> usize {
    figure.drawing.svg().matches("class=\"mark").count()
}

fn emulated() -> StudyRecord {
    StudyRecord { emulated: Some("QEMU TCG".to_owned()), ..study("6.18") }
}

#[test]
fn interrupts_have_three_sides_and_cpu_a_bar_for_each_host() {
    let figures = drawn(&study("6.18"), &store());
    let ids: Vec<&str> = figures.iter().map(|figure| figure.id.as_str()).collect();
    let expected = [
        "interrupts-of-both-hosts-over-iodepth-randread-4k-numjobs-1-io_uring",
        "cpu-by-kind-on-both-hosts-randread-4k-iodepth-1-numjobs-1",
        "cpu-by-kind-on-both-hosts-randread-4k-iodepth-16-numjobs-1",
    ];
    assert_eq!(ids, expected);
    // Three lines of two points: loop's drive is not told apart.
    assert_eq!(marks(&figures[0]), 3 * 2);
    let rows: Vec<[&str; 4]> =
        figures[0].rows.iter().map(|row| [0, 1, 2, 4].map(|at| row[at].as_str())).collect();
    let expected = [
        ["local: drive", "6", "1", "1"],
        ["tcp, host: card", "6", "0.8", "0.05"],
        ["tcp, target: card and drive", "6", "1.1", "1.1"],
        ["tcp, target: card", "6", "0.6", "0.6"],
        ["tcp, target: drive", "6", "0.5", "0.5"],
    ];
    assert_eq!(rows, expected);
    // Five kinds above zero on the host that did the I/O, three on a target host that served it.
    assert_eq!(marks(&figures[1]), 3 * 5 + 3);
    assert_eq!(figures[1].columns[3..], ["user", "system", "iowait", "irq", "softirq", "steal", "idle"]);
    let target = figures[1].rows.iter().find(|row| row[0].contains("tcp") && row[1] == "target").unwrap();
    assert_eq!(target[2..], ["3", "1", "30", "0", "0", "10", "0", "59"].map(str::to_owned));
    assert!(figures[1].drawing.svg().contains("io_uring tcp, target"));
}

#[test]
fn a_store_without_a_wire_or_with_one_depth_has_no_interrupts_over_depth() {
    let local: Vec<Trial> = [1, 16].into_iter().flat_map(|depth| by(Transport::Local, depth)).collect();
    let is_of_interrupts = |figure: &Figure| figure.id.starts_with("interrupts");
    assert!(!drawn(&study("6.18"), &local).iter().any(is_of_interrupts));
    assert!(!drawn(&study("6.18"), &by(Transport::Tcp, 1)).iter().any(is_of_interrupts));
    let mut plain = store();
    plain.iter_mut().for_each(|trial| measurement_of(trial).evidence.fabric = None);
    assert!(drawn(&study("6.18"), &plain).is_empty());
    assert!(!page(&study("6.18"), &plain, &[], Admission::default()).contains("id=\"hosts\""));
}

#[test]
fn an_emulated_page_shows_interrupts_and_no_cpu() {
    let ids: Vec<String> = drawn(&emulated(), &store()).into_iter().map(|figure| figure.id).collect();
    assert_eq!(ids, ["interrupts-of-both-hosts-over-iodepth-randread-4k-numjobs-1-io_uring"]);
    let page = page(&emulated(), &store(), &[], Admission::default());
    assert!(page.contains("data-label=\"card irq\">0.80<"), "{page}");
    assert!(!page.contains("data-label=\"iowait\""));
}

#[test]
fn the_page_has_the_tables_and_every_format_the_figures() {
    let tool = "<iperf>".to_owned();
    let network = NetworkBaseline { bits_per_s: Some(45.4e9), tool, ..NetworkBaseline::default() };
    let study = StudyRecord { networks: vec![network], ..study("6.18") };
    let mut trials = store();
    trials.iter_mut().for_each(|trial| drop(trial.settings.insert("<b>".to_owned(), "<i>".to_owned())));
    let page = page(&study, &trials, &[], Admission::default());
    for part in [
        "<h2>Host and target host</h2>",
        "Transport local and loop: the target host did the I/O itself",
        "data-label=\"system\">30.0<",
        "data-label=\"drive irq\">0.50<",
        "Network by itself, before each block",
        "data-label=\"Gb/s\">45.40<",
        "&lt;iperf&gt;",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("<iperf>") && !page.contains("<b>=<i>"));
    let files = figures(&study, &trials, &[], Admission::default());
    let count = |names: Vec<String>| names.iter().filter(|name| name.contains("on-both-hosts")).count();
    assert_eq!(count(files.svg().into_iter().map(|(name, _)| name).collect()), 2);
    assert_eq!(count(files.pdf().into_iter().map(|(name, _)| name).collect()), 2);
}
