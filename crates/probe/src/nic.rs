//! Counters of the network interfaces between two hosts, and which interfaces these are.
//!
//! Sources: Documentation/ABI/testing/sysfs-class-net-statistics; the tables of routes in `/proc/net/route`
//! and `/proc/net/ipv6_route` (net/ipv4/fib_trie.c, net/ipv6/route.c).

use crate::error::ProbeError;
use crate::interrupts::{InterruptCounts, InterruptTable};
use crate::root::{Root, names, text};
use crate::vectors::{self, Vectors};
use iopj_core::fabric::{NicEvidence, VectorEvidence};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

/// The counters of an interface, in the order of [`Counts`].
const STATISTICS: [&str; 4] = ["rx_packets", "rx_bytes", "tx_packets", "tx_bytes"];
/// Settings that are noted with the counts, by their files.
const SETTINGS: [&str; 4] = ["mtu", "gro_flush_timeout", "napi_defer_hard_irqs", "speed"];
/// The longest name of an interface with its end (`IFNAMSIZ`).
const LONGEST: usize = 16;

type Counts = [u64; 4];

/// The network interfaces that lead to an address.
#[derive(Clone, Debug)]
pub struct Nics {
    root: Root,
    nics: Vec<Nic>,
}

#[derive(Clone, Debug)]
struct Nic {
    name: String,
    folder: PathBuf,
    driver: Option<String>,
    vectors: Option<Vectors>,
}

/// All counters at one moment.
#[derive(Clone, Debug, Default)]
pub struct NicSample {
    counts: Vec<Option<Counts>>,
    interrupts: InterruptCounts,
}

impl Nics {
    /// The interface by which packets to `address` leave, or the physical ones below it (of a bond, a bridge
    /// or a VLAN); none if no route leads there.
    ///
    /// # Errors
    /// [`ProbeError::Read`] where `/proc/interrupts` cannot be read.
    pub fn towards(address: IpAddr) -> Result<Nics, ProbeError> {
        Nics::below(Path::new("/"), address)
    }

    /// As [`Nics::towards`], with `/proc` and `/sys` taken from below `root`.
    ///
    /// # Errors
    /// As for [`Nics::towards`].
    pub fn below(root: &Path, address: IpAddr) -> Result<Nics, ProbeError> {
        let root = Root::new(root)?;
        let interrupts = root.text("proc/interrupts")?;
        let table = InterruptTable::new(&interrupts);
        let read = |file: &str| root.text(file).unwrap_or_default();
        let interface = match address {
            _ if address.is_loopback() => Some("lo".to_owned()),
            IpAddr::V4(address) => route4(&read("proc/net/route"), address),
            IpAddr::V6(address) => route6(&read("proc/net/ipv6_route"), address),
        };
        let class = root.path("sys/class/net");
        let mut found = Vec::new();
        interface.iter().for_each(|name| physical(&class, name, &mut found));
        let nics = found.into_iter().map(|name| Nic::find(&class, name, &table)).collect();
        Ok(Nics { root, nics })
    }

    /// Their names.
    pub fn names(&self) -> Vec<String> {
        self.nics.iter().map(|nic| nic.name.clone()).collect()
    }

    /// Reads all counters.
    ///
    /// # Errors
    /// [`ProbeError::Read`] where `/proc/interrupts` cannot be read.
    pub fn sample(&self) -> Result<NicSample, ProbeError> {
        let interrupts = self.root.text("proc/interrupts")?;
        let vectors = self.nics.iter().filter_map(|nic| nic.vectors.as_ref());
        let irqs: BTreeSet<u32> = vectors.flat_map(|vectors| &vectors.list).map(|(irq, _)| *irq).collect();
        Ok(NicSample {
            counts: self.nics.iter().map(Nic::counts).collect(),
            interrupts: InterruptTable::new(&interrupts).counts(&irqs),
        })
    }

    /// What happened from one sample to a later one. An interface that came or went is left out.
    pub fn between(&self, earlier: &NicSample, later: &NicSample) -> Vec<NicEvidence> {
        let each = self.nics.iter().zip(&earlier.counts).zip(&later.counts);
        let evidence = each.filter_map(|((nic, earlier_counts), later_counts)| {
            let (earlier_counts, later_counts) = ((*earlier_counts)?, (*later_counts)?);
            let since = |index: usize| later_counts[index].saturating_sub(earlier_counts[index]);
            let [rx_packets, rx_bytes, tx_packets, tx_bytes] = [0, 1, 2, 3].map(since);
            Some(NicEvidence {
                name: nic.name.clone(),
                driver: nic.driver.clone(),
                rx_packets,
                rx_bytes,
                tx_packets,
                tx_bytes,
                vectors: nic.interrupts((earlier, later)),
                settings: nic.settings(),
            })
        });
        evidence.collect()
    }
}

impl Nic {
    fn find(class: &Path, name: String, table: &InterruptTable<'_>) -> Nic {
        let folder = class.join(&name);
        let device = fs::canonicalize(folder.join("device")).ok();
        let driver = fs::read_link(folder.join("device/driver")).ok();
        let driver = driver.and_then(|link| Some(link.file_name()?.to_string_lossy().into_owned()));
        Nic { vectors: device.and_then(|place| vectors::find(&place, table)), name, folder, driver }
    }

    fn counts(&self) -> Option<Counts> {
        let read = |name: &str| text(&self.folder.join("statistics").join(name)).ok()?.trim().parse().ok();
        let mut counts = Counts::default();
        for (count, name) in counts.iter_mut().zip(STATISTICS) {
            *count = read(name)?;
        }
        Some(counts)
    }

    fn interrupts(&self, (earlier, later): (&NicSample, &NicSample)) -> Option<Vec<VectorEvidence>> {
        let of = |vector: &(u32, String)| {
            let interrupts = later.interrupts.since(&earlier.interrupts, std::iter::once(vector))?;
            Some(VectorEvidence { name: format!("{} {}", vector.0, vector.1), interrupts })
        };
        self.vectors.as_ref()?.list.iter().map(of).collect()
    }

    fn settings(&self) -> BTreeMap<String, String> {
        let read =
            |name: &str| Some((name.to_owned(), text(&self.folder.join(name)).ok()?.trim().to_owned()));
        SETTINGS.into_iter().filter_map(read).collect()
    }
}

/// The interfaces with a device at or below `name`, each once.
fn physical(class: &Path, name: &str, found: &mut Vec<String>) {
    let is_name = !name.is_empty() && name.len() < LONGEST && !name.contains('/') && !name.starts_with('.');
    if !is_name || found.iter().any(|known| known == name) {
        return;
    }
    let folder = class.join(name);
    let lower: Vec<String> =
        names(&folder).iter().filter_map(|entry| Some(entry.strip_prefix("lower_")?.to_owned())).collect();
    if lower.is_empty() || folder.join("device").exists() {
        found.push(name.to_owned());
        return;
    }
    lower.iter().for_each(|name| physical(class, name, found));
}

/// The interface of the longest matching route in `/proc/net/route`: addresses as the processor keeps them,
/// in hexadecimal.
fn route4(table: &str, address: Ipv4Addr) -> Option<String> {
    let routes = table.lines().skip(1).filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |index: usize| u32::from_str_radix(words.get(index)?, 16).ok();
        Some((words.first()?.to_string(), number(1)?, number(7)?))
    });
    let address = u32::from_ne_bytes(address.octets());
    let matching = routes.filter(|(_, destination, mask)| address & mask == destination & mask);
    Some(matching.max_by_key(|(_, _, mask)| mask.count_ones())?.0)
}

/// The interface of the longest matching route in `/proc/net/ipv6_route`.
fn route6(table: &str, address: Ipv6Addr) -> Option<String> {
    let routes = table.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let destination = u128::from_str_radix(words.first()?, 16).ok()?;
        let length = u32::from_str_radix(words.get(1)?, 16).ok().filter(|length| *length <= 128)?;
        Some((words.last()?.to_string(), destination, length))
    });
    let address = u128::from(address);
    let is_same = |a: u128, b: u128, length: u32| length == 0 || a >> (128 - length) == b >> (128 - length);
    let matching =
        routes.filter(|(name, destination, length)| name != "lo" && is_same(*destination, address, *length));
    Some(matching.max_by_key(|(_, _, length)| *length)?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As x86 prints it: 10.1.0.0/24 on eth1, and the default by eth0.
    const ROUTES: &str = concat!(
        "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n",
        "eth0\t00000000\t0100A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n",
        "eth1\t0000010A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n",
    );
    const ROUTES6: &str = concat!(
        "fd000000000000000000000000000000 40 00000000000000000000000000000000 00 ",
        "00000000000000000000000000000000 00000100 00000001 00000000 00000001     eth1\n",
        "00000000000000000000000000000000 00 fe800000000000000000000000000001 00 ",
        "00000000000000000000000000000000 00000400 00000001 00000000 00000003     eth0\n",
    );

    #[cfg(target_endian = "little")]
    #[test]
    fn the_longest_route_wins() {
        let to = |address: &str| route4(ROUTES, address.parse().unwrap());
        assert_eq!([to("10.1.0.2"), to("10.1.1.2")], [Some("eth1".to_owned()), Some("eth0".to_owned())]);
        let to = |address: &str| route6(ROUTES6, address.parse().unwrap());
        assert_eq!([to("fd00::2"), to("fe00::2")], [Some("eth1".to_owned()), Some("eth0".to_owned())]);
        assert_eq!(route4("Iface\n", Ipv4Addr::LOCALHOST), None);
    }

    #[test]
    fn a_bonds_ports_are_counted_with_their_own_vectors() {
        let tree = tempfile::tempdir().unwrap();
        let at = |path: &str| tree.path().join(path);
        let write = |path: &str, text: &str| {
            fs::create_dir_all(at(path).parent().unwrap()).unwrap();
            fs::write(at(path), text).unwrap();
        };
        let line = |count: u32| {
            format!(
                "       CPU0\n 30: {count}  PCI-MSI 5-edge      p0-rx-0\n 31: 7  PCI-MSI 6-edge      other\n"
            )
        };
        write("proc/interrupts", &line(10));
        write("proc/net/route", &ROUTES.replace("eth1", "bond0"));
        for port in ["p0", "p1"] {
            for (number, name) in STATISTICS.iter().enumerate() {
                write(&format!("sys/class/net/{port}/statistics/{name}"), &format!("{}", 100 * (number + 1)));
            }
            write(&format!("sys/class/net/bond0/lower_{port}/x"), "");
        }
        write("sys/class/net/p0/mtu", "9000\n");
        write("sys/devices/pci0/0000:01:00.0/msi_irqs/30", "msix");
        std::os::unix::fs::symlink(at("sys/devices/pci0/0000:01:00.0"), at("sys/class/net/p0/device"))
            .unwrap();
        let nics = Nics::below(tree.path(), "10.1.0.9".parse().unwrap()).unwrap();
        let first = nics.sample().unwrap();
        write("proc/interrupts", &line(25));
        write("sys/class/net/p0/statistics/rx_bytes", "4296");
        let [p0, p1] = &nics.between(&first, &nics.sample().unwrap())[..] else { panic!("{nics:?}") };
        assert_eq!(
            (p0.name.as_str(), p0.rx_bytes, p0.rx_packets, p0.interrupts()),
            ("p0", 4096, 0, Some(15))
        );
        assert_eq!(p0.settings["mtu"], "9000");
        assert_eq!((p1.name.as_str(), p1.rx_bytes, p1.interrupts()), ("p1", 0, None));
    }

    #[test]
    fn this_machines_loopback_counts() {
        let nics = Nics::towards(IpAddr::V4(Ipv4Addr::LOCALHOST)).unwrap();
        let first = nics.sample().unwrap();
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.send_to(&[0; 100], socket.local_addr().unwrap()).unwrap();
        let [lo] = &nics.between(&first, &nics.sample().unwrap())[..] else { panic!("{nics:?}") };
        assert_eq!((lo.name.as_str(), lo.interrupts()), ("lo", None));
        assert!(lo.tx_packets >= 1 && lo.tx_bytes >= 100, "{lo:?}");
    }

    proptest::proptest! {
        #[test]
        fn any_table_is_read_without_panic(
            table in "(?s).{0,300}", lines in "([0-9a-fA-F \\t]{0,200}\n){0,4}",
        ) {
            for table in [&table, &lines] {
                route4(table, Ipv4Addr::LOCALHOST);
                route6(table, Ipv6Addr::LOCALHOST);
            }
        }
    }
}
