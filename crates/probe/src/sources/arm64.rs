//! Functions that only kernels for 64-bit Arm have, and the folders of their source files, by the kernel's
//! sources from 5.10 to 7.2. The table is made for x86-64, and lacks them.

/// Names, or their beginnings where an asterisk ends them, by folder. Sources: arch/arm64/kernel/entry.S,
/// entry-common.c, syscall.c, irq.c, stacktrace.c, fpsimd.c, entry-fpsimd.S, process.c, hw_breakpoint.c,
/// mte.c, patching.c, cpu_errata.c, idle.c; arch/arm64/lib/*.S; arch/arm64/mm;
/// drivers/clocksource/arm_arch_timer.c; drivers/irqchip/irq-gic*.c; drivers/base/arch_topology.c.
const FOLDERS: &[(&str, &[&str])] = &[
    (
        "arch/arm64/kernel/",
        &[
            "____do_softirq",
            "__aarch64_insn_write",
            "__cpu_do_idle",
            "__el0_irq_handler_common",
            "__switch_to",
            "aarch64_insn_*",
            "call_on_irq_stack",
            "cortex_a76_erratum_1463225_svc_handler",
            "cpu_do_idle",
            "cpu_switch_to",
            "do_el0_svc",
            "do_interrupt_handler",
            "do_softirq_own_stack",
            "do_sve_acc",
            "el0_*",
            "el0t_*",
            "el1_*",
            "el1h_*",
            "enter_from_kernel_mode",
            "enter_from_user_mode",
            "exit_to_kernel_mode",
            "exit_to_user_mode",
            "fpsimd_*",
            "hw_breakpoint_thread_switch",
            "invoke_syscall",
            "mte_*",
            "patch_map",
            "profile_pc_cb",
            "ptrauth_*",
            "ret_to_kernel",
            "ret_to_user",
            "sve_*",
            "task_get_vl",
            "tls_preserve_current_state",
            "unwind_*",
            "vectors",
        ],
    ),
    ("arch/arm64/lib/", &["__arch_*", "__pi_*", "caches_clean_*", "clear_page", "copy_page", "dcache_*"]),
    ("arch/arm64/mm/", &["pfn_is_map_memory"]),
    ("arch/arm64/include/", &["__kern_my_cpu_offset"]),
    ("drivers/clocksource/", &["arch_counter_*", "arch_timer_*"]),
    ("drivers/irqchip/", &["gic_*", "its_*"]),
    ("drivers/base/", &["topology_scale_freq_tick"]),
];

/// The folder of a function of the kernel proper.
pub(super) fn folder(name: &str) -> Option<&'static str> {
    let is = |pattern: &&str| match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == *pattern,
    };
    FOLDERS.iter().find(|(_, patterns)| patterns.iter().any(is)).map(|(folder, _)| *folder)
}

#[cfg(test)]
mod tests {
    use super::super::directory;

    #[test]
    fn functions_of_arm_have_their_folders() {
        let of = |function| directory("6.18.15+deb13-arm64", function, None);
        assert_eq!(of("el1h_64_irq_handler"), Some("arch/arm64/kernel/"));
        assert_eq!(of("__pi_memset_generic"), Some("arch/arm64/lib/"));
        assert_eq!(of("gic_handle_irq"), Some("drivers/irqchip/"));
        assert_eq!(of("__arm64_sys_io_uring_enter"), Some("io_uring/"));
        // Both processors have one of this name, each its own.
        assert_eq!(of("__switch_to"), Some("arch/arm64/kernel/"));
        assert_eq!(directory("6.18.15+deb13-amd64", "__switch_to", None), Some("arch/x86/kernel/"));
        assert_eq!(of("native_write_msr"), None, "no function of x86's");
        // What both have stays where it is.
        let of_module = |function, module| directory("6.18.15+deb13-arm64", function, Some(module));
        assert_eq!(of_module("nvmet_req_complete", "nvmet"), Some("drivers/nvme/target/"));
        assert_eq!(of_module("gic_handle_irq", "dm_mod"), None);
    }
}
