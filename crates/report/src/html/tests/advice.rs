//! The page's advice and its figures: over load, latency against cost, CPU time.

use super::super::figure::Figure;
use super::super::model::Model;
use super::super::sections::sections;
use super::super::{figures, page};
use iopj_analysis::Admission;
use iopj_analysis::advise::AdviseQuestion;
use iopj_analysis::testing::asking;
use iopj_core::evidence::CpuTimes;
use iopj_record::Trial;
use iopj_record::testing::cells::measurement_of;
use iopj_record::testing::loads::store;
use iopj_record::testing::pairs::study;

fn drawn(trials: &[Trial], question: AdviseQuestion) -> Vec<Figure> {
    let study = study("6.1");
    let sections = sections(&Model::new(&study, trials, question), &[]);
    sections.into_iter().flat_map(|one| one.groups).flat_map(|group| group.figures).collect()
}

fn count(svg: &str, class: &str) -> usize {
    svg.matches(&format!("class=\"{class}\"")).count()
}

#[test]
fn load_curves_have_a_mark_for_each_rate_hollow_ones_where_a_path_falls_behind_and_the_bound() {
    let of = |question| -> Vec<String> {
        let all = drawn(&store(), question);
        let own = ["p99-latency-over-load-randread-4k", "energy-per-i-o-over-load-randread-4k"];
        own.map(|id| all.iter().find(|figure| figure.id == id).unwrap().drawing.svg()).into()
    };
    let marks = |svg: &String| (count(svg, "mark"), count(svg, "mark hollow"), count(svg, "limit"));
    let bound = of(asking(None, Some(200.0)));
    assert_eq!(bound.iter().map(marks).collect::<Vec<_>>(), [(6, 2, 1), (6, 2, 0)]);
    let plain = of(asking(None, None));
    assert_eq!(marks(&plain[0]).0 + marks(&plain[0]).1, 8);
}

#[test]
fn latency_against_cost_has_a_mark_for_each_way_and_its_table_the_front() {
    let all = drawn(&store(), asking(None, Some(200.0)));
    let ids = all.iter().filter(|figure| figure.id.starts_with("latency-against-cost"));
    let own: Vec<&Figure> = ids.collect();
    let marks: Vec<usize> =
        own.iter().map(|figure| figure.drawing.svg().matches("class=\"mark").count()).collect();
    assert_eq!(marks, [3, 3, 2]);
    let fronts: Vec<usize> = own
        .iter()
        .map(|figure| figure.rows.iter().filter(|row| row.last().is_some_and(|cell| cell == "yes")).count())
        .collect();
    assert_eq!(fronts, [3, 2, 1]);
}

#[test]
fn cpu_time_by_kind_is_a_part_for_each_kind_that_occurs_and_power_a_mark_for_each_cell() {
    let mut trials = store();
    assert!(drawn(&trials, asking(None, None)).iter().all(|one| !one.id.starts_with("cpu-time-by-kind")));
    for trial in &mut trials {
        let cpu = &mut measurement_of(trial).evidence.cpu;
        *cpu = CpuTimes { user_ns: 10, system_ns: 20, softirq_ns: 5, idle_ns: 65, ..CpuTimes::default() };
    }
    let all = drawn(&trials, asking(None, None));
    let own: Vec<&Figure> = all.iter().filter(|one| one.id.starts_with("cpu-time-by-kind")).collect();
    // Workloads, not loads: four jobs at 10,000 and one are two.
    assert_eq!(own.len(), 5);
    let row = &own[0].rows[0];
    assert_eq!(row[2..], ["10", "20", "0", "5", "0", "0"].map(str::to_owned));
    assert_eq!(own[0].drawing.svg().matches("class=\"mark part").count(), 3 * own[0].rows.len());
    let power = all.iter().find(|one| one.id.starts_with("cpu-use-against-power")).unwrap();
    assert_eq!(power.drawing.svg().matches("class=\"mark").count(), 8);
}

#[test]
fn the_page_begins_with_the_advice_and_escapes_what_it_quotes() {
    let evil = "<img src=x>";
    let mut trials = store();
    trials.iter_mut().for_each(|trial| drop(trial.settings.insert("scheduler".to_owned(), evil.to_owned())));
    let html = page(&study("6.1"), &trials, &[], asking(None, Some(200.0)));
    let [advice, summary] =
        ["<section id=\"advice\">", "<section id=\"summary\">"].map(|one| html.find(one).unwrap());
    assert!(advice < summary && html.contains("<a href=\"#advice\">Advice</a>"));
    assert!(html.contains("<b>Take io_uring/syscall/interrupt with numjobs 1 and iodepth 32"));
    assert!(html.contains("What to type") && html.contains("--rate_iops=40000"));
    assert!(!html.contains("<img") && !html.contains("NaN"));
    let plain = page(&study("6.1"), &[], &[], Admission::default());
    assert!(!plain.contains("id=\"advice\""));
    let files = figures(&study("6.1"), &trials, &[], asking(None, Some(200.0)));
    assert!(
        files
            .pdf()
            .iter()
            .any(|(name, pdf)| name == "p99-latency-over-load-randread-4k.pdf" && pdf.len() > 999)
    );
}
