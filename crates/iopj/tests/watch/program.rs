//! Studies whose generator is a program: fio and SQLite by variants, their figures in maps and comparisons,
//! and what is refused or fails.

use crate::common::{self, alone, says};
use iopj_core::VerdictKind;
use iopj_core::watch::SeenInterface;
use iopj_record::{Outcome, Trial};
use iopj_store::Store;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// A study of a program with one workload.
fn study(folder: &Path, program: &str, workload: &str) {
    let text = format!(
        "name = \"s\"\ngenerator = \"program\"\nreplicates = 2\nmeters = \
         \"none\"\n{program}\n[[workload]]\n{workload}\n"
    );
    std::fs::write(folder.join("s.toml"), text).unwrap();
}

/// A study of one shell script that prints `tps = NUMBER`.
fn of_script(folder: &Path, script: &str, more: &str) {
    let figure = "[program]\nfigure = { name = \"tps\", unit = \"1/s\", regex = 'tps = (\\S+)' }\n";
    let variant =
        format!("[[program.variants]]\nname = \"a\"\ncommand = [\"sh\", \"-c\", '{script}']\n{more}");
    study(folder, &format!("{figure}{variant}"), "");
}

fn trials(folder: &Path) -> Vec<Trial> {
    Store::open(&folder.join("s.iopj")).unwrap().trials().unwrap()
}

/// A trial of fio has its figure, a window that is fio's whole life, and the path that fio took.
fn check_trial_of_fio(trial: &Trial) {
    let measured = trial.outcome.measurement().unwrap();
    let program = measured.program.as_ref().unwrap();
    assert_eq!((program.name.as_str(), measured.verdict.kind), ("read_iops", VerdictKind::Seen));
    // The window is fio's whole life, and the figure that of its jobs.
    assert!(measured.window_ns > 300_000_000 && program.figure > 0.0);
    assert!(measured.ios as f64 >= 0.5 * program.figure * 0.3, "{} {}", measured.ios, program.figure);
    assert!(measured.evidence.process.user_ns + measured.evidence.process.system_ns > 0);
    assert_eq!(program.watch.devices.is_empty(), measured.ios == 0);
    if program.denied.is_empty() {
        let named = if trial.path.to_string() == "program:psync" {
            SeenInterface::PosixSio
        } else {
            SeenInterface::IoUring
        };
        assert_eq!(program.paths[0].interface, named, "{:?}", measured.verdict.reasons);
        assert!(measured.system_calls_per_io.is_some());
    }
}

#[test]
fn fio_by_two_engines_is_compared_by_the_figure_that_it_prints() {
    let (_alone, folder) = (alone(), common::folder().with_data(16 << 20));
    let variant = |name: &str| {
        format!(
            "[[program.variants]]\nname = \"{name}\"\ncommand = [\"fio\", \"--name=t\", \
             \"--filename={{target}}\", \"--rw={{rw}}\", \"--direct=1\", \"--ioengine={name}\", \
             \"--time_based\", \"--runtime={{runtime}}\", \"--output-format=json\"]\n"
        )
    };
    let figure =
        "[program]\nfigure = { name = \"read_iops\", unit = \"1/s\", json = \"/jobs/0/read/iops\" }\n";
    study(
        &folder,
        &format!("{figure}{}{}", variant("psync"), variant("io_uring")),
        // Counting rests at first where starting the program was dear.
        "rw = \"randread\"\nruntime = \"1s\"",
    );
    let (code, text, words) = common::run(&folder, "run s.toml --target data --allow-exec --replicates 1");
    assert_eq!(code, 0, "{words}");
    says(
        &text,
        &["program:psync", "program:io_uring", "read_iops", "randread, 1s, 1 replicate", "2 trials seen"],
    );
    let all = trials(&folder);
    assert_eq!(all.len(), 2);
    all.iter().for_each(check_trial_of_fio);
    let winners = "winners s.iopj --axes numjobs,iodepth --with-unproven";
    let (code, text, _) = common::run(&folder, &format!("{winners} --metric read_iops_per_cpu"));
    assert_eq!(code, 0);
    says(&text, &["read iops per CPU second (1/CPU s), more is better", "program:io_uring", "program:psync"]);
    let (_, json, _) = common::run(&folder, &format!("{winners} --json"));
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&json["maps"][0]["metric"], &json["maps"][0]["figure"]["name"]),
        (&"figure".into(), &"read_iops".into())
    );
    let compare = "compare s.iopj --by path=program:psync,program:io_uring --with-unproven";
    let (code, text, words) = common::run(&folder, compare);
    assert_eq!(code, 0, "{words}");
    says(&text, &["read iops, 1/s", "read iops per CPU second, 1/CPU s"]);
    let (code, _, words) = common::run(&folder, "advise s.iopj");
    assert_eq!(code, 2, "{words}");
    says(&words, &["a program did the I/O", "--metric read_iops_per_joule"]);
    let (code, _, words) = common::run(&folder, "report s.iopj --html page.html --with-unproven");
    assert_eq!(code, 0, "{words}");
    says(&std::fs::read_to_string(folder.join("page.html")).unwrap(), &["program:io_uring"]);
    let (_, csv, _) = common::run(&folder, "export s.iopj --csv");
    says(&csv, &[",figure,figure_name,", ",read_iops,"]);
}

#[test]
fn sqlite_by_its_ways_to_sync_is_measured_between_before_and_after() {
    let (_alone, folder) = (alone(), common::folder());
    let script = "import sqlite3, sys, time\ndb = sqlite3.connect(sys.argv[1] + \"/t.db\", \
    isolation_level=None)\n\
                  db.execute(\"pragma synchronous = \" + sys.argv[2])\nbegin = time.monotonic()\n\
                  for n in range(50): db.execute(\"insert into t values (?)\", (n,))\n\
                  print(\"tps =\", 50 / (time.monotonic() - begin))\n";
    std::fs::write(folder.join("insert.py"), script).unwrap();
    let variant = |name: &str| {
        format!(
            "[[program.variants]]\nname = \"{name}\"\nbefore = [\"python3\", \"-c\", \"import sqlite3, sys; \
             sqlite3.connect(sys.argv[1] + '/t.db').execute('create table t (n)')\", \"{{target}}\"]\n\
             command = [\"python3\", \"insert.py\", \"{{target}}\", \"{name}\"]\nafter = [\"rm\", \
             \"{{target}}/t.db\"]\n"
        )
    };
    let figure = "[program]\nfigure = { name = \"inserts\", unit = \"1/s\", regex = 'tps = (\\S+)' }\n";
    study(&folder, &format!("{figure}{}{}", variant("full"), variant("off")), "");
    std::fs::create_dir(folder.join("db")).unwrap();
    let (code, text, words) = common::run(&folder, "run s.toml --target db --allow-exec --replicates 1");
    assert_eq!(code, 0, "{words}");
    says(&text, &["program:full", "program:off", "inserts", "as it is, as long as it takes"]);
    let writes = |name: &str| {
        let all = trials(&folder);
        let trial = all.iter().find(|trial| trial.path.to_string() == name).unwrap();
        let watch = &trial.outcome.measurement().unwrap().program.as_ref().unwrap().watch;
        watch.program.as_ref().unwrap().disk_bytes().unwrap()[1]
    };
    assert!(writes("program:full") >= 50 * 4096);
    assert!(!folder.join("db/t.db").exists(), "`after` ran");
}

#[test]
fn a_trial_whose_program_fails_says_why_and_after_runs() {
    let cases = [
        ("exit", "echo no luck >&2; exit 4", "", "`sh` ended with exit code 4. Its last lines: no luck"),
        ("signal", "kill -9 $$", "", "`sh` was ended by signal 9. It printed nothing"),
        ("nothing", "echo hello", "", "`tps` was not found: nothing that the program printed matches"),
        ("words", "echo tps = fast", "", "`tps` is not a number: the program printed `fast`"),
        ("left", "sleep 8 & echo tps = 1", "", "`sh` ended and left processes behind: "),
        ("before", "echo tps = 1", "before = [\"false\"]", "`false` ended with exit code 1"),
        ("after", "echo tps = 1", "after = [\"sh\", \"-c\", \"exit 9\"]", "`sh` ended with exit code 9"),
        ("cleared", "exit 1", "after = [\"touch\", \"cleared\"]", "`sh` ended with exit code 1"),
    ];
    let folder = common::folder();
    let figure = "[program]\nfigure = { name = \"tps\", unit = \"1/s\", regex = 'tps = (\\S+)' }\n";
    let variants = cases.iter().map(|(name, script, more, _)| {
        format!("[[program.variants]]\nname = \"{name}\"\ncommand = [\"sh\", \"-c\", '{script}']\n{more}\n")
    });
    study(&folder, &format!("{figure}{}", variants.collect::<String>()), "");
    let (code, _, words) = common::run(&folder, "run s.toml --allow-exec --replicates 1");
    assert_eq!(code, 1, "{words}");
    let all = trials(&folder);
    for (name, _, _, part) in cases {
        let trial = all.iter().find(|trial| trial.path.to_string() == format!("program:{name}")).unwrap();
        let Outcome::Failed(why) = &trial.outcome else { panic!("{name} was measured") };
        assert!(why.contains(part), "{why}");
    }
    assert!(folder.join("cleared").exists());
}

#[test]
fn a_server_that_before_starts_counts_as_the_programs_own() {
    let folder = common::folder();
    let wait = |file: &str| format!("while ! [ -e {file} ]; do sleep 0.02; done");
    let work = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
    let server = format!("{}; {work}; touch worked; {}", wait("go"), wait("stop"));
    std::fs::write(folder.join("server.sh"), server).unwrap();
    let figure =
        "[program]\nfigure = { name = \"tps\", unit = \"1/s\", regex = 'tps = (1)' }\nwatch = [\"pid\"]\n";
    let before = "rm -f go worked stop; setsid sh server.sh & echo $! > pid";
    let command = format!("touch go; {}; echo tps = 1", wait("worked"));
    let variant = format!(
        "[[program.variants]]\nname = \"a\"\nbefore = [\"sh\", \"-c\", \"{before}\"]\ncommand = [\"sh\", \
         \"-c\", \"{command}\"]\nafter = [\"touch\", \"stop\"]\n"
    );
    study(&folder, &format!("{figure}{variant}"), "");
    let (code, _, words) = common::run(&folder, "run s.toml --allow-exec --replicates 1");
    assert_eq!(code, 0, "{words}");
    let all = trials(&folder);
    let measured = all[0].outcome.measurement().unwrap();
    // The program itself only waits.
    let process = measured.evidence.process;
    let program = measured.program.as_ref().unwrap();
    assert!(process.user_ns + process.system_ns > 20_000_000, "{process:?}; {program:?}");
    assert!(program.watch.program.as_ref().unwrap().processes >= 2);
    std::fs::write(folder.join("pid"), "999999999\n").unwrap();
    study(&folder, &format!("{figure}[[program.variants]]\nname = \"a\"\ncommand = [\"true\"]\n"), "");
    let words = common::refusal(&folder, "run s.toml --allow-exec");
    says(&words, &["`pid`, which [program] watches", "no process 999999999"]);
}

#[test]
fn what_the_user_has_not_allowed_or_does_not_fit_is_refused() {
    let folder = common::folder();
    of_script(&folder, "echo tps = 1 > ran", "");
    let refused = |line: &str| common::refusal(&folder, line);
    says(
        &refused("run s.toml"),
        &["`program.variants.command` = `sh ", "runs a program", "allow it by --allow exec"],
    );
    says(&refused("run s.toml --allow-exec --target ."), &["no variant of the program is told {target}"]);
    says(&refused("run s.toml --allow-exec --iodepth 4"), &["write {iodepth} where it belongs"]);
    says(
        &refused("run s.toml --allow-exec --path libaio/syscall/interrupt"),
        &["a program cannot have `paths`"],
    );
    says(&refused("run --generator program"), &["needs a table [program]"]);
    let text = std::fs::read_to_string(folder.join("s.toml")).unwrap();
    std::fs::write(folder.join("s.toml"), text.replace("tps = (\\S+)", "tps")).unwrap();
    says(&refused("run s.toml --allow-exec"), &["the regular expression `tps` has no group"]);
    std::fs::write(folder.join("s.toml"), text.replace("\"sh\"", "\"no-such-program\"")).unwrap();
    says(&refused("run s.toml --allow-exec"), &["there is no program `no-such-program`"]);
    assert!(!folder.join("ran").exists() && !folder.join("s.iopj").exists());
}

#[test]
fn an_interrupt_asks_the_program_to_end_waits_for_it_and_leaves_the_rest_to_resume() {
    let folder = common::folder();
    let script = "trap \"touch asked; exit 0\" TERM; touch begun; while :; do sleep 0.05; done";
    of_script(&folder, script, "after = [\"touch\", \"after\"]");
    let mut command: Command = common::iopj(&folder, "run s.toml --allow-exec");
    let child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    while !folder.join("begun").exists() {
        std::thread::sleep(Duration::from_millis(20));
    }
    // SAFETY: the child is ours and not yet waited for.
    assert_eq!(unsafe { libc::kill(child.id().cast_signed(), libc::SIGINT) }, 0);
    let output = child.wait_with_output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{words}");
    says(&words, &["were asked to end (SIGTERM), and are waited for", "interrupted with 2 trials missing"]);
    assert!(folder.join("asked").exists() && folder.join("after").exists());
    assert!(trials(&folder).is_empty());
    let refused = common::refusal(&folder, "run --resume s.iopj");
    says(&refused, &["`program.variants.command` = `sh ", "allow it by --allow exec"]);
}
