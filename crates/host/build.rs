//! Tells the crate by which of cargo's profiles it is built: figures of a quick build and of a shipped one
//! are told apart.

use std::env;
use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Cargo names the profile to nobody, but builds in TARGET/PROFILE/build/.
    let folder = env::var("OUT_DIR").unwrap_or_default();
    let build = Path::new(&folder).ancestors().find(|folder| folder.ends_with("build"));
    let profile = build.and_then(|build| build.parent()?.file_name()?.to_str()).unwrap_or("unknown");
    println!("cargo::rustc-env=IOPJ_PROFILE={profile}");
}
