//! The keys of an SNMP meter.

use super::ber::Oid;
use super::preset::SnmpPreset;
use super::session::Credentials;
use super::usm::{Passwords, SnmpAuth};
use super::v3::User;
use crate::config::ValueKind;
use crate::meter::{Accuracy, OpenError, Scope};
use crate::random::random;
use crate::secret::Secret;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The shortest password that agents accept (RFC 3414 section 11.2).
const SHORTEST_PASSWORD: usize = 8;

/// A power distribution unit, or any agent that reports power, by SNMP over UDP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SnmpConfig {
    /// Name or address, `host` or `host:port` or `[IPv6]:port`; port 161 unless given.
    pub host: String,
    /// The protocol's version.
    #[serde(default)]
    pub version: SnmpVersion,
    /// Version 2c: the file that holds the community. Without it and `community_env` the community is
    /// `public`.
    pub community_file: Option<PathBuf>,
    /// Version 2c: the environment variable that holds the community.
    pub community_env: Option<String>,
    /// Version 3: the user.
    pub user: Option<String>,
    /// Version 3: how messages are authenticated; without it they are not (noAuthNoPriv).
    pub auth: Option<SnmpAuth>,
    /// The file that holds the password of `auth`, at least 8 characters.
    pub auth_password_file: Option<PathBuf>,
    /// The environment variable that holds it.
    pub auth_password_env: Option<String>,
    /// Version 3: how messages are encrypted; needs `auth`. Without it they are not (authNoPriv).
    pub privacy: Option<SnmpPrivacy>,
    /// The file that holds the password of `privacy`, at least 8 characters.
    pub privacy_password_file: Option<PathBuf>,
    /// The environment variable that holds it.
    pub privacy_password_env: Option<String>,
    /// No reading takes longer than this, retries included.
    #[serde(default = "default_timeout_ms")]
    pub timeout_ms: u64,
    /// Further tries; all tries share the time limit.
    #[serde(default = "default_retries")]
    pub retries: u32,
    /// What is read, all in one request.
    pub channels: Vec<SnmpChannel>,
}

fn default_timeout_ms() -> u64 {
    1_000
}

fn default_retries() -> u32 {
    1
}

/// The protocol's version. Version 1 has no 64-bit counters and is not spoken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SnmpVersion {
    /// Community-based SNMPv2 (RFC 1901).
    #[default]
    #[serde(rename = "2c")]
    V2c,
    /// SNMPv3 (RFC 3412).
    #[serde(rename = "3")]
    V3,
}

/// How messages are encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SnmpPrivacy {
    /// AES-128 in CFB mode (RFC 3826).
    Aes128,
}

/// One quantity: a preset with the number of the outlet, inlet or device, or an object identifier with its
/// unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SnmpChannel {
    /// Unique within the meter.
    pub name: String,
    /// What it measures.
    #[serde(default)]
    pub scope: Scope,
    /// A family's quantity, instead of `oid`, `kind` and `unit`.
    pub preset: Option<SnmpPreset>,
    /// The number of the preset's outlet, inlet or device.
    pub index: Option<u32>,
    /// The unit of a chain, for a Raritan preset: the first, 1, unless given.
    pub chain: Option<u32>,
    /// The variable, with its instance: `1.3.6.1.4.1.318.1.1.26.9.4.3.1.7.3`.
    pub oid: Option<Oid>,
    /// What its value is.
    pub kind: Option<ValueKind>,
    /// W of one step of a gauge or J of one count: 0.1 for tenths of a watt, 360000 for tenths of a kWh. 1
    /// unless given.
    pub unit: Option<f64>,
    /// Length of an average's window.
    pub window_ms: Option<u64>,
    /// Power that a counter's channel cannot exceed; it distinguishes one wrap-around from two. 100 kW unless
    /// given.
    pub max_watts: Option<f64>,
    /// What the maker declares.
    pub accuracy: Option<Accuracy>,
}

impl SnmpConfig {
    /// The credentials that requests carry.
    pub(super) fn credentials(&self) -> Result<Credentials, OpenError> {
        let secret = |name: &str, file: &Option<PathBuf>, env: &Option<String>| {
            Secret::read_named(name, file.as_deref(), env.as_deref())
        };
        let community = secret("community", &self.community_file, &self.community_env)?;
        let auth = secret("auth_password", &self.auth_password_file, &self.auth_password_env)?;
        let privacy = secret("privacy_password", &self.privacy_password_file, &self.privacy_password_env)?;
        if self.version == SnmpVersion::V2c {
            let of_version_3 = self.user.is_some() || self.auth.is_some() || self.privacy.is_some();
            if of_version_3 || auth.is_some() || privacy.is_some() {
                return Err(refused(self, "`user`, `auth` and `privacy` need `version = \"3\"`"));
            }
            return Ok(Credentials::Community(community));
        }
        if community.is_some() {
            return Err(refused(self, "a community belongs to `version = \"2c\"`: name a `user` instead"));
        }
        let Some(user) = self.user.clone().filter(|user| (1..=32).contains(&user.len())) else {
            return Err(refused(self, "`version = \"3\"` needs a `user` of 1 to 32 characters"));
        };
        let passwords = match (self.auth, auth, self.privacy, privacy) {
            (None, None, None, None) => None,
            (Some(protocol), Some(auth), None, None) => {
                Some(Passwords::new(protocol, &long(self, auth)?, None))
            }
            (Some(protocol), Some(auth), Some(SnmpPrivacy::Aes128), Some(privacy)) => {
                Some(Passwords::new(protocol, &long(self, auth)?, Some(&long(self, privacy)?)))
            }
            _ => {
                return Err(refused(
                    self,
                    "`auth` needs `auth_password_file` or `auth_password_env`; `privacy` needs \
                     `privacy_password_file` or `privacy_password_env`, and `auth`: give each with its \
                     password, or neither",
                ));
            }
        };
        Ok(Credentials::User(Box::new(User::new(user, passwords, random()?))))
    }
}

fn long(config: &SnmpConfig, secret: Secret) -> Result<Secret, OpenError> {
    if secret.expose().len() < SHORTEST_PASSWORD {
        return Err(refused(
            config,
            "a password has fewer than 8 characters, which no agent accepts: set a longer one there",
        ));
    }
    Ok(secret)
}

/// A mistake in the configuration of this meter.
pub(super) fn refused(config: &SnmpConfig, why: &str) -> OpenError {
    OpenError(format!("the SNMP meter at `{}`: {why}", config.host.escape_debug()))
}
