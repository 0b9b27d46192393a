//! Stores: bytes of a sound one changed, which never make another figure; and statements of SQL on one, after
//! which it is read, or refused, in the end.

use crate::study;
use iopj_analysis::Admission;
use iopj_core::fabric::HostSide;
use iopj_record::export::Detail;
use iopj_record::{StudyRecord, Trial};
use iopj_store::{Store, StoreError};
use rusqlite::Connection;
use rusqlite::limits::Limit;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// A store in one file, and what is read of it.
struct Sound {
    bytes: Vec<u8>,
    figures: (StudyRecord, Vec<Trial>),
}

static SOUND: LazyLock<Sound> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("sound.iopj");
    let mut store = Store::create(&path, &study::study()).expect("a store");
    for trial in study::trials() {
        store.add(&trial).expect("room for a trial");
    }
    store.add_costs(0, HostSide::Host, &study::costs()).expect("room for a profile");
    store.add_event(1, "control", "{}").expect("room for an event");
    let session = store.add_session("a-boot", 5).expect("room for a session");
    store.add_meter(session, "plug", "{}").expect("room for a meter");
    store.plan_repeats(&[0], 2, 1).expect("room for a repeat");
    let figures = (store.study().expect("its study"), store.trials().expect("its trials"));
    drop(store);
    let file = Connection::open(&path).expect("an SQLite file");
    file.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(())).expect("one file for all of it");
    drop(file);
    Sound { bytes: fs::read(&path).expect("its bytes"), figures }
});

/// A file of these bytes, where nothing is written to a disk if there is such a place.
fn placed(bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let memory = Path::new("/dev/shm");
    let folder = tempfile::tempdir_in(memory).or_else(|_| tempfile::tempdir()).expect("a folder");
    let path = folder.path().join("t.iopj");
    fs::write(&path, bytes).expect("room for a store");
    (folder, path)
}

/// The sound store with changes of six bytes each: a place, what is done there, and by what.
pub(crate) fn bytes(input: &[u8]) {
    let mut damaged = SOUND.bytes.clone();
    for change in input.chunks_exact(6) {
        let [a, b, c, d, what, by] = change else { continue };
        let place = u32::from_le_bytes([*a, *b, *c, *d]) as usize % SOUND.bytes.len();
        match what % 4 {
            0 => damaged.get_mut(place).map_or((), |byte| *byte = *by),
            1 => damaged.get_mut(place).map_or((), |byte| *byte ^= 1 << (by % 8)),
            2 => damaged.truncate(place),
            // A page in the place of another, as a lost write leaves it.
            _ => {
                let from = usize::from(*by) * 4096 % SOUND.bytes.len();
                let page = place / 4096 * 4096;
                if page + 4096 <= damaged.len() {
                    damaged[page..page + 4096].copy_from_slice(&SOUND.bytes[from..from + 4096]);
                }
            }
        }
    }
    let (_folder, path) = placed(&damaged);
    let read = Store::open(&path)
        .and_then(|store| Ok(((store.study()?, store.trials()?), store.trials_without_checksum()?)));
    match read {
        // Without checksums it is read as an older one, which every command says.
        Ok((read, without)) => assert!(read == SOUND.figures || without > 0, "damage makes another figure"),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

pub(crate) fn seeds_of_bytes() -> Vec<Vec<u8>> {
    let change = |place: u32, what: u8, by: u8| [&place.to_le_bytes()[..], &[what, by]].concat();
    // The header's version of the schema, then a page, then the end.
    // It led from the last trial back to the first, for ever.
    let back = 0x6bff_ffff;
    let mut seeds =
        vec![Vec::new(), change(back, 0, 0x39), change(63, 0, 6), change(4096, 3, 5), change(9000, 2, 0)];
    // Another page in the place of an index, by which a block's trials were counted.
    seeds.push(vec![109, 97, 70, 239, 111, 38]);
    // The same in the place of a profile, which had no checksum then.
    seeds.push(vec![98, 121, 116, 101, 115, 239, 57, 57, 230, 239, 57]);
    // The same in the place of the checksums.
    seeds.push([[48, 246, 10, 71, 71, 71], [71; 6], [71; 6], [71, 71, 71, 71, 71, 48]].concat());
    seeds.extend((0..40).map(|at| change(at * 997, 1, (at % 8) as u8)));
    // Another figure of the same length.
    let figure = b"\"ios\":3000";
    let places = SOUND.bytes.windows(figure.len()).enumerate().filter(|(_, bytes)| *bytes == figure);
    seeds.extend(places.map(|(place, _)| change(place as u32 + 6, 0, b'9')));
    seeds
}

/// Statements on the sound store, by a program without its limits.
pub(crate) fn sql(input: &[u8]) {
    let Ok(statements) = std::str::from_utf8(input) else { return };
    let (_folder, path) = placed(&SOUND.bytes);
    let Ok(mut file) = Connection::open(&path) else { return };
    // What nobody could send, and what would write elsewhere.
    let within = [
        file.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0).map(drop),
        file.set_limit(Limit::SQLITE_LIMIT_LENGTH, 1 << 20).map(drop),
        file.progress_handler(200_000, Some(|| true)),
    ];
    assert!(within.iter().all(Result::is_ok), "{within:?}");
    let _ = file.execute_batch(statements);
    drop(file);
    let _ = read(&path);
}

/// Reads all that there is, and draws it up.
fn read(path: &Path) -> Result<(), StoreError> {
    let store = Store::open(path)?;
    let _ = store.check_all();
    let _ = (store.watch(), store.networks(), store.sessions(), store.positions());
    for meter in store.meters().unwrap_or_default() {
        let _ = (store.readings(meter.id), store.marks(meter.session));
    }
    let (study, trials) = (store.study()?, store.all_trials()?);
    let text = iopj_report::report(&study, &trials, Admission::default());
    assert!(!text.contains('\u{1b}'), "an escape reaches the terminal");
    let mut json = Vec::new();
    if store.write_json(Detail::Full, &mut json).is_ok() {
        assert!(serde_json::from_slice::<serde_json::Value>(&json).is_ok(), "no JSON");
    }
    let _ = store.write_csv(&mut Vec::new());
    Ok(())
}

pub(crate) fn seeds_of_sql() -> Vec<Vec<u8>> {
    let endless = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n";
    let seeds = [
        String::new(),
        "DELETE FROM checksum".to_owned(),
        "DELETE FROM checksum; UPDATE trial SET measurement = json_set(measurement, '$.ios', -1)".to_owned(),
        "DELETE FROM checksum; UPDATE trial SET workload = json_set(workload, '$.bs', 0)".to_owned(),
        "DELETE FROM checksum; UPDATE histogram SET v2 = zeroblob(9)".to_owned(),
        "DELETE FROM checksum; UPDATE study SET name = char(27) || '[2J', record = '{}'".to_owned(),
        "DELETE FROM checksum; UPDATE trial SET error = 'x' || char(8238), measurement = NULL".to_owned(),
        "DELETE FROM checksum; UPDATE slice SET end_ns = -1; UPDATE cost SET calls = -1".to_owned(),
        "DELETE FROM checksum; INSERT INTO mark VALUES (1, 'load', -1, '[3,1]')".to_owned(),
        "DELETE FROM checksum; UPDATE trial SET replicate = 4294967296".to_owned(),
        "DELETE FROM checksum; UPDATE trial SET replicate = 1, position = -9".to_owned(),
        "PRAGMA user_version = 1; DROP TABLE checksum".to_owned(),
        "PRAGMA user_version = 6; DROP TABLE checksum".to_owned(),
        format!("ALTER TABLE trial RENAME TO t; CREATE VIEW trial AS {endless}"),
        "CREATE TRIGGER x AFTER INSERT ON event BEGIN DELETE FROM trial; END".to_owned(),
    ];
    seeds.map(String::into_bytes).to_vec()
}
