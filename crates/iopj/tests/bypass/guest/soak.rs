//! Every path that a drive has, in turn and again: requests of all kinds at random, two engines over one pool
//! at a time, and every byte that is read compared with what was written.

use super::drive::{Drive, Random};
use iopj_core::{IoPath, Sleep, Spin, UserCompletion};
use iopj_engine::check::check;
use iopj_engine::target::WritePermission;
use iopj_engine::{Buffer, Buffers, Completion, Engine, NvmeUser, Op, Pool, Request, Target};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const BLOCK: usize = 4096;
/// Blocks of the drive that are used: few, so that most are written again soon.
const BLOCKS: usize = 256;
const DEPTH: u32 = 6;
/// Requests of each pair of engines.
const REQUESTS: usize = 150;

/// What the drive holds.
struct Model {
    /// The number that a block is filled with; none where it is not known.
    filled: Vec<Option<u64>>,
    /// The block belongs to a request in flight.
    busy: Vec<bool>,
    random: Random,
    next: u64,
}

/// A request in flight: what it does, from which block on, and with what it fills them.
#[derive(Clone, Copy)]
struct Flight {
    op: Op,
    block: usize,
    blocks: usize,
    fill: u64,
}

fn fill(buffer: &mut [u8], number: u64) {
    buffer.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&number.to_le_bytes()));
}

fn holds(buffer: &[u8], number: u64) -> bool {
    buffer.chunks_exact(8).all(|word| word == number.to_le_bytes())
}

impl Model {
    /// Something to do where no other request is; none if there is no place, or no buffer is left.
    fn draw(&mut self, engine: &impl Engine, pool: &Pool) -> Option<(Request, Flight)> {
        let op = match self.random.below(20) {
            0..=7 => Op::Read,
            8..=13 => Op::Write,
            14 => Op::ReadVectored,
            15 => Op::WriteVectored,
            16 => Op::Flush,
            17 => Op::Fsync,
            18 => Op::Discard,
            _ => Op::WriteZeroes,
        };
        let blocks = if matches!(op, Op::ReadVectored | Op::WriteVectored) { 2 } else { 1 };
        let block = self.random.below(BLOCKS - 1);
        let place = block..block + blocks;
        if !engine.supports(op)
            || self.busy[place.clone()].contains(&true)
            || (pool.available() as usize) < blocks
        {
            return None;
        }
        self.next += 1;
        let (fill_with, offset, len) = (self.next, (block * BLOCK) as u64, (blocks * BLOCK) as u64);
        let buffers = || -> Vec<Buffer> {
            let mut taken: Vec<Buffer> = (0..blocks).map(|_| pool.acquire().unwrap()).collect();
            if op.writes() {
                taken.iter_mut().for_each(|buffer| fill(buffer, fill_with));
            }
            taken
        };
        let request = match op {
            Op::Read => Request::read(buffers().remove(0), BLOCK as u32, offset),
            Op::Write => Request::write(buffers().remove(0), BLOCK as u32, offset),
            Op::ReadVectored => Request::read_vectored(buffers(), offset),
            Op::WriteVectored => Request::write_vectored(buffers(), offset),
            Op::Flush => Request::flush(),
            Op::Fsync => Request::fsync(),
            Op::Discard => Request::discard(offset, len),
            _ => Request::write_zeroes(offset, len),
        };
        if !matches!(op, Op::Flush | Op::Fsync) {
            self.busy[place].fill(true);
        }
        Some((request, Flight { op, block, blocks, fill: fill_with }))
    }

    /// The request has ended, or nobody will know whether it did.
    fn ended(&mut self, flight: Flight, known: Option<u64>) {
        let Flight { op, block, blocks, .. } = flight;
        if !matches!(op, Op::Flush | Op::Fsync) {
            self.busy[block..block + blocks].fill(false);
        }
        if op.writes() {
            self.filled[block..block + blocks].fill(known);
        }
    }

    fn check(&mut self, completion: Completion, flight: Flight) {
        let Flight { op, block, blocks, fill } = flight;
        match op {
            Op::Read | Op::Write | Op::ReadVectored | Op::WriteVectored => {
                assert_eq!(completion.result, Ok((blocks * BLOCK) as u32), "{op:?} of block {block}");
            }
            // A drive may lack a command.
            Op::Discard | Op::WriteZeroes => {}
            _ => assert_eq!(completion.result, Ok(0), "{op:?}"),
        }
        let buffers: Vec<Buffer> = match completion.buffers {
            Buffers::None => Vec::new(),
            Buffers::One(buffer) => vec![buffer],
            Buffers::Many(buffers) => buffers.into_vec(),
        };
        if !op.writes() {
            for (block, buffer) in (block..).zip(&buffers) {
                if let Some(number) = self.filled[block] {
                    assert!(holds(buffer, number), "block {block} is not {number} after {op:?}");
                }
            }
        }
        let known = match op {
            Op::Write | Op::WriteVectored => Some(fill),
            Op::WriteZeroes if completion.result.is_ok() => Some(0),
            _ => None,
        };
        self.ended(flight, known);
    }

    /// Two engines over one pool do their share; the first is dropped with what it has in flight. `change`
    /// may change an engine between two requests.
    fn run<E: Engine>(
        &mut self,
        mut engines: [E; 2],
        pool: &Pool,
        mut change: impl FnMut(&mut E, usize),
    ) -> u64 {
        let mut flying = [HashMap::new(), HashMap::new()];
        let mut done = 0;
        for number in 0..REQUESTS {
            let which = self.random.below(2);
            let engine = &mut engines[which];
            change(engine, number);
            if engine.in_flight() < engine.iodepth()
                && let Some((request, flight)) = self.draw(engine, pool)
            {
                engine.push(request.tagged(number as u64)).unwrap();
                flying[which].insert(number as u64, flight);
            }
            let mut ended = Vec::new();
            let soon = Instant::now() + Duration::from_micros(self.random.below(300) as u64);
            let found = match self.random.below(5) {
                0 => engine.submit().map(|()| 0),
                1 => engine.reap(|one| ended.push(one)),
                2 => engine.wait(2, Some(soon), |one| ended.push(one)),
                _ => engine.wait(1, None, |one| ended.push(one)),
            };
            assert_eq!(found.unwrap(), ended.len());
            for completion in ended {
                let flight = flying[which].remove(&completion.tag).expect("in flight once");
                self.check(completion, flight);
                done += 1;
            }
            assert_eq!(engines[which].in_flight(), flying[which].len());
        }
        let [first, second] = engines;
        drop(first);
        second.close(Instant::now() + Duration::from_secs(60)).unwrap();
        for flight in flying.into_iter().flat_map(HashMap::into_values) {
            self.ended(flight, None);
        }
        assert_eq!(pool.available(), pool.count(), "every buffer is back");
        done
    }
}

fn depth(path: IoPath) -> u32 {
    if path.is_synchronous() { 1 } else { DEPTH }
}

/// The paths of the kernel's driver, on the block device and on the character device.
fn by_the_kernel(nodes: &[PathBuf], model: &mut Model, counts: &mut BTreeMap<String, u64>) {
    for node in nodes {
        let target =
            Target::open_for_writing(node, WritePermission::DestroyData { device: node, i_know: true });
        let target = target.unwrap();
        for path in IoPath::all().into_iter().filter(|path| check(*path, &target).is_available()) {
            let pool = Pool::new(3 * DEPTH, BLOCK as u32).unwrap();
            let open = |_| iopj_engine::open(path, &target, &pool, depth(path)).unwrap();
            *counts.entry(path.to_string()).or_default() += model.run([(), ()].map(open), &pool, |_, _| {});
        }
    }
}

/// Kernel bypass: engines that change their way of waiting with requests in flight.
fn by_bypass(drive: &Drive, model: &mut Model, counts: &mut BTreeMap<String, u64>) {
    let controller = drive.open("type1");
    let target = Target::open_bypass(Path::new("/dev/nvme"), &controller, 1, true).unwrap();
    let pool = Pool::new(3 * DEPTH, BLOCK as u32).unwrap();
    let ways = [
        UserCompletion::Poll(Spin::Tight),
        UserCompletion::Interrupt,
        UserCompletion::Hybrid(Sleep::Auto, Spin::Pause),
        UserCompletion::Interrupt,
    ];
    let open = |_| NvmeUser::builder().switches().iodepth(DEPTH).open(&target, &pool).unwrap();
    let done = model.run([(), ()].map(open), &pool, |engine, number| {
        if number % 10 == 0 {
            engine.set_completion(ways[number / 10 % ways.len()]).unwrap();
        }
    });
    *counts.entry("nvme-user, changing".to_owned()).or_default() += done;
}

/// As long as the environment says, and each path once at least.
#[test]
#[ignore = "runs in a guest that `soak` boots"]
fn every_path_agrees_on_the_content() {
    let seconds = std::env::var("SECONDS_OF_SOAK").unwrap().parse().unwrap();
    let (begun, mut drive) = (Instant::now(), Drive::of_machine(0));
    let random = Random::new(std::env::var("SEED").unwrap().parse().unwrap());
    let mut model = Model { filled: vec![None; BLOCKS], busy: vec![false; BLOCKS], random, next: 0 };
    let mut counts = BTreeMap::new();
    while counts.is_empty() || begun.elapsed() < Duration::from_secs(seconds) {
        let block = drive.node();
        let name = block.file_name().unwrap().to_str().unwrap().replace("nvme", "ng");
        let nodes = [block.clone(), block.with_file_name(name)];
        let nodes: Vec<PathBuf> = nodes.into_iter().filter(|node| node.exists()).collect();
        by_the_kernel(&nodes, &mut model, &mut counts);
        drive.take();
        by_bypass(&drive, &mut model, &mut counts);
        drive.give_back();
    }
    let lines: Vec<String> = counts.iter().map(|(path, count)| format!("{path}: {count}\n")).collect();
    eprint!("{}", lines.concat());
    std::fs::write("/out/soak", lines.concat()).unwrap();
}
