use super::*;

const BULLSEYE: &str = "5.10.0-46-amd64";
const BOOKWORM: &str = "6.1.0-56-amd64";
const BACKPORT: &str = "6.18.15+deb13-amd64";

#[test]
fn functions_of_the_path_of_an_io() {
    for release in [BULLSEYE, BOOKWORM, BACKPORT] {
        for (function, module, folder) in [
            ("__schedule", None, "kernel/sched/"),
            ("psi_task_change", None, "kernel/sched/"),
            ("update_load_avg", None, "kernel/sched/"),
            ("ktime_get", None, "kernel/time/"),
            ("hrtimer_start_range_ns", None, "kernel/time/"),
            ("blk_mq_submit_bio", None, "block/"),
            ("vfs_read", None, "fs/"),
            ("__x64_sys_preadv2", None, "fs/"),
            ("filemap_write_and_wait_range", None, "mm/"),
            ("asm_exc_page_fault", None, "arch/x86/entry/"),
            ("asm_sysvec_apic_timer_interrupt", None, "arch/x86/entry/"),
            ("entry_SYSCALL_64", None, "arch/x86/entry/"),
            ("do_syscall_64", None, "arch/x86/entry/"),
            ("__x86_indirect_thunk_rax", None, "arch/x86/lib/"),
            ("memcpy", None, "arch/x86/lib/"),
            ("irq_entries_start", None, "arch/x86/entry/"),
            ("native_queued_spin_lock_slowpath", None, "kernel/locking/"),
            ("perf_trace_block_rq", None, "include/trace/events/"),
            ("__SCT__tp_func_sched_switch", None, "include/trace/events/"),
            ("nvme_poll", Some("nvme"), "drivers/nvme/host/"),
            ("nvme_poll.cold", Some("nvme"), "drivers/nvme/host/"),
            ("ext4_file_read_iter", Some("ext4"), "fs/ext4/"),
            ("iomap_dio_rw", None, "fs/iomap/"),
        ] {
            assert_eq!(directory(release, function, module), Some(folder), "{function} of {release}");
        }
    }
}

#[test]
fn what_moved_lies_where_its_series_has_it() {
    assert_eq!(directory(BULLSEYE, "blk_poll", None), Some("block/"));
    assert_eq!(directory(BOOKWORM, "blk_poll", None), None);
    // The last 5.10 kernels have the io_uring of 5.15, in a folder of its own.
    assert_eq!(directory(BULLSEYE, "io_submit_sqes", None), Some("io_uring/"));
    assert_eq!(directory(BULLSEYE, "block_read_full_page", None), Some("fs/"));
    assert_eq!(directory(BULLSEYE, "generic_file_buffered_read", None), Some("mm/"));
    assert_eq!(directory(BOOKWORM, "generic_file_buffered_read", None), None);
}

#[test]
fn a_series_between_two_of_the_table_has_what_both_have() {
    assert_eq!(directory("5.15.16", "blk_mq_submit_bio", None), Some("block/"));
    assert_eq!(directory("5.15.16", "generic_file_buffered_read", None), None);
    assert_eq!(directory("5.15.16", "blk_poll", None), None);
    assert_eq!(directory("4.19.0-27-amd64", "__schedule", None), None);
    assert_eq!(directory("99.1.0", "__schedule", None), None);
    assert_eq!(directory("no release", "__schedule", None), None);
    assert!(series().starts_with(&[(5, 10), (6, 1)]) && series().contains(&(6, 18)));
}

#[test]
fn what_is_unknown_or_in_several_folders_has_none() {
    assert_eq!(directory(BOOKWORM, "no_such_function", None), None);
    assert_eq!(directory(BOOKWORM, "", None), None);
    // Two drivers of the kernel proper have a static function of this name.
    assert_eq!(directory(BOOKWORM, "event_show", None), None);
}
