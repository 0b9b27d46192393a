//! The processors that a guest can have, and what the distributions and QEMU call them.

use std::fmt;
use std::str::FromStr;

/// A guest's processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Arch {
    /// x86 with 64 bits.
    X86_64,
    /// Arm with 64 bits.
    Aarch64,
}

impl Arch {
    /// Every processor.
    pub const ALL: [Arch; 2] = [Arch::X86_64, Arch::Aarch64];

    /// This host's.
    pub const HOST: Arch = if cfg!(target_arch = "aarch64") { Arch::Aarch64 } else { Arch::X86_64 };

    /// The name, as `uname -m` prints it.
    pub fn as_str(self) -> &'static str {
        match self {
            Arch::X86_64 => "x86_64",
            Arch::Aarch64 => "aarch64",
        }
    }

    /// Debian's and Ubuntu's name.
    pub(crate) fn of_packages(self) -> &'static str {
        match self {
            Arch::X86_64 => "amd64",
            Arch::Aarch64 => "arm64",
        }
    }

    /// QEMU's program, and Debian's package of it.
    pub(crate) fn qemu(self) -> (&'static str, &'static str) {
        match self {
            Arch::X86_64 => ("qemu-system-x86_64", "qemu-system-x86"),
            Arch::Aarch64 => ("qemu-system-aarch64", "qemu-system-arm"),
        }
    }

    /// The guest's console.
    pub(crate) fn console(self) -> &'static str {
        match self {
            Arch::X86_64 => "ttyS0",
            Arch::Aarch64 => "ttyAMA0",
        }
    }

    /// The number in ELF files (elf(5), `e_machine`).
    pub(crate) fn elf_machine(self) -> u64 {
        match self {
            Arch::X86_64 => 62,
            Arch::Aarch64 => 183,
        }
    }
}

/// This host's.
impl Default for Arch {
    fn default() -> Arch {
        Arch::HOST
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A word that names no processor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no guest with the processor `{0}`: there are x86_64 and aarch64")]
pub struct UnknownArch(pub String);

impl FromStr for Arch {
    type Err = UnknownArch;

    fn from_str(text: &str) -> Result<Arch, UnknownArch> {
        let found = Arch::ALL.into_iter().find(|arch| arch.as_str() == text);
        found.ok_or_else(|| UnknownArch(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_has_one_text_form() {
        for arch in Arch::ALL {
            assert_eq!(arch.to_string().parse(), Ok(arch));
        }
        assert_eq!(Arch::HOST.as_str(), std::env::consts::ARCH);
        let error = "riscv64".parse::<Arch>().unwrap_err().to_string();
        assert!(error.contains("there are x86_64 and aarch64"), "{error}");
    }
}
