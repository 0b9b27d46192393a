//! Functions whose names come from macros, which reading the C code alone does not show.

/// A macro, and the names that it defines: `{1}` and `{2}` are its arguments. One name represents all
/// functions of a system call or a trace event: the look-up knows the related ones.
pub(super) struct Rule {
    macro_name: &'static str,
    /// Whether a number follows the macro's name, as in `SYSCALL_DEFINE3`.
    numbered: bool,
    names: &'static [&'static str],
    /// The folder of the code, where it is not the macro's.
    pub(super) folder: Option<&'static str>,
}

impl Rule {
    /// Whether another function of its name replaces it.
    pub(super) fn is_weak(&self) -> bool {
        self.macro_name.starts_with("COND_SYSCALL") || self.macro_name.contains("_WEAK")
    }
}

const fn rule(macro_name: &'static str, names: &'static [&'static str]) -> Rule {
    Rule { macro_name, numbered: false, names, folder: None }
}

const fn numbered(macro_name: &'static str, names: &'static [&'static str]) -> Rule {
    Rule { macro_name, numbered: true, names, folder: None }
}

const fn entry(macro_name: &'static str, names: &'static [&'static str]) -> Rule {
    Rule { macro_name, numbered: false, names, folder: Some("arch/x86/entry/") }
}

/// `include/linux/syscalls.h`, `include/trace/`, `arch/x86/include/asm/idtentry.h`, `include/linux/linkage.h`
/// and the like.
const RULES: &[Rule] = &[
    numbered("SYSCALL_DEFINE", &["__x64_sys_{1}"]),
    numbered("COMPAT_SYSCALL_DEFINE", &["__ia32_compat_sys_{1}"]),
    numbered("BPF_CALL_", &["{1}", "____{1}"]),
    numbered("NOTRACE_BPF_CALL_", &["{1}", "____{1}"]),
    entry("DECLARE_IDTENTRY", &["asm_{2}"]),
    entry("DECLARE_IDTENTRY_SW", &["asm_{2}"]),
    entry("DECLARE_IDTENTRY_ERRORCODE", &["asm_{2}"]),
    entry("DECLARE_IDTENTRY_RAW", &["asm_{2}"]),
    entry("DECLARE_IDTENTRY_RAW_ERRORCODE", &["asm_{2}"]),
    entry("DECLARE_IDTENTRY_IRQ", &["asm_{2}"]),
    entry("DECLARE_IDTENTRY_SYSVEC", &["asm_{2}"]),
    entry("DECLARE_IDTENTRY_IST", &["asm_{2}"]),
    entry("DECLARE_IDTENTRY_MCE", &["asm_{2}"]),
    entry("DECLARE_IDTENTRY_DEBUG", &["asm_{2}"]),
    entry("DECLARE_IDTENTRY_DF", &["asm_{2}"]),
    entry("DECLARE_IDTENTRY_NMI", &["asm_{2}"]),
    entry("DECLARE_IDTENTRY_VC", &["asm_{2}"]),
    entry("DECLARE_IDTENTRY_XENCB", &["asm_{2}"]),
    rule("DEFINE_IDTENTRY", &["{1}", "__{1}"]),
    rule("DEFINE_IDTENTRY_ERRORCODE", &["{1}", "__{1}"]),
    rule("DEFINE_IDTENTRY_RAW", &["{1}"]),
    rule("DEFINE_IDTENTRY_RAW_ERRORCODE", &["{1}"]),
    rule("DEFINE_IDTENTRY_IRQ", &["{1}", "__{1}"]),
    rule("DEFINE_IDTENTRY_SYSVEC", &["{1}", "__{1}", "instr_{1}"]),
    rule("DEFINE_IDTENTRY_SYSVEC_SIMPLE", &["{1}", "__{1}", "instr_{1}"]),
    rule("DEFINE_IDTENTRY_IST", &["{1}"]),
    rule("DEFINE_IDTENTRY_NOIST", &["noist_{1}"]),
    rule("DEFINE_IDTENTRY_MCE", &["{1}"]),
    rule("DEFINE_IDTENTRY_MCE_USER", &["noist_{1}"]),
    rule("DEFINE_IDTENTRY_DEBUG", &["{1}"]),
    rule("DEFINE_IDTENTRY_DEBUG_USER", &["noist_{1}"]),
    rule("DEFINE_IDTENTRY_DF", &["{1}"]),
    rule("DEFINE_IDTENTRY_VC", &["{1}"]),
    rule("DEFINE_IDTENTRY_VC_KERNEL", &["kernel_{1}"]),
    rule("DEFINE_IDTENTRY_VC_USER", &["user_{1}"]),
    rule("DEFINE_IDTENTRY_NMI", &["{1}"]),
    rule("DEFINE_FREDENTRY_NMI", &["fred_{1}"]),
    rule("DEFINE_FREDENTRY_DEBUG", &["fred_{1}"]),
    rule("DEFINE_FREDENTRY_MCE", &["fred_{1}"]),
    rule("TRACE_EVENT", &["__traceiter_{1}"]),
    rule("TRACE_EVENT_CONDITION", &["__traceiter_{1}"]),
    rule("TRACE_EVENT_FN", &["__traceiter_{1}"]),
    rule("TRACE_EVENT_FN_COND", &["__traceiter_{1}"]),
    rule("TRACE_EVENT_SYSCALL", &["__traceiter_{1}"]),
    rule("DECLARE_EVENT_CLASS", &["__traceiter_{1}"]),
    rule("DECLARE_EVENT_SYSCALL_CLASS", &["__traceiter_{1}"]),
    rule("DEFINE_EVENT", &["__traceiter_{2}"]),
    rule("DEFINE_EVENT_FN", &["__traceiter_{2}"]),
    rule("DEFINE_EVENT_CONDITION", &["__traceiter_{2}"]),
    rule("DEFINE_EVENT_PRINT", &["__traceiter_{2}"]),
    rule("DECLARE_TRACE", &["__traceiter_{1}", "__traceiter_{1}_tp"]),
    rule("DECLARE_TRACE_CONDITION", &["__traceiter_{1}", "__traceiter_{1}_tp"]),
    rule("DEFINE_STATIC_CALL", &["__SCT__{1}"]),
    rule("DEFINE_STATIC_CALL_NULL", &["__SCT__{1}"]),
    rule("DEFINE_STATIC_CALL_RET0", &["__SCT__{1}"]),
    rule("DEFINE_PARAVIRT_ASM", &["{1}"]),
    rule("DEFINE_ASM_FUNC", &["{1}"]),
    rule("COND_SYSCALL", &["__x64_sys_{1}"]),
    rule("COND_SYSCALL_COMPAT", &["__ia32_compat_sys_{1}"]),
    rule("SYM_START", &["{1}"]),
    rule("SYM_FUNC_START", &["{1}"]),
    rule("SYM_FUNC_START_NOALIGN", &["{1}"]),
    rule("SYM_FUNC_START_LOCAL", &["{1}"]),
    rule("SYM_FUNC_START_LOCAL_NOALIGN", &["{1}"]),
    rule("SYM_FUNC_START_WEAK", &["{1}"]),
    rule("SYM_FUNC_START_WEAK_NOALIGN", &["{1}"]),
    rule("SYM_FUNC_START_ALIAS", &["{1}"]),
    rule("SYM_FUNC_START_LOCAL_ALIAS", &["{1}"]),
    rule("SYM_FUNC_ALIAS", &["{1}"]),
    rule("SYM_FUNC_ALIAS_LOCAL", &["{1}"]),
    rule("SYM_FUNC_ALIAS_MEMFUNC", &["{1}"]),
    rule("SYM_FUNC_ALIAS_WEAK", &["{1}"]),
    rule("SYM_FUNC_END_ALIAS", &["{1}"]),
    rule("SYM_TYPED_FUNC_START", &["{1}"]),
    rule("SYM_CODE_START", &["{1}"]),
    rule("SYM_CODE_START_NOALIGN", &["{1}"]),
    rule("SYM_CODE_START_LOCAL", &["{1}"]),
    rule("SYM_CODE_START_LOCAL_NOALIGN", &["{1}"]),
    rule("SYM_INNER_LABEL", &["{1}"]),
    rule("SYM_INNER_LABEL_ALIGN", &["{1}"]),
    rule("SYM_ENTRY", &["{1}"]),
    rule("ENTRY", &["{1}"]),
    rule("PV_CALLEE_SAVE_REGS_THUNK", &["__raw_callee_save_{1}"]),
];

/// The rule for the macro `name`, and the functions that it defines from `arguments`.
pub(super) fn functions(name: &str, arguments: &[&str]) -> Option<(&'static Rule, Vec<String>)> {
    let rule = RULES.iter().find(|rule| match name.strip_prefix(rule.macro_name) {
        Some(rest) if rule.numbered => rest.len() == 1 && rest.starts_with(|c: char| c.is_ascii_digit()),
        Some(rest) => rest.is_empty(),
        None => false,
    })?;
    Some((rule, rule.names.iter().filter_map(|name| fill(name, arguments)).collect()))
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
        let (rule, names) =
            functions("DECLARE_IDTENTRY_RAW_ERRORCODE", &["X86_TRAP_PF", "exc_page_fault"]).unwrap();
        assert_eq!((rule.folder, names), (Some("arch/x86/entry/"), vec!["asm_exc_page_fault".to_owned()]));
    }
}
