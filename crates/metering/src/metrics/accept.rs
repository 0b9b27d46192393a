//! Which of two formats a scraper wants, by its `Accept` headers (RFC 9110, 12.5.1).

/// Media type of OpenMetrics.
const OPENMETRICS: (&str, &str) = ("application", "openmetrics-text");
/// Media type of the text format 0.0.4.
const PLAIN: (&str, &str) = ("text", "plain");

/// True if a request, of which this is the head, wants the older text format more than OpenMetrics.
pub(super) fn wants_plain(head: &str) -> bool {
    let accepts = || head.lines().skip(1).filter_map(|line| line.split_once(':'));
    let values = accepts().filter(|(name, _)| name.eq_ignore_ascii_case("accept"));
    let ranges: Vec<Range<'_>> =
        values.flat_map(|(_, value)| value.split(',')).filter_map(Range::of).collect();
    !ranges.is_empty() && quality(&ranges, PLAIN) > quality(&ranges, OPENMETRICS)
}

/// A media range with its quality.
struct Range<'a> {
    kind: &'a str,
    subtype: &'a str,
    quality: f64,
}

impl Range<'_> {
    fn of(text: &str) -> Option<Range<'_>> {
        let mut parts = text.split(';').map(str::trim);
        let (kind, subtype) = parts.next()?.split_once('/')?;
        let weight =
            parts.filter_map(|part| part.split_once('=')).find(|(name, _)| name.eq_ignore_ascii_case("q"));
        let quality = weight.map_or(Some(1.0), |(_, value)| value.parse().ok())?;
        Some(Range { kind, subtype, quality })
    }

    /// How exactly it names a type; `None` if it does not.
    fn names(&self, (kind, subtype): (&str, &str)) -> Option<u8> {
        let is = |wanted: &str, found: &str| found.eq_ignore_ascii_case(wanted);
        match (self.kind, self.subtype) {
            ("*", "*") => Some(0),
            (found, "*") if is(kind, found) => Some(1),
            (found, sub) if is(kind, found) && is(subtype, sub) => Some(2),
            _ => None,
        }
    }
}

/// The best quality of the ranges that name a type most exactly; 0 of a type that none names.
fn quality(ranges: &[Range<'_>], of: (&str, &str)) -> f64 {
    let named = || ranges.iter().filter_map(|range| Some((range.names(of)?, range.quality)));
    let most = named().map(|(exact, _)| exact).max();
    named().filter(|(exact, _)| Some(*exact) == most).map(|(_, quality)| quality).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_older_format_is_for_those_that_prefer_it() {
        let wants = |accept: &str| wants_plain(&format!("GET /metrics HTTP/1.1\r\n{accept}\r\n\r\n"));
        // What Prometheus 2.42 sends.
        let prometheus = "Accept: application/openmetrics-text;version=1.0.0,\
                          application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        for openmetrics in
            ["Host: x", "Accept: */*", "accept: APPLICATION/openmetrics-text", "Accept: nonsense", prometheus]
        {
            assert!(!wants(openmetrics), "{openmetrics}");
        }
        for plain in [
            "Accept: text/plain",
            "Host: x\r\nACCEPT: text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
            "Accept: application/openmetrics-text;q=0\r\nAccept: text/*",
            "Accept: text/html, text/plain; q=0.9, application/*; q=0.8",
        ] {
            assert!(wants(plain), "{plain}");
        }
    }
}
