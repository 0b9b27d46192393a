//! Steps of constructed intervals, with values that are known.

use super::*;
use iopj_core::watch::{EventCounts, SampledLatency, WatchPower};
use iopj_record::testing::watches::watch;
use proptest::prelude::*;

fn panel(timeline: &WatchTimeline, kind: PanelKind) -> &WatchPanel {
    timeline.panels.iter().find(|panel| panel.kind == kind).unwrap()
}

fn names(panel: &WatchPanel) -> Vec<&str> {
    panel.series.iter().map(|series| series.name.as_str()).collect()
}

#[test]
fn each_interval_is_a_step_of_every_panel() {
    let found = timeline(&watch(3), 100);
    assert_eq!((found.spans.as_slice(), found.intervals), (&[(0.0, 2.0), (2.0, 4.0), (4.0, 6.0)][..], 1));
    let kinds: Vec<PanelKind> = found.panels.iter().map(|panel| panel.kind).collect();
    let all = [
        PanelKind::Iops,
        PanelKind::Megabytes,
        PanelKind::Latency,
        PanelKind::Cpu,
        PanelKind::Program,
        PanelKind::PerIo,
        PanelKind::Power(Scope::Package),
    ];
    assert_eq!(kinds, all);
    // The reads of interval n are 1000 n.
    let iops = panel(&found, PanelKind::Iops);
    assert_eq!(
        (names(iops), &iops.series[0].values[..]),
        (vec!["vda read"], &[Some(500.0), Some(1000.0), Some(1500.0)][..])
    );
    assert_eq!(panel(&found, PanelKind::Megabytes).series[0].values[0], Some(2.048));
    assert_eq!(
        panel(&found, PanelKind::Latency).series[0].values,
        [Some(50.0), Some(25.0), Some(50.0 / 3.0)]
    );
    let per_io = panel(&found, PanelKind::PerIo);
    assert_eq!(names(per_io), ["context switches", "system calls", "interrupts of vda"]);
    assert_eq!(per_io.series[0].values, [Some(1.5), Some(0.75), Some(0.5)]);
    assert_eq!(panel(&found, PanelKind::Power(Scope::Package)).series[0].values, [Some(10.0); 3]);
    let cpu: f64 = panel(&found, PanelKind::Cpu).series.iter().filter_map(|series| series.values[0]).sum();
    assert!((cpu - 37.5).abs() < 1e-9, "3 of 8 are not idle: {cpu}");
}

#[test]
fn where_counting_rested_the_calls_are_absent_and_where_it_did_in_part_this_is_said() {
    let mut record = watch(3);
    let rested = EventCounts { of_ns: 2_000_000_000, ..EventCounts::default() };
    record.intervals[1].evidence.events = Some(rested);
    let whole = record.intervals[2].evidence.events.as_mut().unwrap();
    whole.counted_ns = whole.of_ns;
    let found = timeline(&record, 100);
    assert_eq!(found.counted, [Some(Counted::Part(0.5)), Some(Counted::Rested), Some(Counted::Whole)]);
    let calls = &panel(&found, PanelKind::PerIo).series[1];
    assert_eq!((calls.values[1], calls.values[2]), (None, Some(0.2)));
    record.intervals.iter_mut().for_each(|interval| interval.evidence.events = None);
    let found = timeline(&record, 100);
    assert_eq!(found.counted, [None; 3]);
    assert_eq!(names(panel(&found, PanelKind::PerIo)), ["context switches", "interrupts of vda"]);
}

#[test]
fn percentiles_of_few_samples_are_left_out_and_joined_ones_are_the_greatest() {
    let mut record = watch(4);
    for (interval, count) in record.intervals.iter_mut().zip([99, 100, 200, 1]) {
        let latency =
            SampledLatency { count, p50_ns: 10 * count, p99_ns: 1000 * count, ..Default::default() };
        interval.evidence.devices[0].latency = Some(latency);
    }
    let found = timeline(&record, 100);
    let latency = panel(&found, PanelKind::Latency);
    assert_eq!(names(latency), ["vda mean", "vda p50", "vda p99"]);
    assert_eq!(latency.series[1].values, [Some(0.99), Some(1.0), Some(2.0), None]);
    assert_eq!(latency.series[2].values, [None, Some(100.0), Some(200.0), None]);
    let joined = timeline(&record, 2);
    assert_eq!(panel(&joined, PanelKind::Latency).series[2].values, [Some(100.0), Some(200.0)]);
}

#[test]
fn a_disk_that_is_found_late_has_no_values_before_and_one_that_only_writes_none_of_reads() {
    let mut record = watch(2);
    let late = &mut record.intervals[1].evidence.devices;
    late.push(late[0].clone());
    late[1].counts.name = "vdb".to_owned();
    (late[1].counts.writes, late[1].counts.reads) = (late[1].counts.reads, 0);
    let found = timeline(&record, 100);
    let iops = panel(&found, PanelKind::Iops);
    assert_eq!(names(iops), ["vda read", "vdb write"]);
    assert_eq!(iops.series[1].values, [None, Some(1000.0)]);
}

#[test]
fn scopes_are_apart_and_a_watch_without_intervals_has_no_panels() {
    let mut record = watch(1);
    let power = &mut record.intervals[0].evidence.power;
    power.push(WatchPower { scope: Scope::System, ..power[0].clone() });
    let found = timeline(&record, 100);
    assert_eq!(panel(&found, PanelKind::Power(Scope::System)).series.len(), 1);
    record.intervals.clear();
    assert_eq!(timeline(&record, 100), WatchTimeline { intervals: 1, ..WatchTimeline::default() });
}

proptest! {
    #[test]
    fn however_many_steps_there_are_they_hold_all_ios(count in 1u64..40, most in 1usize..50) {
        let found = timeline(&watch(count), most);
        prop_assert!(found.spans.len() <= most);
        let of = |kind| panel(&found, kind).series[0].values.clone();
        let ios = found.spans.iter().zip(of(PanelKind::Iops));
        let ios: f64 = ios.map(|((from, until), rate)| (until - from) * rate.unwrap()).sum();
        // 1000 + 2000 + ...
        let expected = 500.0 * (count * (count + 1)) as f64;
        prop_assert!((ios / expected - 1.0).abs() < 1e-9, "{} of {}", ios, expected);
    }
}
