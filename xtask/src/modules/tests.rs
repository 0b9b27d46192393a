//! Knots in small crates.

use super::*;
use std::fs;

/// What is found in a crate of these files.
fn found(files: &[(&str, &str)]) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    for (file, text) in files {
        let path = folder.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    knots(&Tree::read(&folder.path().join("lib.rs")).unwrap(), folder.path())
}

/// What is found in a crate of two files, `a`, which defines `A`, and `b`, which defines `B`.
fn pair(a: &str, b: &str) -> Vec<String> {
    let (a, b) = (format!("pub struct A;\n{a}"), format!("pub struct B;\npub fn go() {{}}\n{b}"));
    found(&[
        ("lib.rs", "mod a;\nmod b;\npub use a::A;\npub use b::{B, go as went};\n"),
        ("a.rs", &a),
        ("b.rs", &b),
    ])
}

const KNOT: &str = "2 modules use each other in a knot:\n  a.rs -> b.rs: B\n  b.rs -> a.rs: A";

#[test]
fn a_cycle_is_found_however_a_name_is_reached() {
    for a in [
        "use crate::b::B;",
        "use crate::{b::{self, B as Other}};",
        "use super::b;\nfn f(_: b::B) {}",
        "fn f() -> Option<crate::b::B> { None }",
        "fn f() { let x = super::b::B; }",
        "fn f() { use crate::b; b::B; }",
        "use crate::b::*;\nfn f(_: B) {}",
        "use super::*;\nfn f(_: B) {}",
        "mod inner { pub type X = crate::b::B; }",
        "fn f() { assert!(matches!(x, Some(crate::b::B))); }",
        "fn f() { println!(\"{}\", 1 + [0..crate::b::B][0]); }",
        "macro_rules! m { () => { $crate::b::B } }",
        "#[derive(Deserialize)]\nstruct S { #[serde(with = \"crate::b::B\")] x: u8 }",
        "use crate::B;",
        "fn f(_: crate::B) {}",
    ] {
        assert_eq!(pair(a, "use crate::a::A;"), [KNOT], "{a}");
        assert_eq!(pair(a, ""), [""; 0], "{a}");
    }
}

#[test]
fn a_name_counts_for_the_file_that_defines_it() {
    let renamed = pair("use crate::went;", "fn f(_: crate::A) {}");
    assert_eq!(renamed, ["2 modules use each other in a knot:\n  a.rs -> b.rs: go\n  b.rs -> a.rs: A"]);
}

/// Its files used each other one way, and its modules did not: `user` uses `back` through a re-export of
/// `front`, which uses `user`.
#[test]
fn a_module_counts_with_all_that_is_below_it() {
    let lib = "mod front;\nmod user;\n";
    let front = "mod back;\npub use back::Back;\npub fn run() { crate::user::start(); }\n";
    let user = "pub fn start() { crate::front::Back; }\n";
    let files = [
        ("lib.rs", lib),
        ("front/mod.rs", front),
        ("front/back.rs", "pub struct Back;\n"),
        ("user.rs", user),
    ];
    let found = found(&files);
    assert!(
        found.len() == 1
            && found[0].ends_with("front/mod.rs -> user.rs: start\n  user.rs -> front/mod.rs: Back")
    );
}

/// The libraries for C, for preloading and for Python were never looked at: their first kind is no `lib`.
#[test]
fn every_library_and_program_is_looked_at_whatever_it_is_linked_as() {
    let target = |kind: &[&str], file: &str| serde_json::json!({ "kind": kind, "src_path": file });
    let metadata = serde_json::json!({ "packages": [
        { "targets": [target(&["cdylib", "rlib"], "python"), target(&["bin"], "program")] },
        { "targets": [target(&["staticlib", "rlib"], "ffi"), target(&["lib"], "library")] },
        { "targets": [target(&["test"], "test"), target(&["custom-build"], "build")] },
    ] });
    assert_eq!(sources(&metadata).into_iter().collect::<Vec<_>>(), ["ffi", "library", "program", "python"]);
}

#[test]
fn only_the_knot_that_is_known_stays() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("crates/engine/src");
    fs::create_dir_all(&source).unwrap();
    let write = |name: &str, text: &str| fs::write(source.join(name), text).unwrap();
    write("lib.rs", "mod gate;\nmod target;\n");
    write("gate.rs", "use crate::target::Target;\npub fn check() {}\n");
    write("target.rs", "use crate::gate::check;\npub struct Target;\n");
    let found = || knots(&Tree::read(&source.join("lib.rs")).unwrap(), folder.path());
    assert_eq!(found(), [""; 0]);
    write("lib.rs", "mod gate;\nmod other;\nmod target;\n");
    write("other.rs", "use crate::gate::check;\npub fn other() {}\n");
    assert_eq!(found(), [""; 0], "another one that uses it is no part of it");
    write("target.rs", "use crate::gate::check;\nuse crate::other::other;\npub struct Target;\n");
    assert!(found()[0].starts_with("3 modules use each other in a knot:"), "{:?}", found());
}

#[test]
fn each_cycle_is_reported_once_with_all_its_files() {
    let lib = "mod a;\nmod b;\nmod c;\nmod d;\n";
    let files = [
        ("lib.rs", lib),
        ("a.rs", "use crate::b::f;\npub fn a() {}\n"),
        ("b.rs", "use super::c::{g, h};\npub fn f() {}\n"),
        ("c.rs", "pub fn g() { crate::a::a(); }\npub fn h() {}\n"),
        ("d.rs", "use crate::a;\nfn d() { a::a(); }\n"),
    ];
    let knot =
        "3 modules use each other in a knot:\n  a.rs -> b.rs: f\n  b.rs -> c.rs: g, h\n  c.rs -> a.rs: a";
    assert_eq!(found(&files), [knot]);
}

#[test]
fn a_module_and_those_below_it_may_use_each_other() {
    for (parent, child) in [("a.rs", "a/inner.rs"), ("a/mod.rs", "a/inner/mod.rs")] {
        let files = [
            ("lib.rs", "mod a;\npub fn top() {}\nfn f() { a::go(); }\n"),
            (parent, "mod inner;\npub struct A;\npub fn go() { inner::f(); crate::top(); }\n"),
            (child, "use super::A;\npub fn f() { crate::top(); }\n"),
        ];
        assert_eq!(found(&files), [""; 0]);
    }
}

#[test]
fn siblings_in_one_folder_may_not_use_each_other() {
    let files = [
        ("lib.rs", "mod a;\n"),
        ("a/mod.rs", "mod one;\n#[path = \"second.rs\"]\nmod two;\npub use one::One;\n"),
        ("a/one.rs", "pub struct One(super::two::Two);\n"),
        ("a/second.rs", "use super::One;\npub struct Two(Box<One>);\n"),
    ];
    let knot =
        "2 modules use each other in a knot:\n  a/one.rs -> a/second.rs: Two\n  a/second.rs -> a/one.rs: One";
    assert_eq!(found(&files), [knot]);
}

#[test]
fn tests_other_crates_fields_and_texts_are_no_uses() {
    for a in [
        "#[cfg(test)]\nmod tests { use crate::b::B; }",
        "#[cfg(test)]\nmod fixtures { pub struct X(crate::b::B); }",
        "#[cfg(test)]\nuse crate::b::{B, go};\nfn f() {}",
        "impl A { #[cfg(test)] fn f() -> crate::b::B { crate::b::B } fn g() {} }",
        "#[test]\nfn f() { crate::b::go(); }",
        "use ::other::b::B;\nuse anyhow::anyhow;\nfn f() { anyhow!(\"x\"); anyhow::b::B; }",
        "use crate::b;\nuse super::b as c;",
        "use super::*;\nfn f(x: X) { x.go(); x.went; }",
        "/// [`crate::b::B`] and crate::b::go()\nfn f() { \"crate::b::B\"; }",
        "fn f<'a>(x: &'a u8) -> impl Fn() + use<'a> { || () }",
    ] {
        assert_eq!(pair(a, "use crate::a::A;"), [""; 0], "{a}");
    }
}

/// Each glob was looked for through the other one, which doubled the work with every step.
#[test]
fn globs_that_lead_nowhere_end_the_search() {
    let globs = "macro_rules! kinds { ($x:ident) => { enum $x { One } } }\nkinds!(Kind);\nkinds!(Sort);\n\
                 fn f() { use Kind::*; use Sort::*; One; }\nfn g() { use Kind::*; use Sort::*; One; }\n";
    assert_eq!(pair(globs, "use crate::a::A;"), [""; 0]);
    assert_eq!(pair(&format!("{globs}use crate::b::*;\nfn h(_: B) {{}}"), "use crate::a::A;"), [KNOT]);
}
