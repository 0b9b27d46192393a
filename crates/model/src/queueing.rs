//! Closed formulas of queueing: mean waiting times, and rates of closed loops. Times, and the inverse of
//! rates, may be in any unit, the same throughout.
//!
//! Sources: L. Kleinrock, Queueing Systems, volume 1 (Wiley, 1975), sections 3.5 (M/M/m), 3.9 (finite
//! population) and 5.6 (M/G/1); P. J. Denning and J. P. Buzen, The Operational Analysis of Queueing Network
//! Models (ACM Computing Surveys 10(3), 1978) for the bound.

/// The share of arrivals that find all of `servers` busy and wait, by Erlang's C formula, for exponential
/// times between arrivals and in service. `load` is the arrival rate times the mean service time: the servers
/// that are busy on average. `None` unless it is positive and below `servers`.
pub(crate) fn erlang_c(servers: u32, load: f64) -> Option<f64> {
    let servers_f = f64::from(servers);
    if !(load > 0.0 && load < servers_f) {
        return None;
    }
    // Erlang's B formula by its recursion over the servers, which neither overflows nor cancels.
    let lost = (1..=servers).fold(1.0, |lost, server| load * lost / (f64::from(server) + load * lost));
    Some(lost * servers_f / (servers_f - load * (1.0 - lost)))
}

/// The mean time that an arrival waits for one of `servers`, before its service (M/M/c). `None` unless the
/// servers can keep up.
pub(crate) fn mmc_wait(servers: u32, rate: f64, service: f64) -> Option<f64> {
    let load = rate * service;
    Some(erlang_c(servers, load)? * service / (f64::from(servers) - load))
}

/// The mean time that an arrival waits for one server whose service times have this mean and this mean square
/// (M/G/1, the formula of Pollaczek and Khinchine). `None` unless the server can keep up.
pub(crate) fn mg1_wait(rate: f64, service: f64, mean_square: f64) -> Option<f64> {
    let load = rate * service;
    (load > 0.0 && load < 1.0 && mean_square >= service * service)
        .then(|| rate * mean_square / (2.0 * (1.0 - load)))
}

/// The same where all service times are alike (M/D/1): half of what it is for exponential ones.
pub(crate) fn md1_wait(rate: f64, service: f64) -> Option<f64> {
    mg1_wait(rate, service, service * service)
}

/// The rate of a closed loop: `jobs` that each think for a mean time, whatever its distribution, then wait
/// for one of `servers` with exponential service times (the machine repairman, M/M/c//N). `None` unless there
/// are jobs, servers and a service time.
pub(crate) fn closed_rate(jobs: u32, think: f64, servers: u32, service: f64) -> Option<f64> {
    if jobs == 0 || servers == 0 || !(service > 0.0 && service.is_finite() && think >= 0.0) {
        return None;
    }
    // The probabilities of 0, 1, ... jobs at the servers, up to a factor: each follows from the one before by
    // the balance of the rates between them. Division keeps their sum finite.
    let (mut weight, mut sum, mut busy) = (1.0, 1.0, 0.0);
    for at_servers in 1..=jobs {
        let working = f64::from(at_servers.min(servers));
        let thinking = f64::from(jobs - at_servers + 1);
        if think > 0.0 {
            weight *= thinking * service / (think * working);
            (sum, busy) = (sum + weight, busy + weight * working);
        } else {
            // Nobody thinks: all are always at the servers.
            (sum, busy) = (1.0, working);
        }
        if sum > 1e100 {
            (weight, sum, busy) = (weight / sum, 1.0, busy / sum);
        }
    }
    Some(busy / sum / service)
}

/// The rate that a closed loop cannot exceed, whatever the distributions: `jobs` over the time of one round
/// alone, or all `servers` busy.
pub(crate) fn closed_rate_bound(jobs: u32, think: f64, servers: u32, service: f64) -> f64 {
    (f64::from(jobs) / (think + service)).min(f64::from(servers) / service)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn is(value: Option<f64>, expected: f64) {
        let value = value.unwrap();
        assert!((value - expected).abs() < 1e-9 * expected.abs().max(1.0), "{value} is not {expected}");
    }

    #[test]
    fn waiting_times_are_those_that_are_known() {
        // One server: the load waits; two servers at load 1: a third, 1/3 of a service time.
        is(erlang_c(1, 0.7), 0.7);
        is(erlang_c(2, 1.0), 1.0 / 3.0);
        is(mmc_wait(2, 1.0, 1.0), 1.0 / 3.0);
        is(mmc_wait(1, 0.008, 100.0), 400.0);
        // From the definition: a^c/c! c/(c-a) over the sum of a^k/k! and that, for a = 4 and c = 5.
        let last: f64 = 1024.0 / 120.0 * 5.0;
        let sum = 1.0 + 4.0 + 8.0 + 64.0 / 6.0 + 256.0 / 24.0;
        is(erlang_c(5, 4.0), last / (sum + last));
        // Half as long for constant times, as long for exponential ones.
        is(md1_wait(0.008, 100.0), 200.0);
        is(mg1_wait(0.008, 100.0, 20_000.0), 400.0);
        assert!(erlang_c(4000, 3990.0).unwrap() < 1.0);
    }

    #[test]
    fn a_queue_that_cannot_keep_up_has_no_mean() {
        for (servers, load) in [(0, 0.5), (1, 1.0), (2, 2.5), (1, 0.0), (1, f64::NAN)] {
            assert_eq!(erlang_c(servers, load), None, "{servers} {load}");
        }
        assert_eq!((md1_wait(1.0, 1.0), mmc_wait(1, 2.0, 1.0)), (None, None));
        assert_eq!(mg1_wait(0.5, 1.0, 0.9), None, "a mean square below the square of the mean");
    }

    #[test]
    fn closed_rates_are_those_that_are_known() {
        // One job: a round takes think and service. As many servers as jobs: nobody waits.
        is(closed_rate(1, 30.0, 1, 10.0), 1.0 / 40.0);
        is(closed_rate(7, 30.0, 7, 10.0), 7.0 / 40.0);
        // Two jobs, think = service, one server: weights 1, 2, 2, so that it is busy for 4/5.
        is(closed_rate(2, 10.0, 1, 10.0), 0.08);
        is(closed_rate(3, 0.0, 2, 10.0), 0.2);
        is(closed_rate(1_000_000, 1e6, 1, 10.0), 0.1);
        assert_eq!([closed_rate(0, 1.0, 1, 1.0), closed_rate(1, 1.0, 0, 1.0)], [None; 2]);
        assert_eq!([closed_rate(1, 1.0, 1, 0.0), closed_rate(1, f64::NAN, 1, 1.0)], [None; 2]);
    }

    proptest! {
        #[test]
        fn closed_rates_are_within_their_bounds(
            jobs in 1u32..200, think in 0.0f64..1e3, servers in 1u32..64, service in 0.01f64..1e3,
        ) {
            let rate = closed_rate(jobs, think, servers, service).unwrap();
            let bound = closed_rate_bound(jobs, think, servers, service);
            prop_assert!(rate > 0.0 && rate <= bound * (1.0 + 1e-9), "{rate} {bound}");
        }
    }
}
