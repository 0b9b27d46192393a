//! The ways that an adaptive engine chooses among.

use super::{
    CompletionMode, IoPath, Ring, RingCompletion, RingSubmission, SioCompletion, Sleep, Spin, UserCompletion,
};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What the text of [`Way::SleepPoll`] adds to that of the polled ring.
const SLEEP: &str = "+sleep";

/// One way to do an I/O. Those of the kernel and those of a drive that was taken never meet in one engine.
///
/// Its text form is that of its path; [`Way::SleepPoll`], which is no path of the kernel's, is
/// `io_uring/syscall/poll+sleep`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Way {
    /// A ring whose completions come by interrupt: the fallback on a target of the kernel's.
    Interrupt,
    /// A ring that the kernel polls.
    Poll,
    /// A ring for which the kernel sleeps, then polls.
    Hybrid,
    /// The polled ring, before whose polling this process sleeps.
    SleepPoll,
    /// A ring whose submissions a thread of the kernel's polls, with interrupts.
    Sqpoll,
    /// One system call an I/O; only where nothing else is in flight.
    Sio,
    /// The driver in this process, by interrupt: the fallback on a drive that was taken.
    UserInterrupt,
    /// The driver in this process, polling.
    UserPoll,
    /// The driver in this process, sleeping, then polling.
    UserHybrid,
}

impl Way {
    /// Every way.
    pub const ALL: [Way; Way::COUNT] = [
        Way::Interrupt,
        Way::Poll,
        Way::Hybrid,
        Way::SleepPoll,
        Way::Sqpoll,
        Way::Sio,
        Way::UserInterrupt,
        Way::UserPoll,
        Way::UserHybrid,
    ];

    /// How many there are.
    pub const COUNT: usize = 9;

    /// The path whose engine does it.
    pub fn path(self) -> IoPath {
        let ring = |completion| IoPath::IoUring(Ring { completion, ..Ring::PLAIN });
        match self {
            Way::Interrupt => ring(RingCompletion::Interrupt),
            Way::Poll | Way::SleepPoll => ring(RingCompletion::Poll),
            Way::Hybrid => ring(RingCompletion::Hybrid),
            Way::Sqpoll => IoPath::IoUring(Ring {
                submission: RingSubmission::Sqpoll { kernel_wait: false },
                ..Ring::PLAIN
            }),
            Way::Sio => IoPath::PosixSio(SioCompletion::Interrupt),
            Way::UserInterrupt | Way::UserPoll | Way::UserHybrid => IoPath::NvmeUser(self.user_completion()),
        }
    }

    /// How its completions are found.
    pub fn completion(self) -> CompletionMode {
        if self == Way::SleepPoll { CompletionMode::Hybrid } else { self.path().completion() }
    }

    /// How the driver in this process waits on this way; polling, for those that are not its own.
    pub fn user_completion(self) -> UserCompletion {
        match self {
            Way::UserInterrupt => UserCompletion::Interrupt,
            Way::UserHybrid => UserCompletion::Hybrid(Sleep::Auto, Spin::Tight),
            _ => UserCompletion::Poll(Spin::Tight),
        }
    }

    /// True for those of a drive that was taken from the kernel's driver.
    pub fn is_bypass(self) -> bool {
        matches!(self, Way::UserInterrupt | Way::UserPoll | Way::UserHybrid)
    }

    /// The way that everything falls back to, on a drive that was taken or on a target of the kernel's.
    pub fn fallback(is_bypass: bool) -> Way {
        if is_bypass { Way::UserInterrupt } else { Way::Interrupt }
    }

    /// True if a processor has nothing else to do while an I/O is waited for: where threads wait for
    /// processors, such a way takes from them what it gains.
    pub fn spins(self) -> bool {
        matches!(self, Way::Poll | Way::Sqpoll | Way::UserPoll)
    }

    /// True if completions must be asked for: nobody may sleep elsewhere while it has requests.
    pub fn must_be_asked(self) -> bool {
        !matches!(self, Way::Interrupt | Way::Sio | Way::UserInterrupt)
    }

    /// True if the kernel or the target may come to refuse it for what another way can do, such as polling.
    pub fn may_refuse(self) -> bool {
        matches!(self, Way::Poll | Way::Hybrid | Way::SleepPoll | Way::Sqpoll)
    }

    /// True if a thread of the kernel's spins beside the caller, whose time the caller's clock does not show.
    pub fn has_poller(self) -> bool {
        self == Way::Sqpoll
    }

    /// Processors that it keeps busy, if it spins.
    pub fn busy_processors(self) -> f64 {
        if self.has_poller() { 2.0 } else { 1.0 }
    }

    /// Its place in [`Way::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path())?;
        if *self == Way::SleepPoll { f.write_str(SLEEP) } else { Ok(()) }
    }
}

/// A text that names no way.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no way that can be chosen: one of {}", names())]
pub struct ParseWayError {
    text: String,
}

fn names() -> String {
    Way::ALL.map(|way| way.to_string()).join(", ")
}

impl FromStr for Way {
    type Err = ParseWayError;

    fn from_str(text: &str) -> Result<Way, ParseWayError> {
        let is_this = |way: &Way| way.to_string() == text;
        Way::ALL.into_iter().find(is_this).ok_or_else(|| ParseWayError { text: text.to_owned() })
    }
}

impl From<Way> for String {
    fn from(way: Way) -> String {
        way.to_string()
    }
}

impl TryFrom<String> for Way {
    type Error = ParseWayError;

    fn try_from(text: String) -> Result<Way, ParseWayError> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_is_written_as_its_path_and_read_back() {
        assert_eq!(Way::Sqpoll.to_string(), "io_uring/sqpoll/interrupt");
        assert_eq!(Way::SleepPoll.to_string(), "io_uring/syscall/poll+sleep");
        for (number, way) in Way::ALL.into_iter().enumerate() {
            assert_eq!((way.to_string().parse(), way.index()), (Ok(way), number));
            assert_eq!(way.path().is_bypass(), way.is_bypass(), "{way}");
        }
        let error = "libaio/syscall/interrupt".parse::<Way>().unwrap_err().to_string();
        assert!(error.starts_with("`libaio/syscall/interrupt` is no way"), "{error}");
    }
}
