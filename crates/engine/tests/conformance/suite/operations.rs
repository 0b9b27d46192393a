//! What engines do besides reading: writes, vectors, flushes, discards, zeros.

use super::subjects::Subject;
use super::{BLOCK, Test, all, wait};
use iopj_engine::{Buffers, Cause, Completion, Engine, IoError, Op, Pool, Request};

pub(super) const TESTS: [Test; 6] = [
    ("a_write_that_was_only_pushed_does_not_happen", a_write_that_was_only_pushed_does_not_happen),
    ("writes_reach_the_target", writes_reach_the_target),
    ("durable_writes_reach_the_target", durable_writes_reach_the_target),
    ("durable_writes_flush_the_cache_of_a_device", durable_writes_flush_the_cache_of_a_device),
    ("vectored_requests_move_all_their_buffers", vectored_requests_move_all_their_buffers),
    ("rare_operations_are_done_or_refused", rare_operations_are_done_or_refused),
];

fn one(mut done: Vec<Completion>) -> Completion {
    assert_eq!(done.len(), 1);
    done.remove(0)
}

fn writes_reach_the_target(subject: &Subject) {
    let Some(writable) = subject.writable() else { return };
    let depth = subject.depth(4);
    let pool = Pool::new(depth, BLOCK).unwrap();
    let mut engine = subject.open_on(&writable, &pool, depth);
    for (number, mut buffer) in (0..u64::from(depth)).zip(all(&pool)) {
        buffer.fill(0xa0 + number as u8);
        engine.push(Request::write(buffer, BLOCK, subject.offset(number * 3 + 1))).unwrap();
    }
    let mut done = Vec::new();
    while done.len() < depth as usize {
        done.extend(wait(&mut engine, 1));
    }
    assert!(done.iter().all(|completion| completion.result == Ok(BLOCK)), "{done:?}");
    let now = subject.contents();
    for block in 0..u64::from(3 * depth) {
        let start = subject.offset(block) as usize;
        let bytes = &now[start..start + BLOCK as usize];
        if block % 3 == 1 {
            assert!(bytes.iter().all(|byte| *byte == 0xa0 + (block / 3) as u8), "block {block} was written");
        } else {
            assert_eq!(bytes, subject.expected(block), "block {block} was not");
        }
    }
    subject.put_back();
}

/// Several at once, of both kinds, and a plain one among them; to what was opened for reading there is none.
fn durable_writes_reach_the_target(subject: &Subject) {
    let kinds = [Request::write_dsync, Request::write, Request::write_sync];
    let Some(writable) = subject.writable() else { return };
    let depth = subject.depth(4);
    let pool = Pool::new(depth, BLOCK).unwrap();
    let mut engine = subject.open_on(&writable, &pool, depth);
    assert!(engine.supports(Op::WriteDsync) && engine.supports(Op::WriteSync));
    for block in 0..6u8 {
        let mut buffer = loop {
            match pool.acquire() {
                Some(buffer) => break buffer,
                None => drop(wait(&mut engine, 1)),
            }
        };
        buffer.fill(0xb0 + block);
        let make = kinds[usize::from(block) % 3];
        engine.push(make(buffer, BLOCK, subject.offset(block.into())).tagged(block.into())).unwrap();
    }
    while engine.in_flight() > 0 {
        let done = wait(&mut engine, 1);
        assert!(done.iter().all(|completion| completion.result == Ok(BLOCK)), "{done:?}");
    }
    let now = subject.contents();
    for block in 0..6u8 {
        let start = subject.offset(block.into()) as usize;
        assert!(now[start..start + BLOCK as usize].iter().all(|byte| *byte == 0xb0 + block), "block {block}");
    }
    let mut reader = subject.open(&pool, 1);
    for make in [Request::write_dsync, Request::write_sync] {
        reader.push(make(pool.acquire().unwrap(), BLOCK, subject.offset(0))).unwrap();
        assert_eq!(one(wait(&mut reader, 1)).result, Err(IoError::Os(libc::EBADF)), "opened for reading");
    }
    subject.put_back();
}

/// A loop device has a cache and no FUA, so the kernel sends it a flush after each durable write, or two:
/// one in place of FUA, one as fdatasync does.
fn durable_writes_flush_the_cache_of_a_device(subject: &Subject) {
    const WRITES: u64 = 4;
    let Some(writable) = subject.writable_device() else { return };
    let pool = Pool::new(1, BLOCK).unwrap();
    let mut engine = subject.open_on(&writable, &pool, 1);
    for (make, flushes) in [
        (Request::write as fn(_, _, _) -> _, 0),
        (Request::write_dsync, WRITES),
        (Request::write_sync, WRITES),
        (Request::write, 0),
    ] {
        let before = subject.flushes();
        for block in 0..WRITES {
            let mut buffer = pool.acquire().unwrap();
            buffer.copy_from_slice(subject.expected(block));
            engine.push(make(buffer, BLOCK, subject.offset(block))).unwrap();
            assert_eq!(one(wait(&mut engine, 1)).result, Ok(BLOCK));
        }
        let done = subject.flushes() - before;
        assert!(if flushes == 0 { done == 0 } else { done >= flushes }, "{}: {done}", subject.name);
    }
}

fn a_write_that_was_only_pushed_does_not_happen(subject: &Subject) {
    let Some(writable) = subject.writable() else { return };
    let depth = subject.depth(4);
    let pool = Pool::new(depth, BLOCK).unwrap();
    let mut engine = subject.open_on(&writable, &pool, depth);
    for (block, mut buffer) in (0..u64::from(depth)).zip(all(&pool)) {
        buffer.fill(0x5a);
        engine.push(Request::write(buffer, BLOCK, subject.offset(block))).unwrap();
    }
    drop(engine);
    assert_eq!(pool.available(), depth, "the buffers are free again");
    let now = subject.contents();
    for block in 0..u64::from(depth) {
        let start = subject.offset(block) as usize;
        assert_eq!(&now[start..start + BLOCK as usize], subject.expected(block), "block {block}");
    }
}

fn vectored_requests_move_all_their_buffers(subject: &Subject) {
    let pool = Pool::new(3, BLOCK).unwrap();
    let mut engine = subject.open(&pool, 1);
    let request = Request::read_vectored(all(&pool), subject.offset(2)).tagged(7);
    if !engine.supports(Op::ReadVectored) {
        let refused = engine.push(request).unwrap_err();
        assert!(matches!(refused.error().cause(), Cause::NoSuchOp { op: Op::ReadVectored, .. }), "{refused}");
        drop(refused);
        assert_eq!(pool.available(), 3, "the buffers came back");
        return;
    }
    engine.push(request).unwrap();
    let completion = one(wait(&mut engine, 1));
    assert_eq!((completion.tag, completion.result), (7, Ok(3 * BLOCK)), "{}", subject.name);
    let Buffers::Many(buffers) = completion.buffers else { panic!("{:?}", completion.buffers) };
    for (number, buffer) in (0..).zip(&buffers) {
        assert_eq!(&buffer[..], subject.expected(2 + number));
    }
    let Some(writable) = subject.writable() else { return };
    let mut writer = subject.open_on(&writable, &pool, 1);
    let mut buffers = buffers.into_vec();
    buffers.iter_mut().enumerate().for_each(|(number, buffer)| buffer.fill(number as u8 + 1));
    writer.push(Request::write_vectored(buffers, subject.offset(5))).unwrap();
    assert_eq!(one(wait(&mut writer, 1)).result, Ok(3 * BLOCK));
    // An ordinary read follows: the entry that held the vectors is prepared anew.
    let mut block = 4;
    for _ in 0..20 {
        writer.push(Request::read(pool.acquire().unwrap(), BLOCK, subject.offset(block))).unwrap();
        let completion = one(wait(&mut writer, 1));
        let bytes = &completion.buffer().unwrap()[..];
        match block {
            4 => assert_eq!(bytes, subject.expected(4)),
            _ => assert!(bytes.iter().all(|byte| *byte == (block - 4) as u8), "block {block}"),
        }
        block = if block == 7 { 4 } else { block + 1 };
    }
    subject.put_back();
}

/// The file system of the test's files may lack an operation; it then says so.
fn is_done(result: Result<u32, IoError>) -> bool {
    assert!(matches!(result, Ok(0) | Err(IoError::Os(libc::EOPNOTSUPP))), "{result:?}");
    result.is_ok()
}

fn rare_operations_are_done_or_refused(subject: &Subject) {
    let Some(writable) = subject.writable() else { return };
    let pool = Pool::new(1, BLOCK).unwrap();
    let mut engine = subject.open_on(&writable, &pool, 1);
    let polls = subject.name.contains("poll on") || subject.name.contains("hybrid");
    assert!(
        !polls || subject.name.starts_with("posix-sio") || !engine.supports(Op::Flush),
        "{}",
        subject.name
    );
    let (at, len) = (subject.offset(9), u64::from(BLOCK));
    for request in [
        Request::flush(),
        Request::fsync(),
        Request::write_zeroes(at, len),
        Request::discard(at + 2 * len, len),
    ] {
        let op = request.operation.op();
        let pushed = engine.push(request.tagged(3));
        if !engine.supports(op) {
            let refused = pushed.unwrap_err();
            assert!(matches!(refused.error().cause(), Cause::NoSuchOp { .. }), "{refused}");
            continue;
        }
        pushed.unwrap();
        let completion = one(wait(&mut engine, 1));
        assert!(completion.tag == 3 && completion.into_buffer().is_none());
    }
    for (op, request, block) in [
        (Op::WriteZeroes, Request::write_zeroes(at, len), 9),
        (Op::Discard, Request::discard(at + 2 * len, len), 11),
    ] {
        if !engine.supports(op) {
            continue;
        }
        engine.push(request).unwrap();
        if is_done(one(wait(&mut engine, 1)).result) {
            let start = subject.offset(block) as usize;
            assert_eq!(&subject.contents()[start..start + BLOCK as usize], [0; BLOCK as usize], "{op:?}");
        }
        assert_eq!(
            subject.contents()[subject.offset(10) as usize..][..BLOCK as usize],
            *subject.expected(10)
        );
    }
    let odd = engine.push(Request::write_zeroes(at + 1, len));
    if engine.supports(Op::WriteZeroes) {
        assert!(matches!(odd.unwrap_err().error().cause(), Cause::Unaligned { .. }));
    }
    subject.put_back();
    let mut reader = subject.open(&pool, 1);
    if reader.supports(Op::WriteZeroes) {
        reader.push(Request::write_zeroes(at, len)).unwrap();
        assert_eq!(one(wait(&mut reader, 1)).result, Err(IoError::Os(libc::EBADF)), "opened for reading");
    }
}
