//! What a ring gets once it is made: processors for its workers, registered buffers and files; and
//! [`KernelCpus`], where its threads may run. `ring` makes the ring, `ring_engine` does I/O on it.

use crate::engine::Registration;
use crate::error::EngineError;
use crate::pool::Pool;
use crate::remedy;
use crate::ring::raw::RawRing;
use iopj_path::{Ring, RingSubmission};
use linux_raw_sys::io_uring as sys;
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// Where the kernel's own threads of a ring may run. They do not follow the affinity of the thread that made
/// the ring.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelCpus {
    /// The processor of the submission poller (`IORING_SETUP_SQ_AFF` takes one); any if absent.
    pub poller: Option<u32>,
    /// The processors of the workers (`IORING_REGISTER_IOWQ_AFF`); all if empty. Before Linux 5.14 the kernel
    /// cannot bind them.
    pub workers: Vec<u32>,
}

/// The most bytes that one registered buffer may have (io_uring/rsrc.c, `io_buffer_validate`).
const MOST_REGISTERED: usize = 1 << 30;

/// Refuses a pool of `bytes` that the kernel would not register: the pool is registered as one buffer.
fn require_registrable(bytes: usize) -> Result<(), EngineError> {
    if bytes > MOST_REGISTERED {
        return Err(EngineError::unsupported(format!(
            "{bytes} bytes of buffers cannot be registered in one ring, which takes {MOST_REGISTERED}: \
             lower iodepth or bs, or leave +registered out"
        )));
    }
    Ok(())
}

/// Refuses a submission poller that only takes registered files.
pub(crate) fn require_unregistered_files(features: u32) -> Result<(), EngineError> {
    if features & sys::IORING_FEAT_SQPOLL_NONFIXED == 0 {
        return Err(EngineError::unsupported(
            "this kernel's submission poller (sqpoll) only takes registered files: use +registered, or \
             Linux 5.11 or newer",
        ));
    }
    Ok(())
}

/// Refuses modes of a ring that would look a caller's descriptor up after the call, or keep it open.
pub(crate) fn require_ring_for_callers(modes: Ring) -> Result<(), EngineError> {
    let why = match modes {
        Ring { submission: RingSubmission::Sqpoll { .. }, .. } => {
            "sqpoll looks a descriptor up after the call that names it: leave it to iopj's own descriptors"
        }
        Ring { registered: true, .. } => {
            "+registered keeps a file open that its owner may close: leave it to descriptors of iopj's own"
        }
        _ => return Ok(()),
    };
    Err(EngineError::unsupported(why))
}

/// Keeps the ring's workers to `cpus`, where the kernel can.
pub(crate) fn bind_workers(ring: &RawRing, cpus: &[u32]) -> Result<(), EngineError> {
    let Some(most) = cpus.iter().max() else { return Ok(()) };
    let mut mask = vec![0_u8; *most as usize / 8 + 1];
    cpus.iter().for_each(|cpu| mask[*cpu as usize / 8] |= 1 << (cpu % 8));
    let operation = sys::io_uring_register_op::IORING_REGISTER_IOWQ_AFF as u32;
    match ring.register(operation, mask.as_ptr(), mask.len() as u32) {
        // Before Linux 5.14 there is no such operation.
        Ok(()) | Err(libc::EINVAL) => Ok(()),
        Err(errno) => Err(EngineError::call("io_uring_register (workers' processors)", errno, String::new())),
    }
}

/// How long registering waits for memory to be unlocked: the kernel dismantles a closed ring after the close.
const UNLOCK_LIMIT: Duration = if cfg!(test) { Duration::from_secs(30) } else { Duration::from_millis(100) };

/// Registers the pool as the ring's buffer 0 and `fd` as its file 0. If another ring has registered the pool,
/// its registration is shared where the kernel can.
pub(crate) fn register(ring: &RawRing, pool: &Pool, fd: i32) -> Result<Registration, EngineError> {
    use sys::io_uring_register_op::{IORING_REGISTER_BUFFERS, IORING_REGISTER_FILES};
    let failed = |call| move |errno| EngineError::call(call, errno, remedy::memory_lock(errno));
    ring.register(IORING_REGISTER_FILES as u32, &raw const fd, 1)
        .map_err(failed("io_uring_register (files)"))?;
    if pool.registered_by().get().is_some_and(|other| ring.clone_buffers(other).is_ok()) {
        return Ok(Registration::Shared);
    }
    let lent = || EngineError::unsupported("memory that is lent cannot be registered: leave +registered out");
    let region = pool.region().ok_or_else(lent)?;
    require_registrable(region.iov_len)?;
    let deadline = Instant::now() + UNLOCK_LIMIT;
    loop {
        match ring.register(IORING_REGISTER_BUFFERS as u32, &raw const region, 1) {
            Err(libc::ENOMEM) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(1)),
            result => break result.map_err(failed("io_uring_register (buffers)"))?,
        }
    }
    pool.registered_by().set(Some(ring.fd().as_raw_fd()));
    Ok(Registration::Own { bytes: region.iov_len })
}

/// An event that the kernel signals when a completion comes, and, where completions are work that waits for
/// the thread (`IORING_SETUP_DEFER_TASKRUN`), when such work does. The ring's own descriptor wakes nobody in
/// that case (seen on Linux 6.18). `None` if there is no descriptor left.
pub(crate) fn completion_event(ring: &RawRing) -> Option<OwnedFd> {
    let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok()?;
    let fd = event.as_raw_fd();
    let operation = sys::io_uring_register_op::IORING_REGISTER_EVENTFD as u32;
    ring.register(operation, &raw const fd, 1).ok().map(|()| event)
}

/// A ring that ends is no source of registrations any more: its descriptor's number may be given to another
/// file.
pub(crate) fn forget_registration(ring: &RawRing, pool: &Pool) {
    if pool.registered_by().get() == Some(ring.fd().as_raw_fd()) {
        pool.registered_by().set(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::raw::SQE_LEN;
    use crate::ring::raw::SqPoller;
    use iopj_path::IoPath;
    use iopj_path::uring::RingFlag;

    /// Opens and closes registered rings that lock most of `RLIMIT_MEMLOCK`, as a user to whom the limit
    /// applies. No other process has that user: the limit is on all that a user locks, and this test may be
    /// running twice.
    #[test]
    fn memory_of_a_closed_ring_can_be_locked_again_at_once() {
        use rustix::process::{Resource, Rlimit, setrlimit};
        use std::os::unix::fs::PermissionsExt;
        if !crate::system::is_root() {
            return eprintln!("skipped: needs root, to become nobody");
        }
        // The kernel's own limit since 5.16, whatever this machine has. Root's locks are not limited.
        let limit = 8 << 20;
        let maximum = rustix::process::getrlimit(Resource::Memlock).maximum.map(|most| most.max(limit));
        setrlimit(Resource::Memlock, Rlimit { current: Some(limit), maximum }).unwrap();
        let folder = tempfile::tempdir_in(std::env::current_exe().unwrap().parent().unwrap()).unwrap();
        let path = folder.path().join("data");
        crate::target::make_file(&path, 4096, &mut |_| true).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        let target = crate::Target::open(&path).unwrap();
        let user = (1 << 30) + std::process::id();
        let work = || {
            // SAFETY: setresuid touches no memory; called raw, it changes only this thread, which ends with
            // the closure.
            assert_eq!(unsafe { libc::syscall(libc::SYS_setresuid, user, user, user) }, 0);
            for round in 0..30 {
                let pool = Pool::new((limit / 4096 * 3 / 4) as u32, 4096).unwrap();
                let engine =
                    crate::open("io_uring/syscall/interrupt+registered".parse().unwrap(), &target, &pool, 1);
                assert!(engine.is_ok(), "round {round}: {}", engine.err().unwrap());
            }
        };
        std::thread::scope(|scope| scope.spawn(work).join().unwrap());
    }

    /// Opens a registered ring over `pool`, reads by it, and tells how the pool is registered.
    fn registered(target: &crate::Target, pool: &Pool) -> (crate::IoUring, Registration) {
        use crate::Engine;
        let mut engine = crate::IoUring::builder().registered().open(target, pool).unwrap();
        engine.push(crate::Request::read(pool.acquire().unwrap(), 4096, target.data_offset())).unwrap();
        let mut results = Vec::new();
        engine.wait(1, None, |completion| results.push(completion.result)).unwrap();
        assert_eq!(results, [Ok(4096)]);
        let registration = engine.setup().registration;
        (engine, registration)
    }

    #[test]
    fn rings_over_one_pool_share_its_registration_where_the_kernel_can() {
        let folder = tempfile::tempdir_in(std::env::current_exe().unwrap().parent().unwrap()).unwrap();
        let path = folder.path().join("data");
        crate::target::make_file(&path, 4096, &mut |_| true).unwrap();
        let target = crate::Target::open(&path).unwrap();
        let pool = Pool::new(4, 4096).unwrap();
        let own = Registration::Own { bytes: 4 * 4096 };
        let (first, of_first) = registered(&target, &pool);
        let (second, of_second) = registered(&target, &pool);
        assert_eq!(of_first, own);
        let shares = crate::system::kernel_version() >= (6, 12);
        assert_eq!(of_second, if shares { Registration::Shared } else { own });
        // Once the one that registered is gone, another does; a ring that shares is no source.
        drop(first);
        let (_third, of_third) = registered(&target, &pool);
        assert_eq!(of_third, own);
        drop(second);
        let (_fourth, of_fourth) = registered(&target, &pool);
        assert_eq!(of_fourth, if shares { Registration::Shared } else { own });
        let (_other, of_other) = registered(&target, &Pool::new(1, 4096).unwrap());
        assert_eq!(of_other, Registration::Own { bytes: 4096 }, "another pool has its own");
    }

    /// The processors that the threads of this process may use whose names begin with `name`.
    fn cpus_of(name: &str) -> Vec<String> {
        let read =
            |task: &std::path::Path, file| std::fs::read_to_string(task.join(file)).unwrap_or_default();
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
        let list = |task: std::path::PathBuf| {
            let status = read(&task, "status");
            status
                .lines()
                .find_map(|line| Some(line.strip_prefix("Cpus_allowed_list:")?.trim().to_owned()))
                .unwrap()
        };
        tasks.filter(|task| read(task, "comm").trim_end() == name).map(list).collect()
    }

    #[test]
    fn pollers_and_workers_of_a_ring_keep_to_the_processors_that_they_are_given() {
        let tid = rustix::thread::gettid();
        // The highest that this process may use, where no thread runs by chance.
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
        let cpu: u32 = allowed.trim().rsplit([',', '-']).next().unwrap().parse().unwrap();
        let ring = match RawRing::new(4, sys::IORING_SETUP_SQPOLL, SqPoller { cpu: Some(cpu), idle_ms: 0 }) {
            Ok(ring) => ring,
            Err(error) => {
                assert!(std::env::var("CI").as_deref() != Ok("true"), "needs io_uring with sqpoll: {error}");
                eprintln!("skipped: needs io_uring with sqpoll: {error}");
                return;
            }
        };
        assert!(ring.setup_flags().contains(&RingFlag::SqAff));
        // The poller takes its name and its processor when it first runs.
        let (name, deadline) = (format!("iou-sqp-{tid}"), Instant::now() + Duration::from_secs(300));
        while cpus_of(&name) != [cpu.to_string()] && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(cpus_of(&name), [cpu.to_string()]);
        let mut ring = RawRing::new(4, 0, SqPoller::default()).unwrap();
        bind_workers(&ring, &[cpu]).unwrap();
        let mut entry = ring.sq.next(SQE_LEN).cast::<sys::io_uring_sqe>();
        // SAFETY: the entry is zeroed by the kernel, ours and not published.
        let entry = unsafe { entry.as_mut() };
        entry.opcode = sys::io_uring_op::IORING_OP_NOP as u8;
        entry.flags = 1 << sys::io_uring_sqe_flags_bit::IOSQE_ASYNC_BIT as u8;
        ring.sq.advance();
        ring.sq.publish();
        assert_eq!(ring.enter(1, 1, sys::IORING_ENTER_GETEVENTS), Ok(1));
        let workers = cpus_of(&format!("iou-wrk-{tid}"));
        assert!(!workers.is_empty() && workers.iter().all(|cpus| *cpus == cpu.to_string()), "{workers:?}");
    }

    #[test]
    fn what_a_kernel_cannot_register_or_poll_is_refused_with_its_remedy() {
        assert!(require_registrable(1 << 30).is_ok());
        let message = require_registrable((1 << 30) + 4096).unwrap_err().to_string();
        assert!(
            message.contains("1073745920 bytes of buffers") && message.contains("lower iodepth or bs"),
            "{message}"
        );
        assert!(require_unregistered_files(sys::IORING_FEAT_SQPOLL_NONFIXED).is_ok());
        let of_callers = |path: &str| match path.parse() {
            Ok(IoPath::IoUring(modes)) => require_ring_for_callers(modes),
            other => panic!("{other:?}"),
        };
        assert!(of_callers("io_uring/syscall/poll").is_ok());
        for (path, word) in [
            ("io_uring/sqpoll/interrupt", "sqpoll looks"),
            ("io_uring/syscall/interrupt+registered", "+registered keeps"),
        ] {
            let message = of_callers(path).unwrap_err().to_string();
            assert!(message.starts_with(word), "{message}");
        }
        let message = require_unregistered_files(!sys::IORING_FEAT_SQPOLL_NONFIXED).unwrap_err().to_string();
        assert!(message.ends_with("use +registered, or Linux 5.11 or newer"), "{message}");
    }
}
