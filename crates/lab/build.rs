//! Compiles the profiler's QEMU plugin, which `src/profile/profiler.rs` embeds.

use std::env;
use std::path::Path;

fn main() {
    println!("cargo:rerun-if-changed=plugin/window.c");
    println!("cargo:rustc-check-cfg=cfg(profiler)");
    let target = |what: &str| env::var(format!("CARGO_CFG_TARGET_{what}")).unwrap_or_default();
    if target("ARCH") == "x86_64" && target("OS") == "linux" {
        compile();
        println!("cargo:rustc-cfg=profiler");
    }
}

/// Not linked to a C library: QEMU has one, and it may be another than the target's.
fn compile() {
    let library = Path::new(&env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("window.so");
    let mut compiler = cc::Build::new().opt_level(2).debug(false).get_compiler().to_command();
    compiler.args(["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden"]);
    compiler.args(["-fno-stack-protector", "-shared", "-nostdlib", "-o"]).arg(library).arg("plugin/window.c");
    let done = compiler.status();
    if !done.as_ref().is_ok_and(|status| status.success()) {
        eprintln!(
            "the profiler's plugin was not built by {compiler:?} ({done:?}): install a C compiler, or name \
             one in CC"
        );
        std::process::exit(1);
    }
}
