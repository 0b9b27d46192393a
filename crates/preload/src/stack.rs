//! How much room a thread has on its stack: a program may give its threads no more than its own calls need.

use crate::sys;
use std::cell::Cell;
use std::ffi::c_void;

/// What opening an engine takes, without optimization.
pub(crate) const TO_OPEN: usize = 256 << 10;
/// What a call takes.
pub(crate) const TO_CALL: usize = 128 << 10;

thread_local! {
    /// The lowest address of the stack and the first behind it, once it was asked; both 0 until then.
    static BOUNDS: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
    static MAY_ASK: Cell<bool> = const { Cell::new(true) };
}

/// Whether [`has_room`] may ask the C library, which allocates: in a signal handler it may find the program
/// in its allocator. Otherwise the kernel is asked.
pub(crate) fn may_ask(may: bool) {
    MAY_ASK.set(may);
}

/// True if the thread has so many bytes left. On a stack of another making, as coroutines have, it has none.
pub(crate) fn has_room(bytes: usize) -> bool {
    let here = 0_u8;
    let place = (&raw const here).addr();
    let (mut low, mut high) = BOUNDS.get();
    if high == 0 {
        let known = if MAY_ASK.get() { ask() } else { ask_kernel() };
        (low, high) = known.unwrap_or((1, 1));
        BOUNDS.set((low, high));
    }
    (low..high).contains(&place) && place - low >= bytes
}

/// The stack that the thread was made with (pthread_getattr_np(3)).
fn ask() -> Option<(usize, usize)> {
    let (mut low, mut len): (*mut c_void, usize) = (std::ptr::null_mut(), 0);
    // SAFETY: the attributes are written by the first call before the others read them.
    unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        if libc::pthread_getattr_np(libc::pthread_self(), &raw mut attributes) != 0 {
            return None;
        }
        libc::pthread_attr_getstack(&raw const attributes, &raw mut low, &raw mut len);
        libc::pthread_attr_destroy(&raw mut attributes);
    }
    Some((low.addr(), low.addr() + len))
}

/// A line of `/proc/self/maps` (proc_pid_maps(5)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Mapping {
    low: usize,
    high: usize,
    /// Nobody may read it: below a stack, its guard.
    is_guard: bool,
    /// It is the stack of the first thread, which grows.
    grows: bool,
}

impl Mapping {
    fn of(line: &[u8]) -> Option<Mapping> {
        let line = str::from_utf8(line).ok()?;
        let (range, rest) = line.split_once(' ')?;
        let (low, high) = range.split_once('-')?;
        let number = |text| usize::from_str_radix(text, 16).ok();
        let (low, high) = (number(low)?, number(high)?);
        Some(Mapping { low, high, is_guard: rest.starts_with("---"), grows: rest.ends_with("[stack]") })
    }

    /// Its bounds as a stack, if its lower end can be seen. The C library has what belongs to a thread at
    /// `thread`, the end of the stack that it has made.
    fn stack(&self, below: &Mapping, thread: usize, most: usize) -> Option<(usize, usize)> {
        const GAP: usize = 1 << 20;
        const OF_THREAD: usize = 16 << 10;
        if self.grows {
            let low = self.high.saturating_sub(most).max(below.high + GAP).min(self.low);
            return Some((low, self.high));
        }
        let is_made = thread < self.high && thread + OF_THREAD >= self.high;
        (is_made && below.is_guard && below.high == self.low).then_some((self.low, self.high))
    }
}

/// As [`ask`], without memory: the stack of the first thread, or one that the C library has made.
fn ask_kernel() -> Option<(usize, usize)> {
    let is_first = sys::thread_id() as u32 == std::process::id();
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the call writes the limit; the other touches no memory of ours.
    let thread = unsafe {
        libc::getrlimit(libc::RLIMIT_STACK, &raw mut limit);
        libc::pthread_self() as usize
    };
    let (mut below, mut found) = (Mapping::default(), None);
    sys::for_each_line(c"/proc/self/maps", |line| {
        if let Some(mapping) = Mapping::of(line) {
            let is_it = if is_first { mapping.grows } else { (mapping.low..mapping.high).contains(&thread) };
            if is_it {
                found = mapping.stack(&below, thread, limit.rlim_cur as usize);
            }
            below = mapping;
        }
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_says_what_the_c_library_says() {
        let of = |len| {
            let both = || (ask().unwrap(), ask_kernel().unwrap());
            let (ours, kernels) =
                std::thread::Builder::new().stack_size(len).spawn(both).unwrap().join().unwrap();
            assert!(kernels.0 >= ours.0 && kernels.0 - ours.0 <= 64 << 10, "{ours:x?} {kernels:x?}");
            assert!(kernels.1.abs_diff(ours.1) <= 64 << 10, "{ours:x?} {kernels:x?}");
        };
        of(1 << 20);
        of(100 << 10);
    }

    #[test]
    fn a_mapping_is_a_stack_if_its_lower_end_can_be_seen() {
        let of = |line: &str| Mapping::of(line.as_bytes()).unwrap();
        let guard = of("7000-8000 ---p 00000000 00:00 0 ");
        let stack = of("8000-20000 rw-p 00000000 00:00 0 ");
        assert_eq!(stack.stack(&guard, 0x1f000, 0), Some((0x8000, 0x20000)));
        assert_eq!(stack.stack(&guard, 0x9000, 0), None, "a part of something else");
        assert_eq!(stack.stack(&Mapping { is_guard: false, ..guard }, 0x1f000, 0), None);
        assert_eq!(stack.stack(&Mapping { high: 0x7000, ..guard }, 0x1f000, 0), None);
        let first = of("70000000-70021000 rw-p 00000000 00:00 0                          [stack]");
        assert_eq!(first.stack(&guard, 0, 8 << 20), Some((0x7002_1000 - (8 << 20), 0x7002_1000)));
        let below = Mapping { high: 0x6fff_0000, ..guard };
        assert_eq!(first.stack(&below, 0, 8 << 20), Some((0x7000_0000, 0x7002_1000)), "no more room");
        assert_eq!(first.stack(&guard, 0, usize::MAX), Some((0x8000 + (1 << 20), 0x7002_1000)));
        assert!(Mapping::of(b"").is_none() && Mapping::of(b"7000-x rw-p").is_none());
    }

    #[test]
    fn a_thread_has_what_it_was_made_with() {
        let of = |len| {
            std::thread::Builder::new()
                .stack_size(len)
                .spawn(|| (has_room(TO_CALL / 2), has_room(TO_OPEN), has_room(usize::MAX)))
                .unwrap()
                .join()
                .unwrap()
        };
        assert_eq!((of(1 << 20), of(128 << 10)), ((true, true, false), (true, false, false)));
    }
}
