//! Reasons to doubt that the disks did the trial's I/O, all of it and nothing else.

use crate::quantities::{Direction, counts_itself, has_sqpolls, sqpolls};
use crate::remedy::Remedy;
use iopj_core::evidence::{DeviceEvidence, Evidence, ThreadEvidence};
use iopj_core::uring::RingThread;

/// Share of the issued I/Os or bytes that the disks may have done in excess.
pub const FOREIGN_SHARE: f64 = 0.01;
/// I/Os that the disks may have done beyond [`FOREIGN_SHARE`]: in a short window one commit of a journal is
/// more than that share.
pub const SLACK_IOS: u64 = 16;
/// Bytes that the disks may have done beyond [`FOREIGN_SHARE`].
pub const SLACK_BYTES: u64 = 1 << 20;
/// Share of the window that a submission poller may have run whose ring an engine that chooses its way has
/// closed: it ends in the kernel's own time.
pub const REMNANT_SHARE: f64 = 0.01;

/// The first reason to doubt, if there is one.
pub(crate) fn doubt(evidence: &Evidence) -> Option<String> {
    if evidence.devices.is_empty() {
        let why = "no disk under the target is known, so nothing shows that the I/O reached one";
        return Some(Remedy::KnownDisk.after(why));
    }
    if evidence.ios() == 0 {
        return Some(Remedy::MeasureLonger.after("no I/O was issued in the window"));
    }
    if let Some(disk) = uncounted(evidence) {
        return Some(Remedy::CountIos.after(format_args!("{disk} does not count its I/Os")));
    }
    other_poller(evidence).or_else(|| {
        let directions = Direction::both(evidence);
        if evidence.devices.iter().all(counts_itself) {
            let late = ("it keeps its log late, or I/Os failed".to_owned(), Remedy::CountPassthrough);
            let late = directions.iter().any(Direction::is_missing).then_some(late);
            let (what, remedy) = late.or_else(|| too_many(evidence, &directions))?;
            return Some(remedy.after(format_args!("{}: {what}", counted(evidence, &directions))));
        }
        match too_few(&directions).or_else(|| too_many(evidence, &directions)) {
            Some((what, remedy)) => {
                Some(remedy.after(format_args!("{}: {what}", done(evidence, &directions))))
            }
            None => on_target_host(evidence),
        }
    })
}

/// A reason to doubt that the target host's drive did the I/O that this host issued.
fn on_target_host(evidence: &Evidence) -> Option<String> {
    let target = evidence.fabric.as_ref()?.target.as_ref().filter(|target| !target.devices.is_empty())?;
    let far = Evidence { devices: target.devices.clone(), fabric: None, ..evidence.clone() };
    let directions = Direction::both(&far);
    let cached =
        ("a cache there answered, or the drive is not the one that is exported", Remedy::UncachedTarget);
    let (what, remedy) = match directions.iter().any(Direction::is_missing) {
        true => (cached.0.to_owned(), cached.1),
        false => too_many(&far, &directions)?,
    };
    Some(remedy.after(format_args!("on the target host {}: {what}", done(&far, &directions))))
}

/// A disk whose I/Os nobody counts.
pub(crate) fn uncounted(evidence: &Evidence) -> Option<&str> {
    let is_off = |device: &&DeviceEvidence| {
        !counts_itself(device) && device.settings.get("iostats").is_some_and(|on| on == "0")
    };
    evidence.devices.iter().find(is_off).map(|device| device.name.as_str())
}

/// A submission poller ends some time after its ring is closed; until then it takes CPU time from this trial.
/// An engine that chooses its way closes rings itself and opens them again: what such a poller leaves behind
/// takes none, and one that started before the jobs is never its own.
fn other_poller(evidence: &Evidence) -> Option<String> {
    let engine = evidence.engine.as_ref()?;
    let chooses = engine.routes.is_some();
    let found: Vec<_> =
        sqpolls(evidence).filter(|thread| !chooses || may_have_run(evidence, thread)).collect();
    let may_be_own = match chooses {
        true => found.iter().filter(|thread| !thread.before_jobs).count(),
        false if has_sqpolls(engine) => usize::MAX,
        false => 0,
    };
    let (found, own) = (found.len(), may_be_own.min(evidence.numjobs as usize));
    (found > own).then(|| {
        let figures = format!("{found} were there where the trial has {own}");
        Remedy::OneRing.after(format_args!("a submission poller of another ring ran meanwhile: {figures}"))
    })
}

/// True if a submission poller ran for more than what a closed ring leaves behind, or may have: one that
/// ended in the window is listed without its CPU time.
fn may_have_run(evidence: &Evidence, thread: &ThreadEvidence) -> bool {
    let is_more = |cpu_ns: u64| cpu_ns as f64 > REMNANT_SHARE * evidence.window_ns as f64;
    let is_unknown = thread.ended && thread.before_jobs;
    // A kernel thread is not in the process's totals.
    let is_outside = RingThread::of(&thread.name) == Some(RingThread::KernelPoller);
    is_more(thread.in_window(thread.cpu_ns, evidence.window_ns))
        || is_unknown && (is_outside || is_more(ended_ns(evidence)))
}

/// CPU time of threads that ended in the window: what the process used beyond the threads that are known.
fn ended_ns(evidence: &Evidence) -> u64 {
    let known = evidence.threads.iter().map(|thread| thread.cpu_ns).fold(0, u64::saturating_add);
    evidence.process.user_ns.saturating_add(evidence.process.system_ns).saturating_sub(known)
}

/// What was done and what was issued; reads and writes separately if there were both.
fn done(evidence: &Evidence, [reads, writes]: &[Direction; 2]) -> String {
    let text = |done: &Direction, issued: u64, bytes: u64, what: &str| {
        format!("{} {what} of {} bytes where {issued} of {bytes} bytes were issued", done.ios, done.bytes())
    };
    let reads_text = text(reads, evidence.reads, evidence.read_bytes, "reads");
    let writes_text = text(writes, evidence.writes, evidence.write_bytes, "writes");
    match (reads.issued.max(reads.ios), writes.issued.max(writes.ios)) {
        (_, 0) => format!("the disk did {reads_text}"),
        (0, _) => format!("the disk did {writes_text}"),
        _ => format!("the disk did {reads_text}, and {writes_text}"),
    }
}

/// What the drive itself counted.
fn counted(evidence: &Evidence, [reads, writes]: &[Direction; 2]) -> String {
    let (done, issued) = (reads.ios + writes.ios, evidence.ios());
    format!("the drive's SMART log counts {done} reads and writes where {issued} were issued")
}

fn too_few(directions: &[Direction; 2]) -> Option<(String, Remedy)> {
    if directions.iter().any(Direction::is_missing) {
        let why = "a cache or a hole answered, I/Os failed, or they were passed through uncounted";
        return Some((why.to_owned(), Remedy::WholeTarget));
    }
    let merged = directions.iter().find(|direction| direction.is_short())?;
    Some((format!("I/Os were merged ({} merges)", merged.merges), Remedy::FewerMerges))
}

fn too_many(evidence: &Evidence, directions: &[Direction; 2]) -> Option<(String, Remedy)> {
    let foreign = || ("others used the disk meanwhile".to_owned(), Remedy::QuietDisk);
    let sum = |excess: fn(&Direction) -> u64| directions.iter().map(excess).fold(0, u64::saturating_add);
    let is_beyond =
        |excess: u64, issued: u64, slack: u64| excess as f64 > FOREIGN_SHARE * issued as f64 + slack as f64;
    if is_beyond(sum(Direction::excess_bytes), evidence.bytes(), SLACK_BYTES) {
        return Some(foreign());
    }
    let excess = sum(Direction::excess_ios);
    if !is_beyond(excess, evidence.ios(), SLACK_IOS) {
        return None;
    }
    let is_split = sum(Direction::excess_sectors) < excess;
    Some(if is_split { ("I/Os were split".to_owned(), Remedy::SmallerBlocks) } else { foreign() })
}
