//! Advice on constructed trials: an open load at three rates, with joules at the plug.

use super::next::next_study;
use super::*;
use crate::testing::asking;
use iopj_core::{JobsBeside, OpenLoad, Rw, Scope, VerdictKind};
use iopj_record::testing::cells::{judge, measurement_of};
use iopj_record::testing::loads::{PLUG, SIO, SQPOLL, URING, measured, store};
use iopj_record::testing::pairs::study;

fn answers(trials: &[Trial], question: &AdviseQuestion) -> Vec<Answer> {
    let advice = advise(&study("6.1"), trials, question).unwrap();
    assert_eq!(advice.groups.len(), 1);
    advice.groups.into_iter().flat_map(|group| group.answers).collect()
}

fn path(answer: &Answer) -> Option<String> {
    answer.way().map(|way| way.path.to_string())
}

fn refusal(trials: &[Trial], question: &AdviseQuestion) -> String {
    advise(&study("6.1"), trials, question).unwrap_err().to_string()
}

#[test]
fn each_rate_has_the_way_that_takes_the_fewest_joules_of_those_that_keep_up() {
    let answers = answers(&store(), &asking(None, None));
    let found: Vec<_> = answers.iter().map(|one| (one.load.rate().unwrap(), path(one).unwrap())).collect();
    let expected = [(10_000, SIO), (40_000, URING), (80_000, SQPOLL)];
    assert_eq!(found, expected.map(|(rate, path)| (rate, path.to_owned())));
    let decisions: Vec<Decision> = answers.iter().map(|one| one.cell.decision()).collect();
    assert_eq!(decisions, [Decision::Wins, Decision::Wins, Decision::Alone]);
    assert!(answers[1].candidates.iter().any(|one| !one.keeps_up() && one.way.path.to_string() == SIO));
}

#[test]
fn a_bound_is_met_by_the_upper_limit_and_not_by_the_percentile() {
    let at = |us| answers(&store(), &asking(Some(40_000), Some(us))).remove(0);
    let upper = |answer: &Answer| {
        let own = answer.candidates.iter().find(|one| one.way.path.to_string() == URING).unwrap();
        own.tail.as_ref().unwrap().upper().unwrap().0 / 1e3
    };
    let loose = at(200.0);
    assert_eq!(path(&loose).as_deref(), Some(URING));
    let limit = upper(&loose);
    assert!((181.0..184.0).contains(&limit), "{limit}");
    // Its p99 is below the bound, its limit is not.
    let between = at(181.0);
    assert_eq!(path(&between).as_deref(), Some(SQPOLL));
    let own = between.candidates.iter().find(|one| one.way.path.to_string() == URING).unwrap();
    assert_eq!(own.unmet().unwrap().answer, BoundAnswer::Open);
    assert_eq!(path(&at(limit + 0.01)).as_deref(), Some(URING));
    let tight = at(100.0);
    assert_eq!((path(&tight).as_deref(), tight.cell.decision()), (Some(SQPOLL), Decision::Alone));
    let none = at(50.0);
    assert_eq!((path(&none), none.cell.decision()), (None, Decision::Empty));
    assert_eq!(none.nearest().unwrap().way.path.to_string(), SQPOLL);
}

#[test]
fn a_rate_between_two_is_answered_where_both_agree_and_beyond_them_is_refused() {
    let mut trials = store();
    let asked = |trials: &[Trial], rate, us| {
        let advice = advise(&study("6.1"), trials, &asking(Some(rate), us)).unwrap();
        let [group] = &advice.groups[..] else { panic!() };
        let loads: Vec<_> = group.answers.iter().map(|one| one.load.rate().unwrap()).collect();
        (loads, group.asked.clone().unwrap())
    };
    let (loads, between) = asked(&trials, 20_000, None);
    assert_eq!((loads, between), (vec![10_000, 40_000], Asked::Between { rate: 20_000, same: None }));
    let (_, between) = asked(&trials, 60_000, Some(160.0));
    let Asked::Between { same: Some(way), .. } = between else { panic!("{between:?}") };
    assert_eq!(way.path.to_string(), SQPOLL);
    assert_eq!(asked(&trials, 40_000, None).1, Asked::Measured(40_000));
    for rate in [9999, 80_001] {
        let why = refusal(&trials, &asking(Some(rate), None));
        assert!(
            why.contains("the store has rates from 10000 to 80000, and nothing is extrapolated"),
            "{why}"
        );
    }
    trials.iter_mut().for_each(|trial| trial.workload.open = None);
    let why = refusal(&trials, &asking(Some(40_000), None));
    assert!(why.contains("closed loop, which has no rate; a study with `rate_iops` decides"), "{why}");
}

#[test]
fn savings_are_of_the_whole_machine_and_against_the_usual_way() {
    let at = |trials: &[Trial]| {
        let question = AdviseQuestion { price_per_kwh: Some(0.5), ..asking(Some(40_000), Some(100.0)) };
        answers(trials, &question).remove(0).savings.unwrap()
    };
    // sqpoll is the only one within the bound, and takes 1 mJ more than io_uring.
    let Savings { rate, all } = at(&store()).unwrap();
    let [saving] = &all[..] else { panic!("{all:?}") };
    assert_eq!(
        (rate, saving.against, saving.way.path.to_string().as_str()),
        (40_000.0, Against::Usual, URING)
    );
    let (kwh, interval) = saving.kwh;
    // 1 mJ x 40,000 x 31,557,600 s / 3.6e6 J.
    assert!((kwh + 350.64).abs() < 4.0, "{kwh}");
    let (low, high) = interval.unwrap();
    assert!(low < kwh && kwh < high && high < 0.0);
    assert!((saving.money.unwrap().0 / kwh - 0.5).abs() < 1e-12);
    let of_package: Vec<Trial> =
        [(URING, (1, 32), 40_000, 180.0, Some(2.0)), (SQPOLL, (1, 32), 40_000, 90.0, Some(3.0))]
            .into_iter()
            .flat_map(|at| measured(at, ("rapl", Scope::Package)))
            .collect();
    let lack = at(&of_package).unwrap_err();
    assert_eq!(
        lack.to_string(),
        "package by rapl is a part of the machine, and what the rest takes is not known"
    );
}

#[test]
fn an_estimate_decides_nothing() {
    let all = [(URING, (1, 32), 40_000, 180.0, Some(2.0)), (SQPOLL, (1, 32), 40_000, 90.0, Some(3.0))];
    let trials: Vec<Trial> = all.into_iter().flat_map(|at| measured(at, ("model", Scope::System))).collect();
    let advice = advise(&study("6.1"), &trials, &asking(None, None)).unwrap();
    assert_eq!((advice.objective, advice.cost, advice.source), (Objective::Cpu, Metric::IopsPerCpu, None));
    assert_eq!(advice.groups[0].answers[0].savings, Some(Err(SavingLack::NoJoules)));
    let energy = AdviseQuestion { objective: Some(Objective::IosPerJoule), ..asking(None, None) };
    let why = refusal(&trials, &energy);
    assert!(why.contains("no competing trial measured energy") && why.contains("--objective cpu"), "{why}");
}

#[test]
fn what_would_change_the_answer_is_named() {
    let flips = answers(&store(), &asking(Some(40_000), None)).remove(0).flips;
    let of = |way: &Option<Way>| way.as_ref().map(|way| way.path.to_string());
    let ToFlip { at, way } = flips.tighter.unwrap();
    assert!((181e3..184e3).contains(&at) && of(&way).as_deref() == Some(SQPOLL));
    assert_eq!((flips.looser, flips.keeps_up), (None, (Some(40_000), Some(80_000))));
    let rates: Vec<_> = flips.rates.iter().map(|flip| (flip.at, of(&flip.way).unwrap())).collect();
    assert_eq!(rates, [(10_000, SIO.to_owned()), (80_000, SQPOLL.to_owned())]);
    // A bound that excludes a better way says from which bound on it is let in.
    let looser = answers(&store(), &asking(Some(40_000), Some(150.0))).remove(0).flips.looser.unwrap();
    assert!((181e3..184e3).contains(&looser.at) && of(&looser.way).as_deref() == Some(URING));
}

#[test]
fn the_front_holds_what_no_other_way_beats() {
    let mut trials = store();
    trials.extend(measured(("libaio/syscall/interrupt", (1, 32), 40_000, 190.0, Some(2.5)), PLUG));
    let answer = answers(&trials, &asking(Some(40_000), None)).remove(0);
    let front: Vec<_> = answer.candidates.iter().filter(|one| one.on_front).collect();
    let front: Vec<_> = front.iter().map(|one| one.way.path.to_string()).collect();
    assert_eq!(front, [URING, SQPOLL]);
}

#[test]
fn a_store_without_a_trial_that_counts_says_why() {
    assert!(refusal(&[], &asking(None, None)).contains("the store holds no trial"));
    let mut trials = store();
    judge(&mut trials, VerdictKind::Refuted);
    let why = refusal(&trials, &asking(None, None));
    assert_eq!(why, "no path can be advised: no trial is verified (40 refuted)");
    let emulated = StudyRecord { emulated: Some("QEMU TCG".to_owned()), ..study("6.1") };
    let why = advise(&emulated, &store(), &asking(None, None)).unwrap_err().to_string();
    assert!(why.contains("mean nothing under QEMU TCG"), "{why}");
}

#[test]
fn the_next_study_has_the_ways_that_are_open_at_the_rate_asked_for() {
    let study = study("6.1");
    let of = |question: &AdviseQuestion| next_study(&study, &store(), question).unwrap();
    // Nothing is open: what decided, once more.
    let next = of(&asking(Some(40_000), None));
    let [table] = &next.tables[..] else { panic!("{next:?}") };
    assert_eq!((next.replicates, table.rates.as_slice(), table.workload.iodepth), (5, &[40_000][..], 32));
    let paths: Vec<String> = table.paths.iter().map(ToString::to_string).collect();
    assert_eq!(paths, [URING, SQPOLL]);
    // A limit above the bound: more replicates.
    let next = of(&asking(Some(40_000), Some(181.0)));
    assert_eq!((next.replicates, next.tables[0].paths.len()), (10, 2));
    // Between two rates: the rate itself, each job its share.
    let next = of(&asking(Some(20_000), None));
    let rates: Vec<_> =
        next.tables.iter().map(|table| (table.workload.numjobs, table.rates.clone())).collect();
    assert_eq!(rates, [(4, vec![5000]), (1, vec![20_000])]);
    // Beyond what was measured: every path.
    let next = of(&asking(Some(100_000), None));
    assert_eq!(next.tables.iter().map(|table| table.paths.len()).sum::<usize>(), 3);
    assert_eq!(next.why, "It measures 100000 I/Os per second, which the store lacks.");
}

#[test]
fn what_to_type_follows_the_path_and_its_settings() {
    let mut trials = measured((SQPOLL, (2, 16), 40_000, 90.0, Some(3.0)), PLUG);
    let lines = |trials: &[Trial]| -> Vec<String> {
        let answer = answers(trials, &asking(None, None)).remove(0);
        answer.recipe.iter().flat_map(|step| step.lines.clone()).collect()
    };
    let disk = iopj_core::evidence::DeviceEvidence { name: "nvme0n1".to_owned(), ..Default::default() };
    for trial in &mut trials {
        trial.settings.insert("scheduler".to_owned(), "none".to_owned());
        measurement_of(trial).evidence.devices.push(disk.clone());
    }
    let expected = [
        "fio --filename=TARGET --thread=1 --group_reporting=1 --name=job --ioengine=io_uring --direct=1 \
         --sqthread_poll=1 --rw=randread --bs=4096 --iodepth=16 --numjobs=2 --rate_iops=20000 \
         --rate_process=linear",
        "params.flags = IORING_SETUP_SQPOLL;",
        "echo none > /sys/block/nvme0n1/queue/scheduler",
        "ACTION==\"add|change\", SUBSYSTEM==\"block\", KERNEL==\"nvme0n1\", ATTR{queue/scheduler}=\"none\"",
    ];
    assert_eq!(lines(&trials), expected);
    // Jobs beside are further jobs of fio's, at their own rate.
    let mut both = trials.clone();
    let log = Workload { rw: Rw::Write, fdatasync: 1, open: Some(OpenLoad::at(50)), ..Workload::default() };
    let path = "posix-sio/syscall/interrupt".parse().unwrap();
    for trial in &mut both {
        trial.workload.beside = vec![JobsBeside { path, workload: log.clone() }];
    }
    let line = lines(&both).remove(0);
    let beside = " --name=beside1 --ioengine=pvsync2 --direct=1 --rw=write --bs=4096 --fdatasync=1 \
                  --rate_iops=50 --rate_process=linear";
    assert!(line.starts_with(expected[0]) && line.ends_with(beside), "{line}");
    // Whoever made the store, nothing of it is typed unseen.
    let mut foreign = trials.clone();
    for trial in &mut foreign {
        trial.settings.insert("scheduler".to_owned(), "$(reboot)".to_owned());
        measurement_of(trial).evidence.devices[0].name = "x;reboot".to_owned();
    }
    assert!(lines(&foreign).iter().all(|line| !line.contains("reboot")), "{:?}", lines(&foreign));
    trials.iter_mut().for_each(|trial| trial.path = "io_uring/syscall/poll".parse().unwrap());
    let polled = lines(&trials);
    assert!(polled.contains(&"nvme.poll_queues=2".to_owned()), "{polled:?}");
    assert!(polled.iter().all(|line| !line.contains("io_method")), "PostgreSQL does not poll");
    for (path, jobs, line) in [
        (URING, 1, "io_method = io_uring"),
        (SIO, 1, "io_method = sync"),
        (SIO, 4, "io_workers = 4"),
        (URING, 1, "ReadOptions::async_io = true"),
        (SIO, 4, "ReadOptions::async_io = false"),
        (
            "nvme-user/doorbell/poll",
            1,
            "# fio has no engine for this interface; iopj run --path \
                                        nvme-user/doorbell/poll does it",
        ),
    ] {
        let trials = measured((path, (jobs, 1), 40_000, 90.0, Some(3.0)), PLUG);
        assert!(lines(&trials).contains(&line.to_owned()), "{path}: {:?}", lines(&trials));
    }
}

#[test]
fn an_engine_that_chose_on_a_taken_drive_is_no_way_for_a_program_as_it_is() {
    let mut chosen = measured(("auto:cpu", (1, 1), 40_000, 90.0, Some(3.0)), PLUG);
    let has = |trials: &[Trial]| {
        let answer = answers(trials, &asking(None, None)).remove(0);
        let lines = answer.recipe.iter().flat_map(|step| &step.lines);
        ["LD_PRELOAD", "--take-device"].map(|part| lines.clone().any(|line| line.contains(part)))
    };
    assert_eq!(has(&chosen), [true, false]);
    let taken_by = Some("vfio-pci".to_owned());
    let taken = iopj_core::evidence::DeviceEvidence { taken_by, ..Default::default() };
    chosen.iter_mut().for_each(|trial| measurement_of(trial).evidence.devices.push(taken.clone()));
    assert_eq!(has(&chosen), [false, true]);
}

#[test]
fn closed_loops_are_answered_load_by_load() {
    let mut trials = store();
    trials.iter_mut().for_each(|trial| trial.workload.open = None);
    trials.retain(|trial| trial.workload.numjobs == 1);
    trials.iter_mut().for_each(|trial| measurement_of(trial).open = None);
    let found = answers(&trials[..10], &asking(None, None));
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].load, Load::Closed { numjobs: 1, iodepth: 32 });
    assert_eq!((path(&found[0]).as_deref(), found[0].flips.rates.len()), (Some(URING), 0));
}

fn most_ios(p99_us: Option<f64>) -> AdviseQuestion {
    AdviseQuestion { objective: Some(Objective::Ios), ..asking(None, p99_us) }
}

/// A path, the highest rate that it carries, and the next.
type Rates = (String, Option<u64>, Option<u64>);

/// The one group, the rates of its paths, and at which rate the answer is.
fn highest(trials: &[Trial], p99_us: Option<f64>) -> (Group, Vec<Rates>, u64) {
    let mut advice = advise(&study("6.1"), trials, &most_ios(p99_us)).unwrap();
    let group = advice.groups.remove(0);
    assert!(advice.groups.is_empty() && group.answers.len() == 1);
    let ways = &group.highest.as_ref().unwrap().ways;
    let beyond = |one: &Carried| one.beyond.as_ref().map(|(rate, _)| *rate);
    let found = ways.iter().map(|one| (one.way.path.to_string(), one.rate(), beyond(one))).collect();
    let rate = group.answers[0].load.rate().unwrap();
    (group, found, rate)
}

fn carries(path: &str, rate: u64, beyond: u64) -> Rates {
    let some = |rate| (rate > 0).then_some(rate);
    (path.to_owned(), some(rate), some(beyond))
}

#[test]
fn the_most_ios_under_an_open_load_are_the_highest_rate_that_is_carried_within_the_bound() {
    let (group, found, rate) = highest(&store(), None);
    let expected = [carries(SQPOLL, 80_000, 0), carries(URING, 40_000, 80_000), carries(SIO, 10_000, 40_000)];
    assert_eq!((found.as_slice(), rate), (&expected[..], 80_000));
    assert_eq!(path(&group.answers[0]).as_deref(), Some(SQPOLL));
    assert_eq!(group.highest.unwrap().looser, None);
    // At 80,000 its p99 is 150 us, at 40,000 it is 90 us; that of system calls at 10,000 is 100 us.
    let (group, found, rate) = highest(&store(), Some(100.0));
    let expected = [carries(SQPOLL, 40_000, 80_000), carries(URING, 10_000, 40_000), carries(SIO, 0, 10_000)];
    assert_eq!((found.as_slice(), rate), (&expected[..], 40_000));
    let answer = &group.answers[0];
    assert_eq!((path(answer).as_deref(), answer.cell.decision()), (Some(SQPOLL), Decision::Alone));
    let (ns, rate, way) = group.highest.unwrap().looser.unwrap();
    assert!((150e3..154e3).contains(&ns) && rate == 80_000 && way.path.to_string() == SQPOLL, "{ns} {way:?}");
    let (group, _, rate) = highest(&store(), Some(50.0));
    assert_eq!((rate, path(&group.answers[0])), (10_000, None));
}

#[test]
fn of_ways_that_carry_the_same_rate_the_one_of_the_least_latency_is_taken() {
    const LIBAIO: &str = "libaio/syscall/interrupt";
    let mut trials = store();
    for (rate, p99_us) in [(10_000, 50.0), (40_000, 80.0), (80_000, 120.0)] {
        trials.extend(measured((LIBAIO, (1, 32), rate, p99_us, Some(9.0)), PLUG));
    }
    let (group, found, _) = highest(&trials, None);
    assert_eq!(found[..2], [carries(LIBAIO, 80_000, 0), carries(SQPOLL, 80_000, 0)]);
    let answer = &group.answers[0];
    assert_eq!((answer.metric, answer.cell.decision()), (Metric::LatencyP99, Decision::Wins));
    assert_eq!(path(answer).as_deref(), Some(LIBAIO));
}

#[test]
fn a_way_that_falls_behind_at_a_lower_rate_does_not_carry_a_higher_one() {
    let mut trials = store();
    let is_lower = |trial: &&mut Trial| {
        trial.path.to_string() == SQPOLL && trial.workload.open.unwrap().rate_iops == 40_000
    };
    let overload = |trial: &mut Trial| measurement_of(trial).open.as_mut().unwrap().overload = true;
    trials.iter_mut().filter(is_lower).take(1).for_each(overload);
    let (group, found, rate) = highest(&trials, None);
    assert_eq!(found[0], carries(URING, 40_000, 80_000));
    assert_eq!(found[1..].iter().find(|one| one.0 == SQPOLL), Some(&carries(SQPOLL, 10_000, 40_000)));
    assert_eq!((path(&group.answers[0]).as_deref(), rate), (Some(URING), 40_000));
    // Nor would it under any bound: it is no alternative here, nor at 80,000.
    assert_eq!(group.answers[0].flips.tighter.as_ref().unwrap().way, None);
    assert_eq!(group.highest.unwrap().looser, None);
}

#[test]
fn a_rate_and_the_most_ios_cannot_both_be_asked_for_and_closed_loops_have_no_highest_rate() {
    let both = AdviseQuestion { rate: Some(40_000), ..most_ios(None) };
    let why = refusal(&store(), &both);
    assert!(why.contains("does the same number of I/Os") && why.contains("leave --rate out"), "{why}");
    let next = next_study(&study("6.1"), &store(), &most_ios(Some(100.0))).unwrap();
    let rates: Vec<u32> = next.tables.iter().flat_map(|table| table.rates.clone()).collect();
    assert!(rates.contains(&60_000) && next.why.contains("between the highest"), "{next:?}");
    let mut trials = store();
    trials.retain(|trial| trial.workload.numjobs == 1);
    for trial in &mut trials {
        trial.workload.open = None;
        measurement_of(trial).open = None;
    }
    let advice = advise(&study("6.1"), &trials[..10], &most_ios(None)).unwrap();
    assert!(advice.groups[0].highest.is_none());
    assert_eq!(advice.groups[0].answers[0].metric, Metric::Iops);
}

#[test]
fn what_only_shows_the_worth_of_choosing_is_advised_to_nobody_and_named() {
    let rename = |from: &str, to: &str, trials: &mut Vec<Trial>| {
        let own = trials.iter_mut().filter(|trial| trial.path.to_string() == from);
        own.for_each(|trial| trial.path = to.parse().unwrap());
    };
    let mut trials = store();
    rename(URING, "auto:io_uring/syscall/interrupt", &mut trials);
    let advice = advise(&study("6.1"), &trials, &asking(Some(40_000), None)).unwrap();
    assert_eq!(path(&advice.groups[0].answers[0]).as_deref(), Some(SQPOLL));
    rename(SIO, "auto:random", &mut trials);
    rename(SQPOLL, "auto:io_uring/sqpoll/interrupt", &mut trials);
    let why = refusal(&trials, &asking(None, None));
    assert!(why.contains("only show what choosing is worth; add auto, or paths"), "{why}");
}
