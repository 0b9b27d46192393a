//! Traces are mapped onto a target as asked for, and what came of them is said.

use super::super::*;
use proptest::prelude::*;
use std::thread;

const K: u64 = 1024;

fn record(at_ns: u64, op: Op, offset: u64, len: u32) -> Record {
    Record { at_ns, offset, len, device: 0, op }
}

fn trace(records: &[Record]) -> Trace {
    let last = records.iter().map(|record| record.device).max().unwrap();
    let device = |number| Device { name: format!("8,{number}"), records: 0, end: 0 };
    Trace {
        format: Format::Msr,
        records: records.to_vec(),
        devices: (0..=last).map(device).collect(),
        left_out: LeftOut::default(),
        sorted: 0,
        action: None,
    }
}

const ONTO: Onto = Onto { base: 1 << 20, len: 1 << 20, block: 512, max_len: 64 << 10 };

fn replay(records: &[Record], how: How, onto: Onto) -> Result<Replay, ReplayError> {
    Replay::new(trace(records), &how, onto)
}

fn pieces(replay: &Replay) -> Vec<Piece> {
    let mut cursor = replay.cursor();
    std::iter::from_fn(|| cursor.next()).collect()
}

/// Offsets from the target's begin, and lengths.
fn ranges(replay: &Replay) -> Vec<(u64, u32)> {
    pieces(replay).iter().map(|piece| (piece.offset.saturating_sub(ONTO.base), piece.len)).collect()
}

#[test]
fn a_trace_is_replayed_as_it_was_recorded() {
    let records = [
        record(0, Op::Read, 4096, 512),
        record(5, Op::Fsync, 0, 0),
        record(9, Op::Write, 8192, 1024),
        record(9, Op::Discard, 0, 4096),
    ];
    let replay = replay(&records, How::default(), ONTO).unwrap();
    let piece = |due_ns, op, offset, len| Piece { due_ns, op, offset, len };
    let base = ONTO.base;
    let expected = [
        piece(0, Op::Read, base + 4096, 512),
        piece(5, Op::Fsync, 0, 0),
        piece(9, Op::Write, base + 8192, 1024),
        piece(9, Op::Discard, base, 4096),
    ];
    assert_eq!(pieces(&replay), expected);
    let mapped = replay.mapped();
    assert_eq!((mapped.records(), mapped.ios, mapped.longest), (4, 4, 1024));
    assert_eq!((mapped.read_bytes, mapped.written_bytes, mapped.span_ns), (512, 1024, Some(9)));
    assert!(mapped.writes());
    assert_eq!(pieces(&replay), [], "all are taken");
    replay.restart();
    assert_eq!(pieces(&replay).len(), 4);
}

#[test]
fn time_is_scaled_as_by_fio() {
    let records =
        [record(0, Op::Read, 0, 512), record(1_000, Op::Read, 0, 512), record(u64::MAX, Op::Read, 0, 512)];
    let due = |time_scale, no_stall| {
        let how = How { time_scale, no_stall, ..How::default() };
        pieces(&replay(&records, how, ONTO).unwrap()).iter().map(|piece| piece.due_ns).collect::<Vec<_>>()
    };
    assert_eq!(due(100, false), [0, 1_000, u64::MAX]);
    assert_eq!(due(50, false), [0, 2_000, u64::MAX], "half the rate, and no overflow");
    assert_eq!(due(200, false), [0, 500, u64::MAX / 2]);
    assert_eq!(due(300, false), [0, 333, u64::MAX / 3]);
    assert_eq!(due(50, true), [0, 0, 0]);
}

#[test]
fn what_lies_beyond_the_target_is_refused_or_wrapped() {
    let records = [
        record(0, Op::Read, 1 << 20, 4096),
        record(1, Op::Read, (1 << 20) - 512, 4096),
        record(2, Op::Read, (5 << 20) + 8192, 4096),
        record(3, Op::Read, (1 << 20) - 4096, 4096),
    ];
    let error = replay(&records, How::default(), ONTO).unwrap_err();
    let text = "the trace reaches to byte 5255168 of a target of 1048576 that can be used; take a target of \
                5132k, replay_map = \"wrap\", or replay_scale = 6 or more";
    assert_eq!(error.to_string(), text);
    let scaled = How { scale: 6, align: 512, ..How::default() };
    replay(&records, scaled, ONTO).unwrap();
    let wrap = How { map: Beyond::Wrap, ..How::default() };
    let mapped = replay(&records, wrap.clone(), ONTO).unwrap();
    let last = (1 << 20) - 4096;
    assert_eq!(ranges(&mapped), [(0, 4096), (last, 4096), (8192, 4096), (last, 4096)]);
    assert_eq!(mapped.mapped().wrapped, 3);
    let small = Onto { len: 5 * 512 + 100, ..ONTO };
    let error = replay(&records, wrap, small).unwrap_err();
    assert_eq!(error, ReplayError::TooLong { len: 4096, target: 2560 });
}

#[test]
fn blocks_are_whole_and_cover_what_was_asked_for() {
    let records = [
        record(0, Op::Read, 512, 512),
        record(0, Op::Read, 3584, 1024),
        record(0, Op::Write, 8192, 4096),
        record(0, Op::Write, 10_240, 4096),
    ];
    let onto = Onto { block: 4096, ..ONTO };
    let covered = replay(&records, How::default(), onto).unwrap();
    assert_eq!(ranges(&covered), [(0, 4096), (0, 8192), (8192, 4096), (8192, 8192)]);
    assert_eq!((covered.mapped().rounded, covered.mapped().aligned), (3, 0));
    // fio's replay_align moves, and leaves lengths as they are.
    let aligned = replay(&records, How { align: 4096, ..How::default() }, onto).unwrap();
    assert_eq!(ranges(&aligned), [(0, 4096), (0, 4096), (8192, 4096), (8192, 4096)]);
    assert_eq!((aligned.mapped().rounded, aligned.mapped().aligned), (2, 3));
}

#[test]
fn long_ones_are_split_and_discards_are_not() {
    let records = [record(7, Op::Write, 0, 150 << 10), record(7, Op::Discard, 0, 150 << 10)];
    let split = replay(&records, How::default(), ONTO).unwrap();
    let (k64, k22) = (64 << 10, 22 << 10);
    assert_eq!(ranges(&split), [(0, k64), (64 * K, k64), (128 * K, k22), (0, 150 << 10)]);
    assert!(pieces(&split).iter().all(|piece| piece.due_ns == 7));
    let mapped = split.mapped();
    assert_eq!((mapped.split, mapped.ios, mapped.longest, mapped.records()), (1, 4, 64 << 10, 2));
    let large = Onto { len: 1 << 40, block: 4096, max_len: 4096, ..ONTO };
    let discard = replay(&[record(0, Op::Discard, 1, u32::MAX)], How::default(), large).unwrap();
    assert_eq!(ranges(&discard), [(0, u32::MAX - 4095), (u64::from(u32::MAX) - 4095, 4096)]);
}

#[test]
fn devices_are_laid_one_after_the_other_or_one_is_chosen() {
    let on = |device, offset| Record { device, ..record(0, Op::Read, offset, 512) };
    let records = [on(0, 1000), on(1, 0), on(2, 0), on(1, 10_240)];
    let all = replay(&records, How::default(), ONTO).unwrap();
    assert_eq!(ranges(&all), [(512, 1024), (1536, 512), (1536 + 10_752, 512), (1536 + 10_240, 512)]);
    assert_eq!(all.mapped().devices, 3);
    let one = How { device: Some("8,1".into()), ..How::default() };
    let one = replay(&records, one, ONTO).unwrap();
    assert_eq!(ranges(&one), [(0, 512), (10_240, 512)]);
    assert_eq!((one.mapped().devices, one.mapped().of_other_devices), (1, 2));
    let scaled = How { scale: 10, ..How::default() };
    assert_eq!(
        ranges(&replay(&records, scaled, ONTO).unwrap())[2],
        (1024 + 1536, 512),
        "lengths are not scaled"
    );
    let none = How { device: Some("sda".into()), ..How::default() };
    let error = replay(&records, none, ONTO).unwrap_err().to_string();
    assert_eq!(error, "the trace has no device sda; it has 8,0 and 8,1 and 8,2");
}

#[test]
fn what_is_skipped_is_said() {
    let records = [record(0, Op::Read, 0, 512), record(1, Op::Write, 512, 512), record(2, Op::Flush, 0, 0)];
    let how = How { skip: vec![Op::Write, Op::Flush], ..How::default() };
    let reads = replay(&records, how, ONTO).unwrap();
    assert_eq!(ranges(&reads), [(0, 512)]);
    assert!(!reads.mapped().writes());
    let text = "1 of 3 I/Os from msr, over 0.000 s: 1 read\nleft out: 1 write, 1 flush";
    assert_eq!(reads.mapped().to_string(), text);
    let nothing = replay(&records, How { skip: Op::ALL.to_vec(), ..How::default() }, ONTO).unwrap_err();
    let text = "nothing of the trace is left to be replayed; left out: 1 read, 1 write, 1 flush";
    assert_eq!(nothing.to_string(), text);
}

#[test]
fn a_report_says_in_two_lines_what_became_of_a_trace() {
    let trace = include_str!("../fixtures/blkparse.txt");
    let trace = read_from(trace.as_bytes(), None, usize::MAX).unwrap();
    let how = How { map: Beyond::Wrap, ..How::default() };
    let onto = Onto { base: 0, len: 32 << 20, block: 4096, max_len: 16 << 10 };
    let replay = Replay::new(trace.clone(), &how, onto).unwrap();
    let text = "6 of 6 I/Os from blkparse (Q), over 0.308 s: 1 read, 3 writes, 1 flush, 1 discard\n\
                4 grown to whole blocks of 4k, 2 wrapped into the target, 2 split, 8 I/Os in all; left out: \
                30 lines of other actions (from line 2)";
    assert_eq!(replay.mapped().to_string(), text);
    let whole = Onto { base: 0, len: 64 << 20, block: 512, max_len: 64 << 10 };
    let fast = Replay::new(trace, &How { no_stall: true, ..How::default() }, whole).unwrap();
    let text = "6 of 6 I/Os from blkparse (Q), as fast as possible: 1 read, 3 writes, 1 flush, 1 discard\n\
                left out: 30 lines of other actions (from line 2)";
    assert_eq!(fast.mapped().to_string(), text);
}

#[test]
fn a_trace_without_times_is_replayed_as_fast_as_possible() {
    let text = "fio version 2 iolog\nf write 0 512\nf write 512 512\n";
    let trace = read_from(text.as_bytes(), None, usize::MAX).unwrap();
    let replay = Replay::new(trace, &How::default(), ONTO).unwrap();
    assert_eq!(replay.mapped().span_ns, None);
    let text =
        "2 of 2 I/Os from fio-v2, as fast as possible, because it has no times: 2 writes\nleft out: nothing";
    assert_eq!(replay.mapped().to_string(), text);
}

#[test]
fn nonsense_is_refused() {
    let records = [record(0, Op::Read, 0, 512)];
    let refused = |how, onto| replay(&records, how, onto).unwrap_err();
    let how = How::default;
    assert_eq!(refused(How { time_scale: 0, ..how() }, ONTO), ReplayError::TimeScale);
    assert_eq!(refused(How { scale: 0, ..how() }, ONTO), ReplayError::Scale);
    assert_eq!(refused(How { align: 0, ..how() }, ONTO), ReplayError::Align(0));
    assert_eq!(refused(How { align: 3000, ..how() }, ONTO), ReplayError::Align(3000));
    assert_eq!(refused(how(), Onto { block: 520, ..ONTO }), ReplayError::Block(520));
    let max_len = ReplayError::MaxLen { max_len: 1000, block: 512 };
    assert_eq!(refused(how(), Onto { max_len: 1000, ..ONTO }), max_len);
    assert_eq!(refused(how(), Onto { len: 511, ..ONTO }), ReplayError::NoRoom { len: 511, grain: 512 });
    let align = How { align: 1 << 63, ..how() };
    assert_eq!(refused(align, ONTO), ReplayError::NoRoom { len: 1 << 20, grain: 1 << 63 });
    let far = [record(0, Op::Read, i64::MAX as u64 - 512, 512)];
    assert_eq!(replay(&far, how(), ONTO).unwrap_err(), ReplayError::TooFar);
    assert_eq!(["refuse", "wrap"].map(str::parse), [Ok(Beyond::Refuse), Ok(Beyond::Wrap)]);
    assert!("fold".parse::<Beyond>().is_err());
}

#[test]
fn threads_share_a_trace_and_each_record_is_issued_once() {
    let records: Vec<Record> = (0..10_000).map(|n| record(n, Op::Read, n % 100 * 4096, 96 << 10)).collect();
    let replay = replay(&records, How::default(), ONTO).unwrap();
    let mut taken: Vec<Piece> = thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| pieces(&replay))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(taken.len() as u64, replay.mapped().ios);
    taken.sort_by_key(|piece| (piece.due_ns, piece.offset));
    replay.restart();
    assert_eq!(taken, pieces(&replay));
}

proptest! {
    #[test]
    fn every_piece_is_of_whole_blocks_within_the_target(
        rows in proptest::collection::vec((0u16..3, 0usize..5, 0u64..1 << 44, 1u32..1 << 22), 1..40),
        (scale, align, block, max_len) in (1u64..2000, 0u32..14, 9u32..13, 1u32..40),
        (base, len) in (0u64..100, (4u64 << 20)..(1 << 26)),
    ) {
        let records: Vec<Record> = rows.iter().zip(0..).map(|(&(device, op, offset, len), at_ns)| {
            let op = Op::ALL[op];
            let (offset, len) = if op.has_range() { (offset, len) } else { (0, 0) };
            Record { at_ns, offset, len, device, op }
        }).collect();
        let block = 1 << block;
        let onto = Onto { base: base << 12, len: len + (8 << 20), block, max_len: max_len * block };
        let how = How { scale, align: 1 << align, map: Beyond::Wrap, ..How::default() };
        let replay = replay(&records, how, onto).unwrap();
        let all = pieces(&replay);
        let block = u64::from(block);
        for piece in all.iter().filter(|piece| piece.op.has_range()) {
            let end = piece.offset + u64::from(piece.len);
            prop_assert!(piece.len > 0 && piece.offset >= onto.base && end <= onto.base + onto.len);
            prop_assert!((piece.offset - onto.base).is_multiple_of(block));
            prop_assert!(u64::from(piece.len).is_multiple_of(block));
            prop_assert!(!piece.op.transfers() || piece.len <= replay.mapped().longest.min(onto.max_len));
        }
        let mapped = replay.mapped();
        prop_assert_eq!((all.len() as u64, records.len() as u64), (mapped.ios, mapped.records()));
        let reads = all.iter().filter(|piece| piece.op == Op::Read);
        prop_assert_eq!(reads.map(|piece| u64::from(piece.len)).sum::<u64>(), mapped.read_bytes);
        let asked: u64 = records.iter().map(|record| u64::from(record.len)).sum();
        let issued: u64 = all.iter().map(|piece| u64::from(piece.len)).sum();
        prop_assert!(issued >= asked);
    }
}
