//! HTTP digest authentication (RFC 7616) with SHA-256: the server's challenge, and the answer to it.
//!
//! MD5 is left out: what it protects can be forged, and no preset's device asks for it.

use crate::meter::OpenError;
use crate::random::random;
use crate::secret::Secret;
use sha2::{Digest as _, Sha256};
use thiserror::Error;

/// What a server wants to be proven with a user's password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DigestChallenge {
    realm: String,
    nonce: String,
    opaque: Option<String>,
    /// The credentials were right, but for a nonce that is no longer good.
    pub(crate) stale: bool,
}

/// Why no challenge of a server can be answered.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum DigestError {
    /// The headers hold none that is well-formed.
    #[error("asks for credentials in a way other than digest authentication: check its address and preset")]
    None,
    /// All of them are of another algorithm, or want the body to be hashed too.
    #[error(
        "asks for digest authentication without SHA-256 and `qop=auth`, the only form that iopj supports: \
         update its firmware, or read it through an exporter"
    )]
    Unknown,
}

/// The first challenge that can be answered among the values of a server's `WWW-Authenticate` headers.
///
/// # Errors
/// [`DigestError`] if there is none.
pub fn digest_challenge<'a>(
    headers: impl IntoIterator<Item = &'a str>,
) -> Result<DigestChallenge, DigestError> {
    let mut error = DigestError::None;
    for challenge in headers.into_iter().flat_map(challenges) {
        match challenge.digest() {
            Ok(digest) => return Ok(digest),
            Err(DigestError::Unknown) => error = DigestError::Unknown,
            Err(DigestError::None) => {}
        }
    }
    Err(error)
}

/// A challenge of any scheme (RFC 9110, 11.3).
struct Challenge<'a> {
    scheme: &'a str,
    parameters: Vec<(&'a str, String)>,
}

impl Challenge<'_> {
    fn digest(&self) -> Result<DigestChallenge, DigestError> {
        if !self.scheme.eq_ignore_ascii_case("digest") {
            return Err(DigestError::None);
        }
        let get = |name: &str| {
            self.parameters.iter().find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value)
        };
        let (Some(realm), Some(nonce)) = (get("realm"), get("nonce")) else { return Err(DigestError::None) };
        let has_auth =
            get("qop").is_some_and(|qop| qop.split(',').any(|one| one.trim().eq_ignore_ascii_case("auth")));
        // Without a name it is MD5 (RFC 7616, 3.3).
        if !get("algorithm").is_some_and(|name| name.eq_ignore_ascii_case("SHA-256")) || !has_auth {
            return Err(DigestError::Unknown);
        }
        Ok(DigestChallenge {
            realm: realm.clone(),
            nonce: nonce.clone(),
            opaque: get("opaque").cloned(),
            stale: get("stale").is_some_and(|stale| stale.eq_ignore_ascii_case("true")),
        })
    }
}

/// The challenges of one header, up to the first that is malformed.
fn challenges(header: &str) -> Vec<Challenge<'_>> {
    let mut text = Text(header);
    let mut found: Vec<Challenge<'_>> = Vec::new();
    loop {
        text.skip(|letter| letter == ',' || is_space(letter));
        let Some(word) = text.token() else { return found };
        let is_apart = text.skip(is_space);
        if text.skip_one('=') {
            text.skip(is_space);
            let Some((challenge, value)) = found.last_mut().zip(text.value()) else { return found };
            challenge.parameters.push((word, value));
        } else {
            found.push(Challenge { scheme: word, parameters: Vec::new() });
            if is_apart {
                text.skip_token68();
            }
        }
    }
}

fn is_space(letter: char) -> bool {
    letter == ' ' || letter == '\t'
}

/// RFC 9110, 5.6.2.
fn is_token(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(letter)
}

/// What is left of a header.
struct Text<'a>(&'a str);

impl<'a> Text<'a> {
    /// Leaves out what is `of` a kind; true if there was any.
    fn skip(&mut self, of: impl Fn(char) -> bool) -> bool {
        let before = self.0.len();
        self.0 = self.0.trim_start_matches(of);
        self.0.len() < before
    }

    fn skip_one(&mut self, letter: char) -> bool {
        self.0.strip_prefix(letter).inspect(|rest| self.0 = rest).is_some()
    }

    /// Credentials that are one word, as other schemes have them: not followed by a parameter's value.
    fn skip_token68(&mut self) {
        let is_68 = |letter: char| letter.is_ascii_alphanumeric() || "-._~+/".contains(letter);
        let rest = self.0.trim_start_matches(is_68).trim_start_matches('=').trim_start_matches(is_space);
        if rest.is_empty() || rest.starts_with(',') {
            self.0 = rest;
        }
    }

    fn token(&mut self) -> Option<&'a str> {
        let end = self.0.find(|letter| !is_token(letter)).unwrap_or(self.0.len());
        let (token, rest) = self.0.split_at(end);
        self.0 = rest;
        (!token.is_empty()).then_some(token)
    }

    /// A token, or a quoted text without its quotes (RFC 9110, 5.6.4).
    fn value(&mut self) -> Option<String> {
        if !self.skip_one('"') {
            return self.token().map(str::to_owned);
        }
        let mut value = String::new();
        let mut letters = self.0.char_indices();
        while let Some((at, letter)) = letters.next() {
            match letter {
                '"' => {
                    self.0 = &self.0[at + 1..];
                    return Some(value);
                }
                '\\' => value.push(letters.next()?.1),
                _ => value.push(letter),
            }
        }
        None
    }
}

/// One user of one server: answers its last challenge, as often as its nonce is good.
pub(crate) struct DigestUser {
    name: String,
    password: Secret,
    challenge: Option<DigestChallenge>,
    /// How often the nonce was used.
    count: u32,
}

impl DigestUser {
    pub(crate) fn new(name: &str, password: Secret) -> Self {
        Self { name: name.to_owned(), password, challenge: None, count: 0 }
    }

    pub(crate) fn take(&mut self, challenge: DigestChallenge) {
        (self.challenge, self.count) = (Some(challenge), 0);
    }

    /// Why a header cannot carry what was to be sent.
    pub(crate) fn unsent(&self) -> &'static str {
        if self.name.chars().all(|letter| matches!(letter, ' '..='~')) {
            "names a realm that an HTTP header cannot carry back: give the device a name of ASCII letters"
        } else {
            "cannot be sent `user`, which an HTTP header cannot carry: take a name of ASCII letters"
        }
    }

    /// The `Authorization` header of a GET of this path and query; `None` before the first challenge.
    pub(crate) fn authorization(&mut self, uri: &str) -> Result<Option<String>, OpenError> {
        let Some(challenge) = &self.challenge else { return Ok(None) };
        self.count = self.count.wrapping_add(1);
        let cnonce = format!("{:016x}{:016x}", random()?, random()?);
        Ok(Some(challenge.answer(&self.name, self.password.expose(), uri, self.count, &cnonce)))
    }
}

impl DigestChallenge {
    /// RFC 7616, 3.4.
    fn answer(&self, user: &str, password: &str, uri: &str, count: u32, cnonce: &str) -> String {
        let Self { realm, nonce, opaque, .. } = self;
        let secret = hash(&format!("{user}:{realm}:{password}"));
        let request = hash(&format!("GET:{uri}"));
        let response = hash(&format!("{secret}:{nonce}:{count:08x}:{cnonce}:auth:{request}"));
        let opaque = opaque.as_ref().map_or(String::new(), |opaque| format!(", opaque={}", quoted(opaque)));
        format!(
            "Digest username={}, realm={}, uri={}, algorithm=SHA-256, nonce={}, nc={count:08x}, \
             cnonce=\"{cnonce}\", qop=auth, response=\"{response}\"{opaque}",
            quoted(user),
            quoted(realm),
            quoted(uri),
            quoted(nonce)
        )
    }
}

fn hash(text: &str) -> String {
    Sha256::digest(text).iter().map(|octet| format!("{octet:02x}")).collect()
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RFC_7616: &str = "Digest realm=\"http-auth@example.org\", qop=\"auth, auth-int\", \
                            algorithm=SHA-256, nonce=\"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v\", \
                            opaque=\"FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS\"";

    #[test]
    fn the_example_of_rfc_7616_is_answered_as_it_says() {
        let challenge = digest_challenge([RFC_7616]).unwrap();
        let cnonce = "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ";
        let answer = challenge.answer("Mufasa", "Circle of Life", "/dir/index.html", 1, cnonce);
        let response = "response=\"753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1\"";
        assert!(answer.contains(response), "{answer}");
        assert!(answer.starts_with("Digest username=\"Mufasa\", realm=\"http-auth@example.org\", uri="));
        assert!(
            answer.contains("nc=00000001")
                && answer.ends_with("FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS\"")
        );
    }

    #[test]
    fn the_first_challenge_that_can_be_answered_is_taken() {
        let of = |headers: &[&str]| digest_challenge(headers.iter().copied());
        // As RFC 7616, 3.9.1, and with other schemes before and behind.
        let md5 = RFC_7616.replace("SHA-256", "MD5");
        let expected = of(&[RFC_7616]).unwrap();
        for headers in [
            vec![md5.as_str(), RFC_7616],
            vec!["Basic realm=\"a, Digest b\"", RFC_7616],
            vec!["Negotiate", "Negotiate YII+/=="],
        ] {
            let joined = format!("{}, {RFC_7616}, Basic realm=x", headers.join(", "));
            assert_eq!(of(&[&joined]).as_ref(), Ok(&expected), "{joined}");
        }
        let shelly = "Digest qop=\"auth\", realm=\"shellyplus1-a8032abe54dc\", nonce=\"1625038762\", \
                      algorithm=SHA-256";
        let challenge = of(&[shelly]).unwrap();
        assert_eq!(
            (challenge.nonce.as_str(), &challenge.opaque, challenge.stale),
            ("1625038762", &None, false)
        );
        let stale = "digest STALE=True,realm = \"a\\\"b\\\\\",nonce=n,qop=auth,algorithm=sha-256,";
        let challenge = of(&[stale]).unwrap();
        assert!(challenge.stale && challenge.realm == "a\"b\\");
        assert!(
            challenge.answer("u\"", "p", "/", 2, "c").contains("username=\"u\\\"\", realm=\"a\\\"b\\\\\"")
        );
        for (header, error) in [
            ("", DigestError::None),
            ("Basic realm=\"x\"", DigestError::None),
            ("Digest realm=\"x\", nonce=\"unclosed", DigestError::None),
            ("Digest realm=\"x\", qop=auth, algorithm=SHA-256", DigestError::None),
            (&md5, DigestError::Unknown),
            ("Digest realm=x, nonce=y, qop=auth-int, algorithm=SHA-256", DigestError::Unknown),
            ("Digest realm=x, nonce=y, qop=auth, algorithm=SHA-256-sess", DigestError::Unknown),
        ] {
            assert_eq!(of(&[header]), Err(error), "{header}");
        }
    }

    #[test]
    fn each_request_counts_and_a_new_nonce_begins_anew() {
        let mut user = DigestUser::new("admin", Secret::new("sesame").unwrap());
        assert_eq!(user.authorization("/"), Ok(None));
        user.take(digest_challenge([RFC_7616]).unwrap());
        let [one, two] = [(); 2].map(|()| user.authorization("/").unwrap().unwrap());
        assert!(one.contains("nc=00000001") && two.contains("nc=00000002") && !two.contains("sesame"));
        let cnonce = |text: &str| text.split_once("cnonce=").unwrap().1.split(',').next().unwrap().to_owned();
        assert_ne!(cnonce(&one), cnonce(&two));
        user.take(digest_challenge([RFC_7616]).unwrap());
        assert!(user.authorization("/").unwrap().unwrap().contains("nc=00000001"));
    }

    /// "The token" was blamed.
    #[test]
    fn a_user_and_a_realm_that_no_header_carries_are_told_apart() {
        let unsent = |name| DigestUser::new(name, Secret::new("sesame").unwrap()).unsent();
        assert!(unsent("J\u{fc}rgen").starts_with("cannot be sent `user`"));
        assert!(unsent("a\u{7f}").starts_with("cannot be sent `user`"));
        assert!(unsent("admin").starts_with("names a realm"));
    }

    proptest! {
        #[test]
        fn what_was_quoted_is_read_again(realm in "\\PC*", nonce in "\\PC+") {
            let header = format!(
                "Digest nonce={}, algorithm=SHA-256, qop=\"auth\", realm={}",
                quoted(&nonce),
                quoted(&realm)
            );
            let expected = DigestChallenge { realm, nonce, opaque: None, stale: false };
            prop_assert_eq!(digest_challenge([header.as_str()]), Ok(expected));
        }

        #[test]
        fn no_header_is_too_much(header in "[ ,=\"\\\\a-c]*|(Digest|realm|nonce|[ =,\"])*") {
            let _ = digest_challenge([header.as_str()]);
        }
    }
}
