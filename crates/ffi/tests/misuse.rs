//! Misuse of the C interface is an error with a text, and proper use gives what the engines give.

use iopj_ffi::*;
use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_void};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{null, null_mut};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PATH: &CStr = c"libaio/syscall/interrupt";
const LEN: u32 = 4096;
const DATA: u64 = 1 << 20;

/// Why the last call failed.
fn why() -> String {
    // SAFETY: the text is this thread's, and no call fails before it is copied.
    unsafe { CStr::from_ptr(iopj_last_error()) }.to_str().unwrap().to_owned()
}

/// The call failed with this code and a text that says this.
#[track_caller]
fn fails(answer: i32, code: i32, text: &str) {
    assert_eq!(answer, code, "{}", why());
    assert_eq!(iopj_last_code(), code);
    assert!(why().contains(text), "{}", why());
}

/// The call that opens a handle failed so.
#[track_caller]
fn opens_none(handle: u64, code: i32, text: &str) {
    assert_eq!(handle, 0);
    fails(iopj_last_code(), code, text);
}

#[track_caller]
fn works(answer: i32) -> i32 {
    assert!(answer >= 0, "{}", why());
    answer
}

#[track_caller]
fn opens(handle: u64) -> u64 {
    assert_ne!(handle, 0, "{}", why());
    handle
}

fn c(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap()
}

/// What a call writes where a pointer is to.
fn written<T>(call: impl FnOnce(*mut T) -> i32) -> T {
    let mut place = MaybeUninit::zeroed();
    works(call(place.as_mut_ptr()));
    // SAFETY: the call has written it, and zeros are values of all these structs of numbers.
    unsafe { place.assume_init() }
}

/// A file that iopj made, with its identity.
fn made(folder: &TempDir) -> (CString, [c_char; IOPJ_FILE_ID_LEN]) {
    let file = c(&folder.path().join("data"));
    let mut id = [0; IOPJ_FILE_ID_LEN];
    // SAFETY: the text ends with a zero byte, and the identity has its place.
    works(unsafe { iopj_make_file(file.as_ptr(), DATA, id.as_mut_ptr()) });
    (file, id)
}

/// Below `target/`, which is on a disk's file system.
fn folder() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// A target that may be written, a pool and an engine over them.
struct Rig {
    folder: TempDir,
    target: u64,
    pool: u64,
    engine: u64,
}

impl Rig {
    fn new(buffers: u32, iodepth: u32) -> Rig {
        let folder = folder();
        let (file, id) = made(&folder);
        // SAFETY: the texts end with a zero byte.
        let target = opens(unsafe { iopj_target_open_made(file.as_ptr(), id.as_ptr()) });
        let pool = opens(iopj_pool_new(buffers, LEN));
        // SAFETY: as above.
        let engine = opens(unsafe { iopj_engine_open(PATH.as_ptr(), target, pool, iodepth) });
        Rig { folder, target, pool, engine }
    }

    fn acquire(&self) -> IopjBuffer {
        // SAFETY: the pointer is to a place for a buffer.
        written(|buffer| unsafe { iopj_buffer_acquire(self.pool, buffer) })
    }

    fn push(&self, op: u32, buffer: u32, offset: u64) -> i32 {
        let request = IopjRequest { op, buffer, len: LEN.into(), offset: (1 << 20) + offset, tag: offset };
        // SAFETY: the request may be read.
        unsafe { iopj_push(self.engine, &request) }
    }

    /// Up to `most` completions, having waited for `min`.
    fn wait(&self, min: u32, most: usize) -> Vec<IopjCompletion> {
        let mut array = vec![IopjCompletion { tag: 0, result: 0, nvme_status: 0, buffer: 0 }; most];
        // SAFETY: the array has that many elements.
        let got = works(unsafe { iopj_wait(self.engine, min, -1, array.as_mut_ptr(), most as u32) });
        array.truncate(got as usize);
        array
    }
}

#[test]
fn what_was_written_is_read() {
    let rig = Rig::new(2, 2);
    // SAFETY: the pointer is to a place for them.
    let info: IopjTargetInfo = written(|info| unsafe { iopj_target_info(rig.target, info) });
    assert_eq!((info.data_offset, info.data_len, info.writable), (1 << 20, DATA, 1));
    let buffer = rig.acquire();
    assert_eq!(buffer.len, LEN);
    // SAFETY: the buffer is ours and has that many bytes.
    unsafe { buffer.bytes.cast::<u8>().write_bytes(0xa5, LEN as usize) };
    works(rig.push(IOPJ_WRITE, buffer.index, 8192));
    let done = rig.wait(1, 4);
    assert_eq!((done.len(), done[0].result, done[0].tag, done[0].buffer), (1, 4096, 8192, buffer.index));
    works(iopj_buffer_release(rig.pool, buffer.index));
    let buffer = rig.acquire();
    // SAFETY: as above.
    unsafe { buffer.bytes.cast::<u8>().write_bytes(0, LEN as usize) };
    works(rig.push(IOPJ_READ, buffer.index, 8192));
    let index = rig.wait(1, 4)[0].buffer;
    // SAFETY: the pointer is to a place for a buffer.
    let read: IopjBuffer = written(|buffer| unsafe { iopj_buffer_get(rig.pool, index, buffer) });
    // SAFETY: the buffer is ours again and has that many bytes.
    let bytes = unsafe { std::slice::from_raw_parts(read.bytes.cast::<u8>(), LEN as usize) };
    assert!(bytes.iter().all(|byte| *byte == 0xa5));
    works(rig.push(IOPJ_FLUSH, 0, 0));
    assert_eq!(rig.wait(1, 4)[0].buffer, IOPJ_NO_BUFFER);
    // SAFETY: the pointer is to a place for them.
    let counters: IopjCounters = written(|place| unsafe { iopj_counters(rig.engine, place) });
    assert!((3..1_000).contains(&counters.system_calls), "{counters:?}");
    assert_eq!([IOPJ_READ, IOPJ_WRITE_ZEROES].map(|op| iopj_supports(rig.engine, op)), [1, 0]);
    works(iopj_engine_close(rig.engine, -1));
    works(iopj_pool_close(rig.pool));
    works(iopj_target_close(rig.target));
}

#[test]
fn a_descriptor_is_readable_once_there_is_a_completion() {
    let rig = Rig::new(1, 1);
    // SAFETY: the pointer is to a place for it.
    let descriptor = |engine| written(|place| unsafe { iopj_descriptor(engine, place) });
    assert_eq!(descriptor(rig.engine), -1, "no event is asked for of libaio");
    let path = c"io_uring/syscall/interrupt";
    // SAFETY: the text ends with a zero byte.
    let engine = unsafe { iopj_engine_open(path.as_ptr(), rig.target, rig.pool, 1) };
    if engine == 0 {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "needs io_uring");
        return eprintln!("skipped: needs io_uring: {}", why());
    }
    let rig = Rig { engine, ..rig };
    let mut readable = libc::pollfd { fd: descriptor(engine), events: libc::POLLIN, revents: 0 };
    // SAFETY: there is one descriptor to look at.
    let mut poll = |timeout_ms| unsafe { libc::poll(&mut readable, 1, timeout_ms) };
    assert_eq!(poll(0), 0);
    works(rig.push(IOPJ_READ, rig.acquire().index, 0));
    works(iopj_submit(engine));
    assert_eq!(poll(60_000), 1);
    let mut one = IopjCompletion { tag: 0, result: 0, nvme_status: 0, buffer: 0 };
    // SAFETY: the array has an element.
    assert_eq!(unsafe { iopj_reap(engine, &mut one, 1) }, 1);
    assert_eq!((one.result, poll(0)), (4096, 0));
}

#[test]
fn a_handle_that_is_not_a_valid_one_is_refused() {
    let rig = Rig::new(1, 1);
    fails(iopj_submit(0), IOPJ_ERROR_HANDLE, "0 is no handle of an engine");
    fails(iopj_submit(rig.pool), IOPJ_ERROR_HANDLE, "is a handle of a pool: pass one of an engine");
    fails(iopj_target_close(rig.engine), IOPJ_ERROR_HANDLE, "is a handle of an engine: pass one of a target");
    fails(iopj_pool_close(rig.target), IOPJ_ERROR_HANDLE, "is a handle of a target: pass one of a pool");
    fails(
        iopj_in_flight(u64::MAX),
        IOPJ_ERROR_HANDLE,
        "is no handle: pass what the call that opens an engine",
    );
    let Rig { engine, pool, .. } = rig;
    let other = std::thread::spawn(move || {
        fails(iopj_submit(engine), IOPJ_ERROR_HANDLE, "belongs to thread");
        fails(iopj_engine_close(engine, 0), IOPJ_ERROR_HANDLE, "use a handle on the thread that opened it");
        fails(iopj_buffer_release(pool, 0), IOPJ_ERROR_HANDLE, "belongs to thread");
        opens(iopj_pool_new(1, LEN))
    });
    let others = other.join().unwrap();
    // Its thread has ended, and closed it.
    fails(iopj_pool_close(others), IOPJ_ERROR_HANDLE, "is a handle of a pool that was closed");
    works(iopj_engine_close(rig.engine, -1));
    fails(iopj_engine_close(rig.engine, -1), IOPJ_ERROR_HANDLE, "is a handle of an engine that was closed");
    // The next one has the same place, and another generation.
    // SAFETY: the text ends with a zero byte.
    let next = opens(unsafe { iopj_engine_open(PATH.as_ptr(), rig.target, rig.pool, 1) });
    assert_ne!(next, rig.engine);
    fails(iopj_in_flight(rig.engine), IOPJ_ERROR_HANDLE, "that was closed");
    assert_eq!(iopj_in_flight(next), 0);
}

#[test]
fn a_buffer_is_with_one_of_them_at_a_time() {
    let rig = Rig::new(2, 2);
    let buffer = rig.acquire().index;
    works(rig.push(IOPJ_READ, buffer, 0));
    fails(rig.push(IOPJ_READ, buffer, 0), IOPJ_ERROR_BUFFER, "is in flight: it is yours again with its");
    fails(iopj_buffer_release(rig.pool, buffer), IOPJ_ERROR_BUFFER, "is in flight");
    let mut place = MaybeUninit::<IopjBuffer>::uninit();
    // SAFETY: the pointer is to a place for a buffer.
    let got = unsafe { iopj_buffer_get(rig.pool, buffer, place.as_mut_ptr()) };
    fails(got, IOPJ_ERROR_BUFFER, "is in flight");
    assert_eq!(rig.wait(1, 1).len(), 1);
    works(iopj_buffer_release(rig.pool, buffer));
    fails(iopj_buffer_release(rig.pool, buffer), IOPJ_ERROR_BUFFER, "is not with you: acquire one");
    fails(rig.push(IOPJ_READ, buffer, 0), IOPJ_ERROR_BUFFER, "is not with you");
    fails(rig.push(IOPJ_READ, 9, 0), IOPJ_ERROR_BUFFER, "there is no buffer 9: the pool has 2 of them");
    let (one, two) = (rig.acquire(), rig.acquire());
    assert_ne!(one.index, two.index);
    // SAFETY: as above.
    let third = unsafe { iopj_buffer_acquire(rig.pool, place.as_mut_ptr()) };
    fails(third, IOPJ_ERROR_NO_BUFFER, "all 2 buffers of the pool are with you or in flight");
}

#[test]
fn a_request_that_is_refused_leaves_its_buffer_with_the_caller() {
    let rig = Rig::new(2, 1);
    let buffer = rig.acquire().index;
    fails(rig.push(IOPJ_READ, buffer, 1), IOPJ_ERROR_REFUSED, "not whole blocks");
    fails(rig.push(77, buffer, 0), IOPJ_ERROR_ARGUMENT, "there is no operation 77");
    for offset in [DATA, DATA - 512, u64::MAX - (1 << 20)] {
        fails(rig.push(IOPJ_WRITE, buffer, offset), IOPJ_ERROR_REFUSED, "stay between its data_offset");
    }
    // The header that makes the file iopj's is not data.
    let header = IopjRequest { op: IOPJ_WRITE, buffer, len: LEN.into(), offset: 0, tag: 0 };
    // SAFETY: the request may be read.
    fails(unsafe { iopj_push(rig.engine, &header) }, IOPJ_ERROR_REFUSED, "stay between its data_offset");
    let long = IopjRequest { len: 8192, offset: 1 << 20, ..header };
    // SAFETY: as above.
    fails(
        unsafe { iopj_push(rig.engine, &long) },
        IOPJ_ERROR_REFUSED,
        "do not fit into a buffer of 4096 bytes",
    );
    // It is still ours: it can be pushed. The engine takes one request.
    works(rig.push(IOPJ_READ, buffer, 0));
    let second = rig.acquire().index;
    fails(rig.push(IOPJ_READ, second, 0), IOPJ_ERROR_FULL, "wait for completions first");
    works(iopj_buffer_release(rig.pool, second));
    assert_eq!(rig.wait(1, 2).len(), 1);
}

#[test]
fn completions_that_do_not_fit_come_with_the_next_call() {
    let rig = Rig::new(5, 5);
    for at in 0..5 {
        works(rig.push(IOPJ_READ, rig.acquire().index, at * 4096));
    }
    assert_eq!(iopj_in_flight(rig.engine), 5);
    let mut tags = Vec::new();
    for left in [3, 1, 0] {
        // The first call waits for all; the others count what is there already.
        let got = rig.wait(if left == 3 { 5 } else { 1 }, 2);
        assert_eq!(got.len(), if left == 0 { 1 } else { 2 });
        assert_eq!(iopj_in_flight(rig.engine), left);
        tags.extend(got.iter().map(|completion| completion.tag));
    }
    tags.sort_unstable();
    assert_eq!(tags, [0, 4096, 8192, 12288, 16384]);
    let mut one = IopjCompletion { tag: 0, result: 0, nvme_status: 0, buffer: 0 };
    // SAFETY: the array has an element, and none of it may be used.
    let none = unsafe { iopj_reap(rig.engine, &mut one, 0) };
    fails(none, IOPJ_ERROR_ARGUMENT, "`capacity` is 0");
    // SAFETY: the array has an element.
    assert_eq!(unsafe { iopj_reap(rig.engine, &mut one, 1) }, 0);
    // With a request in flight and an array of one, a completion that is not fetched is lost with its engine.
    for buffer in [0, 1] {
        works(rig.push(IOPJ_READ, buffer, 0));
    }
    assert_eq!(rig.wait(2, 1).len(), 1);
    works(iopj_engine_close(rig.engine, -1));
    // SAFETY: the pointer is to a place for it.
    let info: IopjPoolInfo = written(|info| unsafe { iopj_pool_info(rig.pool, info) });
    assert_eq!((info.count, info.available), (5, 1), "four are with the caller");
}

#[test]
fn null_is_an_error_everywhere() {
    let rig = Rig::new(1, 1);
    let null_of = |name: &str| format!("`{name}` is NULL");
    // SAFETY: NULL is what these functions must take.
    unsafe {
        opens_none(iopj_target_open(null()), IOPJ_ERROR_ARGUMENT, &null_of("file"));
        opens_none(iopj_target_open_made(c"x".as_ptr(), null()), IOPJ_ERROR_ARGUMENT, &null_of("id"));
        opens_none(
            iopj_target_open_device(c"x".as_ptr(), null(), 0),
            IOPJ_ERROR_ARGUMENT,
            &null_of("destroy"),
        );
        opens_none(iopj_pool_adopt(null_mut(), 4096, 1, LEN), IOPJ_ERROR_ARGUMENT, &null_of("base"));
        opens_none(iopj_engine_open(null(), rig.target, rig.pool, 1), IOPJ_ERROR_ARGUMENT, &null_of("path"));
        let engine = rig.engine;
        let is_null = |answer, name| fails(answer, IOPJ_ERROR_ARGUMENT, &null_of(name));
        is_null(iopj_make_file(null(), 4096, null_mut()), "file");
        is_null(iopj_make_file(c"/nowhere/x".as_ptr(), 4096, null_mut()), "id");
        is_null(iopj_target_info(rig.target, null_mut()), "info");
        is_null(iopj_check(null(), rig.target, null_mut()), "availability");
        is_null(iopj_pool_info(rig.pool, null_mut()), "info");
        is_null(iopj_buffer_acquire(rig.pool, null_mut()), "buffer");
        is_null(iopj_push(engine, null()), "request");
        is_null(iopj_reap(engine, null_mut(), 1), "completions");
        is_null(iopj_wait(engine, 0, 0, null_mut(), 1), "completions");
        is_null(iopj_descriptor(engine, null_mut()), "descriptor");
        is_null(iopj_counters(engine, null_mut()), "counters");
        // No buffer was lost by it.
        let buffer = rig.acquire().index;
        fails(iopj_buffer_get(rig.pool, buffer, null_mut()), IOPJ_ERROR_ARGUMENT, &null_of("buffer"));
    }
}

#[test]
fn nothing_is_written_that_is_not_named_for_it() {
    let folder = folder();
    let (file, id) = made(&folder);
    let file = file.as_ptr();
    // SAFETY: the texts end with a zero byte.
    unsafe {
        opens_none(iopj_target_open_made(file, c"0".as_ptr()), IOPJ_ERROR_ARGUMENT, "32 hexadecimal digits");
        let other = c"00000000000000000000000000000000".as_ptr();
        opens_none(iopj_target_open_made(file, other), IOPJ_ERROR_TARGET, "was not made by iopj");
        opens_none(iopj_target_open_device(file, file, 0), IOPJ_ERROR_TARGET, "is a file");
        opens_none(iopj_target_open_device(file, file, 2), IOPJ_ERROR_ARGUMENT, "`i_know` is 2");
        let target = opens(iopj_target_open(file));
        let info: IopjTargetInfo = written(|info| iopj_target_info(target, info));
        assert_eq!((info.writable, CStr::from_ptr(info.file_id.as_ptr())), (0, CStr::from_ptr(id.as_ptr())));
        // The kernel refuses a write to what was opened for reading.
        let pool = opens(iopj_pool_new(1, LEN));
        let engine = opens(iopj_engine_open(PATH.as_ptr(), target, pool, 1));
        written::<IopjBuffer>(|buffer| iopj_buffer_acquire(pool, buffer));
        let write = IopjRequest { op: IOPJ_WRITE, buffer: 0, len: 4096, offset: 1 << 20, tag: 0 };
        works(iopj_push(engine, &write));
        let mut end = IopjCompletion { tag: 0, result: 0, nvme_status: 0, buffer: 0 };
        assert_eq!(iopj_wait(engine, 1, -1, &mut end, 1), 1);
        assert_eq!((end.result, end.buffer), (-i64::from(libc::EBADF), 0));
    }
}

#[test]
fn a_path_works_or_has_a_reason_and_a_remedy() {
    let rig = Rig::new(1, 1);
    // SAFETY: the texts end with a zero byte, and the pointer is to a place for it.
    let check = |path: &CStr| unsafe { written(|found| iopj_check(path.as_ptr(), rig.target, found)) };
    // SAFETY: the texts are valid until the next check.
    let text = |text: *const c_char| unsafe { CStr::from_ptr(text) }.to_str().unwrap().to_owned();
    let found: IopjAvailability = check(PATH);
    assert_eq!((found.available, text(found.reason), text(found.remedy)), (1, String::new(), String::new()));
    let found = check(c"nvme-passthrough/syscall/interrupt");
    assert_eq!(found.available, 0);
    assert!(text(found.reason).contains("not the character device"), "{}", text(found.reason));
    assert!(text(found.remedy).contains("/dev/ng"), "{}", text(found.remedy));
    for path in [c"libaio/sqpoll/interrupt", c"\xff"] {
        let mut found = MaybeUninit::uninit();
        // SAFETY: as above.
        let answer = unsafe { iopj_check(path.as_ptr(), rig.target, found.as_mut_ptr()) };
        fails(answer, IOPJ_ERROR_ARGUMENT, if path == c"\xff" { "UTF-8" } else { "no submission `sqpoll`" });
    }
    // SAFETY: as above.
    let deep = unsafe { iopj_engine_open(PATH.as_ptr(), rig.target, rig.pool, 1 << 20) };
    opens_none(deep, IOPJ_ERROR_ENGINE, "is not between 1 and 32768");
}

#[test]
fn the_callers_memory_is_in_use_until_its_pool_is_closed() {
    let rig = Rig::new(1, 1);
    let layout = std::alloc::Layout::from_size_align(3 * 4096, 4096).unwrap();
    // SAFETY: the layout is not empty.
    let base = unsafe { std::alloc::alloc_zeroed(layout) }.cast::<c_void>();
    // SAFETY: the memory is nobody else's until the pools are closed; a pool that is refused uses none.
    let adopt = |at: usize, len, count| unsafe { iopj_pool_adopt(base.byte_add(at), len, count, LEN) };
    opens_none(adopt(512, 4096, 1), IOPJ_ERROR_POOL, "must be multiples of 4096");
    opens_none(adopt(0, 8192, 3), IOPJ_ERROR_POOL, "the region has no 12288 bytes");
    opens_none(adopt(0, usize::MAX - 4095, 1), IOPJ_ERROR_ARGUMENT, "past the end of all memory");
    let pool = opens(adopt(0, 8192, 2));
    // SAFETY: the text ends with a zero byte.
    let engine = opens(unsafe { iopj_engine_open(PATH.as_ptr(), rig.target, pool, 1) });
    // SAFETY: the pointer is to a place for a buffer.
    let buffer: IopjBuffer = written(|buffer| unsafe { iopj_buffer_acquire(pool, buffer) });
    assert_eq!(buffer.bytes, base);
    fails(iopj_pool_close(pool), IOPJ_ERROR_BUSY, "1 engines over the pool are open: close them first");
    works(iopj_target_close(rig.target));
    works(iopj_engine_close(engine, 0));
    works(iopj_pool_close(pool));
    // SAFETY: the pool was closed, and said that nothing uses its memory.
    unsafe { std::alloc::dealloc(base.cast(), layout) };
}

/// A policy for the fewest joules.
const POLICY: &str = r#"
aim = "ios_per_joule"
[[cell]]
op = "read"
size = 4096
in_flight = 1
ways = [{ way = "io_uring/syscall/interrupt", joules = 0.001 }]
"#;

/// A meter that counts how often it is asked.
unsafe extern "C" fn counts(context: *mut c_void) -> f64 {
    // SAFETY: the context is the test's cell, which outlives the engine.
    let asked = unsafe { &*context.cast::<Cell<u32>>() };
    asked.set(asked.get() + 1);
    f64::from(asked.get())
}

#[test]
fn a_meter_of_the_callers_is_asked_where_joules_count() {
    let mut rig = Rig::new(1, 1);
    let policy = rig.folder.path().join("p.toml");
    std::fs::write(&policy, POLICY).unwrap();
    let policy = c(&policy);
    let asked = Cell::new(0u32);
    let context = std::ptr::from_ref(&asked).cast_mut().cast();
    works(iopj_engine_close(rig.engine, -1));
    let open = |meter| {
        // SAFETY: the text ends with a zero byte, and the cell outlives the engine.
        unsafe { iopj_auto_open_metered(policy.as_ptr(), rig.target, rig.pool, 1, meter, context) }
    };
    opens_none(open(None), IOPJ_ERROR_ARGUMENT, "`meter` is NULL");
    rig.engine = opens(open(Some(counts)));
    let until = Instant::now() + Duration::from_secs(60);
    while asked.get() < 2 && Instant::now() < until {
        let buffer = rig.acquire().index;
        works(rig.push(IOPJ_READ, buffer, 0));
        assert_eq!(rig.wait(1, 1)[0].result, i64::from(LEN));
        works(iopj_buffer_release(rig.pool, buffer));
    }
    assert_eq!(asked.get(), 2);
    works(iopj_engine_close(rig.engine, -1));
}

#[test]
fn a_thread_that_ends_closes_what_it_left_open() {
    let ended = std::thread::spawn(|| {
        let rig = Rig::new(4, 4);
        for at in 0..4 {
            works(rig.push(IOPJ_READ, rig.acquire().index, at * 4096));
        }
        works(iopj_submit(rig.engine));
        (rig.engine, rig.pool, rig.target)
    });
    let (engine, pool, target) = ended.join().unwrap();
    fails(iopj_submit(engine), IOPJ_ERROR_HANDLE, "that was closed");
    fails(iopj_pool_close(pool), IOPJ_ERROR_HANDLE, "that was closed");
    fails(iopj_target_close(target), IOPJ_ERROR_HANDLE, "that was closed");
}
