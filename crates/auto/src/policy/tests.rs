//! Policies are read, checked, and written as they were read.

use super::*;
use proptest::prelude::*;

const PAGE: &str = r#"
aim = "cpu"
bound_p99_ns = 200000

[provenance]
store = "drive.iopj"
cpu_model = "Some \"fast\" one"
kernel = "6.18.0"
drive = "a drive"

[[cell]]
op = "read"
size = 4096
in_flight = 1
ways = [
    { way = "io_uring/syscall/poll+sleep", mean_ns = 9100, p99_ns = 15000.5, cpu_ns = 2200 },
    { way = "io_uring/syscall/interrupt", mean_ns = 12000.0 },
]
"#;

fn error(text: &str) -> String {
    text.parse::<Policy>().unwrap_err().to_string()
}

#[test]
fn a_policy_is_read_and_written_back() {
    let policy: Policy = PAGE.parse().unwrap();
    assert_eq!((policy.aim, policy.bound_p99_ns), (Aim::Cpu, Some(200_000)));
    assert_eq!((policy.hysteresis, policy.exploration), (HYSTERESIS, EXPLORATION));
    let cell = &policy.cells[0];
    assert_eq!((cell.kind().to_string(), cell.ways.len()), ("read 4k".to_owned(), 2));
    assert_eq!((cell.ways[0].way, cell.ways[0].cpu_ns), (Way::SleepPoll, Some(2200.0)));
    assert_eq!((cell.ways[1].p99_ns, cell.ways[1].joules), (None, None), "what is missing stays missing");
    assert_eq!(policy.to_string().parse(), Ok(policy));
    let default = Policy::default();
    assert_eq!("".parse::<Policy>(), Ok(default.clone()), "an empty file is the default");
    assert_eq!(default.to_string().parse(), Ok(default));
}

#[test]
fn a_policy_without_joules_cannot_aim_at_them() {
    let message = error(&PAGE.replace("\"cpu\"", "\"ios_per_joule\""));
    assert!(message.contains("the policy has none") && message.contains("choose `cpu`"), "{message}");
    let with = PAGE.replace("\"cpu\"", "\"ios_per_joule\"").replace("cpu_ns = 2200", "joules = 1e-5");
    assert!(with.parse::<Policy>().unwrap().knows_joules());
}

#[test]
fn what_is_wrong_is_named() {
    for (from, to, says) in [
        ("\"cpu\"", "\"speed\"", "unknown variant `speed`"),
        ("bound_p99_ns = 200000", "bound_p99_ns = 0", "bound_p99_ns = 0 of the policy is not above 0"),
        ("bound_p99_ns", "bound", "unknown field `bound`"),
        ("size = 4096", "size = 4000", "size = 4000 of the policy is not a power of two from 512 to 262144"),
        ("in_flight = 1", "in_flight = 3", "in_flight = 3 of the policy is not a power of two from 1 to 128"),
        ("in_flight = 1", "in_flight = 256", "in_flight = 256"),
        ("syscall/interrupt", "syscall/poll+sleep", "the policy has io_uring/syscall/poll+sleep for read 4k"),
        ("syscall/interrupt", "syscall/other", "is no way that can be chosen"),
        ("mean_ns = 12000.0", "mean_ns = -1.0", "mean_ns = -1 of the policy is not a number of 0 or more"),
        ("mean_ns = 12000.0", "mean_ns = nan", "mean_ns = NaN"),
        ("aim = \"cpu\"", "aim = \"cpu\"\nexploration = 0.6", "exploration = 0.6"),
        ("aim = \"cpu\"", "aim = \"cpu\"\nhysteresis = 2.0", "hysteresis = 2"),
    ] {
        let message = error(&PAGE.replacen(from, to, 1));
        assert!(message.contains(says), "{to}: {message}");
    }
    let twice = format!("{PAGE}\n[[cell]]\nop = \"read\"\nsize = 4096\nin_flight = 1\nways = []\n");
    assert_eq!(error(&twice), "the policy has the cell read 4k in flight 1 twice: leave one");
    assert_eq!(
        "joules".parse::<Aim>().unwrap_err().to_string().split(':').next(),
        Some("`joules` is no aim")
    );
}

fn figures() -> impl Strategy<Value = Figures> {
    let number = || prop::option::of(0.0..1e12);
    (0..Way::COUNT, number(), number(), number(), number()).prop_map(
        |(way, mean_ns, p99_ns, cpu_ns, joules)| Figures {
            way: Way::ALL[way],
            mean_ns,
            p99_ns,
            cpu_ns,
            joules,
        },
    )
}

fn cell() -> impl Strategy<Value = Cell> {
    let op = prop_oneof![Just(Direction::Read), Just(Direction::Write)];
    (op, 9u32..19, 0u32..8, prop::collection::vec(figures(), 0..4)).prop_map(|(op, size, band, ways)| Cell {
        op,
        size: 1 << size,
        in_flight: 1 << band,
        ways,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever can be checked can be written and read; nothing is lost.
    #[test]
    fn every_policy_survives_its_text(
        cells in prop::collection::vec(cell(), 0..4),
        drive in prop::option::of(".*"),
        bound_p99_ns in prop::option::of(1u64..1 << 60),
    ) {
        let provenance = Some(Provenance { drive, ..Provenance::default() });
        let policy = Policy { cells, provenance, bound_p99_ns, ..Policy::default() };
        prop_assume!(policy.check().is_ok());
        prop_assert_eq!(policy.to_string().parse(), Ok(policy));
    }

    #[test]
    fn no_text_makes_it_panic(text in ".*") {
        let _ = text.parse::<Policy>();
    }
}
