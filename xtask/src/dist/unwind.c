/*
 * What the libraries need of libgcc_s.so.1, to link with in its place: the functions without what they do.
 *
 * A thread that is cancelled, or that Python ends while the interpreter goes, is unwound by glibc, which loads
 * libgcc_s.so.1. A library has to ask the same one about the frames of Rust: those of another have another
 * layout.
 */
#define FUNCTION(name) void name(void) {}
FUNCTION(_Unwind_Backtrace)
FUNCTION(_Unwind_DeleteException)
FUNCTION(_Unwind_FindEnclosingFunction)
FUNCTION(_Unwind_GetCFA)
FUNCTION(_Unwind_GetDataRelBase)
FUNCTION(_Unwind_GetIP)
FUNCTION(_Unwind_GetIPInfo)
FUNCTION(_Unwind_GetLanguageSpecificData)
FUNCTION(_Unwind_GetRegionStart)
FUNCTION(_Unwind_GetTextRelBase)
FUNCTION(_Unwind_RaiseException)
FUNCTION(_Unwind_Resume)
FUNCTION(_Unwind_SetGR)
FUNCTION(_Unwind_SetIP)
