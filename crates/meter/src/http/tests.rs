//! Configurations, and readings from the answers of known devices.

use super::*;
use crate::meter::{ChannelKind, Scope};
use serde_json::json;

fn config(toml: serde_json::Value) -> Result<HttpConfig, serde_json::Error> {
    serde_json::from_value(toml)
}

fn request(json: serde_json::Value) -> Result<Request, OpenError> {
    config(json).unwrap().request()
}

fn numbers(json: serde_json::Value, text: &str) -> Result<Vec<f64>, MeterError> {
    let answers = answers(&request(json).unwrap(), text, "http://plug/x")?;
    Ok(answers.into_iter().map(|answer| answer.number).collect())
}

/// A port beyond 65535 became that of the scheme, and another server was asked.
#[test]
fn an_address_has_a_port_that_there_is_and_no_password_in_its_host() {
    use crate::http_client::parse_url;
    for good in ["http://a", "http://a:1", "http://[::1]", "https://[::1]:65535/x?a=b:0"] {
        assert!(parse_url(good).is_ok(), "{good}");
    }
    for bad in ["http://a:99999/x", "http://a:65536", "http://a:0", "http://[::1]:70000", "http://a:/"] {
        let error = parse_url(bad).unwrap_err().to_string();
        assert!(error.contains("has a port that is no number from 1 to 65535"), "{error}");
    }
    for url in ["http://{password}/x", "http://a:{password}/x", "{password}://a"] {
        let json = json!({"url": url, "values": [{"pointer": "/w"}]});
        let config: HttpConfig = serde_json::from_value(json).unwrap();
        let error = config.request().unwrap_err().to_string();
        assert!(error.contains("has {password} in its host"), "{error}");
    }
}

#[test]
fn the_presets_know_their_devices() {
    let shelly1 = r#"{"power": 2.21, "is_valid": true, "timestamp": 1680779310,
        "counters": [2.115, 2.114, 2.142], "total": 439237}"#;
    let json = json!({"url": "http://plug", "preset": "shelly-gen1", "outlet": 1});
    assert_eq!(request(json.clone()).unwrap().path, "/meter/1");
    assert_eq!(numbers(json.clone(), shelly1), Ok(vec![2.21, 439_237.0]));
    let invalid = numbers(json, &shelly1.replace("true", "false")).unwrap_err();
    assert!(matches!(invalid, MeterError::Retry(text) if text.contains("not valid")));

    let shelly2 = r#"{"id": 0, "output": true, "apower": 8.9,
        "aenergy": {"total": 14.093, "by_minute": [1.5, 2, 3], "minute_ts": 1626935779}}"#;
    let json = json!({"url": "http://plug/", "preset": "shelly-gen2"});
    assert_eq!(request(json.clone()).unwrap().path, "/rpc/Switch.GetStatus?id=0");
    assert_eq!(numbers(json, shelly2), Ok(vec![8.9, 14.093]));

    let tasmota = r#"{"StatusSNS": {"Time": "2022-01-11T21:57:38",
        "ENERGY": {"Total": 3.705, "Today": 0.026, "Power": 5, "Factor": 1.00}}}"#;
    let json = json!({"url": "http://plug", "preset": "tasmota"});
    assert_eq!(request(json.clone()).unwrap().path, "/cm?cmnd=Status%208");
    assert_eq!(numbers(json, tasmota), Ok(vec![5.0, 3.705]));
}

#[test]
fn channels_carry_unit_step_scope_and_parent() {
    let config = config(json!({"url": "http://plug", "preset": "tasmota", "scope": "device"})).unwrap();
    let values = config.request().unwrap().values;
    let answer = |number| Answer { number, own_ns: None, is_whole_second: false };
    let channels = channels(&config, &values, &[answer(5.0), answer(3.705)]);
    assert_eq!(
        (channels[0].name.as_str(), channels[0].scope, channels[0].resolution),
        ("power", Scope::Device, 1.0)
    );
    assert_eq!((&channels[0].parent, &channels[1].parent), (&None, &Some("power".to_owned())));
    assert!((channels[1].resolution - 3600.0).abs() < 1e-6);
    assert_eq!(channels[1].kind, ChannelKind::Counter { joules_per_count: 1e-3, wrap: None });
    assert_eq!(config.age_ns(), 1_000_000_000);
    assert_eq!(
        (count_of(3.705 * 3.6e6), count_of(-1.0), count_of(f64::NAN), count_of(1e13)),
        (Some(13_338_000_000), None, None, None)
    );
}

#[test]
fn a_meters_own_time_is_read_to_the_fraction() {
    let value = json!({"pointer": "/w", "time": "/t", "time_factor": 0.001, "factor": 0.001});
    let json = json!({"url": "http://x", "values": [value]});
    let read = |text| answers(&request(json.clone()).unwrap(), text, "x").unwrap()[0];
    assert_eq!(read(r#"{"w": 41700, "t": 1700000000250}"#).own_ns, Some(1_700_000_000_250_000_000));
    assert!(read(r#"{"w": 41700, "t": 1700000000250}"#).is_whole_second);
    assert!(!read(r#"{"w": 41700, "t": 1700000000250.5}"#).is_whole_second);
    assert_eq!((own_ns(-0.25, 1.0), own_ns(1e300, 1.0)), (-250_000_000, i64::MAX));
}

#[test]
fn what_is_missing_lasts_and_what_is_null_does_not() {
    let json = json!({"url": "http://x", "values": [{"pointer": "/w"}]});
    for (text, lasts) in [("{}", true), (r#"{"w": [1]}"#, true), (r#"{"w": null}"#, false), ("<html>", false)]
    {
        let error = numbers(json.clone(), text).unwrap_err();
        assert_eq!(matches!(error, MeterError::Fatal(_)), lasts, "{text}: {error}");
        assert!(error.to_string().contains("`http://plug/x`"));
    }
    let json = json!({"url": "http://x", "preset": "prometheus", "values": [{"metric": "w"}]});
    assert_eq!(request(json.clone()).unwrap().path, "/metrics");
    for (text, lasts) in [("v 1\n", true), ("w 1\nw{a=\"b\"} 2\n", true), ("w NaN\n", false), ("w\n", false)]
    {
        let error = numbers(json.clone(), text).unwrap_err();
        assert_eq!(matches!(error, MeterError::Fatal(_)), lasts, "{text}: {error}");
    }
}

#[test]
fn configurations_that_contradict_themselves_are_refused() {
    let value = json!({"pointer": "/w"});
    let with = |key: &str, entry: serde_json::Value| {
        let mut json = json!({"url": "http://x/y", "values": [{"pointer": "/w"}]});
        json[key] = entry;
        json
    };
    for (json, word) in [
        (with("values", json!([])), "reads nothing"),
        (with("values", json!([value, value])), "one name"),
        (with("values", json!([{"name": "x"}])), "pointer or a metric"),
        (with("values", json!([{"pointer": "w"}])), "begin with `/`"),
        (with("values", json!([{"pointer": "/w", "labels": {"a": "b"}}])), "labels"),
        (with("values", json!([{"pointer": "/w", "time": "t"}])), "time"),
        (with("values", json!([{"pointer": "/w", "kind": "average"}])), "window_s"),
        (with("values", json!([{"pointer": "/w", "window_s": 1}])), "window_s"),
        (with("values", json!([{"pointer": "/w", "factor": 0}])), "factor"),
        (with("values", json!([{"pointer": "/w", "resolution": -1}])), "resolution"),
        (with("values", json!([value, {"name": "v", "metric": "m"}])), "pointers and metrics"),
        (with("preset", json!("shelly-gen1")), "preset"),
        (with("preset", json!("prometheus")), "name metrics"),
        (with("outlet", json!(1)), "outlet"),
        (with("age_s", json!(-1)), "age_s"),
    ] {
        let OpenError(text) = request(json.clone()).unwrap_err();
        assert!(text.contains(word), "{json}: {text}");
    }
    assert!(config(with("password", json!("sesame"))).is_err());
    assert!(config(with("preset", json!("shelly"))).is_err());
}

#[test]
fn a_configuration_is_the_same_after_writing_and_reading() {
    let value = json!({
        "metric": "w", "labels": {"a": "b"}, "kind": "counter", "factor": 3600.0, "scope": "package",
    });
    let json = json!({
        "url": "http://x", "preset": "prometheus", "user": "me", "password_env": "P", "age_s": 2.5,
        "values": [value],
    });
    let first = config(json).unwrap();
    assert_eq!(config(serde_json::to_value(&first).unwrap()).unwrap(), first);
}

/// `meter test` showed numbers of 309 digits as watts.
#[test]
fn a_power_that_no_meter_shows_is_none() {
    use std::io::{BufRead, BufReader, Write};
    for (power, is_right) in [("95.5", true), ("-3", true), ("1e308", false), ("-1e300", false)] {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://127.0.0.1:{}/", listener.local_addr().unwrap().port());
        let served = std::thread::spawn(move || {
            // Once to open it, and once to read it.
            for mut stream in listener.incoming().take(2).map(Result::unwrap) {
                let head = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
                assert!(head.take_while(|line| !line.is_empty()).count() > 0);
                let body = format!("{{\"power\": {power}}}");
                let length = body.len();
                let head =
                    format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
                stream.write_all((head + &body).as_bytes()).unwrap();
            }
        });
        let json = json!({"url": url, "timeout_s": 60.0, "values": [{"pointer": "/power"}]});
        let mut meter = open(&config(json).unwrap(), Allow::NOTHING).unwrap();
        let read = meter.read(&mut Vec::new());
        served.join().unwrap();
        let text = read.as_ref().err().map_or(String::new(), ToString::to_string);
        assert_eq!(read.is_ok(), is_right, "{power}: {text}");
        assert!(
            is_right || text.contains("which no meter shows: check its pointer and its factor"),
            "{text}"
        );
    }
}

#[test]
fn passwords_in_a_query_are_percent_encoded() {
    assert_eq!(escaped("a-Z.0_~ &=%π"), "a-Z.0_~%20%26%3D%25%CF%80");
}

/// A token in a url stood in the study, and so in the store and on the page.
#[test]
fn a_password_takes_its_place_in_a_url_and_is_not_shown() {
    use std::io::{BufRead, BufReader, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let served = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
        let first = head.next().unwrap();
        let rest: Vec<String> = head.take_while(|line| !line.is_empty()).collect();
        stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n").unwrap();
        (first, rest.join("\n").to_ascii_lowercase())
    });
    let folder = tempfile::tempdir().unwrap();
    let password = folder.path().join("password");
    std::fs::write(&password, "open sesame\n").unwrap();
    let url = format!("http://127.0.0.1:{port}/of/{{password}}?token={{password}}&x=1");
    let json =
        json!({"url": url, "timeout_s": 60.0, "values": [{"pointer": "/w"}], "password_file": password});
    let text = open(&config(json).unwrap(), Allow::NOTHING).err().unwrap().to_string();
    assert!(text.contains("/of/{password}`") && !text.contains("sesame"), "{text}");
    let (line, headers) = served.join().unwrap();
    assert_eq!(line, "GET /of/open%20sesame?token=open%20sesame&x=1 HTTP/1.1");
    assert!(!headers.contains("authorization"), "{headers}");
    let json = json!({"url": "http://127.0.0.1:9/{password}", "values": [{"pointer": "/w"}]});
    let text = open(&config(json).unwrap(), Allow::NOTHING).err().unwrap().to_string();
    assert!(text.contains("give password_file or password_env"), "{text}");
}

#[test]
fn readings_keep_one_connection_until_the_server_closes_it() {
    use std::io::{BufRead, BufReader, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (to_test, closed) = std::sync::mpsc::channel();
    // Each connection serves three requests, with its number as the watts.
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().flatten().enumerate() {
            let lines = BufReader::new(&stream).lines().map_while(Result::ok);
            for _ in lines.filter(String::is_empty).take(3) {
                let body = format!("{{\"power\": {number}}}");
                let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
                (&stream).write_all(answer.as_bytes()).unwrap();
            }
            drop(stream);
            to_test.send(()).unwrap();
        }
    });
    let url = format!("http://127.0.0.1:{port}/");
    let json = json!({"url": url, "timeout_s": 60.0, "values": [{"pointer": "/power"}]});
    let mut meter = open(&config(json).unwrap(), Allow::NOTHING).unwrap();
    let mut readings = Vec::new();
    for number in 2..=6 {
        meter.read(&mut readings).unwrap();
        if number % 3 == 0 {
            closed.recv().unwrap();
        }
    }
    let watts: Vec<Value> = readings.into_iter().map(|reading| reading.value).collect();
    // The first request was that of `open`.
    assert_eq!(watts, [0.0, 0.0, 1.0, 1.0, 1.0].map(Value::Watts));
}

/// A server that answers each request with the next of these, and keeps the credentials that it was sent.
fn scripted(
    answers: Vec<(&'static str, &'static str, &'static str)>,
) -> (u16, std::thread::JoinHandle<Vec<String>>) {
    use std::io::{BufRead, BufReader, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let serve = move || {
        let mut answers = answers.into_iter().peekable();
        let mut sent = Vec::new();
        while answers.peek().is_some() {
            let (stream, _) = listener.accept().unwrap();
            let mut lines = BufReader::new(&stream).lines().map_while(Result::ok).peekable();
            while answers.peek().is_some() && lines.peek().is_some() {
                let request: Vec<String> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
                let is_authorization = |line: &&String| line.to_lowercase().starts_with("authorization");
                sent.push(request.iter().find(is_authorization).cloned().unwrap_or_default());
                let (status, header, body) = answers.next().unwrap();
                let length = body.len();
                let answer = format!("HTTP/1.1 {status}\r\n{header}Content-Length: {length}\r\n\r\n{body}");
                (&stream).write_all(answer.as_bytes()).unwrap();
            }
        }
        sent
    };
    (port, std::thread::spawn(serve))
}

#[test]
fn a_nonce_that_is_stale_is_renewed_and_the_reading_is_not_lost() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("password"), "open sesame").unwrap();
    let challenge = |nonce: u32, stale: &str| {
        let text = format!(
            "WWW-Authenticate: Basic realm=\"x\"\r\nWWW-Authenticate: Digest qop=\"auth\", \
             realm=\"shellyplus1-a\", nonce=\"{nonce}\", algorithm=SHA-256{stale}\r\n"
        );
        ("401 Unauthorized", &*text.leak(), "no")
    };
    let good = ("200 OK", "", r#"{"apower": 8.9, "aenergy": {"total": 1}}"#);
    let answers = vec![
        challenge(1, ""),
        good,
        good,
        challenge(2, ", stale=true"),
        good,
        challenge(3, ", stale=true"),
        challenge(4, ", stale=true"),
        challenge(5, ""),
        challenge(6, ""),
        ("401 Unauthorized", "WWW-Authenticate: Digest realm=\"x\", nonce=\"y\"\r\n", ""),
    ];
    let (port, server) = scripted(answers);
    let json = json!({"url": format!("http://127.0.0.1:{port}"), "preset": "shelly-gen2", "timeout_s": 60.0,
        "password_file": folder.path().join("password")});
    let mut meter = open(&config(json).unwrap(), Allow::NOTHING).unwrap();
    let mut readings = Vec::new();
    let mut read = || meter.read(&mut readings).map_err(|error| error.to_string());
    assert_eq!((read(), read()), (Ok(()), Ok(())));
    assert!(read().unwrap_err().contains("rejects the nonce"));
    assert!(read().unwrap_err().contains("does not accept the credentials (401)"));
    assert!(read().unwrap_err().contains("without SHA-256"));
    assert_eq!(readings.len(), 3);
    let sent = server.join().unwrap();
    let used = |text: &String| {
        let part =
            |name: &str| Some(text.split_once(name)?.1.split(',').next()?.trim_matches('"').to_owned());
        Some((part(" nonce=")?, part(" nc=")?))
    };
    let used: Vec<Option<(String, String)>> = sent.iter().map(used).collect();
    let expect = |nonce: &str, count: u32| Some((nonce.to_owned(), format!("{count:08x}")));
    assert_eq!(used[..5], [None, expect("1", 1), expect("1", 2), expect("1", 3), expect("2", 1)]);
    assert!(sent.iter().all(|line| !line.contains("Basic") && !line.contains("sesame")), "{sent:?}");
}
