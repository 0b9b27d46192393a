//! CSV logs, whatever they hold, become readings in order of time, or are refused with a line that is there.
#![no_main]

use iopj_meter::Value;
use iopj_meter::log::{LogConfig, LogFormat, LogKind, TimeFormat, read};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, &[u8])| {
    let (choice, bytes) = input;
    let formats = [
        TimeFormat::DateTime,
        TimeFormat::DateTime,
        TimeFormat::UnixS,
        TimeFormat::UnixMs,
        TimeFormat::UnixNs,
        TimeFormat::ElapsedS,
    ];
    let zones = [None, Some("UTC"), Some("CET-1CEST,M3.5.0,M10.5.0/3"), Some("AEST-10AEDT,M10.1.0,M4.1.0/3")];
    let is_energy = choice & 128 != 0;
    let config = LogConfig {
        time: Some("Time".into()),
        date: (choice & 64 != 0).then(|| "Date".into()),
        watts: (!is_energy).then(|| "W".into()),
        energy: is_energy.then(|| "Wh".into()),
        kind: Some(LogKind::Average),
        time_format: formats[usize::from(choice & 7) % formats.len()],
        time_zone: zones[usize::from(choice >> 3 & 3)].map(String::from),
        ..LogConfig::new(LogFormat::Csv)
    };
    match read(bytes, &config) {
        Ok(log) => {
            assert!(
                log.readings.len() > 1 && log.readings.windows(2).all(|pair| pair[0].own_ns < pair[1].own_ns)
            );
            assert!(log.readings.iter().all(|reading| matches!(reading.value, Value::Count(_))
                || matches!(reading.value, Value::Watts(watts) if watts.is_finite())));
        }
        Err(error) => assert!(error.line.is_none_or(|line| line <= bytes.len() + 1)),
    }
});
