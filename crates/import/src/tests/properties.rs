//! Whatever a file of fio holds, it is imported or refused, without a panic.

use super::*;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn text_never_panics(text in "\\PC{0,200}", jobs in "[\\[\\]{}\":,0-9a-z. -]{0,200}") {
        let _ = trials_of(Path::new("f"), &text);
        let _ = trials_of(Path::new("f"), &format!("{{\"fio version\":\"fio-3.33\",\"jobs\":[{{{jobs}"));
    }

    #[test]
    fn options_never_panic(
        name in "bs|rw|iodepth|numjobs|runtime|ramp_time|size|number_ios|rwmixread|cpus_allowed|\
                 random_distribution|kb_base|direct",
        value in "[0-9]{0,20}[a-z,:%.-]{0,4}[0-9]{0,6}|\\PC{0,8}",
    ) {
        let (trials, skipped) = mapped(&output(&[entry(json!({ name: value }))]));
        prop_assert_eq!(trials.len() + skipped.len(), 1);
    }

    #[test]
    fn numbers_never_panic(
        n: u64,
        value: u64,
        float: f64,
        key in "total_ios|io_bytes|runtime|N|min|max|mean|stddev|20|99\\.000000|elapsed|job_runtime",
    ) {
        let text = output(&[entry(json!({ "numjobs": "2" }))]).to_string();
        let others = ["-1", "null", "\"x\"", "{}"].map(String::from);
        for number in [n.to_string(), format!("{float:e}")].into_iter().chain(others) {
            let at = text.find(&format!("\"{key}\":")).unwrap() + key.len() + 3;
            let end = at + text[at..].find([',', '}']).unwrap();
            let changed = format!("{}{number}{}", &text[..at], &text[end..]);
            let changed = changed.replace("\"20\":300", &format!("\"{value}\":300"));
            if let Ok((trials, _)) = trials_of(Path::new("f"), &changed) {
                let finite = |m: &Measurement| {
                    m.iops().is_finite() && m.latency.mean.is_finite() && m.cpu_percent.is_finite()
                };
                prop_assert!(trials.iter().all(|trial| finite(measured(trial))), "{}", changed);
            }
        }
    }

    #[test]
    fn truncations_and_mutations_never_panic(
        cut: prop::sample::Index,
        at: prop::sample::Index,
        with in "\\PC{0,3}|[0-9-]{1,20}",
    ) {
        let text = output(&[entry(json!({ "bs": "4k" }))]).to_string();
        let (cut, at) = (cut.index(text.len()), at.index(text.len()));
        let _ = trials_of(Path::new("f"), &text[..cut]);
        let _ = trials_of(Path::new("f"), &format!("{}{with}{}", &text[..at], &text[at + 1..]));
    }
}
