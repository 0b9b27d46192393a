//! Compiles the profiler's QEMU plugin, which `src/profile/profiler.rs` embeds.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=plugin/window.c");
    println!("cargo:rustc-check-cfg=cfg(profiler)");
    let target = |what: &str| env::var(format!("CARGO_CFG_TARGET_{what}")).unwrap_or_default();
    if target("ARCH") == "x86_64" && target("OS") == "linux" {
        compile();
        println!("cargo:rustc-cfg=profiler");
    }
}

/// Not linked to a C library: QEMU has one, and it may be another than the target's. A compiler that comes
/// with several C libraries, such as zig, has no headers where it links none, so compiling and linking are
/// apart.
fn compile() {
    let folder = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let object = folder.join("window.o");
    let compiler = cc::Build::new().opt_level(2).debug(false).get_compiler();
    let mut compile = compiler.to_command();
    compile.args(["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden"]);
    run(compile.args(["-fno-stack-protector", "-c", "plugin/window.c", "-o"]).arg(&object));
    let mut link = compiler.to_command();
    run(link.args(["-shared", "-nostdlib", "-o"]).arg(folder.join("window.so")).arg(object));
}

fn run(compiler: &mut Command) {
    let done = compiler.status();
    if !done.as_ref().is_ok_and(|status| status.success()) {
        eprintln!(
            "the profiler's plugin was not built by {compiler:?} ({done:?}): install a C compiler, or name \
             one in CC"
        );
        std::process::exit(1);
    }
}
