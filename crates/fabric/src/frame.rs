//! The protocol between a host and its agent: lines of JSON, each with the session that it belongs to.
//!
//! The host begins with `hello` and the version that it speaks; the agent answers with its own version and
//! what machine it is on. Both sides send a beat every second, also while a long question is being answered.
//! A side that hears nothing for ten seconds gives the other up: the agent then puts everything back.

use iopj_host::settings::Uuid;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::{self, BufRead, Read};
use std::time::Duration;

/// The version of the protocol. Two sides must speak the same.
pub const VERSION: u32 = 2;
/// How often a side lets itself be heard.
pub const BEAT: Duration = Duration::from_millis(if cfg!(test) { 100 } else { 1000 });
/// After how long a silent side is given up.
pub const SILENCE: Duration = Duration::from_secs(if cfg!(test) { 5 } else { 10 });
/// The longest line: a trial with its histograms and its profile.
pub const LONGEST: u64 = 64 << 20;

/// What a host sends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToAgent {
    /// The first line of a session.
    Hello {
        /// The session that begins.
        session: Uuid,
        /// [`VERSION`] of the host.
        version: u32,
    },
    /// The host lives.
    Beat {
        /// The session.
        session: Uuid,
    },
    /// The session ends: everything is put back at once.
    Bye {
        /// The session.
        session: Uuid,
    },
    /// A question.
    Ask {
        /// The session.
        session: Uuid,
        /// Its number in the session.
        id: u64,
        /// What is asked.
        ask: Value,
    },
    /// A question's answer is not needed any more: it is to end soon.
    Stop {
        /// The session.
        session: Uuid,
        /// The question's number.
        id: u64,
    },
}

/// What an agent sends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToHost {
    /// The answer to `hello`.
    Hello {
        /// The session.
        session: Uuid,
        /// Who answers.
        hello: Hello,
    },
    /// The agent lives.
    Beat {
        /// The session.
        session: Uuid,
    },
    /// The answer to a question.
    Answer {
        /// The session.
        session: Uuid,
        /// The question's number.
        id: u64,
        /// The answer, or why there is none.
        answer: Result<Value, String>,
    },
    /// The progress of a long question, for the user.
    Note {
        /// The session.
        session: Uuid,
        /// A line.
        text: String,
    },
}

/// Who an agent is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`VERSION`] of the agent.
    pub version: u32,
    /// The version of its iopj.
    pub iopj: String,
    /// The processor that it was built for: `x86_64`, `aarch64`.
    pub architecture: String,
    /// The machine's name.
    pub host: String,
    /// The kernel's release.
    pub kernel: String,
    /// Its process there.
    #[serde(default)]
    pub pid: u32,
    /// It runs as root.
    pub root: bool,
    /// What emulates the processor, if something does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emulated: Option<String>,
}

/// Reads one line; `None` at the end of the stream. A line that the end cuts off is no line.
///
/// # Errors
/// The stream's, or a line longer than [`LONGEST`].
pub fn read_line(input: &mut impl BufRead) -> io::Result<Option<String>> {
    read_line_up_to(input, LONGEST)
}

fn read_line_up_to(input: &mut impl BufRead, longest: u64) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    input.take(longest).read_until(b'\n', &mut line)?;
    match line.pop() {
        Some(b'\n') => Ok(Some(String::from_utf8_lossy(&line).trim().to_owned())),
        Some(_) if line.len() as u64 + 1 >= longest => Err(io::Error::other(format!(
            "a line is longer than {} MiB, which iopj never sends",
            longest >> 20
        ))),
        _ => Ok(None),
    }
}

/// The line of a value.
///
/// # Errors
/// JSON has no form for it.
pub fn line_of(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_cut_off_is_no_line() {
        let mut input = "one\n\n two \nthree".as_bytes();
        let mut next = || read_line(&mut input).unwrap();
        assert_eq!(
            [next(), next(), next(), next()],
            [Some("one".to_owned()), Some(String::new()), Some("two".to_owned()), None]
        );
    }

    #[test]
    fn a_line_has_a_longest_length() {
        let text = "a".repeat(100);
        let mut input = text.as_bytes();
        let error = read_line_up_to(&mut input, 64).unwrap_err().to_string();
        assert!(error.contains("which iopj never sends"), "{error}");
    }

    proptest::proptest! {
        #[test]
        fn frames_are_one_line_and_come_back(id: u64, text in "(?s).*", is_answer: bool) {
            let session = Uuid::random().unwrap();
            let answer = if is_answer { Ok(Value::String(text.clone())) } else { Err(text) };
            let frame = ToHost::Answer { session, id, answer };
            let line = line_of(&frame).unwrap();
            proptest::prop_assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
            let read = read_line(&mut line.as_slice()).unwrap().unwrap();
            proptest::prop_assert_eq!(serde_json::from_str::<ToHost>(&read).unwrap(), frame);
        }

        #[test]
        fn any_line_is_read_without_panic(text in "(?s).{0,200}") {
            let _ = serde_json::from_str::<ToHost>(&text);
            let _ = serde_json::from_str::<ToAgent>(&text);
            let _ = read_line(&mut text.as_bytes());
        }
    }
}
