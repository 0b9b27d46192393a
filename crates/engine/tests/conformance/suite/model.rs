//! Several engines over one target and one pool, driven at random and compared with a model: every request
//! completes once, on its own engine, with its buffer and the right bytes.

use super::subjects::Subject;
use super::{BLOCK, DEPTH};
use iopj_engine::{Buffer, Completion, Engine, Pool, Request};
use proptest::prelude::*;
use std::collections::HashMap;
use std::time::Instant;

#[derive(Clone, Copy, Debug)]
enum Step {
    Acquire,
    Release,
    Push { engine: usize, block: u64 },
    Submit { engine: usize },
    Reap { engine: usize },
    Wait { engine: usize, min: usize },
    WaitUntilNow { engine: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let engine = 0usize..3;
    prop_oneof![
        3 => Just(Step::Acquire),
        1 => Just(Step::Release),
        4 => (engine.clone(), 0u64..200).prop_map(|(engine, block)| Step::Push { engine, block }),
        1 => engine.clone().prop_map(|engine| Step::Submit { engine }),
        1 => engine.clone().prop_map(|engine| Step::Reap { engine }),
        2 => (engine.clone(), 0usize..4).prop_map(|(engine, min)| Step::Wait { engine, min }),
        1 => engine.prop_map(|engine| Step::WaitUntilNow { engine }),
    ]
}

/// What should be true of a pool and its engines.
#[derive(Default)]
struct Model {
    held: Vec<Buffer>,
    /// By engine, the block of each tag in flight.
    flying: [HashMap<u64, u64>; 3],
    next_tag: u64,
}

impl Model {
    fn done(&mut self, engine: usize, completions: Vec<Completion>, subject: &Subject) {
        for completion in completions {
            let block = self.flying[engine].remove(&completion.tag).expect("it was in flight here, once");
            assert_eq!(completion.result, Ok(BLOCK));
            let buffer = completion.into_buffer().expect("a read has a buffer");
            assert_eq!(&buffer[..], subject.expected(block), "block {block} on {}", subject.name);
            self.held.push(buffer);
        }
    }
}

fn run(subject: &Subject, steps: &[Step]) {
    let depth = subject.depth(3);
    let pool = Pool::new(DEPTH, BLOCK).unwrap();
    let mut engines = [0; 3].map(|_| subject.open(&pool, depth));
    let mut model = Model::default();
    for step in steps {
        let mut done = Vec::new();
        match *step {
            Step::Acquire => model.held.extend(pool.acquire()),
            Step::Release => drop(model.held.pop()),
            Step::Push { engine, block } => {
                let Some(buffer) = model.held.pop() else { continue };
                let (tag, block) = (model.next_tag, block % subject.blocks());
                model.next_tag += 1;
                match engines[engine].push(Request::read(buffer, BLOCK, subject.offset(block)).tagged(tag)) {
                    Ok(()) => drop(model.flying[engine].insert(tag, block)),
                    Err(refused) => {
                        assert_eq!(model.flying[engine].len(), depth as usize, "{refused}");
                        let completion = refused.into_parts().0.operation.into_buffers();
                        let iopj_engine::Buffers::One(buffer) = completion else { panic!("a read has one") };
                        model.held.push(buffer);
                    }
                }
                continue;
            }
            Step::Submit { engine } => engines[engine].submit().unwrap(),
            Step::Reap { engine } => drop(engines[engine].reap(|one| done.push(one)).unwrap()),
            Step::Wait { engine, min } => {
                let found = engines[engine].wait(min, None, |one| done.push(one)).unwrap();
                assert!(found >= min.min(model.flying[engine].len()));
            }
            Step::WaitUntilNow { engine } => {
                engines[engine].wait(1, Some(Instant::now()), |one| done.push(one)).unwrap();
            }
        }
        if let Step::Reap { engine } | Step::Wait { engine, .. } | Step::WaitUntilNow { engine } = *step {
            model.done(engine, done, subject);
        }
        for (engine, flying) in engines.iter().zip(&model.flying) {
            assert_eq!(engine.in_flight(), flying.len());
        }
        let flying: usize = model.flying.iter().map(HashMap::len).sum();
        assert_eq!(pool.available() as usize + model.held.len() + flying, DEPTH as usize);
    }
    drop((engines, model));
    assert_eq!((pool.available(), pool.holders()), (DEPTH, 1));
}

/// Runs random steps on three engines of each subject.
pub(crate) fn agree(subjects: &[Subject]) {
    let config = ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() };
    for subject in subjects {
        proptest!(config.clone(), |(steps in prop::collection::vec(step(), 1..60))| run(subject, &steps));
    }
}
