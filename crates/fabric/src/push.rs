//! Copying iopj to another host: the program for its processor, checked by its hash.

use crate::error::FabricError;
use crate::ssh::Control;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::AtomicBool;

/// Copies the program, unless it is there, and returns the command that is iopj there. `command` is the one
/// that it replaces; what stands before the program (`sudo -n`) stays.
///
/// # Errors
/// There is no program for the host's processor, it did not arrive whole, or `stop` was set meanwhile.
pub fn push(control: &Control, command: &str, stop: &AtomicBool) -> Result<String, FabricError> {
    let architecture = control.run("uname -m", Stdio::null(), stop)?;
    let program = program(&control.host, &architecture)?;
    let hash = File::open(&program)
        .and_then(sha256)
        .map_err(FabricError::io(format!("read {}", program.display())))?;
    let folder = format!("$HOME/.cache/iopj/agent-{}", &hash[..16]);
    let sum = |file: &str| format!("sha256sum {folder}/{file} 2>/dev/null || :");
    let is_whole = |text: &str| text.split_whitespace().next() == Some(hash.as_str());
    if !is_whole(&control.run(&sum("iopj"), Stdio::null(), stop)?) {
        let input = File::open(&program).map_err(FabricError::io(format!("read {}", program.display())))?;
        let copy = format!("umask 077 && mkdir -p {folder} && cat >{folder}/new && chmod 700 {folder}/new");
        control.run(&copy, input.into(), stop)?;
        if !is_whole(&control.run(&sum("new"), Stdio::null(), stop)?) {
            let reason = format!("the copy of {} did not arrive whole: try again", program.display());
            return Err(FabricError::Ssh { host: control.host.clone(), reason });
        }
        control.run(&format!("mv {folder}/new {folder}/iopj"), Stdio::null(), stop)?;
    }
    let before = command.rsplit_once(' ').map_or("", |(before, _)| before);
    Ok(format!("{before} {folder}/iopj").trim_start().to_owned())
}

/// The iopj for a processor: this one, or `iopj-ARCHITECTURE` beside it.
fn program(host: &str, architecture: &str) -> Result<PathBuf, FabricError> {
    let own = std::env::current_exe().map_err(FabricError::io("find this program"))?;
    if architecture == std::env::consts::ARCH {
        return Ok(own);
    }
    let is_plain = architecture.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let name = format!("iopj-{}", if is_plain { architecture } else { "unknown" });
    let file = own.with_file_name(name);
    let (host, architecture) = (host.to_owned(), architecture.to_owned());
    if file.is_file() { Ok(file) } else { Err(FabricError::NoProgram { host, architecture, file }) }
}

/// The SHA-256 of all that is to be read, in hexadecimal digits.
///
/// # Errors
/// The reader's.
pub fn sha256(mut input: impl Read) -> io::Result<String> {
    let (mut digest, mut block) = (Sha256::new(), vec![0; 1 << 20]);
    loop {
        match input.read(&mut block)? {
            0 => return Ok(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()),
            read => digest.update(&block[..read]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_the_one_that_sha256sum_prints() {
        // FIPS 180-4, the first example.
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256(&b"abc"[..]).unwrap(), expected);
    }

    #[test]
    fn another_processor_needs_its_own_program() {
        let error = program("storage1", "riscv64").unwrap_err().to_string();
        assert!(error.starts_with("storage1 is riscv64, and there is no iopj for it at /"), "{error}");
        assert_eq!(program("storage1", std::env::consts::ARCH).unwrap(), std::env::current_exe().unwrap());
    }
}
