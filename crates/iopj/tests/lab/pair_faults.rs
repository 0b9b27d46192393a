//! What breaks between two guests while a study runs, and what is refused: one message each with the host,
//! the thing, the cause and the remedy; the study goes on, and nothing is left.

use crate::lab_of_two;
use crate::pair::{KERNEL, LEFT, NOTHING, SERVE, scripts};
use std::path::Path;

/// A key of DH-HMAC-CHAP that no study has: the bytes 0 to 31 with their CRC-32.
const OTHER_KEY: &str = "DHHC-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:";

/// `far COMMAND` on the host, which runs it on the target host, and what it needs there.
const FAR: [&str; 2] = [
    "far() {\n\techo \"$left\n$1\" | nc -w 60 10.1.0.1 99\n}\n\
     until far true 2>/dev/null; do sleep 0.2; done\n",
    "nc -ll -p 99 -e sh &\n",
];

/// What both guests print while the host runs a script of this folder, and `serve` serves on the other.
fn with(script: &str, serve: &str) -> Option<Vec<String>> {
    let (_alone, folder) = lab_of_two(&[KERNEL])?;
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab").join(script);
    let script = std::fs::read_to_string(file).unwrap();
    let [host, target] = FAR;
    let host = format!("{LEFT}left='{LEFT}'\nOTHER_KEY={OTHER_KEY}\n{host}{script}\n{NOTHING}");
    Some(scripts(&folder, host, format!("{target}{serve}")))
}

/// The lines that begin with a word: the rest of each.
fn after<'l>(lines: &'l [String], word: &str) -> Vec<&'l str> {
    lines.iter().filter_map(|line| line.strip_prefix(word)).collect()
}

/// Demands that exactly one line begins with a word, and that it has all of these parts.
#[track_caller]
fn one(lines: &[String], word: &str, parts: &[&str]) {
    let [line] = after(lines, word)[..] else { panic!("`{word}`: {:?} in {lines:#?}", after(lines, word)) };
    crate::common::says(line, parts);
}

#[test]
fn a_study_goes_on_after_the_wire_the_target_or_the_agent_broke() {
    let Some(lines) = with("pair_breaks.sh", SERVE) else { return };
    let place = "/dev/iopj.agent: the connection to 10.1.0.1 port 4420 by tcp broke in mid-trial, and ";
    let remedy = "check the network between the two hosts, and whether the target still runs there";
    let broke = |now: &'static str| [place, now, remedy];
    // It may not be back yet.
    one(&lines, "failed: 1/8 ", &[place, remedy]);
    one(&lines, "failed: 2/8 ", &broke("was given up after ctrl_loss_tmo, 4 s"));
    // Or the connection is seen to break first: the agent's guardian took the export away.
    let [killed] = after(&lines, "failed: 4/8 ")[..] else { panic!("{lines:#?}") };
    let lost =
        "/dev/iopj.agent: the agent was lost: nothing was heard for 10 s; what it had changed there is";
    assert!(killed.contains(lost) || killed.contains(place), "{killed}");
    one(&lines, "failed: 6/8 ", &broke("was given up after ctrl_loss_tmo, 4 s"));
    one(&lines, "failed: 8/8 ", &["cannot connect to 10.1.0.1 port 4420 by tcp: ", "secret of DH-HMAC-CHAP"]);
    assert_eq!(after(&lines, "failed: ").len(), 5, "{lines:#?}");
    // Trials 3, 5 and 7 were measured, and the host had proven its identity.
    one(&lines, "authenticated trials: ", &["3"]);
    let [proven] = after(&lines, "authenticated connections: ")[..] else { panic!("{lines:#?}") };
    assert!(proven.parse::<u32>().unwrap() >= 7, "{proven}");
    one(&lines, "there: ", &["[]"]);
    one(&lines, "left: ", &["[]"]);
    assert!(!lines.iter().any(|line| line.contains("DHHC")), "a secret is shown: {lines:#?}");
}

/// As [`SERVE`], but late where a file says so.
const SERVE_LATE: &str = "late() {\n\twhile read -r line; do\n\t\tsleep 0.03\n\t\techo \
                          \"$line\"\n\tdone\n}\nwhile :; do\n\tif [ -e /tmp/slow ]; then\n\t\t( late <&3 | \
                          iopj agent >&3 ) 3<>/dev/iopj.agent\n\telse\n\t\tiopj agent <>/dev/iopj.agent \
                          >&0\n\tfi\n\tsleep 0.3\ndone";

#[test]
fn targets_that_exist_are_never_changed_and_what_cannot_be_is_refused() {
    let Some(lines) = with("pair_refusals.sh", SERVE_LATE) else { return };
    let refused = |study: &str, parts: &[&str]| one(&lines, &format!("{study}: iopj: "), parts);
    // The drive there did nothing: its target answered from a file in memory.
    one(&lines, "cached: \"verdict\": ", &["unproven"]);
    one(&lines, "cached: \"verdict_reasons\": ", &["did 0 reads of 0 bytes where 100 of", "a cache there"]);
    one(&lines, "alone: \"authenticated\": ", &["false"]);
    assert!(after(&lines, "alone: \"reads\": ").contains(&"100"), "{lines:#?}");
    refused(
        "closed",
        &["is not allowed", "does not let this host in: allow nqn.2014-08.org.nvmexpress:uuid:"],
    );
    refused("alone", &["connected to it already, by nvme0: disconnect it"]);
    assert!(lines.iter().any(|line| line == "the array is as it was"), "{lines:#?}");
    let there = "/dev/iopj.agent: the drive cannot be exported: the target cannot listen by ";
    refused(
        "taken",
        &[there, "tcp at 10.1.0.1 port 99", "something else listens there, so name another `port`"],
    );
    refused("address", &[there, "tcp at 10.1.0.3 port 4420", "does not have the address, so name one"]);
    refused("rdma", &[there, "`modprobe nvmet-rdma` works and that an RDMA device has the address"]);
    refused("module", &[there, "check that `modprobe nvmet-tcp` works"]);
    refused("writes", &["allow it by --destroy-data /dev/iopj.agent:/dev/nvme0n1"]);
    // Conservation of writes: the namespace's, and the drive's there.
    let written = |key: &str| after(&lines, &format!("writes: \"{key}\": "));
    assert!(written("writes").iter().filter(|count| **count == "100").count() >= 3, "{lines:#?}");
    assert_eq!(written("write_sectors"), ["800", "800"], "{lines:#?}");
    for study in ["writes", "slow"] {
        // A busy machine may leave a trial unproven.
        let verdicts = after(&lines, &format!("{study}: \"verdict\": "));
        assert!(["\"verified\"", "\"unproven\""].contains(&verdicts[0]), "{lines:#?}");
    }
    // Half of an exchange whose question took 30 ms.
    let uncertainty = after(&lines, "slow: \"clock_uncertainty_ns\": ");
    assert!(uncertainty[0].parse::<u64>().unwrap() >= 15_000_000, "{uncertainty:?}");
    one(&lines, "there: ", &["[]"]);
    one(&lines, "left: ", &["[]"]);
}
