//! Function names without what compilers and the kernel's build add.

/// Words that compilers put after a function's name and a dot, for copies and parts of it.
const ENDINGS: &[&str] = &["cold", "constprop", "isra", "llvm", "localalias", "lto_priv", "part"];

/// `name` as the sources have it: `foo` for `foo.isra.0.cold` and for `__pfx_foo`, the padding before it.
pub(super) fn plain(name: &str) -> &str {
    let name = name.strip_prefix("__pfx_").unwrap_or(name);
    let Some((base, endings)) = name.split_once('.') else { return name };
    let known = |word: &str| ENDINGS.contains(&word) || !word.is_empty() && word.bytes().all(|c| c.is_ascii_digit());
    if base.is_empty() || !endings.split('.').all(known) { name } else { base }
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

    proptest! {
        #[test]
        fn every_chain_of_endings_goes(
            name in "[a-z_][a-z0-9_]{0,30}",
            endings in prop::collection::vec((prop::sample::select(ENDINGS), prop::option::of(0_u32..1_000_000)), 0..4),
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
