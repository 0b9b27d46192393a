//! Which addresses a meter may be asked at without the user's leave: loopback and private ones.

use iopj_core::Allow;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::time::Duration;
use ureq::Error;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

/// The longest that looking a name up takes.
const LOOKED_UP: Duration = Duration::from_secs(10);

/// An address that only `--allow hosts` allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotNear(IpAddr);

impl fmt::Display for NotNear {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "is at {}, which is neither a loopback nor a private address: if the meter is there, allow it by \
             --allow hosts",
            self.0
        )
    }
}

impl std::error::Error for NotNear {}

/// Refuses an address that is not near, unless other hosts are allowed.
pub(crate) fn check(address: IpAddr, allow: Allow) -> Result<(), NotNear> {
    if allow.hosts || is_near(address) { Ok(()) } else { Err(NotNear(address)) }
}

/// Networks among the unique local addresses at which clouds hand out credentials, by their first 32 bits:
/// those of AWS, of Google Cloud and of Oracle's.
const OF_CLOUDS: [u32; 3] = [0xfd00_0ec2, 0xfd20_00ce, 0xfd00_00c1];

/// Loopback, RFC 1918 and RFC 4193. Link-local ones are none of them: there clouds hand out credentials, too.
fn is_near(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_loopback() || v4.is_private(),
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => is_near(v4.into()),
            None => {
                let of_cloud = OF_CLOUDS.contains(&((v6.to_bits() >> 96) as u32));
                v6 == Ipv6Addr::LOCALHOST || (v6.is_unique_local() && !of_cloud)
            }
        },
    }
}

/// The first address of a host, by a lookup that ends.
pub(crate) fn look_up(host: &str, port: u16) -> Result<SocketAddr, String> {
    let (sender, found) = std::sync::mpsc::channel();
    let name = host.to_owned();
    let body = move || drop(sender.send((name.as_str(), port).to_socket_addrs().map(|mut all| all.next())));
    std::thread::Builder::new().spawn(body).map_err(|error| error.to_string())?;
    match found.recv_timeout(LOOKED_UP) {
        Ok(Ok(Some(address))) => Ok(address),
        Ok(Ok(None)) => Err("it has no address".to_owned()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("its name was not found within {} s", LOOKED_UP.as_secs())),
    }
}

/// Looks names up as ureq does, and hands out no address that may not be reached. What was looked up is what
/// is connected to, so a name that changes its address in between gains nothing.
#[derive(Debug)]
pub(crate) struct NearResolver(pub(crate) Allow);

impl Resolver for NearResolver {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, Error> {
        let found = DefaultResolver::default().resolve(uri, config, timeout)?;
        let refused = found.iter().find_map(|address| check(address.ip(), self.0).err());
        refused.map_or(Ok(found), |refused| Err(Error::Other(Box::new(refused))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_and_private_addresses_alone_are_near() {
        for near in [
            "127.0.0.1",
            "127.9.9.9",
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "::1",
            "fd00::1",
            "::ffff:10.0.0.1",
        ] {
            assert_eq!(check(near.parse().unwrap(), Allow::NOTHING), Ok(()), "{near}");
        }
        for far in [
            "169.254.169.254",
            "8.8.8.8",
            "172.32.0.1",
            "100.64.0.1",
            "0.0.0.0",
            "fe80::1",
            "fd00:ec2::254",
            "fd20:ce::254",
            "fd00:c1::a9fe:a9fe",
            "::",
            "2001:db8::1",
            "::ffff:169.254.169.254",
            "224.0.0.1",
            "255.255.255.255",
        ] {
            let far: IpAddr = far.parse().unwrap();
            assert_eq!(check(far, Allow::NOTHING), Err(NotNear(far)));
            assert_eq!(check(far, "hosts".parse().unwrap()), Ok(()));
        }
    }

    #[test]
    fn a_name_is_looked_up() {
        assert_eq!(look_up("127.0.0.1", 161).unwrap(), "127.0.0.1:161".parse().unwrap());
        assert!(look_up("name with spaces", 1).is_err());
    }
}
