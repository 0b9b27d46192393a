//! Trials that were not steady are flagged with their figures; steady ones are not.

use iopj_analysis::Admission;
use iopj_analysis::metric::Metric;
use iopj_analysis::steady::{Flag, Unsteady, far_off, is_unsteady, trend, unsteady};
use iopj_analysis::winner::{Axis, Decision, WinnerQuestion, winner_maps};
use iopj_analysis::without_unsteady::maps_without_unsteady;
use iopj_core::evidence::SteadyState;
use iopj_core::{VerdictKind, Workload};
use iopj_record::testing::plain::{measurement, study, trial};
use iopj_record::{Outcome, Slice, Trial};
use iopj_report::{html, report, winners};

const PATH: &str = "io_uring/syscall/interrupt";

fn series(ios: &[u64]) -> Vec<Slice> {
    ios.iter().zip(1..).map(|(ios, slice)| Slice { end_ns: slice * 100_000_000, ios: *ios }).collect()
}

fn cell(iops: &[u64]) -> Vec<Trial> {
    iops.iter()
        .zip(0..)
        .map(|(iops, replicate)| trial(PATH, &Workload::default(), replicate, *iops))
        .collect()
}

#[test]
fn a_rising_rate_is_scipys_line() {
    // scipy.stats.linregress of the rates at the slices' middles (SciPy 1.17.1): slope 120.22556390977442 a
    // second over two, p 1.533941118921485e-12
    let rising =
        [100, 103, 99, 104, 107, 105, 108, 110, 106, 112, 111, 115, 113, 118, 116, 117, 121, 119, 123, 122];
    let Some(Unsteady::Trend { from, to, p }) = trend(&series(&rising)) else { panic!("no trend") };
    let (mean, half) = (1114.5, 120.22556390977442);
    assert!((from - (mean - half)).abs() < 1e-6 && (to - (mean + half)).abs() < 1e-6, "{from} {to}");
    assert!((p / 1.533941118921485e-12 - 1.0).abs() < 1e-9);
    let falling: Vec<u64> = rising.into_iter().rev().collect();
    let Some(Unsteady::Trend { from, to, .. }) = trend(&series(&falling)) else { panic!("no trend") };
    assert!((from - (mean + half)).abs() < 1e-6 && (to - (mean - half)).abs() < 1e-6, "{from} {to}");
}

#[test]
fn no_rate_falls_by_125_percent() {
    let words = |ios: &[u64]| trend(&series(ios)).map(|reason| reason.to_string()).unwrap_or_default();
    // The line falls by 127 % of the mean rate, to 22 % of its start (SciPy 1.17.1, linregress: 1633.94,
    // 366.06).
    let falling = [157, 144, 132, 119, 106, 94, 81, 69, 56, 42];
    assert_eq!(words(&falling), "its rate fell from 1634 to 366 IOPS over the window (p < 0.01)");
    // A line that ends below zero ends at no I/O (4664.29, -1850.96, p 0.0067).
    let stopping = [900, 400, 200, 100, 50, 20, 10, 5, 2, 1, 0, 0];
    assert_eq!(words(&stopping), "its rate fell from 4664 to 0 IOPS over the window (p < 0.01)");
}

#[test]
fn small_or_uncertain_changes_are_no_trend() {
    // A significant rise of 7 %; a fall that noisy slices do not show; a steep one over too few slices;
    // nothing to fit.
    assert_eq!(trend(&series(&[1000, 1007, 1014, 1021, 1028, 1035, 1042, 1049, 1056, 1063])), None);
    assert_eq!(trend(&series(&[100, 60, 85, 110, 70, 95, 60, 105, 60, 80])), None);
    assert_eq!(trend(&series(&[900, 800, 700, 600, 500, 400, 300, 200, 100])), None);
    assert_eq!(trend(&series(&[100, 50])), None);
    assert_eq!(trend(&[]), None);
    assert_eq!(trend(&series(&[0; 10])), None);
}

#[test]
fn a_short_last_slice_weighs_little() {
    let mut slices = series(&[100; 10]);
    slices.push(Slice { end_ns: 1_000_100_000, ios: 1 });
    assert_eq!(trend(&slices), None);
}

#[test]
fn a_replicate_far_off_is_flagged_by_its_z() {
    // Median 102; deviations 2 1 0 1 2 48 0, their median 1.
    let flags = far_off(&[100.0, 101.0, 102.0, 103.0, 104.0, 150.0, 102.0]);
    let [(5, Unsteady::FarOff { iops: 150.0, median: 102.0, z })] = flags[..] else { panic!("{flags:?}") };
    assert!((z - 0.6745 * 48.0).abs() < 1e-9, "{z}");
    // Nothing is found among three replicates, nor among equal ones; one that differs among equal ones is
    // found by the mean deviation.
    assert_eq!(far_off(&[100.0, 100.0, 900.0]), []);
    assert_eq!(far_off(&[100.0; 5]), []);
    assert_eq!(far_off(&[100.0, 100.0, 100.0, 100.0, 100.0, 100.0, 100.0, 110.0]).len(), 1);
}

#[test]
fn flags_name_their_trials_and_refuted_ones_are_no_replicates() {
    let mut trials = cell(&[1000, 1010, 990, 1005, 5000, 1002]);
    measurement(&mut trials[0]).series = series(&[80, 85, 90, 95, 100, 105, 110, 115, 120, 125]);
    let [first, second] = unsteady(&trials)[..] else { panic!() };
    assert!(matches!(first, Flag { trial: 0, reason: Unsteady::Trend { .. } }));
    assert!(matches!(second, Flag { trial: 4, reason: Unsteady::FarOff { .. } }));
    assert_eq!(first.reason.to_string(), "its rate rose from 775 to 1275 IOPS over the window (p < 0.01)");
    assert!(
        second.reason.to_string().starts_with("its 5000 IOPS are far from the 1004 of the other replicates")
    );
    measurement(&mut trials[4]).verdict.kind = VerdictKind::Refuted;
    trials[0].outcome = Outcome::Failed("it broke".into());
    assert_eq!(unsteady(&trials), []);
}

#[test]
fn cells_are_kept_apart() {
    let mut trials = cell(&[1000, 1010, 990, 1005]);
    trials.push(trial("io_uring/syscall/poll", &Workload::default(), 0, 5000));
    trials.push(trial(PATH, &Workload { bs: 8192, ..Workload::default() }, 0, 5000));
    assert_eq!(unsteady(&trials), []);
}

#[test]
fn a_ramp_that_did_not_settle_makes_its_trial_unsteady() {
    let state = SteadyState {
        ramp_ns: 10_000_000_000,
        duration_ns: 1_000_000_000,
        limit: 0.1,
        change: Some(-0.23),
        ..SteadyState::default()
    };
    let mut trials = cell(&[1000, 1010]);
    assert!(!is_unsteady(measurement(&mut trials[1])));
    measurement(&mut trials[0]).evidence.steadystate = Some(SteadyState { attained: true, ..state });
    measurement(&mut trials[1]).evidence.steadystate = Some(state);
    assert!(!is_unsteady(measurement(&mut trials[0])) && is_unsteady(measurement(&mut trials[1])));
    let [flag] = unsteady(&trials)[..] else { panic!() };
    assert_eq!((flag.trial, flag.reason), (1, Unsteady::Ramp(state)));
    let words = "its rate still fell from 112 to 88 % of its mean in 1.0 s after a ramp of 10.0 s, the \
                 longest allowed; the rule allows a change of 10 %";
    assert_eq!(flag.reason.to_string(), words);
    // A line that falls by more than its mean ends at no I/O.
    let steep = Unsteady::Ramp(SteadyState { change: Some(-2.5), ..state }).to_string();
    assert!(steep.starts_with("its rate still fell from 225 to 0 % of its mean in 1.0 s"), "{steep}");
    let known = SteadyState { noise: Some(0.1), over_ns: Some(1_000_000_000), ..state };
    assert_eq!(Unsteady::Ramp(known).to_string(), words);
    let hidden = Unsteady::Ramp(SteadyState { noise: Some(0.2), over_ns: Some(8_000_000_000), ..state });
    let words = "noise hides the slope of its rate after a ramp of 10.0 s, the longest allowed: -23 ± 20 % \
                 of its mean in 1.0 s, by the last 8.0 s; the rule allows 10 %";
    assert_eq!(hidden.to_string(), words);
    let idle = Unsteady::Ramp(SteadyState { change: None, ..state });
    assert_eq!(
        idle.to_string(),
        "its rate over 1.0 s could not be determined after a ramp of 10.0 s, the longest allowed"
    );
}

/// A ramp that was not steady at its longest.
fn unsettled() -> SteadyState {
    SteadyState { ramp_ns: 1, duration_ns: 1, limit: 0.1, change: Some(1.0), ..SteadyState::default() }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

const FASTER: &str = "io_uring/syscall/poll";

/// Two paths at these depths, five times each.
fn at_depths(iodepths: &[u32]) -> Vec<Trial> {
    let mut trials = Vec::new();
    for replicate in 0..5 {
        for iodepth in iodepths {
            let workload = Workload { iodepth: *iodepth, ..Workload::default() };
            trials.push(trial(PATH, &workload, replicate, 1000 + 3 * u64::from(replicate % 3)));
            trials.push(trial(FASTER, &workload, replicate, 1100 + 5 * u64::from(replicate % 2)));
        }
    }
    trials
}

#[test]
fn winners_and_the_page_say_what_is_left_without_unsteady_trials() {
    let faster = FASTER;
    let mut trials = at_depths(&[1, 4]);
    let study = study(20);
    let question = WinnerQuestion::new(Metric::Iops, Axis::Iodepth, Axis::Bs).unwrap();
    let of = |trials: &[Trial]| {
        maps_without_unsteady(&study, trials, &question, &winner_maps(trials, &question)).remove(0)
    };
    let page = |trials: &[Trial]| html::page(&study, trials, &[], Admission::default());
    assert_eq!(of(&trials), None);
    assert!(
        !winners(&study, &trials, &question).contains("without") && !page(&trials).contains("rate changed")
    );
    // One of five changes nothing.
    measurement(&mut trials[1]).evidence.steadystate = Some(unsettled());
    assert_eq!(of(&trials).map(|apart| (apart.trials, apart.cells.len())), Some((1, 0)));
    let words = one_line(&winners(&study, &trials, &question));
    assert!(
        words.contains("without the trial whose rate changed: every cell is decided the same way"),
        "{words}"
    );
    let row = "data-label=\"such trials\">1 of 5</td><td class=\"n\" data-label=\"IOPS\">1,102</td>";
    let html = page(&trials);
    let shown = html.split("Without the trials whose rate changed</h3>").nth(1).unwrap_or_default();
    assert!(shown.contains(row), "{}", shown.chars().take(1500).collect::<String>());
    assert!(!shown.contains("without them,"), "{shown}");
    // The trial itself is listed: which, when and why.
    let listed = html.split("Trials that were not steady</h3>").nth(1).unwrap();
    let listed = &listed[..listed.find("</div>").unwrap()];
    for cell in [
        format!("{FASTER}</th>"),
        "data-label=\"replicate\">1</td>".to_owned(),
        "data-label=\"started after\">0 s</td>".to_owned(),
        "data-label=\"why\">Its rate still ".to_owned(),
    ] {
        assert!(listed.contains(&cell), "no {cell} in {listed}");
    }
    // All of a winner's at depth 1.
    for place in [5, 9, 13, 17] {
        measurement(&mut trials[place]).evidence.steadystate = Some(unsettled());
    }
    let apart = of(&trials).unwrap();
    let [cell] = &apart.cells[..] else { panic!("{apart:?}") };
    assert_eq!((apart.trials, cell.at.1.to_string()), (5, "1".to_owned()));
    let [with, without] = [faster, PATH].map(|path| vec![path.parse().unwrap()]);
    assert_eq!((&cell.with, &cell.without), (&(Decision::Wins, with), &(Decision::Alone, without)));
    let words = one_line(&winners(&study, &trials, &question));
    let table = format!(
        "without the 5 trials whose rate changed, 1 of 2 cells is decided differently bs iodepth with \
         without 4k 1 {faster} wins {PATH} alone"
    );
    assert!(words.contains(&table), "{words}");
    let words =
        format!("iodepth 1 numjobs 1: {PATH} has the least mean latency without them, {faster} with them");
    assert!(page(&trials).contains(&words) && page(&trials).contains(">5 of 5</td>"));
    // fio's rows are distinguished from the native generator's.
    let mut by_fio = trials.clone();
    by_fio.iter_mut().for_each(|trial| trial.generator = iopj_record::Generator::Fio);
    let row = "io_uring/syscall/poll (fio)</td><td data-label=\"such trials\">5 of 5</td>";
    assert!(page(&by_fio).contains(row));
    let words = one_line(&report(&study, &by_fio, Admission::default()));
    assert!(
        words.contains(&format!("{PATH} (fio) has the least mean latency without them, {faster} (fio) with")),
        "{words}"
    );
    // Refuted trials decide nothing, with them or without.
    for place in [1, 5, 9, 13, 17] {
        measurement(&mut trials[place]).verdict.kind = VerdictKind::Refuted;
    }
    assert_eq!(of(&trials), None);
    assert!(
        !page(&trials).contains("rate changed")
            && !report(&study, &trials, Admission::default()).contains("without")
    );
    // Under emulation a rate means nothing.
    let emulated = iopj_record::StudyRecord { emulated: Some("TCG".to_owned()), ..study.clone() };
    assert!(!html::page(&emulated, &trials, &[], Admission::default()).contains("rate changed"));
}

/// A figure of the page, by the start of its name.
fn figure<'p>(page: &'p str, id: &str) -> &'p str {
    let from = page.find(&format!("<figure id={id}")).unwrap_or_else(|| panic!("no figure {id}"));
    page[from..].split("</figure>").next().unwrap_or_default()
}

#[test]
fn the_maps_of_the_page_mark_what_is_decided_differently() {
    let mut trials = at_depths(&[1, 4]);
    let study = study(20);
    let page = |trials: &[Trial]| html::page(&study, trials, &[], Admission::default());
    let star = ">*</text>";
    let (latency, switches) = ("least-mean-latency-", "fewest-context-switches-");
    let steady = page(&trials);
    assert!(!figure(&steady, latency).contains("without") && !steady.contains(star));
    assert!(!steady.contains("Trials that were not steady"));
    // One of five changes nothing: the page says so, and no cell is marked.
    measurement(&mut trials[1]).evidence.steadystate = Some(unsettled());
    let words = "<p class=note>Without the trial whose rate changed: every cell is decided the same \
                 way.</p><details>";
    let html = page(&trials);
    assert!(figure(&html, latency).contains(words) && !html.contains(star), "{}", figure(&html, latency));
    // All of a winner's at depth 1.
    for trial in
        trials.iter_mut().filter(|trial| trial.path.to_string() == FASTER && trial.workload.iodepth == 1)
    {
        measurement(trial).evidence.steadystate = Some(unsettled());
    }
    let html = page(&trials);
    let map = figure(&html, latency);
    let words =
        "<p class=note>Without the 5 trials whose rate changed, 1 of 2 cells is decided differently:</p>";
    let item = format!("<li>iodepth 1, numjobs 1: {FASTER} wins with them, {PATH} alone without</li>");
    assert!(map.contains(&format!("{words}<ul class=\"plain note\">{item}</ul><details>")), "{map}");
    // The first cell has the star, and its tooltip says what changes without them; the figure explains the
    // star.
    let cells: Vec<&str> = map.split("class=\"mark cell").skip(1).collect();
    let tip = format!("; without the 5 trials whose rate changed: {PATH} alone</title>");
    let [first, second] = cells[..] else { panic!("{map}") };
    assert!(first.contains(&tip) && first.contains(star), "{first}");
    assert!(!second.contains("; without") && !second.contains(star), "{second}");
    let legend = ">* decided differently without the 5 trials whose rate changed</text>";
    assert!(map.contains(legend), "{map}");
    // By another metric the paths of the same cell were equal.
    let map = figure(&html, switches);
    let item =
        format!("<li>iodepth 1, numjobs 1: equal: {PATH}, {FASTER} with them, {PATH} alone without</li>");
    assert!(map.contains(&item) && map.contains(legend), "{map}");
    // A figure in a file of its own explains it too.
    let files = html::figures(&study, &trials, &[], Admission::default()).svg();
    let alone = files.iter().find(|(name, _)| name.starts_with(latency)).map(|(_, svg)| svg.contains(legend));
    assert_eq!(alone, Some(true));
    // One remaining replicate is too few for a test.
    let mut one_left = trials.clone();
    measurement(&mut one_left[1]).evidence.steadystate = None;
    let html = page(&one_left);
    let item = format!(
        "<li>iodepth 1, numjobs 1: {FASTER} wins with them, undecided: {PATH}, {FASTER} without</li>"
    );
    assert!(figure(&html, latency).contains(&item), "{}", figure(&html, latency));
    let emulated = iopj_record::StudyRecord { emulated: Some("TCG".to_owned()), ..study.clone() };
    let html = html::page(&emulated, &trials, &[], Admission::default());
    assert!(
        !figure(&html, switches).contains("without") && !html.contains(star),
        "a rate means nothing there"
    );
}

#[test]
fn a_long_list_of_cells_decided_differently_is_folded() {
    let listed = |depths: &[u32]| {
        let mut trials = at_depths(depths);
        for trial in trials.iter_mut().filter(|trial| trial.path.to_string() == FASTER) {
            measurement(trial).evidence.steadystate = Some(unsettled());
        }
        let html = html::page(&study(0), &trials, &[], Admission::default());
        let map = figure(&html, "least-mean-latency-");
        (map.matches("<li>").count(), map.contains("<details><summary>All 9</summary><ul"))
    };
    assert_eq!(listed(&[1, 2, 3, 4, 5, 6, 7, 8]), (8, false));
    assert_eq!(listed(&[1, 2, 3, 4, 5, 6, 7, 8, 9]), (9, true));
}

#[test]
fn results_are_given_with_and_without_unsteady_trials() {
    let mut trials = cell(&[1000, 3000, 1000]);
    let other = "io_uring/syscall/poll";
    trials.extend((0..3).map(|replicate| trial(other, &Workload::default(), replicate, 1500)));
    let study = study(6);
    let text = |trials: &[Trial]| report(&study, trials, Admission::default());
    assert!(!text(&trials).contains("without"), "{}", text(&trials));
    let state = unsettled();
    measurement(&mut trials[1]).evidence.steadystate = Some(state);
    // Latencies of 1000, 333 and 1000 us compared with 667: the order of the paths is reversed.
    let words = text(&trials).replace("\n", " ").split_whitespace().collect::<Vec<_>>().join(" ");
    let cell = format!(
        "1 trial that competes was not steady (docs/statistics.md): {PATH}, randread 4k iodepth 1 numjobs 1, \
         replicate 2: its rate still rose from 50 to 150 % of its mean in 0.0 s after a ramp of 0.0 s, the \
         longest allowed; the rule allows a change of 10 %; 1,000 IOPS, 1000.00 us without the trial (of 3) \
         whose rate changed, 1,667 IOPS, 777.78 us with it"
    );
    assert!(words.contains(&cell), "{words}");
    assert!(!words.contains("has the least mean latency"), "{words}");
    // One that does not compete is neither counted nor mentioned.
    measurement(&mut trials[1]).verdict.kind = VerdictKind::Refuted;
    assert!(!text(&trials).contains("without the"), "{}", text(&trials));
    measurement(&mut trials[0]).evidence.steadystate = Some(state);
    let words = one_line(&text(&trials));
    let figures = "1,000 IOPS, 1000.00 us without the trial (of 2) whose rate changed, 1,000 IOPS";
    assert!(words.contains("1 trial that competes was not steady") && words.contains(figures), "{words}");
    measurement(&mut trials[1]).verdict.kind = VerdictKind::Verified;
    // The means are reversed, but no test distinguishes the paths.
    measurement(&mut trials[0]).latency.mean = 100_000.0;
    measurement(&mut trials[1]).latency.mean = 100_000.0;
    assert!(!text(&trials).contains("has the least mean latency"), "{}", text(&trials));
    measurement(&mut trials[2]).evidence.steadystate = Some(state);
    let words = one_line(&text(&trials));
    assert!(words.contains("; nothing is left without the 3 trials (of 3) whose rate changed"), "{words}");
    assert!(
        words.contains(", replicate 1: its rate") && !words.contains("replicate 0"),
        "counted from 1: {words}"
    );
}

#[test]
fn a_first_path_is_another_only_where_tests_tell_it_so() {
    let other = "io_uring/syscall/poll";
    let mut trials = cell(&[1400; 8]);
    trials.extend((0..8).map(|replicate| trial(other, &Workload::default(), replicate, 1500)));
    for (at, trial) in trials.iter_mut().enumerate() {
        let unsteady = at < 6;
        let mean = match at {
            _ if unsteady => 100_000.0,
            6 => 700_000.0,
            7 => 701_000.0,
            _ => 667_000.0,
        };
        measurement(trial).latency.mean = mean;
        measurement(trial).evidence.steadystate = unsteady.then(unsettled);
    }
    let study = study(16);
    let words = |trials: &[Trial]| one_line(&report(&study, trials, Admission::default()));
    let sentence = format!("{other} has the least mean latency without them, {PATH} with them");
    assert!(words(&trials).contains(&sentence), "{}", words(&trials));
    // One of the two that remain is as fast: not decided without them.
    measurement(&mut trials[7]).latency.mean = 660_000.0;
    assert!(!words(&trials).contains("has the least mean latency"), "{}", words(&trials));
}

#[test]
fn an_equality_that_loses_a_path_is_decided_differently() {
    let paths = [PATH, "io_uring/syscall/poll", "libaio/syscall/interrupt"];
    let mut trials = Vec::new();
    for (at, path) in paths.into_iter().enumerate() {
        let iops = |replicate: u32| 1000 + 10 * u64::from((replicate + at as u32) % 3);
        trials.extend((0..6).map(|replicate| trial(path, &Workload::default(), replicate, iops(replicate))));
    }
    trials[12..].iter_mut().for_each(|trial| measurement(trial).evidence.steadystate = Some(unsettled()));
    let study = study(18);
    let question = WinnerQuestion::new(Metric::Iops, Axis::Iodepth, Axis::Bs).unwrap();
    let apart = maps_without_unsteady(&study, &trials, &question, &winner_maps(&trials, &question))
        .remove(0)
        .unwrap();
    let [cell] = &apart.cells[..] else { panic!("{apart:?}") };
    assert_eq!(
        [&cell.with, &cell.without].map(|(decision, paths)| (*decision, paths.len())),
        [(Decision::Equal, 3), (Decision::Equal, 2)]
    );
    let words = one_line(&winners(&study, &trials, &question));
    assert!(words.contains("1 of 1 cells is decided differently") && words.contains("equal: "), "{words}");
}
