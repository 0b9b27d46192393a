//! The agent on a target host, over a real ssh server: its whole life, every way in which it ends, and what
//! is said when there is none. The server listens on 127.0.0.1 alone, with keys made for each test.

#[path = "../common/mod.rs"]
mod common;
mod life;
mod made;
mod meters;
mod refusals;
mod server;
