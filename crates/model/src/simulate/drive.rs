//! The simulated drive: so many servers, first come, first served, and a cap on the rate of starts.

use super::scenario::{Scenario, Service};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A drive in service. I/Os are served in the order in which they come, so that it is known when one ends
/// once it has come: no queue is kept.
pub(super) struct Drive {
    services: Vec<Service>,
    means_ns: Vec<f64>,
    /// When each server is free, as the bits of a time, which are ordered as times are.
    free: BinaryHeap<Reverse<u64>>,
    next_start: f64,
    random: Xoshiro256PlusPlus,
}

impl Drive {
    /// The drive of a scenario, its services in the order of the mix.
    pub(super) fn new(scenario: &Scenario) -> Drive {
        let of_class = |at: u32| scenario.drive.service[at as usize].clone();
        let services: Vec<Service> = scenario.mix.iter().map(|class| of_class(class.service)).collect();
        // More servers than there can be I/Os would never work.
        let in_flight = u64::from(scenario.jobs) * u64::from(scenario.iodepth);
        let servers = in_flight.min(u64::from(scenario.drive.parallelism));
        Drive {
            means_ns: services.iter().map(Service::mean_ns).collect(),
            services,
            free: (0..servers).map(|_| Reverse(0)).collect(),
            next_start: 0.0,
            random: Xoshiro256PlusPlus::seed_from_u64(scenario.seed ^ 0x6472_6976_6500_0000),
        }
    }

    /// When an I/O of a class that comes now will have ended.
    pub(super) fn serve(&mut self, now: f64, class: u32) -> f64 {
        let service = &self.services[class as usize];
        let time = service.draw(&mut self.random);
        let Some(mut server) = self.free.peek_mut() else { return now };
        let begin = f64::from_bits(server.0).max(now).max(self.next_start);
        self.next_start = begin + service.least_gap_ns;
        server.0 = (begin + time).to_bits();
        begin + time
    }

    /// The mean time for a class.
    pub(super) fn mean_ns(&self, class: u32) -> f64 {
        self.means_ns[class as usize]
    }
}
