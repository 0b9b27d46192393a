//! Functions that published tables count apart from the rest of their folder.

/// Folder, and functions of it that make one row: a whole name, or a part of it beside `*`.
const GROUPS: &[(&str, &str)] = &[
    ("block/", "blk_poll"),
    ("block/", "blk_mq_*"),
    ("kernel/sched/", "__schedule"),
    ("kernel/sched/", "psi_task_change"),
    ("kernel/sched/", "update_load_avg"),
    ("kernel/time/", "ktime_get"),
    ("kernel/time/", "*hrtimer*"),
];

/// The row within `directory` that counts `function` ("Polling or interrupts", 2022, table 2): `blk_mq_*` for
/// `blk_mq_submit_bio` of `block/`. `None` for the folder's other functions and for other folders.
pub fn group(directory: &str, function: &str) -> Option<&'static str> {
    let name = super::names::plain(function);
    let row = GROUPS.iter().find(|(folder, pattern)| *folder == directory && matches(pattern, name));
    row.map(|(_, pattern)| *pattern)
}

fn matches(pattern: &str, name: &str) -> bool {
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(_), Some(_)) => name.contains(pattern.trim_matches('*')),
        (Some(end), None) => name.ends_with(end),
        (None, Some(start)) => name.starts_with(start),
        (None, None) => name == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_those_of_the_published_table() {
        assert_eq!(group("block/", "blk_poll"), Some("blk_poll"));
        assert_eq!(group("block/", "blk_mq_get_tag.isra.0"), Some("blk_mq_*"));
        assert_eq!(group("block/", "__blk_mq_end_request"), None);
        assert_eq!(group("include/linux/", "blk_mq_rq_to_pdu"), None);
        assert_eq!(group("kernel/sched/", "__schedule"), Some("__schedule"));
        assert_eq!(group("kernel/sched/", "schedule"), None);
        assert_eq!(group("kernel/time/", "__hrtimer_run_queues"), Some("*hrtimer*"));
        assert_eq!(group("kernel/time/", "ktime_get_ts64"), None);
    }
}
