//! Raw system calls: none of them is a function that this library stands in for. And what a thread holds off.

use iopj_engine::Op;
use std::cell::Cell;
use std::ffi::{CStr, c_int, c_long};

/// A set of signals as the kernel has it: signal n is bit n - 1.
pub(crate) type Signals = u64;

/// Every signal.
const ALL: Signals = !0;

/// A system call; its result, or its errno negated. The thread's errno is as before.
///
/// # Safety
/// As the system call's own.
pub(crate) unsafe fn call(number: c_long, arguments: [usize; 6]) -> isize {
    let [first, second, third, fourth, fifth, sixth] = arguments;
    let before = errno();
    // SAFETY: by this function's condition.
    let result = unsafe { libc::syscall(number, first, second, third, fourth, fifth, sixth) };
    if result >= 0 {
        return result as isize;
    }
    let error = errno();
    set_errno(before);
    -(error as isize)
}

/// The thread's errno.
pub(crate) fn errno() -> c_int {
    // SAFETY: the C library gives the address of this thread's errno, which lives as long as the thread.
    unsafe { *libc::__errno_location() }
}

/// Sets the thread's errno.
pub(crate) fn set_errno(value: c_int) {
    // SAFETY: as in `errno`.
    unsafe { *libc::__errno_location() = value };
}

/// A result as C functions have it: -1 and errno where it is an errno negated.
pub(crate) fn returned(result: isize) -> isize {
    if result >= 0 {
        return result;
    }
    set_errno(-result as c_int);
    -1
}

/// Sets the signals that this thread holds off; returns those that it held off before.
pub(crate) fn hold_off(signals: Signals) -> Signals {
    let mut before: Signals = 0;
    let (new, old) = ((&raw const signals) as usize, (&raw mut before) as usize);
    // SAFETY: the call reads and writes a set of eight bytes each.
    unsafe {
        call(libc::SYS_rt_sigprocmask, [libc::SIG_SETMASK as usize, new, old, size_of::<Signals>(), 0, 0])
    };
    before
}

unsafe extern "C-unwind" {
    /// pthread_setcancelstate(3).
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// `PTHREAD_CANCEL_DISABLE` of pthread.h.
const CANCEL_DISABLE: c_int = 1;

fn set_cancel(state: c_int) -> c_int {
    let mut before = 0;
    // SAFETY: the call writes the state that was.
    unsafe { pthread_setcancelstate(state, &raw mut before) };
    before
}

thread_local! {
    static QUIETS: Cell<u32> = const { Cell::new(0) };
}

/// True while a [`Quiet`] of this thread lives: memory of the library's own may be taken and given back.
pub(crate) fn is_quiet() -> bool {
    QUIETS.get() > 0
}

/// While it lives no handler runs in this thread, and no call that the library makes cancels it. At its end
/// errno is what it was.
pub(crate) struct Quiet {
    /// The signals that were held off before.
    pub(crate) before: Signals,
    cancel: c_int,
    errno: c_int,
}

impl Quiet {
    pub(crate) fn begin() -> Quiet {
        let errno = errno();
        let before = hold_off(ALL);
        QUIETS.set(QUIETS.get() + 1);
        Quiet { before, cancel: set_cancel(CANCEL_DISABLE), errno }
    }
}

impl Drop for Quiet {
    /// Signals come last, because a handler may leave by siglongjmp(3).
    fn drop(&mut self) {
        set_cancel(self.cancel);
        set_errno(self.errno);
        QUIETS.set(QUIETS.get() - 1);
        hold_off(self.before);
    }
}

/// Those of some signals for which the program has a handler.
pub(crate) fn handled(signals: Signals) -> Signals {
    let bits = (1..=64).map(|signal| (signal, 1 << (signal - 1)));
    bits.filter(|(signal, bit)| signals & bit != 0 && has_handler(*signal)).map(|(_, bit)| bit).sum()
}

/// True if a signal has come for which the program has a handler, and which `before` did not hold off: it
/// would have interrupted a wait.
pub(crate) fn is_interrupted(before: Signals) -> bool {
    let mut pending: Signals = 0;
    // SAFETY: the call writes a set of eight bytes.
    unsafe { call(libc::SYS_rt_sigpending, [(&raw mut pending) as usize, size_of::<Signals>(), 0, 0, 0, 0]) };
    handled(pending & !before) != 0
}

/// True if the program handles a signal.
fn has_handler(signal: usize) -> bool {
    // The kernel's `struct sigaction` begins with the handler.
    let mut action = [0_usize; 8];
    let at = action.as_mut_ptr() as usize;
    // SAFETY: the kernel's structure is shorter than what the call may write to.
    let asked = unsafe { call(libc::SYS_rt_sigaction, [signal, 0, at, size_of::<Signals>(), 0, 0]) };
    asked == 0 && ![libc::SIG_DFL, libc::SIG_IGN].contains(&action[0])
}

/// What a descriptor names, and how it is open; none if it is closed.
pub(crate) fn file_status(fd: c_int) -> Option<libc::stat> {
    let mut status = std::mem::MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: the call writes a `struct stat`, which is the kernel's own on 64-bit machines.
    let result = unsafe { call(libc::SYS_fstat, [fd as usize, status.as_mut_ptr() as usize, 0, 0, 0, 0]) };
    // SAFETY: zeroed it is valid, and so it is once the call has written it.
    (result == 0).then(|| unsafe { status.assume_init() })
}

/// The flags of open(2) that a descriptor has; none if it is closed.
pub(crate) fn open_flags(fd: c_int) -> Option<c_int> {
    // SAFETY: the call touches no memory.
    let flags = unsafe { call(libc::SYS_fcntl, [fd as usize, libc::F_GETFL as usize, 0, 0, 0, 0]) };
    (flags >= 0).then_some(flags as c_int)
}

/// Appends `bytes` to a file by one write, and makes it if there is none. Root follows no link to it.
pub(crate) fn append(path: &CStr, bytes: &[u8]) {
    // A pipe that nobody reads, or a line without a carrier, would hold the program up at its end.
    let mut flags =
        libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY;
    // SAFETY: the call takes nothing and cannot fail.
    if unsafe { call(libc::SYS_geteuid, [0; 6]) } == 0 {
        flags |= libc::O_NOFOLLOW;
    }
    let at = libc::AT_FDCWD as usize;
    // SAFETY: the path ends with a zero byte.
    let fd = unsafe { call(libc::SYS_openat, [at, path.as_ptr() as usize, flags as usize, 0o644, 0, 0]) };
    if fd >= 0 {
        // The program did not ask for this write: no limit of a file's size (RLIMIT_FSIZE) ends it.
        let before = hold_off(ALL);
        // SAFETY: the bytes live through the call; the descriptor is ours and is closed once.
        let written = unsafe {
            let written = call(libc::SYS_write, [fd as usize, bytes.as_ptr() as usize, bytes.len(), 0, 0, 0]);
            call(libc::SYS_close, [fd as usize, 0, 0, 0, 0, 0]);
            written
        };
        if written == -(libc::EFBIG as isize) {
            take_pending(1 << (libc::SIGXFSZ - 1));
        }
        hold_off(before);
    }
}

/// Calls `line` with each line of a file, cut where it is longer than half a kibibyte. It takes no memory.
pub(crate) fn for_each_line(path: &CStr, mut line: impl FnMut(&[u8])) {
    let (at, flags) = (libc::AT_FDCWD as usize, (libc::O_RDONLY | libc::O_CLOEXEC) as usize);
    // SAFETY: the path ends with a zero byte.
    let fd = unsafe { call(libc::SYS_openat, [at, path.as_ptr() as usize, flags, 0, 0, 0]) };
    if fd < 0 {
        return;
    }
    let (mut bytes, mut kept, mut len) = ([0_u8; 512], [0_u8; 512], 0);
    loop {
        let to = bytes.as_mut_ptr() as usize;
        // SAFETY: the call writes no more than there is room for.
        let count = unsafe { call(libc::SYS_read, [fd as usize, to, bytes.len(), 0, 0, 0]) };
        for byte in bytes.iter().take(count.max(0) as usize) {
            if *byte == b'\n' {
                line(&kept[..len]);
                len = 0;
            } else if let Some(place) = kept.get_mut(len) {
                *place = *byte;
                len += 1;
            }
        }
        if count <= 0 {
            break;
        }
    }
    // SAFETY: the descriptor is ours and is closed once.
    unsafe { call(libc::SYS_close, [fd as usize, 0, 0, 0, 0, 0]) };
}

/// One read or write that waits; bytes, or an errno negated.
///
/// # Safety
/// The kernel may write to the memory of a read, or read that of a write.
pub(crate) unsafe fn transfer(op: Op, fd: c_int, vectors: &[libc::iovec], offset: u64) -> isize {
    let (number, arguments) = transfer_call(op, fd, vectors, offset);
    // SAFETY: by this function's condition; the vectors live through the call.
    unsafe { call(number, arguments) }
}

/// The system call of a transfer: preadv2(2) or pwritev2(2), with the flag that makes a write durable.
fn transfer_call(op: Op, fd: c_int, vectors: &[libc::iovec], offset: u64) -> (c_long, [usize; 6]) {
    let number = if op == Op::Read { libc::SYS_preadv2 } else { libc::SYS_pwritev2 };
    let flags = match op {
        Op::WriteDsync => libc::RWF_DSYNC,
        Op::WriteSync => libc::RWF_SYNC,
        _ => 0,
    };
    let (at, count) = (vectors.as_ptr() as usize, vectors.len());
    (number, [fd as usize, at, count, offset as usize, 0, flags as usize])
}

/// Says why on standard error, and ends the program.
pub(crate) fn end_program(why: &str) -> ! {
    let text = format!("libiopj_preload.so: {}\n", why.replace('\n', " "));
    // SAFETY: the text lives through the call.
    unsafe { call(libc::SYS_write, [2, text.as_ptr() as usize, text.len(), 0, 0, 0]) };
    std::process::abort();
}

/// Gives the processor to another thread for about `ns` nanoseconds.
pub(crate) fn pause(ns: i64) {
    let time = libc::timespec { tv_sec: 0, tv_nsec: ns };
    // SAFETY: the call reads the time.
    unsafe { call(libc::SYS_nanosleep, [(&raw const time) as usize, 0, 0, 0, 0, 0]) };
}

/// Sleeps until the kernel interrupts this thread, which holds off every signal, or for `ns` nanoseconds.
pub(crate) fn take_interruption(ns: i64) {
    let (none, time): (Signals, _) = (0, libc::timespec { tv_sec: 0, tv_nsec: ns });
    let arguments = [(&raw const none) as usize, 0, (&raw const time) as usize, size_of::<Signals>(), 0, 0];
    // SAFETY: the call reads a set of eight bytes and the time. It waits for no signal.
    unsafe { call(libc::SYS_rt_sigtimedwait, arguments) };
}

/// Takes those of some signals that this thread, which holds them off, has been sent.
pub(crate) fn take_pending(signals: Signals) {
    let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let (set, time) = ((&raw const signals) as usize, (&raw const now) as usize);
    // SAFETY: the call reads a set of eight bytes and the time.
    while unsafe { call(libc::SYS_rt_sigtimedwait, [set, 0, time, size_of::<Signals>(), 0, 0]) } > 0 {}
}

/// The number of this thread.
pub(crate) fn thread_id() -> i32 {
    // SAFETY: the call touches no memory.
    unsafe { call(libc::SYS_gettid, [0; 6]) as i32 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::null_mut;

    #[test]
    fn errors_come_back_negated_and_leave_errno_alone() {
        set_errno(7);
        // SAFETY: the call touches no memory.
        assert_eq!(unsafe { call(libc::SYS_close, [usize::MAX, 0, 0, 0, 0, 0]) }, -libc::EBADF as isize);
        assert_eq!(errno(), 7);
        assert_eq!((returned(3), errno()), (3, 7));
        assert_eq!((returned(-libc::EIO as isize), errno()), (-1, libc::EIO));
        assert!(file_status(-1).is_none() && open_flags(-1).is_none());
    }

    #[test]
    fn only_a_signal_with_a_handler_interrupts() {
        extern "C" fn handler(_: c_int) {}
        let quiet = Quiet::begin();
        let before = quiet.before;
        // SAFETY: the signals are held off in this thread, and go to it alone.
        let raise = |signal| unsafe { libc::raise(signal) };
        assert!(!is_interrupted(before));
        raise(libc::SIGCHLD);
        assert!(!is_interrupted(before), "it is ignored");
        // SAFETY: the handler does nothing.
        unsafe { libc::signal(libc::SIGUSR2, handler as extern "C" fn(c_int) as libc::sighandler_t) };
        raise(libc::SIGUSR2);
        assert!(is_interrupted(before));
        assert!(!is_interrupted(1 << (libc::SIGUSR2 - 1)), "it was held off before");
        drop(quiet);
        assert!(!is_interrupted(before), "the handler has run");
    }

    #[test]
    fn a_write_that_must_be_durable_says_so_to_the_kernel() {
        let vectors = [libc::iovec { iov_base: null_mut(), iov_len: 512 }];
        let flags = |op| {
            let (number, arguments) = transfer_call(op, 7, &vectors, 1024);
            assert_eq!((arguments[0], arguments[2], arguments[3]), (7, 1, 1024));
            (number, arguments[5] as c_int)
        };
        assert_eq!(flags(Op::Read), (libc::SYS_preadv2, 0));
        assert_eq!(flags(Op::Write), (libc::SYS_pwritev2, 0));
        assert_eq!(flags(Op::WriteDsync), (libc::SYS_pwritev2, libc::RWF_DSYNC));
        assert_eq!(flags(Op::WriteSync), (libc::SYS_pwritev2, libc::RWF_SYNC));
    }

    #[test]
    fn lines_are_whole_or_cut() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        std::fs::write(&path, format!("one\n\n{}\nlast\nand no end", "x".repeat(2000))).unwrap();
        let path = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
        let mut lens = Vec::new();
        for_each_line(&path, |line| lens.push(line.len()));
        assert_eq!(lens, [3, 0, 512, 4]);
        for_each_line(c"/no/such/file", |_| panic!("a line"));
    }

    #[test]
    fn what_was_held_off_and_errno_come_back() {
        set_errno(9);
        let first = Quiet::begin();
        set_errno(1);
        let second = Quiet::begin();
        assert_eq!((second.cancel, second.before & 1), (CANCEL_DISABLE, 1));
        drop(second);
        let before = first.before;
        assert!(is_quiet());
        drop(first);
        assert!(!is_quiet());
        assert_eq!((errno(), hold_off(before)), (9, before));
        assert_eq!(set_cancel(0), 0);
    }
}
