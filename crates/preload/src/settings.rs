//! What the environment says: `IOPJ_PRELOAD`, `IOPJ_PRELOAD_STATS`, `IOPJ_PRELOAD_POLICY`.

use iopj_auto::{Aim, Policy};
use std::ffi::{CStr, CString};
use std::sync::OnceLock;

/// What was read when the library was loaded.
pub(crate) struct Settings {
    /// Nothing is moved, nothing is written.
    pub(crate) is_off: bool,
    /// Where the counts go when a process ends.
    pub(crate) stats: Option<CString>,
    /// What ways are chosen for, or why that cannot be said.
    pub(crate) policy: Result<Policy, String>,
}

static SETTINGS: OnceLock<Settings> = OnceLock::new();

/// The value of a variable. Of a program that is set-uid, whoever calls it says nothing: the library is in
/// there if `/etc/ld.so.preload` names it.
fn variable(name: &CStr) -> Option<CString> {
    // SAFETY: the call only reads what the kernel gave.
    if unsafe { libc::getauxval(libc::AT_SECURE) } != 0 {
        return None;
    }
    // SAFETY: the name ends with a zero byte; nobody changes the environment while the library is loaded.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    // SAFETY: a value ends with a zero byte.
    (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) }.to_owned())
}

/// The settings; read from the environment when this is first called.
pub(crate) fn get() -> &'static Settings {
    SETTINGS.get_or_init(|| Settings {
        is_off: variable(c"IOPJ_PRELOAD").is_some_and(|value| value.as_c_str() == c"off"),
        stats: variable(c"IOPJ_PRELOAD_STATS").filter(|value| !value.is_empty()),
        policy: policy(&variable(c"IOPJ_PRELOAD_POLICY").unwrap_or_default().to_string_lossy()),
    })
}

/// The policy: by the name of its aim, or from a file; the default if nothing is said.
fn policy(text: &str) -> Result<Policy, String> {
    let of_aim = |aim| Policy { aim, ..Policy::default() };
    match text {
        "" | "latency" => Ok(of_aim(Aim::Latency)),
        "cpu" => Ok(of_aim(Aim::Cpu)),
        path => {
            let text = iopj_auto::policy_text(std::path::Path::new(path)).map_err(|error| {
                format!("IOPJ_PRELOAD_POLICY: {path}: {error}: name a policy file, `latency` or `cpu`")
            })?;
            text.parse().map_err(|error| format!("IOPJ_PRELOAD_POLICY: {path}: {error}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_an_aim_or_a_file() {
        assert_eq!(policy("").unwrap(), Policy::default());
        assert_eq!(policy("cpu").unwrap().aim, Aim::Cpu);
        let error = policy("no/such/file").unwrap_err();
        assert!(error.ends_with("name a policy file, `latency` or `cpu`"), "{error}");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("policy.toml");
        std::fs::write(&path, "aim = \"cpu\"\n").unwrap();
        assert_eq!(policy(path.to_str().unwrap()).unwrap().aim, Aim::Cpu);
        std::fs::write(&path, "aim = \"speed\"\n").unwrap();
        assert!(policy(path.to_str().unwrap()).unwrap_err().contains("speed"));
    }
}
