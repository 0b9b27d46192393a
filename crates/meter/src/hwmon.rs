//! Power and energy sensors of the kernel's hwmon class: Documentation/hwmon/sysfs-interface.rst.
//!
//! `power*_input` is a gauge, `power*_average` the mean of the last `power*_average_interval`,
//! `energy*_input` a counter. If a chip gives one quantity in several of these forms, the counter is taken,
//! else the average, else the gauge: each joule counts once. A chip is identified by its name and its device
//! (`ina226@1-0040`), never by its number.

use crate::clock::{ReadTime, monotonic_raw_ns};
use crate::meter::{Accuracy, Channel, ChannelKind, Distribution, Meter, MeterError, Reading, Scope, Value};
use crate::sysfs::{names, number, text};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// One chip of the hwmon class as a meter.
#[derive(Debug)]
pub struct Hwmon {
    name: String,
    channels: Vec<Channel>,
    /// The file of each channel.
    files: Vec<PathBuf>,
}

/// A sensor before it is a channel.
#[derive(Debug)]
struct Sensor {
    /// Its label, else its number in the chip (`power1`).
    quantity: String,
    scope: Scope,
    kind: ChannelKind,
    accuracy: Option<Accuracy>,
    file: PathBuf,
}

impl Hwmon {
    /// The chips below `root` (`/`) that have a power or an energy sensor, by name.
    pub fn all(root: &Path) -> Vec<Self> {
        let class = root.join("sys/class/hwmon");
        let mut chips: Vec<Self> =
            names(&class).iter().filter_map(|entry| Self::of(&class.join(entry))).collect();
        chips.sort_by(|one, other| one.name.cmp(&other.name));
        chips
    }

    /// The chip of this name below `root`, such as `power_meter@ACPI000D:00`.
    ///
    /// # Errors
    /// [`MeterError::Fatal`] if there is none, with the names of the others.
    pub fn open(root: &Path, name: &str) -> Result<Self, MeterError> {
        let mut chips = Self::all(root);
        if let Some(at) = chips.iter().position(|chip| chip.name == name) {
            return Ok(chips.swap_remove(at));
        }
        let known: Vec<String> = chips.into_iter().map(|chip| chip.name).collect();
        let remedy =
            if known.is_empty() { absent(root) } else { format!("name one of {}", known.join(", ")) };
        Err(MeterError::Fatal(format!(
            "no hwmon chip `{}` gives power or energy: {remedy}",
            name.escape_debug()
        )))
    }

    /// Name and device: `ina226@1-0040`; the name alone for a chip without a device.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn of(entry: &Path) -> Option<Self> {
        let device = fs::canonicalize(entry.join("device")).ok();
        // Drivers of the class's first interface, among them ACPI's until 2025, put their files into the
        // device's directory.
        let directories = [entry.to_owned(), entry.join("device")];
        let directory =
            directories.iter().find(|path| names(path).iter().any(|file| sensor_of(file).is_some()))?;
        let chip = directories
            .iter()
            .find_map(|path| text(&path.join("name")).ok())
            .unwrap_or_else(|| "unnamed".into());
        let device =
            device.as_deref().and_then(Path::file_name).map(|name| format!("@{}", name.to_string_lossy()));
        let (channels, files) = channels(sensors(directory, &chip));
        Some(Self { name: format!("{chip}{}", device.unwrap_or_default()), channels, files })
    }
}

impl Meter for Hwmon {
    fn channels(&self) -> &[Channel] {
        &self.channels
    }

    /// A sensor that cannot be read now is left out.
    fn read(&mut self, out: &mut Vec<Reading>) -> Result<(), MeterError> {
        let before = out.len();
        let mut failure = None;
        for (index, (channel, file)) in self.channels.iter().zip(&self.files).enumerate() {
            let begin_ns = monotonic_raw_ns();
            match value(channel, file) {
                Ok(value) => out.push(ReadTime::since(begin_ns).reading(index, value)),
                Err(error) => failure = Some((file, error)),
            }
        }
        let Some((file, error)) = failure.filter(|_| out.len() == before) else { return Ok(()) };
        let text = format!("`{}` of {} cannot be read ({error})", file.display(), self.name);
        // A sleeping device refuses for a while; files disappear with their driver.
        Err(if self.files.iter().any(|file| file.exists()) {
            MeterError::Retry(format!("{text}: check whether its device sleeps"))
        } else {
            MeterError::Fatal(format!("{text}: check with `dmesg` whether its driver was unloaded"))
        })
    }
}

fn value(channel: &Channel, file: &Path) -> io::Result<Value> {
    Ok(match channel.kind {
        ChannelKind::Counter { .. } => Value::Count(number(file)?),
        // Negative where current flows backwards, into a battery.
        _ => Value::Watts(number::<i64>(file)? as f64 * 1e-6),
    })
}

/// Why a machine has no such sensor.
pub(crate) fn absent(root: &Path) -> String {
    let class = root.join("sys/class/hwmon");
    let name = |entry: &String| text(&class.join(entry).join("name")).ok();
    let chips: Vec<String> = names(&class).iter().filter_map(name).collect();
    let seen = if chips.is_empty() { String::new() } else { format!(" (it has {})", chips.join(", ")) };
    format!(
        "`{}` has no chip with a power or an energy sensor{seen}: load the driver of the machine's meter \
         (`modprobe acpi_power_meter`, a BMC's, an INA sensor's), or use another meter",
        class.display()
    )
}

/// Stem and form of a sensor's file: `power1` and `average` of `power1_average`.
fn sensor_of(file: &str) -> Option<(&str, &str)> {
    let (stem, form) = file.split_once('_')?;
    let digits = |prefix: &str| stem.strip_prefix(prefix).is_some_and(|number| number.parse::<u16>().is_ok());
    let known =
        (digits("power") && matches!(form, "input" | "average")) || (digits("energy") && form == "input");
    known.then_some((stem, form))
}

fn sensors(directory: &Path, chip: &str) -> Vec<Sensor> {
    let mut sensors = Vec::new();
    for file in names(directory) {
        let Some((stem, form)) = sensor_of(&file) else { continue };
        let about = |what: &str| directory.join(format!("{stem}_{what}"));
        let label = text(&about("label")).ok().filter(|label| !label.is_empty());
        let scope = scope(chip, label.as_deref().unwrap_or_default(), directory);
        sensors.push(Sensor {
            quantity: label.unwrap_or_else(|| stem.replace("energy", "power")),
            scope,
            kind: kind(stem, form, number(&about("average_interval")).ok()),
            accuracy: text(&about("accuracy")).ok().as_deref().and_then(accuracy),
            file: directory.join(&file),
        });
    }
    sensors
}

/// A mean over an unknown time counts as a gauge.
fn kind(stem: &str, form: &str, interval_ms: Option<u64>) -> ChannelKind {
    match (form, interval_ms.and_then(|interval_ms| interval_ms.checked_mul(1_000_000))) {
        _ if stem.starts_with("energy") => ChannelKind::Counter { joules_per_count: 1e-6, wrap: None },
        ("average", Some(window_ns)) if window_ns > 0 => ChannelKind::Average { window_ns },
        _ => ChannelKind::Instant,
    }
}

/// One channel per quantity, in its best form. If a chip measures the whole machine, its other quantities are
/// part of that.
fn channels(sensors: Vec<Sensor>) -> (Vec<Channel>, Vec<PathBuf>) {
    let mut best: BTreeMap<String, Sensor> = BTreeMap::new();
    for sensor in sensors {
        let worse = |known: &Sensor| rank(&known.kind) > rank(&sensor.kind);
        if best.get(&sensor.quantity).is_none_or(worse) {
            best.insert(sensor.quantity.clone(), sensor);
        }
    }
    let whole =
        best.values().find(|sensor| sensor.scope == Scope::System).map(|sensor| sensor.quantity.clone());
    let channel = |sensor: Sensor| {
        let parent = whole.clone().filter(|_| sensor.scope != Scope::System);
        let Sensor { quantity: name, scope, kind, accuracy, file } = sensor;
        (Channel { name, scope, kind, resolution: 1e-6, accuracy, parent }, file)
    };
    best.into_values().map(channel).unzip()
}

fn rank(kind: &ChannelKind) -> u8 {
    match kind {
        ChannelKind::Counter { .. } => 0,
        ChannelKind::Average { .. } => 1,
        ChannelKind::Instant => 2,
    }
}

/// What a sensor measures. Only some drivers are documented to see the whole machine or a package
/// (acpi_power_meter, ibmaem, occ, ibmpowernv, corsair-psu, macsmc, amd_energy, fam15h_power); for any other
/// driver it is a device.
fn scope(chip: &str, label: &str, directory: &Path) -> Scope {
    let label = label.to_ascii_lowercase();
    match chip {
        // A meter with `measures` says which devices it sees (ACPI's _PMD); one without sees the machine.
        "power_meter" if names(&directory.join("measures")).is_empty() => Scope::System,
        "aem1" | "aem2" => Scope::System,
        "occ" | "ibmpowernv" if label == "system" => Scope::System,
        "corsairpsu" if label == "power total" => Scope::System,
        "macsmc_hwmon" if label == "total system power" => Scope::System,
        "amd_energy" if label.starts_with("esocket") => Scope::Package,
        "amd_energy" if label.starts_with("ecore") => Scope::Core,
        "fam15h_power" => Scope::Package,
        _ => Scope::Device,
    }
}

/// The gain error of `power*_accuracy`: `99.500%` accurate is 0.5 % off. The driver (acpi_power_meter) prints
/// thousandths of a percent without their leading zeros: `99.50%` is 99.050.
fn accuracy(text: &str) -> Option<Accuracy> {
    let (whole, fraction) = text.strip_suffix('%')?.split_once('.')?;
    let number = |text: &str| {
        text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u32>().ok()).flatten()
    };
    let (whole, thousandths) = (number(whole)?, number(fraction)?);
    let accurate = whole.checked_mul(1000)?.checked_add(thousandths)?;
    // 0 % means that nobody has described the meter.
    (thousandths < 1000 && 0 < accurate && accurate <= 100_000).then(|| Accuracy {
        gain: Distribution::Rectangular(f64::from(100_000 - accurate) * 1e-5),
        offset: Distribution::NONE,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::values;
    use crate::sysfs::fixture::Tree;
    use proptest::prelude::*;
    use std::os::unix::fs::symlink;

    /// A chip with its device, whose files lie in the entry or, for old drivers, beside the device's: names
    /// and contents.
    fn chip(tree: &Tree, number: u32, device: &str, below: &str, files: &str) {
        let entry = format!("sys/class/hwmon/hwmon{number}");
        fs::create_dir_all(tree.path(&format!("sys/devices/{device}"))).unwrap();
        fs::create_dir_all(tree.path(&entry)).unwrap();
        symlink(tree.path(&format!("sys/devices/{device}")), tree.path(&format!("{entry}/device"))).unwrap();
        for (file, value) in files.split(", ").map(|file| file.split_once(' ').unwrap()) {
            tree.write(&format!("{entry}/{below}{file}"), value);
        }
    }

    #[test]
    fn an_acpi_power_meter_sees_the_machine() {
        let tree = Tree::new(&[]);
        let files = "name power_meter, power1_average 187000000, power1_average_interval 1000, \
                     power1_average_min unknown, power1_accuracy 99.50%, power1_cap 0";
        chip(&tree, 3, "ACPI000D:00", "device/", files);
        let mut meter = Hwmon::open(tree.root(), "power_meter@ACPI000D:00").unwrap();
        let Channel { name, scope, kind, accuracy: got, .. } = meter.channels()[0].clone();
        assert_eq!((name.as_str(), scope), ("power1", Scope::System));
        assert_eq!(kind, ChannelKind::Average { window_ns: 1_000_000_000 });
        assert!(
            matches!(got, Some(Accuracy { gain: Distribution::Rectangular(gain), .. })
                if (gain - 0.0095).abs() < 1e-12),
            "{got:?}"
        );
        assert_eq!(values(&mut meter), [Value::Watts(187.0)]);
        // A meter of some devices is none of the machine.
        tree.write("sys/devices/ACPI000D:00/measures/device:1a", "");
        assert_eq!(Hwmon::all(tree.root())[0].channels()[0].scope, Scope::Device);
    }

    #[test]
    fn sensors_of_one_kind_are_distinguished_by_their_device() {
        let tree = Tree::new(&[]);
        for (number, device, microwatts) in [(0, "1-0041", "2500000"), (1, "1-0040", "-1250000")] {
            let files = format!("name ina226, power1_input {microwatts}, in1_input 12000");
            chip(&tree, number, device, "", &files);
        }
        chip(&tree, 2, "thermal", "", "name coretemp, temp1_input 40000");
        let mut meters = Hwmon::all(tree.root());
        let names: Vec<&str> = meters.iter().map(Hwmon::name).collect();
        assert_eq!(names, ["ina226@1-0040", "ina226@1-0041"]);
        assert_eq!(meters[0].channels()[0].kind, ChannelKind::Instant);
        assert_eq!(meters[0].channels()[0].scope, Scope::Device);
        assert_eq!(meters[0].channels()[0].accuracy, None);
        assert_eq!(values(&mut meters[0]), [Value::Watts(-1.25)]);
        let error = Hwmon::open(tree.root(), "ina226").unwrap_err().to_string();
        assert!(error.ends_with("name one of ina226@1-0040, ina226@1-0041"), "{error}");
    }

    #[test]
    fn a_quantity_in_three_forms_counts_once_as_energy() {
        let tree = Tree::new(&[]);
        let files = "name aem1, power1_average 100000000, power1_average_interval 1000, \
                     power1_input 100000000, energy1_input 18446744073709551615";
        chip(&tree, 0, "ibmaem.0", "", files);
        let mut meter = Hwmon::open(tree.root(), "aem1@ibmaem.0").unwrap();
        assert_eq!(meter.channels().len(), 1);
        assert_eq!(meter.channels()[0].scope, Scope::System);
        assert_eq!(meter.channels()[0].kind, ChannelKind::Counter { joules_per_count: 1e-6, wrap: None });
        assert_eq!(values(&mut meter), [Value::Count(u64::MAX)]);
    }

    #[test]
    fn rails_lie_within_the_supply() {
        let tree = Tree::new(&[]);
        let files = "name corsairpsu, power1_input 150000000, power1_label power total, \
                     power2_input 120000000, power2_label power +12v";
        chip(&tree, 0, "usb-1", "", files);
        let meters = Hwmon::all(tree.root());
        let of = |channel: &Channel| (channel.name.clone(), channel.scope, channel.parent.clone());
        let total = "power total".to_owned();
        let want =
            [("power +12v".to_owned(), Scope::Device, Some(total.clone())), (total, Scope::System, None)];
        assert_eq!(meters[0].channels().iter().map(of).collect::<Vec<_>>(), want);
    }

    #[test]
    fn amd_energy_has_sockets_and_cores() {
        let tree = Tree::new(&[]);
        let files = "name amd_energy, energy1_label Ecore000, energy1_input 1, \
                     energy2_label Esocket0, energy2_input 2";
        chip(&tree, 0, "amd_energy.0", "", files);
        let scopes: Vec<Scope> =
            Hwmon::all(tree.root())[0].channels().iter().map(|channel| channel.scope).collect();
        assert_eq!(scopes, [Scope::Core, Scope::Package]);
    }

    #[test]
    fn an_average_over_an_unknown_time_is_a_gauge() {
        assert_eq!(kind("power1", "average", None), ChannelKind::Instant);
        assert_eq!(kind("power1", "average", Some(0)), ChannelKind::Instant);
        assert_eq!(kind("power1", "average", Some(u64::MAX)), ChannelKind::Instant);
    }

    #[test]
    fn a_sensor_that_is_busy_is_left_out_and_one_that_is_gone_ends_the_meter() {
        let tree = Tree::new(&[]);
        chip(&tree, 0, "card", "", "name amdgpu, power1_input 5000000, power2_input unknown");
        let mut meter = Hwmon::open(tree.root(), "amdgpu@card").unwrap();
        assert_eq!(values(&mut meter), [Value::Watts(5.0)]);
        tree.write("sys/class/hwmon/hwmon0/power1_input", "");
        assert!(matches!(meter.read(&mut Vec::new()), Err(MeterError::Retry(_))));
        fs::remove_dir_all(tree.path("sys/class/hwmon/hwmon0")).unwrap();
        assert!(matches!(meter.read(&mut Vec::new()), Err(MeterError::Fatal(_))));
    }

    #[test]
    fn a_declared_accuracy_is_read_as_the_driver_prints_it() {
        let gain =
            |text| accuracy(text).map(|accuracy| (accuracy.gain.standard() * 3f64.sqrt() * 1e5).round());
        assert_eq!(gain("99.500%"), Some(500.0));
        assert_eq!(gain("99.5%"), Some(995.0));
        assert_eq!(gain("80.0%"), Some(20_000.0));
        assert_eq!(gain("100.0%"), Some(0.0));
        for text in ["0.0%", "100.1%", "99.1000%", "99.5", "99%", "-1.0%", "+9.5%", "", "%", "4294967295.0%"]
        {
            assert_eq!(gain(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_taken(text in "\\PC{0,30}", digits in "[0-9]{0,12}\\.[0-9]{0,12}%") {
            sensor_of(&text);
            accuracy(&text);
            accuracy(&digits);
        }

        #[test]
        fn an_accuracy_comes_back(accurate in 1..=100_000u32) {
            let text = format!("{}.{}%", accurate / 1000, accurate % 1000);
            let Some(Accuracy { gain: Distribution::Rectangular(gain), .. }) = accuracy(&text) else {
                panic!()
            };
            prop_assert!((gain - f64::from(100_000 - accurate) * 1e-5).abs() < 1e-12);
        }
    }
}
