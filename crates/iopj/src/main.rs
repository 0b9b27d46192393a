//! iopj.
fn main() {}
