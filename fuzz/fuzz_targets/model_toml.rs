//! Cost models: whatever stands in a file, it is a model that predicts without a panic, or it is refused.

#![no_main]

use iopj_model::{Case, Model, Quantity};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(model) = Model::from_toml(text) else { return };
    let Some(case) = model.cases.first().copied() else { return };
    for quantity in Quantity::ALL {
        let _ = model.predict(&case, quantity);
        let _ = model.predict(&Case { iodepth: u32::MAX, numjobs: u32::MAX, ..case }, quantity);
    }
    if let Ok(text) = model.to_toml() {
        let _ = Model::from_toml(&text);
    }
});
