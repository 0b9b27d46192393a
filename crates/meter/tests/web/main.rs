//! The meters of the network against real servers: right values, faults, restarts, certificates, and no
//! secret anywhere.

mod servers;

use iopj_meter::http::{self, HttpConfig};
use iopj_meter::redfish::{self, RedfishConfig};
use iopj_meter::{ChannelKind, Meter, MeterError, OpenError, Reading, Scope, Value};
use serde_json::json;
use servers::{Lighttpd, PASSWORD, Server, node_exporter};

fn plug(server: &Server, json: serde_json::Value) -> HttpConfig {
    let mut all = json!({"url": server.url("/"), "timeout_s": 60.0});
    all.as_object_mut().unwrap().extend(json.as_object().unwrap().clone());
    serde_json::from_value(all).unwrap()
}

/// One value at `/w` of `path`.
fn instrument(server: &Server, path: &str) -> HttpConfig {
    plug(server, json!({"url": server.url(path), "values": [{"pointer": "/w"}]}))
}

fn bmc(server: &Server, json: serde_json::Value) -> RedfishConfig {
    let mut all = json!({"url": server.url(""), "user": "reader", "password_file": server.path("password"),
        "timeout_s": 60.0, "ca_file": server.path("ca.pem"), "chassis": "1"});
    all.as_object_mut().unwrap().extend(json.as_object().unwrap().clone());
    all.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    serde_json::from_value(all).unwrap()
}

fn read(meter: &mut dyn Meter) -> Result<Vec<Reading>, MeterError> {
    let mut readings = Vec::new();
    meter.read(&mut readings).map(|()| readings)
}

fn values(meter: &mut dyn Meter) -> Vec<(usize, Value)> {
    read(meter).unwrap().into_iter().map(|reading| (reading.channel, reading.value)).collect()
}

fn refused<T>(opened: Result<T, OpenError>) -> String {
    let Err(OpenError(text)) = opened else { panic!("it opened") };
    assert!(!text.contains("sesame"), "{text}");
    text
}

/// The meter answers, is killed, is tried again, and answers after its restart.
fn survives_a_restart(server: &mut Server, meter: &mut dyn Meter) {
    assert!(read(meter).is_ok());
    server.kill();
    for _ in 0..2 {
        let error = read(meter).unwrap_err();
        assert!(
            matches!(&error, MeterError::Retry(text)
                if text.contains("127.0.0.1") && !text.contains("sesame")),
            "{error}"
        );
    }
    server.restart();
    // A kept connection may break once more.
    let again = read(meter).or_else(|_| read(meter)).unwrap();
    assert!(!again.is_empty());
}

#[test]
fn plugs_are_read_by_their_presets() {
    let Some(server) = Server::start() else { return };
    let mut meter = opened_http(&plug(&server, json!({"preset": "shelly-gen1"}))).unwrap();
    assert_eq!(values(&mut *meter), [(0, Value::Watts(41.7)), (1, Value::Count(26_354_220_000))]);
    // The counter has not moved: only power is new.
    let readings = read(&mut *meter).unwrap();
    assert_eq!((readings.len(), readings[0].channel, readings[0].own_ns), (1, 0, None));
    assert!(readings[0].begin_ns < readings[0].end_ns && readings[0].wall_ns > 0);
    let channels = meter.channels();
    assert_eq!(
        (channels[0].kind, channels[0].scope, channels[0].resolution),
        (ChannelKind::Instant, Scope::System, 0.1)
    );

    let mut meter = opened_http(&plug(&server, json!({"preset": "shelly-gen2", "outlet": 1}))).unwrap();
    assert_eq!(values(&mut *meter), [(0, Value::Watts(8.9)), (1, Value::Count(50_734_800))]);

    let tasmota = json!({"preset": "tasmota", "user": "reader", "password_file": server.path("password")});
    let mut meter = opened_http(&plug(&server, tasmota)).unwrap();
    assert_eq!(values(&mut *meter), [(0, Value::Watts(5.0)), (1, Value::Count(13_338_000_000))]);
}

#[test]
fn a_plug_that_dies_is_tried_again_and_is_good_again() {
    let Some(mut server) = Server::start() else { return };
    let mut meter = opened_http(&plug(&server, json!({"preset": "shelly-gen1"}))).unwrap();
    survives_a_restart(&mut server, &mut *meter);
}

#[test]
fn credentials_are_taken_or_refused_and_never_shown() {
    let Some(server) = Server::start() else { return };
    let with = |path: &str, user: Option<&str>, file: &str| {
        let mut config = instrument(&server, path);
        config.user = user.map(str::to_owned);
        config.password_file = Some(server.path(file));
        assert!(!format!("{config:?}").contains("sesame"));
        opened_http(&config).map(|mut meter| values(&mut *meter))
    };
    assert_eq!(with("/basic", Some("reader"), "password").unwrap(), [(0, Value::Watts(1.5))]);
    assert_eq!(with("/bearer", None, "password").unwrap(), [(0, Value::Watts(2.5))]);
    for error in [with("/basic", Some("reader"), "wrong"), with("/bearer", None, "wrong")] {
        assert!(refused(error).contains("does not accept the credentials (401)"));
    }
    let tasmota = json!({"preset": "tasmota", "user": "reader", "password_file": server.path("wrong")});
    let error = refused(opened_http(&plug(&server, tasmota)));
    assert!(error.contains("/cm` does not accept"), "{error}");
    let shelly = json!({"preset": "shelly-gen2", "outlet": 1, "password_file": server.path("password")});
    // One that asks for nothing is told nothing.
    assert!(opened_http(&plug(&server, shelly)).is_ok());
    assert!(server.log().contains(&"GET /rpc/Switch.GetStatus none".to_owned()));
    let arguments = std::fs::read("/proc/self/cmdline").unwrap();
    assert!(!String::from_utf8_lossy(&arguments).contains(PASSWORD));
}

#[test]
fn a_real_server_takes_the_digest_of_a_plug_of_the_second_generation() {
    let Some(server) = Lighttpd::start() else { return };
    let open = |file: &str| {
        let json = json!({
            "url": format!("http://127.0.0.1:{}", server.port), "preset": "shelly-gen2",
            "password_file": server.folder.path().join(file), "timeout_s": 60.0,
        });
        opened_http(&serde_json::from_value(json).unwrap())
    };
    let mut meter = open("password").unwrap();
    assert_eq!(values(&mut *meter), [(0, Value::Watts(7.5)), (1, Value::Count(9_000_000))]);
    for _ in 0..20 {
        assert_eq!(values(&mut *meter), [(0, Value::Watts(7.5))]);
    }
    assert!(refused(open("wrong")).contains("does not accept the credentials (401)"));
}

#[test]
fn what_is_at_fault_is_named_with_cause_and_remedy() {
    let Some(server) = Server::start() else { return };
    for (path, words) in [
        ("/away", "is somewhere else"),
        ("/cut", "not JSON"),
        ("/null", "no value at `/w` now"),
        ("/meter/0", "has nothing at `/w`"),
        ("/status/403", "(403)"),
        ("/status/404", "does not exist (404)"),
        ("/status/503", "answers 503"),
        ("/endless", "more than 4 MiB"),
    ] {
        let error = refused(opened_http(&instrument(&server, path)));
        assert!(error.contains(words) && error.contains(path), "{path}: {error}");
    }
    // The redirect was not followed.
    assert_eq!(server.log().iter().filter(|line| line.contains("/meter/0")).count(), 1);
    let seconds = json!({"url": server.url("/seconds"), "values": [{"pointer": "/w", "time": "/t"}]});
    assert!(refused(opened_http(&plug(&server, seconds))).contains("age_s"));
}

#[test]
fn a_server_that_hangs_or_drips_meets_the_time_limit() {
    let Some(server) = Server::start() else { return };
    for path in ["/hang", "/drip"] {
        let mut config = instrument(&server, path);
        config.timeout_s = 0.4;
        assert!(refused(opened_http(&config)).contains("does not answer in time"), "{path}");
    }
}

#[test]
fn the_node_exporter_is_scraped() {
    let Some((exporter, port)) = node_exporter() else { return };
    let values = json!([
        {"name": "load", "metric": "node_load1", "time": "node_time_seconds"},
        {"name": "idle", "metric": "node_cpu_seconds_total", "labels": {"cpu": "0", "mode": "idle"},
         "kind": "counter", "scope": "core"},
    ]);
    let url = format!("http://127.0.0.1:{port}");
    let mut json = json!({"url": url, "preset": "prometheus", "timeout_s": 60.0, "values": values});
    let mut meter = opened_http(&serde_json::from_value(json.clone()).unwrap()).unwrap();
    let readings = read(&mut *meter).unwrap();
    let (Value::Watts(load), Value::Count(idle)) = (readings[0].value, readings[1].value) else {
        panic!("{readings:?}")
    };
    assert!((0.0..1e4).contains(&load) && idle > 0);
    // Both are of the same clock; an hour is far beyond what the scrape takes.
    assert!(readings[0].own_ns.unwrap().abs_diff(readings[0].wall_ns) < 3_600_000_000_000);
    json["values"] =
        json!([{"metric": "node_cpu_seconds_total", "labels": {"mode": "idle", "cpu": "no such"}}]);
    assert!(refused(opened_http(&serde_json::from_value(json.clone()).unwrap())).contains("no metric"));
    json["values"] = json!([{"metric": "node_cpu_seconds_total", "labels": {"cpu": "0"}}]);
    assert!(refused(opened_http(&serde_json::from_value(json).unwrap())).contains("give more labels"));
    drop(exporter);
    assert!(matches!(read(&mut *meter), Err(MeterError::Retry(_))));
}

#[test]
fn a_certificate_is_checked_by_default() {
    let Some(server) = Server::start_tls() else { return };
    let error = refused(opened_redfish(&bmc(&server, json!({"ca_file": null}))));
    assert!(error.contains("cannot be trusted") && error.contains("ca_file"), "{error}");
    // Nothing was sent to a server that cannot be trusted.
    assert_eq!(std::fs::read_to_string(server.path("log")).unwrap(), "");
    assert!(opened_redfish(&bmc(&server, json!({}))).is_ok());
    assert!(opened_redfish(&bmc(&server, json!({"ca_file": null, "insecure": true}))).is_ok());
    assert!(refused(opened_redfish(&bmc(&server, json!({"insecure": true})))).contains("contradict"));
    assert!(
        refused(opened_redfish(&bmc(&server, json!({"ca_file": server.path("password")}))))
            .contains("no certificate")
    );
    // The name is checked too: the certificate is of 127.0.0.1 only. Not by `localhost`, which a bare machine
    // may not know.
    let other = json!({"url": format!("https://0.0.0.0:{}", server.port)});
    let opened = redfish::open(&bmc(&server, other), iopj_core::Allow::ALL);
    assert!(refused(opened).contains("cannot be trusted"));
    let mut over_https = instrument(&server, "/bearer");
    (over_https.ca_file, over_https.password_file) =
        (Some(server.path("ca.pem")), Some(server.path("password")));
    assert_eq!(values(&mut *opened_http(&over_https).unwrap()), [(0, Value::Watts(2.5))]);
}

#[test]
fn a_chassis_tells_power_and_energy_in_a_session() {
    let Some(server) = Server::start_tls() else { return };
    let mut meter = opened_redfish(&bmc(&server, json!({}))).unwrap();
    let names: Vec<&str> = meter.channels().iter().map(|channel| channel.name.as_str()).collect();
    assert_eq!(names, ["1 power", "1 energy"]);
    assert_eq!(meter.channels()[1].parent.as_deref(), Some("1 power"));
    assert_eq!(values(&mut *meter), [(0, Value::Watts(374.2)), (1, Value::Count(1_172_430_000))]);
    // A token is good for twenty requests: these need a second session, unnoticed by the caller.
    for _ in 0..30 {
        assert_eq!(values(&mut *meter), [(0, Value::Watts(374.2))]);
    }
    drop(meter);
    let log = server.log();
    let count = |start: &str| log.iter().filter(|line| line.starts_with(start)).count();
    assert_eq!(count("POST /redfish/v1/SessionService/Sessions none"), 2);
    assert_eq!(count("DELETE /redfish/v1/SessionService/Sessions/token1 token"), 1);
    assert!(!log.iter().any(|line| line.contains("Basic")), "{log:?}");
}

#[test]
fn an_older_chassis_tells_power_and_its_mean_with_basic_authentication() {
    let Some(server) = Server::start_tls() else { return };
    let mut meter = opened_redfish(&bmc(&server, json!({"chassis": "Old", "login": "basic"}))).unwrap();
    assert_eq!(values(&mut *meter), [(0, Value::Watts(344.0)), (1, Value::Watts(319.5))]);
    let average = &meter.channels()[1];
    assert_eq!((average.name.as_str(), average.resolution), ("Old average", 0.1));
    assert_eq!(average.kind, ChannelKind::Average { window_ns: 1_200_000_000_000 });
    assert!(!server.log().iter().any(|line| line.starts_with("POST")));
}

#[test]
fn the_chassis_and_the_user_must_be_clear() {
    let Some(server) = Server::start_tls() else { return };
    let error = refused(opened_redfish(&bmc(&server, json!({"chassis": null}))));
    assert!(error.contains("several chassis") && error.contains("1, Old"), "{error}");
    // A fan tray without a power reading is not offered.
    for chassis in ["Fan", "2"] {
        let error = refused(opened_redfish(&bmc(&server, json!({"chassis": chassis}))));
        assert!(error.ends_with("name one of these as `chassis`: 1, Old"), "{error}");
    }
    let wrong = json!({"password_file": server.path("wrong")});
    assert!(refused(opened_redfish(&bmc(&server, wrong.clone()))).contains("Sessions` does not accept"));
    let mut basic = bmc(&server, wrong);
    basic.login = redfish::RedfishLogin::Basic;
    assert!(refused(opened_redfish(&basic)).contains("(401)"));
    assert!(refused(opened_redfish(&bmc(&server, json!({"user": null})))).contains("belong together"));
    assert!(refused(opened_redfish(&bmc(&server, json!({"url": "http://127.0.0.1/"})))).contains("https://"));
}

#[test]
fn a_controller_that_dies_is_tried_again_and_is_good_again() {
    let Some(mut server) = Server::start_tls() else { return };
    let mut meter = opened_redfish(&bmc(&server, json!({}))).unwrap();
    survives_a_restart(&mut server, &mut *meter);
}

fn opened_http(config: &HttpConfig) -> Result<Box<dyn Meter>, OpenError> {
    http::open(config, iopj_core::Allow::NOTHING)
}

fn opened_redfish(config: &RedfishConfig) -> Result<Box<dyn Meter>, OpenError> {
    redfish::open(config, iopj_core::Allow::NOTHING)
}
