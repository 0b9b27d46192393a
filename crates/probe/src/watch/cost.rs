//! What counting costs a program, measured on this machine in some tens of milliseconds.

use super::counters::{Held, ProgramCounters};
use crate::completions::CompletionsError;
use crate::completions::tracefs::Tracefs;
use crate::cpu::online;
use crate::perf::{Counter, EventsError, Whose};
use crate::root::Root;
use iopj_core::watch::WatchCost;
use rustix::thread::CpuSet;
use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

/// System calls timed at once, and context switches.
const CALLS: u32 = 4_000;
const SWITCHES: u32 = 400;
/// Rounds of which the fastest counts: another program's time is no cost.
const ROUNDS: usize = 5;
/// How long a core works before anything is timed.
const WARM: Duration = Duration::from_millis(20);
/// System calls sampled at once, which a ring has room for.
const SAMPLES: u32 = 1_000;

/// Measures what a hit, a context switch and a sample cost.
///
/// # Errors
/// Events cannot be counted.
pub(super) fn measure(root: &Root) -> Result<(WatchCost, Held), CompletionsError> {
    std::thread::scope(|scope| match scope.spawn(|| measure_here(root)).join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

/// On a thread of its own, which stays on one core, as does the one that it starts: a switch between two
/// cores takes far longer, and how long is a matter of luck.
fn measure_here(root: &Root) -> Result<(WatchCost, Held), CompletionsError> {
    let mut here = CpuSet::new();
    here.set(rustix::thread::sched_getcpu());
    // Where it is refused the figures are rougher.
    let _ = rustix::thread::sched_setaffinity(None, &here);
    let io = |source| CompletionsError::Events(EventsError::of(source, root, 0));
    let tid = rustix::thread::gettid().as_raw_pid();
    // A core that was idle is slow at first.
    let warm = Instant::now() + WARM;
    while Instant::now() < warm {
        calls(CALLS / 10);
    }
    let bare_ns = fastest(|| calls(CALLS));
    let bare_switch_ns = switches().map_err(io)?;
    let mut counters = ProgramCounters::open(root, &[Whose::Thread(tid)])?;
    let switch_ns = switches().map_err(io)? - bare_switch_ns;
    let counted_ns = fastest(|| calls(CALLS));
    counters.suspend();
    let resting_switch_ns = switches().map_err(io)? - bare_switch_ns;
    let resting_ns = fastest(|| calls(CALLS));
    let (_, held) = counters.close();
    // Only the tracepoint of any call hits here.
    let per_call = |ns: f64| ((ns - bare_ns) / f64::from(CALLS)).max(0.0);
    let cost = WatchCost {
        event_ns: per_call(counted_ns),
        resting_event_ns: per_call(resting_ns),
        switch_ns: switch_ns.max(0.0),
        resting_switch_ns: resting_switch_ns.max(0.0),
        sample_ns: sample_ns(root, bare_ns / f64::from(CALLS))?,
        ..WatchCost::default()
    };
    Ok((cost, held))
}

/// Time of so many short system calls, in ns.
fn calls(count: u32) -> f64 {
    let began = Instant::now();
    for _ in 0..count {
        let _ = std::hint::black_box(rustix::process::getppid());
    }
    began.elapsed().as_nanos() as f64
}

/// The time of a context switch there and back to another thread over two pipes, in ns.
fn switches() -> io::Result<f64> {
    let (mut here_in, mut there_out) = io::pipe()?;
    let (mut there_in, mut here_out) = io::pipe()?;
    let echo = std::thread::spawn(move || {
        let mut byte = [0];
        while there_in.read(&mut byte).is_ok_and(|count| count == 1) {
            if there_out.write_all(&byte).is_err() {
                return;
            }
        }
    });
    let mut round = || {
        let began = Instant::now();
        for _ in 0..SWITCHES {
            let mut byte = [7];
            if here_out.write_all(&byte).and_then(|()| here_in.read_exact(&mut byte)).is_err() {
                break;
            }
        }
        began.elapsed().as_nanos() as f64 / f64::from(SWITCHES)
    };
    let time = fastest(&mut round);
    drop(here_out);
    let _ = echo.join();
    Ok(time)
}

/// What a sampled event costs: a system call of this thread, on whichever core it runs.
fn sample_ns(root: &Root, bare_ns: f64) -> Result<f64, CompletionsError> {
    let refused = |source| CompletionsError::Events(EventsError::of(source, root, 0));
    let tracefs = Tracefs::find(root).map_err(CompletionsError::Tracefs)?;
    let id = tracefs.id("raw_syscalls/sys_enter").map_err(CompletionsError::Tracefs)?;
    let filter = std::ffi::CString::new(format!("common_pid == {}", rustix::thread::gettid().as_raw_pid()))
        .map_err(|error| refused(error.into()))?;
    let open = |cpu| {
        let counter = Counter::recorded(id, &filter, cpu)?;
        let ring = crate::sampling::ring::Ring::map(&counter)?;
        Ok((counter, ring))
    };
    let mut all = online(root)?.into_iter().map(open).collect::<io::Result<Vec<_>>>().map_err(refused)?;
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        all.iter().for_each(|(counter, _)| drop(counter.enable()));
        best = best.min(calls(SAMPLES) / f64::from(SAMPLES));
        all.iter().for_each(|(counter, _)| drop(counter.disable()));
        for (_, ring) in &mut all {
            ring.take_bytes();
        }
    }
    Ok((best - bare_ns).max(0.0))
}

fn fastest(mut time: impl FnMut() -> f64) -> f64 {
    (0..ROUNDS).map(|_| time()).fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_measured_where_events_can_be_counted() {
        let root = Root::new(std::path::Path::new("/")).unwrap();
        match measure(&root) {
            Ok((cost, _)) => {
                assert!([cost.event_ns, cost.switch_ns, cost.sample_ns].iter().all(|ns| ns.is_finite()));
            }
            Err(error) => {
                let has_perf = std::path::Path::new("/proc/sys/kernel/perf_event_paranoid").exists();
                let has_none = !has_perf || matches!(error, CompletionsError::Tracefs(_));
                assert!(has_none || !rustix::process::geteuid().is_root(), "{error}");
                let needs = "root, and a kernel with tracepoints (tracefs, perf events)";
                assert!(std::env::var("CI").as_deref() != Ok("true"), "needs {needs}: {error}");
                eprintln!("skipped: needs {needs}");
            }
        }
    }
}
