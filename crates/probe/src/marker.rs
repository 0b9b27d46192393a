//! Marks that a running program leaves for an observer of its instructions: no-ops with an eight-byte
//! encoding that no compiler emits.
//!
//! The instruction is `nop dword ptr [rax + rax + D]` (Intel's manual, volume 2, NOP, 0F 1F /0) with the
//! displacement's upper bytes `O`, `P`, `J` and the code in its lowest. It does nothing and touches no
//! memory, so it costs nothing if nobody watches. Only x86-64 has marks.

/// The bytes of every mark before the code.
pub const PREFIX: [u8; 4] = [0x0f, 0x1f, 0x84, 0x00];
/// The bytes of every mark after the code.
pub const SUFFIX: [u8; 3] = *b"OPJ";

/// The code of a zero bit of a trial's position.
pub const ZERO: u8 = 0;
/// The code of a one bit of a trial's position.
pub const ONE: u8 = 1;
/// The code of a job's beginning.
pub const BEGIN: u8 = 2;
/// The code of a job's end.
pub const END: u8 = 3;

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
