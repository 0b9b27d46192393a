//! Examples of each command, at the end of its help and in its manual page: a command, then what it does.

/// What the exit codes mean, and how to begin.
pub(super) const IOPJ: &str = "\
Exit codes: 0 success; 1 the study found failures; 2 usage or set-up; 130 interrupted.

Examples:
  iopj check
      Which paths work in this folder, and what the others need
  iopj run --target /dev/nvme0n1 --path available --store drive.iopj
      Measure every path that works on a drive; the drive is only read
  iopj report drive.iopj --html drive.html
      The results as one page";

pub(super) const CHECK: &str = "\
Examples:
  iopj check /dev/nvme0n1
      Which paths work on this drive, and what the others need
  iopj check --json | jq '.paths[] | select(.state == \"available\").path'
      The paths that work, for a script";

pub(super) const RUN: &str = "\
Examples:
  iopj run
      The quick study, on a file that is made here and removed
  iopj run --path libaio/syscall/interrupt,io_uring/sqpoll/poll --iodepth 1,32
      Two paths at two depths
  iopj run study.toml --target /dev/nvme0n1 --store drive.iopj
      A study file on a drive
  iopj run --resume drive.iopj
      Run the trials that an interrupted run did not reach";

pub(super) const REPORT: &str = "\
Examples:
  iopj report drive.iopj
      The results as tables
  iopj report drive.iopj --html drive.html
      The whole report with figures, as one page
  iopj report drive.iopj --csv > drive.csv
      One row for each path and workload";

pub(super) const EXPORT: &str = "\
Examples:
  iopj export drive.iopj --csv > trials.csv
      One row for each trial
  iopj export drive.iopj --json | jq '.trials[].evidence'
      What was seen while each trial ran";

pub(super) const WINNERS: &str = "\
Examples:
  iopj winners drive.iopj
      The path with the most IOPS at each depth and number of jobs
  iopj winners drive.iopj --metric latency_p99 --axes iodepth,bs
      The path with the lowest p99 latency at each depth and block size
  iopj winners drive.iopj --metric ios_per_joule
      The path that does the most I/Os per joule";

pub(super) const FLEET_GATHER: &str = "\
Examples:
  iopj fleet gather nightly.fleet/stores --to dataset
      All stores below that folder, as Parquet; again, it reads only what is new or has changed
  duckdb -c \"SELECT path, avg(iops) FROM 'dataset/trials/*/*/*/*.parquet' WHERE competes GROUP BY path\"
      Ask it; queries/ in iopj's sources has more questions";

pub(super) const FLEET_REPORT: &str = "\
Examples:
  iopj fleet report dataset --html fleet.html
      Winners, outliers, drift and policies by kind of machine, as one page
  iopj fleet report dataset --policies policies
      The policy of each kind of machine as a file that iopj's adaptive engine follows";

pub(super) const POLICY_DERIVE: &str = "\
Examples:
  iopj policy derive drive.iopj --objective cpu --p99 200us --output drive.toml
      The ways with the least CPU time within a latency bound, for each operation, size and depth
  iopj policy derive drive.iopj
      The policy for the least latency, on standard output";

pub(super) const POLICY_SHOW: &str = "\
Examples:
  iopj policy show drive.toml
      Which way it takes for each operation, size and depth";

pub(super) const POLICY_CHECK: &str = "\
Examples:
  iopj policy check drive.toml --target /dev/nvme0n1
      What it would do on this drive, and which ways it lacks here
  iopj policy check drive.toml --target /dev/nvme0n1 --take-device 0000:01:00.0
      The same on the drive taken from its driver, which is given back";

pub(super) const POLICY_SCORE: &str = "\
Examples:
  iopj policy score auto.iopj
      Each path that chooses against the best static path of its cell, by the study's own thresholds";

pub(super) const POLICY_SIMULATE: &str = "\
Examples:
  iopj policy simulate
      Regret against the best static way, by aim, program and drive, and whether the thresholds hold
  iopj policy simulate --seed 2 --cells 12000
      Other machines, and more of them
  iopj policy simulate --latencies drive.iopj --read-iolog program.log
      Also machines with the drive of a store, and with the program of a trace";

pub(super) const PREDICT: &str = "\
Examples:
  iopj predict drive.iopj --iodepth 1,64 --numjobs 8
      Rates, latencies and CPU time at depths and with jobs that were not measured
  iopj predict drive.iopj --drive read=8us,parallelism=7 --path '*/poll','*/interrupt'
      The same paths on a drive that is known by its data sheet
  iopj predict drive.iopj --trace prn_0.csv --iodepth 32
      What each path does under a trace
  iopj predict drive.iopj --against drive.iopj
      How good such predictions are: each cell from the other cells
  iopj predict --published
      The model against the figures that the papers print";

pub(super) const ADVISE: &str = "\
Examples:
  iopj advise drive.iopj
      The path that takes the least energy at each load, or else the least CPU time, and what to type for it
  iopj advise drive.iopj --rate 40k --p99 200us
      The same at 40,000 I/Os per second, of the paths whose p99 latency stays within 200 us
  iopj advise drive.iopj --rate 40k --p99 200us --write-study next.toml
      Write the study that measures what the store leaves open, for iopj run next.toml

Exit code 1 if no path can be chosen at any load asked for.";

pub(super) const CLAIMS: &str = "\
Examples:
  iopj claims drive.iopj
      Which findings of the papers hold on this drive";

pub(super) const COMPARE: &str = "\
Examples:
  iopj compare before.iopj after.iopj
      What changed from one kernel, drive or version to another
  iopj compare drive.iopj --by io_poll_delay=-1,0
      What a setting changes, within one store
  iopj compare before.iopj after.iopj --fail-on-regression 5
      A gate: exit code 1 if anything got worse by more than 5 %
  iopj compare before.iopj after.iopj --ignore ramp_time
      Match cells whose ramp_time differs";

pub(super) const EXPLAIN: &str = "\
Examples:
  iopj explain drive.iopj
      The kernel functions in which each path spends its instructions
  iopj explain drive.iopj --path posix-sio/syscall/interrupt,posix-sio/syscall/poll
      What polling saves, and what it costs";

pub(super) const IMPORT: &str = "\
Examples:
  iopj import fio result.json --store fio.iopj
      Make a store from fio's results, for iopj report";

pub(super) const RESTORE: &str = "\
Examples:
  iopj restore
      Restore the settings that a killed run left changed";

pub(super) const WATCH: &str = "\
Examples:
  iopj watch -- fio job.fio
      Run fio, and show which paths its I/O takes and what an I/O costs, every second and in the end
  iopj watch --pid 1234 --for 30s --store db.iopj
      Watch a process that runs, and keep what was seen; show it again by `iopj report db.iopj`
  iopj watch --device /dev/nvme0n1 --json
      Watch a whole disk, whoever uses it
  iopj watch --cgroup system.slice/postgresql.service --listen 9187
      Serve the figures of a service to Prometheus on 127.0.0.1:9187";

pub(super) const AGENT: &str = "\
Examples:
  iopj agent >/dev/ttyS1 </dev/ttyS1
      Serve a run at the other end of a serial line; over ssh, `iopj run` starts the agent itself";

pub(super) const LAB_KERNELS: &str = "\
Examples:
  iopj lab kernels
      The kernels on offer
  iopj lab kernels 5.10 6.1
      Fetch two of them";

pub(super) const LAB_RUN: &str = "\
Examples:
  iopj lab run study.toml --kernel 6.1
      Run a study in a guest with an emulated drive
  iopj lab run study.toml --kernel 6.1 --exact
      Count every instruction, for iopj explain";

pub(super) const LAB_SHELL: &str = "\
Examples:
  iopj lab shell --kernel 5.10
      A shell in a guest with an emulated drive";

pub(super) const LAB_CLEAN: &str = "\
Examples:
  iopj lab clean
      Stop and remove what dead guests left behind";

pub(super) const METER_LIST: &str = "\
Examples:
  iopj meter list
      The meters of this machine, and why others are missing";

pub(super) const METER_TEST: &str = "\
Examples:
  iopj meter test study.toml
      Read each meter of a study five times before the run";

pub(super) const METER_ATTACH: &str = "\
Examples:
  iopj meter attach drive.iopj logger.csv
      Add a logger's joules to the trials of a store";

pub(super) const METER_FIT: &str = "\
Examples:
  iopj meter fit drive.iopj -o model.toml
      A power model, for machines like this one that have no meter";

pub(super) const MAN: &str = "\
Examples:
  iopj man ~/.local/share/man/man1
      Install the manual pages; then: man iopj-run";

pub(super) const COMPLETIONS: &str = "\
Examples:
  iopj completions bash > ~/.local/share/bash-completion/completions/iopj
      Install the completions for bash
  iopj completions zsh > ~/.zfunc/_iopj
      For zsh, with ~/.zfunc in fpath
  iopj completions fish > ~/.config/fish/completions/iopj.fish
      For fish";

pub(super) const FLEET_SUBMIT: &str = "\
Exit codes: 0 every host measured the study, 1 a host did not or trials failed, 2 usage or set-up error

Examples:
  iopj fleet submit study.toml --ssh hosts.txt --parallel 16 --push
      Run a study on the hosts of a list, 16 at a time, with this iopj
  iopj fleet submit writes.toml --ssh n1,n2 --target /dev/nvme0n1 --serials drives.txt --destroy-data
      Write to the drives whose serial numbers are listed, and to no other
  iopj fleet submit study.toml --slurm --nodes 40 --constraint nvme --dir /shared/quick.fleet
      Run it on 40 nodes of a Slurm cluster, as a job array
  iopj fleet submit study.toml --kubernetes --daemonset --image registry.example/iopj --manifest-only
      Write the manifest that would run it on every node";

pub(super) const FLEET_STATUS: &str = "\
Exit codes: 0 no host failed so far, 1 a host failed, 2 usage or set-up error

Examples:
  iopj fleet status quick.fleet
      What has become of each host";

pub(super) const FLEET_FETCH: &str = "\
Examples:
  iopj fleet fetch quick.fleet
      Fetch the stores that are not fetched yet into quick.fleet/stores, also of studies that run";

pub(super) const FLEET_CANCEL: &str = "\
Examples:
  iopj fleet cancel quick.fleet
      End all jobs; each puts its host's settings back";
