//! The one text form of a path: `Display`, `FromStr`, and serde by both.

use super::{
    AioDescriptors, AutoPath, BadAutoPath, BadProgramName, IoPath, Ring, RingCompletion, RingSubmission,
    SioCompletion, Sleep, Spin, UserCompletion,
};
use std::fmt;
use std::str::FromStr;

/// What the text of a program's variant begins with.
const PROGRAM: &str = "program:";
/// The text of an engine that chooses its way, which a rule may follow.
const AUTO: &str = "auto";

impl fmt::Display for IoPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IoPath::Program(name) => return write!(f, "{PROGRAM}{name}"),
            IoPath::Auto(AutoPath::Latency) => return f.write_str(AUTO),
            IoPath::Auto(rule) => return write!(f, "{AUTO}:{rule}"),
            _ => {}
        }
        write!(f, "{}/{}/{}", self.interface(), self.submission(), self.completion())?;
        match self {
            IoPath::PosixSio(SioCompletion::Hybrid(Sleep::Fixed(us))) => write!(f, ":{us}us"),
            IoPath::NvmeUser(mode) => {
                if let UserCompletion::Hybrid(Sleep::Fixed(us), _) = mode {
                    write!(f, ":{us}us")?;
                }
                match mode {
                    UserCompletion::Poll(Spin::Pause) | UserCompletion::Hybrid(_, Spin::Pause) => {
                        f.write_str("+pause")
                    }
                    _ => Ok(()),
                }
            }
            IoPath::PosixAio(AioDescriptors::PerSlot) => f.write_str("+fd-per-slot"),
            IoPath::IoUring(ring) | IoPath::NvmePassthrough(ring) => {
                if ring.registered {
                    f.write_str("+registered")?;
                }
                match ring.submission {
                    RingSubmission::Syscall { split: true } => f.write_str("+split"),
                    RingSubmission::Sqpoll { kernel_wait: true } => f.write_str("+kernel-wait"),
                    _ => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }
}

/// A text that is not a path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not an I/O path: {fault}")]
pub struct ParsePathError {
    text: String,
    fault: PathFault,
}

/// What is wrong with a text that is not a path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum PathFault {
    #[error("write it as interface/submission/completion, such as io_uring/syscall/interrupt")]
    Form,
    #[error(
        "there is no interface `{0}`; there are posix-sio, posix-aio, libaio, io_uring, nvme-passthrough, \
         nvme-user and spdk; `auto` stands alone"
    )]
    Interface(String),
    /// `part` is `submission` or `completion`; `offer` names those that the interface has.
    #[error("{interface} has no {part} `{given}`; it has {offer}")]
    Part { interface: String, part: &'static str, given: String, offer: String },
    #[error("{stem} has no variant `+{given}`{remedy}")]
    Variant { stem: String, given: String, remedy: &'static str },
    #[error("`+{0}` is named twice")]
    Twice(String),
    #[error(transparent)]
    Program(#[from] BadProgramName),
    #[error(transparent)]
    Auto(#[from] BadAutoPath),
}

impl PathFault {
    fn variant(stem: impl Into<String>, given: &str, remedy: &'static str) -> PathFault {
        PathFault::Variant { stem: stem.into(), given: given.to_owned(), remedy }
    }

    fn part(interface: &str, part: &'static str, given: &str, offer: impl Into<String>) -> PathFault {
        let (interface, given) = (interface.to_owned(), given.to_owned());
        PathFault::Part { interface, part, given, offer: offer.into() }
    }
}

impl FromStr for IoPath {
    type Err = ParsePathError;

    fn from_str(text: &str) -> Result<IoPath, ParsePathError> {
        parse(text).map_err(|fault| ParsePathError { text: text.to_owned(), fault })
    }
}

fn parse(text: &str) -> Result<IoPath, PathFault> {
    if let Some(name) = text.strip_prefix(PROGRAM) {
        return Ok(IoPath::Program(name.parse()?));
    }
    if let Some(rule) = text.strip_prefix(AUTO).filter(|rest| rest.is_empty() || rest.starts_with(':')) {
        let rule = rule.strip_prefix(':').map_or(Ok(AutoPath::Latency), str::parse)?;
        return Ok(IoPath::Auto(rule));
    }
    let mut pieces = text.split('+');
    let stem = pieces.next().unwrap_or_default();
    let variants: Vec<&str> = pieces.collect();
    let [interface, submission, completion] = stem.split('/').collect::<Vec<_>>()[..] else {
        return Err(PathFault::Form);
    };
    let plain = |path: IoPath| match variants.first() {
        None => Ok(path),
        Some(given) => Err(PathFault::variant(interface, given, ": leave it out")),
    };
    match interface {
        "posix-sio" => {
            only(interface, "submission", submission, &["syscall"])?;
            plain(IoPath::PosixSio(parse_completion(interface, completion)?))
        }
        "posix-aio" => {
            only(interface, "submission", submission, &["syscall"])?;
            only(interface, "completion", completion, &["interrupt"])?;
            match variants[..] {
                ["fd-per-slot"] => Ok(IoPath::PosixAio(AioDescriptors::PerSlot)),
                _ => plain(IoPath::PosixAio(AioDescriptors::PerJob)),
            }
        }
        "libaio" => {
            only(interface, "submission", submission, &["syscall"])?;
            only(interface, "completion", completion, &["interrupt"])?;
            plain(IoPath::Libaio)
        }
        "io_uring" => Ok(IoPath::IoUring(parse_ring(interface, submission, completion, &variants)?)),
        "nvme-passthrough" => {
            Ok(IoPath::NvmePassthrough(parse_ring(interface, submission, completion, &variants)?))
        }
        "nvme-user" => {
            only(interface, "submission", submission, &["doorbell"])?;
            Ok(IoPath::NvmeUser(parse_user_completion(interface, completion, &variants)?))
        }
        "spdk" => {
            only(interface, "submission", submission, &["doorbell"])?;
            only(interface, "completion", completion, &["poll"])?;
            plain(IoPath::Spdk)
        }
        other => Err(PathFault::Interface(other.to_owned())),
    }
}

fn only(interface: &str, part: &'static str, given: &str, allowed: &[&str]) -> Result<(), PathFault> {
    if allowed.contains(&given) {
        return Ok(());
    }
    Err(PathFault::part(interface, part, given, allowed.join(", ")))
}

fn parse_completion(interface: &str, text: &str) -> Result<SioCompletion, PathFault> {
    match text {
        "interrupt" => Ok(SioCompletion::Interrupt),
        "poll" => Ok(SioCompletion::Poll),
        "hybrid" | "hybrid:auto" => Ok(SioCompletion::Hybrid(Sleep::Auto)),
        other => other
            .strip_prefix("hybrid:")
            .and_then(|sleep| sleep.strip_suffix("us"))
            .and_then(|us| us.parse().ok())
            .map(|us| SioCompletion::Hybrid(Sleep::Fixed(us)))
            .ok_or_else(|| {
                let offer = "interrupt, poll, hybrid and hybrid:Nus with N above 0";
                PathFault::part(interface, "completion", other, offer)
            }),
    }
}

fn parse_user_completion(
    interface: &str,
    completion: &str,
    variants: &[&str],
) -> Result<UserCompletion, PathFault> {
    let mode = parse_completion(interface, completion)?;
    let spin = match (variants, mode) {
        ([], _) => Spin::Tight,
        (["pause", "pause", ..], _) => return Err(PathFault::Twice("pause".to_owned())),
        (["pause"], SioCompletion::Poll | SioCompletion::Hybrid(_)) => Spin::Pause,
        (["pause", other, ..] | [other, ..], SioCompletion::Poll | SioCompletion::Hybrid(_)) => {
            return Err(PathFault::variant(interface, other, "; its poll and hybrid have +pause"));
        }
        ([other, ..], SioCompletion::Interrupt) => {
            return Err(PathFault::variant(interface, other, " where it interrupts: leave it out"));
        }
    };
    Ok(match mode {
        SioCompletion::Interrupt => UserCompletion::Interrupt,
        SioCompletion::Poll => UserCompletion::Poll(spin),
        SioCompletion::Hybrid(sleep) => UserCompletion::Hybrid(sleep, spin),
    })
}

fn parse_ring(
    interface: &str,
    submission: &str,
    completion: &str,
    variants: &[&str],
) -> Result<Ring, PathFault> {
    only(interface, "submission", submission, &["syscall", "sqpoll"])?;
    let completion = match completion {
        "interrupt" => RingCompletion::Interrupt,
        "poll" => RingCompletion::Poll,
        "hybrid" => RingCompletion::Hybrid,
        other => return Err(PathFault::part(interface, "completion", other, "interrupt, poll and hybrid")),
    };
    let (mut registered, mut second) = (false, false);
    for variant in variants {
        let seen = match (*variant, submission) {
            ("registered", _) => &mut registered,
            ("split", "syscall") | ("kernel-wait", "sqpoll") => &mut second,
            (other, _) => {
                let remedy = match submission {
                    "sqpoll" => "; it has +registered and +kernel-wait",
                    _ => "; it has +registered and +split",
                };
                return Err(PathFault::variant(format!("{interface}/{submission}"), other, remedy));
            }
        };
        if std::mem::replace(seen, true) {
            return Err(PathFault::Twice((*variant).to_owned()));
        }
    }
    let submission = match submission {
        "syscall" => RingSubmission::Syscall { split: second },
        _ => RingSubmission::Sqpoll { kernel_wait: second },
    };
    Ok(Ring { submission, completion, registered })
}

impl serde::Serialize for IoPath {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for IoPath {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<IoPath, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::{Submission, Way};
    use proptest::prelude::*;
    use std::num::NonZeroU32;

    fn any_rule() -> impl Strategy<Value = AutoPath> {
        prop_oneof![
            Just(AutoPath::Latency),
            Just(AutoPath::Cpu),
            Just(AutoPath::IosPerJoule),
            Just(AutoPath::Random),
            proptest::sample::select(&Way::ALL[..]).prop_map(AutoPath::Pinned),
            "[A-Za-z0-9._/-]{0,54}[A-Za-z0-9._-]\\.toml"
                .prop_map(|name| AutoPath::Policy(name.parse().unwrap())),
        ]
    }

    fn any_path() -> impl Strategy<Value = IoPath> {
        let mode = prop_oneof![
            Just(SioCompletion::Interrupt),
            Just(SioCompletion::Poll),
            Just(SioCompletion::Hybrid(Sleep::Auto)),
            (1u32..).prop_map(|us| SioCompletion::Hybrid(Sleep::Fixed(NonZeroU32::new(us).unwrap()))),
        ];
        let spin = || prop_oneof![Just(Spin::Tight), Just(Spin::Pause)];
        let user = (mode.clone(), spin()).prop_map(|(mode, spin)| match mode {
            SioCompletion::Interrupt => UserCompletion::Interrupt,
            SioCompletion::Poll => UserCompletion::Poll(spin),
            SioCompletion::Hybrid(sleep) => UserCompletion::Hybrid(sleep, spin),
        });
        let ring = (0usize..6, any::<bool>(), any::<bool>()).prop_map(|(which, registered, second)| {
            let ring = Ring::all().nth(which).unwrap();
            let submission = match ring.submission {
                RingSubmission::Syscall { .. } => RingSubmission::Syscall { split: second },
                RingSubmission::Sqpoll { .. } => RingSubmission::Sqpoll { kernel_wait: second },
            };
            Ring { submission, registered, ..ring }
        });
        prop_oneof![
            mode.prop_map(IoPath::PosixSio),
            user.prop_map(IoPath::NvmeUser),
            Just(IoPath::Spdk),
            "[A-Za-z0-9._-]{1,40}".prop_map(|name| IoPath::Program(name.parse().unwrap())),
            any_rule().prop_map(IoPath::Auto),
            Just(IoPath::PosixAio(AioDescriptors::PerJob)),
            Just(IoPath::PosixAio(AioDescriptors::PerSlot)),
            Just(IoPath::Libaio),
            ring.clone().prop_map(IoPath::IoUring),
            ring.prop_map(IoPath::NvmePassthrough),
        ]
    }

    proptest! {
        #[test]
        fn text_form_round_trips(path in any_path()) {
            prop_assert_eq!(path.to_string().parse::<IoPath>(), Ok(path));
        }

        #[test]
        fn parser_never_panics(text in "\\PC{0,60}") {
            let _ = text.parse::<IoPath>();
        }
    }

    #[test]
    fn text_forms_are_those_of_the_design() {
        let ring = Ring {
            submission: RingSubmission::Sqpoll { kernel_wait: false },
            completion: RingCompletion::Poll,
            registered: true,
        };
        assert_eq!(IoPath::IoUring(ring).to_string(), "io_uring/sqpoll/poll+registered");
        let fixed = SioCompletion::Hybrid(Sleep::Fixed(NonZeroU32::new(4).unwrap()));
        assert_eq!(IoPath::PosixSio(fixed).to_string(), "posix-sio/syscall/hybrid:4us");
        assert_eq!(
            "posix-sio/syscall/hybrid:auto".parse::<IoPath>().unwrap().to_string(),
            "posix-sio/syscall/hybrid"
        );
        let user = |mode| IoPath::NvmeUser(mode).to_string();
        let us = Sleep::Fixed(NonZeroU32::new(4).unwrap());
        assert_eq!(user(UserCompletion::Poll(Spin::Tight)), "nvme-user/doorbell/poll");
        assert_eq!(user(UserCompletion::Hybrid(us, Spin::Tight)), "nvme-user/doorbell/hybrid:4us");
        assert_eq!(user(UserCompletion::Hybrid(us, Spin::Pause)), "nvme-user/doorbell/hybrid:4us+pause");
        assert_eq!(IoPath::Spdk.to_string(), "spdk/doorbell/poll");
    }

    #[test]
    fn a_rule_to_choose_by_is_written_behind_auto() {
        let text = |text: &str| text.parse::<IoPath>().unwrap().to_string();
        assert_eq!([text("auto"), text("auto:latency")], ["auto", "auto"]);
        for same in
            ["auto:cpu", "auto:random", "auto:policies/drive.toml", "auto:io_uring/syscall/poll+sleep"]
        {
            assert_eq!(text(same), same);
        }
        let long = format!("auto:{}.toml", "a".repeat(55));
        assert_eq!(text(&long), long);
        let message = format!("auto:{}.toml", "a".repeat(56)).parse::<IoPath>().unwrap_err().to_string();
        assert!(message.contains("up to 60 letters"), "{message}");
        let pinned = |text: &str| text.parse::<IoPath>().unwrap();
        assert!(pinned("auto:posix-sio/syscall/interrupt").is_synchronous());
        assert!(!pinned("auto").is_synchronous() && !pinned("auto").is_fixed());
        let delays = ["auto", "auto:io_uring/syscall/poll"].map(|text| pinned(text).io_poll_delay());
        assert_eq!(delays, [None, Some(-1)]);
    }

    #[test]
    fn an_engine_that_chooses_takes_the_drive_where_it_may_or_where_its_one_way_does() {
        let on = |text: &str| {
            let path: IoPath = text.parse().unwrap();
            [path.is_bypass(), path.is_bypass_on(false), path.is_bypass_on(true)]
        };
        for choosing in ["auto", "auto:cpu", "auto:random", "auto:p.toml"] {
            assert_eq!(on(choosing), [false, false, true], "{choosing}");
        }
        for taking in ["auto:nvme-user/doorbell/poll", "nvme-user/doorbell/poll", "spdk/doorbell/poll"] {
            assert_eq!(on(taking), [true; 3], "{taking}");
        }
        for of_the_kernel in ["auto:io_uring/syscall/poll", "io_uring/syscall/poll"] {
            assert_eq!(on(of_the_kernel), [false; 3], "{of_the_kernel}");
        }
        let bound: IoPath = "auto:nvme-user/doorbell/poll".parse().unwrap();
        assert_eq!((bound.submission(), bound.io_poll_delay()), (Submission::Doorbell, None));
    }

    #[test]
    fn nonsense_is_refused_with_the_reason() {
        for (text, part) in [
            ("io_uring", "interface/submission/completion"),
            ("aio/syscall/interrupt", "no interface `aio`"),
            ("libaio/sqpoll/interrupt", "no submission `sqpoll`"),
            ("libaio/syscall/poll", "no completion `poll`"),
            ("posix-sio/syscall/hybrid:0us", "N above 0"),
            ("posix-sio/syscall/poll+registered", "no variant `+registered`"),
            ("io_uring/sqpoll/poll+split", "no variant `+split`"),
            ("nvme-user/syscall/poll", "no submission `syscall`; it has doorbell"),
            ("nvme-user/doorbell/poll+pause+pause", "is named twice"),
            ("nvme-user/doorbell/poll+split", "no variant `+split`; its poll and hybrid have +pause"),
            ("nvme-user/doorbell/interrupt+pause", "no variant `+pause` where it interrupts"),
            ("spdk/doorbell/interrupt", "no completion `interrupt`; it has poll"),
            ("io_uring/syscall/poll+split+split", "is named twice"),
            ("program:", "cannot name a variant"),
            ("program:a b", "cannot name a variant"),
            ("program:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "up to 40 letters"),
            ("auto:", "`` is no rule to choose by: write auto, auto:cpu"),
            ("auto:fast", "`fast` is no rule to choose by"),
            ("auto:libaio/syscall/interrupt", "is no rule to choose by"),
            ("auto:nvme-user/doorbell/hybrid:4us", "is no rule to choose by"),
            ("auto:.toml", "cannot name a policy file"),
            ("auto:a b.toml", "cannot name a policy file"),
            ("automatic", "interface/submission/completion"),
            ("auto/syscall/interrupt", "no interface `auto`"),
        ] {
            let message = text.parse::<IoPath>().unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
    }
}
