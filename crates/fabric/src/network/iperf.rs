//! What `iperf3 --json` prints at the end of a test (its manual page, and `iperf_api.c` of iperf 3).

use super::NetworkError;
use serde_json::Value;

/// A stream as iperf3 measured it.
#[derive(Clone, Debug, PartialEq)]
pub struct Stream {
    /// The program with its version: `iperf 3.12`.
    pub version: String,
    /// Bits per second, as the receiving side counted them.
    pub bits_per_s: f64,
}

/// Reads a client's output.
///
/// # Errors
/// iperf3's own message, for in JSON an error may leave its exit code at 0; or text that iperf3 did not
/// write.
pub fn iperf3(text: &str) -> Result<Stream, NetworkError> {
    let json: Value = serde_json::from_str(text)
        .map_err(|error| NetworkError(format!("iperf3 printed something that is not JSON ({error})")))?;
    if let Some(error) = json.get("error").and_then(Value::as_str) {
        return Err(NetworkError(format!("iperf3: {error}")));
    }
    let bits = json.pointer("/end/sum_received/bits_per_second").and_then(Value::as_f64);
    let bits_per_s = bits.filter(|bits| *bits > 0.0).ok_or_else(|| {
        NetworkError("iperf3 printed no `sum_received`: nothing arrived in its test".to_owned())
    })?;
    let version = json.pointer("/start/version").and_then(Value::as_str).unwrap_or("iperf 3");
    Ok(Stream { version: version.to_owned(), bits_per_s })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Of iperf 3.12, without what is not read.
    const PRINTED: &str = r#"{ "start": { "version": "iperf 3.12" }, "intervals": [], "end": {
        "sum_sent": { "seconds": 1.000092, "bytes": 731381760, "bits_per_second": 5850515832.5434065 },
        "sum_received": { "seconds": 1.012322, "bytes": 725090304, "bits_per_second": 5730115943.34609 } } }"#;

    #[test]
    fn what_arrived_is_read_and_a_refusal_is_iperfs_own() {
        let stream = Stream { version: "iperf 3.12".to_owned(), bits_per_s: 5_730_115_943.346_09 };
        assert_eq!(iperf3(PRINTED), Ok(stream));
        let error = |text: &str| iperf3(text).unwrap_err().to_string();
        let refused = r#"{ "end": {}, "error": "unable to connect to server: Connection refused" }"#;
        assert_eq!(error(refused), "iperf3: unable to connect to server: Connection refused");
        assert!(error(&PRINTED.replace("5730115943.34609", "0")).contains("nothing arrived"));
        assert!(error("iperf3: error").starts_with("iperf3 printed something that is not JSON ("));
    }

    proptest! {
        #[test]
        fn any_rate_is_read_and_any_text_is_an_error_or_a_rate(bits in 1.0f64..1e13, text in "(?s).{0,200}") {
            let printed = PRINTED.replace("5730115943.34609", &bits.to_string());
            let read = iperf3(&printed).unwrap().bits_per_s;
            prop_assert!((read - bits).abs() <= bits * 1e-12);
            prop_assert!(iperf3(&text).is_ok_and(|stream| stream.bits_per_s > 0.0) || iperf3(&text).is_err());
        }
    }
}
