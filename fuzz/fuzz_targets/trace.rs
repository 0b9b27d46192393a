//! Traces, whatever they hold, become records in order of time that fit the target they are put on, or are
//! refused with a line that is there.
#![no_main]

use iopj_load::trace::{Beyond, Format, How, Onto, Replay, TraceProblem, read_from};
use libfuzzer_sys::fuzz_target;

/// Far more than an input has lines.
const MOST: usize = 1 << 20;

// The text is all of an input but its last bytes, so that traces can be first inputs.
fuzz_target!(|bytes: &[u8]| {
    let Some((text, &[choice, scale, align, len])) = bytes.split_last_chunk() else { return };
    let named = [None, Some(Format::FioV2), Some(Format::FioV3), Some(Format::Blkparse), Some(Format::Msr)];
    let lines = text.split(|byte| *byte == b'\n').count() as u64;
    let trace = match read_from(text, named[usize::from(choice) % named.len()], MOST) {
        Ok(trace) => trace,
        Err(TraceProblem::Line { line, .. }) => return assert!(line <= lines),
        Err(_) => return,
    };
    assert!(trace.records.windows(2).all(|pair| pair[0].at_ns <= pair[1].at_ns));
    assert!(trace.records.iter().all(|record| record.op.has_range() == (record.len > 0)));
    assert_eq!(trace.devices.iter().map(|device| device.records).sum::<u64>(), trace.records.len() as u64);
    let how = How {
        time_scale: u32::from(scale) + 1,
        scale: u64::from(scale) + 1,
        align: 1 << (align % 64),
        map: if choice & 128 == 0 { Beyond::Wrap } else { Beyond::Refuse },
        ..How::default()
    };
    let onto = Onto { base: 4096, len: 1 << (len % 60), block: 512 << (len % 4), max_len: 128 << 10 };
    let Ok(replay) = Replay::new(trace, &how, onto) else { return };
    let mut cursor = replay.cursor();
    // A trace of few lines can have very many pieces.
    for _ in 0..100_000 {
        let Some(piece) = cursor.next() else { break };
        assert_eq!(piece.op.has_range(), piece.len > 0);
        assert!(!piece.op.transfers() || piece.len <= replay.mapped().longest);
        if piece.op.has_range() {
            assert!(
                piece.offset >= onto.base && (piece.offset - onto.base).is_multiple_of(u64::from(onto.block))
            );
            assert!(piece.offset + u64::from(piece.len) <= onto.base + onto.len);
        }
    }
    assert!(replay.mapped().to_string().lines().count() == 2);
});
