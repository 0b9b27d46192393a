//! Functions whose names come from macros, which reading the C code alone does not show.

/// Macros, and the names that each defines: `{1}` and `{2}` are its arguments. One name represents all
/// functions of a system call or a trace event: the look-up knows the related ones.
struct Rule {
    macros: &'static str,
    /// Whether a number follows the macro's name, as in `SYSCALL_DEFINE3`.
    numbered: bool,
    names: &'static [&'static str],
    /// The folder of the code, if it is not the macro's.
    folder: Option<&'static str>,
}

const fn rule(macros: &'static str, names: &'static [&'static str]) -> Rule {
    Rule { macros, numbered: false, names, folder: None }
}

const fn numbered(macros: &'static str, names: &'static [&'static str]) -> Rule {
    Rule { numbered: true, ..rule(macros, names) }
}

const fn entry(macros: &'static str, names: &'static [&'static str]) -> Rule {
    Rule { folder: Some("arch/x86/entry/"), ..rule(macros, names) }
}

/// Whether another function replaces the one that the macro `name` defines.
pub(super) fn is_weak(name: &str) -> bool {
    name.starts_with("COND_SYSCALL") || name.contains("_WEAK")
}

/// `include/linux/syscalls.h`, `include/trace/`, `arch/x86/include/asm/idtentry.h`, `include/linux/linkage.h`
/// and the like.
const RULES: &[Rule] = &[
    numbered("SYSCALL_DEFINE", &["__x64_sys_{1}"]),
    numbered("COMPAT_SYSCALL_DEFINE", &["__ia32_compat_sys_{1}"]),
    numbered("BPF_CALL_ NOTRACE_BPF_CALL_", &["{1}", "____{1}"]),
    entry(
        "DECLARE_IDTENTRY DECLARE_IDTENTRY_SW DECLARE_IDTENTRY_ERRORCODE DECLARE_IDTENTRY_RAW \
         DECLARE_IDTENTRY_RAW_ERRORCODE DECLARE_IDTENTRY_IRQ DECLARE_IDTENTRY_SYSVEC DECLARE_IDTENTRY_IST \
         DECLARE_IDTENTRY_MCE DECLARE_IDTENTRY_DEBUG DECLARE_IDTENTRY_DF DECLARE_IDTENTRY_NMI \
         DECLARE_IDTENTRY_VC DECLARE_IDTENTRY_XENCB",
        &["asm_{2}"],
    ),
    rule("DEFINE_IDTENTRY DEFINE_IDTENTRY_ERRORCODE DEFINE_IDTENTRY_IRQ", &["{1}", "__{1}"]),
    rule(
        "DEFINE_IDTENTRY_RAW DEFINE_IDTENTRY_RAW_ERRORCODE DEFINE_IDTENTRY_IST DEFINE_IDTENTRY_MCE \
         DEFINE_IDTENTRY_DEBUG DEFINE_IDTENTRY_DF DEFINE_IDTENTRY_VC DEFINE_IDTENTRY_NMI DEFINE_PARAVIRT_ASM \
         DEFINE_ASM_FUNC SYM_START SYM_FUNC_START SYM_FUNC_START_NOALIGN SYM_FUNC_START_LOCAL \
         SYM_FUNC_START_LOCAL_NOALIGN SYM_FUNC_START_WEAK SYM_FUNC_START_WEAK_NOALIGN SYM_FUNC_START_ALIAS \
         SYM_FUNC_START_LOCAL_ALIAS SYM_FUNC_ALIAS SYM_FUNC_ALIAS_LOCAL SYM_FUNC_ALIAS_MEMFUNC \
         SYM_FUNC_ALIAS_WEAK SYM_FUNC_END_ALIAS SYM_TYPED_FUNC_START SYM_CODE_START SYM_CODE_START_NOALIGN \
         SYM_CODE_START_LOCAL SYM_CODE_START_LOCAL_NOALIGN SYM_INNER_LABEL SYM_INNER_LABEL_ALIGN SYM_ENTRY \
         ENTRY",
        &["{1}"],
    ),
    rule("DEFINE_IDTENTRY_SYSVEC DEFINE_IDTENTRY_SYSVEC_SIMPLE", &["{1}", "__{1}", "instr_{1}"]),
    rule("DEFINE_IDTENTRY_NOIST DEFINE_IDTENTRY_MCE_USER DEFINE_IDTENTRY_DEBUG_USER", &["noist_{1}"]),
    rule("DEFINE_IDTENTRY_VC_KERNEL", &["kernel_{1}"]),
    rule("DEFINE_IDTENTRY_VC_USER", &["user_{1}"]),
    rule("DEFINE_FREDENTRY_NMI DEFINE_FREDENTRY_DEBUG DEFINE_FREDENTRY_MCE", &["fred_{1}"]),
    rule(
        "TRACE_EVENT TRACE_EVENT_CONDITION TRACE_EVENT_FN TRACE_EVENT_FN_COND TRACE_EVENT_SYSCALL \
         DECLARE_EVENT_CLASS DECLARE_EVENT_SYSCALL_CLASS",
        &["__traceiter_{1}"],
    ),
    rule("DEFINE_EVENT DEFINE_EVENT_FN DEFINE_EVENT_CONDITION DEFINE_EVENT_PRINT", &["__traceiter_{2}"]),
    rule("DECLARE_TRACE DECLARE_TRACE_CONDITION", &["__traceiter_{1}", "__traceiter_{1}_tp"]),
    rule("DEFINE_STATIC_CALL DEFINE_STATIC_CALL_NULL DEFINE_STATIC_CALL_RET0", &["__SCT__{1}"]),
    rule("COND_SYSCALL", &["__x64_sys_{1}"]),
    rule("COND_SYSCALL_COMPAT", &["__ia32_compat_sys_{1}"]),
    rule("PV_CALLEE_SAVE_REGS_THUNK", &["__raw_callee_save_{1}"]),
];

/// The functions that the macro `name` defines from `arguments`, if there is a rule for it, and the folder of
/// their code, if it is not the macro's.
pub(super) fn functions(name: &str, arguments: &[&str]) -> Option<(Option<&'static str>, Vec<String>)> {
    let unnumbered = name.strip_suffix(|c: char| c.is_ascii_digit());
    let rule = RULES.iter().find(|rule| {
        let name = if rule.numbered { unnumbered } else { Some(name) };
        rule.macros.split_whitespace().any(|own| Some(own) == name)
    })?;
    Some((rule.folder, rule.names.iter().filter_map(|name| fill(name, arguments)).collect()))
}

/// The name that `pattern` makes from `arguments`; none if an argument is missing or is not a name.
fn fill(pattern: &str, arguments: &[&str]) -> Option<String> {
    let number = pattern.find('{').map(|at| (at, usize::from(pattern.as_bytes()[at + 1] - b'1')));
    let Some((at, number)) = number else { return Some(pattern.to_owned()) };
    let argument = arguments.get(number).filter(|name| is_name(name))?;
    Some(format!("{}{argument}{}", &pattern[..at], &pattern[at + 3..]))
}

/// Whether `name` can be a C function's.
pub(super) fn is_name(name: &str) -> bool {
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    starts && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(name: &str, arguments: &[&str]) -> Vec<String> {
        functions(name, arguments).map(|(_, names)| names).unwrap_or_default()
    }

    #[test]
    fn macros_make_names() {
        assert_eq!(names("SYSCALL_DEFINE3", &["read", "unsigned int", "fd"]), ["__x64_sys_read"]);
        assert_eq!(names("SYSCALL_DEFINEx", &["read"]), [""; 0]);
        assert_eq!(names("DEFINE_EVENT", &["block_rq", "block_rq_issue"]), ["__traceiter_block_rq_issue"]);
        assert_eq!(names("SYM_FUNC_START_WEAK", &["memcpy"]), ["memcpy"]);
        assert_eq!(names("SYM_FUNC_START", &["\\name"]), [""; 0]);
        assert_eq!(names("DEFINE_EVENT", &["block_rq"]), [""; 0]);
    }

    #[test]
    fn an_entry_stub_lies_with_the_entry_code() {
        let found = functions("DECLARE_IDTENTRY_RAW_ERRORCODE", &["X86_TRAP_PF", "exc_page_fault"]);
        assert_eq!(found.unwrap(), (Some("arch/x86/entry/"), vec!["asm_exc_page_fault".to_owned()]));
    }
}
