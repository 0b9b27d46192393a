//! HTTP and HTTPS for meters: one address, a time limit on everything, a limit on what is read, no redirects.

use crate::meter::MeterError;
use crate::open::OpenError;
use crate::secret::Secret;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::io::ErrorKind;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};
use ureq::http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use ureq::http::{Response, Uri};
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Body, Error};

/// The longest answer that is read, in bytes: exporters of large machines send some hundred KiB.
const LONGEST_ANSWER: u64 = 4 << 20;
/// The longest time limit, in s.
const LONGEST_TIMEOUT_S: f64 = 60.0;

/// The greatest age of a value, in s.
const LONGEST_AGE_S: f64 = 3600.0;

/// How a certificate is checked: against Mozilla's roots, those of a file, or not at all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trust<'a> {
    pub(crate) ca_file: Option<&'a Path>,
    pub(crate) insecure: bool,
}

impl Trust<'_> {
    fn config(self) -> Result<TlsConfig, OpenError> {
        let builder = TlsConfig::builder();
        match (self.ca_file, self.insecure) {
            (Some(_), true) => {
                Err(OpenError("ca_file and insecure contradict each other: give one of them".into()))
            }
            (None, insecure) => Ok(builder.disable_verification(insecure).build()),
            (Some(path), false) => Ok(builder.root_certs(roots(path)?).build()),
        }
    }
}

fn roots(path: &Path) -> Result<RootCerts, OpenError> {
    let bad = |cause: String| OpenError(format!("ca_file `{}` {cause}: give a PEM file", path.display()));
    let pem = std::fs::read(path).map_err(|error| bad(format!("cannot be read ({error})")))?;
    let items: Vec<PemItem> =
        parse_pem(&pem).collect::<Result<_, _>>().map_err(|error| bad(format!("is malformed ({error})")))?;
    let certificates = items.into_iter().filter_map(|item| match item {
        PemItem::Certificate(certificate) => Some(certificate),
        _ => None,
    });
    let certificates: Vec<_> = certificates.collect();
    if certificates.is_empty() {
        Err(bad("holds no certificate".to_owned()))
    } else {
        Ok(RootCerts::from(certificates))
    }
}

/// Why a request brought no answer, without the address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WebError {
    /// The server's refusal.
    Status(u16),
    /// It will be the same next time.
    Lasting(String),
    /// It may not be.
    Passing(String),
}

impl WebError {
    /// The same for a user: `address` is what was asked, without its query, which may hold a password.
    pub(crate) fn of(self, address: &str) -> MeterError {
        match self {
            WebError::Status(status) => refusal(status, address),
            WebError::Lasting(cause) => MeterError::Fatal(format!("`{address}` {cause}")),
            WebError::Passing(cause) => MeterError::Retry(format!("`{address}` {cause}")),
        }
    }
}

fn refusal(status: u16, address: &str) -> MeterError {
    let lasting = match status {
        401 => "does not accept the credentials (401): give its user, and password_file or password_env",
        403 => "forbids this user to read it (403): let the user read power, or name another",
        404 => "does not exist (404): see the url, and the preset if there is one",
        300..=399 => "is somewhere else: name that address, credentials are not carried to another",
        _ => {
            return MeterError::Retry(format!(
                "`{address}` answers {status}: it is busy, starting or at fault"
            ));
        }
    };
    MeterError::Fatal(format!("`{address}` {lasting}"))
}

impl From<Error> for WebError {
    fn from(error: Error) -> Self {
        let untrusted = |cause: String| {
            WebError::Lasting(format!(
                "cannot be trusted ({cause}): give its ca_file, or set insecure = true"
            ))
        };
        match error {
            Error::Timeout(_) => {
                WebError::Passing("does not answer in time: see its network, or raise timeout_s".into())
            }
            Error::Rustls(error) => untrusted(error.to_string()),
            // So rustls hands on what is wrong with a certificate while it completes a handshake.
            Error::Io(error) if error.kind() == ErrorKind::InvalidData => untrusted(error.to_string()),
            Error::Io(error) => {
                WebError::Passing(format!("cannot be reached ({error}): see that it runs, and its network"))
            }
            Error::HostNotFound => {
                WebError::Passing("has a host of no known address: see its name, and the DNS".into())
            }
            Error::BodyExceedsLimit(_) => {
                WebError::Lasting("answers more than 4 MiB: name the meter's own path".into())
            }
            // Their texts could repeat the address with its query.
            Error::BadUri(_) | Error::Http(_) => WebError::Lasting("is no address: see the url".into()),
            _ => WebError::Passing(
                "does not speak HTTP as it should: see that it is the meter's address".into(),
            ),
        }
    }
}

/// One server.
pub(crate) struct Client {
    agent: Agent,
    /// Scheme, host and port.
    root: String,
    /// Header that says who asks.
    pub(crate) authorization: Option<(HeaderName, HeaderValue)>,
}

impl Client {
    /// Of a url's scheme, host and port.
    pub(crate) fn new(url: &Uri, trust: Trust) -> Result<Self, OpenError> {
        let config = Agent::config_builder()
            .tls_config(trust.config()?)
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .user_agent(concat!("iopj/", env!("CARGO_PKG_VERSION")))
            .build();
        let (scheme, authority) =
            (url.scheme_str().unwrap_or_default(), url.authority().map_or("", |a| a.as_str()));
        Ok(Self {
            agent: Agent::new_with_config(config),
            root: format!("{scheme}://{authority}"),
            authorization: None,
        })
    }

    /// What a user is shown for `path`: without its query.
    pub(crate) fn address(&self, path: &str) -> String {
        format!("{}{}", self.root, path.split(['?', '#']).next().unwrap_or_default())
    }

    /// The text at `path`, by `deadline`.
    pub(crate) fn get(&self, path: &str, deadline: Instant) -> Result<String, WebError> {
        let request = self.agent.get(format!("{}{path}", self.root));
        let request =
            self.authorization.iter().fold(request, |request, (name, value)| request.header(name, value));
        text_of(&mut request.config().timeout_global(Some(left(deadline)?)).build().call()?)
    }

    /// Posts JSON without credentials of its own; the answer with its headers, if the server took it.
    pub(crate) fn post(&self, path: &str, json: &str, deadline: Instant) -> Result<Response<Body>, WebError> {
        let request = self.agent.post(format!("{}{path}", self.root)).content_type("application/json");
        let response = request.config().timeout_global(Some(left(deadline)?)).build().send(json)?;
        accepted(response)
    }

    /// Deletes `path`; whether that worked makes no difference to anybody.
    pub(crate) fn delete(&self, path: &str, deadline: Instant) {
        let request = self.agent.delete(format!("{}{path}", self.root));
        let request =
            self.authorization.iter().fold(request, |request, (name, value)| request.header(name, value));
        if let Ok(time) = left(deadline) {
            let _ = request.config().timeout_global(Some(time)).build().call();
        }
    }
}

fn left(deadline: Instant) -> Result<Duration, WebError> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(Error::Timeout(ureq::Timeout::Global).into()) } else { Ok(left) }
}

fn accepted(response: Response<Body>) -> Result<Response<Body>, WebError> {
    let status = response.status();
    if status.is_success() { Ok(response) } else { Err(WebError::Status(status.as_u16())) }
}

fn text_of(response: &mut Response<Body>) -> Result<String, WebError> {
    if !response.status().is_success() {
        return Err(WebError::Status(response.status().as_u16()));
    }
    let bytes = response.body_mut().with_config().limit(LONGEST_ANSWER).read_to_vec()?;
    String::from_utf8(bytes)
        .map_err(|_| WebError::Lasting("answers no UTF-8: see that it is the meter's path".into()))
}

/// `user` and password in base64 (RFC 7617), or the secret alone as a bearer token (RFC 6750).
pub(crate) fn authorization(
    user: Option<&str>,
    secret: &Secret,
) -> Result<(HeaderName, HeaderValue), OpenError> {
    let text = match user {
        Some(user) => format!("Basic {}", STANDARD.encode(format!("{user}:{}", secret.expose()))),
        None => format!("Bearer {}", secret.expose()),
    };
    Ok((AUTHORIZATION, sensitive(&text)?))
}

/// A header's value that no `Debug` shows.
pub(crate) fn sensitive(text: &str) -> Result<HeaderValue, OpenError> {
    let mut value = HeaderValue::from_str(text).map_err(|_| {
        OpenError("the token holds characters that no HTTP header takes: give another".to_owned())
    })?;
    value.set_sensitive(true);
    Ok(value)
}

/// An address of http or https without a user or password in it.
pub(crate) fn parse_url(text: &str) -> Result<Uri, OpenError> {
    if text.contains('@') {
        // The text is not repeated: it holds a password.
        return Err(OpenError(
            "a meter's url must not hold a user or password: name user, and password_file or password_env"
                .into(),
        ));
    }
    let shown = text.split(['?', '#']).next().unwrap_or_default();
    let bad = |cause: &str| {
        OpenError(format!("the meter's url `{shown}` {cause}: write it as http://HOST[:PORT][/PATH]"))
    };
    let url: Uri = text.parse().map_err(|_| bad("is no address"))?;
    match (url.scheme_str(), url.host()) {
        (Some("http" | "https"), Some(host)) if !host.is_empty() => Ok(url),
        (Some("http" | "https"), _) => Err(bad("names no host")),
        _ => Err(bad("is not of http or https")),
    }
}

/// A time limit in s, from a configuration.
pub(crate) fn time_limit(timeout_s: f64) -> Result<Duration, OpenError> {
    if timeout_s > 0.0 && timeout_s <= LONGEST_TIMEOUT_S {
        Ok(Duration::from_secs_f64(timeout_s))
    } else {
        Err(OpenError(format!(
            "timeout_s = {timeout_s} is no time limit: use more than 0 and at most {LONGEST_TIMEOUT_S}"
        )))
    }
}

/// Refuses what is no age of a value.
pub(crate) fn check_age(age_s: f64) -> Result<(), OpenError> {
    if (0.0..=LONGEST_AGE_S).contains(&age_s) {
        Ok(())
    } else {
        Err(OpenError(format!("age_s = {age_s} is no age of a value: use 0 to {LONGEST_AGE_S}")))
    }
}

/// An age in ns, from a configuration in s; 0 for what is no age.
pub(crate) fn age_ns(age_s: f64) -> u64 {
    (age_s * 1e9) as u64
}

/// An error while a meter is opened.
pub(crate) fn at_open(error: MeterError) -> OpenError {
    OpenError(error.to_string())
}

/// Wall time in ns since 1970.
pub(crate) fn wall_ns() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}

/// The step that a number's last decimal shows: 0.01 for 2.21, 1 for 42. A zero that ended the number is not
/// seen; the step is then stated ten times too coarse, never too fine.
pub(crate) fn step_of(number: f64) -> f64 {
    let text = number.to_string();
    let decimals = text.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    10f64.powi(-i32::try_from(decimals).unwrap_or(i32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_with_a_password_is_refused_and_not_repeated() {
        for text in ["http://admin:sesame@plug/", "http://sesame@plug/meter/0"] {
            let OpenError(error) = parse_url(text).unwrap_err();
            assert!(error.contains("password_file") && !error.contains("sesame"), "{error}");
        }
        for bad in ["", "plug", "ftp://plug/", "/meter/0", "http://", "http:///x", "http://a b/"] {
            assert!(parse_url(bad).is_err(), "{bad}");
        }
        assert_eq!(parse_url("https://[::1]:8443/x?y").unwrap().port_u16(), Some(8443));
    }

    #[test]
    fn credentials_are_encoded_as_the_rfcs_say_and_not_shown() {
        // RFC 7617, section 2: Aladdin's.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        std::fs::write(&path, "open sesame").unwrap();
        let secret = Secret::read(Some(&path), None).unwrap().unwrap();
        let (_, value) = authorization(Some("Aladdin"), &secret).unwrap();
        assert_eq!(value, "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
        assert_eq!(format!("{value:?}"), "Sensitive");
        assert_eq!(authorization(None, &secret).unwrap().1, "Bearer open sesame");
    }

    #[test]
    fn refusals_that_last_are_fatal_and_others_are_tried_again() {
        for status in [301, 308, 401, 403, 404] {
            assert!(
                matches!(refusal(status, "http://plug/x"), MeterError::Fatal(text) if text.contains("http://plug/x"))
            );
        }
        for status in [400, 429, 500, 503] {
            assert!(
                matches!(refusal(status, "http://plug/x"), MeterError::Retry(text) if text.contains(&status.to_string()))
            );
        }
    }

    #[test]
    fn the_last_decimal_is_the_step() {
        assert_eq!([42.0, 41.7, 14.093, 0.0, -2.25].map(step_of), [1.0, 0.1, 0.001, 1.0, 0.01]);
        assert_eq!(step_of(f64::MAX), 1.0);
    }

    #[test]
    fn time_limits_have_limits() {
        assert_eq!(time_limit(0.25), Ok(Duration::from_millis(250)));
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 61.0] {
            assert!(time_limit(bad).is_err());
        }
        assert_eq!((check_age(0.0), check_age(3600.0)), (Ok(()), Ok(())));
        assert!([-1.0, f64::NAN, 3601.0].into_iter().all(|bad| check_age(bad).is_err()));
        assert_eq!([0.5, -1.0, f64::NAN].map(age_ns), [500_000_000, 0, 0]);
    }
}
