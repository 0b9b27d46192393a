//! The codec, invalid configurations, and agents that misbehave.

use super::*;
use crate::meter::values;
use ber::Reader;
use proptest::prelude::*;
use serde_json::json;
use std::net::UdpSocket;
use std::thread;

fn config(json: serde_json::Value) -> SnmpConfig {
    serde_json::from_value(json).unwrap()
}

fn one_outlet(host: &str) -> SnmpConfig {
    config(json!({
        "host": host, "timeout_ms": 30_000, "retries": 0,
        "channels": [{ "name": "outlet 3", "preset": "apc-outlet-power", "index": 3 }],
    }))
}

fn why(config: &SnmpConfig) -> String {
    opened_snmp(config).err().expect("must be refused").0
}

/// An answer to a request, made of the request's own octets: the value in place of NULL.
fn answer(request: &[u8], id: impl Fn(i32) -> i32, value: &[u8]) -> Vec<u8> {
    let mut message = Reader(request).sequence().unwrap();
    message.integer().unwrap();
    let community = message.octets().unwrap();
    let mut pdu = Reader(message.take(message::GET).unwrap());
    let request_id = pdu.integer().unwrap();
    pdu.integer().unwrap();
    pdu.integer().unwrap();
    let oid = pdu.sequence().unwrap().sequence().unwrap().oid().unwrap();
    let list = ber::sequence(&[ber::sequence(&[ber::oid(&oid), value.to_vec()])]);
    let pdu = [ber::integer(id(request_id)), ber::integer(0), ber::integer(0), list];
    ber::sequence(&[ber::integer(1), ber::octets(community), ber::constructed(message::RESPONSE, &pdu)])
}

/// Starts an agent that answers each request by `reply`; returns its address.
fn agent(reply: impl Fn(usize, &[u8]) -> Vec<Vec<u8>> + Send + 'static) -> String {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap().to_string();
    thread::spawn(move || {
        let mut buffer = [0; 2048];
        for number in 0.. {
            let Ok((length, from)) = socket.recv_from(&mut buffer) else { return };
            for datagram in reply(number, &buffer[..length]) {
                socket.send_to(&datagram, from).unwrap();
            }
        }
    });
    address
}

#[test]
fn late_foreign_and_broken_answers_are_passed_over() {
    let address = agent(|number, request| {
        let good = answer(request, |id| id, &ber::tlv(ber::GAUGE32, &[number as u8 + 100]));
        let late = answer(request, |id| id - 1, &ber::integer(7));
        vec![vec![], vec![0x30, 0x84, 0xff, 0xff, 0xff, 0xff], late, good[..good.len() - 1].to_vec(), good]
    });
    let mut meter = opened_snmp(&one_outlet(&address)).unwrap();
    assert_eq!(values(meter.as_mut()), [Value::Watts(101.0)]);
    assert_eq!(values(meter.as_mut()), [Value::Watts(102.0)]);
}

#[test]
fn a_lost_answer_is_asked_for_again_within_the_limit() {
    let address = agent(
        |number, request| {
            if number == 0 { vec![] } else { vec![answer(request, |id| id, &ber::integer(55))] }
        },
    );
    // Any try after the first may be answered in time.
    let patient = SnmpConfig { timeout_ms: 3_300, retries: 10, ..one_outlet(&address) };
    let mut meter = opened_snmp(&patient).unwrap();
    assert_eq!(values(meter.as_mut()), [Value::Watts(55.0)]);
    let once = SnmpConfig { timeout_ms: 300, ..one_outlet(&agent(|_, _| vec![])) };
    assert!(why(&once).contains("within 300 ms"), "{}", why(&once));
}

#[test]
fn what_is_not_measured_is_no_power() {
    let says =
        |value: Vec<u8>| why(&one_outlet(&agent(move |_, request| vec![answer(request, |id| id, &value)])));
    let minus_one = says(ber::integer(-1));
    assert!(minus_one.contains("not measured"), "{minus_one}");
    let absent = says(ber::tlv(ber::NO_SUCH_INSTANCE, &[]));
    assert!(absent.contains("no variable 1.3.6.1.4.1.318.1.1.26.9.4.3.1.7.3"), "{absent}");
    let text = says(ber::octets(b"230"));
    assert!(text.contains("not a number (ASN.1 tag 0x04)"), "{text}");
}

#[test]
fn counters_keep_every_bit_and_know_where_they_wrap() {
    let counter = |value: Vec<u8>| {
        let mut config = one_outlet(&agent(move |_, request| vec![answer(request, |id| id, &value)]));
        let channel = json!({ "name": "e", "oid": "1.3.6.1.4.1.1.1", "kind": "counter", "unit": 3600.0 });
        config.channels = vec![serde_json::from_value(channel).unwrap()];
        let mut meter = opened_snmp(&config).unwrap();
        let ChannelKind::Counter { joules_per_count, wrap } = meter.channels()[0].kind else {
            panic!("no counter")
        };
        assert_eq!(joules_per_count, 3600.0);
        (values(meter.as_mut())[0], wrap.map(|wrap| wrap.range))
    };
    let all = [0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
    assert_eq!(counter(ber::tlv(ber::COUNTER64, &all)), (Value::Count(u64::MAX), None));
    assert_eq!(counter(ber::tlv(ber::COUNTER32, &all[..5])), (Value::Count(0xffff_ffff), Some(1 << 32)));
    assert_eq!(counter(ber::tlv(ber::GAUGE32, &[1, 0])), (Value::Count(256), Some(1 << 32)));
    assert_eq!(counter(ber::integer(9)), (Value::Count(9), None));
}

#[test]
fn contradictions_are_refused_before_anything_is_sent() {
    let channel = json!({ "name": "a", "oid": "1.3.6", "kind": "instant" });
    let base = json!({ "host": "127.0.0.1:9", "channels": [channel] });
    let with = |changes: serde_json::Value| {
        let mut all = base.clone();
        all.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        why(&config(all))
    };
    let cases = [
        (json!({ "user": "u" }), "need `version = \"3\"`"),
        (json!({ "version": "3" }), "needs a `user`"),
        (json!({ "version": "3", "user": "u", "auth": "sha256" }), "`auth` needs"),
        (json!({ "version": "3", "user": "u", "privacy": "aes128" }), "`auth` needs"),
        (json!({ "version": "3", "user": "u", "community_env": "PATH" }), "belongs to `version = \"2c\"`"),
        (json!({ "community_file": "/no/such" }), "community_file `/no/such`"),
        (json!({ "timeout_ms": 0 }), "`timeout_ms`"),
        (json!({ "channels": [] }), "`channels`"),
        (json!({ "channels": [{ "name": "a" }] }), "either `preset` and `index`"),
        (json!({ "channels": [{ "name": "a", "oid": "1.3.6", "kind": "average" }] }), "`window_ms`"),
        (json!({ "channels": [{ "name": "a", "oid": "1.3.6", "kind": "instant", "unit": 0.0 }] }), "`unit`"),
        (
            json!({ "channels": [{ "name": "a", "preset": "apc-device-power", "index": 1, "chain": 2 }] }),
            "`chain`",
        ),
    ];
    for (changes, part) in cases {
        let text = with(changes);
        assert!(text.contains(part), "{text}");
    }
    let unknown = json!({ "host": "h", "channels": [], "community": "private" });
    assert!(
        serde_json::from_value::<SnmpConfig>(unknown).is_err(),
        "a community is never written into a study"
    );
}

#[test]
fn a_request_has_the_octets_of_the_rfcs() {
    // What `snmpget -v2c -c public -d` sends for this variable, with its own request id.
    let expected = [
        0x30, 0x2f, 0x02, 0x01, 0x01, 0x04, 0x06, 0x70, 0x75, 0x62, 0x6c, 0x69, 0x63, 0xa0, 0x22, 0x02, 0x04,
        0x21, 0x1c, 0x1f, 0x65, 0x02, 0x01, 0x00, 0x02, 0x01, 0x00, 0x30, 0x14, 0x30, 0x12, 0x06, 0x0e, 0x2b,
        0x06, 0x01, 0x04, 0x01, 0x82, 0x3e, 0x01, 0x01, 0x1a, 0x04, 0x03, 0x01, 0x05, 0x05, 0x00,
    ];
    let oid: Oid = ".1.3.6.1.4.1.318.1.1.26.4.3.1.5".parse().unwrap();
    let sent = message::encode_2c("public", message::get(0x211c_1f65, &[oid]));
    assert_eq!(sent, expected);
}

proptest! {
    #[test]
    fn object_identifiers_come_back(
        first in 0u32..3,
        second in 0u32..40,
        rest in prop::collection::vec(any::<u32>(), 0..20),
    ) {
        let arcs: Vec<String> = [first, second].iter().chain(&rest).map(u32::to_string).collect();
        let oid: Oid = arcs.join(".").parse().unwrap();
        prop_assert_eq!(oid.to_string(), arcs.join("."));
        let octets = ber::oid(&oid);
        prop_assert_eq!(Reader(&octets).oid(), Ok(oid));
    }

    #[test]
    fn integers_come_back_in_the_fewest_octets(value in any::<i32>()) {
        let octets = ber::integer(value);
        prop_assert_eq!(Reader(&octets).integer(), Ok(value));
        let content = octets.len() as u32 - 2;
        prop_assert!(content == 1 || !matches!(value >> (8 * content - 9), 0 | -1), "{:?}", octets);
    }

    #[test]
    fn lengths_come_back(length in 0usize..70_000) {
        let octets = ber::octets(&vec![7; length]);
        prop_assert_eq!(Reader(&octets).octets().map(<[u8]>::len), Ok(length));
        prop_assert!(Reader(&octets[..octets.len() - 1]).octets().is_err());
    }

    #[test]
    fn any_octets_are_harmless(octets in prop::collection::vec(any::<u8>(), 0..200)) {
        is_snmp(&octets);
    }

    #[test]
    fn a_changed_message_is_harmless(
        at in any::<prop::sample::Index>(),
        to in any::<u8>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut user = v3::User::new("u".into(), None, 0);
        for mut whole in [
            user.encode(5, &[]),
            message::encode_2c("public", message::get(5, &["1.3.6.1".parse().unwrap()])),
        ] {
            prop_assert!(is_snmp(&whole));
            let at = at.index(whole.len());
            whole[at] = to;
            is_snmp(&whole);
            is_snmp(&whole[..cut.index(whole.len())]);
        }
    }
}

fn opened_snmp(config: &SnmpConfig) -> Result<Box<dyn Meter>, OpenError> {
    open_snmp(config, iopj_core::Allow::NOTHING)
}
