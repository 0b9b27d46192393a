//! A study file is refused, or is the same study after it was written and read again; its matrix is spanned
//! or refused.
#![no_main]

use iopj_study::Study;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(study) = iopj_run::read_study(text, "study.toml") else {
        return;
    };
    for workload in &study.workloads {
        let _ = workload.workloads();
    }
    let _ = (study.settings_matrix(), study.generators(), study.file_size());
    if let Ok(written) = study.to_toml() {
        let again = Study::parse(&written, "written").expect("what was written is a study");
        assert_eq!(written, again.to_toml().expect("what was read can be written"));
    }
});
