//! System calls of the I/O path, inline: through the C library each costs some fifteen instructions more.

use std::ffi::c_long;

/// Calls the kernel; returns its result, or its errno negated.
///
/// # Safety
/// As the system call's own.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) unsafe fn syscall6(number: c_long, arguments: [usize; 6]) -> isize {
    let [first, second, third, fourth, fifth, sixth] = arguments;
    let result;
    // SAFETY: by this function's condition; the kernel changes rcx and r11 besides the result
    // (Documentation/arch/x86/entry_64.rst).
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") first, in("rsi") second, in("rdx") third,
            in("r10") fourth, in("r8") fifth, in("r9") sixth,
            lateout("rcx") _, lateout("r11") _,
            options(nostack, preserves_flags),
        );
    }
    result
}

/// Calls the kernel; returns its result, or its errno negated.
///
/// # Safety
/// As the system call's own.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub(crate) unsafe fn syscall6(number: c_long, arguments: [usize; 6]) -> isize {
    let [first, second, third, fourth, fifth, sixth] = arguments;
    let result;
    // SAFETY: by this function's condition; the kernel changes x0 alone.
    unsafe {
        std::arch::asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") first as isize => result,
            in("x1") second, in("x2") third, in("x3") fourth, in("x4") fifth, in("x5") sixth,
            options(nostack, preserves_flags),
        );
    }
    result
}

/// Calls the kernel; returns its result, or its errno negated.
///
/// # Safety
/// As the system call's own.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) unsafe fn syscall6(number: c_long, arguments: [usize; 6]) -> isize {
    let [first, second, third, fourth, fifth, sixth] = arguments;
    // SAFETY: by this function's condition.
    let result = unsafe { libc::syscall(number, first, second, third, fourth, fifth, sixth) };
    if result < 0 { -(crate::system::last_errno() as isize) } else { result as isize }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri makes no system call")]
    fn results_and_errors_are_the_kernels() {
        // SAFETY: the calls take no memory.
        let (own, missing) = unsafe {
            (syscall6(libc::SYS_getpid, [0; 6]), syscall6(libc::SYS_close, [usize::MAX, 0, 0, 0, 0, 0]))
        };
        assert_eq!((own, missing), (std::process::id() as isize, -(libc::EBADF as isize)));
        let mut ends = [0i32; 2];
        let flags = libc::O_CLOEXEC as usize;
        // SAFETY: the call writes two descriptors.
        assert_eq!(unsafe { syscall6(libc::SYS_pipe2, [ends.as_mut_ptr() as usize, flags, 0, 0, 0, 0]) }, 0);
        for end in ends {
            // SAFETY: the descriptors were just made, and are closed once.
            assert_eq!(unsafe { syscall6(libc::SYS_close, [end as usize, 0, 0, 0, 0, 0]) }, 0);
        }
    }
}
