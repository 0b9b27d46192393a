//! The network between the two hosts by itself, before a block: which program measures it, on both sides of
//! the connection.

use super::ask::{Ask, AskNetwork, Program};
use super::side::{FabricSide, own_address};
use crate::error::RunError;
use iopj_core::Transport;
use iopj_core::fabric::{HostSide, NetworkBaseline};
use iopj_fabric::FabricError;
use iopj_fabric::network::{self, Listener, NetworkError, Serving, Test, Token};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A server needs a moment before it listens: so often its client tries, this far apart.
const TRIES: u32 = 8;
const AGAIN: Duration = Duration::from_millis(300);

impl Program {
    fn name(self) -> &'static str {
        match self {
            Program::Iperf3 => "iperf3",
            Program::IbSendLat => "ib_send_lat",
            Program::IbSendBw => "ib_send_bw",
        }
    }

    /// Its arguments; `server` is the address that its client connects to.
    fn arguments(self, server: Option<IpAddr>, at: SocketAddr, reversed: bool) -> Vec<String> {
        let mut line = match (self, server) {
            (Program::Iperf3, None) => format!("-s -1 -B {}", at.ip()),
            (Program::Iperf3, Some(to)) => format!("-c {to} -t {} --json", network::STREAM.as_secs()),
            (Program::IbSendLat, _) => "-R -F".to_owned(),
            (Program::IbSendBw, _) => "-R -F --report_gbits".to_owned(),
        };
        line += &format!(" -p {}", at.port());
        line += match self {
            Program::Iperf3 if reversed && server.is_some() => " -R",
            Program::IbSendBw if reversed => " --reversed",
            _ => "",
        };
        if let (Program::IbSendLat | Program::IbSendBw, Some(to)) = (self, server) {
            line += &format!(" {to}");
        }
        line.split(' ').map(str::to_owned).collect()
    }
}

/// The target host's side. Dropped, nothing of it listens any more.
#[derive(Debug, Default)]
pub(crate) struct NetworkHere {
    listening: Option<JoinHandle<Result<Option<f64>, NetworkError>>>,
    serving: Option<Serving>,
    stop: Arc<AtomicBool>,
}

impl NetworkHere {
    /// Answers a question.
    ///
    /// # Errors
    /// What is asked for cannot be done here.
    pub(crate) fn answer(&mut self, ask: AskNetwork) -> Result<Value, RunError> {
        let refused = |error: NetworkError| RunError::Refused(error.0);
        match ask {
            AskNetwork::Has(program) => Ok(network::find(program.name()).is_some().into()),
            AskNetwork::Listen { address, peer, token } => {
                let listener = Listener::bind(address, peer, token).map_err(refused)?;
                let port = listener
                    .port()
                    .map_err(|error| RunError::Refused(format!("a port has no number ({error})")))?;
                let stop = Arc::clone(&self.stop);
                self.listening = Some(thread::spawn(move || listener.serve(&stop)));
                Ok(port.into())
            }
            AskNetwork::Counted => {
                let none = || RunError::Refused("nothing listens there".to_owned());
                let counted = self.listening.take().ok_or_else(none)?.join().map_err(|_| none())?;
                Ok(counted.map_err(refused)?.into())
            }
            AskNetwork::Serve { program, address, is_reversed } => {
                let port = network::free_port(address).map_err(refused)?;
                let arguments = program.arguments(None, SocketAddr::new(address, port), is_reversed);
                self.serving = Some(Serving::start(program.name(), &arguments).map_err(refused)?);
                Ok(port.into())
            }
            AskNetwork::Ended => {
                self.serving = None;
                Ok(Value::Null)
            }
        }
    }
}

impl Drop for NetworkHere {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Asks the target host.
type AskThere<'a> = dyn Fn(AskNetwork) -> Result<Value, FabricError> + 'a;

/// This host's side: measures the network to an address of the target host.
pub(crate) struct Network<'a> {
    pub(crate) ask: &'a AskThere<'a>,
    /// The target host in messages.
    pub(crate) host: String,
    pub(crate) address: IpAddr,
    /// This host's own address on the way there.
    pub(crate) own: IpAddr,
    pub(crate) stop: &'a AtomicBool,
}

impl Network<'_> {
    /// What carries this transport, by itself.
    pub(crate) fn measure(&self, block: u32, transport: Transport) -> Vec<NetworkBaseline> {
        let mut measured = match transport {
            Transport::Rdma => self.by_perftest(),
            _ => self.by_tcp(),
        };
        measured.iter_mut().for_each(|one| (one.block, one.transport) = (block, transport));
        measured
    }

    fn by_tcp(&self) -> Vec<NetworkBaseline> {
        let mut all = vec![self.own(Test::PingPong, HostSide::Target)];
        let has_iperf = network::find(Program::Iperf3.name()).is_some() && self.has(Program::Iperf3);
        for (test, to) in [(Test::Send, HostSide::Target), (Test::Receive, HostSide::Host)] {
            all.push(if has_iperf { self.iperf3(to) } else { self.own(test, to) });
        }
        all
    }

    fn has(&self, program: Program) -> bool {
        self.there(AskNetwork::Has(program)).unwrap_or_default()
    }

    /// An answer of the target host.
    fn there<R: DeserializeOwned>(&self, ask: AskNetwork) -> Result<R, NetworkError> {
        let value = (self.ask)(ask).map_err(|error| NetworkError(error.to_string()))?;
        serde_json::from_value(value)
            .map_err(|error| NetworkError(format!("{}: an answer of another iopj: {error}", self.host)))
    }

    /// A test of our own whose bytes go `to` a host.
    fn own(&self, test: Test, to: HostSide) -> NetworkBaseline {
        let measured = (|| {
            let token = Token::random()
                .map_err(|error| NetworkError(format!("the kernel gives no random bytes ({error})")))?;
            let (address, peer) = (self.address, self.own);
            let port = self.there(AskNetwork::Listen { address, peer, token: token.clone() })?;
            let here = network::run(SocketAddr::new(address, port), &token, test, self.stop);
            // The listener is waited for even if this side failed: the next test begins without it.
            let there = self.there::<Option<f64>>(AskNetwork::Counted);
            let value = here?.or(there?);
            value.ok_or_else(|| NetworkError(format!("{}: nothing was counted", self.host)))
        })();
        let tool = concat!("iopj ", env!("CARGO_PKG_VERSION")).to_owned();
        let baseline = NetworkBaseline { tool, server: to, ..NetworkBaseline::default() };
        match (test, measured) {
            (Test::PingPong, Ok(value)) => NetworkBaseline { latency_ns: Some(value), ..baseline },
            (_, Ok(value)) => NetworkBaseline { bits_per_s: Some(value), ..baseline },
            (_, Err(NetworkError(why))) => NetworkBaseline { failure: Some(why), ..baseline },
        }
    }

    fn iperf3(&self, to: HostSide) -> NetworkBaseline {
        let stream = self.by(Program::Iperf3, to, network::iperf3);
        let baseline = NetworkBaseline { server: to, ..NetworkBaseline::default() };
        match stream {
            Ok(stream) => {
                NetworkBaseline { tool: stream.version, bits_per_s: Some(stream.bits_per_s), ..baseline }
            }
            Err(NetworkError(why)) => {
                NetworkBaseline { tool: "iperf 3".to_owned(), failure: Some(why), ..baseline }
            }
        }
    }

    fn by_perftest(&self) -> Vec<NetworkBaseline> {
        let baseline = NetworkBaseline { tool: "perftest".to_owned(), ..NetworkBaseline::default() };
        for program in [Program::IbSendLat, Program::IbSendBw] {
            let lacks = match (network::find(program.name()), self.has(program)) {
                (Some(_), true) => continue,
                (None, _) => "this host",
                (_, false) => self.host.as_str(),
            };
            let why = format!("{} is not on {lacks}: install the package perftest there", program.name());
            return vec![NetworkBaseline { server: HostSide::Target, failure: Some(why), ..baseline }];
        }
        let version = network::output(Program::IbSendLat.name(), &["--version".to_owned()], self.stop);
        let tool = network::version(&version.map(|ended| ended.text).unwrap_or_default());
        let of = |to, measured: Result<f64, NetworkError>, is_latency: bool| {
            let mut one = NetworkBaseline { tool: tool.clone(), server: to, ..NetworkBaseline::default() };
            match measured {
                Ok(value) if is_latency => one.latency_ns = Some(value),
                Ok(value) => one.bits_per_s = Some(value),
                Err(NetworkError(why)) => one.failure = Some(why),
            }
            one
        };
        let latency = self.by(Program::IbSendLat, HostSide::Target, network::latency_ns);
        let rate = |to| of(to, self.by(Program::IbSendBw, to, network::bits_per_s), false);
        vec![of(HostSide::Target, latency, true), rate(HostSide::Target), rate(HostSide::Host)]
    }

    /// Measures by a program whose server runs on the target host.
    fn by<T>(
        &self,
        program: Program,
        to: HostSide,
        read: impl Fn(&str) -> Result<T, NetworkError>,
    ) -> Result<T, NetworkError> {
        let (address, is_reversed) = (self.address, to == HostSide::Host);
        let port = self.there(AskNetwork::Serve { program, address, is_reversed })?;
        let arguments = program.arguments(Some(address), SocketAddr::new(address, port), is_reversed);
        let mut tries = 0;
        let measured = loop {
            let ended = network::output(program.name(), &arguments, self.stop);
            let measured = ended.and_then(|ended| read(&ended.text));
            tries += 1;
            if measured.is_ok() || tries == TRIES || self.stop.load(Ordering::Relaxed) {
                break measured;
            }
            thread::sleep(AGAIN);
        };
        self.there::<()>(AskNetwork::Ended)?;
        measured
    }
}

impl FabricSide {
    /// The network by itself before a block, if the study asks for it and this block has not begun yet: what
    /// carries each transport over a wire.
    ///
    /// # Errors
    /// The study's table cannot be read.
    pub(crate) fn baselines(
        &mut self,
        block: u32,
        stop: &AtomicBool,
    ) -> Result<Vec<NetworkBaseline>, RunError> {
        if !self.keys.baseline || self.measured_block.replace(block) == Some(block) {
            return Ok(Vec::new());
        }
        let mut transports: Vec<Transport> = self.keys.cells()?.iter().map(|cell| cell.transport).collect();
        transports.retain(|transport| transport.is_remote());
        transports.sort_unstable();
        transports.dedup();
        let Some((address, own)) = self.keys.address()?.and_then(|to| Some((to, own_address(to)?))) else {
            return Ok(Vec::new());
        };
        let side = &*self;
        let ask = |ask: AskNetwork| Ok(side.ask::<Value>(&Ask::Network(ask))?.unwrap_or_default());
        let network = Network { ask: &ask, host: side.host_name(), address, own, stop };
        Ok(transports.into_iter().flat_map(|transport| network.measure(block, transport)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::net::Ipv4Addr;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    /// Both sides on this machine, over its loopback; `has` are the programs that the other side says it has.
    fn measured(transport: Transport, address: IpAddr, has: bool) -> Vec<NetworkBaseline> {
        let there = RefCell::new(NetworkHere::default());
        let ask = |ask: AskNetwork| {
            let text = serde_json::to_string(&ask).unwrap();
            match serde_json::from_str(&text).unwrap() {
                AskNetwork::Has(_) => Ok(has.into()),
                ask => there.borrow_mut().answer(ask).map_err(|error| FabricError::Refused {
                    host: "storage1".to_owned(),
                    reason: error.to_string(),
                }),
            }
        };
        let stop = AtomicBool::new(false);
        let network = Network { ask: &ask, host: "storage1".to_owned(), address, own: HERE, stop: &stop };
        network.measure(3, transport)
    }

    #[test]
    fn tcp_is_measured_by_our_own_test_where_a_host_lacks_iperf3() {
        let measured = measured(Transport::Tcp, HERE, false);
        let which: Vec<(HostSide, bool, bool)> = measured
            .iter()
            .map(|one| (one.server, one.latency_ns.is_some(), one.bits_per_s.is_some()))
            .collect();
        assert_eq!(
            which,
            [(HostSide::Target, true, false), (HostSide::Target, false, true), (HostSide::Host, false, true)],
            "{measured:?}"
        );
        for one in &measured {
            assert_eq!((one.block, one.transport, one.failure.as_deref()), (3, Transport::Tcp, None));
            assert!(one.tool.starts_with("iopj ") && one.latency_ns.or(one.bits_per_s) > Some(0.0));
        }
    }

    #[test]
    fn an_address_that_is_none_of_the_target_host_is_a_failure_that_names_it() {
        let measured = measured(Transport::Tcp, IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), false);
        for one in &measured {
            let why = one.failure.as_deref().unwrap();
            assert!(why.starts_with("storage1: cannot listen on 192.0.2.1 ("), "{why}");
            assert_eq!((one.latency_ns, one.bits_per_s), (None, None));
        }
    }

    #[test]
    fn rdma_without_perftest_is_one_failure_that_names_the_package() {
        let [one] = &measured(Transport::Rdma, HERE, false)[..] else { panic!() };
        let why = one.failure.as_deref().unwrap();
        assert!(why.starts_with("ib_send_lat is not on "), "{why}");
        assert!(why.ends_with(": install the package perftest there"), "{why}");
    }

    #[test]
    fn both_sides_of_a_program_agree_on_port_and_direction() {
        let line = |program: Program, to, reversed| {
            program.arguments(to, SocketAddr::new(HERE, 7), reversed).join(" ")
        };
        assert_eq!(line(Program::Iperf3, None, true), "-s -1 -B 127.0.0.1 -p 7");
        assert_eq!(line(Program::Iperf3, Some(HERE), true), "-c 127.0.0.1 -t 2 --json -p 7 -R");
        assert_eq!(line(Program::Iperf3, Some(HERE), false), "-c 127.0.0.1 -t 2 --json -p 7");
        assert_eq!(line(Program::IbSendLat, Some(HERE), false), "-R -F -p 7 127.0.0.1");
        assert_eq!(line(Program::IbSendBw, None, true), "-R -F --report_gbits -p 7 --reversed");
    }
}
