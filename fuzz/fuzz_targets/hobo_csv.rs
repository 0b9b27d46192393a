//! HOBOware's exports, whatever they hold, become readings in order of time, or are refused with a line that
//! is there.
#![no_main]

use iopj_meter::Value;
use iopj_meter::log::{DateOrder, Decimal, LogConfig, LogFormat, read};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (Option<u8>, &[u8])| {
    let (choice, bytes) = input;
    let mut config = LogConfig::new(LogFormat::Hobo);
    if let Some(choice) = choice {
        config.date_order =
            [None, Some(DateOrder::Mdy), Some(DateOrder::Dmy), Some(DateOrder::Ymd)][usize::from(choice & 3)];
        config.decimal = [None, Some(Decimal::Point), Some(Decimal::Comma), Some(Decimal::Space)]
            [usize::from(choice >> 2 & 3)];
        config.time_zone = (choice & 16 != 0).then(|| "-05:00".to_owned());
        config.energy = (choice & 32 != 0).then(|| "Active Energy, Wh".to_owned());
    }
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
