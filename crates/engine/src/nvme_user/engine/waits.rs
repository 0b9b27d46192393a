//! The waits of the engine: submits, hands out what is ready, and waits for the rest.

use super::NvmeUser;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::request::Completion;
use std::time::Instant;

impl NvmeUser {
    /// The part of [`Engine::wait`] that neither waits nor ends the engine, always in its caller's code: an
    /// engine that owns this one has a wait of its own around it, and would pay for two calls. Submits what
    /// is queued and hands out what is ready; or counts an empty poll, if that is all that `min` asks for.
    ///
    /// # Errors
    /// So many were handed out, and [`Engine::wait`] must go on with the rest.
    #[doc(hidden)]
    #[inline(always)]
    pub fn wait_inline<S: FnMut(Completion)>(&mut self, min: usize, mut sink: S) -> Result<usize, usize> {
        if self.finished.is_some() || !self.held.pair.submission.ring_if_plain() {
            return Err(0);
        }
        if self.held.pair.completion.is_ready() {
            let found = self.take_ready(&mut sink);
            return if found < min { Err(found) } else { Ok(found) };
        }
        if min > 0 {
            return Err(0);
        }
        self.count_empty_poll();
        Ok(0)
    }

    /// [`Engine::wait`] if the doorbell is not a plain register, or the engine is finished.
    #[inline(never)]
    pub(super) fn wait_otherwise<S: FnMut(Completion)>(
        &mut self,
        min: usize,
        until: Option<Instant>,
        sink: &mut S,
    ) -> Result<usize, EngineError> {
        if let Some(finish) = self.finished {
            return self.give_up(finish, sink);
        }
        self.held.pair.submission.ring();
        self.wait_submitted(min, until, sink)
    }

    /// Takes what is ready, and waits for the rest of `min`.
    #[inline(never)]
    fn take_and_await<S: FnMut(Completion)>(
        &mut self,
        min: usize,
        until: Option<Instant>,
        sink: &mut S,
    ) -> Result<usize, EngineError> {
        let found = self.take_ready(sink);
        if found < min { self.await_more(found, min, until, sink) } else { Ok(found) }
    }

    /// [`Engine::wait`] for what was submitted. The branches end in calls: each saves only the registers that
    /// it uses.
    #[inline(always)]
    pub(super) fn wait_submitted<S: FnMut(Completion)>(
        &mut self,
        min: usize,
        until: Option<Instant>,
        sink: &mut S,
    ) -> Result<usize, EngineError> {
        if self.held.pair.completion.is_ready() {
            self.take_and_await(min, until, sink)
        } else if min > 0 {
            self.await_more(0, min, until, sink)
        } else {
            self.count_empty_poll();
            Ok(0)
        }
    }

    #[inline]
    pub(super) fn count_empty_poll(&mut self) {
        if self.waiting.is_look_due() {
            self.look_if_quiet();
        }
    }

    /// Called after many polls that found nothing.
    #[cold]
    pub(super) fn look_if_quiet(&mut self) {
        if self.waiting.is_quiet() {
            self.quiet();
        }
    }

    /// Waits for `min` completions, of which `found` were handed out, or for the engine's end; returns how
    /// many were handed out in all.
    #[inline(never)]
    fn await_more<S: FnMut(Completion)>(
        &mut self,
        mut found: usize,
        min: usize,
        until: Option<Instant>,
        sink: &mut S,
    ) -> Result<usize, EngineError> {
        let min = min.min(found + self.in_flight());
        if found >= min {
            return Ok(found);
        }
        self.waiting.begin();
        let first = found;
        while found < min {
            if self.waiting.until_ready(&self.held.pair.completion, until) {
                found += self.take_late(sink);
            } else {
                self.quiet();
                if let Some(finish) = self.finished {
                    return if found > first { Ok(found) } else { self.give_up(finish, sink) };
                }
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                break;
            }
        }
        self.waiting.end();
        Ok(found)
    }
}
