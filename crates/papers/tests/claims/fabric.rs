//! The claims on one drive, local and remote: on the paper's own figures, and on constructed stores where
//! each part holds and does not.

use super::{NOISY, QUIET, decided};
use iopj_core::evidence::CpuTimes;
use iopj_core::fabric::{NicEvidence, TargetHostEvidence, VectorEvidence};
use iopj_core::{FabricEvidence, Rw, Workload};
use iopj_papers::claims::{Answer, Claim, ClaimContext, Part, decide};
use iopj_papers::published::{FABRIC, Sweep};
use iopj_record::testing::cells::{Measured, cell, measurement_of, workload};
use iopj_record::{Measurement, Trial, histogram};
use std::collections::BTreeMap;

const PATH: &str = "libaio/syscall/interrupt";
/// The paper's wire.
const WIRE: &str = "rdma";

/// How a constructed trial reaches the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Route {
    Local,
    Remote,
    /// Remote, while no card holds interrupts back.
    Unmoderated,
}

/// One figure of a point of a sweep.
#[derive(Clone, Copy, Debug)]
struct Row {
    sweep: Sweep,
    figure: &'static str,
    at: u32,
    route: Route,
    value: f64,
}

type Figures = BTreeMap<&'static str, f64>;

/// The trials of these figures; nothing else is in them. Where only the sum of the host's CPU is given, this
/// share of it is iowait.
fn store(rows: &[Row], iowait: f64, spread: &[f64]) -> Vec<Trial> {
    let mut points: Vec<((Sweep, u32, Route), Figures)> = Vec::new();
    for row in rows {
        let key = (row.sweep, row.at, row.route);
        match points.iter_mut().find(|(other, _)| *other == key) {
            Some((_, figures)) => drop(figures.insert(row.figure, row.value)),
            None => points.push((key, Figures::from([(row.figure, row.value)]))),
        }
    }
    points.iter().flat_map(|(key, figures)| point(*key, figures, iowait, spread)).collect()
}

fn shape(sweep: Sweep, at: u32) -> Workload {
    let (rw, numjobs) = if sweep == Sweep::Writes { (Rw::Randwrite, 8) } else { (Rw::Read, 8) };
    let each = Workload { iodepth: 32, ..workload(rw, numjobs) };
    match sweep {
        Sweep::Size | Sweep::Writes => Workload { bs: 1024 * at, ..each },
        Sweep::Processes => Workload { numjobs: at, ..each },
        Sweep::Depth => Workload { iodepth: at, numjobs: 1, ..each },
    }
}

fn point(
    (sweep, at, route): (Sweep, u32, Route),
    figures: &Figures,
    iowait: f64,
    spread: &[f64],
) -> Vec<Trial> {
    let wire = if route == Route::Local { "local" } else { WIRE };
    let mut settings = BTreeMap::from([("transport".to_owned(), wire.to_owned())]);
    if sweep == Sweep::Depth {
        settings.insert("target.cpus_online".to_owned(), "1".to_owned());
        if route != Route::Local {
            let usecs = if route == Route::Remote { "50" } else { "0" };
            settings.insert("target.rx_usecs".to_owned(), usecs.to_owned());
        }
    }
    let mut trials = cell(PATH, &shape(sweep, at), Measured::default(), spread);
    for (trial, share) in trials.iter_mut().zip(spread) {
        trial.settings.clone_from(&settings);
        let factor = 1.0 + share;
        fill(measurement_of(trial), route, iowait, &|figure| figures.get(figure).map(|value| value * factor));
    }
    trials
}

/// Puts the figures into a measurement; what is absent stays absent.
fn fill(one: &mut Measurement, route: Route, iowait: f64, figure: &dyn Fn(&str) -> Option<f64>) {
    const IOS: u64 = 1_000_000;
    let ns = |name: &str| (figure(name).unwrap_or(0.0) * 1e3).round();
    (one.ios, one.reads) = (IOS, IOS);
    one.bytes = (figure("bandwidth").unwrap_or(0.0) * 1e6 * one.window_ns as f64 / 1e9).round() as u64;
    one.latency.mean = ns("mean latency");
    (one.latency.p50, one.latency.p95) = (ns("p50") as u64, ns("p95") as u64);
    one.latency.histogram = histogram_of(figure);
    one.interrupts_per_io = figure("interrupts of the drive per I/O");
    one.evidence.cpu = figure("host CPU").map(|all| cpu(all, figure, iowait)).unwrap_or_default();
    let nics = |name: &str| -> Vec<NicEvidence> {
        let vector = |per_io: f64| VectorEvidence {
            name: "24 eth0".to_owned(),
            interrupts: (per_io * IOS as f64).round() as u64,
        };
        let nic = |per_io| NicEvidence { vectors: Some(vec![vector(per_io)]), ..NicEvidence::default() };
        figure(name).map(nic).into_iter().collect()
    };
    let target = TargetHostEvidence {
        cpu: figure("target CPU").map(|all| cpu(all, &|_| None, 0.0)).unwrap_or_default(),
        nics: nics("interrupts of the target's card per I/O"),
        ..TargetHostEvidence::default()
    };
    one.evidence.fabric = Some(Box::new(FabricEvidence {
        nics: nics("interrupts of the host's card per I/O"),
        target: (route != Route::Local).then_some(target),
        ..FabricEvidence::default()
    }));
}

/// CPU times of this many per cent: iowait and system as given, what is left in user space.
fn cpu(all: f64, figure: &dyn Fn(&str) -> Option<f64>, iowait: f64) -> CpuTimes {
    let ns = |percent: f64| (percent * 1e7).round() as u64;
    let waiting = figure("iowait").unwrap_or(iowait * all);
    let system = figure("system").unwrap_or(0.0);
    CpuTimes {
        user_ns: ns(all - waiting - system),
        system_ns: ns(system),
        iowait_ns: ns(waiting),
        idle_ns: ns(100.0 - all),
        cores: 8,
        ..CpuTimes::default()
    }
}

/// A histogram with the percentiles that are given, where one is that has no field of its own.
fn histogram_of(figure: &dyn Fn(&str) -> Option<f64>) -> Vec<u8> {
    let given = [("p20", 20), ("p50", 50), ("p80", 80), ("p95", 100)]
        .into_iter()
        .filter_map(|(name, up_to)| Some(((figure(name)? * 1e3) as u64, up_to)));
    let given: Vec<(u64, u64)> = given.collect();
    if figure("p20").or(figure("p80")).is_none() {
        return Vec::new();
    }
    let mut histogram = histogram::new();
    let mut before = 0;
    for (at, (ns, up_to)) in given.iter().enumerate() {
        let up_to = if at + 1 == given.len() { 100 } else { *up_to };
        histogram.record_n(*ns, up_to - before).unwrap();
        before = up_to;
    }
    histogram::summary(&histogram).histogram
}

/// The paper's own figures.
fn papers() -> Vec<Row> {
    let both = FABRIC.iter().flat_map(|printed| {
        let row =
            |route, value| Row { sweep: printed.sweep, figure: printed.figure, at: printed.at, route, value };
        [Some(row(Route::Remote, printed.remote)), printed.local.map(|local| row(Route::Local, local))]
    });
    both.flatten().collect()
}

fn words(part: &Part) -> String {
    format!("{}; {}", part.text, part.at)
}

fn parts_that(claim: &Claim, answer: &str) -> Vec<String> {
    claim.parts.iter().filter(|part| !part.apart && part.answer.as_str() == answer).map(words).collect()
}

#[test]
fn the_papers_figures_come_out_as_printed() {
    let trials = store(&papers(), 0.5, &QUIET);
    let claims: Vec<Claim> = (1..=4).map(|at| decided(&trials, 8, &format!("fabric-{at}"))).collect();
    let figures = || claims.iter().flat_map(|claim| &claim.parts).flat_map(|part| &part.figures);
    let beside = figures().filter_map(|figure| Some((figure.published?, figure.mean)));
    let mut seen = Vec::new();
    for (published, mean) in beside {
        let mean = mean.unwrap_or_else(|| panic!("{published} was not measured"));
        assert!((mean / published - 1.0).abs() < 1e-3, "{mean} {published}");
        seen.push(published);
    }
    for printed in &FABRIC {
        for value in [Some(printed.remote), printed.local].into_iter().flatten() {
            assert!(seen.contains(&value), "{printed:?} is beside no figure");
        }
    }
    let text = iopj_report::claims(&claims, false);
    for printed in ["1,139", "1,361", "7.57", "343,000", "26.9", "559.4", "(Abstract): throughput gained by"]
    {
        assert!(text.contains(printed), "{printed} in {text}");
    }
}

/// What the paper prints decides as the paper does; what it does not print stays open.
#[test]
fn the_papers_figures_decide_as_the_paper_does() {
    let trials = store(&papers(), 0.0, &QUIET);
    let at = |workload: &str| format!("; {workload}, {PATH}");
    let claim = decided(&trials, 8, "fabric-1");
    let large = at("read 128k iodepth 32 numjobs 8");
    assert_eq!(
        parts_that(&claim, "holds"),
        [
            format!("p95: rdma equal to local within 5 %{large}"),
            format!("host CPU: rdma at 128k more than rdma at 64k{large}"),
        ]
    );
    // Local bandwidth and the target's CPU are not printed.
    assert_eq!(parts_that(&claim, "not measured").len(), 6 + 1);
    let claim = decided(&trials, 8, "fabric-2");
    let many = at("read 4k iodepth 32 numjobs 16");
    assert_eq!(parts_that(&claim, "holds"), [format!("p95: rdma less than local{many}")]);
    assert_eq!(parts_that(&claim, "not measured").len(), 2, "no bandwidth over processes is printed");
    let claim = decided(&trials, 8, "fabric-4");
    assert_eq!(
        parts_that(&claim, "holds"),
        [64, 128]
            .map(|depth| format!("p80: rdma less than local; read 4k iodepth {depth} numjobs 1, {PATH}"))
    );
    // No bandwidth, no interrupts, no CPU over depth, and nothing without moderation.
    assert_eq!(parts_that(&claim, "not measured").len(), 1 + 2 + 8 + 2 + 6);
    for claim in ["fabric-1", "fabric-2", "fabric-4"].map(|id| decided(&trials, 8, id)) {
        assert!(claim.decided_in_part().is_some() && claim.run.is_some(), "{}", claim.id);
        assert!(claim.parts.iter().all(|part| part.answer != Answer::DoesNotHold), "{claim:?}");
    }
    // What is reported separately is as printed, too.
    let apart: Vec<Part> = [2, 3, 4]
        .map(|at| decided(&trials, 8, &format!("fabric-{at}")))
        .into_iter()
        .flat_map(|claim| claim.parts)
        .filter(|part| part.apart)
        .collect();
    let holds = apart.iter().filter(|part| part.answer == Answer::Holds).count();
    let open = apart.iter().filter(|part| matches!(part.answer, Answer::NotMeasured(_))).count();
    assert_eq!((holds, open, apart.len()), (3 + 3 + 4, 3, 13));
}

/// The paper prints the local host's CPU and not how much of it is iowait, on which the second part turns.
#[test]
fn the_papers_writes_cost_twice_with_iowait_and_without_it_nobody_knows() {
    let claim = |iowait| decided(&store(&papers(), iowait, &QUIET), 8, "fabric-3");
    let [none, half] = [0.0, 0.5].map(claim);
    let answers = |claim: &Claim| -> Vec<Answer> {
        claim.parts.iter().filter(|part| !part.apart).map(|part| part.answer.clone()).collect()
    };
    let (holds, not) = (Answer::Holds, Answer::DoesNotHold);
    assert_eq!(answers(&half), [holds.clone(), holds.clone(), holds.clone(), holds.clone()]);
    assert_eq!(answers(&none), [holds.clone(), not, holds.clone(), holds]);
    assert_eq!(half.parts[0].text, "host CPU: rdma not less than 2 times local");
    assert_eq!(half.parts[1].text, "host CPU without iowait: rdma not less than 2 times local");
    assert_eq!(half.parts[2].text, "CPU of the host by kind: rdma, system more than any other");
    // What is neither system nor iowait is printed only as a sum, which is less than either.
    assert!(half.parts[2].figures[1].mean.unwrap() > 8.8);
}

/// A store in which every part holds.
fn whole() -> Vec<Row> {
    use Route::{Local, Remote, Unmoderated};
    let mut rows = Vec::new();
    let mut put = |sweep, figure, route, values: &[(u32, f64)]| {
        rows.extend(values.iter().map(|(at, value)| Row { sweep, figure, at: *at, route, value: *value }));
    };
    let sizes = [(4, 503.0), (8, 600.0), (16, 700.0), (32, 900.0), (64, 1200.0), (128, 1361.0)];
    for route in [Local, Remote] {
        put(Sweep::Size, "bandwidth", route, &sizes);
        put(Sweep::Size, "p95", route, &[(128, 1140.0)]);
        put(Sweep::Writes, "bandwidth", route, &[(4, 500.0)]);
    }
    put(Sweep::Size, "target CPU", Remote, &[(4, 6.0), (128, 2.0)]);
    put(Sweep::Size, "host CPU", Remote, &[(64, 2.0), (128, 7.0)]);
    // Eight processes at 4 KiB are a point of the first sweep, too.
    put(Sweep::Processes, "bandwidth", Remote, &[(4, 500.0), (16, 498.0)]);
    put(Sweep::Processes, "p95", Remote, &[(16, 6900.0)]);
    put(Sweep::Processes, "p95", Local, &[(16, 8700.0)]);
    put(Sweep::Writes, "host CPU", Remote, &[(4, 50.0)]);
    put(Sweep::Writes, "host CPU", Local, &[(4, 19.0)]);
    put(Sweep::Writes, "system", Remote, &[(4, 27.0)]);
    put(Sweep::Writes, "iowait", Remote, &[(4, 10.0)]);
    put(Sweep::Writes, "iowait", Local, &[(4, 4.0)]);
    let drive = [1, 2, 4, 8, 16, 32, 64, 128].map(|depth| (depth, 1.0));
    put(Sweep::Depth, "interrupts of the drive per I/O", Local, &drive);
    put(
        Sweep::Depth,
        "bandwidth",
        Remote,
        &[(4, 300.0), (16, 270.0), (32, 280.0), (64, 340.0), (128, 400.0)],
    );
    put(Sweep::Depth, "bandwidth", Unmoderated, &[(64, 280.0), (128, 300.0)]);
    for card in ["interrupts of the target's card per I/O", "interrupts of the host's card per I/O"] {
        put(Sweep::Depth, card, Remote, &[(1, 2.0), (64, 0.4), (128, 0.2)]);
        put(Sweep::Depth, card, Unmoderated, &[(64, 1.4), (128, 1.2)]);
    }
    put(Sweep::Depth, "target CPU", Remote, &[(16, 98.0), (32, 97.0), (128, 80.0)]);
    put(Sweep::Depth, "p80", Remote, &[(64, 1600.0), (128, 3200.0)]);
    put(Sweep::Depth, "p80", Local, &[(64, 2000.0), (128, 3900.0)]);
    put(Sweep::Depth, "p95", Remote, &[(64, 2000.0), (128, 4000.0)]);
    put(Sweep::Depth, "p95", Unmoderated, &[(64, 2500.0), (128, 4900.0)]);
    rows
}

/// The whole store with one figure multiplied.
fn with(changed: (Sweep, &str, u32, Route), factor: f64, spread: &[f64]) -> Vec<Trial> {
    let mut rows = whole();
    let is_changed = |row: &Row| (row.sweep, row.figure, row.at, row.route) == changed;
    let own = rows.iter_mut().find(|row| is_changed(row)).unwrap();
    own.value *= factor;
    store(&rows, 0.0, spread)
}

#[test]
fn every_claim_holds_where_every_part_does() {
    for (at, parts) in [(1, 9), (2, 3), (3, 4), (4, 21)] {
        let claim = decided(&store(&whole(), 0.0, &QUIET), 8, &format!("fabric-{at}"));
        assert_eq!((&claim.answer, &claim.run), (&Answer::Holds, &None), "{:#?}", claim.parts);
        assert_eq!(claim.parts.iter().filter(|part| !part.apart).count(), parts, "fabric-{at}");
        assert!(claim.note.unwrap().contains("local"), "where local is, is said");
        let noisy = decided(&store(&whole(), 0.0, &NOISY), 8, &format!("fabric-{at}"));
        assert!(matches!(noisy.answer, Answer::Undecided(_)), "fabric-{at}: {:?}", noisy.answer);
    }
}

#[test]
fn each_part_fails_its_claim() {
    use Route::{Local, Remote, Unmoderated};
    let card = "interrupts of the target's card per I/O";
    let near = "interrupts of the host's card per I/O";
    for (claim, changed, factor, failing) in [
        (1, (Sweep::Size, "p95", 128, Remote), 1.2, "p95: rdma equal to local within 5 %"),
        (1, (Sweep::Size, "bandwidth", 32, Remote), 0.7, "bandwidth: rdma not less than local within 20 %"),
        (1, (Sweep::Size, "target CPU", 128, Remote), 4.0, "target CPU: rdma at 128k less than rdma at 4k"),
        (1, (Sweep::Size, "host CPU", 128, Remote), 0.1, "host CPU: rdma at 128k more than rdma at 64k"),
        (
            2,
            (Sweep::Processes, "bandwidth", 16, Remote),
            1.3,
            "bandwidth: rdma at numjobs 16 equal to rdma at numjobs 4 within 5 %",
        ),
        (2, (Sweep::Processes, "p95", 16, Local), 0.5, "p95: rdma less than local"),
        (3, (Sweep::Writes, "bandwidth", 4, Remote), 0.8, "bandwidth: rdma equal to local within 10 %"),
        (
            3,
            (Sweep::Writes, "system", 4, Remote),
            0.3,
            "CPU of the host by kind: rdma, system more than any other",
        ),
        (
            4,
            (Sweep::Depth, "bandwidth", 16, Remote),
            1.3,
            "bandwidth: rdma at iodepth 16 less than rdma at iodepth 4",
        ),
        (
            4,
            (Sweep::Depth, near, 1, Remote),
            0.05,
            "interrupts of the host's card per I/O: rdma at iodepth 128 less than rdma at iodepth 1",
        ),
        (
            4,
            (Sweep::Depth, "interrupts of the drive per I/O", 8, Local),
            0.5,
            "interrupts of the drive per I/O: local equal to 1 within 10 %",
        ),
        (4, (Sweep::Depth, "p80", 64, Remote), 1.5, "p80: rdma less than local"),
        (
            4,
            (Sweep::Depth, "bandwidth", 32, Remote),
            2.0,
            "bandwidth: rdma at iodepth 128 more than rdma at iodepth 32",
        ),
        (
            4,
            (Sweep::Depth, "target CPU", 32, Remote),
            0.5,
            "target CPU: rdma at iodepth 128 less than rdma at iodepth 32",
        ),
        (
            4,
            (Sweep::Depth, card, 64, Unmoderated),
            0.1,
            "interrupts of the target's card per I/O: rdma less than rdma without moderation",
        ),
        (4, (Sweep::Depth, "p95", 128, Unmoderated), 0.5, "p95: rdma less than rdma without moderation"),
    ] {
        let claim = decided(&with(changed, factor, &QUIET), 8, &format!("fabric-{claim}"));
        assert_eq!(claim.answer, Answer::DoesNotHold, "{changed:?}: {:#?}", claim.parts);
        let fails = claim.parts.iter().filter(|part| part.answer == Answer::DoesNotHold && !part.apart);
        assert_eq!(fails.map(|part| part.text.as_str()).collect::<Vec<_>>(), [failing]);
    }
}

/// `fabric-3` on two hosts whose processors differ.
fn writes_on_unlike_hosts(trials: &[Trial]) -> Claim {
    let machine = ClaimContext { cores: 8, unlike_hosts: true, ..ClaimContext::default() };
    decide(trials, &machine).into_iter().find(|claim| claim.id == "fabric-3").unwrap()
}

#[test]
fn a_cost_on_two_hosts_is_compared_only_between_like_processors() {
    let mut trials = store(&whole(), 0.0, &QUIET);
    let claim = writes_on_unlike_hosts(&trials);
    let Answer::NotMeasured(missing) = &claim.answer else { panic!("{claim:?}") };
    let need = "two hosts with the same processor and as many cores, because local is done by the target \
                host, or transport here, a drive of the host itself";
    assert_eq!(missing[..], [need]);
    assert_eq!(parts_that(&claim, "holds").len(), 2);
    // A drive of the host itself has the host's processor.
    for trial in trials.iter_mut().filter(|trial| trial.settings["transport"] == "local") {
        trial.settings.insert("transport".to_owned(), "here".to_owned());
    }
    assert_eq!(writes_on_unlike_hosts(&trials).answer, Answer::Holds);
}

#[test]
fn a_store_without_a_drive_over_a_wire_says_so() {
    for (at, more) in [(1, ""), (2, ""), (3, ""), (4, ", and target.cpus_online = 1")] {
        let claim = decided(&[], 8, &format!("fabric-{at}"));
        let need = format!(
            "one drive local and over fabrics: [fabric] in the study, with transport local and tcp or \
             rdma{more}"
        );
        assert_eq!(claim.answer, Answer::NotMeasured(vec![need]));
        assert!(claim.run.unwrap().starts_with("iopj run studies/fabric"));
    }
    // Without local trials, the cell that lacks is named with how it reaches the drive.
    let mut trials = store(&whole(), 0.0, &QUIET);
    trials.retain(|trial| trial.settings["transport"] == WIRE);
    let Answer::NotMeasured(missing) = decided(&trials, 8, "fabric-2").answer else { panic!() };
    assert_eq!(
        missing,
        ["libaio/syscall/interrupt local, read 4k iodepth 32 numjobs 16 (no trial; 1 verified needed)"]
    );
}

/// Two ways of holding interrupts back are two questions, each beside the trials without any.
#[test]
fn each_way_of_moderation_is_compared_with_none() {
    let mut trials = store(&whole(), 0.0, &QUIET);
    let more: Vec<Trial> = trials
        .iter()
        .filter(|trial| trial.settings.get("target.rx_usecs").is_some_and(|usecs| usecs == "50"))
        .cloned()
        .collect();
    trials.extend(more.into_iter().map(|mut trial| {
        trial.settings.insert("target.rx_usecs".to_owned(), "200".to_owned());
        trial
    }));
    let claim = decided(&trials, 8, "fabric-4");
    assert_eq!(claim.answer, Answer::Holds);
    let of = |usecs: &str| claim.parts.iter().filter(|part| !part.apart && part.at.contains(usecs)).count();
    assert_eq!([of("target.rx_usecs=50"), of("target.rx_usecs=200")], [21, 21]);
}

/// The paper's local drive had all cores of its host.
#[test]
fn local_trials_with_the_most_cores_are_compared() {
    let mut trials = store(&whole(), 0.0, &QUIET);
    let is_local = |trial: &&Trial| {
        trial.settings["transport"] == "local" && trial.settings.contains_key("target.cpus_online")
    };
    let mut all: Vec<Trial> = trials.iter().filter(is_local).cloned().collect();
    for trial in &mut all {
        trial.settings.insert("target.cpus_online".to_owned(), "8".to_owned());
        let one = measurement_of(trial);
        one.evidence.cpu.cores = 8;
        one.latency.histogram = histogram_of(&|name| (name == "p80").then_some(10.0));
    }
    assert_eq!(decided(&trials, 8, "fabric-4").answer, Answer::Holds);
    trials.extend(all);
    let claim = decided(&trials, 8, "fabric-4");
    assert_eq!(parts_that(&claim, "does not hold").len(), 2, "by all cores p80 is 10 us");
}

/// A polled path is not the paper's, and a local trial under another setting is no partner.
#[test]
fn other_paths_and_other_settings_are_left_out() {
    let mut trials = store(&whole(), 0.0, &QUIET);
    let changed = |mut trial: Trial| {
        measurement_of(&mut trial).latency.p95 = 1;
        trial
    };
    let polled = trials
        .iter()
        .cloned()
        .map(|trial| changed(Trial { path: "io_uring/syscall/poll".parse().unwrap(), ..trial }));
    let local = trials.iter().filter(|trial| trial.settings["transport"] == "local").cloned();
    let boosted = local.map(|mut trial| {
        trial.settings.insert("target.boost".to_owned(), "1".to_owned());
        changed(trial)
    });
    let more: Vec<Trial> = polled.chain(boosted).collect();
    trials.extend(more);
    for (at, parts) in [(1, 9), (2, 3)] {
        let claim = decided(&trials, 8, &format!("fabric-{at}"));
        let counting = claim.parts.iter().filter(|part| !part.apart).count();
        assert_eq!((&claim.answer, counting), (&Answer::Holds, parts), "{:#?}", claim.parts);
    }
}
