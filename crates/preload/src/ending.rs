//! What is in flight when a process ends, or becomes another program.
//!
//! The kernel waits then for all that its own contexts have, but for what a ring has only if nobody else has
//! the ring, as children do. So each thread's is waited for first, as long as its thread answers.

use crate::context::Context;
use crate::control_block;
use crate::events::{LONG, SHORT};
use crate::owner::Owner;
use crate::sys::{self, Quiet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long threads are waited for of which none answers.
const SILENCE: Duration = Duration::from_secs(1);

/// Waits for what other threads have in flight by now.
pub(crate) fn wait_for_others() {
    let _quiet = Quiet::begin();
    let begun = control_block::begun();
    let until = Instant::now() + LONG;
    let mut heard = Instant::now();
    let mut asked: Vec<Arc<Owner>> = Vec::new();
    loop {
        let owners = owners(begun);
        let now = Instant::now();
        if asked.iter().any(|owner| !owner.is_asked()) {
            heard = now;
        }
        if owners.is_empty() || now >= until || now - heard >= SILENCE {
            return;
        }
        // One that cannot be asked has not answered either.
        asked = owners.into_iter().filter(|owner| owner.ask()).collect();
        sys::pause(SHORT.as_nanos() as i64);
    }
}

/// The threads that have something in flight: by libaio, to which nothing is added from now on, or one of the
/// first `begun` of POSIX AIO.
fn owners(begun: u64) -> Vec<Arc<Owner>> {
    let mut owners = Context::owners();
    owners.extend(control_block::owners(begun));
    owners
}
