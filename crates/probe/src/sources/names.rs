//! Function names without what compilers and the kernel's build add.

/// Words that compilers put after a function's name and a dot, for copies and parts of it.
const ENDINGS: &[&str] = &["cold", "constprop", "isra", "llvm", "localalias", "lto_priv", "part"];

/// `name` as the sources have it: `foo` for `foo.isra.0.cold` and for `__pfx_foo`, the padding before it.
pub(super) fn plain(name: &str) -> &str {
    let name = name.strip_prefix("__pfx_").unwrap_or(name);
    let Some((base, endings)) = name.split_once('.') else { return name };
    let known =
        |word: &str| ENDINGS.contains(&word) || !word.is_empty() && word.bytes().all(|c| c.is_ascii_digit());
    if base.is_empty() || !endings.split('.').all(known) { name } else { base }
}

/// Names that macros derive from one, and the one of them that the table has.
const KIN: &[(&str, &[&str])] = &[
    ("__x64_sys_", &["__arm64_sys_", "__do_sys_", "__ia32_sys_", "__se_sys_", "__x32_sys_"]),
    (
        "__ia32_compat_sys_",
        &["__do_compat_sys_", "__se_compat_sys_", "__x32_compat_sys_", "__x64_compat_sys_"],
    ),
    (
        "__traceiter_",
        &[
            "__SCT__tp_func_",
            "__bpf_trace_",
            "__probestub_",
            "do_perf_trace_",
            "do_trace_event_raw_event_",
            "perf_trace_",
            "trace_event_get_offsets_",
            "trace_event_raw_event_",
            "trace_raw_output_",
            "trace_",
        ],
    ),
];

/// The name that the table has for a system call's or a trace event's function `name`, if it is one.
pub(super) fn kin(name: &str) -> Option<String> {
    KIN.iter().find_map(|(held, others)| {
        let rest = others.iter().find_map(|other| name.strip_prefix(other))?;
        Some(format!("{held}{rest}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn endings_go() {
        assert_eq!(plain("nvme_poll"), "nvme_poll");
        assert_eq!(plain("submit_bio_noacct.part.0.isra.12.cold"), "submit_bio_noacct");
        assert_eq!(plain("__pfx_blk_mq_run_hw_queue"), "blk_mq_run_hw_queue");
        assert_eq!(plain("__schedule.llvm.1234567890"), "__schedule");
        assert_eq!(plain("strange.thing"), "strange.thing");
        assert_eq!(plain(".cold"), ".cold");
    }

    #[test]
    fn kin_have_one_name() {
        assert_eq!(kin("__se_sys_preadv2").as_deref(), Some("__x64_sys_preadv2"));
        assert_eq!(kin("__x64_compat_sys_ioctl").as_deref(), Some("__ia32_compat_sys_ioctl"));
        assert_eq!(kin("trace_event_raw_event_block_rq").as_deref(), Some("__traceiter_block_rq"));
        assert_eq!(kin("__x64_sys_preadv2"), None);
    }

    proptest! {
        #[test]
        fn every_chain_of_endings_goes(
            name in "[a-z_][a-z0-9_]{0,30}",
            endings in prop::collection::vec(
                (prop::sample::select(ENDINGS), prop::option::of(0_u32..1_000_000)),
                0..4,
            ),
            padding in any::<bool>(),
        ) {
            let mut full = name.clone();
            for (word, number) in endings {
                full += &format!(".{word}");
                full += &number.map(|number| format!(".{number}")).unwrap_or_default();
            }
            let full = if padding { format!("__pfx_{full}") } else { full };
            prop_assert_eq!(plain(&full), plain(&name));
        }

        #[test]
        fn any_text_gives_a_part_of_itself(text in ".*") {
            prop_assert!(text.contains(plain(&text)));
        }
    }
}
