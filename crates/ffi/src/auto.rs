//! Engines that choose their way, for C: opened with a policy, and asked what they decided.

use crate::driven::{Driven, Inner, Meter};
use crate::error::{IOPJ_ERROR_ARGUMENT, IOPJ_ERROR_ENGINE, Outcome, failure, guard};
use crate::handle::Kind;
use crate::pointers::{c_text, require, text};
use crate::table::{self, Object};
use iopj_auto::{Aim, Auto, AutoBuilder, Metered, Policy};
use std::ffi::{c_char, c_void};

/// Opens an engine that chooses among the paths that a target has, for up to `iodepth` requests in flight
/// over the buffers of a pool. It is used and closed as any other engine. `policy` is `NULL` for the least
/// latency; `latency`, `cpu`, or another aim; or the name of a policy file, which has a `/` or a `.` in it.
/// Returns its handle, or 0.
///
/// # Safety
/// `policy` is `NULL`, or a text that ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iopj_auto_open(policy: *const c_char, target: u64, pool: u64, iodepth: u32) -> u64 {
    guard(|| {
        // SAFETY: this function's condition.
        open(unsafe { builder(policy) }?, target, pool, iodepth, Box::new(|| None))
    })
}

/// As `iopj_auto_open`, with a meter, which corrects what a policy says of joules. `meter` returns the joules
/// that the whole machine has drawn, since whenever, or a negative number while it cannot be read. It is
/// asked ten times a second at the most, within calls that wait or ask for completions, and must not call
/// iopj. It is not asked any more once the engine is closed.
///
/// # Safety
/// `policy` is `NULL`, or a text that ends with a zero byte. `meter` is `NULL` (which is an error), or may be
/// called with `context` by this thread until then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iopj_auto_open_metered(
    policy: *const c_char,
    target: u64,
    pool: u64,
    iodepth: u32,
    meter: Option<unsafe extern "C" fn(context: *mut c_void) -> f64>,
    context: *mut c_void,
) -> u64 {
    guard(|| {
        let Some(meter) = meter else {
            let text = "`meter` is NULL: pass a function, or use iopj_auto_open";
            return Err(failure(IOPJ_ERROR_ARGUMENT, text));
        };
        // SAFETY: this function's condition.
        let joules = move || Some(unsafe { meter(context) }).filter(|joules| *joules >= 0.0);
        // SAFETY: this function's condition.
        open(unsafe { builder(policy) }?, target, pool, iodepth, Box::new(joules))
    })
}

fn open(builder: AutoBuilder, target: u64, pool: u64, iodepth: u32, meter: Meter) -> Outcome<u64> {
    let buffers = table::pool(pool)?;
    let (engine, data) = table::target(target, |target| {
        let builder = builder.iodepth(iodepth);
        let engine = builder.open_with_clock(target, buffers.pool(), Metered(meter));
        let engine = engine.map_err(|error| failure(IOPJ_ERROR_ENGINE, error))?;
        let start = target.data_offset();
        Ok((engine, start..start.saturating_add(target.data_len())))
    })?;
    table::insert(Kind::Engine, |handle| {
        Object::Engine(Box::new(Driven::new(Inner::Auto(Box::new(engine)), handle, buffers, data)))
    })
}

/// The builder of what a policy's name says.
///
/// # Safety
/// `policy` is `NULL`, or a text that ends with a zero byte.
unsafe fn builder(policy: *const c_char) -> Outcome<AutoBuilder> {
    if policy.is_null() {
        return Ok(Auto::builder());
    }
    // SAFETY: it is not null, and the rest is this function's condition.
    let name = unsafe { text(policy, "policy") }?;
    if !name.contains(['/', '.']) {
        let aim: Aim = name.parse().map_err(|error| failure(IOPJ_ERROR_ARGUMENT, error))?;
        return Ok(Auto::builder().aim(aim));
    }
    let text = std::fs::read_to_string(name).map_err(|error| {
        failure(IOPJ_ERROR_ARGUMENT, format!("the policy {name} cannot be read: {error}"))
    })?;
    let policy: Policy =
        text.parse().map_err(|error| failure(IOPJ_ERROR_ARGUMENT, format!("{name}: {error}")))?;
    Ok(Auto::builder().policy(policy))
}

/// Writes the oldest decision of such an engine that was not asked for yet, as a line of text that ends with
/// a zero byte; what does not fit into `capacity` bytes is cut off. Returns the length of the whole line, 0
/// if there is none, or a negative code.
///
/// # Safety
/// `line` is `NULL` (which is an error), or `capacity` bytes that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iopj_auto_decision(engine: u64, line: *mut c_char, capacity: usize) -> i32 {
    guard(|| {
        require(line, "line")?;
        if capacity == 0 {
            return Err(failure(IOPJ_ERROR_ARGUMENT, "`capacity` is 0: pass the number of bytes at `line`"));
        }
        let Some(decision) = table::engine(engine, Driven::decision)? else { return Ok(0) };
        let text = c_text(&decision);
        let bytes = text.as_bytes();
        let count = bytes.len().min(capacity - 1);
        // SAFETY: `count` bytes and the zero after them are within `capacity`; the rest is this function's
        // condition.
        unsafe {
            line.copy_from_nonoverlapping(bytes.as_ptr().cast(), count);
            line.add(count).write(0);
        }
        Ok(i32::try_from(bytes.len()).unwrap_or(i32::MAX))
    })
}
