//! The architectures that are built, and what each tool calls them.

/// The oldest C library that the programs start on.
pub(crate) const GLIBC: &str = "2.28";

/// An architecture.
#[derive(Debug)]
pub(crate) struct Arch {
    /// Rust's name.
    pub(crate) rust: &'static str,
    /// The compiler's name: Debian's folder of libraries, and a part of file names.
    pub(crate) gnu: &'static str,
    /// dpkg's and OCI's name.
    pub(crate) debian: &'static str,
    /// rpm's name.
    pub(crate) rpm: &'static str,
    /// What readelf calls it.
    pub(crate) readelf: &'static str,
    /// Its `strip` on any machine, and the Debian package that has it.
    strip: (&'static str, &'static str),
}

impl Arch {
    /// Its `strip`, and the Debian package that has it: the machine's own, or one for a foreign architecture.
    pub(crate) fn strip(&self) -> (&'static str, &'static str) {
        if self.rpm == std::env::consts::ARCH { ("strip", "binutils") } else { self.strip }
    }
}

/// All of them.
pub(crate) const ALL: [Arch; 2] = [
    Arch {
        rust: "x86_64-unknown-linux-gnu",
        gnu: "x86_64-linux-gnu",
        debian: "amd64",
        rpm: "x86_64",
        readelf: "X86-64",
        strip: ("x86_64-linux-gnu-strip", "binutils-x86-64-linux-gnu"),
    },
    Arch {
        rust: "aarch64-unknown-linux-gnu",
        gnu: "aarch64-linux-gnu",
        debian: "arm64",
        rpm: "aarch64",
        readelf: "AArch64",
        strip: ("aarch64-linux-gnu-strip", "binutils-aarch64-linux-gnu"),
    },
];
