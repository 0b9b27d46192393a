use super::*;
use iopj_study::Study;

fn study(meters: &str) -> Result<Study, StudyError> {
    let text = format!("name = \"t\"\npaths = \"available\"\n{meters}\n[[workload]]\nios = 1\n");
    let study = Study::parse(&text, "t.toml")?;
    meter_specs(study.meters.as_ref(), "t.toml")?;
    let there = study.fabric.as_ref().and_then(|fabric| fabric.meters.as_ref());
    target_meter_specs(there, "t.toml").map(|_| study)
}

fn named(meters: &str) -> Vec<(MeterSpec, MeterSource)> {
    match meter_specs(study(meters).unwrap().meters.as_ref(), "t") {
        Ok(MeterSpecs::Named(specs)) => specs,
        _ => panic!("{meters}"),
    }
}

#[test]
fn meters_are_the_machines_own_none_or_named() {
    let which = |text: &str| meter_specs(study(text).unwrap().meters.as_ref(), "t").unwrap();
    assert!(matches!(which(""), MeterSpecs::Local));
    assert!(matches!(which("meters = true"), MeterSpecs::Local));
    assert!(matches!(which("meters = \"local\""), MeterSpecs::Local));
    assert!(matches!(which("meters = false"), MeterSpecs::None));
    assert!(matches!(which("meters = \"none\""), MeterSpecs::None));
    assert_eq!(named("[meters.a]\nkind = \"rapl\"\n[meters.b]\nkind = \"hwmon\"\nchip = \"x\"").len(), 2);
}

/// `iopj meter list` shows each kind once: what is here, why not, or what to configure.
#[test]
fn every_kind_is_listed() {
    let root = std::path::Path::new("/");
    let mut listed = iopj_meter::local_meters(root);
    listed.extend(iopj_meter::configured_meters(root, Default::default()));
    let mut kinds: Vec<&str> = listed.iter().filter_map(|meter| meter.name.split(':').next()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let mut all: Vec<&str> = KINDS.iter().map(|kind| kind.name).chain([LOG, MODEL]).collect();
    all.sort_unstable();
    assert_eq!((kinds.len(), kinds), (10, all));
}

#[test]
fn a_table_has_defaults_and_survives_the_store() {
    let text = "idle = \"20s\"\n[meters.plug]\nkind = \"http\"\nurl = \"http://plug\"\ninterval = \
                \"500ms\"\nclock = \"own\"\nvalues = [{ pointer = \"/power\", time = \"/t\" }]";
    let study = study(text).unwrap();
    assert_eq!(Study::parse(&study.to_toml().unwrap(), "again").unwrap(), study);
    let (spec, source) = named(text).remove(0);
    assert!(matches!(source, MeterSource::Live(_)));
    let ms = Duration::from_millis;
    assert_eq!(
        (spec.kind, spec.interval, spec.bridge, spec.clock),
        ("http", ms(500), ms(1500), ClockChoice::Own)
    );
    let (spec, source) =
        named("[meters.wall]\nkind = \"log\"\nformat = \"csv\"\nvalues = \"average\"").remove(0);
    assert!(matches!(source, MeterSource::Log(config) if config.kind.is_some()));
    assert_eq!(spec.clock, ClockChoice::Own);
    for off in ["meters = false", "meters = \"none\""] {
        let study = self::study(off).unwrap();
        assert_eq!(Study::parse(&study.to_toml().unwrap(), "again").unwrap(), study);
    }
}

#[test]
fn what_cannot_be_is_refused_with_the_nearest_right_word() {
    for (meters, part) in [
        ("meters = 3", "write false for no meters"),
        ("meters = \"all\"", "write \"none\", \"local\", or a [meters.NAME] table"),
        ("[meters.a]\ninterval = \"1s\"", "[meters.a]: it has no `kind`: there are rapl, hwmon"),
        ("[meters.a]\nkind = \"raple\"", "there is no kind of meter `raple`"),
        (
            "[meters.a]\nkind = \"rapl\"\nintervall = \"1s\"",
            "unknown key `intervall` in [meters.a]: did you mean `interval`?",
        ),
        ("[meters.a]\nkind = \"hwmon\"\nchips = \"x\"", "did you mean `chip`?"),
        ("[meters.a]\nkind = \"hwmon\"", "missing field `chip`"),
        ("[meters.a]\nkind = \"rapl\"\ninterval = \"1ms\"", "`interval` lies between 10ms and 1h"),
        ("[meters.a]\nkind = \"rapl\"\ninterval = 1", "`interval` is not a text"),
        ("[meters.a]\nkind = \"rapl\"\nclock = \"mine\"", "`clock` is `host` or `own`"),
        ("[meters.\"a/b\"]\nkind = \"rapl\"", "a meter cannot be named `a/b`"),
        ("[meters.a]\nkind = \"command\"\ncommand = [\"x\"]\nscope = \"socket\"", "unknown variant"),
        ("[meters.a]\nkind = \"command\"\ncommand = [\"x\"]\nscope = \"system\"\nwindow = \"x\"", "window: "),
        ("idle = \"soon\"", "idle: "),
    ] {
        let message = study(meters).unwrap_err().to_string();
        assert!(message.contains(part), "{message} (wanted {part})");
        assert!(!message.contains('\n'), "{message}");
    }
}

#[test]
fn every_kind_names_its_keys() {
    for kind in KINDS.iter().filter(|kind| kind.name != "rapl") {
        assert!(!(kind.keys)().is_empty(), "{kind:?}");
        assert!((kind.keys)().iter().all(|key| !COMMON.contains(key)), "{kind:?}");
    }
}

/// Devices that docs/meters.md has a block for.
const DEVICES: [&str; 12] = [
    "Shelly, first generation",
    "Shelly, second generation and later",
    "Shelly PM and EM",
    "Tasmota",
    "APC PDU",
    "Raritan PDU",
    "iDRAC",
    "iLO",
    "OpenBMC",
    "ipmitool",
    "INA",
    "HOBO",
];

/// The blocks of TOML in a page.
fn blocks(page: &str) -> impl Iterator<Item = &str> {
    page.split("```toml\n").skip(1).filter_map(|rest| rest.split_once("```")).map(|(block, _)| block)
}

#[test]
fn every_block_of_the_pages_is_a_meter() {
    let pages =
        [include_str!("../../../../../docs/meters.md"), include_str!("../../../../../docs/studies.md")]
            .concat();
    let tables: Vec<&str> = blocks(&pages).filter(|block| block.contains("[meters.")).collect();
    assert!(tables.len() > DEVICES.len(), "{tables:?}");
    for table in tables {
        assert!(!named(table).is_empty(), "{table}");
    }
    for device in DEVICES {
        let (_, part) = pages.split_once(&format!("\n### {device}\n")).expect(device);
        let part = part.split("\n##").next().unwrap();
        let [block] = blocks(part).collect::<Vec<_>>()[..] else { panic!("{device}: not one block") };
        assert_eq!(named(block).len(), 1, "{device}");
        for word in ["**Replace**", "**Check:**", "**Measures**"] {
            assert!(part.contains(word), "{device}: no {word}");
        }
    }
}

/// A study with this in its `[fabric]`.
fn far(meters: &str) -> Result<Study, StudyError> {
    let fabric = "[fabric]\ntarget_host = \"storage1\"\ndevice = \"/dev/nvme0n1\"\ntransport = \"loop\"\n";
    study(&format!("{fabric}{meters}"))
}

#[test]
fn meters_of_the_target_host_are_read_while_the_study_runs_by_its_clock() {
    let study = far("meters.psu = { kind = \"command\", command = [\"psu\"], scope = \"system\" }").unwrap();
    assert_eq!(programs(&study).unwrap(), ["psu"]);
    let error = |keys: &str| far(&format!("[fabric.meters.psu]\n{keys}")).unwrap_err().0;
    assert_eq!(
        error("kind = \"ipmi\"\nhots = \"192.0.2.9\""),
        "t.toml: unknown key `hots` in [fabric.meters.psu]: did you mean `host`?"
    );
    for (keys, expected) in [
        ("kind = \"http\"\nurl = \"http://p\"\nclock = \"own\"", "leave `clock` out"),
        ("kind = \"log\"\nformat = \"hobo\"", "name a meter that is read while the study runs"),
        ("kind = \"model\"\nfile = \"m.toml\"", "a model estimates the host that does the I/O"),
    ] {
        let error = error(keys);
        assert!(error.starts_with("t.toml: [fabric.meters.psu]: ") && error.contains(expected), "{error}");
    }
}
