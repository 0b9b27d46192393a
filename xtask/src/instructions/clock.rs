//! The instructions of one clock read, counted by executing it one instruction at a time (ptrace(2)).
//!
//! Instructions outside this program's own code are counted: glibc's `clock_gettime` and the kernel's vDSO.
//! Single steps are so slow that the kernel updates its time during some reads, which then start again; the
//! median excludes those.

use anyhow::{Context, Result, ensure};
use libc::{c_int, c_void, pid_t};
use std::fs;
use std::io::Error;
use std::ops::Range;

/// Reads whose instructions are counted.
const READS: usize = 1000;

/// Instructions of one `clock_gettime(CLOCK_MONOTONIC)` on this machine.
///
/// # Errors
/// A sandbox forbids ptrace, or the child that reads the clock did not end as it should.
pub(crate) fn instructions_per_read() -> Result<u32> {
    let own_code = own_code()?;
    // SAFETY: this program has one thread, and the child calls nothing but the functions of `read_clock`.
    let child = unsafe { libc::fork() };
    match child {
        -1 => Err(Error::last_os_error()).context("fork"),
        0 => read_clock(),
        child => count(child, &own_code),
    }
}

/// The child: stops for its tracer, reads the clock, ends.
fn read_clock() -> ! {
    // SAFETY: these functions may be called after fork; `time` is a valid place for the answer.
    unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        if libc::ptrace(libc::PTRACE_TRACEME) == -1 {
            libc::_exit(1);
        }
        libc::raise(libc::SIGSTOP);
        for _ in 0..READS {
            libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time);
        }
        libc::_exit(0)
    }
}

/// Steps the child to its end; the median over its reads of the instructions outside `own_code`.
fn count(child: pid_t, own_code: &[Range<u64>]) -> Result<u32> {
    let mut reads = Vec::new();
    let mut instructions = 0;
    while let Some(at) = stopped_at(child)? {
        if !own_code.iter().any(|range| range.contains(&at)) {
            instructions += 1;
        } else if instructions > 0 {
            reads.push(std::mem::take(&mut instructions));
        }
        // SAFETY: the child is stopped and traced by this program; no address and no signal are passed.
        let stepped = unsafe { libc::ptrace(libc::PTRACE_SINGLESTEP, child, 0_usize, 0_usize) };
        if stepped == -1 {
            return Err(Error::last_os_error()).context("ptrace(PTRACE_SINGLESTEP)");
        }
    }
    ensure!(
        reads.len() >= READS,
        "the child that reads the clock was not traced: ptrace may be forbidden here"
    );
    reads.sort_unstable();
    Ok(reads[reads.len() / 2])
}

/// Waits for the child's next stop and gives the address that it is at; `None` once the child has ended.
fn stopped_at(child: pid_t) -> Result<Option<u64>> {
    let mut status: c_int = 0;
    // SAFETY: `status` is a valid place for the answer, and `child` is a child of this program.
    if unsafe { libc::waitpid(child, &raw mut status, 0) } != child {
        return Err(Error::last_os_error()).context("waitpid");
    }
    if libc::WIFSTOPPED(status) { program_counter(child).map(Some) } else { Ok(None) }
}

/// The address of the stopped child's next instruction.
fn program_counter(child: pid_t) -> Result<u64> {
    // SAFETY: the structure is plain numbers, for which all zero is a value.
    let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    let mut place = libc::iovec {
        iov_base: (&raw mut registers).cast::<c_void>(),
        iov_len: size_of::<libc::user_regs_struct>(),
    };
    // SAFETY: the child is stopped and traced by this program; `place` names `registers` and its length.
    let got = unsafe { libc::ptrace(libc::PTRACE_GETREGSET, child, libc::NT_PRSTATUS, &raw mut place) };
    if got == -1 {
        return Err(Error::last_os_error()).context("ptrace(PTRACE_GETREGSET)");
    }
    #[cfg(target_arch = "x86_64")]
    return Ok(registers.rip);
    #[cfg(target_arch = "aarch64")]
    return Ok(registers.pc);
}

/// Where this program's own code is mapped (proc_pid_maps(5)); the child has it at the same addresses.
fn own_code() -> Result<Vec<Range<u64>>> {
    let program = std::env::current_exe()?;
    let maps = fs::read_to_string("/proc/self/maps").context("/proc/self/maps")?;
    Ok(maps
        .lines()
        .filter(|line| line.ends_with(&*program.to_string_lossy()))
        .filter_map(executable)
        .collect())
}

/// The addresses of a line of the map, if they are executable.
fn executable(line: &str) -> Option<Range<u64>> {
    let (addresses, rest) = line.split_once(' ')?;
    let (start, end) = addresses.split_once('-')?;
    let address = |text| u64::from_str_radix(text, 16).ok();
    rest.starts_with("r-x").then_some(address(start)?..address(end)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_is_executable() {
        assert_eq!(executable("1000-2000 r-xp 00001000 fe:00 7 /a"), Some(0x1000..0x2000));
        assert_eq!(executable("1000-2000 r--p 00001000 fe:00 7 /a"), None);
        assert_eq!(executable(""), None);
    }

    #[test]
    fn this_program_has_code() {
        let here = executable as *const () as u64;
        assert!(own_code().unwrap().iter().any(|range| range.contains(&here)));
    }
}
