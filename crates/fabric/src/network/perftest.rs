//! What the programs of perftest print: `ib_send_lat` and `ib_send_bw` (linux-rdma/perftest,
//! `src/perftest_parameters.h`, `RESULT_FMT`, `RESULT_FMT_LAT`, `RESULT_FMT_G`).

use super::NetworkError;

/// The median time of a message on one way, in ns, as `ib_send_lat` prints it: half of a round trip.
///
/// # Errors
/// The text has no row of results.
pub fn latency_ns(text: &str) -> Result<f64, NetworkError> {
    let (_, row) = row_below(text, "t_typical[usec]")?;
    // #bytes #iterations t_min t_max t_typical
    number(&row, 4).map(|us| us * 1e3)
}

/// The mean bits per second of `ib_send_bw`, in either of its units.
///
/// # Errors
/// The text has no row of results.
pub fn bits_per_s(text: &str) -> Result<f64, NetworkError> {
    let (heading, row) = row_below(text, "BW average[")?;
    // Its MB are 2^20 bytes.
    let factor = if heading.contains("BW average[Gb/sec]") { 1e9 } else { 8.0 * 1024.0 * 1024.0 };
    // #bytes #iterations peak average
    number(&row, 3).map(|rate| rate * factor)
}

/// The version in the output of `--version`: `perftest 6.06`.
pub fn version(text: &str) -> String {
    let number = text.split_whitespace().last().filter(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    number.map_or("perftest".to_owned(), |number| format!("perftest {number}"))
}

/// The heading that has this column, and the words of the row below it.
fn row_below<'t>(text: &'t str, column: &str) -> Result<(&'t str, Vec<&'t str>), NetworkError> {
    let mut lines = text.lines();
    let heading =
        lines.by_ref().find(|line| line.trim_start().starts_with("#bytes") && line.contains(column));
    let row = lines.find(|line| line.trim_start().starts_with(|c: char| c.is_ascii_digit()));
    match (heading, row) {
        (Some(heading), Some(row)) => Ok((heading, row.split_whitespace().collect())),
        _ => {
            let said = text
                .lines()
                .rev()
                .map(str::trim)
                .find(|line| !line.is_empty() && !line.starts_with('-') && !line.starts_with('#'));
            let said = said.map_or_else(String::new, |line| format!("; it said `{line}`"));
            Err(NetworkError(format!("perftest printed no result{said}")))
        }
    }
}

fn number(row: &[&str], at: usize) -> Result<f64, NetworkError> {
    let number = row.get(at).and_then(|word| word.parse::<f64>().ok());
    number.filter(|number| number.is_finite() && *number > 0.0).ok_or_else(|| {
        NetworkError(format!("perftest printed a row without its result: `{}`", row.join(" ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LATENCY: &str = " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    \
                           t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] \n";
    const RATE: &str = " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n";

    #[test]
    fn the_median_and_the_mean_rate_are_read_in_their_units() {
        let lines =
            "-----\n                    Send Latency Test\n Dual-port       : OFF\t\tDevice  : rxe0\n-----\n";
        let row = " 2       1000          1.80           6.92         1.85     \t       1.86        \t0.06   \
                   \t\t1.97    \t\t6.92   \n-----\n";
        assert_eq!(latency_ns(&format!("{lines}{LATENCY}{row}")), Ok(1850.0));
        let row = " 65536      1000             11014.35            11013.18\t\t   0.176211\n";
        assert_eq!(bits_per_s(&format!("{lines}{RATE}{row}")), Ok(11013.18 * 8.0 * 1_048_576.0));
        let gigabits = RATE.replace("MB/sec", "Gb/sec");
        let row = " 65536      1000             92.41              92.40    \t\t   0.176211\n";
        assert_eq!(bits_per_s(&format!("{gigabits}{row}")), Ok(92.40e9));
        assert_eq!(version("Version: 6.06\n"), "perftest 6.06");
        assert_eq!(version(""), "perftest");
    }

    #[test]
    fn what_it_said_instead_is_in_the_message() {
        let said = " Did not detect devices \n If device exists, check if driver is up\n Unable to find the \
                    Infiniband/RoCE device\n";
        let error = latency_ns(said).unwrap_err().to_string();
        assert_eq!(error, "perftest printed no result; it said `Unable to find the Infiniband/RoCE device`");
        let error = bits_per_s(&format!("{RATE} 65536 1000\n")).unwrap_err().to_string();
        assert_eq!(error, "perftest printed a row without its result: `65536 1000`");
    }

    proptest! {
        #[test]
        fn any_row_is_read_and_any_text_is_an_error_or_a_number(
            typical in 0.01f64..1e5,
            rate in 0.01f64..1e5,
            text in "(?s).{0,200}",
        ) {
            let row = format!(" 2 1000 0.50 900000.00 {typical:.2} 1.00 0.1 1.0 2.0\n");
            let read = latency_ns(&format!("{LATENCY}{row}")).unwrap();
            prop_assert!((read - typical * 1e3).abs() <= 5.001);
            let row = format!(" 65536 1000 {rate:.2} {rate:.2} 0.1\n");
            let read = bits_per_s(&format!("{}{row}", RATE.replace("MB/sec", "Gb/sec"))).unwrap();
            prop_assert!((read - rate * 1e9).abs() <= 5.001e6);
            for heading in ["", LATENCY, RATE] {
                let text = format!("{heading}{text}");
                prop_assert!(latency_ns(&text).is_ok_and(|ns| ns > 0.0) || latency_ns(&text).is_err());
                prop_assert!(bits_per_s(&text).is_ok_and(|bits| bits > 0.0) || bits_per_s(&text).is_err());
            }
        }
    }
}
