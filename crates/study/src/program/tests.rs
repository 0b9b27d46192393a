use super::*;
use crate::plan;
use crate::study::Study;
use proptest::prelude::*;
use std::time::Duration;

const FIGURE: &str = "figure = { name = \"tps\", unit = \"1/s\", regex = 'tps = ([0-9.]+)' }\n";
const VARIANT: &str = "[[program.variants]]\nname = \"sync\"\ncommand = [\"sh\", \"{target}\"]\n";

fn study(top: &str, program: &str, workload: &str) -> Result<Study, StudyError> {
    let text = format!("name = \"t\"\ngenerator = \"program\"\n{top}\n{program}\n[[workload]]\n{workload}");
    Study::parse(&text, "t.toml")
}

#[test]
fn each_variant_is_a_path_and_each_workload_says_what_the_program_is_told() {
    let other = "[[program.variants]]\nname = \"io_uring\"\ncommand = [\"sh\", \"-j{numjobs}\"]\n";
    let program = format!("[program]\n{FIGURE}{VARIANT}{other}");
    let study = study("replicates = 2", &program, "numjobs = [1, 8]").unwrap();
    let (cells, _) = plan::cells(&study, &[]).unwrap();
    let words: Vec<String> =
        cells.iter().map(|cell| format!("{} {}", cell.path, cell.workload.title())).collect();
    assert_eq!(
        words,
        [
            "program:sync numjobs 1",
            "program:io_uring numjobs 1",
            "program:sync numjobs 8",
            "program:io_uring numjobs 8",
        ]
    );
    assert!(cells.iter().all(|cell| cell.generator == iopj_core::Generator::Program));
    // A run that is continued reads the study from its store.
    assert_eq!(Study::parse(&study.to_toml().unwrap(), "t").unwrap(), study);
    let program = study.program.as_ref().unwrap();
    assert_eq!((program.programs(), program.needs_target()), (vec!["sh".to_owned()], true));
    assert_eq!(program.variant(cells[1].path).unwrap().name, "io_uring");
}

#[test]
fn what_is_missing_or_wrong_is_refused_with_the_remedy() {
    let of = |program: &str| study("", program, "").unwrap_err().to_string();
    let with = |keys: &str| of(&format!("[program]\n{FIGURE}{keys}"));
    for (message, part) in [
        (of(""), "needs a table [program]"),
        (with(""), "has no variants"),
        (with(&format!("{VARIANT}{VARIANT}")), "two of the name `sync`"),
        (with("[[program.variants]]\nname = \"a b\"\ncommand = [\"x\"]"), "cannot name a variant"),
        (with("[[program.variants]]\nname = \"a\"\ncommand = []"), "has no command"),
        (with("[[program.variants]]\nname = \"a\"\ncommand = [\"x\", \"{target}{iodpeth}\"]"), "{iodpeth}"),
        (with("[[program.variants]]\nname = \"a\"\ncomand = [\"x\"]"), "did you mean `command`?"),
        (of(&format!("[program]\nfigure = {{ name = \"a b\", unit = \"1/s\" }}\n{VARIANT}")), "cannot name"),
        (of(&format!("[program]\nfigure = {{ name = \"a\", unit = \"\" }}\n{VARIANT}")), "`unit` is empty"),
        (of(&format!("[program]\nfigure = {{ name = \"a\", unit = \"1/s\" }}\n{VARIANT}")), "says not where"),
    ] {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn what_only_other_generators_have_is_refused() {
    let program = format!("[program]\n{FIGURE}{VARIANT}");
    let message = |top: &str, workload: &str| study(top, &program, workload).unwrap_err().to_string();
    for (message, part) in [
        (message("paths = \"available\"", ""), "a program cannot have `paths`"),
        (message("precondition = true", ""), "a program cannot have `precondition`"),
        (message("", "ramp_time = \"1s\""), "a program cannot have `ramp_time` in [[workload]]"),
        (message("", "paths = \"available\""), "variants in [[program.variants]] take the place"),
        (message("", "iodepth = [1, 8]"), "write {iodepth} where it belongs"),
    ] {
        assert!(message.contains(part), "{message}");
    }
    for generator in ["\"native\"", "[\"program\", \"fio\"]"] {
        let text = format!("name = \"t\"\ngenerator = {generator}\n{program}\n[[workload]]\n");
        let message = Study::parse(&text, "t").unwrap_err().to_string();
        assert!(message.contains("generator = \"program\" alone"), "{message}");
    }
}

#[test]
fn arguments_are_filled_in_and_a_shells_braces_stay() {
    let words = ["{target}", "-T{runtime}", "${rw} {bs}:{rw}", "{ print $1 }", "{iodepth}x{numjobs}{"];
    let words = words.map(str::to_owned);
    let workload = Workload {
        iodepth: 4,
        numjobs: 2,
        length: Length::Runtime(Duration::from_millis(300)),
        ..Workload::default()
    };
    assert_eq!(
        Variant::fill(&words, Some(Path::new("/a b")), &workload),
        ["/a b", "-T0.3", "${rw} 4096:randread", "{ print $1 }", "4x2{"]
    );
    let whole = Workload { length: Length::Runtime(Duration::from_secs(10)), ..workload };
    assert_eq!(Variant::fill(&words[1..2], None, &whole), ["-T10"]);
}

proptest! {
    #[test]
    fn an_argument_is_the_sum_of_its_pieces(word in "[{}$a-z é]{0,40}") {
        let whole: String = pieces(&word)
            .map(|piece| match piece {
                Piece::Plain(text) => text.to_owned(),
                Piece::Key(key) => format!("{{{key}}}"),
            })
            .collect();
        prop_assert_eq!(whole, word);
    }
}
