//! The suite of the engines, on adaptive ones over real files and loop devices.

use crate::short_epochs;
use crate::suite::subjects::{Opens, Subject, subjects};
use crate::suite::{conform, model};
use iopj_auto::{Auto, AutoBuilder, Policy, Way, available};
use iopj_engine::DynEngine;
use iopj_path::IoPath;
use iopj_path::path::Ring;
use std::rc::Rc;

/// Each way was tried once, not each time that an engine is opened.
fn opens(ways: &[Way], builder: impl Fn() -> AutoBuilder + 'static) -> Opens {
    let ways = ways.to_vec();
    Rc::new(move |target, pool, iodepth| {
        let auto = builder().among(&ways).iodepth(iodepth).open(target, pool)?;
        Ok(Box::new(auto) as Box<dyn DynEngine>)
    })
}

/// Adaptive engines of every rule, on each target.
fn adaptive() -> Vec<Subject> {
    let eager = || {
        let policy = Policy { exploration: 0.5, ..Policy::default() };
        Auto::builder().policy(policy).epochs(short_epochs())
    };
    let mut adaptive = Vec::new();
    for plain in subjects().iter().filter(|subject| subject.path == Some(IoPath::IoUring(Ring::PLAIN))) {
        let on = plain.name.split_once(" on ").unwrap().1.to_owned();
        let mut add = |name: &str, path: IoPath, opens| {
            adaptive.push(plain.alike(format!("auto, {name}, on {on}"), path, opens));
        };
        let here: Vec<Way> = available(plain.target())
            .into_iter()
            .filter_map(|(way, state)| state.is_available().then_some(way))
            .collect();
        let path = IoPath::IoUring(Ring::PLAIN);
        add("by what it sees", path, opens(&here, eager));
        add("by chance", path, opens(&here, || Auto::builder().random_switching(7).epochs(short_epochs())));
        add("always sqpoll", Way::Sqpoll.path(), opens(&here, || Auto::builder().pinned(Way::Sqpoll)));
        add("always posix-sio", Way::Sio.path(), opens(&here, || Auto::builder().pinned(Way::Sio)));
    }
    adaptive
}

#[test]
fn every_adaptive_engine_conforms() {
    conform(&adaptive());
}

#[test]
fn adaptive_engines_on_one_pool_agree_with_a_model() {
    model::agree(&adaptive()[..2]);
}
