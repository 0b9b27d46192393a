//! The HTTP and HTTPS client of meters: one server, a time limit for each request, a limit on the answer's
//! length, no redirects.

use crate::digest::{DigestChallenge, DigestUser, digest_challenge};
use crate::meter::{MeterError, OpenError};
use crate::near::{NearResolver, NotNear};
use crate::secret::Secret;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use iopj_core::Allow;
use iopj_core::files::read_regular;
use std::io::ErrorKind;
use std::path::Path;
use std::time::{Duration, Instant};
use ureq::http::header::{AUTHORIZATION, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use ureq::http::{Response, StatusCode, Uri};
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::typestate::WithoutBody;
use ureq::unversioned::transport::DefaultConnector;
use ureq::{Agent, Body, Error, RequestBuilder};

/// The longest answer that is read, in bytes: exporters of large machines send some hundred KiB.
const LONGEST_ANSWER: u64 = 4 << 20;
/// The longest file of certificates, in bytes: all that a distribution trusts are a quarter of it.
const LONGEST_PEM: u64 = 1 << 20;
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
    let pem = read_regular(path, LONGEST_PEM).map_err(|error| bad(format!("cannot be read ({error})")))?;
    let items: Vec<PemItem> =
        parse_pem(&pem).collect::<Result<_, _>>().map_err(|_| bad("is malformed".to_owned()))?;
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

/// Why a request failed, without the address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WebError {
    /// The server refused with this status.
    Status(u16),
    /// The next request will fail too.
    Lasting(String),
    /// The next request may succeed.
    Passing(String),
}

impl WebError {
    /// For the user, with the address of the request; without its query, which may hold a password.
    pub(crate) fn at(self, address: &str) -> MeterError {
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
        403 => "forbids this user to read it (403): let the user read power, or name another user",
        404 => "does not exist (404): check the url, and the preset if there is one",
        300..=399 => "is somewhere else: name its new address; credentials are not sent to another address",
        _ => {
            return MeterError::Retry(format!(
                "`{address}` answers {status}: it is busy, starting or faulty"
            ));
        }
    };
    MeterError::Fatal(format!("`{address}` {lasting}"))
}

impl From<Error> for WebError {
    fn from(error: Error) -> Self {
        // webpki refuses an authority's certificate as a server's, whatever is in the ca_file.
        let untrusted = |cause: String| {
            WebError::Lasting(if cause.contains("CaUsedAsEndEntity") {
                "cannot be trusted, because its certificate is that of an authority (CA:TRUE), and no \
                 ca_file helps: set insecure = true, or give the server a certificate that is no authority's"
                    .into()
            } else {
                format!("cannot be trusted ({cause}): give its ca_file, or set insecure = true")
            })
        };
        match error {
            Error::Timeout(_) => {
                WebError::Passing("does not answer in time: check its network, or raise timeout_s".into())
            }
            Error::Rustls(error) => untrusted(error.to_string()),
            // This is how rustls reports a bad certificate during a handshake.
            Error::Io(error) if error.kind() == ErrorKind::InvalidData => untrusted(error.to_string()),
            Error::Io(error) => {
                WebError::Passing(format!("cannot be reached ({error}): check that it runs, and its network"))
            }
            Error::HostNotFound => {
                WebError::Passing("has a host without a known address: check its name, and the DNS".into())
            }
            Error::BodyExceedsLimit(_) => {
                WebError::Lasting("answers with more than 4 MiB: name the meter's own path".into())
            }
            Error::Other(error) if error.is::<NotNear>() => WebError::Lasting(error.to_string()),
            // Their texts may repeat the address with its query.
            Error::BadUri(_) | Error::Http(_) => WebError::Lasting("is not an address: check the url".into()),
            _ => WebError::Passing("does not speak proper HTTP: check that it is the meter's address".into()),
        }
    }
}

/// One server.
pub(crate) struct Client {
    agent: Agent,
    /// Scheme, host and port.
    root: String,
    /// The header with the credentials.
    pub(crate) authorization: Option<(HeaderName, HeaderValue)>,
    /// The user whose credentials are sent as the server's challenge asks, and never otherwise.
    pub(crate) digest: Option<DigestUser>,
}

impl Client {
    /// For the scheme, host and port of a url, at an address that is allowed.
    pub(crate) fn new(url: &Uri, trust: Trust, allow: Allow) -> Result<Self, OpenError> {
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
            agent: Agent::with_parts(config, DefaultConnector::default(), NearResolver(allow)),
            root: format!("{scheme}://{authority}"),
            authorization: None,
            digest: None,
        })
    }

    /// The address of `path` to show to a user: without its query.
    pub(crate) fn address(&self, path: &str) -> String {
        format!("{}{}", self.root, path.split(['?', '#']).next().unwrap_or_default())
    }

    /// The text at `path`, by `deadline`. A challenge to send a digest is answered once.
    pub(crate) fn get(&mut self, path: &str, deadline: Instant) -> Result<String, WebError> {
        let mut response = self.ask(path, deadline)?;
        if self.digest.is_some() && response.status() == StatusCode::UNAUTHORIZED {
            let challenge = challenge_of(&response)?;
            // An answer that is read to its end leaves its connection to the next request.
            let _ = response.body_mut().with_config().limit(LONGEST_ANSWER).read_to_vec();
            if let Some(user) = &mut self.digest {
                user.take(challenge);
            }
            response = self.ask(path, deadline)?;
            let is_denied = response.status() == StatusCode::UNAUTHORIZED;
            if is_denied && challenge_of(&response).is_ok_and(|challenge| challenge.stale) {
                return Err(WebError::Passing(
                    "rejects the nonce that it has just sent: it may be busy with other clients".into(),
                ));
            }
        }
        let bytes = accepted(response)?.body_mut().with_config().limit(LONGEST_ANSWER).read_to_vec()?;
        String::from_utf8(bytes).map_err(|_| {
            WebError::Lasting("answers with text that is not UTF-8: check that it is the meter's path".into())
        })
    }

    fn ask(&mut self, path: &str, deadline: Instant) -> Result<Response<Body>, WebError> {
        let mut request = self.authorized(self.agent.get(format!("{}{path}", self.root)));
        if let Some(user) = &mut self.digest
            && let Some(text) = user.authorization(path).map_err(|OpenError(why)| WebError::Passing(why))?
        {
            let value = sensitive(&text).map_err(|_| WebError::Lasting(user.unsent().to_owned()))?;
            request = request.header(AUTHORIZATION, value);
        }
        Ok(request.config().timeout_global(Some(left(deadline)?)).build().call()?)
    }

    /// Posts JSON without the credentials; the answer with its headers, if the server accepted it.
    pub(crate) fn post(&self, path: &str, json: &str, deadline: Instant) -> Result<Response<Body>, WebError> {
        let request = self.agent.post(format!("{}{path}", self.root)).content_type("application/json");
        accepted(request.config().timeout_global(Some(left(deadline)?)).build().send(json)?)
    }

    /// Deletes `path`; nobody needs to know whether that worked.
    pub(crate) fn delete(&self, path: &str, deadline: Instant) {
        let request = self.authorized(self.agent.delete(format!("{}{path}", self.root)));
        if let Ok(time) = left(deadline) {
            let _ = request.config().timeout_global(Some(time)).build().call();
        }
    }

    fn authorized(&self, request: RequestBuilder<WithoutBody>) -> RequestBuilder<WithoutBody> {
        self.authorization.iter().fold(request, |request, (name, value)| request.header(name, value))
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

/// The challenge of a server that refused a request.
fn challenge_of(response: &Response<Body>) -> Result<DigestChallenge, WebError> {
    let headers = response.headers().get_all(WWW_AUTHENTICATE).iter();
    digest_challenge(headers.filter_map(|header| std::str::from_utf8(header.as_bytes()).ok()))
        .map_err(|error| WebError::Lasting(error.to_string()))
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

/// A header's value that `Debug` does not show.
pub(crate) fn sensitive(text: &str) -> Result<HeaderValue, OpenError> {
    let mut value = HeaderValue::from_str(text).map_err(|_| {
        OpenError("the token holds characters that an HTTP header cannot carry: use another token".to_owned())
    })?;
    value.set_sensitive(true);
    Ok(value)
}

/// True unless an address names a port that there is not: the library would ask at the usual one.
fn has_port(url: &Uri) -> bool {
    let authority = url.authority().map_or("", |authority| authority.as_str());
    match authority.rsplit_once(']').map_or(authority, |(_, rest)| rest).split_once(':') {
        Some((_, port)) => port.parse::<u16>().is_ok_and(|port| port > 0),
        None => true,
    }
}

/// An http or https address that holds no user or password.
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
    let url: Uri = text.parse().map_err(|_| bad("is not an address"))?;
    match (url.scheme_str(), url.host()) {
        (Some("http" | "https"), Some(host)) if !host.is_empty() => match has_port(&url) {
            true => Ok(url),
            false => Err(bad("has a port that is no number from 1 to 65535")),
        },
        (Some("http" | "https"), _) => Err(bad("names no host")),
        _ => Err(bad("is neither http nor https")),
    }
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
    fn a_server_with_an_authoritys_certificate_is_not_told_to_give_a_ca_file() {
        let text = |cause: &str| {
            let error = std::io::Error::new(ErrorKind::InvalidData, cause.to_owned());
            WebError::from(Error::Io(error)).at("https://bmc").to_string()
        };
        let own = text("invalid peer certificate: Other(OtherError(CaUsedAsEndEntity))");
        assert!(own.contains("no ca_file helps: set insecure = true") && !own.contains("give its"), "{own}");
        let unknown = text("invalid peer certificate: UnknownIssuer");
        assert!(unknown.contains("give its ca_file, or set insecure = true"), "{unknown}");
    }

    #[test]
    fn refusals_that_last_are_fatal_and_others_are_tried_again() {
        for status in [301, 308, 401, 403, 404] {
            let error = refusal(status, "http://plug/x");
            assert!(matches!(error, MeterError::Fatal(text) if text.contains("http://plug/x")));
        }
        for status in [400, 429, 500, 503] {
            let error = refusal(status, "http://plug/x");
            assert!(matches!(error, MeterError::Retry(text) if text.contains(&status.to_string())));
        }
    }
}
