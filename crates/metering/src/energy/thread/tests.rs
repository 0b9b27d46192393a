use super::super::config::ClockChoice;
use super::*;
use iopj_meter::{ChannelKind, Scope, Value, monotonic_raw_ns};

/// A meter that follows a script, one word per reading: `ok`, `retry`, `hang`, `panic`, `fatal`, `end`;
/// then `ok` for good. It has a counter too, as plugs do, which stands still and gives no value.
struct Scripted(std::slice::Iter<'static, &'static str>, Vec<Channel>);

impl Meter for Scripted {
    fn channels(&self) -> &[Channel] {
        &self.1
    }

    fn read(&mut self, out: &mut Vec<Reading>) -> Result<(), MeterError> {
        match self.0.next().copied().unwrap_or("ok") {
            "retry" => return Err(MeterError::Retry("busy".to_owned())),
            "fatal" => return Err(MeterError::Fatal("gone".to_owned())),
            "hang" => loop {
                std::thread::park();
            },
            "panic" => panic!("as scripted"),
            "end" => return Err(MeterError::Ended),
            _ => {}
        }
        let now_ns = monotonic_raw_ns();
        let value = Value::Watts(10.0);
        out.push(Reading { channel: 0, value, begin_ns: now_ns, end_ns: now_ns, wall_ns: 0, own_ns: None });
        Ok(())
    }
}

struct Script(&'static [&'static str]);

impl OpenMeter for Script {
    fn open(&self, _: iopj_core::Allow) -> Result<Box<dyn Meter>, OpenError> {
        if self.0 == ["refuse"] {
            return Err(OpenError("it is not there: plug it in".to_owned()));
        }
        let power = Channel::new("power", Scope::System, ChannelKind::Instant);
        let count = ChannelKind::Counter { joules_per_count: 60.0, wrap: None };
        let energy = Channel::new("energy", Scope::System, count);
        let energy = Channel { parent: Some("power".to_owned()), ..energy };
        Ok(Box::new(Scripted(self.0.iter(), vec![power, energy])))
    }
}

fn spec() -> MeterSpec {
    let ms = Duration::from_millis;
    MeterSpec {
        name: "test".to_owned(),
        kind: "test",
        interval: ms(10),
        clock: ClockChoice::Host,
        age: Duration::ZERO,
        bridge: ms(30),
    }
}

pub(in super::super) fn start(script: &'static [&'static str]) -> Result<RunningMeter, OpenError> {
    OpeningMeter::start(spec(), Box::new(Script(script)), iopj_core::Allow::NOTHING)?
        .open(&AtomicBool::new(false))
}

/// Readings and notices, taken until there is what is waited for, or for five minutes.
fn until(running: &mut RunningMeter, enough: impl Fn(usize, &[String]) -> bool) -> (usize, Vec<String>) {
    let (mut count, mut notices) = (0, Vec::new());
    for _ in 0..30_000 {
        let (readings, more) = running.take();
        count += readings.len();
        notices.extend(more);
        if enough(count, &notices) {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    (count, notices)
}

#[test]
fn a_meter_is_read_on_a_thread_that_the_probe_leaves_out() {
    let mut running = start(&[]).unwrap();
    assert_eq!(running.channels[0].name, "power");
    let (count, notices) = until(&mut running, |count, _| count >= 5);
    assert!(count >= 5 && notices.is_empty());
    assert!(own_threads().len() >= 2);
    let cost = running.stop();
    assert!(cost.readings >= 5 && cost.cpu > Duration::ZERO && cost.cpu < cost.elapsed, "{cost:?}");
}

/// A session of a BMC's stayed open when Ctrl-C came while the meter opened.
#[test]
fn a_meter_that_opens_as_the_user_ends_the_program_is_closed() {
    struct Closes(Scripted, Arc<AtomicBool>);
    impl Meter for Closes {
        fn channels(&self) -> &[Channel] {
            self.0.channels()
        }
        fn read(&mut self, out: &mut Vec<Reading>) -> Result<(), MeterError> {
            self.0.read(out)
        }
    }
    impl Drop for Closes {
        fn drop(&mut self) {
            self.1.store(true, Ordering::SeqCst);
        }
    }
    struct Slow(Arc<AtomicBool>);
    impl OpenMeter for Slow {
        fn open(&self, _: iopj_core::Allow) -> Result<Box<dyn Meter>, OpenError> {
            std::thread::sleep(4 * LOOK);
            let power = Channel::new("power", Scope::System, ChannelKind::Instant);
            Ok(Box::new(Closes(Scripted([].iter(), vec![power]), Arc::clone(&self.0))))
        }
    }
    let is_closed = Arc::new(AtomicBool::new(false));
    let source = Box::new(Slow(Arc::clone(&is_closed)));
    let opening = OpeningMeter::start(spec(), source, iopj_core::Allow::NOTHING).unwrap();
    let error = opening.open(&AtomicBool::new(true)).err().unwrap();
    assert!(error.0.contains("interrupted") && is_closed.load(Ordering::SeqCst), "{error:?}");
}

/// It counted as a thread that does I/O.
#[test]
fn the_thread_that_serves_metrics_is_left_out_too() {
    let server = metrics::MetricsServer::start("0", metrics::MetricsText::default()).unwrap();
    // It names itself before it answers.
    let mut connection = std::net::TcpStream::connect(server.address()).unwrap();
    std::io::Write::write_all(&mut connection, b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    std::io::copy(&mut connection, &mut std::io::sink()).unwrap();
    let is_it = |tid: &i32| {
        let name = std::fs::read_to_string(format!("/proc/self/task/{tid}/comm"));
        name.is_ok_and(|name| name.trim_end() == metrics::THREAD_NAME)
    };
    assert!(own_threads().iter().any(is_it), "{:?}", own_threads());
}

/// The counter of a plug hid its power: the cadence of the last of several channels was taken.
#[test]
fn only_the_channels_that_give_joules_have_a_cadence() {
    let mut running = start(&[]).unwrap();
    until(&mut running, |count, _| count >= 3);
    let kinds: Vec<ChannelKind> = running.cadences().iter().map(|cadence| cadence.kind).collect();
    assert_eq!(kinds, [ChannelKind::Instant]);
}

#[test]
fn a_meter_that_fails_is_tried_again_and_both_are_reported_once() {
    let mut running = start(&["ok", "retry", "retry", "retry", "retry", "ok"]).unwrap();
    let (count, notices) = until(&mut running, |_, notices| notices.len() >= 2);
    assert_eq!(notices, ["gives no readings, and is tried again: busy", "gives readings again"]);
    assert!(count >= 2);
    let single = start(&["ok", "retry", "ok", "retry", "retry"]).unwrap();
    let (_, notices) = until(&mut { single }, |count, _| count >= 5);
    assert!(notices.is_empty(), "{notices:?}");
}

#[test]
fn a_meter_that_ends_is_reported_and_its_readings_stay() {
    for (script, words) in [
        (&["ok", "fatal"][..], "gives no more readings: gone"),
        (&["ok", "end"], "gives no more readings: the meter has ended"),
        (&["ok", "panic"], "gives no more readings: it ended by a panic: report it"),
    ] {
        let mut running = start(script).unwrap();
        let (count, notices) = until(&mut running, |_, notices| !notices.is_empty());
        assert_eq!((count, notices), (1, vec![words.to_owned()]));
        running.stop();
    }
}

#[test]
fn a_meter_that_hangs_holds_up_nobody() {
    let mut running = start(&["ok", "hang"]).unwrap();
    assert_eq!(until(&mut running, |count, _| count == 1).0, 1);
    // The thread is left behind: whoever waited for it would wait for good.
    running.stop();
    drop(running);
}

#[test]
fn a_meter_that_cannot_be_opened_says_why() {
    assert_eq!(start(&["refuse"]).err().unwrap().to_string(), "it is not there: plug it in");
}

/// A meter that opens but cannot be read was found out once the target was made, and only as a notice.
#[test]
fn a_meter_that_gives_no_first_reading_says_why() {
    let first = |script| start(script).unwrap().first_reading(&AtomicBool::new(false));
    assert_eq!(first(&[]), Ok(()));
    assert_eq!(first(&["retry", "retry", "ok"]), Ok(()));
    for (script, words) in [
        (&["retry", "retry", "retry"][..], "busy"),
        (&["fatal"], "gone"),
        (&["end"], "the meter has ended"),
        (&["panic"], "it ended by a panic: report it"),
    ] {
        assert_eq!(first(script).unwrap_err().to_string(), words);
    }
    let interrupted = start(&["hang"]).unwrap().first_reading(&AtomicBool::new(true));
    assert!(interrupted.unwrap_err().to_string().contains("interrupted"));
}

#[test]
fn attempts_grow_apart_up_to_a_limit() {
    let ms = Duration::from_millis;
    assert_eq!(
        [0, 1, 3, 40].map(|failures| back_off(ms(100), failures)),
        [ms(100), ms(200), ms(800), ms(10_000)]
    );
    assert_eq!(back_off(ms(60_000), 5), ms(60_000));
}
