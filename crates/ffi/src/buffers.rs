//! A pool with what C knows of its buffers: each is with the caller, in flight, or neither.

use crate::error::{Failure, IOPJ_ERROR_BUFFER, IOPJ_ERROR_NO_BUFFER, Outcome, failure};
use iopj_engine::{Buffer, Pool};
use std::cell::RefCell;
use std::sync::Weak;

/// A pool, and where its buffers are.
pub(crate) struct Buffers {
    pool: Pool,
    places: RefCell<Vec<Place>>,
    /// Upgrades as long as anything uses memory of the caller's; without an owner, the memory is ours.
    adopted: Option<Weak<()>>,
}

/// Where a buffer is, as far as C may know. Without either it is in the pool, or for ever in flight with an
/// engine that was closed.
#[derive(Default)]
struct Place {
    /// The caller has it.
    held: Option<Buffer>,
    /// It is in flight with this engine, or in a completion that was not fetched.
    in_flight_with: Option<u64>,
}

impl Buffers {
    /// Of a pool; memory of the caller's is in use as long as `adopted` can be upgraded.
    pub(crate) fn new(pool: Pool, adopted: Option<Weak<()>>) -> Buffers {
        let places = (0..pool.count()).map(|_| Place::default()).collect();
        Buffers { pool, places: RefCell::new(places), adopted }
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// What tells whether memory of the caller's is still in use.
    pub(crate) fn adopted(&self) -> Option<Weak<()>> {
        self.adopted.clone()
    }

    /// Gives a buffer to the caller: its index.
    pub(crate) fn acquire(&self) -> Outcome<u32> {
        let Some(buffer) = self.pool.acquire() else {
            let text = format!(
                "all {} buffers of the pool are with you or in flight: release one, or fetch completions",
                self.pool.count()
            );
            return Err(failure(IOPJ_ERROR_NO_BUFFER, text));
        };
        let index = buffer.index();
        self.put(buffer);
        Ok(index)
    }

    /// The caller has this buffer from now on.
    pub(crate) fn put(&self, buffer: Buffer) {
        let index = buffer.index() as usize;
        if let Some(place) = self.places.borrow_mut().get_mut(index) {
            *place = Place { held: Some(buffer), in_flight_with: None };
        }
    }

    /// Where the bytes of a buffer are that the caller has.
    pub(crate) fn address(&self, index: u32) -> Outcome<*mut u8> {
        match self.places.borrow_mut().get_mut(index as usize) {
            Some(Place { held: Some(buffer), .. }) => Ok(buffer.as_mut_ptr()),
            other => Err(self.not_held(index, other.as_deref())),
        }
    }

    /// Takes a buffer from the caller, back to the pool.
    pub(crate) fn release(&self, index: u32) -> Outcome<()> {
        self.take(index, None).map(drop)
    }

    /// Takes a buffer from the caller for a request to this engine.
    pub(crate) fn take_off(&self, index: u32, engine: u64) -> Outcome<Buffer> {
        self.take(index, Some(engine))
    }

    fn take(&self, index: u32, in_flight_with: Option<u64>) -> Outcome<Buffer> {
        let mut places = self.places.borrow_mut();
        let Some(place) = places.get_mut(index as usize) else { return Err(self.not_held(index, None)) };
        let Some(buffer) = place.held.take() else { return Err(self.not_held(index, Some(place))) };
        place.in_flight_with = in_flight_with;
        Ok(buffer)
    }

    /// Forgets what was in flight with an engine that is closed.
    pub(crate) fn forget(&self, engine: u64) {
        for place in self.places.borrow_mut().iter_mut() {
            place.in_flight_with = place.in_flight_with.filter(|with| *with != engine);
        }
    }

    #[cold]
    fn not_held(&self, index: u32, place: Option<&Place>) -> Failure {
        let text = match place {
            Some(Place { in_flight_with: Some(_), .. }) => {
                format!("buffer {index} is in flight: it is yours again with its completion")
            }
            Some(_) => format!("buffer {index} is not with you: acquire one, and use its index"),
            None => {
                let count = self.pool.count();
                format!("there is no buffer {index}: the pool has {count} of them, from 0 on")
            }
        };
        failure(IOPJ_ERROR_BUFFER, text)
    }
}
