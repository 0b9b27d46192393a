//! A drive's own power figures, by the admin commands of its controller's character device.
//!
//! NVM Express Base Specification 2.3 and later: the SMART / Health Information log (02h) has in bytes
//! 239:232 the energy since manufacture in Wh, rounded up, and in bytes 243:240 the mean power of the last
//! second; 0 means "not reported". The Power Measurement log (25h) says in bytes 03:02 (bit 2) whether the
//! drive only estimates, and in byte 56 its greatest error in percent. The log's own average runs since
//! somebody started the measurement by Set Features; this meter changes no setting and does not use it.

use crate::clock::{ReadTime, monotonic_raw_ns};
use crate::meter::{Accuracy, Channel, ChannelKind, Distribution, Meter, MeterError, Reading, Scope, Value};
use crate::sysfs::{names, text};
use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::path::Path;

/// Length of the logs in bytes: all of SMART, the Power Measurement log's header.
const SMART_LEN: usize = 512;
const MEASUREMENT_LEN: usize = 64;
const SMART_ID: u8 = 0x02;
const MEASUREMENT_ID: u8 = 0x25;
/// The interval that the power in the SMART log is averaged over.
const INTERVAL_NS: u64 = 1_000_000_000;
const JOULES_PER_WATT_HOUR: f64 = 3600.0;

/// A controller as a meter: one channel, power if the drive reports it, else energy.
#[derive(Debug)]
pub struct Nvme {
    name: String,
    channels: Vec<Channel>,
    logs: Box<dyn LogPages>,
}

/// Where log pages come from.
trait LogPages: Send + fmt::Debug {
    /// Fills `page` with the start of a log page; `InvalidInput` if the controller does not have it.
    fn read(&mut self, id: u8, page: &mut [u8]) -> io::Result<()>;
}

/// What a drive's SMART log says of power.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Smart {
    /// Energy since manufacture.
    watt_hours: Option<u64>,
    /// Mean of the last second, and its smallest step, in W.
    power: Option<(f64, f64)>,
}

/// What a drive's Power Measurement log says of its figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Measurement {
    estimated: bool,
    error_percent: Option<u8>,
}

impl Nvme {
    /// The controllers below `root` (`/`), such as `nvme0`.
    pub fn controllers(root: &Path) -> Vec<String> {
        let is_controller =
            |name: &String| name.strip_prefix("nvme").is_some_and(|number| number.parse::<u32>().is_ok());
        names(&root.join("sys/class/nvme")).into_iter().filter(is_controller).collect()
    }

    /// The power figures of a controller. The channel is named by the drive's model and serial number, as the
    /// controller's number may change.
    ///
    /// # Errors
    /// [`MeterError::Fatal`] with the cause and the remedy if the drive reports no power, only estimates it,
    /// or cannot be asked.
    pub fn open(root: &Path, controller: &str) -> Result<Self, MeterError> {
        let path = root.join("dev").join(controller);
        let device = File::open(&path).map_err(|error| {
            let remedy = match error.kind() {
                ErrorKind::PermissionDenied => "run as root",
                _ => "list the controllers with `ls /sys/class/nvme`",
            };
            MeterError::Fatal(format!("`{}` cannot be opened ({error}): {remedy}", path.display()))
        })?;
        let about = |what: &str| text(&root.join("sys/class/nvme").join(controller).join(what)).ok();
        let drive = match (about("model"), about("serial")) {
            (Some(model), Some(serial)) => format!("{model} {serial}"),
            _ => controller.to_owned(),
        };
        Self::with(controller, &drive, Box::new(CharacterDevice(device)))
    }

    fn with(controller: &str, drive: &str, mut logs: Box<dyn LogPages>) -> Result<Self, MeterError> {
        let fatal = |why: String| MeterError::Fatal(format!("{controller} ({drive}): {why}"));
        let mut page = [0; SMART_LEN];
        logs.read(SMART_ID, &mut page).map_err(|error| {
            fatal(format!(
                "its SMART log cannot be read ({error}): run as root, and check that the controller answers"
            ))
        })?;
        let smart = smart(&page);
        let mut page = [0; MEASUREMENT_LEN];
        // Drives that report power in SMART need not have this log.
        let measured = logs.read(MEASUREMENT_ID, &mut page).map(|()| measurement(&page)).unwrap_or_default();
        if measured.estimated {
            return Err(fatal(
                "it says that its power figures are estimates: use a meter that measures".into(),
            ));
        }
        let (kind, resolution) = match smart {
            Smart { power: Some((_, step)), .. } => (ChannelKind::Average { window_ns: INTERVAL_NS }, step),
            Smart { watt_hours: Some(_), .. } => (
                ChannelKind::Counter { joules_per_count: JOULES_PER_WATT_HOUR, wrap: None },
                JOULES_PER_WATT_HOUR,
            ),
            Smart { .. } => {
                return Err(fatal(
                    "it reports no power in its SMART log (bytes 243:232, since NVMe 2.3): use a meter on \
                     its slot or at the machine's plug"
                        .into(),
                ));
            }
        };
        let gain = |percent: u8| Accuracy {
            gain: Distribution::Rectangular(f64::from(percent) / 100.0),
            offset: Distribution::NONE,
        };
        let accuracy = measured.error_percent.map(gain);
        let channel = Channel { resolution, accuracy, ..Channel::new(drive, Scope::Device, kind) };
        Ok(Self { name: controller.to_owned(), channels: vec![channel], logs })
    }
}

impl Meter for Nvme {
    fn channels(&self) -> &[Channel] {
        &self.channels
    }

    /// One admin command, answered in well under a millisecond by an idle drive; at most one second.
    fn read(&mut self, out: &mut Vec<Reading>) -> Result<(), MeterError> {
        let begin_ns = monotonic_raw_ns();
        let mut page = [0; SMART_LEN];
        self.logs.read(SMART_ID, &mut page).map_err(|error| {
            let text = format!("{} does not give its SMART log ({error})", self.name);
            match error.raw_os_error() {
                Some(libc::ENODEV | libc::ENXIO) => {
                    MeterError::Fatal(format!("{text}: check with `dmesg` whether it was removed"))
                }
                _ => MeterError::Retry(format!("{text}: check with `dmesg` whether it was reset")),
            }
        })?;
        let smart = smart(&page);
        let value = match self.channels[0].kind {
            ChannelKind::Counter { .. } => smart.watt_hours.map(Value::Count),
            _ => smart.power.map(|(watts, _)| Value::Watts(watts)),
        };
        out.extend(value.map(|value| ReadTime::since(begin_ns).reading(0, value)));
        Ok(())
    }
}

/// Why a machine has no such drive.
pub(crate) fn absent(root: &Path) -> String {
    format!(
        "`{}` lists no NVMe controller: drives of other kinds do not report their power",
        root.join("sys/class/nvme").display()
    )
}

fn smart(page: &[u8; SMART_LEN]) -> Smart {
    let energy = u64::from_le_bytes(std::array::from_fn(|at| page[232 + at]));
    let interval = u32::from_le_bytes(std::array::from_fn(|at| page[240 + at]));
    // Bits 15:0 the value, 17:16 its scale, as in a power state descriptor.
    let step = match interval >> 16 & 0x3 {
        1 => Some(0.000_1),
        2 => Some(0.01),
        _ => None,
    };
    let power =
        step.filter(|_| interval & 0xFFFF != 0).map(|step| (f64::from(interval & 0xFFFF) * step, step));
    // At its greatest value the counter stops.
    Smart { watt_hours: Some(energy).filter(|&energy| energy != 0 && energy != u64::MAX), power }
}

fn measurement(page: &[u8; MEASUREMENT_LEN]) -> Measurement {
    // 101 to 254 are reserved, 255 means "not reported".
    Measurement {
        estimated: page[2] & 0x4 != 0,
        error_percent: Some(page[56]).filter(|&percent| percent <= 100),
    }
}

/// `struct nvme_admin_cmd` (include/uapi/linux/nvme_ioctl.h).
#[repr(C)]
#[derive(Default)]
struct AdminCommand {
    opcode: u8,
    flags: u8,
    reserved: u16,
    namespace: u32,
    cdw2_and_3: [u32; 2],
    metadata: u64,
    address: u64,
    metadata_len: u32,
    data_len: u32,
    cdw10_to_15: [u32; 6],
    timeout_ms: u32,
    result: u32,
}

/// `_IOWR('N', 0x41, struct nvme_admin_cmd)`; the size is part of the number.
const NVME_IOCTL_ADMIN_CMD: u64 = 0xC000_4E41 | ((size_of::<AdminCommand>() as u64) << 16);
const _: () = assert!(NVME_IOCTL_ADMIN_CMD == 0xC048_4E41);

/// A controller's character device.
#[derive(Debug)]
struct CharacterDevice(File);

impl AdminCommand {
    /// Get Log Page (02h), of the whole controller. The time limit is the kernel's own (`admin_timeout`):
    /// after it the kernel resets the controller, and no reading is worth that.
    fn get_log_page(id: u8, page: &mut [u8]) -> AdminCommand {
        let dwords_less_one = page.len() as u32 / 4 - 1;
        AdminCommand {
            opcode: 0x02,
            namespace: u32::MAX,
            address: page.as_mut_ptr() as u64,
            data_len: page.len() as u32,
            cdw10_to_15: [dwords_less_one << 16 | u32::from(id), 0, 0, 0, 0, 0],
            timeout_ms: 0,
            ..AdminCommand::default()
        }
    }
}

impl LogPages for CharacterDevice {
    fn read(&mut self, id: u8, page: &mut [u8]) -> io::Result<()> {
        let mut command = AdminCommand::get_log_page(id, page);
        // SAFETY: the kernel reads and writes one command of this layout and writes `data_len` bytes to
        // `address`, which are `page`; both outlive the call. Another kind of file refuses the request.
        let status = unsafe { libc::ioctl(self.0.as_raw_fd(), NVME_IOCTL_ADMIN_CMD as _, &raw mut command) };
        match status {
            0 => Ok(()),
            status if status < 0 => Err(io::Error::last_os_error()),
            status => Err(io::Error::new(ErrorKind::InvalidInput, format!("NVMe status {status:#x}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::values;
    use crate::sysfs::fixture::Tree;
    use proptest::prelude::*;

    #[test]
    fn a_slow_log_page_resets_no_controller() {
        let mut page = [0; MEASUREMENT_LEN];
        let at = page.as_mut_ptr() as u64;
        let command = AdminCommand::get_log_page(MEASUREMENT_ID, &mut page);
        assert_eq!(
            (command.opcode, command.namespace, command.address, command.data_len),
            (2, u32::MAX, at, 64)
        );
        // Sixteen dwords of log 25h, in the kernel's time.
        assert_eq!((command.cdw10_to_15[0], command.timeout_ms), (15 << 16 | 0x25, 0));
    }

    /// A drive whose answers are given.
    #[derive(Clone, Debug)]
    struct Drive {
        watt_hours: u64,
        interval: u32,
        /// Attributes and percent error, of drives that have the log.
        measurement: Option<(u8, u8)>,
    }

    impl LogPages for Drive {
        fn read(&mut self, id: u8, page: &mut [u8]) -> io::Result<()> {
            match (id, self.measurement) {
                (SMART_ID, _) => {
                    page[232..240].copy_from_slice(&self.watt_hours.to_le_bytes());
                    page[240..244].copy_from_slice(&self.interval.to_le_bytes());
                    Ok(())
                }
                (_, Some((attributes, error))) => {
                    (page[2], page[56]) = (attributes, error);
                    Ok(())
                }
                _ => Err(ErrorKind::InvalidInput.into()),
            }
        }
    }

    fn meter(drive: Drive) -> Result<Nvme, MeterError> {
        Nvme::with("nvme0", "ACME X S1", Box::new(drive))
    }

    #[test]
    fn the_last_second_has_a_mean_power() {
        // 8.25 W in hundredths, and a type in bits 25:20 that does not belong to the value.
        let mut meter =
            meter(Drive { watt_hours: 7, interval: 0x0012_0339, measurement: Some((0x01, 5)) }).unwrap();
        let Channel { name, scope, kind, resolution, accuracy, .. } = &meter.channels()[0];
        assert_eq!((name.as_str(), *scope, *resolution), ("ACME X S1", Scope::Device, 0.01));
        assert_eq!(*kind, ChannelKind::Average { window_ns: 1_000_000_000 });
        assert_eq!(accuracy.unwrap().gain, Distribution::Rectangular(0.05));
        assert_eq!(values(&mut meter), [Value::Watts(8.25)]);
    }

    #[test]
    fn energy_serves_where_power_is_not_reported() {
        let mut meter = meter(Drive { watt_hours: 7, interval: 0, measurement: None }).unwrap();
        assert_eq!(meter.channels()[0].kind, ChannelKind::Counter { joules_per_count: 3600.0, wrap: None });
        assert_eq!(meter.channels()[0].accuracy, None);
        assert_eq!(values(&mut meter), [Value::Count(7)]);
    }

    #[test]
    fn a_drive_without_figures_or_with_estimates_is_refused() {
        let why = |watt_hours, interval, measurement| {
            meter(Drive { watt_hours, interval, measurement }).unwrap_err().to_string()
        };
        let none = why(0, 0x0000_0339, Some((0, 255)));
        assert!(none.starts_with("nvme0 (ACME X S1): it reports no power in its SMART log"), "{none}");
        assert!(why(7, 0x0002_0339, Some((0x05, 1))).contains("estimates"));
    }

    #[test]
    fn a_second_without_a_figure_has_no_reading() {
        let mut meter = meter(Drive { watt_hours: 0, interval: 0x0001_FFFF, measurement: None }).unwrap();
        assert_eq!(meter.channels()[0].resolution, 0.000_1);
        assert!(matches!(values(&mut meter)[..], [Value::Watts(watts)] if (watts - 6.5535).abs() < 1e-9));
        meter.logs = Box::new(Drive { watt_hours: 0, interval: 0, measurement: None });
        assert_eq!(values(&mut meter), []);
    }

    #[test]
    fn a_file_that_is_no_controller_says_why() {
        let tree = Tree::new(&[
            ("sys/class/nvme/nvme0/model", "ACME"),
            ("sys/class/nvme/nvme-subsys0/x", ""),
            ("dev/nvme0", ""),
        ]);
        assert_eq!(Nvme::controllers(tree.root()), ["nvme0"]);
        let error = Nvme::open(tree.root(), "nvme0").unwrap_err().to_string();
        assert!(
            error.starts_with("nvme0 (nvme0): its SMART log cannot be read (Inappropriate ioctl"),
            "{error}"
        );
        let error = Nvme::open(tree.root(), "nvme7").unwrap_err().to_string();
        assert!(error.contains("cannot be opened (No such file"), "{error}");
    }

    proptest! {
        #[test]
        fn any_page_is_taken(bytes in prop::collection::vec(any::<u8>(), SMART_LEN)) {
            let page: [u8; SMART_LEN] = bytes.try_into().unwrap();
            let Smart { watt_hours, power } = smart(&page);
            prop_assert!(watt_hours != Some(0));
            prop_assert!(power.is_none_or(|(watts, step)| watts >= step && watts <= 655.35));
            measurement(page.first_chunk().unwrap());
        }
    }
}
