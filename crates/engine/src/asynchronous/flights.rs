//! The requests of an asynchronous engine: who waits for which, and which wait for room.

use super::RequestError;
use crate::error::{EngineError, Refused};
use crate::request::{Completion, Request};
use std::collections::VecDeque;
use std::mem::{replace, take};
use std::rc::Rc;
use std::task::{Poll, Waker};

type Outcome = Result<Completion, RequestError>;

/// Every request that was made and whose future has neither its outcome nor been dropped, and every one that
/// the engine has. A request's number is its tag in the engine.
#[derive(Default)]
pub(super) struct Flights {
    flights: Vec<Flight>,
    free: Vec<usize>,
    /// Those that wait for room, in their order.
    waiting: VecDeque<usize>,
    /// Who has an outcome and was not woken.
    woken: Vec<Waker>,
}

struct Flight {
    /// The tag that the caller gave the request.
    tag: u64,
    stage: Stage,
    waker: Option<Waker>,
}

enum Stage {
    Free,
    Waiting(Request),
    InFlight,
    /// In flight, and its future was dropped.
    Abandoned,
    Over(Outcome),
}

impl Flights {
    /// A new request, which waits for room.
    pub(super) fn add(&mut self, request: Request) -> usize {
        let flight = Flight { tag: request.tag, stage: Stage::Waiting(request), waker: None };
        let number = self.free.pop().unwrap_or(self.flights.len());
        match self.flights.get_mut(number) {
            Some(place) => *place = flight,
            None => self.flights.push(flight),
        }
        self.waiting.push_back(number);
        number
    }

    pub(super) fn is_any_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The request that has waited longest, to be pushed.
    pub(super) fn next(&mut self) -> Option<Request> {
        let number = self.waiting.pop_front()?;
        match replace(&mut self.flights[number].stage, Stage::InFlight) {
            Stage::Waiting(request) => Some(request.tagged(number as u64)),
            _ => unreachable!("a request that waits for room is taken from the list when it ends"),
        }
    }

    /// The engine did not take a request that it was given.
    pub(super) fn refuse(&mut self, refused: Refused) {
        let (request, error) = refused.into_parts();
        let number = request.tag as usize;
        let request = request.tagged(self.flights[number].tag);
        self.end(number, Err(RequestError::Refused(Refused::new(request, error))));
    }

    /// The completion of a request.
    pub(super) fn complete(&mut self, mut completion: Completion) {
        let number = completion.tag as usize;
        if let Some(flight) = self.flights.get(number) {
            completion.tag = flight.tag;
            self.end(number, Ok(completion));
        }
    }

    fn end(&mut self, number: usize, outcome: Outcome) {
        let flight = &mut self.flights[number];
        match flight.stage {
            Stage::Waiting(_) | Stage::InFlight => {
                flight.stage = Stage::Over(outcome);
                self.woken.extend(flight.waker.take());
            }
            Stage::Abandoned => drop(self.release(number)),
            Stage::Free | Stage::Over(_) => {}
        }
    }

    /// Every request that has no outcome gets this error.
    pub(super) fn finish(&mut self, error: &Rc<EngineError>) {
        self.waiting.clear();
        for number in 0..self.flights.len() {
            self.end(number, Err(RequestError::Finished(Rc::clone(error))));
        }
    }

    /// The outcome of a request, if it has one; otherwise `waker` is woken when it has.
    pub(super) fn poll(&mut self, number: usize, waker: &Waker) -> Poll<Outcome> {
        let flight = &mut self.flights[number];
        if !matches!(flight.stage, Stage::Over(_)) {
            flight.waker.get_or_insert_with(|| waker.clone()).clone_from(waker);
            return Poll::Pending;
        }
        match self.release(number) {
            Stage::Over(outcome) => Poll::Ready(outcome),
            _ => Poll::Pending,
        }
    }

    /// The future of a request was dropped before it had the outcome. A request that waits for room is
    /// withdrawn.
    pub(super) fn abandon(&mut self, number: usize) {
        let flight = &mut self.flights[number];
        flight.waker = None;
        match flight.stage {
            Stage::InFlight => flight.stage = Stage::Abandoned,
            Stage::Waiting(_) => {
                self.waiting.retain(|other| *other != number);
                drop(self.release(number));
            }
            Stage::Over(_) => drop(self.release(number)),
            Stage::Free | Stage::Abandoned => {}
        }
    }

    fn release(&mut self, number: usize) -> Stage {
        self.free.push(number);
        replace(&mut self.flights[number].stage, Stage::Free)
    }

    /// Those who are to be woken.
    pub(super) fn take_woken(&mut self) -> Vec<Waker> {
        take(&mut self.woken)
    }
}
