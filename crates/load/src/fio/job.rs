//! fio's job file for one run of one path and workload. Running it is left to the module above.
//!
//! The options follow fio's HOWTO (section "Job file parameters"). Every job has a section of its own instead
//! of `numjobs`, because each sequential job has a region of its own.

use super::{FioError, rate, sizes, spdk};
use crate::pass::PassLimit;
use iopj_core::{BlockSizes, IoPath, Length, RandomDistribution, RingSubmission, Workload};
use iopj_engine::PciAddress;
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

/// Which part of a trial a run of fio is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The workload for its `ramp_time`; the result is discarded. Its random offsets differ from those of the
    /// measured run, which would otherwise find its data in the drive's cache.
    Ramp,
    /// A short part of the workload before the window, in which completions are counted; it ends by itself.
    Pass(PassLimit),
    /// The measured window, without ramp, so that totals over fio's life are totals of the window.
    Measured,
}

/// What a run of fio reads and writes.
#[derive(Clone, Copy, Debug)]
pub enum Filename<'a> {
    /// The file or device: it exists and holds the job's region.
    File(&'a Path),
    /// A namespace of a drive that is bound to vfio-pci, for SPDK.
    Namespace {
        /// The drive's controller.
        address: PciAddress,
        /// The namespace, 1 or more.
        nsid: u32,
    },
}

/// One run of fio.
#[derive(Clone, Copy, Debug)]
pub struct FioJob<'a> {
    /// The I/O path.
    pub path: IoPath,
    /// The workload.
    pub workload: &'a Workload,
    /// What is read and written: `offset + size` bytes or more. SPDK takes a namespace, every other path a
    /// file.
    pub filename: Filename<'a>,
    /// First byte of the region that is read or written.
    pub offset: u64,
    /// Length of the region in bytes. Random jobs share it; sequential ones have a share each.
    pub size: u64,
    /// Seed of the random numbers; fio's are 63 bits wide, so the top bit is dropped.
    pub seed: u64,
    /// Ramp or measured window.
    pub phase: Phase,
    /// How often fio reports its progress; only at its end if absent.
    pub status_interval: Option<Duration>,
}

/// The text of the job file.
///
/// # Errors
/// [`FioError::Unsupported`] for what fio cannot do, [`FioError::Filename`] for a name that its
/// job files cannot hold, [`FioError::Job`] for numbers that make no job.
pub(super) fn job_file(job: &FioJob<'_>) -> Result<String, FioError> {
    let workload = job.workload;
    let region = region(job)?;
    let skipped = skipped(job, region);
    let options = engine_options(&job.path)?;
    let mut text = String::from("[global]\n");
    let mut put = |key: &str, value: &dyn std::fmt::Display| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{key}={value}");
    };
    put("filename", &filename(job)?);
    for (key, value) in options {
        put(key, &value);
    }
    sizes::check(&job.path, workload)?;
    for (key, value) in workload.fio_options() {
        put(key, &value);
    }
    put("size", &(region - skipped));
    put("iodepth", &workload.iodepth);
    put("iodepth_batch", &workload.iodepth_batch_submit);
    put("iodepth_batch_complete_min", &workload.iodepth_batch_complete_min);
    for (key, value) in rate::options(workload)?.into_iter().chain(length_options(job)?) {
        put(key, &value);
    }
    // fio would take one completion a call; the native generator takes all that are there.
    put("iodepth_batch_complete_max", &workload.iodepth);
    if !workload.cpus_allowed.is_empty() {
        let cpus: Vec<String> = workload.cpus_allowed.iter().map(u32::to_string).collect();
        put("cpus_allowed", &cpus.join(","));
    }
    put("randrepeat", &0);
    put("randseed", &seed(job));
    if workload.rw.is_random() {
        put("norandommap", &1);
        if let Some(distribution) = distribution(&workload.random_distribution)? {
            put("random_distribution", &distribution);
        }
    }
    for (key, value) in FIXED {
        put(key, &value);
    }
    for index in 0..workload.numjobs {
        let _ = write!(text, "\n[job{index}]\noffset={}\n", offset(job, region, index) + skipped);
        if let Some(cpu) = poller_cpu(&job.path, workload, index) {
            let _ = writeln!(text, "sqthread_poll_cpu={cpu}");
        }
    }
    Ok(text)
}

/// The processor of a job's submission poller: the jobs take those of `cpus_allowed` in turn, as in the
/// native generator.
fn poller_cpu(path: &IoPath, workload: &Workload, index: u32) -> Option<u32> {
    let has_poller = path.ring().is_some_and(|ring| matches!(ring.submission, RingSubmission::Sqpoll { .. }));
    let cpus = &workload.cpus_allowed;
    cpus.get(index as usize % cpus.len().max(1)).copied().filter(|_| has_poller)
}

/// The options of every job: threads, so one process is the whole generator; no creation, growth or cache
/// dropping, so the target stays as it is; latency as in our own generator, from before submission to the
/// completion seen.
const FIXED: [(&str, &str); 9] = [
    ("thread", "1"),
    ("group_reporting", "1"),
    ("exitall_on_error", "1"),
    ("allow_file_create", "0"),
    ("fallocate", "none"),
    ("invalidate", "0"),
    ("lat_percentiles", "1"),
    ("clat_percentiles", "0"),
    ("percentile_list", "20:50:80:95:99:99.9"),
];

/// The name of fio's engine for a path.
///
/// # Errors
/// [`FioError::Unsupported`] if fio has no way to take the path.
pub(super) fn engine_name(path: &IoPath) -> Result<&'static str, FioError> {
    path.fio_engine().map_err(|lack| unsupported(path, lack))
}

fn engine_options(path: &IoPath) -> Result<Vec<(&'static str, &'static str)>, FioError> {
    path.fio_options().map_err(|lack| unsupported(path, lack))
}

fn unsupported(path: &IoPath, lack: &str) -> FioError {
    FioError::Unsupported { path: path.to_string(), reason: format!("fio has {lack}") }
}

/// `io_size` and not `number_ios` limits the I/Os: fio ends at `size` bytes even if `number_ios` are not
/// done, and ignores `number_ios` under `time_based` (seen with 3.33).
fn length_options(job: &FioJob<'_>) -> Result<Vec<(&'static str, String)>, FioError> {
    let time = match (job.phase, job.workload.length) {
        (Phase::Ramp, _) => job.workload.ramp_time,
        (Phase::Pass(PassLimit { time, ios }), _) => {
            let smallest = job.workload.sizes.iter().flat_map(BlockSizes::all).min();
            let bs = u64::from(smallest.unwrap_or(job.workload.bs));
            let bytes = ios.saturating_mul(bs).min(i64::MAX as u64);
            // Without `time_based` whichever comes first.
            let runtime = format!("{}us", time.as_micros());
            return Ok(vec![("io_size", bytes.to_string()), ("runtime", runtime)]);
        }
        (Phase::Measured, Length::Runtime(time)) => time,
        (Phase::Measured, Length::Ios(ios)) => {
            let bytes =
                ios.checked_mul(job.workload.bs.into()).filter(|bytes| (1..=i64::MAX as u64).contains(bytes));
            let bytes = bytes.ok_or_else(|| {
                FioError::Job(format!(
                    "{ios} I/Os of {} bytes are not a job: give 1 I/O or more",
                    job.workload.bs
                ))
            })?;
            return Ok(vec![("io_size", bytes.to_string())]);
        }
    };
    let us = time.as_micros();
    if us == 0 {
        // fio treats a run time of 0 as endless.
        return Err(FioError::Job("a run of 0 s measures nothing: give a time above 1 us".into()));
    }
    Ok(vec![("time_based", "1".into()), ("runtime", format!("{us}us"))])
}

/// Bytes that one job covers. Refuses what fio would answer by silently doing less.
fn region(job: &FioJob<'_>) -> Result<u64, FioError> {
    let workload = job.workload;
    if workload.numjobs == 0 || workload.bs == 0 || workload.iodepth == 0 {
        return Err(FioError::Job("numjobs, bs and iodepth cannot be 0: give 1 or more".into()));
    }
    if job.path.is_synchronous() && workload.iodepth > 1 {
        return Err(FioError::Job(format!(
            "{} is synchronous and keeps one I/O in flight: set iodepth to 1 instead of {}",
            job.path, workload.iodepth
        )));
    }
    let bs = u64::from(workload.bs);
    let share = if workload.rw.is_random() { job.size } else { job.size / u64::from(workload.numjobs) };
    let region = share - share % bs;
    if region == 0 || job.offset.checked_add(job.size).is_none_or(|end| end > i64::MAX as u64) {
        return Err(FioError::Job(format!(
            "a region of {} bytes at {} has no room for blocks of {bs} bytes in {} jobs: give a larger \
             target or smaller blocks",
            job.size, job.offset, workload.numjobs
        )));
    }
    Ok(region)
}

fn offset(job: &FioJob<'_>, region: u64, index: u32) -> u64 {
    if job.workload.rw.is_random() { job.offset } else { job.offset + region * u64::from(index) }
}

/// Bytes of a sequential job's region that a pass leaves out, so it does not read where the window begins.
fn skipped(job: &FioJob<'_>, region: u64) -> u64 {
    let bs = u64::from(job.workload.bs);
    let is_apart = matches!(job.phase, Phase::Pass(_)) && !job.workload.rw.is_random();
    if is_apart { region / bs / 2 * bs } else { 0 }
}

/// fio reads seeds as signed, and multiplies them by the job's number: 0 would give all jobs the
/// same offsets. It takes offsets from the seed only if `randrepeat` is off (seen with 3.33), and
/// nothing from it under `allrandrepeat`.
fn seed(job: &FioJob<'_>) -> u64 {
    let seed = match job.phase {
        Phase::Measured => job.seed,
        Phase::Ramp => !job.seed,
        Phase::Pass(_) => job.seed.rotate_left(32) ^ 1,
    };
    (seed & i64::MAX as u64).max(1)
}

fn distribution(distribution: &RandomDistribution) -> Result<Option<String>, FioError> {
    match distribution {
        RandomDistribution::Uniform => Ok(None),
        RandomDistribution::Zipf(1.0) => Err(FioError::Job(
            "fio refuses zipf:1 (its formula divides by 1 - theta): take zipf:0.99 or zipf:1.01".into(),
        )),
        RandomDistribution::Zipf(theta) => Ok(Some(format!("zipf:{theta}"))),
    }
}

fn filename(job: &FioJob<'_>) -> Result<String, FioError> {
    match (job.filename, job.path == IoPath::Spdk) {
        (Filename::File(file), false) => escaped(file),
        (Filename::Namespace { address, nsid }, true) if nsid > 0 => Ok(spdk::filename(address, nsid)),
        (Filename::Namespace { .. }, true) => {
            Err(FioError::Job("namespaces begin at 1: name one, not 0".into()))
        }
        (Filename::File(file), true) => Err(FioError::Job(format!(
            "SPDK drives a drive that was taken from its driver, which {} is not: name the drive by \
             --take-device",
            file.display()
        ))),
        (Filename::Namespace { address, .. }, false) => {
            Err(FioError::Job(format!("{} cannot reach {address}, which no driver has: take spdk", job.path)))
        }
    }
}

/// The absolute name as a job file holds it. fio splits names at `:`, cuts lines at `#` and `;`,
/// replaces `$`, and knows an escape for the colon alone.
fn escaped(filename: &Path) -> Result<String, FioError> {
    let refuse =
        |reason: &'static str| FioError::Filename { filename: filename.display().to_string(), reason };
    let absolute = std::path::absolute(filename).map_err(|_| refuse("is empty or has no folder"))?;
    let name = absolute.to_str().ok_or_else(|| refuse("is not UTF-8"))?;
    if name.chars().any(char::is_control) {
        return Err(refuse("holds a line break or another control character"));
    }
    if name.contains(['#', ';', '$', '\\']) {
        return Err(refuse("holds one of the characters # ; $ \\"));
    }
    if name.ends_with(char::is_whitespace) {
        return Err(refuse("ends in white space"));
    }
    Ok(name.replace(':', "\\:"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopj_core::Rw;
    use proptest::prelude::*;

    fn job<'a>(path: &str, workload: &'a Workload, filename: &'a Path) -> FioJob<'a> {
        let path = path.parse().unwrap();
        FioJob {
            path,
            workload,
            filename: Filename::File(filename),
            offset: 4096,
            size: 1 << 20,
            seed: 7,
            phase: Phase::Measured,
            status_interval: None,
        }
    }

    fn text(path: &str, workload: &Workload) -> String {
        job_file(&job(path, workload, Path::new("/t"))).unwrap()
    }

    fn has(text: &str, line: &str) -> bool {
        text.lines().any(|l| l == line)
    }

    #[test]
    fn a_whole_job_file() {
        let workload = Workload {
            rw: Rw::Randrw,
            rwmixread: 70,
            iodepth: 8,
            iodepth_batch_submit: 4,
            iodepth_batch_complete_min: 2,
            numjobs: 3,
            length: Length::Ios(10),
            random_distribution: RandomDistribution::Zipf(1.2),
            cpus_allowed: vec![3, 1],
            ..Workload::default()
        };
        let expected = "[global]\nfilename=/t\nioengine=io_uring\ndirect=1\nsqthread_poll=1\nfixedbufs=1\n\
                        registerfiles=1\nrw=randrw\nrwmixread=70\nbs=4096\nsize=1048576\niodepth=8\n\
                        iodepth_batch=4\niodepth_batch_complete_min=2\nio_size=40960\n\
                        iodepth_batch_complete_max=8\ncpus_allowed=3,1\nrandrepeat=0\nrandseed=7\n\
                        norandommap=1\nrandom_distribution=zipf:1.2\nthread=1\ngroup_reporting=1\n\
                        exitall_on_error=1\nallow_file_create=0\nfallocate=none\ninvalidate=0\n\
                        lat_percentiles=1\nclat_percentiles=0\npercentile_list=20:50:80:95:99:99.9\n\n[job0]\n\
                        offset=4096\nsqthread_poll_cpu=3\n\n[job1]\noffset=4096\nsqthread_poll_cpu=1\n\n\
                        [job2]\noffset=4096\nsqthread_poll_cpu=3\n";
        assert_eq!(text("io_uring/sqpoll/interrupt+registered", &workload), expected);
        assert!(!text("io_uring/syscall/interrupt", &workload).contains("sqthread"));
    }

    #[test]
    fn paths_become_engines() {
        let workload = Workload::default();
        for (path, engine, polled) in [
            ("posix-sio/syscall/interrupt", "pvsync2", false),
            ("posix-sio/syscall/poll", "pvsync2", true),
            ("posix-sio/syscall/hybrid:4us", "pvsync2", true),
            ("posix-aio/syscall/interrupt", "posixaio", false),
            ("libaio/syscall/interrupt", "libaio", false),
            ("io_uring/syscall/poll+split", "io_uring", true),
            ("nvme-passthrough/syscall/interrupt", "io_uring_cmd", false),
        ] {
            let text = text(path, &workload);
            assert!(has(&text, &format!("ioengine={engine}")), "{text}");
            assert_eq!(has(&text, "hipri=1"), polled, "{text}");
            assert_eq!(has(&text, "direct=1"), engine != "io_uring_cmd", "{text}");
        }
        for path in [
            "io_uring/syscall/hybrid",
            "io_uring/sqpoll/poll+kernel-wait",
            "posix-aio/syscall/interrupt+fd-per-slot",
        ] {
            let error = job_file(&job(path, &workload, Path::new("/t"))).unwrap_err();
            assert!(error.to_string().contains(path), "{error}");
        }
    }

    #[test]
    fn spdk_takes_a_namespace_and_nothing_else() {
        let workload = Workload { iodepth: 4, length: Length::Ios(10), ..Workload::default() };
        let namespace = |nsid| Filename::Namespace { address: "0000:01:00.0".parse().unwrap(), nsid };
        let job = |path: &str, filename| FioJob { filename, ..job(path, &workload, Path::new("/t")) };
        let text = job_file(&job("spdk/doorbell/poll", namespace(2))).unwrap();
        let expected = "[global]\nfilename=trtype=PCIe traddr=0000.01.00.0 \
                        ns=2\nioengine=spdk\ndirect=1\nrw=randread\nbs=4096\nsize=1048576\niodepth=4\n\
                        iodepth_batch=1\niodepth_batch_complete_min=1\nio_size=40960\n\
                        iodepth_batch_complete_max=4\nrandrepeat=0\nrandseed=7\nnorandommap=1\nthread=1\n";
        assert!(text.starts_with(expected), "{text}");
        for (path, filename, part) in [
            ("spdk/doorbell/poll", namespace(0), "namespaces begin at 1"),
            (
                "spdk/doorbell/poll",
                Filename::File(Path::new("/dev/nvme0n1")),
                "/dev/nvme0n1 is not: name the drive by --take-device",
            ),
            ("libaio/syscall/interrupt", namespace(1), "cannot reach 0000:01:00.0, which no driver has"),
            ("nvme-user/doorbell/poll", namespace(1), "fio has no engine for this interface"),
        ] {
            let message = job_file(&job(path, filename)).unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn sequential_jobs_have_regions_of_their_own() {
        let workload = Workload { rw: Rw::Read, numjobs: 3, ..Workload::default() };
        let text = text("libaio/syscall/interrupt", &workload);
        // 1 MiB in three is 349,525 bytes: 85 blocks of 4 KiB.
        assert!(has(&text, "size=348160") && !has(&text, "norandommap=1"), "{text}");
        for offset in [4096, 352_256, 700_416] {
            assert!(has(&text, &format!("offset={offset}")), "{text}");
        }
    }

    #[test]
    fn phases_differ_in_time_and_seed() {
        let workload =
            Workload { ramp_time: Duration::from_millis(5), length: Length::Ios(9), ..Workload::default() };
        let mut job = job("libaio/syscall/interrupt", &workload, Path::new("/t"));
        assert!(has(&job_file(&job).unwrap(), "io_size=36864"));
        job.phase = Phase::Ramp;
        let ramp = job_file(&job).unwrap();
        assert!(
            has(&ramp, "runtime=5000us") && has(&ramp, "time_based=1") && !has(&ramp, "randseed=7"),
            "{ramp}"
        );
        job.seed = 0;
        job.phase = Phase::Measured;
        assert!(has(&job_file(&job).unwrap(), "randseed=1"));
        job.seed = u64::MAX;
        assert!(has(&job_file(&job).unwrap(), "randseed=9223372036854775807"));
    }

    #[test]
    fn numbers_that_make_no_job_are_refused() {
        let good = Workload::default();
        for (workload, part) in [
            (Workload { iodepth: 2, ..good.clone() }, "iodepth to 1"),
            (Workload { numjobs: 0, ..good.clone() }, "1 or more"),
            (Workload { bs: 2 << 20, ..good.clone() }, "larger target"),
            (Workload { length: Length::Ios(0), ..good.clone() }, "1 I/O or more"),
            (Workload { length: Length::Runtime(Duration::ZERO), ..good.clone() }, "above 1 us"),
            (Workload { random_distribution: RandomDistribution::Zipf(1.0), ..good.clone() }, "zipf:0.99"),
        ] {
            let error =
                job_file(&job("posix-sio/syscall/interrupt", &workload, Path::new("/t"))).unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
        }
    }

    proptest! {
        #[test]
        fn no_filename_adds_a_line(name in "\\PC{0,8}[\n\r#;$: \\\\=\\[]{0,2}\\PC{0,8}") {
            let workload = Workload::default();
            let plain = text("libaio/syscall/interrupt", &workload).lines().count();
            let name = format!("/{name}");
            if let Ok(text) = job_file(&job("libaio/syscall/interrupt", &workload, Path::new(&name))) {
                prop_assert_eq!(text.lines().count(), plain);
                prop_assert!(!text.contains(['#', ';', '$']));
            }
        }
    }
}
