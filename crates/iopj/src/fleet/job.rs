//! `iopj fleet job`, on a host: the drive is found, the rules are checked, the study is run, and what becomes
//! of it is recorded.

use super::{guard, refusals};
use crate::args::JobArgs;
use crate::output::{FAILURES, INTERRUPTED, USAGE, print};
use crate::progress::{Followed, view};
use crate::run::look as decide;
use crate::signals;
use anyhow::{Context, anyhow};
use iopj_fleet::job::{Drive, Job, Look, Phase, Process, State, TOO_LATE, boot_id, drive_key};
use iopj_fleet::lease::{self, Holder, Lease, Taken};
use iopj_fleet::owner::Owner;
use iopj_fleet::{Campaign, FleetError, JobFolder, slurm};
use iopj_host::settings::Host;
use iopj_load::descriptors;
use iopj_metering::Progress;
use iopj_record::Outcome;
use iopj_run::{Options, RunError, read_study};
use iopj_store::Store;
use rustix::process::Signal;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const INTERVAL: Duration = Duration::from_millis(100);
/// How long `--await` waits at most.
const AWAIT: Duration = Duration::from_secs(5);
/// How long a job may take to write its first state, or to end once it is asked to.
const LIMIT: Duration = Duration::from_secs(60);
/// How long the process that watches a job may take to say how it ended.
const MOMENT: Duration = Duration::from_secs(2);
/// How often a task's end is asked for of Slurm.
const ASKING: Duration = Duration::from_secs(10);
/// The exit code of a run that an error ended.
const BROKEN_OFF: u8 = 3;
/// What a pod's environment names its node by.
const POD_NODE: &str = "IOPJ_POD_NODE";
/// Why a job ended that was told to.
const ENDED: &str = "ended by a signal";

pub(super) fn job(args: &JobArgs) -> anyhow::Result<ExitCode> {
    if let Some(campaign) = &args.campaign {
        return task(campaign, args);
    }
    let folder = args.folder.as_deref().unwrap_or(Path::new("."));
    let folder = JobFolder::new(folder).of(owner(folder, args.owner.as_ref())?);
    if let Some(description) = &args.description {
        folder.tell(&JobFolder::description(description)?)?;
    }
    let job = folder.job()?;
    if args.watch {
        return watch(&folder, args.cancels);
    }
    if args.start {
        start(&folder, args.cancels)?;
    } else if args.wait_for_end {
        wait(&folder, AWAIT)?;
    } else if args.stop {
        stop(&folder, args.cancels)?;
    } else if !args.look {
        let node = args.node.clone().or_else(|| std::env::var(POD_NODE).ok());
        let node = node.as_deref().unwrap_or("this host");
        return perform(&folder, &job, &Holder::here(node, args.task.as_deref()), args.cancels);
    }
    print(&format!("{}\n", serde_json::to_string(&look(&folder, &job)?)?))?;
    Ok(ExitCode::SUCCESS)
}

/// In whose name root acts in a job's folder, which is a user's where `sudo` started it: by its word, or by
/// the job's. A pod's folder is its node's, and what it would write elsewhere goes with it.
fn owner(folder: &Path, told: Option<&Owner>) -> Result<Option<Owner>, FleetError> {
    let is_known = told.is_some() || std::env::var_os(POD_NODE).is_some();
    if is_known && !Owner::is_by_sudo() { Ok(told.cloned()) } else { Owner::of(folder) }
}

/// `iopj fleet store`, on a host: sends the store of a job, from where it is written while it is.
pub(super) fn send(store: &Path) -> anyhow::Result<ExitCode> {
    let folder = store.parent().unwrap_or(Path::new("."));
    let folder = JobFolder::new(folder).of(owner(folder, None)?);
    let is_elsewhere = || -> Result<Option<PathBuf>, FleetError> {
        if folder.owner().is_none() || folder.written()?.is_none_or(|state| state.phase.is_complete()) {
            return Ok(None);
        }
        Ok(Some(folder.store_of(&folder.job()?)?).filter(|written| written.exists()))
    };
    let out = &mut io::stdout().lock();
    if let Some(written) = is_elsewhere()? {
        iopj_fleet::transfer::send(&written, out)?;
    } else {
        let _inside = Owner::enter_if(folder.owner())?;
        iopj_fleet::transfer::send(store, out)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What is known of a job and of its host.
fn look(folder: &JobFolder, job: &Job) -> anyhow::Result<Look> {
    let store = folder.store_of(job)?;
    let drives = refusals::drives(job, &store);
    let state = last_word(folder)?.map(|state| state.counted(&store));
    Ok(Look {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        boot: boot_id(),
        refusal: refusals::refusal(job, &drives)?.or_else(|| refusals::elsewhere(folder, job, &store)),
        drives,
        state,
    })
}

/// The state of a job; of one that is gone, what the process that watched it says a moment later.
fn last_word(folder: &JobFolder) -> anyhow::Result<Option<State>> {
    let until = Instant::now() + MOMENT;
    loop {
        let (state, written) = (folder.state()?, folder.written()?);
        let has_word = state.as_ref().map(|state| state.phase) == written.map(|state| state.phase);
        if has_word || Instant::now() > until {
            return Ok(state);
        }
        thread::sleep(INTERVAL);
    }
}

/// Whether the job was cancelled after the cancels that its start knows of; those of Slurm and Kubernetes are
/// told of none.
fn is_cancelled(folder: &JobFolder, cancels: Option<u64>) -> Result<bool, FleetError> {
    cancels.map_or(Ok(false), |known| folder.is_cancelled_after(known))
}

/// What the processes of a job are told of cancels.
fn told(cancels: Option<u64>) -> impl Iterator<Item = String> {
    cancels.into_iter().flat_map(|known| ["--cancels".to_owned(), known.to_string()])
}

/// Starts the job with a process that outlives this session and watches it, unless it runs, is complete, or
/// has an end and was cancelled.
fn start(folder: &JobFolder, cancels: Option<u64>) -> anyhow::Result<()> {
    let (before, is_cancelled) = (folder.state()?, is_cancelled(folder, cancels)?);
    let is_done = |state: &State| !state.phase.is_over() || state.phase.is_complete() || is_cancelled;
    if before.as_ref().is_some_and(is_done) {
        return Ok(());
    }
    let (out, err) = (folder.open_log()?, folder.open_log()?);
    let mut watch = Command::new(std::env::current_exe()?);
    watch.args(["fleet", "job", "--watch"]).arg(folder.path()).args(told(cancels)).args(folder.in_name());
    watch.stdin(Stdio::null()).stdout(out).stderr(err);
    // SAFETY: between fork and exec only setsid is called, which is async-signal-safe.
    unsafe {
        watch.pre_exec(|| {
            rustix::process::setsid()?;
            Ok(())
        });
    }
    let mut child = watch.spawn().context("the job cannot be started")?;
    let until = Instant::now() + LIMIT;
    while folder.state()? == before && child.try_wait()?.is_none() {
        if Instant::now() > until {
            anyhow::bail!("the job has not begun yet; its log is `{}`", folder.log().display());
        }
        thread::sleep(INTERVAL);
    }
    Ok(())
}

/// Runs the job in a process of its own, and records it where that is killed.
fn watch(folder: &JobFolder, cancels: Option<u64>) -> anyhow::Result<ExitCode> {
    let mut own = Command::new(std::env::current_exe()?);
    own.args(["fleet", "job"]).arg(folder.path()).args(told(cancels)).args(folder.in_name());
    let status = own.spawn()?.wait()?;
    let Some(signal) = status.signal() else { return Ok(ExitCode::SUCCESS) };
    super::put_back::put_back();
    if let Some(state) = folder.state()?.filter(|state| state.phase == Phase::Killed) {
        let store = folder.store_of(&folder.job()?)?;
        let state = state.counted(&store);
        folder.bring_store(&store)?;
        folder.write(&state.became(Phase::Killed, Some(format!("killed by signal {signal}"))))?;
    }
    Ok(ExitCode::from(FAILURES))
}

fn wait(folder: &JobFolder, limit: Duration) -> anyhow::Result<bool> {
    let until = Instant::now() + limit;
    loop {
        if folder.state()?.is_none_or(|state| state.phase.is_over()) {
            return Ok(true);
        }
        if Instant::now() > until {
            return Ok(false);
        }
        thread::sleep(INTERVAL);
    }
}

/// Ends the job: by SIGTERM, after which it puts everything back. One that stays after its run for its store
/// to be fetched ends, too, and one whose start is on its way does not begin.
fn stop(folder: &JobFolder, cancels: Option<u64>) -> anyhow::Result<()> {
    let kept = cancels.map_or(Ok(()), |number| folder.cancel(number));
    // Where that cannot be kept, what runs ends all the same.
    end(folder)?;
    Ok(kept?)
}

fn end(folder: &JobFolder) -> anyhow::Result<()> {
    let Some(state) = folder.state()? else { return Ok(()) };
    if let Some(process) = state.process.as_ref().filter(|process| process.is_alive())
        && is_job(folder, process)?
    {
        send_signal(process, Signal::TERM)?;
        if !wait(folder, LIMIT)? {
            send_signal(process, Signal::KILL)?;
            wait(folder, LIMIT)?;
        }
    }
    // As root, also what a killed job left; without root nothing was changed.
    if rustix::process::geteuid().is_root() {
        Host::new().restore_left_behind()?;
    }
    Ok(())
}

/// True if a process is a job, which may be ended; false if it ends by itself: then it has no command line
/// any more.
fn is_job(folder: &JobFolder, process: &Process) -> anyhow::Result<bool> {
    let until = Instant::now() + MOMENT;
    while !process.is_job() {
        if !process.is_alive() {
            return Ok(false);
        }
        if Instant::now() > until {
            let (pid, folder) = (process.pid, folder.path().display());
            anyhow::bail!(
                "the state in `{folder}` names process {pid}, which is no job: end the job yourself"
            );
        }
        thread::sleep(INTERVAL);
    }
    Ok(true)
}

/// Sends a signal to a process, which may have ended meanwhile.
fn send_signal(process: &Process, signal: Signal) -> anyhow::Result<()> {
    let pid = i32::try_from(process.pid).ok().and_then(rustix::process::Pid::from_raw);
    let pid = pid.ok_or_else(|| anyhow!("{} is no process", process.pid))?;
    match rustix::process::kill_process(pid, signal) {
        Err(rustix::io::Errno::SRCH) => Ok(()),
        sent => sent.with_context(|| {
            format!("process {} cannot be ended: cancel as the user who submitted", process.pid)
        }),
    }
}

/// A task of Slurm, in a campaign's folder that all nodes share. As root it acts there as the user whose
/// folder it is.
fn task(folder: &Path, args: &JobArgs) -> anyhow::Result<ExitCode> {
    let place = || {
        format!(
            "`{}` is no campaign on this node: name by --dir a folder that all nodes share",
            folder.display()
        )
    };
    let owner = Owner::of_task(folder)?;
    let inside = Owner::enter_if(owner.as_ref())?;
    let campaign = Campaign::open_of_task(folder, owner.as_ref()).with_context(place)?;
    let (Some(node), Some(task)) = (args.node.as_deref().filter(|node| !node.is_empty()), &args.task) else {
        anyhow::bail!("this node has no name in Slurm: Slurm starts this command by job.sh, nobody else");
    };
    let own = campaign.job_folder(node).of(owner);
    own.refuse_links()?;
    if own.written()?.is_some_and(|state| state.phase.is_complete()) {
        crate::output::note(&format!("{node} is complete already: nothing to do"));
        return Ok(ExitCode::SUCCESS);
    }
    own.tell(&campaign.plan().job)?;
    slurm::leave_to_others(&campaign, task.split('_').next().unwrap_or_default(), node);
    drop(inside);
    guard::guarded(&own, &campaign.plan().job, node, task)
}

/// Does the job, from its first state to its last.
fn perform(folder: &JobFolder, job: &Job, holder: &Holder, cancels: Option<u64>) -> anyhow::Result<ExitCode> {
    let stop = if holder.task.is_some() { signals::scheduled_stop_flag() } else { signals::stop_flag() };
    // Two starts at the same moment would write over each other's state.
    let Some(lock) = folder.lock()? else {
        anyhow::bail!("the job in `{}` runs already: `iopj fleet status` shows it", folder.path().display());
    };
    if let Some(before) = folder.written()?.filter(|state| state.phase.is_complete()) {
        drop(lock);
        hold(job, stop);
        return Ok(exit_code(before.phase));
    }
    let store = match folder.store_of(job) {
        Ok(store) => store,
        Err(error) => {
            let before = folder.written()?.unwrap_or_else(|| State::now(Phase::Refused, None));
            let refused = before.became(Phase::Refused, Some(error.to_string()));
            folder.write(&State { process: None, task: holder.task.clone(), ..refused })?;
            return Err(error.into());
        }
    };
    let lent = folder.lend_store(&store);
    let first = State {
        process: Process::of(std::process::id()),
        boot: Some(boot_id()),
        drives: refusals::drives(job, &store),
        task: holder.task.clone(),
        ..State::now(Phase::Running, None)
    };
    let first = State { began_ms: Some(first.since_ms), ..first }.counted(&store);
    folder.write(&first)?;
    // Whoever cancels later finds the state, and ends the process that it names.
    let is_late = lent.and_then(|()| is_cancelled(folder, cancels)).map_err(anyhow::Error::from);
    let measured = is_late.and_then(|is| match is {
        true => Ok((Phase::Cancelled, Some(TOO_LATE.to_owned()))),
        false => measured(folder, job, &first, holder, &store, stop),
    });
    let (phase, reason) = measured.unwrap_or_else(|error| {
        crate::output::fail(&error);
        (Phase::Refused, Some(format!("{error:#}")))
    });
    // Before it is brought, for it may be gone then.
    let last = first.counted(&store);
    let (phase, reason) = match folder.bring_store(&store) {
        // It is where it was written still, and the next submit brings it.
        Err(error) if phase.is_complete() => broken_off(&error.into()),
        _ => (phase, reason),
    };
    folder.write(&last.became(phase, reason))?;
    drop(lock);
    hold(job, stop);
    Ok(exit_code(phase))
}

/// What a scheduler learns of a job's end.
fn exit_code(phase: Phase) -> ExitCode {
    match phase {
        Phase::Ok => ExitCode::SUCCESS,
        Phase::Failures => ExitCode::from(FAILURES),
        Phase::Cancelled => ExitCode::from(INTERRUPTED),
        Phase::Killed => ExitCode::from(BROKEN_OFF),
        _ => ExitCode::from(USAGE),
    }
}

/// Stays for its store to be fetched, until it is told to end.
fn hold(job: &Job, stop: &AtomicBool) {
    let until = Instant::now() + Duration::from_millis(job.hold_ms.unwrap_or(0));
    while Instant::now() < until && !stop.load(Ordering::Relaxed) {
        thread::sleep(INTERVAL);
    }
}

/// Checks the rules, takes the drives, and runs the study.
fn measured(
    folder: &JobFolder,
    job: &Job,
    state: &State,
    holder: &Holder,
    store: &Path,
    stop: &AtomicBool,
) -> anyhow::Result<(Phase, Option<String>)> {
    let refusal = refusals::refusal(job, &state.drives)?;
    if let Some(reason) = refusal.or_else(|| refusals::elsewhere(folder, job, store)) {
        return Ok((Phase::Refused, Some(reason)));
    }
    let mut view = view();
    let leases = match leases(job, state, (holder, folder.owner()), &mut view, stop)? {
        Ok(leases) => leases,
        Err((phase, reason)) => return Ok((phase, Some(reason))),
    };
    let waited = State::now(Phase::Running, None);
    folder.write(&State { began_ms: Some(waited.since_ms), ..state.clone() })?;
    let summary = run(job, &state.drives, store, &mut view, stop);
    drop(leases);
    match summary {
        Err(RunError::Interrupted) => Ok((Phase::Cancelled, Some(ENDED.to_owned()))),
        // What began was not refused: its trials are in its store.
        Err(error) if view.has_begun() => Ok(broken_off(&error.into())),
        Err(error) => Err(error.into()),
        Ok(summary) if summary.interrupted => Ok((Phase::Cancelled, Some(ENDED.to_owned()))),
        Ok(_) => Ok(complete(store).unwrap_or_else(|error| broken_off(&error))),
    }
}

fn broken_off(error: &anyhow::Error) -> (Phase, Option<String>) {
    crate::output::fail(error);
    (Phase::Killed, Some(format!("an error ended the run: {error:#}")))
}

/// What has become of a study that was measured to its end.
fn complete(store: &Path) -> anyhow::Result<(Phase, Option<String>)> {
    let trials = Store::open(store)?.trials()?;
    let failed = trials.iter().filter(|trial| matches!(trial.outcome, Outcome::Failed(_))).count();
    let reason = format!("{failed} of {} trials failed", trials.len());
    Ok(if failed > 0 { (Phase::Failures, Some(reason)) } else { (Phase::Ok, None) })
}

/// The leases of all drives, waiting for them as long as the job may; or why there are none.
fn leases(
    job: &Job,
    state: &State,
    (holder, owner): (&Holder, Option<&Owner>),
    view: &mut Followed,
    stop: &AtomicBool,
) -> anyhow::Result<Result<Vec<Lease>, (Phase, String)>> {
    let Some(folder) = &job.leases else { return Ok(Ok(Vec::new())) };
    let until = Instant::now() + Duration::from_millis(job.wait_ms.unwrap_or(0));
    // In one order on all hosts: two that wait for each other would wait for ever.
    let mut keys: Vec<String> = state.drives.iter().map(|drive| drive_key(drive, &holder.boot)).collect();
    keys.sort();
    let (mut held, mut told) = (Vec::new(), false);
    for key in keys {
        // The first answer of each drive counts at once.
        let is_over = lease::seldom(ASKING, &slurm::is_over);
        loop {
            let by = match Lease::take(folder, &key, holder, owner, &is_over)? {
                Taken::Held(lease) => break held.push(lease),
                Taken::By(by) => by,
            };
            let who = format!("the drive `{key}` is taken by {} of this campaign", by.host);
            if stop.load(Ordering::Relaxed) {
                return Ok(Err((Phase::Cancelled, ENDED.to_owned())));
            }
            if Instant::now() >= until {
                let reason = format!("{who}: leave one of the two out, or let them take turns by --wait");
                return Ok(Err((Phase::Refused, reason)));
            }
            if !std::mem::replace(&mut told, true) {
                view.note(&format!("{who}: waiting until it ends"));
            }
            thread::sleep(INTERVAL);
        }
    }
    Ok(Ok(held))
}

fn run(
    job: &Job,
    drives: &[Drive],
    store: &Path,
    view: &mut Followed,
    stop: &AtomicBool,
) -> Result<iopj_run::Summary, RunError> {
    descriptors::raise_limit();
    let options = Options {
        target: job.target.clone(),
        destroy_data: job.target.iter().filter(|_| job.destroy_data).cloned().collect(),
        allow: job.allow,
        wait: job.wait_ms.map(Duration::from_millis),
        // They are looked at again once the drive is free: hours may have passed.
        drives: Some(drives.iter().map(|drive| (drive.name.clone(), drive.serial.clone())).collect()),
        ..Options::default()
    };
    if store.exists() {
        return iopj_run::resume(store, &Options { target: None, ..options }, decide, view, stop);
    }
    let study = read_study(&job.study, "the study of the campaign")?;
    iopj_run::run(study, &Options { store: Some(store.to_owned()), ..options }, decide, view, stop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A job that ended while it was cancelled had no command line, and cancelling failed.
    #[test]
    fn a_process_that_ends_at_this_moment_is_no_stranger() {
        let folder = JobFolder::new(Path::new("."));
        let mut ending = Command::new("sleep").arg("0.2").spawn().unwrap();
        let process = Process::of(ending.id()).unwrap();
        assert!(!is_job(&folder, &process).unwrap());
        send_signal(&process, Signal::TERM).unwrap();
        ending.wait().unwrap();
        send_signal(&process, Signal::TERM).unwrap();
    }
}
