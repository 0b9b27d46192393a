//! The open handles of one thread: what each is to, and how it is found, closed, and left behind.

use crate::buffers::Buffers;
use crate::driven::Driven;
use crate::error::{IOPJ_ERROR_HANDLE, Outcome, failure};
use crate::handle::{self, Kind};
use iopj_engine::Target;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

/// What a handle is to.
pub(crate) enum Object {
    Target(Target),
    Pool(Rc<Buffers>),
    Engine(Box<Driven>),
}

impl Object {
    fn kind(&self) -> Kind {
        match self {
            Object::Target(_) => Kind::Target,
            Object::Pool(_) => Kind::Pool,
            Object::Engine(_) => Kind::Engine,
        }
    }
}

struct Entry {
    handle: u64,
    object: Object,
}

/// The entries of a thread, each at its handle's index.
struct Table(Vec<Option<Entry>>);

thread_local! {
    static TABLE: RefCell<Table> = const { RefCell::new(Table(Vec::new())) };
}

impl Table {
    fn find(&mut self, handle: u64, kind: Kind) -> Outcome<&mut Object> {
        match self.0.get_mut(handle::index(handle)) {
            Some(Some(entry)) if entry.handle == handle && entry.object.kind() == kind => {
                Ok(&mut entry.object)
            }
            _ => Err(handle::refuse(handle, kind)),
        }
    }

    /// The first place that is free.
    fn place(&mut self) -> Outcome<usize> {
        if let Some(place) = self.0.iter().position(Option::is_none) {
            return Ok(place);
        }
        if self.0.len() >= handle::MOST {
            let text = format!("this thread has {} handles open: close some of them", handle::MOST);
            return Err(failure(IOPJ_ERROR_HANDLE, text));
        }
        self.0.push(None);
        Ok(self.0.len() - 1)
    }
}

impl Drop for Table {
    /// The thread ends: what it left open is closed, engines before what they use.
    fn drop(&mut self) {
        for kind in [Kind::Engine, Kind::Pool, Kind::Target] {
            for place in &mut self.0 {
                if let Some(entry) = place.take_if(|entry| entry.object.kind() == kind) {
                    handle::retire(entry.handle);
                    // A panic out of here would end the process.
                    let _ = catch_unwind(AssertUnwindSafe(move || drop(entry)));
                }
            }
        }
    }
}

/// Does something with this thread's table.
fn with<T>(work: impl FnOnce(&mut Table) -> Outcome<T>) -> Outcome<T> {
    let ending = || failure(IOPJ_ERROR_HANDLE, "the thread is ending: use iopj before its destructors run");
    TABLE.try_with(|table| work(&mut table.borrow_mut())).map_err(|_| ending())?
}

/// Opens a handle to what `make` makes of it.
pub(crate) fn insert(kind: Kind, make: impl FnOnce(u64) -> Object) -> Outcome<u64> {
    with(|table| {
        let place = table.place()?;
        let handle = handle::issue(kind, place)?;
        table.0[place] = Some(Entry { handle, object: make(handle) });
        Ok(handle)
    })
}

/// Takes what a handle is to out of the table: the handle is closed.
pub(crate) fn remove(handle: u64, kind: Kind) -> Outcome<Object> {
    with(|table| {
        table.find(handle, kind)?;
        let entry = table.0.get_mut(handle::index(handle)).and_then(Option::take);
        handle::retire(handle);
        entry.map(|entry| entry.object).ok_or_else(|| handle::refuse(handle, kind))
    })
}

/// Does something with a target.
pub(crate) fn target<T>(handle: u64, work: impl FnOnce(&Target) -> Outcome<T>) -> Outcome<T> {
    with(|table| match table.find(handle, Kind::Target)? {
        Object::Target(target) => work(target),
        _ => Err(handle::refuse(handle, Kind::Target)),
    })
}

/// The buffers of a pool.
pub(crate) fn pool(handle: u64) -> Outcome<Rc<Buffers>> {
    with(|table| match table.find(handle, Kind::Pool)? {
        Object::Pool(buffers) => Ok(Rc::clone(buffers)),
        _ => Err(handle::refuse(handle, Kind::Pool)),
    })
}

/// Does something with an engine.
pub(crate) fn engine<T>(handle: u64, work: impl FnOnce(&mut Driven) -> Outcome<T>) -> Outcome<T> {
    with(|table| match table.find(handle, Kind::Engine)? {
        Object::Engine(driven) => work(driven),
        _ => Err(handle::refuse(handle, Kind::Engine)),
    })
}
