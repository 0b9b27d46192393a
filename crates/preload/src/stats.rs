//! What was moved, and what was not and why: counted, and written as one line of JSON when a process ends.

use iopj_auto::Way;
use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The interface by which a program asked for an I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interface {
    PosixSio,
    Libaio,
    PosixAio,
}

const INTERFACES: [&str; 3] = ["posix-sio", "libaio", "posix-aio"];

/// Defines the reasons with their names in the file.
macro_rules! reasons {
    ($($(#[$doc:meta])* $reason:ident = $name:literal,)*) => {
        /// Why a call was passed through.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Reason { $($(#[$doc])* $reason,)* }

        const REASONS: &[&str] = &[$($name,)*];
    };
}

reasons! {
    /// The descriptor has not O_DIRECT.
    Buffered = "buffered",
    /// Neither a regular file nor a block device.
    NotAFile = "not_a_file",
    /// It is not open, or not for this.
    NotOpen = "not_open",
    /// O_APPEND or O_NONBLOCK.
    OpenFlags = "open_flags",
    /// Address, length or offset are not multiples of 512.
    Unaligned = "unaligned",
    /// Nothing, or more than a gibibyte.
    Length = "length",
    /// More vectors than are moved, or vectors that cannot be read.
    Vectors = "vectors",
    /// The call has flags that are not moved.
    CallFlags = "call_flags",
    /// An operation that is neither a read nor a write.
    Operation = "operation",
    /// The program is to be notified by a signal, a thread or a descriptor.
    Notified = "notified",
    /// Several threads use a context, or each other's control blocks.
    Shared = "shared",
    /// The first of a context, or of POSIX AIO: whether one thread alone uses them is seen there.
    Trial = "trial",
    /// As many are in flight as the engine takes.
    Full = "full",
    /// The first calls of a thread on a descriptor.
    WarmUp = "warm_up",
    /// The call came from within the library.
    Nested = "nested",
    /// The thread holds off more signals than it usually does, as in a signal handler.
    SignalHandler = "signal_handler",
    /// The thread holds off the signal by which others would ask for what it has in flight.
    Unreachable = "unreachable",
    /// glibc has an I/O on the same place, which comes first.
    Overlap = "overlap",
    /// The thread is ending.
    ThreadEnds = "thread_ends",
    /// There are as many engines as may be.
    Engines = "engines",
    /// The thread has not room enough on its stack, or another stack than it was made with.
    Stack = "stack",
    /// No engine could be opened.
    NoEngine = "no_engine",
    /// Files may not grow over a limit (RLIMIT_FSIZE), about which a signal tells.
    SizeLimit = "size_limit",
    /// The engine refused it, or it must be done again.
    Refused = "refused",
}

struct Counter(AtomicU64);

impl Counter {
    const fn new() -> Counter {
        Counter(AtomicU64::new(0))
    }

    fn add(&self, number: u64) {
        self.0.fetch_add(number, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

static CALLS: [Counter; INTERFACES.len()] = [const { Counter::new() }; INTERFACES.len()];
static BYTES: [Counter; INTERFACES.len()] = [const { Counter::new() }; INTERFACES.len()];
static PASSED: [Counter; REASONS.len()] = [const { Counter::new() }; REASONS.len()];
static WAYS: [Counter; Way::COUNT] = [const { Counter::new() }; Way::COUNT];
static COPIED: Counter = Counter::new();
static OPENED: Counter = Counter::new();
static FAILED: Counter = Counter::new();
static SWITCHES: Counter = Counter::new();
/// Why an engine could not be opened, or failed, the latest.
static ERROR: Mutex<String> = Mutex::new(String::new());

/// Counts a call that was moved, and its bytes.
pub(crate) fn moved(interface: Interface, bytes: u64) {
    CALLS[interface as usize].add(1);
    BYTES[interface as usize].add(bytes);
}

/// Counts a call that was passed through.
pub(crate) fn passed(reason: Reason) {
    PASSED[reason as usize].add(1);
}

/// Counts bytes whose buffer was not where the program has it.
pub(crate) fn copied(bytes: u64) {
    COPIED.add(bytes);
}

/// Counts an engine that was opened.
pub(crate) fn opened() {
    OPENED.add(1);
}

/// Counts an engine that could not be opened, or that failed.
pub(crate) fn failed(error: &str) {
    FAILED.add(1);
    if let Ok(mut latest) = ERROR.try_lock() {
        latest.clear();
        latest.push_str(error);
    }
}

/// Counts what an adaptive engine did: I/Os by way, and switches.
pub(crate) fn routed(by_way: &[u64; Way::COUNT], switches: u64) {
    WAYS.iter().zip(by_way).for_each(|(counter, ios)| counter.add(*ios));
    SWITCHES.add(switches);
}

/// Begins anew, in a forked child.
pub(crate) fn reset() {
    let single = [&COPIED, &OPENED, &FAILED, &SWITCHES];
    let all = CALLS.iter().chain(&BYTES).chain(&PASSED).chain(&WAYS).chain(single);
    all.for_each(|counter| counter.0.store(0, Ordering::Relaxed));
}

/// Everything as one line of JSON.
pub(crate) fn line(program: &str) -> String {
    let mut text = format!("{{\"pid\":{},\"program\":{},\"moved\":{{", std::process::id(), quoted(program));
    let mut comma = "";
    for (number, name) in INTERFACES.iter().enumerate() {
        let (calls, bytes) = (CALLS[number].get(), BYTES[number].get());
        let _ = write!(text, "{comma}\"{name}\":{{\"calls\":{calls},\"bytes\":{bytes}}}");
        comma = ",";
    }
    text.push_str("},\"ways\":{");
    let names = Way::ALL.map(|way| way.to_string());
    members(&mut text, names.iter().map(String::as_str).zip(&WAYS));
    text.push_str("},\"passed\":{");
    members(&mut text, REASONS.iter().copied().zip(&PASSED));
    let error = ERROR.try_lock().map_or_else(|_| String::new(), |error| error.clone());
    let _ = writeln!(
        text,
        "}},\"bytes_copied\":{},\"switches\":{},\"engines_opened\":{},\"engines_failed\":{},\"error\":{}}}",
        COPIED.get(),
        SWITCHES.get(),
        OPENED.get(),
        FAILED.get(),
        if error.is_empty() { "null".to_owned() } else { quoted(&error) }
    );
    text
}

/// The counters above zero.
fn members<'a>(text: &mut String, counters: impl Iterator<Item = (&'a str, &'a Counter)>) {
    let mut comma = "";
    for (name, counter) in counters.filter(|(_, counter)| counter.get() > 0) {
        let _ = write!(text, "{comma}\"{name}\":{}", counter.get());
        comma = ",";
    }
}

/// A string of JSON (RFC 8259, section 7).
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            ' '..='~' => quoted.push(c),
            // What a terminal obeys, or shows in another order, is not in a file that people look at.
            c => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| {
                let _ = write!(quoted, "\\u{unit:04x}");
            }),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_line_is_json_with_every_count() {
        moved(Interface::Libaio, 4096);
        moved(Interface::Libaio, 512);
        passed(Reason::Buffered);
        routed(&std::array::from_fn(|way| way as u64), 3);
        copied(0);
        opened();
        failed("no \"ring\"");
        let text = line("a\tprogram");
        assert!(text.ends_with("}\n") && text.matches('\n').count() == 1, "{text}");
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["program"], "a\tprogram");
        assert_eq!(
            (&json["moved"]["libaio"]["calls"], &json["moved"]["libaio"]["bytes"]),
            (&2.into(), &4608.into())
        );
        assert_eq!(
            (&json["passed"]["buffered"], &json["passed"]["full"]),
            (&1.into(), &serde_json::Value::Null)
        );
        assert_eq!((&json["ways"]["io_uring/syscall/poll"], &json["switches"]), (&1.into(), &3.into()));
        assert_eq!((&json["bytes_copied"], &json["engines_opened"]), (&0.into(), &1.into()));
        assert_eq!((&json["engines_failed"], &json["error"]), (&1.into(), &"no \"ring\"".into()));
        reset();
        let json: serde_json::Value = serde_json::from_str(&line("x")).unwrap();
        assert_eq!(
            (&json["moved"]["libaio"]["calls"], &json["passed"]["buffered"]),
            (&0.into(), &serde_json::Value::Null)
        );
    }

    proptest! {
        #[test]
        fn any_text_is_quoted(text in ".*") {
            let quoted = quoted(&text);
            prop_assert!(quoted.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{}", quoted);
            prop_assert_eq!(serde_json::from_str::<String>(&quoted).unwrap(), text);
        }
    }
}
