//! The header: it is committed, and it is what cbindgen writes of the sources; each function is guarded.

use cbindgen::{Builder, Config, DocumentationStyle, Language, RenameRule, Style};
use std::fs;
use std::path::{Path, PathBuf};

/// The sources that C sees, in the header's order.
const SOURCES: [&str; 5] = ["error.rs", "target.rs", "pool.rs", "engine.rs", "auto.rs"];

/// Set to write the header instead of comparing it: `cargo xtask ffi --header`.
const WRITE: &str = "IOPJ_WRITE_HEADER";

const STRUCTS: [(&str, &str); 7] = [
    ("IopjTargetInfo", "iopj_target_info"),
    ("IopjAvailability", "iopj_availability"),
    ("IopjPoolInfo", "iopj_pool_info"),
    ("IopjBuffer", "iopj_buffer"),
    ("IopjRequest", "iopj_request"),
    ("IopjCompletion", "iopj_completion"),
    ("IopjCounters", "iopj_counters"),
];

const TOP: &str = "/*
 * iopj: every way that Linux offers to do one I/O, behind one interface.
 *
 * Functions return IOPJ_OK or a negative code, those that count a number from 0 on, and those that open a
 * handle, or 0. iopj_last_error says why the last call of this thread failed. Handles belong to the thread
 * that opened them. README.md beside this file's folder says the rest.
 */";

fn in_crate(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn config() -> Config {
    let mut config = Config {
        language: Language::C,
        style: Style::Tag,
        header: Some(TOP.to_owned()),
        autogen_warning: Some("/* cbindgen writes this file: cargo xtask ffi --header. */".to_owned()),
        include_guard: Some("IOPJ_H".to_owned()),
        cpp_compat: true,
        no_includes: true,
        sys_includes: vec!["stddef.h".to_owned(), "stdint.h".to_owned()],
        usize_is_size_t: true,
        line_length: 110,
        tab_width: 4,
        documentation_style: DocumentationStyle::C99,
        ..Config::default()
    };
    config.export.rename = STRUCTS.map(|(rust, c)| (rust.to_owned(), c.to_owned())).into();
    config.function.rename_args = RenameRule::None;
    config
}

fn generated() -> String {
    let builder = Builder::new().with_config(config());
    let sources = SOURCES.iter().map(|name| in_crate("src").join(name));
    let header = sources.fold(builder, Builder::with_src).generate().unwrap();
    let mut text = Vec::new();
    header.write(&mut text);
    String::from_utf8(text).unwrap()
}

#[test]
fn the_committed_header_is_what_cbindgen_writes() {
    let (generated, committed) = (generated(), in_crate("include/iopj.h"));
    if std::env::var_os(WRITE).is_some() {
        return fs::write(committed, generated).unwrap();
    }
    let committed = fs::read_to_string(committed).unwrap_or_default();
    if let Some((old, new)) = committed.lines().zip(generated.lines()).find(|(old, new)| old != new) {
        panic!("include/iopj.h is old: run `cargo xtask ffi --header`; it has\n{old}\nand not\n{new}");
    }
    assert!(committed == generated, "include/iopj.h is old: run `cargo xtask ffi --header`");
}

#[test]
fn every_function_of_the_header_is_guarded_against_panics() {
    let mut functions = Vec::new();
    for source in SOURCES {
        let text = fs::read_to_string(in_crate("src").join(source)).unwrap();
        for after in text.split("#[unsafe(no_mangle)]").skip(1) {
            let (head, body) = after.split_once("{\n").unwrap();
            assert!(head.contains("extern \"C\" fn iopj_"), "{source}: {head}");
            assert!(body.trim_start().starts_with("guard(|| "), "{source}: not guarded: {head}");
            // The body is one expression: nothing comes after the guard.
            let end = body.find("\n}\n").unwrap();
            let tail = body[..end].lines().last().unwrap();
            assert!(tail.starts_with("    })") || tail.starts_with("    guard(|| "), "{source}: {tail}");
            functions.push(head.split("fn ").nth(1).unwrap().split('(').next().unwrap().to_owned());
        }
    }
    let header = fs::read_to_string(in_crate("include/iopj.h")).unwrap();
    assert_eq!(functions.len(), 30);
    for function in functions {
        assert!(header.contains(&format!("{function}(")), "{function} is not in the header");
    }
}
