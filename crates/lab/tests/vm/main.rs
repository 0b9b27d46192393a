//! Real guests under emulation: boots and results, every bad end of a guest, and drives that fail.

mod bench;
mod boots;
mod ends;
mod faults;
