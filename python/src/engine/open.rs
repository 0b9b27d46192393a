//! Opening an engine on the worker's thread, where it will stay.

use super::memory::Memory;
use super::pool::{Facts, SharedPool};
use super::shared::Shared;
use super::worker::Worker;
use iopj_auto::{Aim, Auto, Policy};
use iopj_engine::target::{FileId, WritePermission};
use iopj_engine::{Buffer, DynEngine, IoPath, Pool, Target};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

/// Which engine.
pub(super) enum Way {
    /// That of one path, or of an interface by its interrupts.
    Path(String),
    /// One that chooses: an aim, or the name of a policy file, which has a `/` or a `.` in it.
    Policy(String),
}

/// What an engine is opened for.
pub(super) struct Asked {
    pub(super) file: PathBuf,
    pub(super) way: Way,
    pub(super) depth: u32,
    pub(super) buffer_len: u32,
    pub(super) buffers: u32,
    /// Of a file that iopj made, to write to it.
    pub(super) file_id: Option<String>,
}

/// Opens it on a new thread, which serves it; why it could not be opened.
pub(super) fn open(asked: Asked) -> Result<(Arc<Shared>, JoinHandle<()>), String> {
    let (answer, answered) = sync_channel(1);
    let thread = Builder::new().name("iopj-file".to_owned()).spawn(move || serve(&asked, &answer));
    let thread = thread.map_err(|error| format!("no thread can be started: {error}"))?;
    match answered.recv() {
        Ok(Ok(shared)) => Ok((shared, thread)),
        Ok(Err(why)) => Err(why),
        Err(_) => Err("the engine's thread has ended while it opened: report this fault".to_owned()),
    }
}

fn serve(asked: &Asked, answer: &SyncSender<Result<Arc<Shared>, String>>) {
    match worker(asked) {
        Err(why) => drop(answer.send(Err(why))),
        Ok((shared, worker)) => {
            drop(answer.send(Ok(shared)));
            worker.serve();
        }
    }
}

fn worker(asked: &Asked) -> Result<(Arc<Shared>, Worker), String> {
    let target = target(asked)?;
    let memory = Memory::new(asked.buffers, asked.buffer_len)?;
    let pool = memory.pool(asked.buffers, asked.buffer_len)?;
    let (io_path, engine) = engine(asked, &target, &pool)?;
    let mut buffers: Vec<Buffer> = std::iter::from_fn(|| pool.acquire()).collect();
    buffers.sort_by_key(Buffer::index);
    let places = buffers.iter_mut().map(|buffer| buffer.as_mut_ptr() as usize).collect();
    let facts = Facts {
        io_path,
        data_offset: target.data_offset(),
        data_len: target.data_len(),
        logical_block: target.logical_block(),
        is_writable: target.is_writable(),
        depth: u32::try_from(engine.dyn_iodepth()).unwrap_or(asked.depth),
        buffer_len: asked.buffer_len,
        buffers: asked.buffers,
    };
    let shared = Arc::new(Shared::new(SharedPool::new(places, facts, memory))?);
    Ok((shared.clone(), Worker::new(engine, shared, buffers)))
}

fn target(asked: &Asked) -> Result<Target, String> {
    let Some(text) = &asked.file_id else {
        return Target::open(&asked.file).map_err(|error| error.to_string());
    };
    let id: FileId = text.parse().map_err(|error| format!("file_id: {error}"))?;
    let target = Target::open_for_writing(&asked.file, WritePermission::OwnFile { id: &id });
    target.map_err(|error| error.to_string())
}

/// The path in words, and its engine.
fn engine(asked: &Asked, target: &Target, pool: &Pool) -> Result<(String, Box<dyn DynEngine>), String> {
    match &asked.way {
        Way::Path(text) => {
            let whole = if text.contains('/') { text.clone() } else { format!("{text}/syscall/interrupt") };
            let path: IoPath = whole.parse().map_err(|error| format!("io_path: {error}"))?;
            // What is handed over beyond that waits for its turn.
            let depth = if path.is_synchronous() { 1 } else { asked.depth };
            let engine = iopj_engine::open(path, target, pool, depth);
            Ok((path.to_string(), engine.map_err(|error| error.to_string())?))
        }
        Way::Policy(name) => {
            let builder = match name.contains(['/', '.']) {
                false => {
                    let aim: Aim = name.parse().map_err(|error| format!("policy: {error}"))?;
                    Auto::builder().aim(aim)
                }
                true => Auto::builder().policy(policy(name)?),
            };
            let engine =
                builder.iodepth(asked.depth).open(target, pool).map_err(|error| error.to_string())?;
            Ok((format!("auto:{name}"), Box::new(engine)))
        }
    }
}

fn policy(name: &str) -> Result<Policy, String> {
    let text = std::fs::read_to_string(name)
        .map_err(|error| format!("policy: {name} cannot be read ({error}): name another file"))?;
    text.parse().map_err(|error| format!("policy: {name}: {error}"))
}
