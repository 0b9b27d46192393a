//! fio's job options as a path and a workload, or the reason why they are none.
//!
//! Options, their defaults and units are those of fio's HOWTO, section "Job file parameters". An option that
//! is neither mapped nor known to leave the I/O as it is keeps a job out.

use iopj_core::path::AioDescriptors;
use iopj_core::{
    IoPath, Length, RandomDistribution, Ring, RingCompletion, RingSubmission, Rw, SioCompletion, Workload,
};
use iopj_load::fio::runs::FioJobResult;
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

/// Options that this module reads.
const MAPPED: &str = "rw bs direct buffered ioengine hipri sqthread_poll fixedbufs registerfiles cmd_type \
                      iodepth iodepth_batch iodepth_batch_complete_min iodepth_batch_complete_max numjobs \
                      runtime number_ios io_size size ramp_time rwmixread rwmixwrite random_distribution \
                      cpus_allowed cpus_allowed_policy kb_base filename";

/// Options that change the place, the report or the surroundings of a job, but not the I/O itself.
const HARMLESS: &str = "\
    name description directory filename_format filesize offset group_reporting new_group stonewall \
    thread time_based randrepeat allrandrepeat randseed random_generator norandommap softrandommap \
    lat_percentiles clat_percentiles slat_percentiles percentile_list significant_figures write_bw_log \
    write_lat_log write_iops_log write_hist_log log_avg_msec log_window_value log_hist_msec \
    log_hist_coarseness log_max_value log_offset log_unix_epoch log_alternate_epoch per_job_logs \
    bwavgtime iopsavgtime disk_util unified_rw_reporting unit_base invalidate allow_file_create \
    fallocate create_serialize create_on_open overwrite unlink refill_buffers scramble_buffers \
    zero_buffers buffer_compress_percentage buffer_compress_chunk buffer_pattern dedupe_percentage iomem \
    mem iomem_align mem_align hugepage-size lockmem clocksource gtod_cpu exitall exitall_on_error \
    exec_prerun exec_postrun continue_on_error sqthread_poll_cpu nonvectored job_start_clock_id";

/// Options that change the I/O unless they have one of the values in the middle, and what they do.
const NEUTRAL: &[(&str, &str, &str)] = &[
    ("bssplit", "", "mixes block sizes"),
    ("bsrange", "", "mixes block sizes"),
    ("verify", "0 none", "checks the data"),
    ("zonemode", "none", "works in zones"),
    ("zonesize", "0", "works in zones"),
    ("trim_percentage", "0", "trims"),
    ("rate", "0", "limits the rate"),
    ("rate_iops", "0", "limits the rate"),
    ("rate_min", "0", "limits the rate"),
    ("thinktime", "0", "pauses between I/Os"),
    ("fsync", "0", "flushes between I/Os"),
    ("fdatasync", "0", "flushes between I/Os"),
    ("sync", "0 none", "writes synchronously"),
    ("nrfiles", "1", "does I/O on several files"),
    ("loops", "1", "runs more than once"),
    ("percentage_random", "100", "mixes random and sequential offsets"),
    ("hipri_percentage", "100", "polls for a part of the I/Os only"),
    ("force_async", "0", "leaves I/Os to kernel workers"),
    ("nowait", "0", "has I/Os fail that would wait"),
    ("uncached", "0", "drops the cache behind each I/O"),
    ("atomic", "0", "writes atomically"),
    ("io_submit_mode", "inline", "submits from other threads"),
    ("read_iolog", "", "replays a trace"),
];

/// Why a job is left out. The text follows its name, and is of foreign origin in part.
#[derive(Debug, thiserror::Error)]
pub(super) enum SkipReason {
    #[error("{0}")]
    Text(&'static str),
    #[error("{what} ({name}={value})")]
    Option { what: &'static str, name: String, value: String },
    #[error("was to have numjobs={asked}, but the file has it {entries} times")]
    Entries { asked: u64, entries: u64 },
    #[error("ended before its time and after {ios} of {asked} I/Os per job")]
    EndedEarly { ios: u64, asked: u64 },
    #[error("failed: {count} failed I/Os, {error}")]
    Failed { count: u64, error: io::Error },
    #[error("moved {bytes} bytes per I/O although bs is {bs}")]
    Moved { bytes: u64, bs: u64 },
    #[error("ran at the same time as job `{0}` (no stonewall between them), which no path accounts for")]
    Beside(String),
}

impl From<&'static str> for SkipReason {
    fn from(text: &'static str) -> SkipReason {
        SkipReason::Text(text)
    }
}

/// An option whose value keeps a job out.
fn of_option(what: &'static str, name: &str, value: impl ToString) -> SkipReason {
    SkipReason::Option { what, name: name.to_owned(), value: value.to_string() }
}

fn unreadable(name: &str, value: impl ToString) -> SkipReason {
    of_option("has a value that iopj cannot read", name, value)
}

/// The path and the workload of a job.
///
/// # Errors
/// Why it has none.
pub(super) fn map(job: &FioJobResult) -> Result<(IoPath, Workload), SkipReason> {
    let options = Options(&job.options);
    if options.number("kb_base", 1024)? != 1024 {
        return Err("gives sizes in another unit (kb_base)".into());
    }
    let rw = rw(&options)?;
    options.only_known()?;
    if job.trims > 0 {
        return Err("trims".into());
    }
    if job.unified && rw.is_mixed() {
        return Err("does not tell reads from writes (unified_rw_reporting)".into());
    }
    let path = path(&options)?;
    let mut workload = Workload { rw, bs: block_size(&options)?, ..Workload::default() };
    workload.numjobs = numjobs(job, &options)?;
    if !path.is_synchronous() {
        depth(&options, &mut workload)?;
    }
    if rw.is_mixed() {
        workload.rwmixread = mix(&options)?;
    }
    if rw.is_random() {
        workload.random_distribution = distribution(&options)?;
    }
    workload.ramp_time = options.time("ramp_time")?.unwrap_or_default();
    workload.cpus_allowed = processors(&options, workload.numjobs)?;
    workload.length = length(job, &options, &workload)?;
    Ok((path, workload))
}

/// True if a flag that fio's JSON leaves out could change the job's path.
pub(super) fn may_hide_flags(path: &IoPath, options: &BTreeMap<String, String>) -> bool {
    let flags: &[&str] = match path {
        IoPath::PosixSio(_) if options.get("ioengine").is_some_and(|engine| engine == "pvsync2") => {
            &["hipri"]
        }
        _ if path.ring().is_some() => &["hipri", "fixedbufs", "registerfiles"],
        _ => &[],
    };
    flags.iter().any(|flag| !options.contains_key(*flag))
}

struct Options<'a>(&'a BTreeMap<String, String>);

impl Options<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|value| value.trim())
    }

    fn number(&self, name: &str, default: u64) -> Result<u64, SkipReason> {
        let Some(text) = self.get(name) else { return Ok(default) };
        bytes(text).ok_or_else(|| unreadable(name, text))
    }

    fn small(&self, name: &str, default: u32) -> Result<u32, SkipReason> {
        let number = self.number(name, default.into())?;
        u32::try_from(number).map_err(|_| unreadable(name, number))
    }

    /// Some versions print a bare flag with an empty value.
    fn flag(&self, name: &str) -> Result<bool, SkipReason> {
        match self.get(name) {
            None | Some("0" | "false") => Ok(false),
            Some("" | "1" | "true") => Ok(true),
            Some(text) => Err(unreadable(name, text)),
        }
    }

    fn time(&self, name: &str) -> Result<Option<Duration>, SkipReason> {
        let read = |text| time(text).ok_or_else(|| unreadable(name, text));
        Ok(self.get(name).map(read).transpose()?.filter(|time| !time.is_zero()))
    }

    fn only_known(&self) -> Result<(), SkipReason> {
        for (name, value) in self.0 {
            let listed = |list: &str| list.split_ascii_whitespace().any(|known| known == name);
            if listed(MAPPED) || listed(HARMLESS) {
                continue;
            }
            match NEUTRAL.iter().find(|(known, ..)| known == name) {
                Some((_, neutral, _))
                    if neutral.split_ascii_whitespace().any(|known| known == value.trim()) => {}
                Some((_, _, what)) => return Err(of_option(what, name, value)),
                None => return Err(of_option("has an option that iopj has no word for", name, value)),
            }
        }
        Ok(())
    }
}

fn rw(options: &Options<'_>) -> Result<Rw, SkipReason> {
    match options.get("rw").unwrap_or("read") {
        "readwrite" => Ok(Rw::Rw),
        text if text.contains("trim") => Err(of_option("trims", "rw", text)),
        text => text.parse().map_err(|_| of_option("orders its I/O in a way that iopj does not", "rw", text)),
    }
}

fn path(options: &Options<'_>) -> Result<IoPath, SkipReason> {
    let engine = options.get("ioengine").unwrap_or("psync");
    let buffered = match (options.get("direct"), options.get("buffered")) {
        (None, None) => true,
        (None, Some(_)) => options.flag("buffered")?,
        (Some(_), _) => !options.flag("direct")?,
    };
    // An NVMe character device has no page cache.
    if buffered && engine != "io_uring_cmd" {
        return Err("is buffered: it goes through the page cache (direct is not 1)".into());
    }
    let polled = match options.flag("hipri")? {
        true => SioCompletion::Poll,
        false => SioCompletion::Interrupt,
    };
    match engine {
        "pvsync2" => Ok(IoPath::PosixSio(polled)),
        "sync" | "psync" | "pvsync" => Ok(IoPath::PosixSio(SioCompletion::Interrupt)),
        "posixaio" => Ok(IoPath::PosixAio(AioDescriptors::PerJob)),
        "libaio" => Ok(IoPath::Libaio),
        "io_uring" => Ok(IoPath::IoUring(ring(options)?)),
        "io_uring_cmd" => match options.get("cmd_type") {
            None | Some("nvme") => Ok(IoPath::NvmePassthrough(ring(options)?)),
            Some(other) => Err(of_option("passes other commands than NVMe's", "cmd_type", other)),
        },
        other => Err(of_option("does its I/O in a way that iopj has no path for", "ioengine", other)),
    }
}

fn ring(options: &Options<'_>) -> Result<Ring, SkipReason> {
    let sqpoll = options.flag("sqthread_poll")?;
    // fio registers the file by itself under sqpoll.
    let registered = match (options.flag("fixedbufs")?, options.flag("registerfiles")? || sqpoll) {
        (true, true) => true,
        (false, files) if !files || sqpoll => false,
        _ => return Err("registers either buffers or files, not both (fixedbufs, registerfiles)".into()),
    };
    Ok(Ring {
        submission: match sqpoll {
            true => RingSubmission::Sqpoll { kernel_wait: false },
            false => RingSubmission::Syscall { split: false },
        },
        completion: if options.flag("hipri")? { RingCompletion::Poll } else { RingCompletion::Interrupt },
        registered,
    })
}

fn block_size(options: &Options<'_>) -> Result<u32, SkipReason> {
    let text = options.get("bs").unwrap_or("4k");
    let mut sizes = text.split(',').map(bytes);
    let first = sizes.next().flatten().filter(|bs| *bs > 0).and_then(|bs| u32::try_from(bs).ok());
    let first = first.ok_or_else(|| unreadable("bs", text))?;
    if sizes.any(|size| size != Some(first.into())) {
        return Err(of_option("has several block sizes", "bs", text));
    }
    Ok(first)
}

fn numjobs(job: &FioJobResult, options: &Options<'_>) -> Result<u32, SkipReason> {
    let asked = options.number("numjobs", 1)?;
    let numjobs = match (job.entries, asked) {
        (1, asked) => asked,
        (entries, asked) if asked == 1 || asked == entries => entries,
        (entries, asked) => return Err(SkipReason::Entries { asked, entries }),
    };
    let readable = u32::try_from(numjobs).ok().filter(|n| *n > 0);
    let numjobs = readable.ok_or_else(|| unreadable("numjobs", asked))?;
    // Under group_reporting fio prints the sum of a group below the name of its first job and the
    // options of its last one.
    let (most_ns, slack_ns) =
        (job.result.window_ns.saturating_mul(numjobs.into()), 50_000_000 + job.result.window_ns / 10);
    if job.threads_ns > most_ns.saturating_add(slack_ns) {
        return Err("holds the sum of several jobs, which group_reporting does not tell apart".into());
    }
    Ok(numjobs)
}

/// fio cuts batches to the depth.
fn depth(options: &Options<'_>, workload: &mut Workload) -> Result<(), SkipReason> {
    let iodepth = options.small("iodepth", 1)?.max(1);
    workload.iodepth = iodepth;
    workload.iodepth_batch_submit = match options.small("iodepth_batch", 1)? {
        0 => iodepth,
        batch => batch.min(iodepth),
    };
    let least = match options.small("iodepth_batch_complete_min", 1)? {
        0 => return Err("looks for completions without waiting (iodepth_batch_complete_min=0)".into()),
        batch => batch.min(iodepth),
    };
    workload.iodepth_batch_complete_min = least;
    let most = options.small("iodepth_batch_complete_max", least)?;
    if most > least {
        let what = "takes more completions at once than it waits for";
        return Err(of_option(what, "iodepth_batch_complete_max", most));
    }
    Ok(())
}

fn mix(options: &Options<'_>) -> Result<u8, SkipReason> {
    let percent = |name| match options.number(name, 50)? {
        percent @ 0..=100 => Ok(percent as u8),
        other => Err(unreadable(name, other)),
    };
    match (options.get("rwmixread"), options.get("rwmixwrite")) {
        (_, None) => percent("rwmixread"),
        (None, Some(_)) => Ok(100 - percent("rwmixwrite")?),
        (Some(_), Some(_)) => match (percent("rwmixread")?, percent("rwmixwrite")?) {
            (reads, writes) if reads + writes == 100 => Ok(reads),
            _ => Err("has rwmixread and rwmixwrite that do not add up to 100".into()),
        },
    }
}

fn distribution(options: &Options<'_>) -> Result<RandomDistribution, SkipReason> {
    match options.get("random_distribution") {
        None | Some("random") => Ok(RandomDistribution::Uniform),
        Some(text) => text.parse().map_err(|_| {
            of_option("draws its offsets in a way that iopj does not", "random_distribution", text)
        }),
    }
}

/// Job `i` is bound to entry `i` here; a set that jobs share has no word.
fn processors(options: &Options<'_>, numjobs: u32) -> Result<Vec<u32>, SkipReason> {
    let Some(text) = options.get("cpus_allowed") else { return Ok(Vec::new()) };
    let mut cpus = Vec::new();
    for part in text.split(',').map(str::trim) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let range = first
            .parse::<u32>()
            .ok()
            .zip(last.parse::<u32>().ok())
            .filter(|(first, last)| last < &65536 && first <= last);
        let (first, last) = range.ok_or_else(|| unreadable("cpus_allowed", text))?;
        cpus.extend(first..=last);
        if cpus.len() > 65536 {
            return Err(unreadable("cpus_allowed", text));
        }
    }
    cpus.sort_unstable();
    cpus.dedup();
    let split = options.get("cpus_allowed_policy") == Some("split");
    if cpus.len() == 1 || (split && cpus.len() <= numjobs as usize) {
        return Ok(cpus);
    }
    Err(of_option("lets jobs move between processors", "cpus_allowed", text))
}

/// The time that was asked for if the job ran that long, else the I/Os of each job.
fn length(job: &FioJobResult, options: &Options<'_>, workload: &Workload) -> Result<Length, SkipReason> {
    let runtime = options.time("runtime")?;
    let window = Duration::from_nanos(job.result.window_ns);
    if let Some(runtime) = runtime.filter(|runtime| window >= runtime.mul_f64(0.95)) {
        return Ok(Length::Runtime(runtime));
    }
    let ios =
        (job.result.reads.ios.saturating_add(job.result.writes.ios) / u64::from(workload.numjobs)).max(1);
    let sized = ["io_size", "size"].iter().find_map(|name| options.get(name)).and_then(bytes);
    let limits = [Some(options.number("number_ios", 0)?), sized.map(|bytes| bytes / u64::from(workload.bs))];
    let Some(asked) = limits.into_iter().flatten().filter(|ios| *ios > 0).min() else {
        return Ok(Length::Ios(ios));
    };
    let near = ios >= asked - asked / 100 && ios <= asked.saturating_add(asked / 100);
    match (runtime, near || !workload.ramp_time.is_zero()) {
        (_, true) => Ok(Length::Ios(asked)),
        (None, false) => Ok(Length::Ios(ios)),
        (Some(_), false) => Err(SkipReason::EndedEarly { ios, asked }),
    }
}

/// fio's numbers with units: with the default `kb_base` of 1024, `k` and `kb` are 1024 and `kib` is 1000
/// (seen with 3.33).
fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = split_unit(text);
    let base: u64 = if unit.ends_with("ib") { 1000 } else { 1024 };
    let power = match unit.as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 1,
        "m" | "mb" | "mib" => 2,
        "g" | "gb" | "gib" => 3,
        "t" | "tb" | "tib" => 4,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(base.pow(power))
}

/// A bare number is seconds.
fn time(text: &str) -> Option<Duration> {
    let (number, unit) = split_unit(text);
    let us: u64 = match unit.as_str() {
        "us" | "usec" => 1,
        "ms" | "msec" => 1_000,
        "" | "s" | "sec" | "secs" | "second" | "seconds" => 1_000_000,
        "m" | "min" | "mins" | "minute" | "minutes" => 60_000_000,
        "h" | "hour" | "hours" => 3_600_000_000,
        "d" | "day" | "days" => 86_400_000_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(us).map(Duration::from_micros)
}

fn split_unit(text: &str) -> (&str, String) {
    let (number, unit) =
        text.trim().split_at(text.trim().find(|c: char| !c.is_ascii_digit()).unwrap_or(text.trim().len()));
    (number, unit.trim().to_ascii_lowercase())
}
