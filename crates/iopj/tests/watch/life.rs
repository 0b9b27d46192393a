//! The life of a watched program is its own: exit code, signals, standard input and outputs, what it leaves
//! behind.

use crate::{common, watched};
use iopj_core::watch::WatchSubject;
use iopj_record::watch::WatchEnd;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// `iopj watch` of a shell's script; the script is one word, so it is not split.
fn shell(folder: &std::path::Path, options: &str, script: &str) -> Command {
    let mut command = common::iopj(folder, &format!("watch {options} -- sh -c"));
    command.arg(script);
    command
}

#[test]
fn the_exit_code_and_the_outputs_are_the_programs() {
    let folder = common::folder();
    let mut command = shell(&folder, "", "cat; echo to-error >&2; exit 7");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"from-input\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "from-input\n", "nothing of ours is in it");
    let words = String::from_utf8_lossy(&output.stderr);
    common::says(&words, &["to-error\n", "ended with exit code 7"]);
}

#[test]
fn a_program_that_a_signal_ends_has_the_code_of_shells() {
    let folder = common::folder();
    let (output, words) = common::output(&mut shell(&folder, "", "kill -9 $$"));
    assert_eq!(output.status.code(), Some(137), "{words}");
    common::says(&words, &["ended by signal 9"]);
}

#[test]
fn an_interrupt_is_left_to_the_program_and_the_store_is_written() {
    let folder = common::folder();
    // The program ends by itself, with a code of its own, after it got the signal that both got.
    let script = "trap 'exit 5' INT; kill -INT $PPID; kill -INT $$; sleep 60";
    let (output, words) = common::output(&mut shell(&folder, "--store w.iopj", script));
    assert_eq!(output.status.code(), Some(5), "{words}");
    let (code, text, words) = common::run(&folder, "report w.iopj");
    assert_eq!(code, 0, "{words}");
    common::says(&text, &["watched", "trap", "ended with exit code 5"]);
    let (code, text, words) = common::run(&folder, "report w.iopj --html w.html");
    assert_eq!((code, text.as_str()), (0, "w.html\n"), "{words}");
    let page = std::fs::read_to_string(folder.join("w.html")).unwrap();
    common::says(&page, &["<h1>sh</h1>", "ended with exit code 5", "Paths seen"]);
}

#[test]
fn what_a_program_leaves_behind_is_watched_to_its_end() {
    let folder = common::folder().with_data(1 << 20);
    let script = "setsid sh -c 'sleep 0.3; cat data > copy; echo done > after' & exit 3";
    let (output, words) = common::output(&mut shell(&folder, "", script));
    assert_eq!(output.status.code(), Some(3), "{words}");
    common::says(&words, &["the program has ended", "watched until the end", "ended with exit code 3"]);
    assert_eq!(std::fs::read_to_string(folder.join("after")).unwrap(), "done\n", "it was not ended");
}

#[test]
fn json_has_a_line_for_each_interval_and_one_for_the_whole() {
    let folder = common::folder();
    let (output, words) = common::output(&mut shell(&folder, "--json --interval 100ms", "sleep 0.35"));
    assert_eq!(output.status.code(), Some(0), "{words}");
    let lines: Vec<serde_json::Value> =
        words.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let intervals = lines.iter().filter(|line| line.get("interval").is_some()).count();
    assert!(intervals >= 1, "{words}");
    let whole = lines.last().unwrap();
    assert_eq!(whole["whole"]["end"]["exited"], 0);
    assert_eq!(whole["whole"]["subject"]["command"][0], "sh");
    assert!(whole["figures"]["seconds"].as_f64().unwrap() >= 0.35);
}

#[test]
fn a_process_that_runs_is_watched_for_a_time_and_goes_on() {
    let folder = common::folder();
    let mut sleeper = Command::new("sleep").arg("60").spawn().unwrap();
    let (output, record) = watched(&folder, &format!("--pid {} --for 200ms", sleeper.id()));
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(record.end, WatchEnd::Stopped);
    assert_eq!(record.subject, WatchSubject::Process(sleeper.id().cast_signed(), "sleep".to_owned()));
    assert_eq!(record.evidence.program.unwrap().processes, 1);
    assert!(sleeper.try_wait().unwrap().is_none(), "it is never ended");
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
}

#[test]
fn a_watched_process_that_ends_ends_the_watch() {
    let folder = common::folder();
    let mut sleeper = Command::new("sleep").arg("0.3").spawn().unwrap();
    let waiting = std::thread::spawn({
        let id = sleeper.id();
        let folder = folder.to_path_buf();
        move || watched(&folder, &format!("--pid {id} --for 10m"))
    });
    sleeper.wait().unwrap();
    let (output, record) = waiting.join().unwrap();
    assert_eq!((output.status.code(), record.end), (Some(0), WatchEnd::Gone));
}

#[test]
fn metrics_are_served_while_a_program_runs() {
    let folder = common::folder();
    let mut command = shell(&folder, "--listen 0 --interval 100ms", "read line");
    command.stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut words = std::io::BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    let address = loop {
        line.clear();
        assert!(std::io::BufRead::read_line(&mut words, &mut line).unwrap() > 0, "no address was said");
        if let Some((_, rest)) = line.split_once("http://") {
            break rest.split('/').next().unwrap().to_owned();
        }
    };
    let ask = || {
        let mut connection = TcpStream::connect(&address).unwrap();
        connection.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut text = String::new();
        connection.read_to_string(&mut text).unwrap();
        text
    };
    let limit = Instant::now() + Duration::from_secs(120);
    let mut text = ask();
    while !text.contains("iopj_program_context_switches_total") {
        assert!(Instant::now() < limit, "{text}");
        std::thread::sleep(Duration::from_millis(20));
        text = ask();
    }
    common::says(&text, &["200 OK", "application/openmetrics-text", "# EOF\n", "iopj_watch_info{subject="]);
    drop(child.stdin.take());
    std::io::copy(&mut words, &mut std::io::sink()).unwrap();
    child.wait().unwrap();
}
