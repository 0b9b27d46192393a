//! The documents: every command in them is run, or at least understood; and the book made of them.

mod book;
#[path = "../../../report/tests/browser/devtools.rs"]
mod devtools;
