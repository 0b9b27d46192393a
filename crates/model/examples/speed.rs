//! How many I/Os are simulated in a second of CPU time of one core, by how a job waits:
//! `cargo run --release -p iopj-model --example speed`.
#![expect(clippy::print_stdout, reason = "an example speaks to the terminal")]

use iopj_model::simulate::{
    Arrivals, Class, HybridSleep, KernelPoller, Scenario, Service, SimDrive, SimError, SimPath, Waiting,
    simulate,
};

const IOS: u64 = 2_000_000;

fn main() -> Result<(), SimError> {
    let poller = KernelPoller { take_ns: 300.0, post_ns: 200.0, polls_drive: true, job_polls: false };
    let kinds = [
        ("interrupt", Waiting::Interrupt),
        ("poll", Waiting::Poll),
        ("hybrid", Waiting::Hybrid(HybridSleep::Share(0.5))),
        ("kernel poller", Waiting::KernelPoller(poller)),
        ("two pollers", Waiting::KernelPoller(KernelPoller { job_polls: true, ..poller })),
    ];
    let open = Arrivals::Open { per_job_iops: 20_000.0, poisson: true, bursts: None };
    for (name, kind) in kinds {
        for (jobs, iodepth) in [(1, 1), (1, 32), (4, 8)] {
            time(&format!("{name}, closed"), scenario(kind, jobs, iodepth, Arrivals::Closed))?;
        }
        time(&format!("{name}, open"), scenario(kind, 1, 32, open.clone()))?;
    }
    let short_of_cores = |kind| Scenario { cores: 2, ..scenario(kind, 4, 8, Arrivals::Closed) };
    time("interrupt, closed, 2 cores", short_of_cores(Waiting::Interrupt))?;
    time("poll, closed, 2 cores", short_of_cores(Waiting::Poll))?;
    let large = Scenario { cores: 64, ..scenario(Waiting::Interrupt, 128, 8, Arrivals::Closed) };
    time("interrupt, closed, 64 cores", large)
}

fn time(name: &str, scenario: Scenario) -> Result<(), SimError> {
    let begin = cpu_ns();
    let result = simulate(&scenario)?;
    let rate = result.ios as f64 / (cpu_ns() - begin) * 1e3;
    let (jobs, iodepth) = (scenario.jobs, scenario.iodepth);
    println!("{name:<28} jobs {jobs:<3} iodepth {iodepth:<3} {rate:6.2} million I/Os per second of CPU");
    Ok(())
}

/// CPU time of this thread: other load on the machine does not count. 0 if the kernel does not tell.
fn cpu_ns() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or_default()
}

fn scenario(kind: Waiting, jobs: u32, iodepth: u32, arrivals: Arrivals) -> Scenario {
    let times = (0..1000).map(|at| 8e3 + 10.0 * f64::from(at)).collect();
    Scenario {
        jobs,
        iodepth,
        batch_submit: 1,
        arrivals,
        mix: vec![
            Class { share: 0.7, service: 0, submit_ns: 0.0 },
            Class { share: 0.3, service: 1, submit_ns: 0.0 },
        ],
        cores: 8,
        drive: SimDrive {
            parallelism: 16,
            service: vec![Service::equally_likely(times), Service::constant(9e3)],
        },
        path: SimPath {
            kind,
            submit_ns: 400.0,
            complete_ns: 200.0,
            gap_ns: 0.0,
            call_ns: 150.0,
            interrupt_ns: 500.0,
            wake_ns: 1000.0,
            wake_delay_ns: 1000.0,
            spin_ns: 50.0,
            instructions: None,
        },
        power: None,
        ios: IOS,
        warm_up_ios: 10_000,
        seed: 1,
    }
}
