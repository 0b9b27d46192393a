//! Lines between a host and its agent: what is read of them is written again as the same.

use iopj_fabric::frame::{ToAgent, ToHost, line_of, read_line};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::io::BufReader;

/// A stream of lines.
pub(crate) fn run(input: &[u8]) {
    let mut stream = BufReader::with_capacity(16, input);
    let mut read = 0;
    while let Ok(Some(line)) = read_line(&mut stream) {
        read += 1;
        is_said_again::<ToAgent>(&line);
        is_said_again::<ToHost>(&line);
    }
    // A line that the end cuts off is none.
    assert_eq!(read, input.iter().filter(|byte| **byte == b'\n').count());
}

fn is_said_again<F: Serialize + DeserializeOwned + PartialEq + Debug>(line: &str) {
    let Ok(frame) = serde_json::from_str::<F>(line) else { return };
    let written = line_of(&frame).expect("a line of what a line said");
    assert_eq!(written.iter().filter(|byte| **byte == b'\n').count(), 1);
    let again: F = serde_json::from_slice(&written).expect("what iopj writes it reads");
    assert_eq!(again, frame);
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let session = "00000000-0000-4000-8000-000000000000";
    [
        format!("{{\"hello\":{{\"session\":\"{session}\",\"version\":2}}}}\n"),
        format!("{{\"ask\":{{\"session\":\"{session}\",\"id\":1,\"ask\":{{\"open\":[\"/dev/sda\"]}}}}}}\n"),
        format!("{{\"answer\":{{\"session\":\"{session}\",\"id\":1,\"answer\":{{\"Ok\":[1.5e300,null]}}}}}}\n"),
        format!("{{\"answer\":{{\"session\":\"{session}\",\"id\":1,\"answer\":{{\"Err\":\"no\"}}}}}}\n"),
        format!("{{\"beat\":{{\"session\":\"{session}\"}}}}\n\n{{\"note\":{{\"session\":\"{session}\",\"text\":\"\\u202e\"}}}}\n"),
        "[[[[[[[[[[[[[[[[".repeat(20) + "\n",
    ]
    .map(String::into_bytes)
    .to_vec()
}
