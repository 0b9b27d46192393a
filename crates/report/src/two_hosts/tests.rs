//! Both hosts on the terminal, in LaTeX, CSV and Parquet.

use crate::{csv, latex, report};
use iopj_analysis::{Admission, workload_tables};
use iopj_core::fabric::{BOTH_HOSTS, HostSide, NetworkBaseline};
use iopj_core::{Scope, Transport};
use iopj_record::testing::cells::measurement_of;
use iopj_record::testing::energy::give;
use iopj_record::testing::hosts::{by, store};
use iopj_record::testing::pairs::study;
use iopj_record::{StudyRecord, Trial};

/// Three transports at two depths, with meters on both hosts over TCP.
fn metered() -> Vec<Trial> {
    let mut trials = store();
    for trial in trials.iter_mut().filter(|trial| trial.settings["transport"] == "tcp") {
        give(trial, "plug", Scope::System, 100.0);
        give(trial, "target.plug", Scope::System, 60.0);
        give(trial, BOTH_HOSTS, Scope::System, 160.0);
    }
    trials
}

fn emulated() -> StudyRecord {
    StudyRecord { emulated: Some("QEMU TCG".to_owned()), ..study("6.18") }
}

fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn both_hosts_stand_one_below_the_other() {
    let text = squeezed(&report(&study("6.18"), &metered(), Admission::default()));
    let path = "io_uring/syscall/interrupt";
    for part in [
        "p20 p50 p80 p95 p99 p99.9".to_owned(),
        "host and target host, CPU in % of all cores of each: path on cores user system iowait irq softirq \
         idle W \u{b1} J meter"
            .to_owned(),
        format!("{path} transport=tcp host 4 5.0 20.0 15.0 1.0 4.0 55.0 50.00 0 100.0 system by plug"),
        format!(
            "{path} transport=tcp target 1 1.0 30.0 0.0 0.0 10.0 59.0 30.00 0 60.00 system by target.plug"
        ),
        format!("{path} transport=tcp host+target - - - - - - - 80.00 0 160.0 system by host+target"),
        format!("{path} transport=local target 4 5.0 20.0 15.0 1.0 4.0 55.0 - - - -"),
        "per I/O: path on ctx card irq drive irq packets in packets out bytes in bytes out".to_owned(),
        format!("{path} transport=tcp host 2.10 0.80 - 3.00 1.20 4,300 150"),
        format!("{path} transport=tcp target 0.53 0.60 0.50 1.20 3.00 150 4,300"),
        format!("{path} transport=local target 2.10 - 1.00 - - - -"),
        format!("{path} transport=loop target 2.10 - - - - - -"),
        // At a depth of 16.
        format!("{path} transport=tcp host 2.10 0.05 - 3.00"),
        "as mpstat gives it, whoever used it; iowait is idle time".to_owned(),
        "transport local and loop: the target host did the I/O itself, so its figures are those of the trial"
            .to_owned(),
        "encloses the host's; its clock is known to within 1,344 us".to_owned(),
    ] {
        assert!(text.contains(&part), "{part:?} is not in\n{text}");
    }
    assert!(!text.contains(&format!("{path} transport=local host ")), "{text}");
    assert!(!text.contains("steal"), "{text}");
}

#[test]
fn under_emulation_both_hosts_have_counts_and_no_time() {
    let text = squeezed(&report(&emulated(), &metered(), Admission::default()));
    assert!(text.contains("transport=tcp host 2.10 0.80 - 3.00 1.20 4,300 150"), "{text}");
    for time in ["iowait", "mpstat", "clock is known", "system by", " p20"] {
        assert!(!text.contains(time), "`{time}` is in\n{text}");
    }
}

#[test]
fn a_local_study_has_no_wider_tables() {
    let mut trials = by(Transport::Tcp, 1);
    for trial in &mut trials {
        trial.settings.clear();
        measurement_of(trial).evidence.fabric = None;
    }
    let tables = workload_tables(&study("6.18"), &trials, Admission::default());
    for text in [report(&study("6.18"), &trials, Admission::default()), latex(&tables)] {
        for word in ["p20", "p80", "p95", "target host", "card irq"] {
            assert!(!text.contains(word), "`{word}` is in\n{text}");
        }
    }
}

#[test]
fn other_programs_get_the_same_figures() {
    let tables = workload_tables(&study("6.18"), &metered(), Admission::default());
    let text = latex(&tables);
    for part in [
        "% host and target host, CPU in \\% of all cores of each\n\\begin{tabular}{llrrrrrrrrrrr}",
        "path & on & ctx & card irq & drive irq & packets in & packets out & bytes in & bytes out \\\\",
        "transport=tcp & target & 0.53 & 0.60 & 0.50 & 1.20 & 3.00 & 150 & 4300 \\\\",
        "transport=tcp & host+target & -- & -- & -- & -- & -- & -- & -- & 80.00 & 0 & 160.0 & system by",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    let text = csv(&tables);
    let names: Vec<&str> = text.lines().next().unwrap().split(',').collect();
    let row = |transport: &str| {
        let is = |line: &&str| line.contains(&format!("transport={transport},"));
        text.lines().find(is).unwrap().split(',').collect::<Vec<_>>()
    };
    let of = |transport: &str, name: &str| row(transport)[names.iter().position(|one| *one == name).unwrap()];
    for (name, tcp, local) in [
        ("host_cores", "4", ""),
        ("target_cores", "1", "4"),
        ("host_cpu_iowait_percent", "15", ""),
        ("target_cpu_softirq_percent", "10", "4"),
        ("host_card_interrupts_per_io", "0.8", ""),
        ("target_drive_interrupts_per_io", "0.5", "1"),
        ("target_bytes_out_per_io", "4300", ""),
        ("host_watts", "50", ""),
        ("target_watts", "30", ""),
        ("both_watts", "80", ""),
        ("both_energy", "system by host+target", ""),
        ("target_clock_uncertainty_ns", "1343520", ""),
    ] {
        let near = |cell: &str, figure: &str| match (cell.parse::<f64>(), figure.parse::<f64>()) {
            (Ok(cell), Ok(figure)) => (cell - figure).abs() < 1e-9,
            _ => cell == figure,
        };
        let cells = [of("tcp", name), of("local", name)];
        assert!(near(cells[0], tcp) && near(cells[1], local), "{name}: {cells:?}");
    }
    assert!(!names.contains(&"host_drive_interrupts_per_io"), "{names:?}");
    assert!(text.lines().all(|line| line.split(',').count() == names.len()));
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_has_the_columns_of_both_hosts() {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.parquet");
    let trials = by(Transport::Tcp, 1);
    let tables = workload_tables(&study("6.18"), &trials, Admission::default());
    crate::parquet(&tables, std::fs::File::create(&path).unwrap()).unwrap();
    let reader = SerializedFileReader::new(std::fs::File::open(&path).unwrap()).unwrap();
    let row = reader.get_row_iter(None).unwrap().next().unwrap().unwrap().to_string();
    for part in ["host_cpu_system_percent: 20.0", "target_drive_interrupts_per_io: 0.5", "both_watts: null"] {
        assert!(row.contains(part), "{part} is not in {row}");
    }
}

#[test]
fn the_network_by_itself_is_a_table_without_times_under_emulation() {
    let of = |server, block, gbits: f64| NetworkBaseline {
        block,
        transport: Transport::Tcp,
        tool: "iperf 3.12".to_owned(),
        server,
        bits_per_s: Some(gbits * 1e9),
        latency_ns: Some(3260.0),
        failure: None,
    };
    let failure = Some("perftest is not installed (remedy: install it)".to_owned());
    let lacking = NetworkBaseline { transport: Transport::Rdma, failure, ..NetworkBaseline::default() };
    let networks = vec![of(HostSide::Target, 0, 45.3), of(HostSide::Target, 1, 45.5), lacking];
    let trials = by(Transport::Tcp, 1);
    let text = |study: &StudyRecord| squeezed(&report(study, &trials, Admission::default()));
    let measured = text(&StudyRecord { networks: networks.clone(), ..study("6.18") });
    for part in [
        "network by itself, before each block; means over blocks",
        "transport bytes to blocks Gb/s \u{b1} half round trip us \u{b1} by missing",
        "tcp target 2 45.40 1.3 3.260 0 iperf 3.12",
        "rdma host 1 - - - - perftest is not installed (remedy: install it)",
    ] {
        assert!(measured.contains(part), "{part:?} is not in\n{measured}");
    }
    let under_emulation = text(&StudyRecord { networks, ..emulated() });
    assert!(under_emulation.contains("tcp target 2 iperf 3.12"), "{under_emulation}");
    assert!(!under_emulation.contains("45.4") && !under_emulation.contains("3.26"), "{under_emulation}");
    assert!(!text(&study("6.18")).contains("network by itself"));
}
