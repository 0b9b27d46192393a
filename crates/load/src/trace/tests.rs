//! Traces are read as they were written, and what is no trace is refused with its line.

use super::*;
use proptest::prelude::*;

const FIO_V2: &str = include_str!("fixtures/fio-v2.log");
/// Written by fio 3.33 (`write_iolog`): two files, an fsync after each fifth write.
const FIO_V3: &str = include_str!("fixtures/fio-v3.log");
/// Printed by blkparse 1.2 of what a kernel 6.18 traced of fio on a loop device.
const BLKPARSE: &str = include_str!("fixtures/blkparse.txt");
const MSR: &str = include_str!("fixtures/msr.csv");

fn read(text: &str) -> Trace {
    read_from(text.as_bytes(), None, usize::MAX).unwrap()
}

fn refusal(text: impl AsRef<[u8]>) -> String {
    read_from(text.as_ref(), None, usize::MAX).unwrap_err().to_string()
}

fn record(at_ns: u64, op: Op, offset: u64, len: u32) -> Record {
    Record { at_ns, offset, len, device: 0, op }
}

fn count(trace: &Trace, op: Op) -> usize {
    trace.records.iter().filter(|record| record.op == op).count()
}

#[test]
fn a_record_takes_24_bytes() {
    assert_eq!(size_of::<Record>(), 24);
}

#[test]
fn what_fio_writes_is_read() {
    let trace = read(FIO_V3);
    assert_eq!(trace.format, Format::FioV3);
    assert_eq!([Op::Read, Op::Write, Op::Fsync].map(|op| count(&trace, op)), [12, 8, 2]);
    let names: Vec<&str> = trace.devices.iter().map(|device| device.name.as_str()).collect();
    assert_eq!(names, ["/data/f1", "/data/f2"]);
    assert_eq!(trace.records[0], record(0, Op::Read, 31_232, 9_728));
    let second = Record { device: 1, ..record(2_187_000, Op::Read, 388_096, 43_520) };
    assert_eq!(trace.records[1], second);
    assert_eq!(trace.records.last().unwrap().at_ns, (42_028 - 183) * 1_000);
    assert_eq!(trace.left_out.to_string(), "6 openings and closings of files (from line 2)");
}

#[test]
fn waits_of_version_2_count_from_the_start_as_fio_takes_them() {
    let trace = read(FIO_V2);
    let ms = 1_000_000;
    let expected = [
        record(0, Op::Read, 943_616, 512),
        record(1000 * ms, Op::Write, 1 << 20, 65_536),
        record(1000 * ms, Op::Flush, 0, 0),
        record(1250 * ms, Op::Discard, 0, 1 << 20),
        record(1250 * ms, Op::Fsync, 0, 0),
    ];
    assert_eq!((trace.format, trace.records.as_slice()), (Format::FioV2, &expected[..]));
    assert_eq!(trace.left_out.of(Reason::FileAction), Left { count: 3, first_line: 2 });
}

#[test]
fn of_blkparse_what_was_queued_is_read() {
    let trace = read(BLKPARSE);
    assert_eq!((trace.format, trace.action), (Format::Blkparse, Some('Q')));
    let sectors = |at_ns, op, sector: u64, sectors: u32| record(at_ns, op, sector * 512, sectors * 512);
    let expected = [
        sectors(0, Op::Write, 7905, 32),
        sectors(129_757, Op::Read, 97_031, 8),
        sectors(3_269_581, Op::Write, 110_517, 8),
        sectors(6_432_755, Op::Flush, 0, 0),
        sectors(6_631_769, Op::Write, 61_605, 32),
        sectors(307_955_389, Op::Discard, 33_280, 128),
    ];
    assert_eq!(trace.records, expected);
    assert_eq!(trace.devices, [Device { name: "7,0".into(), records: 6, end: (110_517 + 8) * 512 }]);
    assert_eq!(trace.left_out.to_string(), "30 lines of other actions (from line 2)");
}

#[test]
fn of_a_blktrace_without_queueing_what_was_issued_is_read() {
    let issued: Vec<&str> = BLKPARSE.lines().filter(|line| line.contains("  D ")).collect();
    let trace = read(&issued.join("\n"));
    assert_eq!(trace.action, Some('D'));
    let ops: Vec<Op> = trace.records.iter().map(|record| record.op).collect();
    assert_eq!(ops, [Op::Write, Op::Read, Op::Write, Op::Flush, Op::Write, Op::Discard]);
    assert_eq!(trace.left_out, LeftOut::default());
    // What was issued of earlier I/Os, before the first is queued, is not replayed too.
    let both = format!("{}\n{BLKPARSE}", issued[0]);
    let trace = read(&both);
    assert_eq!((trace.records.len(), trace.action), (6, Some('Q')));
    assert_eq!(trace.left_out.of(Reason::OtherAction), Left { count: 31, first_line: 1 });
}

#[test]
fn flags_and_forms_of_blkparse_are_told_apart() {
    let event =
        |flags: &str, rest: &str| format!("  8,16   1        1     1.000000000   99  Q {flags:>3} {rest}\n");
    let lines = [
        event("RA", "8 + 8 [a process]"),
        event("FWS", "16 + 8 [jbd2/sda1-8]"),
        event("WFSM", "24 + 8 (   12345) [fio]"),
        event("FN", "[kworker/0:1H]"),
        event("FWFS", "40 + 8 [jbd2/sda1-8]"),
        event("RF", "48 + 8 [fio]"),
        event("R", "36 (12 01 00 00 24 00 ..) [smartctl]"),
        event("W", "18446744073709551615 + 0 [fio]"),
        event("N", "0 + 0 [fio]"),
        "  8,16   1        1     1.000000000     0  m   N cfq1234 / slice expired\n".to_owned(),
    ];
    let trace = read(&lines.concat());
    let found: Vec<(Op, u64)> = trace.records.iter().map(|record| (record.op, record.offset / 512)).collect();
    let expected = [
        (Op::Read, 8),
        (Op::Flush, 0),
        (Op::Write, 16),
        (Op::WriteDsync, 24),
        (Op::Flush, 0),
        (Op::Flush, 0),
        (Op::WriteDsync, 40),
        (Op::Read, 48),
    ];
    assert_eq!(found, expected);
    let left_out = "1 passed-through command (in line 7), 1 operation of another kind (in line 9), 1 I/O of \
                    no bytes (in line 8), 1 FUA of what is no write (in line 6)";
    assert_eq!(trace.left_out.to_string(), left_out);
}

#[test]
fn msr_is_sorted_by_time_with_or_without_a_header() {
    let header = format!("Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\r\n{MSR}");
    for text in [MSR, &header] {
        let trace = read(text);
        let at: Vec<u64> = trace.records.iter().map(|record| record.at_ns).collect();
        assert_eq!(at, [0, 3_125_000, 6_125_000, 606_125_100]);
        let devices: Vec<(&str, u64)> = trace.devices.iter().map(|d| (d.name.as_str(), d.records)).collect();
        assert_eq!((trace.sorted, devices), (1, vec![("wdev,3", 3), ("wdev,0", 1)]));
        assert_eq!(trace.left_out.of(Reason::ZeroLength).count, 1);
    }
    let joined = read(&format!("{header}{}", header.replace("wdev,", "web,")));
    assert_eq!((joined.records.len(), joined.devices.len(), joined.sorted), (8, 4, 4));
}

#[test]
fn what_is_no_trace_is_refused_with_a_remedy() {
    assert_eq!(refusal(""), "it is empty; record one, such as by fio's write_iolog");
    let unknown = "its first line is of no format that is known: write fio's iolog";
    let shadow = refusal("root:$y$j9T$secret:20000:0:99999:7:::\n");
    assert!(shadow.starts_with(unknown) && !shadow.contains("secret"), "{shadow}");
    let long = refusal(format!("fio version 3 iolog\n{}\n", "x".repeat(500)));
    assert!(long.contains(&format!("`{}…`", "x".repeat(80))), "{long}");
    assert_eq!(refusal([0x1f, 0x8b, 8, 0]), "it is compressed; unpack it with gunzip first");
    assert!(refusal(b"\x07tae\x01\0\0\0").starts_with("it is blktrace's binary; make text of it: blkparse"));
    let latin = refusal(b"1,a,0,Read,0,512,1\n2,caf\xe9,0,Read,0,512,1\n");
    assert_eq!(latin, "line 2 is not UTF-8 text; the file is damaged, or no trace");
    let endless = refusal("y".repeat(70_000));
    assert_eq!(endless, "line 1 is longer than 64 KiB; the file is damaged, or no trace");
    let nothing = refusal("fio version 3 iolog\n0 f add\n9 f read 0 0\n");
    let left_out = "left out: 1 I/O of no bytes (in line 3), 1 opening or closing of a file (in line 2)";
    assert_eq!(nothing, format!("it holds no I/O that can be replayed ({left_out})"));
}

#[test]
fn a_line_that_is_not_of_the_format_is_named() {
    let v3 = "a line of fio-v3 is `TIME FILE ACTION OFFSET LENGTH`; correct this one or take it out";
    for (line, cause) in [
        ("x f read 0 512", "has a time that is no number of microseconds"),
        ("5 f read -1 512", "has an offset that is no number of bytes"),
        ("5 f read 0 4294967296", "has a length that is no number of bytes below 4 GiB"),
        ("5 f erase 0 512", "has an action that fio does not know"),
        ("5 f unlink", "has an action that fio does not know"),
        ("5 a file read 0 512", "has too few fields, or too many"),
        ("5 f read 0", "has too few fields, or too many"),
        ("5 f read 9223372036854775807 1", "reaches beyond 8 EiB"),
    ] {
        let message = refusal(format!("fio version 3 iolog\n0 f open\n{line}\n"));
        assert_eq!(message, format!("line 3, `{line}`, {cause}: {v3}"));
    }
    for line in
        ["1,h,0,Read,0,512", "1,h,x,Read,0,512,1", "1,h,0,Erase,0,512,1", "1,h,0,Read,0,-1,1", "1,h,0"]
    {
        let message = refusal(format!("1,h,0,Read,0,512,1\n{line}\n"));
        assert!(message.starts_with(&format!("line 2, `{line}`, ")), "{message}");
    }
    let queued = BLKPARSE.lines().next().unwrap();
    for (from, to) in
        [("+ 32", "32"), ("0.0000", "0.00"), ("7,0", "7:0"), ("+ 32", "+ 99999999"), ("7905", "x")]
    {
        let message = refusal(format!("{queued}\n{}", queued.replacen(from, to, 1)));
        assert!(message.starts_with("line 2, `  7"), "{message}");
        assert!(message.ends_with("correct this one or take it out"), "{message}");
    }
}

#[test]
fn a_format_that_was_named_is_held_against_the_file() {
    let wrong =
        |text: &str, format| read_from(text.as_bytes(), Some(format), usize::MAX).unwrap_err().to_string();
    let header = "is not the first line of such an iolog: write `fio version 2 iolog` first";
    assert_eq!(wrong(FIO_V3, Format::FioV2), format!("line 1, `fio version 3 iolog`, {header}"));
    assert!(wrong(MSR, Format::Blkparse).contains("does not begin as blkparse's lines do"));
    assert!(wrong(BLKPARSE, Format::Msr).contains("does not have seven fields"));
    assert_eq!(Format::ALL.map(|format| format.to_string().parse()), Format::ALL.map(Ok));
    assert!("fio".parse::<Format>().unwrap_err().to_string().starts_with("`fio` is not a format of traces"));
}

#[test]
fn a_trace_that_runs_backwards_is_refused() {
    let v3 = refusal("fio version 3 iolog\n7 f read 0 512\n6 f read 0 512\n");
    let cause = "is earlier than the I/O before it: several jobs wrote into one file";
    assert!(v3.starts_with(&format!("line 3, `6 f read 0 512`, {cause}")), "{v3}");
    let twice = refusal(format!("{FIO_V3}{FIO_V3}"));
    let cause =
        "line 30, `fio version 3 iolog`, begins another log, because fio appends to the file of write_iolog";
    assert_eq!(twice, format!("{cause}: cut the file there, or record each run and job into its own"));
    let mut lines: Vec<&str> = BLKPARSE.lines().collect();
    lines.swap(0, 5);
    let blkparse = refusal(lines.join("\n"));
    assert!(blkparse.ends_with("before it: sort the lines by time (sort -s -n -k 4,4)"), "{blkparse}");
    let ages = "0,h,0,Read,0,512,1\n18446744073709551615,h,0,Read,0,512,1\n";
    assert!(refusal(ages).starts_with("its times span more than 584 years"));
}

#[test]
fn memory_is_bounded() {
    let error = read_from(MSR.as_bytes(), None, 2).unwrap_err().to_string();
    assert!(error.starts_with("line 3, `128166554283970000,wdev,3"), "{error}");
    assert!(
        error.ends_with(
            "is more than memory holds: 2 records of 24 bytes were read; replay the trace in parts"
        )
    );
    let most = most_records();
    assert!(most > 1000 && most < usize::MAX, "{most}");
}

#[test]
fn more_devices_than_are_counted_are_refused() {
    let line = |n| format!("1,h,{n},Read,0,512,1\n");
    let text: String = (0..65_537).map(line).collect();
    assert!(refusal(&text).contains("names the 65,537th device or file"));
    assert_eq!(read(&text[..text.len() - line(65_536).len()]).devices.len(), 65_536);
}

#[test]
fn a_file_is_named_in_its_error() {
    let error = super::read(Path::new("/no/such\ntrace"), None).unwrap_err().to_string();
    assert!(error.starts_with("the trace /no/such\\ntrace: it cannot be read: No such file"), "{error}");
}

/// A record as a format writes it.
fn line(format: Format, record: &Record) -> String {
    let Record { at_ns, offset, len, device, op } = *record;
    match format {
        Format::FioV2 | Format::FioV3 => {
            let action = ["read", "write", "datasync", "sync", "trim"][op as usize];
            let time = if format == Format::FioV3 {
                format!("{} ", at_ns / 1000)
            } else {
                format!("/f{device} wait {} 0\n", at_ns / 1_000_000)
            };
            format!("{time}/f{device} {action} {offset} {len}\n")
        }
        Format::Blkparse => {
            let (s, ns) = (at_ns / 1_000_000_000, at_ns % 1_000_000_000);
            let flags = ["R", "WS", "FN", "FN", "DS", "WFS"][op as usize];
            let range = if len == 0 { String::new() } else { format!("{} + {} ", offset / 512, len / 512) };
            format!("  8,{device:<3} {:2} {:8} {s:5}.{ns:09} {:5}  Q {flags:>3} {range}[fio]\n", 0, 1, 99)
        }
        Format::Msr => {
            let kind = if op == Op::Read { "Read" } else { "Write" };
            format!("{},h,{device},{kind},{offset},{len},1\n", 128_166_554_283_938_750 + at_ns / 100)
        }
    }
}

/// Records that a format can state, in order of time.
fn records(format: Format) -> impl Strategy<Value = Vec<Record>> {
    let unit: u64 = match format {
        Format::FioV2 => 1_000_000,
        Format::FioV3 => 1_000,
        Format::Blkparse => 1,
        Format::Msr => 100,
    };
    let ops: &[Op] = match format {
        Format::Msr => &[Op::Read, Op::Write],
        Format::Blkparse => &[Op::Read, Op::Write, Op::Flush, Op::Discard, Op::WriteDsync],
        _ => &[Op::Read, Op::Write, Op::Flush, Op::Fsync, Op::Discard],
    };
    let one = (0u64..5000, 0u16..3, 0..ops.len(), 0u64..1 << 40, 1u32..8000);
    proptest::collection::vec(one, 1..60).prop_map(move |rows| {
        let mut at_ns = 0;
        let mut numbers: Vec<u16> = Vec::new();
        let record = |(row, (after, device, op, block, blocks)): (usize, (u64, u16, usize, u64, u32))| {
            at_ns += if row == 0 { 0 } else { after * unit };
            // Numbers in the order in which they come first.
            let known = numbers.iter().position(|number| *number == device);
            let device = known.unwrap_or(numbers.len()) as u16;
            if known.is_none() {
                numbers.push(device);
            }
            let op = ops[op];
            let (offset, len) = if op.has_range() { (block * 512, blocks * 512) } else { (0, 0) };
            Record { at_ns, offset, len, device, op }
        };
        rows.into_iter().enumerate().map(record).collect()
    })
}

fn any_trace() -> impl Strategy<Value = (Format, Vec<Record>)> {
    proptest::sample::select(&Format::ALL[..]).prop_flat_map(|format| (Just(format), records(format)))
}

fn text(format: Format, records: &[Record]) -> String {
    let header = match format {
        Format::FioV2 => "fio version 2 iolog\n",
        Format::FioV3 => "fio version 3 iolog\n",
        Format::Blkparse | Format::Msr => "",
    };
    records.iter().fold(header.to_owned(), |text, record| text + &line(format, record))
}

proptest! {
    #[test]
    fn what_is_written_is_read((format, records) in any_trace()) {
        let trace = read(&text(format, &records));
        prop_assert_eq!(trace.format, format);
        prop_assert_eq!(trace.records, records);
        prop_assert_eq!(trace.left_out, LeftOut::default());
    }

    #[test]
    fn a_damaged_trace_is_read_or_refused_by_a_line_of_it(
        (format, records) in any_trace(), at: prop::sample::Index, byte: u8, cut: prop::sample::Index,
    ) {
        let mut bytes = text(format, &records).into_bytes();
        let place = at.index(bytes.len());
        bytes[place] = byte;
        bytes.truncate(bytes.len() - cut.index(20));
        let lines = bytes.split(|byte| *byte == b'\n').count() as u64;
        match read_from(&bytes[..], Some(format), usize::MAX) {
            Ok(trace) => {
                prop_assert!(trace.records.windows(2).all(|pair| pair[0].at_ns <= pair[1].at_ns));
                let of_devices: u64 = trace.devices.iter().map(|device| device.records).sum();
                prop_assert_eq!(of_devices, trace.records.len() as u64);
            }
            Err(TraceProblem::Line { line, .. } | TraceProblem::NotText(line)) => prop_assert!(line <= lines),
            Err(error) => {
                prop_assert!(matches!(error, TraceProblem::NoIo(_) | TraceProblem::Span), "{}", error);
            }
        }
    }
}
