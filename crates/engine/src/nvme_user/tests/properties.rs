//! What holds for every sequence of requests: each completes once, moves its own bytes and no others,
//! whatever the depth, the order of completions and the layout of memory; and every doorbell write is valid,
//! which the simulated controller checks.

use super::{Behaviour, Bench, DISK, wait};
use crate::engine::Engine;
use crate::pool::Pool;
use crate::request::Request;
use proptest::prelude::*;
use std::collections::HashMap;

/// Longest request in bytes: two pages of a list's entries would be more than the simulated disk has.
const LONGEST: u32 = if cfg!(miri) { 3 * 4096 } else { 16 * 4096 };

#[derive(Clone, Debug)]
struct Step {
    /// Requests to push: write or read, first block, blocks.
    pushes: Vec<(bool, u64, u32)>,
    submit: bool,
    /// Completions to wait for, in 1/255 of what is then in flight.
    wait: u8,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Lengths recur whose entries a buffer knows: of a page, of two and of a list.
    let blocks = prop_oneof![1..=LONGEST / 512, prop::sample::select(vec![8u32, 16, LONGEST / 512])];
    let push = (any::<bool>(), 0..DISK as u64 / 512, blocks);
    let step = (prop::collection::vec(push, 0..6), any::<bool>(), any::<u8>())
        .prop_map(|(pushes, submit, wait)| Step { pushes, submit, wait });
    prop::collection::vec(step, 1..if cfg!(miri) { 6 } else { 40 })
}

fn behaviour() -> impl Strategy<Value = Behaviour> {
    (any::<bool>(), 0u32..3, any::<u64>(), any::<bool>()).prop_map(
        |(shadow, stride_shift, shuffle, scatter_next)| Behaviour {
            shadow,
            stride_shift,
            shuffle,
            scatter_next,
            ..Behaviour::default()
        },
    )
}

/// A request in flight.
#[derive(Clone, Copy)]
struct Flying {
    write: bool,
    /// The number of its buffer.
    buffer: u32,
    offset: u64,
    len: u32,
}

/// Does the steps; buffers begin `shift` bytes into their pages.
fn run(behaviour: Behaviour, depth: u32, shift: u32, steps: &[Step]) {
    let scatter = behaviour.scatter_next;
    let bench = Bench::new(Behaviour { scatter_next: false, ..behaviour });
    bench.sim.behave(|behaviour| behaviour.scatter_next = scatter);
    let pool = Pool::shifted(depth, LONGEST, shift).unwrap();
    let mut engine = bench.open("poll", &pool, depth);
    let mut disk = bench.contents.clone();
    let mut flying: HashMap<u64, Flying> = HashMap::new();
    let mut tag = 0;
    for step in steps {
        for (write, block, blocks) in step.pushes.iter().copied() {
            let Some(mut buffer) = pool.acquire() else { break };
            let block = block.min(DISK as u64 / 512 - u64::from(blocks));
            let (offset, len) = (block * 512, blocks * 512);
            let overlaps = |other: &Flying| {
                other.offset < offset + u64::from(len) && offset < other.offset + u64::from(other.len)
            };
            // The order of requests in flight on the same blocks is undefined.
            let write = write && !flying.values().any(overlaps);
            if flying.values().any(|other| other.write && overlaps(other)) {
                continue;
            }
            tag += 1;
            buffer.fill(tag as u8);
            let request = Flying { write, buffer: buffer.index(), offset, len };
            let make = if write { Request::write } else { Request::read };
            engine.push(make(buffer, len, offset).tagged(tag)).unwrap();
            if write {
                disk[offset as usize..][..len as usize].fill(tag as u8);
            }
            flying.insert(tag, request);
        }
        if step.submit {
            engine.submit().unwrap();
        }
        let min = flying.len() * usize::from(step.wait) / 255;
        let done = wait(&mut engine, min).unwrap();
        assert!(done.len() >= min);
        for completion in done {
            let request = flying.remove(&completion.tag).expect("in flight, and completed once");
            assert_eq!(completion.result, Ok(request.len));
            let tag = completion.tag;
            let buffer = completion.into_buffer().expect("the buffer comes back");
            assert_eq!(buffer.index(), request.buffer);
            let (bytes, rest) = buffer.split_at(request.len as usize);
            if !request.write {
                assert_eq!(bytes, &disk[request.offset as usize..][..bytes.len()]);
            }
            assert!(rest.iter().all(|byte| *byte == tag as u8), "beyond the request");
        }
        assert_eq!(engine.in_flight(), flying.len());
    }
    let left = wait(&mut engine, flying.len()).unwrap().len();
    assert_eq!(left, flying.len());
    assert_eq!(pool.available(), depth);
    drop(engine);
    assert_eq!(bench.sim.disk(), disk);
    bench.close();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 200 }))]
    #[test]
    fn every_request_moves_its_own_bytes_once(
        behaviour in behaviour(),
        depth in 1u32..7,
        dwords in 0u32..1024,
        steps in steps(),
    ) {
        // Half of the pools begin at a page's start.
        run(behaviour, depth, if dwords < 512 { 0 } else { dwords * 4 }, &steps);
    }
}
