//! A store keeps trials whole, in order and once, and says clearly what it refuses.

mod damage;
mod no_store;

use iopj_core::evidence::{DeviceEvidence, EngineEvidence, Finding};
use iopj_core::fabric::{HostSide, NetworkBaseline};
use iopj_core::workload::{Length, RandomDistribution};
use iopj_core::{Cost, CostKind, CostProfile, CostSource, FunctionCost, Space};
use iopj_core::{Disturbance, Observed, PowerChange, PowerSetting, RingFlag, Verdict, VerdictKind, Workload};
use iopj_record::{Latency, Measurement, Outcome, Slice, StudyRecord, Trial, export, histogram};
use iopj_store::{Checked, Store, StoreError};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn study() -> StudyRecord {
    StudyRecord {
        name: "test".into(),
        text: "name = \"test\"".into(),
        seed: 7,
        planned_trials: 3,
        target: "data".into(),
        provenance: BTreeMap::from([("kernel".into(), "6.1".into())]),
        ..StudyRecord::default()
    }
}

fn trial(replicate: u32, outcome: Outcome) -> Trial {
    let path = "io_uring/syscall/interrupt".parse().unwrap();
    Trial {
        settings: BTreeMap::from([("nomerges".into(), "2".into())]),
        replicate,
        position: u64::from(replicate),
        started_unix_ns: 5,
        gap_ns: (replicate > 0).then_some(9),
        ..Trial::new(path, Workload::default(), outcome)
    }
}

fn measured() -> Outcome {
    let mut latencies = histogram::new();
    for value in [1000, 2000, 3000] {
        latencies.record(value).unwrap();
    }
    let unclear = || "none".to_owned();
    Outcome::from(Measurement {
        window_ns: 2_000_000_000,
        ios: 3,
        bytes: 3 * 4096,
        reads: 3,
        short_ios: 1,
        latency: histogram::summary(&latencies),
        series: vec![Slice { end_ns: 1, ios: 2 }, Slice { end_ns: 2, ios: 1 }],
        cpu_percent: 12.5,
        context_switches_per_io: 1.0,
        system_calls_per_io: Some(1.0),
        achieved_depth: 0.9,
        observed: Observed {
            completion: Finding::Unclear(unclear()),
            submission: Finding::Unclear(unclear()),
            doubt: None,
        },
        verdict: Verdict { kind: VerdictKind::Unproven, reasons: vec!["none".into()] },
        power_state: [serde_json::json!({"governor": "none"}), serde_json::Value::Null].map(Into::into),
        ..Measurement::default()
    })
}

/// A measurement that a test changes.
fn measured_with(change: impl FnOnce(&mut Measurement)) -> Outcome {
    let mut outcome = measured();
    change(outcome.measurement_mut().unwrap());
    outcome
}

/// The cost of a function of the kernel.
fn function(name: &str, instructions: u64) -> FunctionCost {
    FunctionCost {
        space: Space::Kernel,
        function: name.into(),
        module: Some("nvme".into()),
        directory: Some("drivers/nvme/host/".into()),
        cost: Cost { calls: 3, instructions, loads: u64::MAX, stores: 1, cpu_ns: 0 },
    }
}

fn profile(functions: Vec<FunctionCost>) -> CostProfile {
    let kinds = vec![CostKind::Calls, CostKind::Instructions, CostKind::Loads, CostKind::Stores];
    CostProfile::new(CostSource::Exact, kinds, functions)
}

fn fresh() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("test.iopj");
    (folder, path)
}

#[test]
fn what_was_added_is_read_back() {
    let (_folder, path) = fresh();
    let trials = [trial(0, measured()), trial(1, Outcome::Failed("it broke".into()))];
    let mut store = Store::create(&path, &study()).unwrap();
    for trial in &trials {
        store.add(trial).unwrap();
    }
    store.add_event(1, "control", "{}").unwrap();
    drop(store);
    let store = Store::open(&path).unwrap();
    assert_eq!(store.study().unwrap(), study());
    assert_eq!(store.trials().unwrap(), trials);
    assert_eq!(store.positions().unwrap(), [0, 1]);
    assert_eq!(store.events().unwrap(), [(1, "control".to_owned(), "{}".to_owned())]);
    drop(store);
    let left: Vec<_> =
        std::fs::read_dir(path.parent().unwrap()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["test.iopj"], "a closed store is one file");
}

#[test]
fn costs_are_read_back_whether_they_came_with_the_trial_or_after() {
    let (_folder, path) = fresh();
    let profile = profile(vec![function("nvme_irq", 5), function("nvme_poll", 7)]);
    assert_eq!(profile.functions[0].function, "nvme_poll", "the dearest first");
    let mut store = Store::create(&path, &study()).unwrap();
    store.add(&trial(0, measured_with(|m| m.costs = Some(profile.clone())))).unwrap();
    store.add(&trial(1, measured())).unwrap();
    store.add(&trial(2, Outcome::Failed("it broke".into()))).unwrap();
    assert!(store.add_costs(1, HostSide::Host, &profile).unwrap());
    assert!(!store.add_costs(2, HostSide::Host, &profile).unwrap(), "a failed trial has no costs");
    assert!(!store.add_costs(9, HostSide::Host, &profile).unwrap());
    assert!(store.add_costs(1, HostSide::Host, &profile).is_err(), "once a trial");
    let far = self::profile(vec![function("nvmet_execute_io", 3)]);
    assert!(store.add_costs(0, HostSide::Target, &far).unwrap());
    let trials = store.trials().unwrap();
    let measured: Vec<_> = trials.iter().filter_map(|trial| trial.outcome.measurement()).collect();
    let costs = |of: fn(&Measurement) -> &Option<CostProfile>| {
        measured.iter().map(|measurement| of(measurement).clone()).collect::<Vec<_>>()
    };
    assert_eq!(costs(|m| &m.costs), [Some(profile.clone()), Some(profile)]);
    assert_eq!(costs(|m| &m.target_costs), [Some(far), None], "the target host's are its own");
}

#[test]
fn the_network_by_itself_is_read_back_in_its_order() {
    let (_folder, path) = fresh();
    let mut store = Store::create(&path, &study()).unwrap();
    let baseline = |block, bits_per_s| NetworkBaseline { block, bits_per_s, ..NetworkBaseline::default() };
    let all = [baseline(1, Some(45.42e9)), baseline(0, None)];
    all.iter().for_each(|one| store.add_network(one).unwrap());
    assert_eq!(store.networks().unwrap(), all);
    assert_eq!(store.study().unwrap().networks, all);
}

#[test]
fn a_trial_cannot_be_added_twice() {
    let (_folder, path) = fresh();
    let mut store = Store::create(&path, &study()).unwrap();
    store.add(&trial(0, measured())).unwrap();
    let error = store.add(&trial(0, measured())).unwrap_err();
    assert!(matches!(error, StoreError::Sqlite { .. }), "{error:?}");
    assert!(error.to_string().contains("then try again"), "{error}");
    assert_eq!(store.trials().unwrap().len(), 1);
}

#[test]
fn a_live_run_locks_writers_out_and_lets_readers_in() {
    let (_folder, path) = fresh();
    let mut store = Store::create(&path, &study()).unwrap();
    store.add(&trial(0, measured())).unwrap();
    assert!(matches!(Store::open_for_run(&path), Err(StoreError::Locked(_))));
    assert!(matches!(Store::create(&path, &study()), Err(StoreError::Exists(_))));
    drop(store);
    assert_eq!(Store::open_for_run(&path).unwrap().trials().unwrap().len(), 1);
}

#[test]
fn what_is_no_store_is_refused_by_name() {
    let (folder, path) = fresh();
    let says = |path: &PathBuf, part: &str| {
        let message = Store::open(path).unwrap_err().to_string();
        assert!(message.contains(part), "{message}");
    };
    says(&path, "there is no store");
    std::fs::write(&path, "text, and long enough for a header").unwrap();
    says(&path, "not an SQLite file");
    let other = folder.path().join("other.db");
    rusqlite::Connection::open(&other).unwrap().execute_batch("CREATE TABLE t (x)").unwrap();
    says(&other, "of another program");
    let newer = folder.path().join("newer.iopj");
    drop(Store::create(&newer, &study()).unwrap());
    rusqlite::Connection::open(&newer).unwrap().pragma_update(None, "user_version", 99).unwrap();
    says(&newer, "has schema 99");
    let cut = folder.path().join("cut.iopj");
    let mut store = Store::create(&cut, &study()).unwrap();
    store.add(&trial(0, measured())).unwrap();
    drop(store);
    let whole = std::fs::read(&cut).unwrap();
    std::fs::write(&cut, &whole[..whole.len() / 2]).unwrap();
    let cut = Store::open(&cut).and_then(|store| store.study().and_then(|_| store.trials()));
    assert!(cut.unwrap_err().to_string().contains("damaged or cut short"));
}

/// The tables that each schema added to the one before it; the sixth added a column and an index.
const ADDED: [&[&str]; 7] = [
    &["event", "histogram", "slice", "study", "trial"],
    &["cost", "energy", "mark", "meter", "profile", "reading", "session"],
    &["repeat"],
    &["network", "target_cost", "target_profile"],
    &["watch", "watch_interval"],
    &[],
    &["checksum"],
];

/// A store of a former schema: today's tables except those that later ones added.
fn former_schema(path: &Path, version: usize, trials: &[Trial]) {
    let mut store = Store::create(path, &study()).unwrap();
    trials.iter().for_each(|trial| store.add(trial).unwrap());
    drop(store);
    let file = rusqlite::Connection::open(path).unwrap();
    file.execute_batch("PRAGMA foreign_keys = OFF").unwrap();
    if version < 6 {
        file.execute_batch("DROP INDEX mark_position; ALTER TABLE energy DROP COLUMN rules").unwrap();
    }
    for table in ADDED[version..].concat() {
        file.execute_batch(&format!("DROP TABLE {table}")).unwrap();
    }
    file.pragma_update(None, "user_version", version as i64).unwrap();
    let tables = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name";
    let mut tables = file.prepare(tables).unwrap();
    let left: Vec<String> = tables.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let mut of_version = ADDED[..version].concat();
    of_version.sort_unstable();
    assert_eq!(left, of_version, "the tables of schema {version}");
}

/// Readers refused such a store, and only a run on its own machine could bring it forward.
#[test]
fn a_store_of_a_former_schema_is_read_unchanged_and_a_run_brings_it_forward() {
    let trials = [trial(0, measured()), trial(1, Outcome::Failed("it broke".into()))];
    for version in 1..ADDED.len() {
        let (_folder, path) = fresh();
        former_schema(&path, version, &trials);
        let bytes = std::fs::read(&path).unwrap();
        let store = Store::open(&path).unwrap();
        assert_eq!((store.study().unwrap(), store.trials().unwrap()), (study(), trials.to_vec()));
        assert_eq!(store.sessions().unwrap(), []);
        assert_eq!(store.check_sums().unwrap(), Checked { sound: 0, without: 2 }, "and it says so");
        drop(store);
        assert!(std::fs::read(&path).unwrap() == bytes, "a reader changes nothing of schema {version}");
        let mut store = Store::open_for_run(&path).unwrap();
        assert_eq!(store.trials().unwrap(), trials, "nothing of the trials is lost");
        // The new schema has room for what the older one lacked.
        assert!(store.add_costs(0, HostSide::Host, &profile(vec![function("nvme_irq", 5)])).unwrap());
        store.plan_repeats(&[0], 2, 1).unwrap();
        drop(store);
        let file = rusqlite::Connection::open(&path).unwrap();
        let now: isize = file.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
        assert_eq!(now, ADDED.len() as isize);
        let costs =
            Store::open(&path).unwrap().trials().unwrap()[0].outcome.measurement().unwrap().costs.clone();
        assert_eq!(costs, Some(profile(vec![function("nvme_irq", 5)])));
    }
}

/// Of a long one, the copy took a third of the time of a report, and room for it twice.
#[test]
fn a_store_that_only_lacks_tables_is_not_copied() {
    for version in 5..ADDED.len() {
        let (_folder, path) = fresh();
        former_schema(&path, version, &[trial(0, measured())]);
        let store = Store::open(&path).unwrap();
        let live = rusqlite::Connection::open(&path).unwrap();
        live.execute("INSERT INTO event VALUES (7, 'resumed', 'meanwhile')", []).unwrap();
        let seen = store.events().unwrap().len();
        assert_eq!(seen, usize::from(version >= 6), "schema {version}");
    }
}

#[test]
fn what_could_not_be_read_back_is_refused_by_name() {
    let (_folder, path) = fresh();
    let mut store = Store::create(&path, &study()).unwrap();
    let mut says = |trial: &Trial, part: &str| {
        let error = store.add(trial).unwrap_err();
        assert!(matches!(error, StoreError::Unkeepable { .. }), "{error:?}");
        assert!(error.to_string().contains(part), "{error}");
    };
    says(&trial(0, measured_with(|m| m.cpu_percent = f64::NAN)), "its cpu_percent is NaN");
    says(
        &trial(0, measured_with(|m| m.interrupts_per_io = Some(f64::INFINITY))),
        "its interrupts_per_io is inf",
    );
    let read = |m: &mut Measurement| m.read_latency = Some(Latency { stddev: f64::NAN, ..m.latency.clone() });
    says(&trial(0, measured_with(read)), "its read_latency_ns stddev is NaN");
    let mut odd = trial(0, measured());
    odd.workload.random_distribution = RandomDistribution::Zipf(f64::NAN);
    says(&odd, "its workload could not be read back");
    assert_eq!(store.trials().unwrap(), [], "a refused trial is absent");
    store.add(&trial(0, measured())).unwrap();
    assert_eq!(store.trials().unwrap().len(), 1);
}

#[test]
fn a_record_from_before_a_field_is_read() {
    let mut record = serde_json::to_value(study()).unwrap();
    record.as_object_mut().unwrap().remove("made_target");
    assert_eq!(serde_json::from_value::<StudyRecord>(record).unwrap(), study());
}

#[test]
fn json_holds_every_field_of_a_measurement() {
    let outcome = measured_with(|m| {
        m.read_latency = Some(m.latency.clone());
        m.write_latency = Some(m.latency.clone());
        m.costs = Some(profile(vec![function("nvme_irq", 5)]));
    });
    for outcome in [outcome, measured()] {
        let fields = serde_json::to_value(outcome.measurement().unwrap()).unwrap();
        let value = export::json(&study(), &[trial(0, outcome)], &[], export::Detail::Full);
        let exported = value["trials"][0].as_object().unwrap();
        for (field, content) in fields.as_object().unwrap() {
            let found = exported.get(field).or_else(|| exported.get(&format!("{field}_ns")));
            let found = found.unwrap_or_else(|| panic!("{field} is missing"));
            if field.ends_with("latency") && !content.is_null() {
                assert_eq!(
                    found["histogram"],
                    serde_json::json!([[1000, 1], [2000, 1], [3001, 1]]),
                    "{field}"
                );
            }
            if field != "verdict" && !field.ends_with("latency") {
                assert_eq!(found, content, "{field}");
            }
        }
    }
}

/// The cells of a line, by heading; none has a quote inside.
fn csv_cells(study: &StudyRecord, trial: Trial) -> BTreeMap<String, String> {
    let mut csv = Vec::new();
    export::csv(study, &[trial], &mut csv).unwrap();
    let csv = String::from_utf8(csv).unwrap();
    let cells_of = |line: &str| {
        let mut is_quoted = false;
        let is_end = |sign: char| {
            is_quoted ^= sign == '"';
            sign == ',' && !is_quoted
        };
        line.split(is_end).map(|cell| cell.trim_matches('"').to_owned()).collect::<Vec<_>>()
    };
    let mut lines = csv.lines().map(cells_of);
    let (names, cells) = (lines.next().unwrap(), lines.next().unwrap());
    assert_eq!(names.len(), cells.len());
    let columns = names.len();
    let cells: BTreeMap<_, _> = names.into_iter().zip(cells).collect();
    assert_eq!(cells.len(), columns, "no heading occurs twice");
    cells
}

#[test]
fn csv_holds_what_was_asked_and_what_was_seen() {
    let device =
        |interrupts| DeviceEvidence { read_sectors: 8, write_sectors: 16, interrupts, ..Default::default() };
    let mut full = trial(
        0,
        measured_with(|m| {
            m.read_latency = Some(m.latency.clone());
            m.evidence.process.voluntary_switches = 11;
            m.evidence.process.system_ns = 12;
            m.evidence.cpu.cores = 2;
            m.evidence.devices = vec![device(Some(3)), device(Some(4))];
            let ring_flags = vec![RingFlag::Iopoll, RingFlag::Sqpoll];
            m.evidence.engine = Some(EngineEvidence { submit_calls: 13, ring_flags, ..Default::default() });
            m.power_state[0] =
                serde_json::json!({"governors": ["a", "b"], "frequency_max_khz": 9, "turbo": true}).into();
            m.fio = Some(serde_json::json!({"usr_cpu": 1.5, "ctx": 14}));
            m.conditions.disturbances = vec![
                Disturbance::Others { cores: 0.5, allowed: 0.04 },
                Disturbance::Changed(PowerChange {
                    what: PowerSetting::Governors,
                    device: None,
                    before: "a".into(),
                    after: "b".into(),
                }),
            ];
        }),
    );
    full.workload.cpus_allowed = vec![0, 1];
    let expected = [
        ("runtime_s", "10"),
        ("ios_per_job", ""),
        ("cpus_allowed", "0 1"),
        ("read_latency_ns_p50", "2000"),
        ("write_latency_ns_p50", ""),
        ("cpu_cores", "2"),
        ("process_voluntary_switches", "11"),
        ("process_system_ns", "12"),
        ("interrupts", "7"),
        ("device_read_sectors", "16"),
        ("device_write_sectors", "32"),
        ("submit_calls", "13"),
        ("ring_flags", "IOPOLL SQPOLL"),
        ("governors", "a b"),
        ("frequency_min_khz", ""),
        ("frequency_max_khz", "9"),
        ("turbo", "true"),
        ("fio_usr_cpu", "1.5"),
        ("fio_ctx", "14"),
        ("observed_completion", "unclear: none"),
        ("starved", ""),
        (
            "disturbances",
            "other processes used 0.50 processors; 0.04 are allowed; the frequency governor changed \
             from a to b",
        ),
    ];
    let cells = csv_cells(&study(), full);
    for (name, value) in expected {
        assert_eq!(cells.get(name).map(String::as_str), Some(value), "{name}");
    }
    let mut bare = trial(0, measured_with(|m| m.evidence.devices = vec![device(Some(3)), device(None)]));
    bare.workload.length = Length::Ios(500);
    let cells = csv_cells(&study(), bare);
    for (name, value) in
        [("runtime_s", ""), ("ios_per_job", "500"), ("interrupts", ""), ("submit_calls", ""), ("fio_ctx", "")]
    {
        assert_eq!(cells.get(name).map(String::as_str), Some(value), "{name}");
    }
}

#[test]
fn csv_of_an_emulated_store_holds_counts_and_no_time() {
    let with_costs = measured_with(|m| {
        let user = FunctionCost { space: Space::User, directory: None, module: None, ..function("", 9) };
        m.costs = Some(profile(vec![
            function("nvme_irq", 5),
            FunctionCost { cost: Cost { loads: 2, ..user.cost }, ..user },
        ]));
        m.read_latency = Some(m.latency.clone());
        m.fio = Some(serde_json::json!({"usr_cpu": 1.5, "sys_cpu": 2.5, "ctx": 14}));
    });
    let real = csv_cells(&study(), trial(1, with_costs.clone()));
    let emulated =
        csv_cells(&StudyRecord { emulated: Some("QEMU TCG".into()), ..study() }, trial(1, with_costs));
    let times = [
        ("iops", "1.5"),
        ("mb_per_s", "0.006144"),
        ("latency_ns_p50", "2000"),
        ("latency_ns_p99_9", "3001"),
        ("read_latency_ns_p50", "2000"),
        ("cpu_percent", "12.5"),
        ("cpu_user_ns", "0"),
        ("process_system_ns", "0"),
        ("window_ns", "2000000000"),
        ("gap_ns", "9"),
        ("fio_usr_cpu", "1.5"),
        ("fio_sys_cpu", "2.5"),
    ];
    for (name, value) in times {
        let (real, emulated) = (real[name].as_str(), emulated[name].as_str());
        assert_eq!((real, emulated), (value, ""), "{name}");
    }
    let counts = [
        ("ios", "3"),
        ("short_ios", "1"),
        ("verdict", "unproven"),
        ("context_switches_per_io", "1"),
        ("system_calls_per_io", "1"),
        ("costs", "exact"),
        ("kernel_instructions", "5"),
        ("user_instructions", "9"),
        ("user_loads", "2"),
        ("fio_ctx", "14"),
        ("started_unix_ns", "5"),
        ("runtime_s", "10"),
    ];
    for (name, value) in counts {
        assert_eq!((real[name].as_str(), emulated[name].as_str()), (value, value), "{name}");
    }
    assert_eq!((real["emulated"].as_str(), emulated["emulated"].as_str()), ("", "QEMU TCG"));
}

#[test]
fn exports_hold_every_figure_under_its_name() {
    let trials = [trial(0, measured()), trial(1, Outcome::Failed("it, broke".into()))];
    let value = export::json(&study(), &trials, &[], export::Detail::Full);
    let first = &value["trials"][0];
    assert_eq!(first["path"], "io_uring/syscall/interrupt");
    assert_eq!(first["verdict"], "unproven");
    assert_eq!(first["latency_ns"]["p50"], 2000);
    assert_eq!(first["latency_ns"]["histogram"], serde_json::json!([[1000, 1], [2000, 1], [3001, 1]]));
    assert_eq!(first["iops"], 1.5);
    assert_eq!(first["series"][0]["ios"], 2);
    assert_eq!(first["interrupts_per_io"], serde_json::Value::Null);
    assert_eq!(value["trials"][1]["error"], "it, broke");
    let mut csv = Vec::new();
    export::csv(&study(), &trials, &mut csv).unwrap();
    let csv = String::from_utf8(csv).unwrap();
    let lines: Vec<_> = csv.split("\r\n").collect();
    let columns = lines[0].split(',').count();
    assert!(
        lines[1].starts_with("io_uring/syscall/interrupt,io_uring,syscall,interrupt,randread,50,4096,1,")
    );
    assert_eq!(lines[1].split(',').count(), columns);
    assert!(lines[2].contains("\"it, broke\""));
}

/// `.cargo/config.toml` says what SQLite is built without: it builds sooner, and files of others reach less
/// code.
#[test]
fn sqlite_is_built_without_what_no_store_needs() {
    let connection = rusqlite::Connection::open_in_memory().unwrap();
    let mut options = connection.prepare("PRAGMA compile_options").unwrap();
    let options: Vec<String> = options.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    assert!(options.iter().any(|option| option == "OMIT_LOAD_EXTENSION"), "{options:?}");
    let without = ["ENABLE_FTS", "ENABLE_RTREE", "ENABLE_DBSTAT", "ENABLE_LOAD_EXTENSION", "SOUNDEX"];
    let left = options.iter().filter(|option| without.iter().any(|name| option.starts_with(name)));
    assert_eq!(left.collect::<Vec<_>>(), Vec::<&String>::new());
}
