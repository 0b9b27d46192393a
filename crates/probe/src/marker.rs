//! Marks that a running program leaves for an observer of its instructions: no-ops that no compiler emits.
//!
//! On x86-64 the instruction is `nop dword ptr [rax + rax + D]` (Intel's manual, volume 2, NOP, 0F 1F /0)
//! with the displacement's upper bytes `O`, `P`, `J` and the code in its lowest. On 64-bit Arm it is
//! `movz xzr, #0x4f50, lsl #(16 * code)` (Arm's manual, C6.2, MOVZ), which moves to the register that takes
//! nothing. Neither does anything or touches memory, so they cost nothing if nobody watches.
//!
//! Codes: 0 and 1 are bits of a position, 2 and 3 a job's beginning and end. `plugin/window.c` of the lab
//! reads them.

/// The bit of a position that stands for a host at rest before that trial.
pub const AT_REST: u32 = 1 << 31;

macro_rules! mark {
    ($code:literal) => {
        // SAFETY: a no-op, whatever its operand says.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            core::arch::asm!(
                concat!(".byte 0x0f, 0x1f, 0x84, 0x00, ", $code, ", 0x4f, 0x50, 0x4a"),
                options(nomem, nostack, preserves_flags)
            );
        }
        // SAFETY: a no-op, for its result goes nowhere.
        #[cfg(target_arch = "aarch64")]
        unsafe {
            core::arch::asm!(
                concat!(".inst 0xd289ea1f + ", $code, " * 0x200000"),
                options(nomem, nostack, preserves_flags)
            );
        }
    };
}

/// Announces the position of the next trial, most significant bit first. Later windows belong to it.
#[inline(never)]
pub fn announce(position: u32) {
    for bit in (0..u32::BITS).rev() {
        if position >> bit & 1 == 0 {
            mark!("0x00");
        } else {
            mark!("0x01");
        }
    }
}

/// A job's measured window begins. The trial's window is open while any job's is.
#[inline]
pub fn begin() {
    mark!("0x02");
}

/// A job's measured window ends.
#[inline]
pub fn end() {
    mark!("0x03");
}
